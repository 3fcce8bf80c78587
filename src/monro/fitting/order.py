"""The order in which an epoch visits the rows."""

import numpy as np

from monro._jit import kernel
from monro.rows import Array

# Consecutive rows that are visited together when the order is shuffled. A single random row costs
# more to fetch than to use; sixteen cost little more than in sequence, and still mix well.
_BLOCK_ROWS = 16
_FEWEST_BLOCKS = 512
# Bytes read together from a file, whose rows were shuffled when it was written: random reads are
# slow.
_READ_BYTES = 1 << 20


def visiting_order(n: int, rng: np.random.Generator, adjacent_blocks: int = 1) -> Array:
    """Return 0…n-1 in random order, by blocks of consecutive rows if n is large.

    Parameters
    ----------
    n : int
        Number of rows.
    rng : Generator
    adjacent_blocks : int
        Number of adjacent blocks that are visited one after the other, in random order.

    Examples
    --------
    >>> sorted(visiting_order(10_000, np.random.default_rng(0))) == list(range(10_000))
    True
    """
    return RowOrder(n, rng, adjacent_blocks)[:]


class RowOrder:
    """A visiting order that stores only the order of its blocks: rows are generated on slicing.

    Parameters
    ----------
    n, rng, adjacent_blocks
        As in `visiting_order`.
    """

    def __init__(self, n: int, rng: np.random.Generator, adjacent_blocks: int = 1):
        self.size = n
        self._block = max(1, min(_BLOCK_ROWS, n // _FEWEST_BLOCKS))
        start = 0
        if self._block > 1:
            start = int(rng.integers(self._block))  # so that blocks differ between epochs
        n_blocks = (n - start) // self._block
        group = min(adjacent_blocks, n_blocks // _FEWEST_BLOCKS) if self._block > 1 else 1
        blocks = rng.permutation(n_blocks) if group <= 1 else _grouped_order(n_blocks, group, rng)
        self._starts = start + self._block * blocks
        after = start + self._block * n_blocks
        self._rest = np.append(np.arange(start), np.arange(after, n))

    def __getitem__(self, part: slice) -> Array:
        first, stop, _ = part.indices(self.size)
        size = self._block
        starts = self._starts[first // size : -(-stop // size)]
        rows = np.empty(size * starts.size, np.int64)
        expand_blocks(starts, size, rows)
        offset = min(first // size, self._starts.size) * size
        rows = rows[first - offset : stop - offset] if first < offset + rows.size else rows[:0]
        at = size * self._starts.size
        if stop > at:
            rows = np.append(rows, self._rest[max(0, first - at) : stop - at])
        return rows


def _grouped_order(n: int, group: int, rng: np.random.Generator) -> Array:
    """Return 0…n-1 in random order, where groups of `group` consecutive numbers stay together."""
    groups = n // group
    inside = rng.permuted(np.tile(np.arange(group), (groups, 1)), axis=1)
    order = group * rng.permutation(groups)[:, None] + inside
    return np.append(order.ravel(), rng.permutation(np.arange(groups * group, n)))


@kernel
def expand_blocks(starts: Array, size: int, order: Array) -> None:
    """Write the rows of each block to `order`, one block after the other."""
    for k in range(starts.size):
        for j in range(size):
            order[size * k + j] = starts[k] + j


def blocks_per_read(row_bytes: float) -> int:
    """Return the number of adjacent blocks to visit together, for memory-mapped rows."""
    return round(_READ_BYTES / max(1.0, _BLOCK_ROWS * row_bytes))
