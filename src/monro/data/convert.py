"""Writing of stores: rows are shuffled once, in two passes over the data and with little memory.

The first pass writes each row to a random bucket on disk, the second shuffles each bucket in
memory. The result is a uniform shuffle, so that training may read long runs of rows in sequence.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.checks.rows import check_finite
from monro.data import read as reading
from monro.data.buckets import Buckets, RowBatch, bucket_count, permute_rows
from monro.data.files import is_compressed, is_stdin
from monro.data.parquet import Parts, is_parquet, parquet_parts
from monro.data.read import Data, Layout
from monro.data.scan import LARGEST_COLUMN, RowBlock
from monro.data.store import DTYPES, VERSION, open_store
from monro.errors import DataError
from monro.rows import Array
from monro.saving.atomic import sync_to_disk

# Bytes of the rows in a store for each byte of the file, compressed or not; estimates.
_GROWTH = {True: 8.0, False: 2.0}

Report = Callable[[int], None]


def convert(
    source: str | Path,
    out: str | Path,
    *,
    dtype: str = "float32",
    seed: int = 0,
    n_features: int | None = None,
    first_feature: int | None = None,
    target: str | None = None,
    report: Report = lambda rows: None,
) -> Data:
    r"""Convert a file to a store.

    Parameters
    ----------
    source : str or Path
        A file that `read` takes, or a folder of Parquet files; ``"-"`` is standard input.
    out : str or Path
        The folder to create. It must not exist.
    dtype : {"float32", "float64"}
        The precision in which values are stored.
    seed : int
        The seed of the shuffle.
    n_features, first_feature, target
        As in `read`.
    report : callable
        Called with the number of rows of each part that was read.

    Returns
    -------
    Data
        The store, opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "rows.svm").write_text("1 1:0.5 3:2\n-1 2:1\n")
    ...     convert(f"{folder}/rows.svm", f"{folder}/rows.store").X.shape
    (2, 3)
    """
    if is_parquet(source):
        tables, columns = parquet_parts(source, target)
        return write_store(_reporting(tables, report), out, dtype=dtype, seed=seed, layout=columns)
    if reading.is_table(source):
        data = reading.read(source, target=target)
        report(data.X.shape[0])
        return write_store([(data.X, data.y)], out, dtype=dtype, seed=seed, layout=data.layout)
    opened = reading.open_rows(source, labelled=True)
    dropped = 0

    def parts() -> Iterator[RowBatch]:
        nonlocal dropped
        for block in opened.blocks:
            rows = _labelled_rows(block)
            dropped += block.ends.size - rows.labels.size
            report(rows.labels.size)
            yield rows

    def layout(lowest: int | None, highest: int) -> Layout:
        first = reading.find_first_feature(lowest, first_feature, opened)
        width = n_features or opened.width or max(1, highest + 1 - first)
        if highest >= first + width:
            raise DataError(
                f"a feature is numbered {highest}, beyond the {width:,} announced", opened.name
            )
        if lowest is not None and lowest < first:
            raise DataError(f"a feature is numbered {lowest}, below {first}", opened.name)
        return Layout(width, first)

    data = _write(parts(), out, dtype, seed, layout, size=_estimated_bytes(source))
    notes = [f"features are numbered from {data.layout.first_feature}"]
    if dropped:
        notes.append(f"{dropped:,} rows without a label were left out")
    return data._replace(notes=tuple(notes))


def _reporting(parts: Parts, report: Report) -> Parts:
    """Yield the parts, and report the number of rows of each."""
    for X, y in parts:
        report(y.size)
        yield X, y


def write_store(
    parts: Iterable[tuple[Any, Any]],
    out: str | Path,
    *,
    dtype: str = "float32",
    seed: int = 0,
    layout: Layout | None = None,
) -> Data:
    """Write matrices and their labels to a new store.

    Parameters
    ----------
    parts : iterable of (X, y)
        Arrays with the same number of columns, or sparse matrices, which may differ in it. Memory
        must hold a few copies of each part.
    out, dtype, seed
        As in `convert`.
    layout : Layout, optional
        The names of the columns, if they have any.

    Returns
    -------
    Data
        The store, opened.

    Examples
    --------
    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> parts = ((rng.normal(size=(100, 3)), rng.integers(2, size=100)) for _ in range(5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_store(parts, f"{folder}/store").X.shape
    (500, 3)
    """
    width = layout.n_features if layout else 0
    grows = layout is None
    encoder = _LabelEncoder()

    def rows() -> Iterator[RowBatch]:
        nonlocal width, grows
        for k, (X, y) in enumerate(parts):
            X, y = _as_matrix(X), np.asarray(y)
            if y.shape != X.shape[:1]:
                raise ValueError(f"part {k}: X has the shape {X.shape}, y the shape {y.shape}")
            if y.size == 0:
                continue
            grows &= sp.issparse(X)
            if X.shape[1] == 0 or (X.shape[1] != width and width and not grows):
                raise ValueError(f"part {k}: X has {X.shape[1]} columns, not {width or 'one'}")
            width = max(width, X.shape[1])
            try:
                check_finite("X", X)
                y = encoder.encode(y)
            except ValueError as error:
                raise ValueError(f"part {k}: {error}") from None
            X = _canonical(X)
            yield RowBatch(X.data, X.indices, np.diff(X.indptr).astype(np.int64), y)

    return _write(rows(), out, dtype, seed, lambda *_: layout or Layout(width), encoder)


def _as_matrix(X: Any) -> Any:
    """Return rows as a sparse matrix or a two-dimensional array of numbers."""
    if not sp.issparse(X):
        X = np.asarray(X)
        X = X if X.dtype.kind in "iufb" else X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"X: give rows and columns, not an array of shape {X.shape}")
    return X


def _canonical(X: Any) -> sp.csr_matrix:
    """Return rows as a CSR matrix with sorted columns, which a mapped matrix must have."""
    X = sp.csr_matrix(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


class _LabelEncoder:
    """Encodes labels as numbers: strings as indices into a list of distinct strings."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}  # in order of first occurrence
        self.kind = ""

    def encode(self, y: Array) -> Array:
        """Return labels as float64; strings get their index in order of first occurrence."""
        if y.dtype.kind == "O" and not all(isinstance(label, str) for label in y.tolist()):
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError):
                raise ValueError("y: give labels that are all texts, or all numbers") from None
        kind = "numbers" if y.dtype.kind in "iufb" else "texts"
        if kind != (self.kind or kind):
            raise ValueError(f"y: its labels are {kind}, those before it were {self.kind}")
        self.kind = kind
        if kind == "texts":
            distinct, inverse = np.unique(y.astype(np.str_), return_inverse=True)
            codes = [self.index.setdefault(word, len(self.index)) for word in distinct.tolist()]
            return np.array(codes, np.float64)[inverse]
        if y.dtype.kind in "iu" and max(int(y.max()), -int(y.min())) >= 2**53:
            raise ValueError("y: labels must be below 2⁵³")
        check_finite("y", y)
        return y.astype(np.float64)

    @property
    def classes(self) -> list[str] | None:
        """The distinct strings in sorted order; None if labels are numbers."""
        return sorted(self.index) or None

    def sorted_codes(self, numbers: Array) -> Array:
        """Map what `encode` returned to indices into `classes`."""
        if not self.index:
            return numbers
        rank = np.empty(len(self.index))
        rank[[self.index[word] for word in sorted(self.index)]] = np.arange(len(self.index))
        return np.asarray(rank[numbers.astype(np.int64)])


def _write(
    parts: Iterable[RowBatch],
    out: str | Path,
    dtype: str,
    seed: int,
    layout: Callable[[int | None, int], Layout],
    encoder: _LabelEncoder | None = None,
    *,
    size: float | None = None,
) -> Data:
    """Shuffle rows into a new folder, which is renamed to `out` when it is complete.

    `layout` is called with the lowest and highest column after the first pass. `size` estimates
    the bytes of all rows.
    """
    out, encoder = Path(out), encoder or _LabelEncoder()
    if out.exists():
        raise DataError("it exists already", out, cure="remove it, or choose another name")
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r}: choose one of 'float32', 'float64'")
    out.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        folder = Path(scratch) / "store"
        folder.mkdir()
        with Buckets(Path(scratch), bucket_count(size), np.dtype(dtype)) as files:
            for rows in parts:
                files.put(rows, rng)
            if files.rows == 0:
                raise DataError("there are no rows with a label", out)
            chosen = layout(files.lowest, files.highest)
            if chosen.n_features > LARGEST_COLUMN + 1:
                raise DataError(f"{chosen.n_features:,} features are too many", out)
            _shuffle(files, folder, chosen.first_feature, encoder, rng)
        header = {
            "monro": "store",
            "version": VERSION,
            "rows": files.rows,
            "nonzeros": files.nonzeros,
            "dtype": dtype,
            "classes": encoder.classes,
            "layout": chosen._asdict(),
        }
        (folder / "header.json").write_text(json.dumps(header, indent=1) + "\n")
        for path in (*folder.iterdir(), folder):
            sync_to_disk(path)
        folder.rename(out)
    return open_store(out)


def _estimated_bytes(source: str | Path) -> float | None:
    """Estimate the bytes that the rows of a file take; None for standard input."""
    if is_stdin(source):
        return None
    return Path(source).stat().st_size * _GROWTH[is_compressed(source)]


def _labelled_rows(block: RowBlock) -> RowBatch:
    """Return the rows of a block that have a label."""
    labels = reading.lowest_labels(block)
    lengths = np.diff(block.ends, prepend=0)
    kept = ~np.isnan(labels)
    if kept.all():
        return RowBatch(block.values, block.columns, lengths, labels)
    cells = np.repeat(kept, lengths)
    return RowBatch(block.values[cells], block.columns[cells], lengths[kept], labels[kept])


def _shuffle(
    buckets: Buckets, folder: Path, first: int, encoder: _LabelEncoder, rng: np.random.Generator
) -> None:
    """Write the rows of all buckets to the store's files, each bucket in random order."""
    total = 0
    with (
        (folder / "values.bin").open("wb") as values,
        (folder / "columns.bin").open("wb") as columns,
        (folder / "ends.bin").open("wb") as ends,
        (folder / "labels.bin").open("wb") as labels,
    ):
        np.zeros(1, np.int64).tofile(ends)
        for rows in buckets.drain(rng):
            rows = permute_rows(rows, rng.permutation(rows.labels.size))
            rows.values.tofile(values)
            (rows.columns - np.int32(first)).tofile(columns)
            (total + np.cumsum(rows.lengths)).tofile(ends)
            encoder.sorted_codes(rows.labels).tofile(labels)
            total += rows.values.size
