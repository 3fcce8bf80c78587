"""Very wide sparse data, reduced to the columns that occur.

Hashed features use few of their millions of columns, far apart, so that each weight is in a cache
line and a memory page of its own. The columns that occur are renumbered in the order of their first
appearance: their weights are then adjacent, the frequent ones first, and an epoch takes as long as
if the other columns did not exist. The arithmetic is the same, bit for bit, but the learning rate
of the bias depends on the number of columns kept (`problem.bias_damping`).
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel
from monro.rows import WIDE, Array, Dense, Rows, as_rows, as_sparse

_ABSENT = np.int32(-1)


class Columns(NamedTuple):
    """The columns that are kept, of `width`; all of them if `used` is None."""

    width: int
    used: Array | None = None
    number: Array | None = None  # (width,): new index of each column that is kept

    @property
    def kept(self) -> int:
        """The number of columns kept."""
        return self.width if self.used is None else self.used.size

    def rows(self, X: Any) -> Rows:
        """Return X's rows with the columns kept."""
        rows = as_rows(X)
        if self.number is None or isinstance(rows, Dense):
            return rows
        indices = np.empty_like(rows.indices)
        renumber(rows.indices, self.number, indices)
        return as_sparse(rows.data, indices, rows.indptr, self.kept)

    def narrow(self, array: Array) -> Array:
        """Return the entries of the columns kept."""
        return array if self.used is None else array[self.used]

    def widen(self, array: Array) -> Array:
        """Expand an array with an entry per column kept to one with an entry per column.

        Entries after those of the columns stay at the end. An empty array stays empty.
        """
        if self.used is None or array.size == 0:
            return array
        wide = np.zeros(self.width + array.size - self.kept)
        wide[self.used] = array[: self.kept]
        wide[self.width :] = array[self.kept :]
        return wide


@kernel
def number_columns(indices: Array, number: Array, used: Array) -> int:
    """Assign numbers to the columns, by first appearance; return how many there are."""
    count = 0
    for k in range(indices.size):
        column = indices[k]
        if number[column] < 0:
            number[column] = count
            used[count] = column
            count += 1
    return count


@kernel
def renumber(indices: Array, number: Array, renumbered: Array) -> None:
    """Write each index's new number."""
    for k in range(indices.size):
        renumbered[k] = number[indices[k]]


def used_columns(X: Any) -> Columns:
    """Choose the columns to keep: all, unless X is sparse and very wide.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> X = sp.csr_matrix(([1.0] * 20, range(0, 2_000_000, 100_000), [0, 10, 20]), (2, 2_000_000))
    >>> columns = used_columns(X)
    >>> columns.kept
    20
    >>> columns.widen(np.ones(20)).shape
    (2000000,)
    """
    width = X.shape[1]
    rows = as_rows(X)
    if isinstance(rows, Dense) or width <= WIDE:
        return Columns(width)
    number = np.full(width, _ABSENT)
    used = np.empty(min(width, rows.data.size), np.int32)
    count = number_columns(rows.indices, number, used)
    return Columns(width, used[:count].copy(), number)
