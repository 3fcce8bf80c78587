"""Linear models and their checkpoints as arrays and JSON, for `monro.persist` to write."""

import time
import zlib
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro import persist
from monro.errors import CheckpointError, ModelFileError
from monro.linear.dual import DualState
from monro.linear.sgdqn import GainState
from monro.linear.state import Last, Mean, PerExample, State
from monro.linear.train import Stopper, Task, Trainer, weight_arrays
from monro.mapped import is_mapped
from monro.persist import Contents
from monro.rows import Array

_STATES = {kind.__name__: kind for kind in (State, Last, Mean, PerExample, GainState, DualState)}
_PLAIN = ("n_features_in_", "n_iter_", "history_", "solver_", "learning_rate_", "_form", "_layout")


# -------------------------------------------------------------------------------------- parameters


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Real) and not isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, dict):  # class weights: labels need not be strings
        return {"pairs": [[_plain(key), _plain(weight)] for key, weight in value.items()]}
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return None  # a RandomState: its future is its owner's


def _parameters(estimator: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}


def _set_parameters(estimator: Any, parameters: dict[str, Any]) -> None:
    for name, value in parameters.items():
        if isinstance(value, dict):
            value = dict(value["pairs"])
        estimator.set_params(**{name: value})


# ------------------------------------------------------------------------------------------ models


def _put_labels(name: str, labels: Array, contents: Contents) -> None:
    if labels.dtype.kind in "iufb":
        contents.arrays[name] = labels
        return
    if not all(isinstance(label, str) for label in labels.tolist()):
        raise TypeError(f"{name} holds {labels.dtype} objects: only numbers and strings are saved")
    contents.about[name] = {"strings": labels.tolist(), "objects": labels.dtype.kind == "O"}


def _take_labels(name: str, contents: Contents) -> Array | None:
    if name in contents.arrays:
        return contents.arrays[name]
    if name not in contents.about:
        return None
    kept = contents.about[name]
    return np.array(kept["strings"], dtype=object if kept["objects"] else np.str_)


def to_contents(estimator: Any) -> Contents:
    """Return a fitted estimator's arrays and JSON."""
    check_is_fitted(estimator, "coef_")
    contents = Contents({}, {"parameters": _parameters(estimator)})
    contents.arrays["coef_"] = estimator.coef_
    contents.arrays["intercept_"] = estimator.intercept_
    for name in ("classes_", "feature_names_in_"):
        if hasattr(estimator, name):
            _put_labels(name, getattr(estimator, name), contents)
    contents.about["fitted"] = {
        name: getattr(estimator, name) for name in _PLAIN if hasattr(estimator, name)
    }
    contents.about["states"] = [
        persist.flatten(f"states.{k}", state, contents.arrays)
        for k, state in enumerate(getattr(estimator, "_states", []))
    ]
    return contents


def from_contents(estimator: Any, contents: Contents) -> None:
    """Make an estimator what it was."""
    _set_parameters(estimator, contents.about["parameters"])
    arrays = contents.arrays
    for name, value in contents.about["fitted"].items():
        if name not in _PLAIN:
            raise ValueError(name)
        setattr(estimator, name, value)
    estimator._form = tuple(estimator._form)
    for name in ("classes_", "feature_names_in_"):
        labels = _take_labels(name, contents)
        if labels is not None:
            setattr(estimator, name, labels)
    coef, intercept = arrays["coef_"], arrays["intercept_"]
    if coef.shape != estimator._coef_shape() or intercept.shape != np.atleast_2d(coef).shape[:1]:
        raise ValueError("coef_")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("coef_")
    estimator.coef_, estimator.intercept_ = coef, intercept
    if contents.about["states"]:
        estimator._states = [
            persist.unflatten(f"states.{k}", shape, arrays, _STATES)
            for k, shape in enumerate(contents.about["states"])
        ]
        extra = {_width(state) - estimator.n_features_in_ for state in estimator._states}
        if not extra <= {0, 1, 2, 3}:  # a bias, and what casgd keeps
            raise ValueError("states")


def _width(state: Any) -> int:
    """Return the length of a state's weights."""
    return max(array.size for array in weight_arrays(state))


# ------------------------------------------------------------------------------------- checkpoints

# What may change between the run that was killed and the one that goes on.
_FREE = ("max_epochs", "verbose", "n_jobs")
_SAMPLES = 64
_SAMPLE_BYTES = 1 << 20


def _checksum(array: Array, begin: int, *, whole: bool) -> int:
    """Return the CRC of an array, or of samples of a large one."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if whole or flat.nbytes <= 2 * _SAMPLES * _SAMPLE_BYTES:
        return zlib.crc32(flat, begin)
    for start in np.linspace(0, flat.nbytes - _SAMPLE_BYTES, _SAMPLES).astype(np.int64):
        begin = zlib.crc32(flat[start : start + _SAMPLE_BYTES], begin)
    return begin


def fingerprint(X: Any, y: Array, weight: Array) -> str:
    """Tell data sets apart: by all labels, weights and row lengths, and samples of large values."""
    crc = 0
    for part in (X.data, X.indices) if sp.issparse(X) else (X,):
        crc = _checksum(part, crc, whole=False)
    for part in (X.indptr, y, weight) if sp.issparse(X) else (y, weight):
        crc = _checksum(part, crc, whole=True)
    # From a file other rows are held out, and no columns are left out.
    place = "mapped" if is_mapped(X) else "in memory"
    return f"{X.shape[0]}x{X.shape[1]}, {place}, {crc:08x}"


class Checkpoint:
    """A fit's progress on disk: written after epochs, read by the same call started anew.

    It is written as often as costs a twentieth of the time, and at the end.
    """

    def __init__(self, path: str | Path, estimator: Any, data: str):
        self.path = Path(path)
        self.owner = {"class": type(estimator).__name__, "data": data} | {
            name: value for name, value in _parameters(estimator).items() if name not in _FREE
        }
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

    def restore(self, trainer: Trainer, stopper: Stopper) -> list[Any] | None:
        """Put tasks, generators and counters where they were; return the best states, if any."""
        assert self.saved is not None
        arrays, about = self.saved
        for k, task in enumerate(trainer.tasks):
            state = persist.unflatten(f"now.{k}", about["now"][k], arrays, _STATES)
            if type(state) is not type(task.state) or _width(state) != _width(task.state):
                raise CheckpointError(f"{self.path}: this checkpoint belongs to another fit")
            task.state = state
            task.rng.bit_generator.state = about["generators"][k]
        trainer.rng.bit_generator.state = about["generator"]
        trainer.epochs, trainer.seconds = about["epochs"], about["seconds"]
        stopper.best, stopper.idle = about["best_loss"], about["idle"]
        if not about["best"]:
            return None
        return [
            persist.unflatten(f"best.{k}", shape, arrays, _STATES)
            for k, shape in enumerate(about["best"])
        ]

    def save(
        self,
        notes: dict[str, Any],
        trainer: Trainer,
        stopper: Stopper,
        best: list[Any] | None,
        *,
        at_once: bool,
    ) -> None:
        """Write how far the fit has come, if it is time to."""
        begin = time.monotonic()
        if begin < self._due and not at_once:
            return
        arrays: dict[str, Array] = {}
        tasks: list[Task] = list(trainer.tasks)
        about = notes | {
            "owner": self.owner,
            "epochs": trainer.epochs,
            "seconds": trainer.seconds,
            "generator": trainer.rng.bit_generator.state,
            "generators": [task.rng.bit_generator.state for task in tasks],
            "best_loss": stopper.best,
            "idle": stopper.idle,
            "now": [
                persist.flatten(f"now.{k}", task.state, arrays) for k, task in enumerate(tasks)
            ],
            "best": [
                persist.flatten(f"best.{k}", state, arrays) for k, state in enumerate(best or [])
            ],
        }
        persist.write(self.path, "checkpoint", Contents(arrays, about))
        end = time.monotonic()
        self._due = end + 20.0 * (end - begin)
