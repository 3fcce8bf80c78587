"""Read-ahead of memory-mapped files: off for random access, with explicit requests instead.

At every page fault the kernel of the operating system reads megabytes around the page and evicts
others for them. That is right for sequential reads and wrong for rows in random order. So before
some rows are read, read-ahead is switched off and exactly their pages are requested.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from monro.mapped.chunked_arrays import is_mapped
from monro.rows import Array

_REQUEST_BYTES = 1 << 21  # of a larger request the system may load only a part


@contextmanager
def reading_rows(X: Any, rows: Array, *per_row: Array) -> Iterator[None]:
    """Request the pages of some rows of X, and switch read-ahead off within the context.

    Does nothing if X is in memory.

    Parameters
    ----------
    X : CSR matrix or array
    rows : array
        The rows to be read, in any order.
    *per_row : arrays
        Arrays with one element for each row of X, read at the same rows.
    """
    if not is_mapped(X):
        yield
        return
    with no_read_ahead(X.data, X.indices, X.indptr, *per_row):
        starts, stops = contiguous_runs(rows)
        for array in per_row:
            request_pages(array, starts, stops)
        request_pages(X.indptr, starts, stops + 1)
        cells = X.indptr[starts], X.indptr[stops]
        request_pages(X.data, *cells)
        request_pages(X.indices, *cells)
        yield


@contextmanager
def no_read_ahead(*arrays: Array) -> Iterator[None]:
    """Switch read-ahead off within the context, for those arrays that are memory-mapped."""
    mappings = [_mmap_of(array) for array in arrays if _accepts_advice(array)]
    for mapping in mappings:
        mapping.madvise(mmap.MADV_RANDOM)
    yield
    for mapping in mappings:
        mapping.madvise(mmap.MADV_NORMAL)


def _accepts_advice(array: Array) -> bool:
    """Return whether an array is memory-mapped, on a system that has madvise."""
    return isinstance(array, np.memmap) and hasattr(mmap.mmap, "madvise")


def _mmap_of(array: Any) -> mmap.mmap:
    mapping: mmap.mmap = array._mmap
    return mapping


def contiguous_runs(rows: Array) -> tuple[Array, Array]:
    """Return the starts and ends of the runs of consecutive numbers among `rows`, in any order.

    Examples
    --------
    >>> contiguous_runs(np.array([7, 3, 4, 8, 5]))
    (array([3, 7]), array([6, 9]))
    """
    rows = np.sort(rows)
    gaps = np.flatnonzero(np.diff(rows) > 1)
    return rows[np.append(0, gaps + 1)], rows[np.append(gaps, rows.size - 1)] + 1


def request_pages(array: Array, starts: Array, stops: Array) -> None:
    """Ask the system to load the slices ``array[start:stop]``, if the array is memory-mapped."""
    if not _accepts_advice(array):
        return
    mapping = _mmap_of(array)
    offset = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first = (offset + np.asarray(starts) * array.itemsize) // mmap.PAGESIZE * mmap.PAGESIZE
    last = np.minimum(offset + np.asarray(stops) * array.itemsize, len(mapping))
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        for k in range(begin, end, _REQUEST_BYTES):
            mapping.madvise(mmap.MADV_WILLNEED, k, min(_REQUEST_BYTES, end - k))
