"""Where the weights of a class lie, and how a kernel sees row i of X against them.

Classes fill *slots*, sixteen slots make a *block*. For sparse rows the weights are block-major,
``W[block, feature, lane]``: in float32 the sixteen weights of a feature fill one cache line, so
sixteen classes cost the memory traffic of one, and a block's weights lie together. For dense rows
they are class-major, ``W[slot, feature]``: a class is as contiguous as the row it meets.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import LANES as LANES  # whoever lays out weights knows it from here
from monro._jit import (
    generic,
    kernel,
    lanes_dot,
    lanes_leaf,
    lanes_subtract,
    prefetch_element,
)
from monro.rows import Array, Dense, Sparse, as_rows

_MOSTLY_ZERO = 0.3  # share of non-zeros up to which dense rows had better be sparse
_SAMPLE = 1000  # rows that tell which are worth the attempt

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
    """Start loading the weights of the slot's block that row i, loaded before, will touch."""
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
        pass  # the hardware follows contiguous rows


def n_blocks(n_classes: int) -> int:
    """Return how many blocks hold that many classes.

    Examples
    --------
    >>> n_blocks(16), n_blocks(17)
    (1, 2)
    """
    return -(-n_classes // LANES)


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros that begin at a cache line, so that a block's feature never straddles two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    zeros: Array = buffer[start : start + size].view(dtype).reshape(shape)
    return zeros


def new_weights(sparse: bool, blocks: int, n_features: int, dtype: Any) -> Array:
    """Return zero weights in the layout for sparse or dense rows."""
    shape = (blocks, n_features, LANES) if sparse else (blocks * LANES, n_features)
    return aligned_zeros(shape, dtype)


def view_of(X: Any, W: Array) -> View:
    """Pair rows with weights of the layout that suits them."""
    rows = as_rows(X)
    # A wide matrix has no kernels of its own here: weights are always fetched ahead.
    return DenseView(rows, W) if isinstance(rows, Dense) else SparseView(Sparse(*rows), W)


def class_major(W: Array) -> Array:
    """Return weights of either layout as ``[slot, feature]``."""
    if W.ndim == 2:
        return W
    blocks, features, lanes = W.shape
    return W.transpose(0, 2, 1).reshape(blocks * lanes, features)


def sparse_if_mostly_zero(X: Any, dtype: str) -> Any:
    """Return rows that are mostly zeros as a CSR matrix of that precision, others as they are.

    A class's score costs a multiplication for each number of a dense row, a sixteenth of one for
    each non-zero of a sparse one; but these do not lie in order.
    """
    if sp.issparse(X):
        return X
    sample = X[:: X.shape[0] // _SAMPLE + 1]
    if np.count_nonzero(sample) > _MOSTLY_ZERO * sample.size:
        return X
    X = np.ascontiguousarray(X)
    most = int(_MOSTLY_ZERO * X.size)
    indptr = np.zeros(X.shape[0] + 1, np.int64)
    # Memory that is never written to is never taken.
    indices, data = (np.empty(most + X.shape[1] + 1, t) for t in (np.int32, dtype))
    if not gather_nonzeros(X, most, indptr, indices, data):
        return X
    return sp.csr_matrix((data[: indptr[-1]], indices[: indptr[-1]], indptr), shape=X.shape)


@kernel
def gather_nonzeros(X: Array, most: int, indptr: Array, indices: Array, data: Array) -> bool:
    """Write a matrix's non-zeros as those of a CSR matrix; say whether there are at most so many.

    In one pass, without branches: several times as fast as SciPy does it. There must be room for
    one row more.
    """
    place = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            indices[place] = j
            data[place] = X[i, j]
            place += X[i, j] != 0.0
        indptr[i + 1] = place
        if place > most:
            return False
    return True


def is_sparse(X: Any) -> bool:
    """Tell whether rows want the block-major layout."""
    return bool(sp.issparse(X))
