"""Long arrays, in memory or memory-mapped, processed a chunk at a time."""

import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.rows import Array

CHUNK = 1 << 20  # elements of a long array to process at a time


def is_mapped(X: Any) -> bool:
    """Return whether X is a memory-mapped CSR matrix."""
    return sp.issparse(X) and isinstance(X.data, np.memmap)


def zeros_in_file(size: int, dtype: Any) -> Array:
    """Return zeros in a memory-mapped temporary file, which is deleted with the array."""
    with tempfile.TemporaryFile() as file:
        file.truncate(max(1, size) * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype, mode="r+", shape=(size,))


def empty_alongside(array: Array, dtype: Any) -> Array:
    """Return a new array of the same size, memory-mapped if `array` is."""
    in_file = isinstance(array, np.memmap)
    return zeros_in_file(array.size, dtype) if in_file else np.empty(array.size, dtype)


def take_from_table(table: Array, codes: Array) -> Array:
    """Return ``table[codes]``, memory-mapped if `codes` is."""
    result = empty_alongside(codes, table.dtype)
    for code_chunk, result_chunk in zip(chunks(codes), chunks(result), strict=True):
        result_chunk[:] = table[code_chunk]
    return result


def count_codes(codes: Array, size: int) -> Array:
    """Return how often each of 0…size-1 occurs in `codes`.

    ``np.bincount`` would convert all codes to int64 at once.
    """
    counts = np.zeros(size, np.int64)
    for chunk in chunks(codes):
        counts += np.bincount(chunk, minlength=size)
    return counts


def map_file(file: Any, dtype: Any) -> Array:
    """Return what was written to an open file as a memory-mapped array.

    The file may be closed afterwards: the mapping keeps its contents.
    """
    empty = file.seek(0, 2) == 0
    return np.zeros(0, dtype) if empty else np.memmap(file, dtype, mode="r")


def chunks(array: Array, overlap: int = 0) -> Iterable[Array]:
    """Return consecutive views of an array, each with `overlap` elements of the next one."""
    return [array[k : k + CHUNK + overlap] for k in range(0, max(1, array.size), CHUNK)]
