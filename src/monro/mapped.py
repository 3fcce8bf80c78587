"""Rows and labels that lie in files, mapped into memory, and may be larger than it.

SciPy converts columns and pointers of a CSR matrix to one type before it does anything, and would
make a copy of all columns here. So whoever works on mapped rows takes some at a time, with the
functions below.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.rows import Array

CHUNK = 1 << 20  # numbers of long arrays to work on at a time


def is_mapped(X: Any) -> bool:
    """Tell whether a CSR matrix lies in files."""
    return sp.issparse(X) and isinstance(X.data, np.memmap)


def csr_from_files(data: Array, indices: Array, indptr: Array, width: int) -> Any:
    """Make a CSR matrix of arrays that lie in files, without reading them."""
    X = sp.csr_matrix((indptr.size - 1, width), dtype=data.dtype)
    # The constructor would copy, or widen the indices.
    X.data, X.indices, X.indptr = data, indices, indptr
    return X


def row_range(X: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` to `stop`, without copying them."""
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    pointers = X.indptr[start : stop + 1]
    if first > 0:
        pointers = np.asarray(pointers - first)
    return csr_from_files(X.data[first:last], X.indices[first:last], pointers, X.shape[1])


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` to `stop` of any matrix, in memory where SciPy may have them."""
    if not is_mapped(X):
        return X[start:stop]
    part = row_range(X, start, stop)
    if part.data.size <= np.iinfo(np.int32).max:  # the columns' type
        part.indptr = np.asarray(part.indptr).astype(np.int32)
    return part


def row_parts(X: Any, nonzeros: int = 1 << 22) -> Iterator[Any]:
    """Yield the rows in parts of about that many non-zeros, as SciPy may have them."""
    for start, stop in part_borders(X, nonzeros):
        yield rows_between(X, start, stop)


def part_borders(X: Any, nonzeros: int = 1 << 22) -> Iterator[tuple[int, int]]:
    """Yield where parts of about that many non-zeros (of an array: numbers) begin and end."""
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


def rows_at(X: Any, rows: Array) -> Any:
    """Return some rows of any matrix, copied into memory."""
    if not is_mapped(X):
        return X[rows]
    with visiting(X, rows):
        starts = np.asarray(X.indptr[rows])
        lengths = np.asarray(X.indptr[rows + 1]) - starts
        indptr = np.append(0, np.cumsum(lengths))
        cells = np.repeat(starts - indptr[:-1], lengths)
        cells += np.arange(cells.size)
        parts = np.asarray(X.data[cells]), np.asarray(X.indices[cells]), indptr
    return sp.csr_matrix(parts, shape=(rows.size, X.shape[1]))


def take_rows(X: Any, rows: Array) -> Any:
    """Return some rows, in files if they lay there: these have no names, and go with the matrix."""
    if not is_mapped(X):
        return X[rows]
    with tempfile.TemporaryFile() as values, tempfile.TemporaryFile() as columns:
        for part in (rows_at(X, rows[k : k + CHUNK]) for k in range(0, rows.size, CHUNK)):
            part.data.tofile(values)
            part.indices.astype(np.int32).tofile(columns)
        indptr = np.append(0, np.cumsum(np.asarray(X.indptr[rows + 1] - X.indptr[rows])))
        data, indices = _map_file(values, X.dtype), _map_file(columns, np.int32)
        return csr_from_files(data, indices, indptr, X.shape[1])


def as_dtype(X: Any, dtype: Any) -> Any:
    """Return any matrix in that precision; if it lies in files, its new values do, too."""
    if not is_mapped(X) or X.dtype == dtype:
        return X.astype(dtype, copy=False)
    with tempfile.TemporaryFile() as values:
        for k in range(0, X.data.size, CHUNK):
            X.data[k : k + CHUNK].astype(dtype).tofile(values)
        return csr_from_files(_map_file(values, dtype), X.indices, X.indptr, X.shape[1])


def room(size: int, dtype: Any) -> Array:
    """Return an array of zeros that lies in a file, which goes with it."""
    with tempfile.TemporaryFile() as file:
        file.truncate(max(1, size) * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype, mode="r+", shape=(size,))


def room_beside(array: Array, dtype: Any) -> Array:
    """Return an array as long as another one, which lies in a file if that does."""
    in_file = isinstance(array, np.memmap)
    return room(array.size, dtype) if in_file else np.empty(array.size, dtype)


def look_up(table: Array, codes: Array) -> Array:
    """Return ``table[codes]``, which lies in a file if the codes do."""
    found = room_beside(codes, table.dtype)
    for part, own in zip(pieces(codes), pieces(found), strict=True):
        own[:] = table[part]
    return found


def count(codes: Array, size: int) -> Array:
    """Return how often each of 0…size-1 occurs, with little memory."""
    counts = np.zeros(size, np.int64)
    for part in pieces(codes):
        counts += np.bincount(part, minlength=size)
    return counts


def _map_file(file: Any, dtype: Any) -> Array:
    """Map what was written to a file, which may be closed then."""
    empty = file.seek(0, 2) == 0
    return np.zeros(0, dtype) if empty else np.memmap(file, dtype, mode="r")


def in_memory(X: Any) -> Any:
    """Return a mapped matrix as one in memory."""
    if not is_mapped(X):
        return X
    return sp.csr_matrix((np.array(X.data), np.array(X.indices), np.array(X.indptr)), X.shape)


# ------------------------------------------------------------------------------------ reading ahead

_AT_ONCE = 1 << 21  # bytes that the system reads for one request, at least


@contextmanager
def visiting(X: Any, rows: Array, *beside: Array) -> Iterator[None]:
    """Read these rows of mapped files, and what lies beside them, and no others meanwhile.

    The system would read megabytes around each place that is visited, and throw out others for it.
    """
    if not is_mapped(X):
        yield
        return
    with no_read_ahead(X.data, X.indices, X.indptr, *beside):
        starts, stops = runs_of(rows)
        for array in beside:
            ask_for(array, starts, stops)
        ask_for(X.indptr, starts, stops + 1)
        cells = X.indptr[starts], X.indptr[stops]
        ask_for(X.data, *cells)
        ask_for(X.indices, *cells)
        yield


@contextmanager
def no_read_ahead(*arrays: Array) -> Iterator[None]:
    """Let the system read only what it is asked for, of those arrays that lie in files."""
    maps = [_map_of(array) for array in arrays if _takes_advice(array)]
    for each in maps:
        each.madvise(mmap.MADV_RANDOM)
    yield
    for each in maps:
        each.madvise(mmap.MADV_NORMAL)


def _takes_advice(array: Array) -> bool:
    """Tell whether an array lies in a file, on a system that can be told how it will be read."""
    return isinstance(array, np.memmap) and hasattr(mmap.mmap, "madvise")


def _map_of(array: Any) -> mmap.mmap:
    whole: mmap.mmap = array._mmap
    return whole


def runs_of(rows: Array) -> tuple[Array, Array]:
    """Return where runs of rows begin and end that follow one another, in whatever order.

    Examples
    --------
    >>> runs_of(np.array([7, 3, 4, 8, 5]))
    (array([3, 7]), array([6, 9]))
    """
    rows = np.sort(rows)
    gaps = np.flatnonzero(np.diff(rows) > 1)
    return rows[np.append(0, gaps + 1)], rows[np.append(gaps, rows.size - 1)] + 1


def ask_for(array: Array, starts: Array, stops: Array) -> None:
    """Ask the system to read parts of an array, if that lies in a file."""
    if not _takes_advice(array):
        return
    whole = _map_of(array)
    offset = array.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
    first = (offset + np.asarray(starts) * array.itemsize) // mmap.PAGESIZE * mmap.PAGESIZE
    last = np.minimum(offset + np.asarray(stops) * array.itemsize, len(whole))
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        for k in range(begin, end, _AT_ONCE):
            whole.madvise(mmap.MADV_WILLNEED, k, min(_AT_ONCE, end - k))


# ------------------------------------------------------------------------------------------ labels


class MappedLabels:
    """The labels of a store: numbers, or for words their places in a list.

    Parameters
    ----------
    numbers : array of float64
        One a row.
    words : list of str, optional
        In order.
    """

    def __init__(self, numbers: Array, words: Any = None):
        self.numbers = numbers
        self.words = None if words is None else np.array(words, dtype=np.str_)
        self.shape = numbers.shape

    def __len__(self) -> int:
        return int(self.numbers.size)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self)

    @property
    def dtype(self) -> Any:
        """What they are as an array."""
        if self.words is not None:
            return self.words.dtype
        whole = all((part == np.floor(part)).all() for part in pieces(self.numbers))
        return np.dtype(np.int64 if whole else np.float64)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        labels = as_integers(np.array(self.numbers))
        return np.asarray(labels if self.words is None else self.words[labels], dtype)

    def encode(self) -> tuple[Array, Array]:
        """Return the classes that occur, and the number of each row's among them."""
        classes, codes = _encode(self.numbers)
        classes = as_integers(classes)
        return (classes if self.words is None else self.words[classes]), codes


def as_integers(y: Array) -> Array:
    """Return labels as integers where they all are."""
    whole = np.isfinite(y).all() and (y == np.floor(y)).all() and np.abs(y).max(initial=0) < 2**53
    return y.astype(np.int64) if whole else y


def encode(y: Any) -> tuple[Array, Array]:
    """Return the different labels in order, and the number of each row's: with little memory.

    Examples
    --------
    >>> encode(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    """
    return y.encode() if isinstance(y, MappedLabels) else _encode(y)


def _encode(y: Array) -> tuple[Array, Array]:
    classes = np.unique(np.concatenate([np.unique(part) for part in pieces(y)]))
    codes = room_beside(y, np.int32)
    for part, own in zip(pieces(y), pieces(codes), strict=True):
        own[:] = np.searchsorted(classes, part)
    return classes, codes


def pieces(array: Array, shared: int = 0) -> Iterable[Array]:
    """Return views of one part of an array after the other; with so many numbers of the next."""
    return [array[k : k + CHUNK + shared] for k in range(0, max(1, array.size), CHUNK)]
