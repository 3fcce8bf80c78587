"""Fitting, whatever the model: the order to visit the rows in, and epochs until it is time to stop.

A model brings a `Trainer`, which takes an epoch at a time; `run_epochs` does what is around it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any, Protocol, Self

import numpy as np

from monro._jit import kernel
from monro.progress import Progress
from monro.rows import Array
from monro.storage import Checkpoint, Resumable

# Rows visited together when their order is shuffled. Alone, a random row costs more to fetch than
# to use; sixteen neighbours cost little more than in sequence, and still mix well.
_BLOCK_ROWS = 16
_FEWEST_BLOCKS = 512
# Bytes read together where the rows lie in a file, shuffled before: random reads are slow.
_RUN_BYTES = 1 << 20
_PATIENCE = 3

Record = dict[str, Any]  # numbers, but for what was chosen
Report = Callable[[int], None]

# ------------------------------------------------------------------------------------------- order


def visiting_order(n: int, rng: np.random.Generator, near: int = 1) -> Array:
    """Return 0…n-1 in random order, by blocks of neighbouring rows where n is large.

    Of these, about `near` that lie near each other follow one another, in random order.

    Examples
    --------
    >>> sorted(visiting_order(10_000, np.random.default_rng(0))) == list(range(10_000))
    True
    """
    return Order(n, rng, near)[:]


class Order:
    """A visiting order of which only the blocks are kept: rows are told when they are asked for.

    Parameters
    ----------
    n, rng, near
        As in `visiting_order`.
    """

    def __init__(self, n: int, rng: np.random.Generator, near: int = 1):
        self.size = n
        self._block = max(1, min(_BLOCK_ROWS, n // _FEWEST_BLOCKS))
        start = 0
        if self._block > 1:
            start = int(rng.integers(self._block))  # so that borders move from epoch to epoch
        n_blocks = (n - start) // self._block
        near = min(near, n_blocks // _FEWEST_BLOCKS) if self._block > 1 else 1
        blocks = rng.permutation(n_blocks) if near <= 1 else _nearby_order(n_blocks, near, rng)
        self._starts = start + self._block * blocks
        after = start + self._block * n_blocks
        self._rest = np.append(np.arange(start), np.arange(after, n))

    def __getitem__(self, part: slice) -> Array:
        first, stop, _ = part.indices(self.size)
        size = self._block
        starts = self._starts[first // size : -(-stop // size)]
        rows = np.empty(size * starts.size, np.int64)
        lay_out_blocks(starts, size, rows)
        begin = min(first // size, self._starts.size) * size
        rows = rows[first - begin : stop - begin] if first < begin + rows.size else rows[:0]
        at = size * self._starts.size
        if stop > at:
            rows = np.append(rows, self._rest[max(0, first - at) : stop - at])
        return rows


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


def blocks_near(row_bytes: float) -> int:
    """Return how many blocks to visit near each other, where rows of that size lie in a file."""
    return round(_RUN_BYTES / max(1.0, _BLOCK_ROWS * row_bytes))


# ------------------------------------------------------------------------------------------ epochs


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


class Trainer(Resumable, Protocol):
    """Takes epochs, and tells where they have led."""

    def epoch(self, report: Report = ...) -> Record:
        """Take an epoch, reporting rows as they are done; return its record.

        A record has at least the epoch's number, the seconds so far, and the mean loss.
        """

    def solution(self) -> dict[str, Any]:
        """Return the attributes that the estimator would have if it ended here."""


class Threaded:
    """A trainer with threads of its own, which end with the ``with`` block it is used in.

    Parameters
    ----------
    rng : Generator
        Orders the rows.
    n_jobs : int
        Threads; one is the caller's own.
    """

    def __init__(self, rng: np.random.Generator, n_jobs: int):
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


class SingleTask(Threaded):
    """One with a single state, and no other generator than that of the order."""

    state: Any

    @property
    def states(self) -> list[Any]:
        """What a checkpoint keeps."""
        return [self.state]

    @states.setter
    def states(self, states: list[Any]) -> None:
        (self.state,) = states

    @property
    def generators(self) -> list[np.random.Generator]:
        """What is random from here on."""
        return [self.rng]


def run_epochs(
    estimator: Any,
    trainer: Trainer,
    *,
    X: Any,
    y: Array,
    title: str,
    visits: int,
    check: Callable[[Record], None],
    finish: Callable[[], None],
    seed: int,
    evaluate: Callable[[], Record] | None = None,
    monitor: str | None = None,
    restore_best: bool = False,
    checkpoint: Checkpoint | None = None,
    chosen: str = "",
) -> None:
    """Take epochs until max_epochs, until the loss no longer falls, or until a callback says so.

    Sets the estimator's ``history_`` and ``n_iter_``; `finish` sets what it has learnt.

    Parameters
    ----------
    estimator : Estimator
        Says max_epochs, tol and verbose, and has the callbacks.
    trainer : Trainer
    X, y : array or CSR matrix, array
        The rows trained on, for the callbacks.
    title : str
        What is being fitted, for the progress bar.
    visits : int
        Rows visited in an epoch, for the same.
    check : function of a record
        Raises if the epoch shows that the fit diverges.
    finish : function
        Gives the estimator its attributes.
    seed : int
        What the fit began with, for whoever goes on from the checkpoint.
    evaluate : function, optional
        Returns what else to put into an epoch's record.
    monitor : str, optional
        What of the record decides when to stop.
    restore_best : bool
        Whether to end with the states of the epoch that was best by `monitor`.
    checkpoint : Checkpoint, optional
        Where to go on from, if it was found, and to keep the progress in.
    chosen : str
        What "auto" was taken for: said at the start, and kept in the first record.
    """
    stopper = Stopper(estimator.tol)
    best: list[Any] | None = None
    stop = False
    estimator.history_ = []

    context = estimator._init_callback_context(max_subtasks=estimator.max_epochs)
    seen = {"estimator": estimator, "X": X, "y": y}
    solution = {"reconstruction_attributes": trainer.solution}
    context.call_on_fit_task_begin(**seen)
    with Progress(estimator.verbose > 0, title, estimator.max_epochs, visits) as progress:
        if checkpoint is not None and checkpoint.found:
            best = checkpoint.restore(trainer)
            stopper.best, stopper.idle = checkpoint.about("best_loss"), checkpoint.about("idle")
            estimator.history_, stop = checkpoint.about("history"), checkpoint.about("stopped")
            progress.say(f"goes on after epoch {trainer.epochs} of {checkpoint.path}")
        elif chosen:
            progress.say(chosen)
        while trainer.epochs < estimator.max_epochs and not stop:
            subcontext = context.subcontext(task_name="epoch")
            subcontext.call_on_fit_task_begin(**seen)
            record = trainer.epoch(progress.part)
            check(record)
            if evaluate is not None:
                record |= evaluate()
            if chosen and not estimator.history_:
                record["chosen"] = chosen
            estimator.history_.append(record)
            progress.epoch(record)
            stop = bool(subcontext.call_on_fit_task_end(**seen, **solution))
            if monitor is not None:
                if stopper.improved(record[monitor]) and restore_best:
                    best = deepcopy(trainer.states)
                stop |= stopper.exhausted
            if checkpoint is not None:
                notes = {
                    "seed": seed,
                    "history": estimator.history_,
                    "stopped": stop,
                    "best_loss": stopper.best,
                    "idle": stopper.idle,
                }
                last = stop or trainer.epochs == estimator.max_epochs
                checkpoint.save(notes, trainer, best, at_once=last)
    if best is not None:
        trainer.states = best
    estimator.n_iter_ = len(estimator.history_)
    finish()
    context.call_on_fit_task_end(**seen, **solution)
