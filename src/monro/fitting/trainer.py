"""The base class of trainers, which take one epoch at a time."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np

from monro.fitting.convergence import Trial

Record = dict[str, Any]  # numbers, and how "auto" was resolved, as text
Report = Callable[[int], None]  # called with the number of rows just visited


def no_report(rows: int) -> None:
    """Ignore the progress of an epoch."""


class Trainer(ABC):
    """Takes epochs on a problem, from a state of plain arrays.

    Use it in a ``with`` block, which ends its threads.

    Parameters
    ----------
    rng : Generator
        Shuffles the rows.
    n_jobs : int
        Threads; with one there is no pool.
    """

    title: str  # for the progress bar
    rows_per_epoch: int  # for the progress bar
    objective_name: str = "objective"  # in the history
    samples_objective: bool = False  # whether `objective` is of some of the rows
    choices: str = ""  # how "auto" was resolved, as text
    state: Any  # a NamedTuple of arrays

    def __init__(self, rng: np.random.Generator, n_jobs: int = 1):
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

    # -------------------------------------------------------------------------------- one epoch

    def epoch(self, report: Report = no_report) -> Record:
        """Take an epoch, reporting rows as they are visited; return its record.

        Raises
        ------
        DivergenceError
            If the weights overflow, or are about to.
        """
        begin = time.perf_counter()
        measured = self.visit_all(report)
        self.epochs += 1
        self.seconds += time.perf_counter() - begin
        record = {"epoch": self.epochs, "seconds": self.seconds} | measured
        self.check(record)
        return record

    @abstractmethod
    def visit_all(self, report: Report) -> Record:
        """Visit all rows once; return the mean loss, and any other values for the history."""

    @abstractmethod
    def check(self, record: Record) -> None:
        """Raise DivergenceError if an epoch's record shows that the fit diverges."""

    @property
    def is_settled(self) -> bool:
        """Whether further epochs would change nothing."""
        return False

    # ------------------------------------------------------------------------------- measurements

    @abstractmethod
    def objective(self) -> float:
        """Return the objective of so few rows that it takes a small part of an epoch's time."""

    def exact_objective(self) -> float:
        """Return the objective of all rows, unless they are too many: for `tol`, and in the end."""
        return self.objective()

    def validation_loss(self) -> float:
        """Return the mean loss of rows held out; of few of them, as in `objective`.

        Called only if the run has a hold-out; models without one need not define it.
        """
        raise TypeError(f"{type(self).__name__} has no hold-out")

    def try_step(self) -> Trial | None:
        """Return what came of a step from the solution, which it leaves alone; None if not tried.

        Called after the last epoch and before `finish`, if nothing else has ended the fit.
        """
        return None

    def held_out_loss(self) -> float:
        """Return the exact mean loss of all rows held out."""
        return self.validation_loss()

    # ----------------------------------------------------------------------------------- results

    @abstractmethod
    def solution(self) -> dict[str, Any]:
        """Return the attributes that the estimator would have if the fit ended now."""

    def finish(self, record: Record) -> dict[str, Any]:
        """Return the attributes of the fitted estimator.

        `record` is that of the last epoch; final measurements may be added to it.
        """
        return self.solution()

    @property
    def states(self) -> list[Any]:
        """The states to save in a checkpoint: NamedTuples of arrays."""
        return [self.state]

    @states.setter
    def states(self, states: list[Any]) -> None:
        (self.state,) = states

    @property
    def generators(self) -> list[np.random.Generator]:
        """All random generators, for a checkpoint: first the one that orders the rows."""
        return [self.rng]
