"""The sharded softmax trainer on Ray: lost workers are replaced, and go back to a saved epoch."""

from pathlib import Path
from typing import Any, NamedTuple

from monro.fitting.worker_pool import Future
from monro.ray.retrying_trainer import RetryingTrainer
from monro.ray.worker_pool import RayWorkerPool
from monro.softmax.sharded.sharded_trainer import ShardedTrainer


class SavedEpoch(NamedTuple):
    """An epoch that workers can go back to."""

    epochs: int
    seconds: float
    folder: Path


class RetryingShardedTrainer(RetryingTrainer, ShardedTrainer):
    """A sharded trainer that goes back to the last saved epoch when a worker is lost."""

    workers: RayWorkerPool
    _saved: SavedEpoch | None = None

    @property
    def inputs(self) -> list[Future]:
        """The inputs of new workers: the row shards."""
        return self.rows.shards

    def objective(self) -> float:
        """Return the exact objective of the sample."""
        return self.with_retries(super().objective)

    def solution(self) -> dict[str, Any]:
        """Return the model as the estimator keeps it: in shards."""
        return self.with_retries(super().solution)

    def save_epoch(self, folder: Path) -> None:
        """Save the epoch, as the one to return to after a loss."""
        self.with_retries(lambda: self.save(folder))
        self._saved = SavedEpoch(self.epochs, self.seconds, folder)

    def resume(self, folder: Path) -> None:
        """Begin at the epoch that an earlier fit saved; set `epochs` and `seconds` before."""
        self._saved = SavedEpoch(self.epochs, self.seconds, folder)
        self.with_retries(self.restore_workers)

    def restore_workers(self) -> None:
        """Bring new workers to the last saved epoch, or to the beginning."""
        saved = self._saved
        self.epochs = 0 if saved is None else saved.epochs
        self.set_up()
        if saved is None:
            self.reset()
            return
        self.seconds = max(self.seconds, saved.seconds)
        self.load(saved.folder)
