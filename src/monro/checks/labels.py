"""Validation of class labels, and their class codes: each row's index into the sorted classes."""

import warnings
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from monro.mapped.chunked_arrays import count_codes, take_from_table
from monro.mapped.labels import MappedLabels, unique_codes
from monro.rows import Array


def check_class_targets(y: Array) -> None:
    """Raise unless y are class labels; scikit-learn's warning about many classes is silenced."""
    if y.dtype.kind in "iub":
        return  # integers and booleans always are
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(y)


def label_arrays(given: dict[str, Any]) -> list[Array]:
    """Return the label arrays of a dict by name, without those that are None.

    Raise unless each has one dimension, and all hold strings or all hold numbers.
    """
    arrays = {name: np.asarray(part) for name, part in given.items() if part is not None}
    kinds = {}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"{name}: give the labels as a one-dimensional array")
        if array.size:
            kinds["strings" if isinstance(array[:1].tolist()[0], str) else "numbers"] = name
    if len(kinds) > 1:  # NumPy would convert the numbers to strings
        found = " and ".join(f"{kind} in {name}" for kind, name in kinds.items())
        raise ValueError(f"labels must be of one kind, there are {found}")
    return list(arrays.values())


def encode_classes(y: Any) -> tuple[Array, Array]:
    """Return the sorted classes that occur in y, checked, and each row's class code."""
    if not isinstance(y, MappedLabels):
        check_class_targets(y)
        return unique_codes(y)
    classes, codes = y.encode()
    check_class_targets(classes)
    return classes, codes


def class_codes(y: Any, classes: Array, reason: str) -> Array:
    """Return the index of each label into the sorted `classes`.

    An unknown label raises the error "row … has the label …, which {reason}".
    """
    return map_codes(*unique_codes(y), classes, reason)


def map_codes(found: Array, codes: Array, classes: Array, reason: str) -> Array:
    """Map codes into `found` to codes into `classes`; both are sorted.

    A label of `found` that is not in `classes` raises an error that ends in `reason`.
    """
    if np.array_equal(found, classes):
        return codes
    position = np.minimum(np.searchsorted(classes, found), classes.size - 1).astype(np.int32)
    unknown = np.flatnonzero(classes[position] != found)
    if unknown.size:
        row = int(np.flatnonzero(np.isin(codes, unknown))[0])
        label = found[codes[row : row + 1]].tolist()[0]
        raise ValueError(f"y: row {row} has the label {label!r}, which {reason}")
    return take_from_table(position, codes)


def apply_class_weight(
    weight: Array, class_weight: Any, classes: Array, codes: Array, *, more_to_come: bool = False
) -> Array:
    """Return the row weights multiplied by the weights of their classes.

    Parameters
    ----------
    weight : array
        The weight of each row.
    class_weight : dict, "balanced" or None
        As in scikit-learn. "balanced" gives classes that do not occur in `codes` weight 1.
    classes : array
        The sorted classes.
    codes : array
        Each row's index into `classes`.
    more_to_come : bool
        Whether more classes may follow in later calls: then `class_weight` may name labels that
        are not among `classes` yet.
    """
    if class_weight is None:
        return weight
    if more_to_come and isinstance(class_weight, dict):
        known = set(classes.tolist())
        class_weight = {label: w for label, w in class_weight.items() if label in known}
    if isinstance(class_weight, str):
        counts = count_codes(codes, classes.size)
        per_class = codes.size / ((counts > 0).sum() * np.maximum(counts, 1.0))
        per_class[counts == 0] = 1.0
    else:
        per_class = compute_class_weight(class_weight, classes=classes, y=classes)
    if not (np.isfinite(per_class).all() and (per_class >= 0).all()):
        raise ValueError(f"class_weight={class_weight!r}: weights must be finite and at least 0")
    return np.asarray(weight * per_class[codes])
