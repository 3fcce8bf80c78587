"""What the estimators accept: parameters and data."""

import difflib
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from monro import mapped
from monro.mapped import MappedLabels, pieces
from monro.rows import Array, read_only, survey

# -------------------------------------------------------------------------------------- parameters


def choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Raise unless the value is one of those allowed."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return
    close = difflib.get_close_matches(str(value), names, 1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, names))}{hint}")


def number(name: str, value: Any, low: float, *, open_at_low: bool = False) -> None:
    """Raise unless the value is a finite number of at least (or above) `low`."""
    above = ">" if open_at_low else ">="
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(float(value)):
        raise ValueError(f"{name}={value!r}: give a finite number {above} {low:g}")
    if float(value) < low or (open_at_low and float(value) == low):
        raise ValueError(f"{name}={value!r}: it must be {above} {low:g}")


def whole(name: str, value: Any, low: int) -> None:
    """Raise unless the value is an integer of at least `low`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name}={value!r}: give a whole number of at least {low}")


def flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
        raise ValueError(f"{name}={value!r}: choose True or False")


def rate(name: str, value: Any) -> None:
    """Raise unless the value is "auto" or a positive finite number."""
    if isinstance(value, str):
        choice(name, value, ["auto"])
    else:
        number(name, value, 0.0, open_at_low=True)


def epochs(estimator: Any) -> None:
    """Check the parameters of any fit by epochs."""
    if not isinstance(estimator.verbose, bool):
        whole("verbose", estimator.verbose, 0)
    jobs = estimator.n_jobs
    if jobs is not None and (not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(f"n_jobs={jobs!r}: give a number of threads, or -1 for all cores")
    if estimator.tol is not None:
        number("tol", estimator.tol, 0.0)


def common(estimator: Any) -> None:
    """Check the parameters that all estimators share, each by itself."""
    number("alpha", estimator.alpha, 0.0)
    rate("learning_rate", estimator.learning_rate)
    whole("max_epochs", estimator.max_epochs, 1)
    for name in ("shuffle", "fit_intercept", "early_stopping", "warm_start"):
        flag(name, getattr(estimator, name))
    epochs(estimator)
    weights_given = getattr(estimator, "class_weight", None)  # of classifiers
    if isinstance(weights_given, str):
        choice("class_weight", weights_given, ["balanced"])
    fraction = estimator.validation_fraction
    number("validation_fraction", fraction, 0.0, open_at_low=True)
    if fraction >= 1.0:
        raise ValueError(f"validation_fraction={fraction!r}: it must be < 1")


# -------------------------------------------------------------------------------------------- data


def data(
    estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True, names: Any = None
) -> Any:
    """Validate X (and y): a canonical CSR matrix or a C-contiguous array, of float32 or float64.

    `names` are those of the features, where X itself does not have them.
    """
    stored = y if isinstance(y, MappedLabels) else None
    if stored is not None:
        y = "no_validation"
    elif not isinstance(y, str) and y is not None and np.asarray(y).dtype.kind == "f":
        finite("y", np.asarray(y))
    checked = validate_data(
        estimator,
        X,
        y,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        ensure_all_finite=False,  # our own check names the row
        ensure_min_features=getattr(estimator, "_fewest_features", 1),
    )
    X, y = checked if isinstance(checked, tuple) else (checked, None)
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"X has {X.shape[1]:,} features; at most 2,147,483,647 are supported")
    if sp.issparse(X):
        _check_pointers(X)
        if not _in_order(X):
            X = X.copy()
            X.has_canonical_format = False  # whatever it was told
            X.sum_duplicates()
    finite("X", X)
    if names is not None and reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    y = y if stored is None else stored
    return X if y is None else (X, y)


def finite(name: str, array: Any) -> None:
    """Raise if an array or a CSR matrix holds NaN or an infinite value, and name the row."""
    values = array.data if sp.issparse(array) else array
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size == 0:
        return
    at = bad[0]
    row = np.searchsorted(array.indptr, at[0], side="right") - 1 if sp.issparse(array) else at[0]
    what = "NaN" if np.isnan(values[tuple(at)]) else "inf"
    raise ValueError(f"{name}: row {row} holds {what}; give finite numbers, or drop or impute it")


def _check_pointers(X: Any) -> None:
    """Raise if a CSR matrix points outside itself: the kernels would follow."""
    falls = any((np.diff(part) < 0).any() for part in pieces(X.indptr, 1))
    if X.indptr[0] != 0 or X.indptr[-1] > X.data.size or falls:
        wrong = np.flatnonzero((X.indptr < 0) | (X.indptr > X.data.size))
        falling = np.flatnonzero(np.diff(X.indptr) < 0)
        row = int(min([*wrong[:1], *falling[:1]], default=0))
        raise ValueError(
            f"X: near row {row} the row pointers (indptr) are out of order; "
            "rebuild the matrix from its rows, columns and values"
        )


def _in_order(X: Any) -> bool:
    """Tell whether each row's columns increase; raise if one lies outside."""
    # A negative index is a huge unsigned one: one pass finds both ends.
    indices = read_only(X.indices, X.indices.dtype).view(f"u{X.indices.itemsize}")
    largest, disorder = survey(indices, read_only(X.indptr, np.int64).view(np.uint64))
    if indices.size and largest >= X.shape[1]:
        at = int(np.flatnonzero((X.indices < 0) | (X.indices >= X.shape[1]))[0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise ValueError(
            f"X: row {row} has the column index {X.indices[at]}, outside 0…{X.shape[1] - 1}; "
            "rebuild the matrix from its rows, columns and values"
        )
    return disorder < 0


def class_targets(y: Array) -> None:
    """Raise unless y are labels of classes; there may be as many classes as rows."""
    if y.dtype.kind in "iub":
        return  # which they are
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(y)


def labels(given: dict[str, Any]) -> list[Array]:
    """Return arrays of labels, given with their names: of one dimension, and of one kind."""
    arrays = {name: np.asarray(part) for name, part in given.items() if part is not None}
    kinds = {}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"{name}: give the labels as a one-dimensional array")
        if array.size:
            kinds["strings" if isinstance(array[:1].tolist()[0], str) else "numbers"] = name
    if len(kinds) > 1:  # NumPy would make strings of the numbers
        found = " and ".join(f"{kind} in {name}" for kind, name in kinds.items())
        raise ValueError(f"labels must be of one kind, there are {found}")
    return list(arrays.values())


def encode(y: Any) -> tuple[Array, Array]:
    """Return the classes that occur in y, in order, and the number of each row's."""
    if not isinstance(y, MappedLabels):
        class_targets(y)
        return mapped.encode(y)
    classes, codes = y.encode()
    class_targets(classes)
    return classes, codes


def codes(y: Any, classes: Array, complaint: str) -> Array:
    """Return the number of each label among the classes, which are in order."""
    return recode(*mapped.encode(y), classes, complaint)


def recode(found: Array, codes: Array, classes: Array, complaint: str) -> Array:
    """Return, for numbers among the classes found, those among others."""
    if np.array_equal(found, classes):
        return codes
    place = np.minimum(np.searchsorted(classes, found), classes.size - 1).astype(np.int32)
    unknown = np.flatnonzero(classes[place] != found)
    if unknown.size:
        row = int(np.flatnonzero(np.isin(codes, unknown))[0])
        label = found[codes[row : row + 1]].tolist()[0]
        raise ValueError(f"y: row {row} has the label {label!r}, which {complaint}")
    return mapped.look_up(place, codes)


def weights(sample_weight: Any, X: Any) -> Array:
    """Return sample weights as float64, checked; not all may be 0."""
    if sample_weight is None:
        return np.broadcast_to(1.0, X.shape[:1])  # which takes no memory
    weight: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weight.any():
        raise ValueError("sample_weight: all weights are 0, no row is left to learn from")
    return weight


def class_weighted(
    weight: Array, class_weight: Any, classes: Array, codes: Array, *, more_to_come: bool = False
) -> Array:
    """Return the weights of rows times those of their classes, of which `codes` are the numbers."""
    if class_weight is None:
        return weight
    if more_to_come and isinstance(class_weight, dict):
        known = set(classes.tolist())
        class_weight = {label: w for label, w in class_weight.items() if label in known}
    if isinstance(class_weight, str):
        counts = mapped.count(codes, classes.size)
        per_class = codes.size / ((counts > 0).sum() * np.maximum(counts, 1.0))
        per_class[counts == 0] = 1.0
    else:
        per_class = compute_class_weight(class_weight, classes=classes, y=classes)
    if not (np.isfinite(per_class).all() and (per_class >= 0).all()):
        raise ValueError(f"class_weight={class_weight!r}: weights must be finite and at least 0")
    return np.asarray(weight * per_class[codes])
