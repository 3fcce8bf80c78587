"""Model files: the part that all estimators have in common."""

from collections.abc import Iterable
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from monro.errors import ModelFileError
from monro.mapped.chunked_arrays import chunks
from monro.memory import require_memory
from monro.rows import Array
from monro.saving.container import Contents, is_in_file, read_container, write_container

# The classes that a file may name, and their modules.
ESTIMATORS = {
    "CRFTagger": "monro.crf.tagger",
    "ChoiceModel": "monro.choice.model",
    "LinearClassifier": "monro.linear.classifier",
    "LinearRegressor": "monro.linear.regressor",
    "SoftmaxClassifier": "monro.softmax.classifier",
}


def save(estimator: Any, path: str | Path, inference: bool = False) -> None:
    """Write a fitted estimator; for `inference`, without what only training needs."""
    contents = estimator._to_contents()
    if inference:
        estimator._keep_predictions(contents)
    if inference or is_for_predictions(estimator):
        contents.about["inference"] = True
    contents.about["class"] = type(estimator).__name__
    write_container(path, "model", contents)


def load(path: str | Path, *, mapped: bool | None = None) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    mapped : bool, optional
        Whether arrays stay in the file, and are read from there as predictions need them: then
        loading takes no time, and the model may be larger than memory, but damage to the numbers in
        the file is not noticed. By default only if memory has no room for them. The weights of
        taggers and of files for predictions only are converted, in memory.

    Returns
    -------
    CRFTagger, ChoiceModel, LinearClassifier, LinearRegressor or SoftmaxClassifier
        The saved estimator: it makes the same predictions, and can continue its training, unless
        it was saved with ``inference=True``.

    Raises
    ------
    monro.errors.ModelFileError
        If the file is not a model, is damaged or truncated, or was written by a newer monro.
    monro.errors.NotEnoughMemoryError
        If `mapped` is False and memory has no room for the arrays.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> import monro
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = monro.LinearClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/cancer.monro")
    ...     same = monro.load(f"{folder}/cancer.monro")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    contents = read_container(path, "model", mapped)
    name = contents.about.get("class")
    if name not in ESTIMATORS:
        raise ModelFileError(f"{path}: this monro has no {name!r}; install a newer monro")
    estimator = getattr(import_module(ESTIMATORS[name]), name)()
    try:
        _undo_rounding(path, contents)
        estimator._from_contents(contents)
        if contents.about.get("inference"):
            estimator._predictions_only = True
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ModelFileError(f"{path}: the file is damaged; copy it again, or fit again") from None
    return estimator


def is_for_predictions(estimator: Any) -> bool:
    """Return whether an estimator was read from a file that `save(inference=True)` wrote."""
    return bool(getattr(estimator, "_predictions_only", False))


def check_can_continue(estimator: Any) -> None:
    """Raise ValueError if training cannot continue from where the estimator's fit ended."""
    if is_for_predictions(estimator):
        raise ValueError(
            "the model was saved with inference=True: it has no state to continue from; load one "
            "that was saved without, or fit anew"
        )


# ------------------------------------------------------------------------- half-precision weights

_HALF = ".half"
_LARGEST_EXPONENT = 15  # of the largest number in half precision
_LEAST_EXPONENT = -1000  # of units


def round_to_half(contents: Contents, names: Iterable[str]) -> None:
    """Convert arrays to half precision, each divided by a power of 2 that fits its largest number.

    A number changes by at most 2^-11 of itself, or by 2^-39 of the largest if it is very small.
    """
    rounded = contents.about.setdefault("rounded", {})
    for name in names:
        array = contents.arrays.pop(name)
        largest = max(float(np.abs(part).max(initial=0.0)) for part in chunks(array.ravel()))
        exponent = max(int(np.frexp(largest)[1]) - _LARGEST_EXPONENT, _LEAST_EXPONENT)
        unit = 2.0**exponent
        half = np.empty(array.shape, np.float16)
        for part, given in zip(chunks(half.ravel()), chunks(array.ravel()), strict=True):
            part[:] = given / unit
        contents.arrays[name + _HALF] = half  # another name: an older monro must not read it
        rounded[name] = {"dtype": array.dtype.name, "unit": unit}


def _undo_rounding(path: str | Path, contents: Contents) -> None:
    rounded = contents.about.pop("rounded", {})
    sizes = [
        contents.arrays[name + _HALF].size * np.dtype(kept["dtype"]).itemsize
        for name, kept in rounded.items()
    ]
    require_memory(sum(sizes), f"{path}: weights in full precision", "free memory")
    for name, kept in rounded.items():
        array = contents.arrays.pop(name + _HALF).astype(kept["dtype"])
        array *= kept["unit"]
        contents.arrays[name] = array


# ------------------------------------------------------------------------------------- parameters


def _plain(value: Any) -> Any:
    """Return a parameter in a form that JSON can represent."""
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
    return None  # a RandomState is not saved


def get_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator in a form that JSON can represent."""
    parameters = {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}
    if not isinstance(parameters.get("cv"), int):  # a splitter is not saved
        parameters.pop("cv", None)
    return parameters


def set_parameters(estimator: Any, parameters: dict[str, Any]) -> None:
    """Set the parameters of an estimator to those that `get_parameters` returned."""
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
    """Return the labels that `put_labels` added under a name, or None."""
    if name in contents.arrays:
        return contents.arrays[name]
    if name not in contents.about:
        return None
    kept = contents.about[name]
    return np.array(kept["strings"], dtype=object if kept["objects"] else np.str_)


# ------------------------------------------------------------------------ what all estimators share

_LABELS = ("classes_", "feature_names_in_", "alternatives_")


def describe(estimator: Any, attributes: Iterable[str]) -> Contents:
    """Return contents with the parameters, labels and attributes of an estimator.

    `attributes` are names of attributes that JSON can represent; those not set are skipped.
    """
    contents = Contents({}, {"parameters": get_parameters(estimator)})
    for name in _LABELS:
        if hasattr(estimator, name):
            put_labels(name, getattr(estimator, name), contents)
    contents.about["fitted"] = {
        name: getattr(estimator, name) for name in attributes if hasattr(estimator, name)
    }
    return contents


def restore(estimator: Any, contents: Contents, attributes: Iterable[str]) -> None:
    """Set the attributes that `describe` saved; raise ValueError for any other attribute."""
    set_parameters(estimator, contents.about["parameters"])
    allowed = set(attributes)
    for name, value in contents.about["fitted"].items():
        if name not in allowed:
            raise ValueError(name)
        setattr(estimator, name, value)
    for name in _LABELS:
        labels = take_labels(name, contents)
        if labels is not None:
            setattr(estimator, name, labels)


def check_numbers(*arrays: Array) -> None:
    """Raise ValueError unless all arrays hold finite floating-point numbers.

    The numbers of arrays that stay in their file are not read.
    """
    for array in arrays:
        parts = [] if is_in_file(array) else chunks(array.ravel())
        if array.dtype.kind != "f" or not all(np.isfinite(part).all() for part in parts):
            raise ValueError("a number")
