"""What the files of all models and checkpoints hold, for `monro.persist` to write."""

import time
import zlib
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from monro import persist
from monro.errors import CheckpointError, ModelFileError
from monro.mapped import is_mapped, pieces
from monro.persist import Contents
from monro.rows import Array

# ---------------------------------------------------------------------------- parameters and labels


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Real) and not isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):  # classes
        return {"labels": [_plain(label) for label in value]}
    if isinstance(value, dict):  # class weights: labels need not be strings
        return {"pairs": [[_plain(key), _plain(weight)] for key, weight in value.items()]}
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return None  # a RandomState: its future is its owner's


def get_parameters(estimator: Any) -> dict[str, Any]:
    """Return an estimator's parameters as JSON can hold them."""
    return {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}


def set_parameters(estimator: Any, parameters: dict[str, Any]) -> None:
    """Give an estimator the parameters that `get_parameters` returned."""
    for name, value in parameters.items():
        if isinstance(value, dict):
            value = value["labels"] if "labels" in value else dict(value["pairs"])
        estimator.set_params(**{name: value})


def put_labels(name: str, labels: Array, contents: Contents) -> None:
    """Add an array of labels, which may be strings."""
    if labels.dtype.kind in "iufb":
        contents.arrays[name] = labels
        return
    if not all(isinstance(label, str) for label in labels.tolist()):
        raise TypeError(f"{name} holds {labels.dtype} objects: only numbers and strings are saved")
    contents.about[name] = {"strings": labels.tolist(), "objects": labels.dtype.kind == "O"}


def take_labels(name: str, contents: Contents) -> Array | None:
    """Return labels that `put_labels` added; None if there are none of that name."""
    if name in contents.arrays:
        return contents.arrays[name]
    if name not in contents.about:
        return None
    kept = contents.about[name]
    return np.array(kept["strings"], dtype=object if kept["objects"] else np.str_)


# ------------------------------------------------------------------------------------- checkpoints

# What may change between the run that was killed and the one that goes on.
_FREE = ("max_epochs", "verbose", "n_jobs", "cpus_per_worker", "max_failures", "patience")
_SAMPLES = 64
_SAMPLE_BYTES = 1 << 20


def _checksum(array: Array, begin: int, *, whole: bool) -> int:
    """Return the CRC of an array, or of samples of a large one."""
    if whole:
        for part in pieces(array):
            begin = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, begin)
        return begin
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if flat.nbytes <= 2 * _SAMPLES * _SAMPLE_BYTES:
        return zlib.crc32(flat, begin)
    for start in np.linspace(0, flat.nbytes - _SAMPLE_BYTES, _SAMPLES).astype(np.int64):
        begin = zlib.crc32(flat[start : start + _SAMPLE_BYTES], begin)
    return begin


def fingerprint(X: Any, y: Array | tuple[Array, ...], weight: Array) -> str:
    """Tell data sets apart: by all labels, weights and row lengths, and samples of large values."""
    crc = 0
    for part in (X.data, X.indices) if sp.issparse(X) else (X,):
        crc = _checksum(part, crc, whole=False)
    labels = y if isinstance(y, tuple) else (y,)
    for part in (*((X.indptr,) if sp.issparse(X) else ()), *labels, weight):
        crc = _checksum(part, crc, whole=True)
    # From a file other rows are held out, and no columns are left out.
    place = "mapped" if is_mapped(X) else "in memory"
    return f"{X.shape[0]}x{X.shape[1]}, {place}, {crc:08x}"


class Resumable(Protocol):
    """What a checkpoint keeps of whoever takes the epochs."""

    epochs: int
    seconds: float
    states: list[Any]  # NamedTuples of arrays

    @property
    def generators(self) -> list[np.random.Generator]:
        """All that is random from here on: what orders the rows, then those of single states."""


class Checkpoint:
    """A fit's progress on disk: written after epochs, read by the same call started anew.

    It is written as often as costs a twentieth of the time, and at the end.

    Parameters
    ----------
    path : str or Path
        The file.
    estimator : Estimator
        Whose fit it is: with other parameters it is another fit.
    data : str
        The data's fingerprint.
    classes : mapping of str to type
        The classes of states, and of what is in them, by name.
    alike : function of two states, optional
        Tells whether a state of the file can be that of this fit, which begins with the other one;
        they are of one type.
    """

    def __init__(
        self,
        path: str | Path,
        estimator: Any,
        data: str,
        classes: Mapping[str, Any],
        alike: Callable[[Any, Any], bool] | None = None,
    ):
        self.path = Path(path)
        self.owner = {"class": type(estimator).__name__, "data": data} | {
            name: value for name, value in get_parameters(estimator).items() if name not in _FREE
        }
        self._classes = classes
        self._alike = alike
        self.saved: Contents | None = None
        self._due = 0.0
        if self.path.exists():
            try:
                self.saved = persist.read(self.path, "checkpoint")
            except ModelFileError as error:
                cure = (
                    "give another path" if "no monro" in str(error) else "delete it to begin anew"
                )
                what = str(error).partition(";")[0]
                raise CheckpointError(f"{what}; for a checkpoint, {cure}") from None
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
        """Tell whether there is a run to go on with."""
        return self.saved is not None

    def about(self, name: str) -> Any:
        """Return something the earlier run had noted."""
        assert self.saved is not None
        return self.saved.about[name]

    def restore(self, trainer: Resumable) -> list[Any] | None:
        """Put states, generators and counters where they were; return the best states, if any."""
        assert self.saved is not None
        about = self.saved.about
        states = self._unflatten("now")
        for saved, first in zip(states, trainer.states, strict=True):
            if type(saved) is not type(first) or (self._alike and not self._alike(saved, first)):
                raise CheckpointError(f"{self.path}: this checkpoint belongs to another fit")
        trainer.states = states
        kept = [about["generator"], *about["generators"]]
        for generator, state in zip(trainer.generators, kept, strict=True):
            generator.bit_generator.state = state
        trainer.epochs, trainer.seconds = about["epochs"], about["seconds"]
        return self._unflatten("best") or None

    def _unflatten(self, name: str) -> list[Any]:
        assert self.saved is not None
        arrays, about = self.saved
        return [
            persist.unflatten(f"{name}.{k}", shape, arrays, self._classes)
            for k, shape in enumerate(about[name])
        ]

    def _write(self, contents: Contents, trainer: Resumable) -> None:
        persist.write(self.path, "checkpoint", contents)

    def save(
        self,
        notes: dict[str, Any],
        trainer: Resumable,
        best: list[Any] | None,
        *,
        at_once: bool,
    ) -> None:
        """Write how far the fit has come, if it is time to; `notes` are for `about`."""
        begin = time.monotonic()
        if begin < self._due and not at_once:
            return
        arrays: dict[str, Array] = {}
        generator, *generators = [each.bit_generator.state for each in trainer.generators]
        about = notes | {
            "owner": self.owner,
            "epochs": trainer.epochs,
            "seconds": trainer.seconds,
            "generator": generator,
            "generators": generators,
            "now": [
                persist.flatten(f"now.{k}", state, arrays) for k, state in enumerate(trainer.states)
            ],
            "best": [
                persist.flatten(f"best.{k}", state, arrays) for k, state in enumerate(best or [])
            ],
        }
        self._write(Contents(arrays, about), trainer)
        end = time.monotonic()
        self._due = end + 20.0 * (end - begin)
