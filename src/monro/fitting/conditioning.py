"""Columns in units of their own: what makes a fit independent of the units of its columns.

Steps, their rates and the ridge compare columns with each other, so their units matter, and columns
far from zero are all alike to the intercept. A fit with ``scale=True`` is on columns
``z = (x - centre)/scale``. Its solution v, c is returned in the units of the columns as given:

    ``v·z + c = w·x + b``,   ``w = v/scale``,   ``b = c - w·centre``.

The scale of a column is its standard deviation, but at least a tenth of its range: divided by the
standard deviation alone, indicators of a few rows would escape the ridge, which is there for them
above all (docs/decisions/0024). The centre is the mean. Arrays of mostly zeros may be fitted as
sparse rows, which is faster: of these only columns are centred whose mean is larger than their
deviation. The cosine of the others with the intercept is at most √½; all columns that are zero in
half of the rows are among them.

Sparse rows stay sparse, and are not centred. Numbers beside text or indicators are divided by their
root mean square: columns without zeros; and columns that are non-zero in at least half of the rows
and have a root mean square above 1. The other columns share one unit: a common word is not to count
as much as a whole text. Rows that all have length 1 have been scaled already.

Factors of the penalty, one for each feature, are scales, too: a ridge on the weights v of columns
that are divided by ``√f`` is ``‖v‖² = Σ f w²`` in the units before, and a lasso on those of columns
divided by ``f`` is ``‖v‖₁ = Σ f |w|``.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import kernel
from monro.mapped.chunked_arrays import CHUNK, is_mapped
from monro.mapped.matrices import chunk_bounds
from monro.rows import Array, Rows, as_rows

_RANGE_SHARE = 10.0  # the least scale is this part of a column's range
_MOSTLY_ZERO = 0.7  # share of zeros from which rows are faster as sparse ones
_MOSTLY = 0.5  # share of the rows in which a column of numbers is not zero
_CONSTANT = 8.0  # a column is constant if its range is so many roundings of its largest value
_ROUNDING = 1e-9  # of the shares of all rows
_UNIT = 1e-3  # by how much the lengths of rows of unit length differ from 1: they are rounded


class Conditioning(NamedTuple):
    """The centre and the scale of each column; empty if the columns are used as they are.

    Examples
    --------
    >>> columns = Conditioning(np.array([100.0]), np.array([2.0]))
    >>> columns.apply(np.array([[98.0], [104.0]]))
    array([[-1.],
           [ 2.]])
    >>> coef, intercept = columns.fold(np.array([[3.0]]), np.array([0.5]))
    >>> coef, intercept  # 98 w + b = 3 (-1) + 0.5
    (array([[1.5]]), array([-149.5]))
    >>> columns.unfold(coef, intercept)
    (array([[3.]]), array([0.5]))
    """

    centre: Array = np.zeros(0)
    scale: Array = np.zeros(0)

    @property
    def changes(self) -> bool:
        """Whether columns are changed at all."""
        return bool(self.scale.size)

    def apply(self, X: Any, dtype: Any = None) -> Any:
        """Return X with its columns centred and scaled, as `dtype`; X itself if nothing changes.

        Differences are taken in double precision before they are rounded.
        """
        if not self.changes:
            return X
        dtype = X.dtype if dtype is None else np.dtype(dtype)
        if sp.issparse(X):
            data = np.empty(X.data.size, dtype)
            for k in range(0, data.size, CHUNK):
                part = slice(k, k + CHUNK)
                data[part] = X.data[part] / self.scale[X.indices[part]]
            return type(X)((data, X.indices, X.indptr), shape=X.shape)
        out = np.empty(X.shape, dtype)
        for start, stop in chunk_bounds(X, CHUNK):
            out[start:stop] = (X[start:stop] - self.centre) / self.scale
        return out

    def fold(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        """Return weights and intercepts in the units of the columns as given.

        Parameters
        ----------
        coef : array of shape (…, n_features)
        intercept : array of shape (…,), or a number
        """
        if not self.changes:
            return coef, intercept
        coef = coef / self.scale
        return coef, intercept - coef @ self.centre

    def unfold(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        """Return weights and intercepts in the units of the conditioned columns."""
        if not self.changes:
            return coef, intercept
        return coef * self.scale, intercept + coef @ self.centre


AS_GIVEN = Conditioning()


def scales_columns(estimator: Any) -> bool:
    """Resolve the parameter `scale`.

    A number for alpha is in the units of the columns as given, so "auto" scales only where the
    strength is chosen as well.
    """
    if isinstance(estimator.scale, str):
        return bool(estimator.alpha == "auto")
    return bool(estimator.scale)


def choose_conditioning(estimator: Any, X: Any, weight: Array, *, keep_zeros: bool) -> Conditioning:
    """Return the conditioning that an estimator's parameters ask for, measured on weighted rows.

    With `keep_zeros` an array of mostly zeros remains one: only columns are centred that need it.
    """
    columns = _choose_units(estimator, X, weight, keep_zeros=keep_zeros)
    if estimator.penalty_factor is None:
        return columns
    if is_mapped(X):
        raise ValueError(
            "penalty_factor is for data in memory: divide the columns of larger data by the square "
            "roots of the factors (with l1_ratio=1 by the factors) before it is stored"
        )
    factors = _factors(estimator, X.shape[1])
    if not columns.changes:
        columns = Conditioning(np.zeros(factors.size), np.ones(factors.size))
    return columns._replace(scale=columns.scale * _as_scale(estimator, factors))


def without_light_penalties(estimator: Any, n_features: int) -> Conditioning:
    """Return what gives features of a low penalty factor the median one, in conditioned columns.

    Divided by the roots of their factors, features that are hardly penalised are longer than all
    others. Where a path of strengths begins is not for them to decide: it would end before it comes
    to the strengths that matter to the others.
    """
    if estimator.penalty_factor is None:
        return AS_GIVEN
    factors = _factors(estimator, n_features)
    missing = np.maximum(1.0, np.median(factors) / factors)
    return Conditioning(np.zeros(n_features), _as_scale(estimator, missing))


def _factors(estimator: Any, n_features: int) -> Array:
    """Return the factors of the penalty."""
    factors: Array = np.asarray(estimator.penalty_factor, np.float64)
    if factors.size != n_features:
        raise ValueError(
            f"penalty_factor has {factors.size} numbers, X has {n_features} features: give one "
            "number for each feature"
        )
    return factors


def _as_scale(estimator: Any, factors: Array) -> Array:
    """Return the scales of the columns that have the effect of these factors of the penalty."""
    return factors if estimator.l1_ratio == 1 else np.sqrt(factors)


def _choose_units(estimator: Any, X: Any, weight: Array, *, keep_zeros: bool) -> Conditioning:
    """Return the centres and scales that the parameter `scale` asks for."""
    if not scales_columns(estimator):
        return AS_GIVEN
    if is_mapped(X):
        if isinstance(estimator.scale, str):
            return AS_GIVEN
        raise ValueError(
            "scale=True is for data in memory: scale the columns of larger data before it is "
            "stored, and leave scale='auto'"
        )
    share = np.asarray(weight / weight.sum(), np.float64)
    if sp.issparse(X):
        return _of_sparse(X, share)
    return _of_dense(X, share, centred=bool(estimator.fit_intercept), keep_zeros=keep_zeros)


def _of_dense(X: Array, share: Array, *, centred: bool, keep_zeros: bool) -> Conditioning:
    """Return centres (if any) and scales of the columns of an array; `share` has sum 1."""
    n = X.shape[1]
    mean, zeros = np.zeros(n), 0.0
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    for start, stop in chunk_bounds(X, CHUNK):
        part, part_share = X[start:stop], share[start:stop]
        mean += part_share @ part
        zeros += float(part_share @ (part == 0.0).mean(axis=1))
        np.minimum(low, part.min(axis=0), out=low)
        np.maximum(high, part.max(axis=0), out=high)
    largest = np.maximum(np.abs(low), np.abs(high))
    if not centred:
        mean[:] = 0.0
    with np.errstate(over="ignore"):  # raises below, naming the column
        extent = high - low if centred else largest
    _check_finite(extent)
    constant = extent <= _CONSTANT * np.finfo(X.dtype).eps * largest
    unit = np.where(constant, 1.0, extent)
    variance = np.zeros(n)  # of the columns divided by `unit`, so that no square overflows
    for start, stop in chunk_bounds(X, CHUNK):
        variance += share[start:stop] @ ((X[start:stop] - mean) / unit) ** 2
    deviation = np.sqrt(variance)
    scale = np.where(constant, 1.0, unit * np.maximum(deviation, 1.0 / _RANGE_SHARE))
    if keep_zeros and zeros >= _MOSTLY_ZERO:
        mean[np.abs(mean) <= unit * deviation] = 0.0
    return Conditioning(mean, scale)


def _check_finite(sizes: Array) -> None:
    if not np.isfinite(sizes).all():
        column = int(np.flatnonzero(~np.isfinite(sizes))[0])
        raise ValueError(f"X: the values of column {column} overflow; scale the features")


@kernel
def measure_columns(rows: Rows, share: Array, filled: Array, squares: Array) -> bool:
    """Add up the share of the rows in which each column is not zero, and its squares.

    Returns whether each row has length 1, or is empty.
    """
    have_unit_length = True
    for i in range(share.size):
        length = 0.0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            value = np.float64(rows.data[k])
            if value != 0.0:
                length += value * value
                filled[rows.indices[k]] += share[i]
                squares[rows.indices[k]] += share[i] * value * value
        have_unit_length &= length == 0.0 or abs(np.sqrt(length) - 1.0) < _UNIT
    return have_unit_length


def _of_sparse(X: Any, share: Array) -> Conditioning:
    """Return the scales of the columns of a CSR matrix; `share` has sum 1."""
    filled, squares = np.zeros((2, X.shape[1]))
    have_unit_length = measure_columns(as_rows(X), share, filled, squares)
    _check_finite(squares)
    is_number = (filled >= _MOSTLY) & (squares > 1.0) | (filled > 1.0 - _ROUNDING)
    scaled = is_number & (squares > 0.0)
    if have_unit_length or not scaled.any():
        return AS_GIVEN
    return Conditioning(np.zeros(scaled.size), np.where(scaled, np.sqrt(squares), 1.0))
