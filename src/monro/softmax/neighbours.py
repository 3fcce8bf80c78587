"""Neighbours' labels: in which blocks the classes of examples lie that resemble a row.

Examples are gathered in *cells*. For sparse rows every feature is a cell, and a row lies in the
cells of its non-zeros; where rows share many features, these tell little: the cells are clusters,
and a row lies in the nearest. Of each cell we keep which blocks hold its examples' classes, and how
often. What a row is easily mistaken for is likely among them.

A row that lies in several cells attends to one of them at a time, drawn with probability in
proportion to ``|x_j|`` times what the cell tells about the class: the Kullback-Leibler divergence
of its blocks from all examples', less what chance alone would give so few examples.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import MiniBatchKMeans

from monro._jit import kernel, leaf
from monro.mapped import part_borders, rows_at, rows_between
from monro.rows import Array, read_only

_MOST_NONZEROS = 1 << 22  # that the table is made of: of larger data, a random part
# Features a row has, at least so many and so large a share of all, for its cells to be clusters.
_CROWD, _CROWDED = 20, 0.1
_CLUSTERS = 256
_ROWS_A_CLUSTER = 30
LEARNT_FROM = 10_000  # rows that clusters are found with


class Neighbours(NamedTuple):
    """The cells of each row, and the blocks of each cell, both as in a CSR matrix."""

    start: Array  # (rows + 1,)
    cell: Array
    size: Array  # x_j
    told: Array  # (cells,): what each tells about the class
    first: Array  # (cells + 1,)
    block: Array  # in rising order within a cell
    upto: Array  # the share of the cell's examples in this block and those before it

    @property
    def table(self) -> "Table":
        """What is known of cells, whichever rows lie in them."""
        return Table(*self[3:])


@leaf
def find(table: Neighbours, cell: int, block: int) -> int:
    """Return where in a cell's list the first block is that is not below this one."""
    low = table.first[cell]
    high = table.first[cell + 1]
    while low < high:
        middle = (low + high) >> 1
        if table.block[middle] < block:
            low = middle + 1
        else:
            high = middle
    return int(low)


@leaf
def share_before(table: Neighbours, cell: int, at: int) -> float:
    """Return the share of a cell's examples before a place in its list."""
    return float(table.upto[at - 1]) if at > table.first[cell] else 0.0


@leaf
def share_of(table: Neighbours, cell: int, block: int) -> float:
    """Return the share of a cell's examples in a block."""
    at = find(table, cell, block)
    if at == table.first[cell + 1] or table.block[at] != block:
        return 0.0
    return float(table.upto[at]) - share_before(table, cell, at)


@leaf
def place_of(running: Array, low: int, high: int, point: float) -> int:
    """Return the first place from low to high, without it, whose running sum is above a point."""
    high -= 1
    while low < high:
        middle = (low + high) >> 1
        if running[middle] <= point:
            low = middle + 1
        else:
            high = middle
    return int(low)


@leaf
def attention(table: Neighbours, i: int) -> float:
    """Return the sum over row i's cells of what each is drawn in proportion to."""
    total = 0.0
    for p in range(table.start[i], table.start[i + 1]):
        total += abs(table.size[p]) * table.told[table.cell[p]]
    return total


@leaf
def pick_cell(table: Neighbours, i: int, point: float) -> int:
    """Return the cell that row i attends to, or -1 if it knows none; the point is from [0, 1)."""
    left = point * attention(table, i)
    chosen = -1
    for p in range(table.start[i], table.start[i + 1]):
        weight = abs(table.size[p]) * table.told[table.cell[p]]
        if weight > 0.0:
            chosen = table.cell[p]
            if left < weight:
                break
            left -= weight
    return int(chosen)


class Table(NamedTuple):
    """What each cell tells, as in `Neighbours`."""

    told: Array
    first: Array
    block: Array
    upto: Array


def make_neighbours(
    X: Any, blocks_of_rows: Array, blocks: int, rng: np.random.Generator
) -> Neighbours:
    """Return the table for rows whose classes lie in these blocks."""
    by_feature = sp.issparse(X) and features_are_cells(X.shape[0], X.shape[1], X.nnz)
    cells = X if by_feature else cells_of(find_clusters(X, rng), X)
    rows = some_of(cells.nnz, blocks_of_rows.size, rng)
    if rows is None:
        counts = count_blocks(cells, blocks_of_rows, blocks)
    else:
        counts = count_blocks(rows_at(cells, rows), blocks_of_rows[rows], blocks)
    return neighbours_of(cells, make_table(counts))


def features_are_cells(n: int, d: int, nonzeros: int) -> bool:
    """Tell whether the features of so many sparse rows are cells; else cells are clusters."""
    return nonzeros < n * max(_CROWD, _CROWDED * d)


def some_of(nonzeros: int, n: int, rng: np.random.Generator) -> Array | None:
    """Return which of n rows the table is made of, where all have that many non-zeros."""
    share = _MOST_NONZEROS / max(1, nonzeros)
    return np.sort(rng.choice(n, int(share * n), replace=False)) if share < 1.0 else None


def neighbours_of(cells: Any, table: Table) -> Neighbours:
    """Return a table for rows that lie in these cells."""
    rows = read_only(cells.indptr, np.int64), read_only(cells.indices, np.int32)
    return Neighbours(*rows, read_only(cells.data, cells.dtype), *table)


def make_table(counts: sp.csr_matrix) -> Table:
    """Return what cells tell that have so many examples in each block."""
    totals = np.asarray(counts.sum(axis=1)).ravel()
    cell = np.repeat(np.arange(totals.size), np.diff(counts.indptr))
    running = np.cumsum(counts.data, dtype=np.float64)
    before = np.append(0.0, running)[counts.indptr[:-1]]
    told = _told(counts, totals, cell)
    # The float32 numbers are the definition: a share is the difference of two of them, exactly.
    upto = ((running - before[cell]) / totals[cell]).astype(np.float32)
    return Table(
        told.astype(np.float32),
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int32),
        upto,
    )


def count_blocks(cells: Any, blocks_of_rows: Array, blocks: int) -> sp.csr_matrix:
    """Return how many examples each cell has in each block."""
    n = blocks_of_rows.size
    lies_in = sp.csr_matrix((np.ones(n), blocks_of_rows, np.arange(n + 1)), shape=(n, blocks))
    there = sp.csr_matrix((np.ones(cells.nnz), cells.indices, cells.indptr), shape=cells.shape)
    counts = sp.csr_matrix(there.T @ lies_in)
    counts.sort_indices()
    return counts


def _told(counts: sp.csr_matrix, totals: Array, cell: Array) -> Array:
    """Return the nats that each cell tells about the block, 0 where it has no examples."""
    overall = np.asarray(counts.sum(axis=0)).ravel()
    overall = overall / max(1.0, overall.sum())
    share = counts.data / totals[cell]
    divergence = np.bincount(
        cell, share * np.log(share / overall[counts.indices]), minlength=totals.size
    )
    by_chance = (np.diff(counts.indptr) - 1.0) / (2.0 * np.maximum(totals, 1.0))
    return np.where(totals > 0, np.maximum(divergence - by_chance, 0.01), 0.0)


def find_clusters(X: Any, rng: np.random.Generator) -> MiniBatchKMeans:
    """Return clusters of rows."""
    n = X.shape[0]
    rows = np.arange(n) if n <= LEARNT_FROM else rng.choice(n, LEARNT_FROM, replace=False)
    some = _dense(rows_at(X, np.sort(rows)))
    clusters = int(np.clip(n // _ROWS_A_CLUSTER, 1, _CLUSTERS))
    seed = int(rng.integers(2**31))
    return MiniBatchKMeans(
        clusters, init="random", random_state=seed, n_init=1, batch_size=1024
    ).fit(some)


def cells_of(means: MiniBatchKMeans, X: Any) -> sp.csr_matrix:
    """Return, as a matrix of ones, which cluster each row lies in."""
    nearest = [means.predict(_dense(rows_between(X, *part))) for part in part_borders(X, 1 << 20)]
    n = X.shape[0]
    one = np.ones(n, np.float32)
    shape = (n, means.n_clusters)
    return sp.csr_matrix((one, np.concatenate(nearest), np.arange(n + 1)), shape=shape)


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X)  # larger, and much faster


@kernel
def mean_attention(table: Neighbours, out: Array) -> None:
    """Add to each cell's entry the mean chance, over all rows, that it is attended to."""
    n = table.start.size - 1
    for i in range(n):
        total = attention(table, i) * n
        if total > 0.0:
            for p in range(table.start[i], table.start[i + 1]):
                out[table.cell[p]] += abs(table.size[p]) * table.told[table.cell[p]] / total
