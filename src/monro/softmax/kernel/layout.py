"""The layout of the weights in memory, and the operations on row i of X and the weights.

Each class has a *slot*, and sixteen slots make a *block*. For sparse rows the weights are
block-major, ``W[block, feature, lane]``: in float32 the sixteen weights of a feature fill one cache
line, so sixteen classes cost the memory traffic of one, and the weights of a block are contiguous.
For dense rows they are class-major, ``W[slot, feature]``: the weights of a class are contiguous, as
is the row.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import generic, kernel, lanes_leaf, prefetch_element
from monro.blocks import LANES, aligned_zeros, lanes_dot, lanes_subtract
from monro.rows import Array, Dense, Sparse, as_rows

_MOSTLY_ZERO = 0.3  # share of non-zeros up to which dense rows are converted to sparse ones
_SAMPLE_ROWS = 1000  # from which that share is estimated first

View = Any  # SparseView | DenseView; Numba resolves which


@generic
def score(view: View, i: int, slot: int) -> float:
    """``x_i · r_slot``."""
    return float(view.score(i, slot))


@generic
def add(view: View, i: int, slot: int, c: float) -> None:
    """``r_slot += c x_i``."""
    view.add(i, slot, c)


@generic
def block_scores(view: View, i: int, block: int, out: Array) -> None:
    """``out = x_i · r_k`` for the sixteen classes of a block."""
    view.block_scores(i, block, out)


@generic
def block_subtract(view: View, i: int, block: int, steps: Array) -> None:
    """``r_k -= steps_k x_i`` for the sixteen classes of a block."""
    view.block_subtract(i, block, steps)


@generic
def rescale(view: View, slot: int, c: float) -> None:
    """``r_slot *= c``."""
    view.rescale(slot, c)


@generic
def prefetch_slot(view: View, i: int, slot: int) -> None:
    """Prefetch the weights of the slot's block that row i will touch; the row is in the cache."""
    view.prefetch_slot(i, slot)


_ONE = np.uint64(1)
_TWO = np.uint64(2)


class SparseView(NamedTuple):
    """Rows of a CSR matrix against block-major weights."""

    rows: Any
    W: Array  # (blocks, features, LANES)

    def score(self, i, slot):  # type: ignore[no-untyped-def]
        block = slot // LANES
        lane = slot % LANES
        a = b = self.W.dtype.type(0.0)
        p = self.rows.indptr[i]
        stop = self.rows.indptr[i + 1]
        while p + _ONE < stop:
            a += self.rows.data[p] * self.W[block, self.rows.indices[p], lane]
            b += self.rows.data[p + _ONE] * self.W[block, self.rows.indices[p + _ONE], lane]
            p += _TWO
        if p < stop:
            a += self.rows.data[p] * self.W[block, self.rows.indices[p], lane]
        return a + b

    def add(self, i, slot, c):  # type: ignore[no-untyped-def]
        block = slot // LANES
        lane = slot % LANES
        for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
            self.W[block, self.rows.indices[p], lane] += c * self.rows.data[p]

    def block_scores(self, i, block, out):  # type: ignore[no-untyped-def]
        start, stop = self.rows.indptr[i], self.rows.indptr[i + 1]
        lanes_dot(self.rows.data, self.rows.indices, start, stop, self.W, block, out)

    def block_subtract(self, i, block, steps):  # type: ignore[no-untyped-def]
        start, stop = self.rows.indptr[i], self.rows.indptr[i + 1]
        lanes_subtract(self.rows.data, self.rows.indices, start, stop, self.W, block, steps)

    def rescale(self, slot, c):  # type: ignore[no-untyped-def]
        for f in range(self.W.shape[1]):
            self.W[slot // LANES, f, slot % LANES] *= c

    def prefetch_slot(self, i, slot):  # type: ignore[no-untyped-def]
        first = np.uint64(slot // LANES) * np.uint64(self.W.shape[1])
        for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
            prefetch_element(self.W, (first + self.rows.indices[p]) * np.uint64(LANES))


@lanes_leaf
def _dense_score(x: Array, w: Array) -> Any:
    total = x.dtype.type(0.0)
    for f in range(x.size):
        total += x[f] * w[f]
    return total


@lanes_leaf
def _dense_add(x: Array, w: Array, c: float) -> None:
    for f in range(x.size):
        w[f] += c * x[f]


class DenseView(NamedTuple):
    """Rows of an array against class-major weights."""

    rows: Dense
    W: Array  # (slots, features)

    def score(self, i, slot):  # type: ignore[no-untyped-def]
        return _dense_score(self.rows.data[i], self.W[slot])

    def add(self, i, slot, c):  # type: ignore[no-untyped-def]
        _dense_add(self.rows.data[i], self.W[slot], c)

    def block_scores(self, i, block, out):  # type: ignore[no-untyped-def]
        for q in range(LANES):
            out[q] = _dense_score(self.rows.data[i], self.W[block * LANES + q])

    def block_subtract(self, i, block, steps):  # type: ignore[no-untyped-def]
        for q in range(LANES):
            if steps[q] != 0.0:
                _dense_add(self.rows.data[i], self.W[block * LANES + q], -steps[q])

    def rescale(self, slot, c):  # type: ignore[no-untyped-def]
        for f in range(self.W.shape[1]):
            self.W[slot, f] *= c

    def prefetch_slot(self, i, slot):  # type: ignore[no-untyped-def]
        pass  # the hardware prefetches contiguous rows


def new_weights(sparse: bool, blocks: int, n_features: int, dtype: Any) -> Array:
    """Return zero weights in the layout for sparse or dense rows."""
    shape = (blocks, n_features, LANES) if sparse else (blocks * LANES, n_features)
    return aligned_zeros(shape, dtype)


def view_of(X: Any, W: Array) -> View:
    """Return rows paired with weights, which are in the layout for such rows."""
    rows = as_rows(X)
    # Wide sparse rows need no view of their own: weights are always prefetched.
    return DenseView(rows, W) if isinstance(rows, Dense) else SparseView(Sparse(*rows), W)


def class_major(W: Array) -> Array:
    """Return weights of either layout as ``[slot, feature]``."""
    if W.ndim == 2:
        return W
    blocks, features, lanes = W.shape
    return W.transpose(0, 2, 1).reshape(blocks * lanes, features)


def sparse_if_mostly_zero(X: Any, dtype: str) -> Any:
    """Return rows that are mostly zeros as a CSR matrix of type `dtype`, others unchanged.

    The score of a class costs a multiplication for each entry of a dense row. In the sparse layout
    sixteen classes share a vector multiplication for each non-zero, but the weights of a class are
    not contiguous.
    """
    if sp.issparse(X):
        return X
    sample = X[:: X.shape[0] // _SAMPLE_ROWS + 1]
    if np.count_nonzero(sample) > _MOSTLY_ZERO * sample.size:
        return X
    X = np.ascontiguousarray(X)
    most = int(_MOSTLY_ZERO * X.size)
    indptr = np.zeros(X.shape[0] + 1, np.int64)
    # Pages that are never written to take no memory.
    indices, data = (np.empty(most + X.shape[1] + 1, t) for t in (np.int32, dtype))
    if not gather_nonzeros(X, most, indptr, indices, data):
        return X
    return sp.csr_matrix((data[: indptr[-1]], indices[: indptr[-1]], indptr), shape=X.shape)


@kernel
def gather_nonzeros(X: Array, most: int, indptr: Array, indices: Array, data: Array) -> bool:
    """Write the non-zeros of X as a CSR matrix; return False if there are more than `most`.

    One pass without branches, several times as fast as SciPy's. `indices` and `data` need space for
    `most` entries and one more row.
    """
    end = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            indices[end] = j
            data[end] = X[i, j]
            end += X[i, j] != 0.0
        indptr[i + 1] = end
        if end > most:
            return False
    return True
