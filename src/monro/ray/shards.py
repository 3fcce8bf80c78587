"""From a Ray Dataset to shards: read block by block, labels numbered, rows dealt out at random."""

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
import scipy.sparse as sp
from ray.data import DataContext, Dataset

from monro import checks
from monro.data.arrow import rows_of_batch
from monro.ray.team import fetch
from monro.rows import Array
from monro.softmax.parts import Shard
from monro.softmax.train import make_problem
from monro.storage import fingerprint


class Survey(NamedTuple):
    """What is known of a block of rows."""

    n: int
    width: int
    nonzeros: int
    sparse: bool
    dtype: str
    labels: Array
    counts: Array


class Table(NamedTuple):
    """All blocks, and what is known of them together."""

    blocks: list[Any]  # references to (X, labels)
    n: int
    width: int
    nonzeros: int
    sparse: bool
    dtype: str
    classes: Array
    counts: Array


class Note(NamedTuple):
    """What the driver knows of a shard."""

    n: int
    sqnorm: float  # sum
    data: str  # its fingerprint


@ray.remote(num_returns=2)
def _read(
    table: Any, number: int, label: str, features: list[str] | None, width: int | None, dtype: str
) -> tuple[tuple[Any, Array], Survey]:
    try:
        X, y = rows_of_batch(table, label, features, width)
        assert y is not None
        checks.finite("X", X)
        if np.asarray(y).dtype.kind == "f":
            checks.finite("y", y)
    except ValueError as error:
        raise ValueError(f"block {number} of the data set: {error}") from None
    labels, counts = np.unique(y, return_counts=True)
    nonzeros = X.nnz if sp.issparse(X) else X.size
    about = Survey(
        y.size, X.shape[1], nonzeros, sp.issparse(X), dtype or X.dtype.name, labels, counts
    )
    return (X.astype(dtype or X.dtype, copy=False), y), about


def other_columns(dataset: Dataset, label_column: str) -> list[str]:
    """Return the columns of a data set that are not the labels."""
    return [name for name in dataset.schema().names if name != label_column]


def read(
    dataset: Dataset,
    label_column: str,
    feature_columns: list[str] | None,
    n_features: int | None,
    dtype: str | None = None,
) -> Table:
    """Read all blocks of a data set, where they are; numbers of that type, or as they come."""
    context = DataContext.get_current()
    ordered = context.execution_options.preserve_order
    context.execution_options.preserve_order = True  # the same shards, should we come again
    try:
        tables = dataset.to_arrow_refs()
    finally:
        context.execution_options.preserve_order = ordered
    pairs = [
        _read.remote(table, k, label_column, feature_columns, n_features, dtype)
        for k, table in enumerate(tables)
    ]
    found = fetch([about for _, about in pairs])
    surveys = [about for about in found if about.n]
    blocks = [block for (block, _), about in zip(pairs, found, strict=True) if about.n]
    if not surveys:
        raise ValueError("the data set has no rows")
    widths = {about.width for about in surveys}
    sparse = surveys[0].sparse
    if len(widths) > 1 and not sparse:
        raise ValueError(f"the data set's rows are of different lengths: {sorted(widths)}")
    together = checks.labels({f"block {k}": about.labels for k, about in enumerate(surveys)})
    classes, number = np.unique(np.concatenate(together), return_inverse=True)
    counts = np.bincount(number, np.concatenate([about.counts for about in surveys]))
    return Table(
        blocks,
        sum(about.n for about in surveys),
        max(widths),
        sum(about.nonzeros for about in surveys),
        sparse,
        max(about.dtype for about in surveys),
        classes,
        counts.astype(np.int64),
    )


@ray.remote
def _deal(block: tuple[Any, Array], classes: Array, width: int, shards: int, seed: Any) -> Any:
    X, y = block
    if sp.issparse(X) and X.shape[1] < width:
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    rng = np.random.default_rng(seed)
    # Whose turn it is changes from block to block: the shards end up equally long.
    order, first = rng.permutation(y.size), int(rng.integers(shards))
    codes = checks.codes(y, classes, "is not among classes").astype(np.int32)
    turns = [np.sort(order[(k - first) % shards :: shards]) for k in range(shards)]
    pieces = [(X[rows], codes[rows]) for rows in turns]
    return pieces if shards > 1 else pieces[0]


@ray.remote(num_returns=2)
def _join(class_weight: Array, dtype: str, seed: Any, *pieces: tuple[Any, Array]) -> Any:
    stack = sp.vstack if sp.issparse(pieces[0][0]) else np.concatenate
    X = stack([X for X, _ in pieces])
    X = sp.csr_matrix(X) if sp.issparse(X) else X
    y = np.concatenate([y for _, y in pieces])
    order = np.random.default_rng(seed).permutation(y.size)
    problem = make_problem(X[order], y[order], class_weight[y[order]], class_weight.size, dtype)
    shard = Shard(*problem[:4])
    about = Note(y.size, float(shard.sqnorm.sum(dtype=np.float64)), fingerprint(*shard[:3]))
    return shard, about


def deal(
    table: Table, classes: Array, class_weight: Array, shards: int, dtype: str, seed: int
) -> tuple[list[Any], list[Note]]:
    """Return references to shards of about equal size, each of rows from all over, and notes."""
    shared = ray.put(classes)
    dealt = [
        _deal.options(num_returns=shards).remote(block, shared, table.width, shards, [seed, k])
        for k, block in enumerate(table.blocks)
    ]
    dealt = [pieces if shards > 1 else [pieces] for pieces in dealt]
    weight = ray.put(class_weight)
    pairs = [
        _join.remote(weight, dtype, [seed, len(dealt), s], *(pieces[s] for pieces in dealt))
        for s in range(shards)
    ]
    return [shard for shard, _ in pairs], fetch([note for _, note in pairs])


def read_parquet(path: Path) -> Dataset:
    """Return a file, or a folder of files, as a data set that the nodes read."""
    return ray.data.read_parquet(str(path.absolute()))


def dataset_of(X: Any, y: Array, blocks: int) -> Dataset:
    """Return rows of this process as a data set.

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
