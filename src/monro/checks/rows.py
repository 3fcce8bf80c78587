"""Validation of rows and their weights."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, validate_data

from monro.mapped.chunked_arrays import chunks
from monro.mapped.labels import MappedLabels
from monro.rows import Array, inspect_indices, read_only


def validate_rows(
    estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True, names: Any = None
) -> Any:
    """Return X (and y) validated: a canonical CSR or C-contiguous array, of float32 or float64.

    Parameters
    ----------
    estimator : estimator
        Its ``n_features_in_`` and ``feature_names_in_`` are set, or X is checked against them.
    X : array-like or sparse matrix
    y : array-like, MappedLabels or None
        Not returned where it is not given.
    reset : bool
        Whether to set the estimator's attributes rather than check against them.
    names : list of str, optional
        The features' names, where X itself does not have them.
    """
    stored = y if isinstance(y, MappedLabels) else None
    if stored is not None:
        y = "no_validation"
    elif not isinstance(y, str) and y is not None and np.asarray(y).dtype.kind == "f":
        check_finite("y", np.asarray(y))
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
        if not _has_sorted_columns(X):
            X = X.copy()
            X.has_canonical_format = False  # the flag may have been set wrongly
            X.sum_duplicates()
    check_finite("X", X)
    if names is not None and reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    y = y if stored is None else stored
    return X if y is None else (X, y)


def check_finite(name: str, array: Any) -> None:
    """Raise if an array or CSR matrix holds NaN or an infinite value; the error names the row."""
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
    """Raise if `indptr` decreases or exceeds the arrays: kernels would read out of bounds."""
    decreases = any((np.diff(part) < 0).any() for part in chunks(X.indptr, 1))
    if X.indptr[0] != 0 or X.indptr[-1] > X.data.size or decreases:
        wrong = np.flatnonzero((X.indptr < 0) | (X.indptr > X.data.size))
        decreasing = np.flatnonzero(np.diff(X.indptr) < 0)
        row = int(min([*wrong[:1], *decreasing[:1]], default=0))
        raise ValueError(
            f"X: near row {row} the row pointers (indptr) are out of order; "
            "rebuild the matrix from its rows, columns and values"
        )


def _has_sorted_columns(X: Any) -> bool:
    """Return whether each row's column indices increase; raise if one is out of bounds."""
    # As unsigned integers negative indices are huge: one maximum detects both bounds.
    indices = read_only(X.indices, X.indices.dtype).view(f"u{X.indices.itemsize}")
    largest, unsorted_row = inspect_indices(indices, read_only(X.indptr, np.int64).view(np.uint64))
    if indices.size and largest >= X.shape[1]:
        at = int(np.flatnonzero((X.indices < 0) | (X.indices >= X.shape[1]))[0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise ValueError(
            f"X: row {row} has the column index {X.indices[at]}, outside 0…{X.shape[1] - 1}; "
            "rebuild the matrix from its rows, columns and values"
        )
    return unsorted_row < 0


def row_weights(sample_weight: Any, X: Any) -> Array:
    """Return the sample weights as float64: non-negative, and not all 0. None means 1 each."""
    if sample_weight is None:
        return np.broadcast_to(1.0, X.shape[:1])  # a view of one number
    weight: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weight.any():
        raise ValueError("sample_weight: all weights are 0, no row is left to learn from")
    return weight
