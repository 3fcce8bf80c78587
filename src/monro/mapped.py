"""CSR matrices that lie in files, mapped into memory, and may be larger than it."""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.rows import Array

_PAGE = mmap.PAGESIZE
# Rows further apart than this are asked for separately.
_GAP = 64


def is_mapped(X: Any) -> bool:
    """Tell whether a CSR matrix lies in files."""
    return sp.issparse(X) and isinstance(X.data, np.memmap)


def csr_from_files(data: Array, indices: Array, indptr: Array, width: int) -> Any:
    """Make a CSR matrix of arrays that lie in files, without reading them."""
    X = sp.csr_matrix((indptr.size - 1, width), dtype=data.dtype)
    # The constructor would copy, or widen the indices. Pointers are of their type where that is
    # wide enough: SciPy would convert both to the wider of the two.
    wide = indices.size > np.iinfo(np.int32).max
    X.data, X.indices, X.indptr = data, indices, indptr.astype(np.int64 if wide else np.int32)
    return X


def row_range(X: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` to `stop`, without copying them."""
    first, last = X.indptr[start], X.indptr[stop]
    pointers = X.indptr[start : stop + 1] - first
    return csr_from_files(X.data[first:last], X.indices[first:last], pointers, X.shape[1])


def row_parts(X: Any, nonzeros: int = 1 << 26) -> Iterator[Any]:
    """Yield the rows in parts of about that many non-zeros."""
    start = 0
    while start < X.shape[0]:
        bound = int(X.indptr[start]) + nonzeros
        stop = max(start + 1, int(np.searchsorted(X.indptr, bound, side="right")) - 1)
        yield row_range(X, start, stop)
        start = stop


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _advise(array: Any, advice: str, first: int = 0, last: int | None = None) -> None:
    """Tell the system what will become of the elements from `first` to `last`, where it listens."""
    if not hasattr(mmap, advice) or array.size == 0:
        return
    memory = array._mmap
    offset = _address(array) - _address(np.frombuffer(memory, np.uint8))
    begin = (offset + first * array.itemsize) // _PAGE * _PAGE
    end = offset + (array.size if last is None else last) * array.itemsize
    memory.madvise(getattr(mmap, advice), begin, end - begin)


def read_in_sequence(X: Any) -> None:
    """Say that all rows will be read one after the other."""
    for array in (X.data, X.indices):
        _advise(array, "MADV_SEQUENTIAL")


class ReadAhead:
    """Asks for rows before they are visited, while others are.

    Left to itself the system reads megabytes around each row that is not in memory, and only when
    it is needed: four times slower than the disk.
    """

    def __init__(self, X: Any):
        self.X = X
        for array in (X.data, X.indices):
            _advise(array, "MADV_RANDOM")  # read what is asked for, and no more

    def ask_for(self, rows: Array) -> None:
        """Start reading these rows."""
        rows = np.sort(rows)
        cuts = np.flatnonzero(np.diff(rows) > _GAP) + 1
        starts = rows[np.append(0, cuts)]
        stops = rows[np.append(cuts, rows.size) - 1] + 1
        for first, last in zip(self.X.indptr[starts], self.X.indptr[stops], strict=True):
            if last > first:
                for array in (self.X.data, self.X.indices):
                    _advise(array, "MADV_WILLNEED", int(first), int(last))
