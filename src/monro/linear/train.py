"""Epochs of linear models: at which rate, and on how many threads."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import numpy as np

from monro._jit import kernel
from monro.fitting import Record, Report, Threaded, blocks_near, visiting_order
from monro.linear.columns import Columns
from monro.linear.solvers import AVERAGED, Problem, Solver, make_solver
from monro.linear.state import Examples, PerExample
from monro.losses import Loss, value
from monro.mapped import visiting
from monro.rows import Array, dot, sqnorm

# Non-zeros between two reports of progress, about a second.
_PART = 1 << 28
_MAPPED_PART = 1 << 23  # non-zeros of files to ask the system for together
_SAMPLE = 2000  # rows to try rates on

# -------------------------------------------------------------------------------------- evaluation


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

    X: Any = None  # the rows, where they lie in a file

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
        examples = self.problem.examples
        size = _PART if self.X is None else _MAPPED_PART
        parts = math.ceil(_nonzeros(self.problem, order.size) / size)
        for part in np.array_split(order, max(1, parts)):
            with visiting(self.X, part, examples.y, examples.weight):
                if pool is None:
                    total += self.solver.sweep(part, self.state)
                else:
                    total += parallel_sweep(
                        self.solver, self.problem, part, self.state, pool, n_jobs
                    )
            report(part.size)
        return total / max(1, order.size)

    def solution(self) -> tuple[Array, float]:
        """Return the weights and the bias."""
        return self.solver.solution(self.state)


class Trainer(Threaded):
    """Takes epochs on several tasks side by side, all on the same order of the same rows.

    Several tasks share the threads; a single one is split among them. Use it in a ``with`` block,
    which ends the threads.

    Parameters
    ----------
    tasks : sequence of Task
    columns : Columns
        Which columns the tasks have weights for.
    coef_shape : tuple of int
        The shape of ``coef_``.
    shuffle : bool
        Whether each epoch visits the rows in an order of its own.
    rng : Generator
        Makes the orders.
    n_jobs : int
        Threads.
    X : CSR matrix, optional
        The rows, where they lie in a file.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        columns: Columns,
        coef_shape: tuple[int, ...],
        *,
        shuffle: bool,
        rng: np.random.Generator,
        n_jobs: int,
        X: Any = None,
    ):
        super().__init__(rng, n_jobs)
        self.tasks = tasks
        self.columns = columns
        self.coef_shape = coef_shape
        self.shuffle = shuffle
        self.near = 1
        if X is not None:
            for task in tasks:
                task.X = X
            problem = tasks[0].problem
            entry = problem.examples.rows.data.itemsize + 4
            self.near = blocks_near(_nonzeros(problem, 1) * entry)

    @property
    def states(self) -> list[Any]:
        """The tasks' states."""
        return [task.state for task in self.tasks]

    @states.setter
    def states(self, states: list[Any]) -> None:
        for task, state in zip(self.tasks, states, strict=True):
            task.state = state

    @property
    def generators(self) -> list[np.random.Generator]:
        """What orders the rows, and the tasks' own generators."""
        return [self.rng, *(task.rng for task in self.tasks)]

    def solution(self) -> dict[str, Array]:
        """Return `coef_` and `intercept_`."""
        solutions = [task.solution() for task in self.tasks]
        coef = np.array([self.columns.widen(w) for w, _ in solutions])
        return {
            "coef_": coef.reshape(self.coef_shape),
            "intercept_": np.array([b for _, b in solutions]),
        }

    def epoch(self, report: Report = lambda rows: None) -> Record:
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


def curvature_ratio(problem: Problem, rng: np.random.Generator) -> float:
    """Return ``mean ‖x‖² / (λN)``: about how many epochs the dual solver needs."""
    n = problem.examples.y.size
    order = rng.choice(n, min(n, 1000), replace=False)
    return mean_sqnorm(problem.examples.rows, order) / (problem.lam * n)
