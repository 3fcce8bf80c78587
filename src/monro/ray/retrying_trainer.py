"""Trainers that continue after workers are lost."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from monro.fitting.trainer import Record, Report, Trainer, no_report
from monro.fitting.worker_pool import Future, LostWorkerError
from monro.ray.worker_pool import RayWorkerPool

T = TypeVar("T")


class RetryingTrainer(Trainer):
    """A trainer that replaces lost workers, returns to a saved epoch, and repeats the work since.

    Its random numbers must be seeded by the epoch and the shards, not by earlier events: then the
    result is the same as if no worker had been lost.
    """

    workers: RayWorkerPool

    @property
    @abstractmethod
    def inputs(self) -> list[Future]:
        """The inputs of new workers: the row shards."""

    @abstractmethod
    def restore_workers(self) -> None:
        """Bring new workers to the last saved epoch, and set `epochs` to it.

        Raises
        ------
        LostWorkerError
            If a worker is lost meanwhile.
        """

    def epoch(self, report: Report = no_report) -> Record:
        """Take an epoch, reporting rows as they are visited; return its record."""
        record = self.with_retries(partial(super().epoch, report))
        self.workers.reset_failures()
        return record

    def with_retries(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which is repeated whenever a worker is lost."""
        epochs = self.epochs
        while True:
            try:
                while self.epochs < epochs:
                    super().epoch()
                return work()
            except LostWorkerError as error:
                self._recover(error)

    def _recover(self, error: LostWorkerError) -> None:
        while True:
            try:
                self.workers.replace_workers(error, self.inputs)
                self.restore_workers()
            except LostWorkerError as another:
                error = another
            else:
                return
