"""CSR matrices that lie in files, mapped into memory, and may be larger than it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.rows import Array


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
