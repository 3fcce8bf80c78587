"""From a Ray Dataset to row shards: read block by block, labels encoded, rows split at random."""

import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
import scipy.sparse as sp
from ray.data import DataContext, Dataset

from monro.checks.labels import class_codes, label_arrays
from monro.checks.rows import check_finite
from monro.data.arrow import rows_of_batch
from monro.fitting.row_shard import RowShard
from monro.fitting.run import LabelledRows
from monro.ray.worker_pool import fetch
from monro.rows import Array
from monro.saving.checkpoint import fingerprint
from monro.softmax.training.problem import in_precision


class BlockInfo(NamedTuple):
    """The size, type and labels of a block of rows."""

    n: int
    width: int
    nonzeros: int
    sparse: bool
    dtype: str
    labels: Array  # the distinct labels
    counts: Array  # rows of each


class BlockedRows(NamedTuple):
    """The rows of a data set as they were read, with their size, type and labels."""

    blocks: list[Any]  # references to (X, labels)
    n: int
    width: int
    nonzeros: int
    sparse: bool
    dtype: str
    classes: Array  # labels that occur
    counts: Array  # rows of each


class ShardInfo(NamedTuple):
    """The driver's information about a row shard."""

    n: int
    sqnorm: float  # Σ ‖x_i‖²
    fingerprint: str


class DistributedRows(NamedTuple):
    """The rows of a data set in shards of about equal size, each with rows from all blocks."""

    shards: list[Any]  # references to RowShard
    infos: list[ShardInfo]

    @property
    def sizes(self) -> list[int]:
        """Rows of each shard."""
        return [info.n for info in self.infos]

    @property
    def mean_sqnorm(self) -> float:
        """The mean squared length of the rows."""
        return sum(info.sqnorm for info in self.infos) / sum(self.sizes)

    @property
    def fingerprint(self) -> str:
        """A text that identifies the data set and its split into shards."""
        # Do not change this text: checkpoints contain its checksum.
        each = [f"Note(n={n}, sqnorm={sqnorm!r}, data={data!r})" for n, sqnorm, data in self.infos]
        text = f"[{', '.join(each)}]"
        return f"{zlib.crc32(text.encode()):08x}"

    def sample(self, n: int) -> LabelledRows:
        """Return about n rows, from all shards; labels are codes of classes."""
        total = sum(self.sizes)
        wanted = [-(-n * size // total) for size in self.sizes]
        samples = [_sample.remote(s, k) for s, k in zip(self.shards, wanted, strict=True)]
        X, y, weight = zip(*fetch(samples), strict=True)
        rows = sp.csr_matrix(sp.vstack(X)) if sp.issparse(X[0]) else np.concatenate(X)
        return LabelledRows(rows, np.concatenate(y), np.concatenate(weight))


# ------------------------------------------------------------------------------------------ blocks


@ray.remote(num_returns=2)
def _read_block(
    table: Any, number: int, label: str, features: list[str] | None, width: int | None, dtype: str
) -> tuple[tuple[Any, Array], BlockInfo]:
    try:
        X, y = rows_of_batch(table, label, features, width)
        assert y is not None
        check_finite("X", X)
        if np.asarray(y).dtype.kind == "f":
            check_finite("y", y)
    except ValueError as error:
        raise ValueError(f"block {number} of the data set: {error}") from None
    labels, counts = np.unique(y, return_counts=True)
    nonzeros = X.nnz if sp.issparse(X) else X.size
    info = BlockInfo(
        y.size, X.shape[1], nonzeros, sp.issparse(X), dtype or X.dtype.name, labels, counts
    )
    return (X.astype(dtype or X.dtype, copy=False), y), info


def feature_columns_of(dataset: Dataset, label_column: str) -> list[str]:
    """Return the columns of a data set that are not the labels."""
    return [name for name in dataset.schema().names if name != label_column]


def read_blocks(
    dataset: Dataset,
    label_column: str,
    feature_columns: list[str] | None,
    n_features: int | None,
    dtype: str | None = None,
) -> BlockedRows:
    """Read all blocks of a data set, each on its node; without `dtype` values keep their type."""
    context = DataContext.get_current()
    ordered = context.execution_options.preserve_order
    context.execution_options.preserve_order = True  # a resumed fit needs the same shards
    try:
        tables = dataset.to_arrow_refs()
    finally:
        context.execution_options.preserve_order = ordered
    pairs = [
        _read_block.remote(table, k, label_column, feature_columns, n_features, dtype)
        for k, table in enumerate(tables)
    ]
    all_infos = fetch([info for _, info in pairs])
    infos = [info for info in all_infos if info.n]
    blocks = [block for (block, _), info in zip(pairs, all_infos, strict=True) if info.n]
    if not infos:
        raise ValueError("the data set has no rows")
    widths = {info.width for info in infos}
    sparse = infos[0].sparse
    if len(widths) > 1 and not sparse:
        raise ValueError(f"the data set's rows are of different lengths: {sorted(widths)}")
    labels = label_arrays({f"block {k}": info.labels for k, info in enumerate(infos)})
    classes, codes = np.unique(np.concatenate(labels), return_inverse=True)
    counts = np.bincount(codes, np.concatenate([info.counts for info in infos]))
    return BlockedRows(
        blocks,
        sum(info.n for info in infos),
        max(widths),
        sum(info.nonzeros for info in infos),
        sparse,
        max(info.dtype for info in infos),
        classes,
        counts.astype(np.int64),
    )


# ------------------------------------------------------------------------------------------ shards


@ray.remote
def _split_block(
    block: tuple[Any, Array], classes: Array, width: int, shards: int, seed: Any
) -> Any:
    X, y = block
    if sp.issparse(X) and X.shape[1] < width:
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    rng = np.random.default_rng(seed)
    # Each block begins with a different shard, so that shards have about equal sizes.
    order, first = rng.permutation(y.size), int(rng.integers(shards))
    codes = class_codes(y, classes, "is not among classes").astype(np.int32)
    rows_of_shards = [np.sort(order[(k - first) % shards :: shards]) for k in range(shards)]
    pieces = [(X[rows], codes[rows]) for rows in rows_of_shards]
    return pieces if shards > 1 else pieces[0]


@ray.remote(num_returns=2)
def _join_shard(class_weight: Array, dtype: str, seed: Any, *pieces: tuple[Any, Array]) -> Any:
    stack = sp.vstack if sp.issparse(pieces[0][0]) else np.concatenate
    X = stack([X for X, _ in pieces])
    X = sp.csr_matrix(X) if sp.issparse(X) else X
    y = np.concatenate([y for _, y in pieces])
    order = np.random.default_rng(seed).permutation(y.size)
    y = y[order]
    X, sqnorm = in_precision(X[order], y, dtype)
    shard = RowShard(X, y, class_weight[y].astype(dtype), sqnorm)
    text = fingerprint(shard.X, (shard.y,), shard.weight)
    return shard, ShardInfo(y.size, float(sqnorm.sum(dtype=np.float64)), text)


@ray.remote
def _sample(shard: RowShard, n: int) -> LabelledRows:
    rows = np.linspace(0, shard.y.size - 1, n).astype(np.int64)
    return LabelledRows(shard.X[rows], shard.y[rows], shard.weight[rows].astype(np.float64))


def make_shards(
    rows: BlockedRows, classes: Array, class_weight: Array, n_shards: int, dtype: str, seed: int
) -> DistributedRows:
    """Split the rows of a data set into shards at random."""
    shared_classes = ray.put(classes)
    splits = [
        _split_block.options(num_returns=n_shards).remote(
            block, shared_classes, rows.width, n_shards, [seed, k]
        )
        for k, block in enumerate(rows.blocks)
    ]
    splits = [pieces if n_shards > 1 else [pieces] for pieces in splits]
    shared_weight = ray.put(class_weight)
    pairs = [
        _join_shard.remote(
            shared_weight, dtype, [seed, len(splits), s], *(pieces[s] for pieces in splits)
        )
        for s in range(n_shards)
    ]
    return DistributedRows([shard for shard, _ in pairs], fetch([info for _, info in pairs]))


# ---------------------------------------------------------------------------------------- data sets


def read_parquet(path: Path) -> Dataset:
    """Return a Parquet file, or a folder of them, as a data set that the nodes read."""
    return ray.data.read_parquet(str(path.absolute()))


def dataset_of(X: Any, y: Array, blocks: int) -> Dataset:
    """Return rows that are in this process as a data set.

    Sparse rows are columns "index" and "value", others are vectors "x"; the labels are "label".
    """
    borders = np.linspace(0, y.size, min(blocks, y.size) + 1).astype(np.int64)
    return ray.data.from_arrow([_table(X[a:b], y[a:b]) for a, b in pairwise(borders)])


def _table(X: Any, y: Array) -> pa.Table:
    if not sp.issparse(X):
        flat = pa.array(np.ascontiguousarray(X).ravel())
        return pa.table({"x": pa.FixedSizeListArray.from_arrays(flat, X.shape[1]), "label": y})
    ends = pa.array(X.indptr.astype(np.int32))
    index = pa.ListArray.from_arrays(ends, pa.array(X.indices.astype(np.int32)))
    value = pa.ListArray.from_arrays(ends, pa.array(X.data))
    return pa.table({"index": index, "value": value, "label": y})
