"""Making a store: rows shuffled once, in two passes and little memory.

Each row goes to a random bucket on disk, then each bucket is shuffled in memory. That is a uniform
shuffle. Training may then read long runs of rows in sequence.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro import checks
from monro.data import read as reading
from monro.data.buckets import Buckets, Part, count_for, rows_in_order
from monro.data.files import is_packed, is_stdin
from monro.data.parquet import Parts, is_parquet, parquet_parts
from monro.data.read import Data, Layout
from monro.data.scan import LARGEST_COLUMN, RowBlock
from monro.data.store import DTYPES, VERSION, open_store
from monro.errors import DataError
from monro.persist import sync
from monro.rows import Array

_GROWTH = {True: 8.0, False: 2.0}  # from a file's bytes to those of its rows, packed and plain

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
        The folder to make. It must not exist.
    dtype : {"float32", "float64"}
        The precision of the values kept.
    seed : int
        Of the shuffle.
    n_features, first_feature, target
        As in `read`.
    report : callable
        Told how many rows were read, now and then.

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
        return write_store(_told(tables, report), out, dtype=dtype, seed=seed, layout=columns)
    if reading.is_table(source):
        data = reading.read(source, target=target)
        report(data.X.shape[0])
        return write_store([(data.X, data.y)], out, dtype=dtype, seed=seed, layout=data.layout)
    opened = reading.open_rows(source, labelled=True)
    left_out = 0

    def parts() -> Iterator[Part]:
        nonlocal left_out
        for block in opened.blocks:
            part = _labelled_part(block)
            left_out += block.ends.size - part.labels.size
            report(part.labels.size)
            yield part

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

    data = _write(parts(), out, dtype, seed, layout, size=_bytes_of(source))
    notes = [f"features are numbered from {data.layout.first_feature}"]
    if left_out:
        notes.append(f"{left_out:,} rows without a label were left out")
    return data._replace(notes=tuple(notes))


def _told(parts: Parts, report: Report) -> Parts:
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
    """Write a store of matrices and their labels, given one after the other.

    Parameters
    ----------
    parts : iterable of (X, y)
        Arrays of the same width or sparse matrices, of which some may be narrower; each small
        enough for memory, a few times over.
    out, dtype, seed
        As in `convert`.
    layout : Layout, optional
        What the columns are, where they have names.

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
    words = _Words()

    def rows() -> Iterator[Part]:
        nonlocal width, grows
        for k, (X, y) in enumerate(parts):
            X, y = _matrix(X), np.asarray(y)
            if y.shape != X.shape[:1]:
                raise ValueError(f"part {k}: X has the shape {X.shape}, y the shape {y.shape}")
            if y.size == 0:
                continue
            grows &= sp.issparse(X)
            if X.shape[1] == 0 or (X.shape[1] != width and width and not grows):
                raise ValueError(f"part {k}: X has {X.shape[1]} columns, not {width or 'one'}")
            width = max(width, X.shape[1])
            try:
                checks.finite("X", X)
                y = words.numbers(y)
            except ValueError as error:
                raise ValueError(f"part {k}: {error}") from None
            X = _canonical(X)
            yield Part(X.data, X.indices, np.diff(X.indptr).astype(np.int64), y)

    return _write(rows(), out, dtype, seed, lambda *_: layout or Layout(width), words)


def _matrix(X: Any) -> Any:
    """Return rows as a sparse matrix or an array of numbers."""
    if not sp.issparse(X):
        X = np.asarray(X)
        X = X if X.dtype.kind in "iufb" else X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"X: give rows and columns, not an array of shape {X.shape}")
    return X


def _canonical(X: Any) -> sp.csr_matrix:
    """Return rows as a CSR matrix with columns in order, as they must be once they are mapped."""
    X = sp.csr_matrix(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


class _Words:
    """Labels as numbers; words get those of a list, which grows."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.kind = ""

    def numbers(self, y: Array) -> Array:
        """Return labels as numbers."""
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
            words, places = np.unique(y.astype(np.str_), return_inverse=True)
            new = [self.index.setdefault(word, len(self.index)) for word in words.tolist()]
            return np.array(new, np.float64)[places]
        if y.dtype.kind in "iu" and max(int(y.max()), -int(y.min())) >= 2**53:
            raise ValueError("y: labels must be below 2⁵³")
        checks.finite("y", y)
        return y.astype(np.float64)

    @property
    def classes(self) -> list[str] | None:
        """The words in order; None where there are none."""
        return sorted(self.index) or None

    def in_order(self, numbers: Array) -> Array:
        """Return the places of labels in the words in order."""
        if not self.index:
            return numbers
        place = np.empty(len(self.index))
        place[[self.index[word] for word in sorted(self.index)]] = np.arange(len(self.index))
        return np.asarray(place[numbers.astype(np.int64)])


def _write(
    parts: Iterable[Part],
    out: str | Path,
    dtype: str,
    seed: int,
    layout: Callable[[int | None, int], Layout],
    words: _Words | None = None,
    *,
    size: float | None = None,
) -> Data:
    """Shuffle rows into a new folder, which gets its name when it is whole.

    The layout is asked for when the lowest and highest column are known; `size` is that of the
    rows in bytes, about.
    """
    out, words = Path(out), words or _Words()
    if out.exists():
        raise DataError("it exists already", out, cure="remove it, or choose another name")
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r}: choose one of 'float32', 'float64'")
    out.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        folder = Path(scratch) / "store"
        folder.mkdir()
        with Buckets(Path(scratch), count_for(size), np.dtype(dtype)) as files:
            for part in parts:
                files.put(part, rng)
            if files.rows == 0:
                raise DataError("there are no rows with a label", out)
            chosen = layout(files.lowest, files.highest)
            if chosen.n_features > LARGEST_COLUMN + 1:
                raise DataError(f"{chosen.n_features:,} features are too many", out)
            _shuffle(files, folder, chosen.first_feature, words, rng)
        header = {
            "monro": "store",
            "version": VERSION,
            "rows": files.rows,
            "nonzeros": files.nonzeros,
            "dtype": dtype,
            "classes": words.classes,
            "layout": chosen._asdict(),
        }
        (folder / "header.json").write_text(json.dumps(header, indent=1) + "\n")
        for path in (*folder.iterdir(), folder):
            sync(path)
        folder.rename(out)
    return open_store(out)


def _bytes_of(source: str | Path) -> float | None:
    """Guess how many bytes the rows of a file have."""
    if is_stdin(source):
        return None
    return Path(source).stat().st_size * _GROWTH[is_packed(source)]


def _labelled_part(block: RowBlock) -> Part:
    """Leave out rows without a label."""
    labels = reading.lowest_labels(block)
    lengths = np.diff(block.ends, prepend=0)
    kept = ~np.isnan(labels)
    if kept.all():
        return Part(block.values, block.columns, lengths, labels)
    cells = np.repeat(kept, lengths)
    return Part(block.values[cells], block.columns[cells], lengths[kept], labels[kept])


def _shuffle(
    buckets: Buckets, folder: Path, first: int, words: _Words, rng: np.random.Generator
) -> None:
    """Write the rows of all buckets, each bucket's in random order."""
    total = 0
    with (
        (folder / "values.bin").open("wb") as values,
        (folder / "columns.bin").open("wb") as columns,
        (folder / "ends.bin").open("wb") as ends,
        (folder / "labels.bin").open("wb") as labels,
    ):
        np.zeros(1, np.int64).tofile(ends)
        for part in buckets.take(rng):
            part = rows_in_order(part, rng.permutation(part.labels.size))
            part.values.tofile(values)
            (part.columns - np.int32(first)).tofile(columns)
            (total + np.cumsum(part.lengths)).tofile(ends)
            words.in_order(part.labels).tofile(labels)
            total += part.values.size
