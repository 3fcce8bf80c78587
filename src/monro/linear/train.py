"""Epochs: in what order to visit the examples, at which rate, on how many threads, how long."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, Self

import numpy as np

from monro._jit import kernel
from monro.linear.solvers import AVERAGED, Problem, Solver, make_solver
from monro.linear.state import Examples, PerExample
from monro.losses import Loss, value
from monro.rows import Array, dot, sqnorm

# Rows visited together when their order is shuffled. Alone, a random row costs more to fetch than
# to use; sixteen neighbours cost little more than in sequence, and still mix well.
_BLOCK_ROWS = 16
_FEWEST_BLOCKS = 512
# Bytes read together where the rows lie in a file, shuffled before: random reads are slow.
_RUN_BYTES = 1 << 20
# Non-zeros between two reports of progress, about a second.
_PART = 1 << 28
_PATIENCE = 3
_SAMPLE = 2000  # rows to try rates on


Report = Callable[[int], None]

# ---------------------------------------------------------------------------- order and evaluation


def visiting_order(n: int, rng: np.random.Generator, near: int = 1) -> Array:
    """Return 0…n-1 in random order, by blocks of neighbouring rows where n is large.

    Of these, about `near` that lie near each other follow one another, in random order.

    Examples
    --------
    >>> sorted(visiting_order(10_000, np.random.default_rng(0))) == list(range(10_000))
    True
    """
    size = min(_BLOCK_ROWS, n // _FEWEST_BLOCKS)
    if size <= 1:
        return rng.permutation(n)
    start = int(rng.integers(size))  # so that the blocks' borders move from epoch to epoch
    n_blocks = (n - start) // size
    order = np.empty(n, np.int64)
    near = min(near, n_blocks // _FEWEST_BLOCKS)
    blocks = rng.permutation(n_blocks) if near <= 1 else _nearby_order(n_blocks, near, rng)
    lay_out_blocks(start + size * blocks, size, order)
    rest = order[size * n_blocks :]
    rest[:start] = np.arange(start)
    rest[start:] = np.arange(start + size * n_blocks, n)
    return order


def _nearby_order(n: int, near: int, rng: np.random.Generator) -> Array:
    """Return 0…n-1 in random order, where `near` that lie near each other stay together."""
    groups = n // near
    inside = rng.permuted(np.tile(np.arange(near), (groups, 1)), axis=1)
    order = near * rng.permutation(groups)[:, None] + inside
    return np.append(order.ravel(), rng.permutation(np.arange(groups * near, n)))


@kernel
def lay_out_blocks(starts: Array, size: int, order: Array) -> None:
    """Write each block's rows, one block after the other."""
    for k in range(starts.size):
        for j in range(size):
            order[size * k + j] = starts[k] + j


@kernel
def total_loss(loss: Loss, examples: Examples, w: Array, b: float) -> float:
    """Return ``Σ weight_i·ℓ(w·x_i + b, y_i)``."""
    total = 0.0
    for i in range(examples.y.size):
        p = dot(examples.rows, i, w) + b
        total += examples.weight[i] * value(loss, p, examples.y[i])
    return total


@kernel
def single_loss(loss: Loss, p: float, y: float) -> float:
    """Return ``ℓ(p, y)`` to Python: called there, a leaf would be compiled by every process."""
    return value(loss, p, y)


@kernel
def total_sqnorm(rows: Any, order: Array) -> float:
    """Return the sum of ``‖x_i‖²`` over `order`."""
    total = 0.0
    for j in range(order.size):
        total += sqnorm(rows, order[j])
    return total


def mean_sqnorm(rows: Any, order: Array) -> float:
    """Return the mean of ``‖x_i‖²`` over `order`."""
    mean = total_sqnorm(rows, order) / order.size
    if not np.isfinite(mean):
        raise ValueError("X: the squared length of a row overflows; scale the features")
    return mean


def mean_loss(problem: Problem, w: Array, b: float) -> float:
    """Return the weighted mean loss over the problem's examples."""
    total = total_loss(problem.loss, problem.examples, w, b)
    return float(total / problem.examples.weight.sum())


def objective(problem: Problem, w: Array, b: float) -> float:
    """Return F(w, b)."""
    return mean_loss(problem, w, b) + 0.5 * problem.lam * float(w @ w)


# -------------------------------------------------------------------------------- the learning rate


def choose_rate(problem: Problem, name: str, decay: float, rng: np.random.Generator) -> float:
    """Find η0 by doubling or halving on a sample of the rows.

    A rate is judged by the loss of each row *before* the step on it, so the sample serves to train
    and to test at once, and a rate that merely memorises does not win. A larger rate must be better
    by a twentieth to be taken, a smaller one by a thousandth: noise costs more in the long run.

    What is best for the few steps of the sample is too much for the many of the fit: a constant
    rate's noise wants it to fall with the square root of their number. So η0 is chosen for the
    schedule to *end* near it. Averaging takes care of noise by itself: it wants the fourth root.
    (The constants are measured: docs/decisions/0007.)
    """
    n = problem.examples.y.size
    order = visiting_order(n, rng)[:_SAMPLE]
    length = mean_sqnorm(problem.examples.rows, order)
    if length == 0.0:
        return 1.0

    def trial(eta0: float) -> float:
        solver = make_solver(problem, name, "bottou", eta0, decay)
        total = solver.sweep(order, solver.start())
        return total if np.isfinite(total) else np.inf

    eta0 = 1.0 / length
    best = trial(eta0)
    for factor, gain in ((2.0, 0.05), (0.5, 0.001)):
        if factor > 1.0 and best == np.inf:
            continue
        start = eta0
        for _ in range(30):
            cost = trial(eta0 * factor)
            if best < np.inf and not cost < best - gain * abs(best):
                break
            eta0, best = eta0 * factor, cost
        if eta0 != start:
            break

    steps = 10 * n  # whatever max_epochs is: five epochs are to be the first five of ten
    power, limit = (0.25, 1.4) if name in AVERAGED else (0.5, 0.63)
    last = eta0 * float((order.size / steps) ** power)
    # Where the ridge alone brings the rate down to nearly that, η0 may stay.
    ridge = decay * problem.lam * last * steps
    room = 1.0 - (ridge / limit) ** 2
    return min(eta0, last / room) if room > 0.0 else eta0


# ------------------------------------------------------------------------------------------ threads


def weight_arrays(state: Any) -> list[Array]:
    """List the arrays of a state that each thread needs for itself."""
    arrays = []
    for part in state:
        if isinstance(part, np.ndarray):
            arrays.append(part)
        elif not isinstance(part, PerExample):
            arrays += weight_arrays(part)
    return arrays


def map_weights(change: Callable[[Array], Array], state: Any) -> Any:
    """Return the state with each of those arrays changed."""
    if isinstance(state, PerExample):
        return state
    parts = (
        change(part) if isinstance(part, np.ndarray) else map_weights(change, part)
        for part in state
    )
    return type(state)(*parts)


def _with_arrays(state: Any, arrays: Iterator[Array]) -> Any:
    return map_weights(lambda _: next(arrays), state)


@kernel
def average_rows(stack: Array) -> None:
    """Replace each row by the mean of all rows."""
    for k in range(stack.shape[1]):
        mean = 0.0
        for i in range(stack.shape[0]):
            mean += stack[i, k]
        mean /= stack.shape[0]
        for i in range(stack.shape[0]):
            stack[i, k] = mean


def parallel_sweep(
    solver: Solver,
    problem: Problem,
    order: Array,
    state: Any,
    pool: ThreadPoolExecutor,
    n_jobs: int,
) -> float:
    """Sweep on several threads, each on its own copy of the weights, averaged many times over.

    Threads that write to shared weights would be slower than one alone: the cache lines of frequent
    features travel between the cores at every step.
    """
    arrays = weight_arrays(state)
    width = sum(array.size for array in arrays)
    work = _nonzeros(problem, order.size) / (n_jobs * width)
    if work < 15:  # averaging would cost more than the second thread brings
        return solver.sweep(order, state)
    merges = int(np.clip(work / 50, 1, 32))
    # Equal shares, so that all copies agree on how many steps were taken.
    share = order.size // (merges * n_jobs)
    shares = order[: merges * n_jobs * share].reshape(merges, n_jobs, share)
    stacks = [np.repeat(array[None], n_jobs, axis=0) for array in arrays]
    copies = [_with_arrays(state, iter([stack[k] for stack in stacks])) for k in range(n_jobs)]
    total = 0.0
    for parts in shares:
        total += sum(pool.map(solver.sweep, parts, copies, repeat(n_jobs)))
        for stack in stacks:
            average_rows(stack)
    for array, stack in zip(arrays, stacks, strict=True):
        array[:] = stack[0]
    return total + solver.sweep(order[shares.size :], state)


def _nonzeros(problem: Problem, n_rows: int) -> float:
    """Return about how many non-zeros that many rows have."""
    rows, y, _ = problem.examples
    return float(n_rows * rows.data.size / y.size)


# ----------------------------------------------------------------------------------------- epochs


class Task:
    """One model to train: a solver and its state. One-vs-rest has a task for each class."""

    def __init__(self, solver: Solver, problem: Problem, state: Any, rng: np.random.Generator):
        self.solver = solver
        self.problem = problem
        self.state = state
        self.rng = rng

    def epoch(
        self, order: Array, pool: ThreadPoolExecutor | None, n_jobs: int, report: Report
    ) -> float:
        """Take one epoch; return the mean loss, each example's taken before its step."""
        self.state = self.solver.begin_epoch(self.state)
        order = self.solver.thin(order, self.state, self.rng)
        total = 0.0
        parts = math.ceil(_nonzeros(self.problem, order.size) / _PART)
        for part in np.array_split(order, max(1, parts)):
            if pool is None:
                total += self.solver.sweep(part, self.state)
            else:
                total += parallel_sweep(self.solver, self.problem, part, self.state, pool, n_jobs)
            report(part.size)
        return total / max(1, order.size)

    def solution(self) -> tuple[Array, float]:
        """Return the weights and the bias."""
        return self.solver.solution(self.state)


class Trainer:
    """Takes epochs on several tasks side by side, all on the same order of the same rows.

    Several tasks share the threads; a single one is split among them. Use it in a ``with`` block,
    which ends the threads.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        shuffle: bool,
        rng: np.random.Generator,
        n_jobs: int,
        mapped: bool = False,
    ):
        self.tasks = tasks
        self.shuffle = shuffle
        self.near = 1
        if mapped:
            problem = tasks[0].problem
            block = _nonzeros(problem, _BLOCK_ROWS) * (problem.examples.rows.data.itemsize + 4)
            self.near = round(_RUN_BYTES / max(1.0, block))
        self.rng = rng
        self.n_jobs = n_jobs
        self.epochs = 0
        self.seconds = 0.0
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def epoch(self, report: Report = lambda rows: None) -> dict[str, float]:
        """Take an epoch, reporting rows as they are done; return its record."""
        begin = time.perf_counter()
        n = self.tasks[0].problem.examples.y.size
        order = visiting_order(n, self.rng, self.near) if self.shuffle else np.arange(n)
        if self._pool is not None and len(self.tasks) > 1:
            alone = (repeat(order), repeat(None), repeat(1), repeat(report))
            losses = list(self._pool.map(Task.epoch, self.tasks, *alone))
        else:
            losses = [task.epoch(order, self._pool, self.n_jobs, report) for task in self.tasks]
        self.epochs += 1
        self.seconds += time.perf_counter() - begin
        return {"epoch": self.epochs, "seconds": self.seconds, "loss": float(np.mean(losses))}


class Stopper:
    """Watches a loss: whether it is the best so far, and whether it has stopped improving."""

    def __init__(self, tol: float | None):
        self.tol = tol or 0.0
        self.best = np.inf
        self.idle = 0

    def improved(self, loss: float) -> bool:
        """Note a loss; tell whether it is the best so far."""
        better = loss < self.best
        self.idle = 0 if loss < self.best - self.tol else self.idle + 1
        self.best = min(self.best, loss)
        return better

    @property
    def exhausted(self) -> bool:
        """Tell whether the last epochs brought no improvement."""
        return self.idle >= _PATIENCE


def curvature_ratio(problem: Problem, rng: np.random.Generator) -> float:
    """Return ``mean ‖x‖² / (λN)``: about how many epochs the dual solver needs."""
    n = problem.examples.y.size
    order = rng.choice(n, min(n, 1000), replace=False)
    return mean_sqnorm(problem.examples.rows, order) / (problem.lam * n)
