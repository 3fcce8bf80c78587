"""Rows of X as kernels see them: a few operations on row i, each O(number of its non-zeros).

``Sparse`` and ``Dense`` hold data. ``Biased`` and those of `monro.linear.centring` wrap other rows
and change what a row *is* (one more constant coordinate; the mean subtracted) without touching the
data. Weights may be longer than a data row is wide: the wrappers append their own coordinates.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import generic, kernel, prefetch_element, vector_leaf

Array = np.ndarray[Any, np.dtype[Any]]
Rows = Any  # Sparse, Dense or a wrapper; Numba resolves which, mypy cannot
Operator = Any  # a NamedTuple with a method `updated`

WIDE = 1 << 17  # features; beyond a megabyte, weights do not stay in a core's L2 cache


@generic
def dot(rows: Rows, i: int, w: Array) -> float:
    """``x_i · w``."""
    return float(rows.dot(i, w))


@generic
def add(rows: Rows, i: int, c: float, w: Array) -> None:
    """``w += c x_i``."""
    rows.add(i, c, w)


@generic
def add_two(rows: Rows, i: int, c: float, w: Array, d: float, u: Array) -> None:
    """``w += c x_i`` and ``u += d x_i``, reading the row once."""
    rows.add_two(i, c, w, d, u)


@generic
def add_scaled(rows: Rows, i: int, c: float, gains: Array, w: Array) -> None:
    """``w += c·gains∘x_i``."""
    rows.add_scaled(i, c, gains, w)


@generic
def update_each(rows: Rows, i: int, operator: Operator, w: Array) -> None:
    """``w_k = updated(operator, k, w_k)`` for each coordinate k of row i."""
    rows.update_each(i, operator, w)


@generic
def updated(operator: Operator, k: int, value: float) -> float:
    """Return the new value of coordinate k, given its old one."""
    return float(operator.updated(k, value))


@generic
def sqnorm(rows: Rows, i: int) -> float:
    """``‖x_i‖²``."""
    return float(rows.sqnorm(i))


@generic
def weighted_moments(rows: Rows, i: int, weights: Array) -> tuple[float, float]:
    """``Σ_k weights_k x_ik`` and ``Σ_k weights_k x_ik²``."""
    first, second = rows.weighted_moments(i, weights)
    return float(first), float(second)


@generic
def add_outer(rows: Rows, i: int, c: float, G: Array) -> None:
    """Add ``c x_ij x_ik`` to ``G[j, k]`` or to ``G[k, j]``, once for each pair of coordinates."""
    rows.add_outer(i, c, G)


@generic
def locate(rows: Rows, i: int) -> None:
    """Prefetch the position of row i (its `indptr`)."""
    rows.locate(i)


@generic
def prefetch(rows: Rows, i: int) -> None:
    """Prefetch the data of row i; call `locate` some rows earlier."""
    rows.prefetch(i)


@generic
def prefetch_weights(rows: Rows, i: int, w: Array) -> None:
    """Prefetch the weights that row i touches; call `prefetch` some rows earlier."""
    rows.prefetch_weights(i, w)


@vector_leaf
def _sum_of_squares(values: Array, start: int, stop: int) -> float:
    total = 0.0
    for k in range(start, stop):
        total += values[k] * values[k]
    return total


@vector_leaf
def _dense_dot(values: Array, i: int, w: Array) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += values[i, j] * w[j]
    return total


@vector_leaf
def _dense_add(values: Array, i: int, c: float, w: Array) -> None:
    for j in range(values.shape[1]):
        w[j] += c * values[i, j]


@vector_leaf
def _dense_add_two(values: Array, i: int, c: float, w: Array, d: float, u: Array) -> None:
    for j in range(values.shape[1]):
        w[j] += c * values[i, j]
        u[j] += d * values[i, j]


@vector_leaf
def _dense_add_scaled(values: Array, i: int, c: float, gains: Array, w: Array) -> None:
    for j in range(values.shape[1]):
        w[j] += c * gains[j] * values[i, j]


@vector_leaf
def _dense_sum_of_squares(values: Array, i: int) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += values[i, j] * values[i, j]
    return total


@vector_leaf
def _dense_weighted_moments(values: Array, i: int, weights: Array) -> tuple[float, float]:
    first = 0.0
    second = 0.0
    for j in range(values.shape[1]):
        share = weights[j] * values[i, j]
        first += share
        second += share * values[i, j]
    return first, second


@vector_leaf
def _dense_add_outer(values: Array, i: int, c: float, G: Array) -> None:
    for j in range(values.shape[1]):
        share = c * values[i, j]
        for k in range(j + 1):
            G[j, k] += share * values[i, k]


# With unsigned indices Numba omits the test for a negative index at every element.
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_FOUR = np.uint64(4)
_LINE = np.uint64(64)  # bytes of a cache line


class Sparse(NamedTuple):
    """The rows of a CSR matrix; indices and indptr are unsigned."""

    data: Array
    indices: Array
    indptr: Array

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        # Four accumulators: a single one would wait four cycles for each addition.
        a = b = c = d = 0.0
        k = self.indptr[i]
        stop = self.indptr[i + 1]
        while k + _THREE < stop:
            a += self.data[k] * w[self.indices[k]]
            b += self.data[k + _ONE] * w[self.indices[k + _ONE]]
            c += self.data[k + _TWO] * w[self.indices[k + _TWO]]
            d += self.data[k + _THREE] * w[self.indices[k + _THREE]]
            k += _FOUR
        while k < stop:
            a += self.data[k] * w[self.indices[k]]
            k += _ONE
        return (a + b) + (c + d)

    def add(self, i, c, w):  # type: ignore[no-untyped-def]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += c * self.data[k]

    def add_two(self, i, c, w, d, u):  # type: ignore[no-untyped-def]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += c * self.data[k]
            u[self.indices[k]] += d * self.data[k]

    def add_scaled(self, i, c, gains, w):  # type: ignore[no-untyped-def]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += c * gains[self.indices[k]] * self.data[k]

    def update_each(self, i, operator, w):  # type: ignore[no-untyped-def]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] = updated(operator, self.indices[k], w[self.indices[k]])

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return _sum_of_squares(self.data, self.indptr[i], self.indptr[i + 1])

    def weighted_moments(self, i, weights):  # type: ignore[no-untyped-def]
        first = 0.0
        second = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            share = weights[self.indices[k]] * self.data[k]
            first += share
            second += share * self.data[k]
        return first, second

    def add_outer(self, i, c, G):  # type: ignore[no-untyped-def]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            share = c * self.data[k]
            for m in range(self.indptr[i], k + _ONE):
                G[self.indices[k], self.indices[m]] += share * self.data[m]

    def locate(self, i):  # type: ignore[no-untyped-def]
        prefetch_element(self.indptr, i)

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        start = self.indptr[i]
        stop = self.indptr[i + 1]
        for k in range(start, stop, _LINE // np.uint64(self.indices.itemsize)):
            prefetch_element(self.indices, k)
        for k in range(start, stop, _LINE // np.uint64(self.data.itemsize)):
            prefetch_element(self.data, k)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        pass


class WideSparse(Sparse):
    """Rows with so many features that the weights exceed a core's cache: prefetch weights, too."""

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        for k in range(self.indptr[i], self.indptr[i + 1]):
            prefetch_element(w, self.indices[k])


class Dense(NamedTuple):
    """The rows of a C-contiguous array."""

    data: Array

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        return _dense_dot(self.data, i, w)

    def add(self, i, c, w):  # type: ignore[no-untyped-def]
        _dense_add(self.data, i, c, w)

    def add_two(self, i, c, w, d, u):  # type: ignore[no-untyped-def]
        _dense_add_two(self.data, i, c, w, d, u)

    def add_scaled(self, i, c, gains, w):  # type: ignore[no-untyped-def]
        _dense_add_scaled(self.data, i, c, gains, w)

    def update_each(self, i, operator, w):  # type: ignore[no-untyped-def]
        for j in range(self.data.shape[1]):
            w[j] = updated(operator, j, w[j])

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return _dense_sum_of_squares(self.data, i)

    def weighted_moments(self, i, weights):  # type: ignore[no-untyped-def]
        return _dense_weighted_moments(self.data, i, weights)

    def add_outer(self, i, c, G):  # type: ignore[no-untyped-def]
        _dense_add_outer(self.data, i, c, G)

    def locate(self, i):  # type: ignore[no-untyped-def]
        pass

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        width = self.data.shape[1]
        # After the first cache lines the hardware prefetcher follows a long row by itself.
        for k in range(0, min(width, 64), 64 // self.data.itemsize):
            prefetch_element(self.data, i * width + k)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        pass


class Biased(NamedTuple):
    """Rows with an additional coordinate that is always 1: ``w[-1]`` is a regularised intercept."""

    rows: Rows

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        return dot(self.rows, i, w) + w[-1]

    def add(self, i, c, w):  # type: ignore[no-untyped-def]
        add(self.rows, i, c, w)
        w[-1] += c

    def add_two(self, i, c, w, d, u):  # type: ignore[no-untyped-def]
        add_two(self.rows, i, c, w, d, u)
        w[-1] += c
        u[-1] += d

    def add_scaled(self, i, c, gains, w):  # type: ignore[no-untyped-def]
        add_scaled(self.rows, i, c, gains, w)
        w[-1] += c * gains[-1]

    def update_each(self, i, operator, w):  # type: ignore[no-untyped-def]
        update_each(self.rows, i, operator, w)
        w[-1] = updated(operator, w.size - 1, w[-1])

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return sqnorm(self.rows, i) + 1.0

    def locate(self, i):  # type: ignore[no-untyped-def]
        locate(self.rows, i)

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        prefetch(self.rows, i)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        prefetch_weights(self.rows, i, w)


def read_only(array: Array, dtype: Any) -> Array:
    """Return a read-only view of an array, or a read-only copy if its type is not `dtype`.

    To Numba a read-only array has another type than a writeable one: with both in use, each kernel
    would be compiled twice.
    """
    view = np.require(np.asarray(array), dtype=dtype, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view


def as_rows(X: Any) -> Sparse | Dense:
    """Wrap a CSR matrix or a 2-D array of float32 or float64 without copying its values.

    Examples
    --------
    >>> import numpy as np
    >>> rows = as_rows(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> dot(rows, 1, np.array([1.0, 10.0]))
    43.0
    """
    if sp.issparse(X):
        indices = read_only(X.indices, np.int32).view(np.uint32)
        indptr = read_only(X.indptr, np.int64).view(np.uint64)
        return as_sparse(read_only(X.data, X.dtype), indices, indptr, X.shape[1])
    return Dense(read_only(X, X.dtype))


def as_sparse(data: Array, indices: Array, indptr: Array, width: int) -> Sparse:
    """Wrap the arrays of a CSR matrix with `width` columns."""
    kind = WideSparse if width > WIDE else Sparse
    return kind(data, read_only(indices, np.uint32), indptr)


@kernel
def inspect_indices(indices: Array, indptr: Array) -> tuple[int, int]:
    """Return the largest index, and the first row whose indices do not increase, or -1."""
    largest = indices.dtype.type(0)
    unsorted_row = -1
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            largest = max(largest, indices[k])
            if k > indptr[i] and indices[k] <= indices[k - _ONE] and unsorted_row < 0:
                unsorted_row = i
    return largest, unsorted_row
