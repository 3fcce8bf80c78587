"""Checkpoints in a folder: one file per worker, and a manifest."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from monro.saving.checkpoint import Checkpoint
from monro.saving.container import Contents

_MANIFEST = "manifest.monro"


class FolderCheckpoint(Checkpoint):
    """A checkpoint that the workers write themselves, to a folder that all nodes can access.

    The files of each epoch are in a folder of their own; the manifest names the last complete one.

    Parameters
    ----------
    folder : Path
    estimator, data
        As in `Checkpoint`.
    """

    def __init__(self, folder: Path, estimator: Any, data: str):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / _MANIFEST, estimator, data, {})

    def _epoch_folder(self, epochs: int) -> Path:
        return self.folder / f"epoch-{epochs}"

    def restore(self, trainer: Any) -> list[Any] | None:
        """Let a trainer and its workers resume."""
        best = super().restore(trainer)
        trainer.resume(self._epoch_folder(trainer.epochs))
        return best

    def _write(self, contents: Contents, trainer: Any) -> None:
        """Let the workers write their files; then the manifest; then delete earlier epochs."""
        folder = self._epoch_folder(trainer.epochs)
        trainer.save_epoch(folder)
        super()._write(contents, trainer)
        for other in self.folder.glob("epoch-*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, and its folder if nothing else is in it."""
    (folder / _MANIFEST).unlink(missing_ok=True)
    for epoch in folder.glob("epoch-*"):
        shutil.rmtree(epoch)
    with suppress(OSError):
        folder.rmdir()
