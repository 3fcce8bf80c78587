"""Neighbours' labels: a proposal distribution over blocks from the classes of similar rows.

Examples are grouped in *cells*. For sparse rows every feature is a cell, and a row is in the cells
of its non-zeros. Where rows share many features, features carry little information: then the cells
are clusters, and a row is in the nearest one. For each cell we keep how often each block contains
the class of one of its examples. Classes that a row is likely to be mistaken for are among these.

A row in several cells uses one of them at a time, drawn with probability proportional to ``|x_j|``
times the *information* of the cell about the class: the Kullback-Leibler divergence of its
distribution over blocks from that of all examples, less the divergence that chance alone would give
for its number of examples.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import MiniBatchKMeans

from monro._jit import kernel, leaf
from monro.mapped.matrices import chunk_bounds, load_rows, slice_rows
from monro.rows import Array, read_only

_MOST_NONZEROS = 1 << 22  # larger data is sampled to make the table
# Cells are clusters where rows have on average at least this number and this share of all features.
_SHARED_FEATURES, _SHARED_FRACTION = 20, 0.1
_MOST_CLUSTERS = 256
_ROWS_PER_CLUSTER = 30
MAX_CLUSTER_ROWS = 10_000  # the maximal number of rows that clusters are computed from
_LEAST_INFORMATION = 0.01  # nats, of a cell that has examples


class CellTable(NamedTuple):
    """The blocks of each cell, in CSR form."""

    information: Array  # (cells,): about the class, in nats
    cell_start: Array  # (cells + 1,)
    block: Array  # in increasing order within a cell
    cumulative_share: Array  # of the cell's examples, in this block and those before it


class Neighbours(NamedTuple):
    """The cells of each row, in CSR form, and the fields of `CellTable`."""

    row_start: Array  # (rows + 1,)
    cell: Array
    value: Array  # x_j
    information: Array
    cell_start: Array
    block: Array
    cumulative_share: Array

    @property
    def table(self) -> CellTable:
        """The cells alone, without the rows."""
        return CellTable(*self[3:])


@leaf
def find_block(table: Neighbours, cell: int, block: int) -> int:
    """Return the position of the first block of a cell that is >= `block`."""
    low = table.cell_start[cell]
    high = table.cell_start[cell + 1]
    while low < high:
        middle = (low + high) >> 1
        if table.block[middle] < block:
            low = middle + 1
        else:
            high = middle
    return int(low)


@leaf
def share_before(table: Neighbours, cell: int, position: int) -> float:
    """Return the share of a cell's examples in the blocks before a position of its list."""
    return float(table.cumulative_share[position - 1]) if position > table.cell_start[cell] else 0.0


@leaf
def share_of(table: Neighbours, cell: int, block: int) -> float:
    """Return the share of a cell's examples in a block."""
    at = find_block(table, cell, block)
    if at == table.cell_start[cell + 1] or table.block[at] != block:
        return 0.0
    return float(table.cumulative_share[at]) - share_before(table, cell, at)


@leaf
def search_cumulative(cumulative: Array, low: int, high: int, point: float) -> int:
    """Return the first index in [low, high) whose cumulative sum exceeds `point`, else the last."""
    high -= 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] <= point:
            low = middle + 1
        else:
            high = middle
    return int(low)


@leaf
def total_cell_weight(table: Neighbours, i: int) -> float:
    """Return the sum over row i's cells of ``|x_j| information``."""
    total = 0.0
    for p in range(table.row_start[i], table.row_start[i + 1]):
        total += abs(table.value[p]) * table.information[table.cell[p]]
    return total


@leaf
def draw_cell(table: Neighbours, i: int, point: float) -> int:
    """Return the cell of row i that a uniform `point` from [0, 1) selects, or -1 if it has none."""
    left = point * total_cell_weight(table, i)
    chosen = -1
    for p in range(table.row_start[i], table.row_start[i + 1]):
        weight = abs(table.value[p]) * table.information[table.cell[p]]
        if weight > 0.0:
            chosen = table.cell[p]
            if left < weight:
                break
            left -= weight
    return int(chosen)


def make_neighbours(
    X: Any, blocks_of_rows: Array, blocks: int, rng: np.random.Generator
) -> Neighbours:
    """Return the cells of rows X; `blocks_of_rows` are the blocks of the rows' classes."""
    by_feature = sp.issparse(X) and features_are_cells(X.shape[0], X.shape[1], X.nnz)
    cells = X if by_feature else cells_of(find_clusters(X, rng), X)
    rows = sample_rows(cells.nnz, blocks_of_rows.size, rng)
    if rows is None:
        counts = count_blocks(cells, blocks_of_rows, blocks)
    else:
        counts = count_blocks(load_rows(cells, rows), blocks_of_rows[rows], blocks)
    return neighbours_of(cells, make_table(counts))


def features_are_cells(n: int, d: int, nonzeros: int) -> bool:
    """Return whether the features of n sparse rows are their cells; else cells are clusters."""
    return nonzeros < n * max(_SHARED_FEATURES, _SHARED_FRACTION * d)


def sample_rows(nonzeros: int, n: int, rng: np.random.Generator) -> Array | None:
    """Return which of n rows to make the table from, None for all; all have `nonzeros` in total."""
    share = _MOST_NONZEROS / max(1, nonzeros)
    return np.sort(rng.choice(n, int(share * n), replace=False)) if share < 1.0 else None


def neighbours_of(cells: Any, table: CellTable) -> Neighbours:
    """Return a table of cells together with rows that are in them."""
    rows = read_only(cells.indptr, np.int64), read_only(cells.indices, np.int32)
    return Neighbours(*rows, read_only(cells.data, cells.dtype), *table)


def make_table(counts: sp.csr_matrix) -> CellTable:
    """Return the table of cells, from the number of examples of each cell and block."""
    totals = np.asarray(counts.sum(axis=1)).ravel()
    cell = np.repeat(np.arange(totals.size), np.diff(counts.indptr))
    running = np.cumsum(counts.data, dtype=np.float64)
    before = np.append(0.0, running)[counts.indptr[:-1]]
    # Shares are defined as differences of these float32 numbers, so that weights are exact.
    cumulative_share = ((running - before[cell]) / totals[cell]).astype(np.float32)
    return CellTable(
        _information(counts, totals, cell).astype(np.float32),
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int32),
        cumulative_share,
    )


def count_blocks(cells: Any, blocks_of_rows: Array, blocks: int) -> sp.csr_matrix:
    """Return how many examples each cell has in each block."""
    n = blocks_of_rows.size
    in_block = sp.csr_matrix((np.ones(n), blocks_of_rows, np.arange(n + 1)), shape=(n, blocks))
    in_cell = sp.csr_matrix((np.ones(cells.nnz), cells.indices, cells.indptr), shape=cells.shape)
    counts = sp.csr_matrix(in_cell.T @ in_block)
    counts.sort_indices()
    return counts


def _information(counts: sp.csr_matrix, totals: Array, cell: Array) -> Array:
    """Return the information of each cell about the block in nats, 0 if it has no examples."""
    overall = np.asarray(counts.sum(axis=0)).ravel()
    overall = overall / max(1.0, overall.sum())
    share = counts.data / totals[cell]
    divergence = np.bincount(
        cell, share * np.log(share / overall[counts.indices]), minlength=totals.size
    )
    by_chance = (np.diff(counts.indptr) - 1.0) / (2.0 * np.maximum(totals, 1.0))
    return np.where(totals > 0, np.maximum(divergence - by_chance, _LEAST_INFORMATION), 0.0)


def find_clusters(X: Any, rng: np.random.Generator) -> MiniBatchKMeans:
    """Return clusters of the rows of X, learnt from a sample of them."""
    n = X.shape[0]
    rows = np.arange(n) if n <= MAX_CLUSTER_ROWS else rng.choice(n, MAX_CLUSTER_ROWS, replace=False)
    some = _dense(load_rows(X, np.sort(rows)))
    clusters = int(np.clip(n // _ROWS_PER_CLUSTER, 1, _MOST_CLUSTERS))
    seed = int(rng.integers(2**31))
    return MiniBatchKMeans(
        clusters, init="random", random_state=seed, n_init=1, batch_size=1024
    ).fit(some)


def cells_of(clusters: MiniBatchKMeans, X: Any) -> sp.csr_matrix:
    """Return the cluster of each row, as a CSR matrix with a 1 in each row."""
    nearest = [clusters.predict(_dense(slice_rows(X, *part))) for part in chunk_bounds(X, 1 << 20)]
    n = X.shape[0]
    one = np.ones(n, np.float32)
    shape = (n, clusters.n_clusters)
    return sp.csr_matrix((one, np.concatenate(nearest), np.arange(n + 1)), shape=shape)


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X)  # larger, but much faster


@kernel
def mean_cell_probabilities(table: Neighbours, out: Array) -> None:
    """Add to ``out[cell]`` the mean probability, over all rows, that the cell is drawn."""
    n = table.row_start.size - 1
    for i in range(n):
        total = total_cell_weight(table, i) * n
        if total > 0.0:
            for p in range(table.row_start[i], table.row_start[i + 1]):
                out[table.cell[p]] += abs(table.value[p]) * table.information[table.cell[p]] / total
