"""Checkpoints: the progress of a fit on disk."""

import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from monro.errors import CheckpointError, ModelFileError
from monro.mapped.chunked_arrays import chunks, is_mapped
from monro.rows import Array
from monro.saving.container import Contents, read_container, write_container
from monro.saving.estimator import get_parameters
from monro.saving.states import flatten, same_shapes, unflatten

# Parameters that may differ between the interrupted fit and the one that resumes it.
_MAY_CHANGE = ("max_epochs", "verbose", "n_jobs", "cpus_per_worker", "max_failures", "patience")
_SAMPLES = 64
_SAMPLE_BYTES = 1 << 20


def _checksum(array: Array, crc: int, *, whole: bool) -> int:
    """Return the CRC of an array, or of samples of a large one, continued from `crc`."""
    if whole:
        for part in chunks(array):
            crc = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, crc)
        return crc
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if flat.nbytes <= 2 * _SAMPLES * _SAMPLE_BYTES:
        return zlib.crc32(flat, crc)
    for start in np.linspace(0, flat.nbytes - _SAMPLE_BYTES, _SAMPLES).astype(np.int64):
        crc = zlib.crc32(flat[start : start + _SAMPLE_BYTES], crc)
    return crc


def fingerprint(X: Any, labels: tuple[Array, ...], weight: Array) -> str:
    """Return a text that identifies a data set.

    It depends on all labels, weights and row lengths, and on samples of large arrays of values.
    """
    crc = 0
    for part in (X.data, X.indices) if sp.issparse(X) else (X,):
        crc = _checksum(part, crc, whole=False)
    for part in (*((X.indptr,) if sp.issparse(X) else ()), *labels, weight):
        crc = _checksum(part, crc, whole=True)
    # Whether rows are mapped matters: their hold-out differs, and no columns are dropped.
    place = "mapped" if is_mapped(X) else "in memory"
    return f"{X.shape[0]}x{X.shape[1]}, {place}, {crc:08x}"


class Resumable(Protocol):
    """The attributes of a trainer that a checkpoint saves."""

    epochs: int
    seconds: float
    states: list[Any]  # NamedTuples of arrays

    @property
    def generators(self) -> list[np.random.Generator]:
        """All random generators, that of the row order first."""


class Checkpoint:
    """The progress of a fit on disk: written after epochs, read when the same call runs again.

    It is written at most so often that writing takes a twentieth of the time, and at the end.

    Parameters
    ----------
    path : str or Path
        The file.
    estimator : Estimator
        The estimator of the fit; its parameters must be the same when the fit resumes.
    data : str
        The data's fingerprint.
    kinds : mapping of str to type
        The classes of states, nested ones included, by their names in files.
    """

    def __init__(self, path: str | Path, estimator: Any, data: str, kinds: Mapping[str, Any]):
        self.path = Path(path)
        self.owner = {"class": type(estimator).__name__, "data": data} | {
            name: value
            for name, value in get_parameters(estimator).items()
            if name not in _MAY_CHANGE
        }
        self._kinds = kinds
        self.saved: Contents | None = None
        self._due = 0.0
        if self.path.exists():
            try:
                self.saved = read_container(self.path, "checkpoint")
            except ModelFileError as error:
                advice = (
                    "give another path"
                    if "not a monro" in str(error)
                    else "delete it to start over"
                )
                what = str(error).partition(";")[0]
                raise CheckpointError(f"{what}; for a checkpoint, {advice}") from None
            self._check_owner(self.saved.about["owner"])

    def _check_owner(self, owner: dict[str, Any]) -> None:
        for name, value in self.owner.items():
            if owner.get(name) != value:
                what = (
                    "the data differs"
                    if name == "data"
                    else f"{name} was {owner.get(name)!r}, now it is {value!r}"
                )
                raise CheckpointError(
                    f"{self.path}: this checkpoint belongs to another fit ({what}); give another "
                    "path, or delete it"
                )

    @property
    def found(self) -> bool:
        """Whether there is a fit to resume."""
        return self.saved is not None

    def about(self, name: str) -> Any:
        """Return an entry of the description of the fit to resume."""
        assert self.saved is not None
        return self.saved.about[name]

    def restore(self, trainer: Resumable) -> list[Any] | None:
        """Restore states, generators and counters of a trainer; return the best states, if any."""
        assert self.saved is not None
        about = self.saved.about
        states = self._unflatten("now")
        for saved, first in zip(states, trainer.states, strict=True):
            if not same_shapes(saved, first):
                raise CheckpointError(f"{self.path}: this checkpoint belongs to another fit")
        trainer.states = states
        generator_states = [about["generator"], *about["generators"]]
        for generator, state in zip(trainer.generators, generator_states, strict=True):
            generator.bit_generator.state = state
        trainer.epochs, trainer.seconds = about["epochs"], about["seconds"]
        return self._unflatten("best") or None

    def _unflatten(self, name: str) -> list[Any]:
        assert self.saved is not None
        arrays, about = self.saved
        return [
            unflatten(f"{name}.{k}", structure, arrays, self._kinds)
            for k, structure in enumerate(about[name])
        ]

    def _flatten(self, name: str, states: list[Any], arrays: dict[str, Array]) -> list[Any]:
        return [
            flatten(f"{name}.{k}", state, arrays, self._kinds) for k, state in enumerate(states)
        ]

    def _write(self, contents: Contents, trainer: Resumable) -> None:
        write_container(self.path, "checkpoint", contents)

    def save(
        self,
        notes: dict[str, Any],
        trainer: Resumable,
        best: list[Any] | None,
        *,
        now: bool,
    ) -> None:
        """Write the progress if that is due, or `now`; `notes` are entries for `about`."""
        begin = time.monotonic()
        if begin < self._due and not now:
            return
        arrays: dict[str, Array] = {}
        generator, *generators = [each.bit_generator.state for each in trainer.generators]
        about = notes | {
            "owner": self.owner,
            "epochs": trainer.epochs,
            "seconds": trainer.seconds,
            "generator": generator,
            "generators": generators,
            "now": self._flatten("now", trainer.states, arrays),
            "best": self._flatten("best", best or [], arrays),
        }
        self._write(Contents(arrays, about), trainer)
        end = time.monotonic()
        self._due = end + 20.0 * (end - begin)
