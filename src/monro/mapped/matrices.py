"""CSR matrices in memory-mapped files: slices, selections and conversions without full copies."""

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.mapped.chunked_arrays import CHUNK, chunks, is_mapped, map_file
from monro.mapped.page_requests import reading_rows
from monro.rows import Array


def csr_from_files(data: Array, indices: Array, indptr: Array, width: int) -> Any:
    """Return the CSR matrix of memory-mapped arrays, without reading them."""
    X = sp.csr_matrix((indptr.size - 1, width), dtype=data.dtype)
    # The constructor would copy the arrays, or widen the indices.
    X.data, X.indices, X.indptr = data, indices, indptr
    return X


def slice_mapped_rows(X: Any, start: int, stop: int) -> Any:
    """Return the rows `start` to `stop` (excluded) as views of the mapped arrays.

    For kernels: `indptr` stays int64, so SciPy would copy `indices` on the first operation. For
    SciPy use `slice_rows`.
    """
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    pointers = X.indptr[start : stop + 1]
    if first > 0:
        pointers = np.asarray(pointers - first)
    return csr_from_files(X.data[first:last], X.indices[first:last], pointers, X.shape[1])


def slice_rows(X: Any, start: int, stop: int) -> Any:
    """Return the rows `start` to `stop` (excluded) of any matrix, in a form SciPy does not copy."""
    if not is_mapped(X):
        return X[start:stop]
    part = slice_mapped_rows(X, start, stop)
    if part.data.size <= np.iinfo(np.int32).max:  # as `indices`, which SciPy then leaves alone
        part.indptr = np.asarray(part.indptr).astype(np.int32)
    return part


def row_chunks(X: Any, nonzeros: int = 1 << 22) -> Iterator[Any]:
    """Yield consecutive slices of rows with about `nonzeros` non-zeros each, fit for SciPy."""
    for start, stop in chunk_bounds(X, nonzeros):
        yield slice_rows(X, start, stop)


def chunk_bounds(X: Any, nonzeros: int = 1 << 22) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of chunks with about `nonzeros` non-zeros each.

    Of a dense array all elements count as non-zeros. A chunk has at least one row.
    """
    start, n = 0, X.shape[0]
    while start < n:
        if sp.issparse(X):
            bound = int(X.indptr[start]) + nonzeros
            stop = int(np.searchsorted(X.indptr, bound, side="right")) - 1
        else:
            stop = start + nonzeros // max(1, X.shape[1])
        stop = min(n, max(start + 1, stop))
        yield start, stop
        start = stop


def count_used_columns(X: Any) -> int:
    """Return the number of columns of a CSR matrix that have entries."""
    used = np.zeros(X.shape[1], bool)
    for chunk in chunks(X.indices):
        used[chunk] = True
    return int(np.count_nonzero(used))


def load_rows(X: Any, rows: Array) -> Any:
    """Return ``X[rows]``, in memory even if X is mapped."""
    if not is_mapped(X):
        return X[rows]
    with reading_rows(X, rows):
        starts = np.asarray(X.indptr[rows])
        lengths = np.asarray(X.indptr[rows + 1]) - starts
        indptr = np.append(0, np.cumsum(lengths))
        cells = np.repeat(starts - indptr[:-1], lengths)
        cells += np.arange(cells.size)
        parts = np.asarray(X.data[cells]), np.asarray(X.indices[cells]), indptr
    return sp.csr_matrix(parts, shape=(rows.size, X.shape[1]))


def select_rows(X: Any, rows: Array) -> Any:
    """Return ``X[rows]``, in unnamed temporary files if X is mapped.

    The files are deleted with the matrix.
    """
    if not is_mapped(X):
        return X[rows]
    with tempfile.TemporaryFile() as values, tempfile.TemporaryFile() as columns:
        for k in range(0, rows.size, CHUNK):
            part = load_rows(X, rows[k : k + CHUNK])
            part.data.tofile(values)
            part.indices.astype(np.int32).tofile(columns)
        indptr = np.append(0, np.cumsum(np.asarray(X.indptr[rows + 1] - X.indptr[rows])))
        data, indices = map_file(values, X.dtype), map_file(columns, np.int32)
        return csr_from_files(data, indices, indptr, X.shape[1])


def as_dtype(X: Any, dtype: Any) -> Any:
    """Return any matrix with values of `dtype`, in a temporary file if X is mapped."""
    if not is_mapped(X) or X.dtype == dtype:
        return X.astype(dtype, copy=False)
    with tempfile.TemporaryFile() as values:
        for k in range(0, X.data.size, CHUNK):
            X.data[k : k + CHUNK].astype(dtype).tofile(values)
        return csr_from_files(map_file(values, dtype), X.indices, X.indptr, X.shape[1])


def in_memory(X: Any) -> Any:
    """Return any matrix in memory."""
    if not is_mapped(X):
        return X
    return sp.csr_matrix((np.array(X.data), np.array(X.indices), np.array(X.indptr)), X.shape)
