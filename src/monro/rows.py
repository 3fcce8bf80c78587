"""How a kernel sees the data: row i of X, through a few operations that cost O(nnz).

``Sparse`` and ``Dense`` hold data. ``Biased`` and ``Centered`` wrap other rows and change what a
row *is* (one more constant coordinate; the mean subtracted) without touching the data. Weights may
be longer than a data row is wide: the wrappers keep their own coordinates behind it.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import generic, kernel, prefetch_element, vector_leaf

Array = np.ndarray[Any, np.dtype[Any]]
Rows = Any  # Sparse | Dense | Biased | Centered; Numba resolves the class, mypy cannot

WIDE = 1 << 17  # features: a megabyte of weights


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
def sqnorm(rows: Rows, i: int) -> float:
    """``‖x_i‖²``."""
    return float(rows.sqnorm(i))


@generic
def locate(rows: Rows, i: int) -> None:
    """Start loading what tells where row i lies."""
    rows.locate(i)


@generic
def prefetch(rows: Rows, i: int) -> None:
    """Start loading row i, located before."""
    rows.prefetch(i)


@generic
def prefetch_weights(rows: Rows, i: int, w: Array) -> None:
    """Start loading the weights that row i, prefetched before, will touch."""
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


# Unsigned numbers as indices spare Numba the test for a negative index at every element.
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_FOUR = np.uint64(4)
_LINE = np.uint64(64)  # bytes


class Sparse(NamedTuple):
    """The rows of a CSR matrix; indices and indptr are unsigned."""

    data: Array
    indices: Array
    indptr: Array

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        # Four sums: one alone would wait four cycles for each addition.
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

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return _sum_of_squares(self.data, self.indptr[i], self.indptr[i + 1])

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
    """Rows so wide that the weights do not stay in a core's own cache: fetch them ahead, too."""

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

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return _dense_sum_of_squares(self.data, i)

    def locate(self, i):  # type: ignore[no-untyped-def]
        pass

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        width = self.data.shape[1]
        # The hardware follows a long row by itself once its first lines are under way.
        for k in range(0, min(width, 64), 64 // self.data.itemsize):
            prefetch_element(self.data, i * width + k)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        pass


class Biased(NamedTuple):
    """Rows with one more coordinate, always 1: ``w[-1]`` is a regularised bias."""

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

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return sqnorm(self.rows, i) + 1.0

    def locate(self, i):  # type: ignore[no-untyped-def]
        locate(self.rows, i)

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        prefetch(self.rows, i)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        prefetch_weights(self.rows, i, w)


class Centered(NamedTuple):
    """Rows ``x_i - x̄`` that stay sparse (paper 002, section 5).

    A sum ``Σ c_i (x_i - x̄)`` is kept as ``v = Σ c_i x_i``, ``a = Σ c_i`` and ``z = v·x̄``, in an
    array ``[v, a, z]``. All three are linear in the c_i, so whatever a solver does to its weights
    (scale them, average them) it does to this array, and never sees the difference.
    """

    rows: Rows
    mean: Array
    sqnorm_mean: float

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        a = w[self.mean.size]
        z = w[self.mean.size + 1]
        return dot(self.rows, i, w) - a * dot(self.rows, i, self.mean) - z + a * self.sqnorm_mean

    def add(self, i, c, w):  # type: ignore[no-untyped-def]
        add(self.rows, i, c, w)
        w[self.mean.size] += c
        w[self.mean.size + 1] += c * dot(self.rows, i, self.mean)

    def add_two(self, i, c, w, d, u):  # type: ignore[no-untyped-def]
        add_two(self.rows, i, c, w, d, u)
        a = self.mean.size
        q = dot(self.rows, i, self.mean)
        w[a] += c
        w[a + 1] += c * q
        u[a] += d
        u[a + 1] += d * q

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return sqnorm(self.rows, i) - 2.0 * dot(self.rows, i, self.mean) + self.sqnorm_mean

    def locate(self, i):  # type: ignore[no-untyped-def]
        locate(self.rows, i)

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        prefetch(self.rows, i)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        prefetch_weights(self.rows, i, w)


def read_only(array: Array, dtype: Any) -> Array:
    """Return an array as kernels take those they do not write to, without a copy if possible."""
    # A read-only array is another type to Numba: were some writeable, each kernel would be
    # compiled twice.
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
    """Wrap the arrays of a CSR matrix of that width."""
    kind = WideSparse if width > WIDE else Sparse
    return kind(data, read_only(indices, np.uint32), indptr)


@kernel
def survey(indices: Array, indptr: Array) -> tuple[int, int]:
    """Return the largest index, and the first row whose indices do not increase, or -1."""
    largest = indices.dtype.type(0)
    disorder = -1
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            largest = max(largest, indices[k])
            if k > indptr[i] and indices[k] <= indices[k - _ONE] and disorder < 0:
                disorder = i
    return largest, disorder
