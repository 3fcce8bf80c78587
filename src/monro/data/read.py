"""Reading of any supported file into a matrix and its labels."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.data.files import display_name, is_stdin, line_blocks
from monro.data.scan import RowBlock
from monro.data.svmlight import svmlight_blocks
from monro.data.xc import parse_header, xc_blocks
from monro.errors import DataError
from monro.mapped.labels import as_integers
from monro.rows import Array


class Layout(NamedTuple):
    """How a file's columns are mapped to features, to read another file in the same way."""

    n_features: int
    first_feature: int = 0  # the number of the first feature in the file
    names: tuple[str, ...] | None = None  # of a table's feature columns
    target: str | None = None  # a table's column of labels


class Data(NamedTuple):
    r"""Rows and their labels, as read from a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"1 1:0.5\n2 2:0.25\n"); file.flush()
    ...     data = read(file.name)
    >>> data.X.shape, data.y
    ((2, 2), array([1, 2]))
    """

    X: Any
    y: Array | None
    layout: Layout
    format: str
    notes: tuple[str, ...] = ()  # what the reader decided by itself, to be shown to the user
    several_labels: int = 0  # number of rows with more than one label
    pairs: tuple[Array, Array] | None = None  # rows and labels, with all_labels=True

    def indicator(self, classes: Any = None) -> tuple[Any, Array]:
        r"""Return all labels of the rows as an indicator matrix, for `SoftmaxClassifier.fit`.

        Parameters
        ----------
        classes : array, optional
            The labels of the columns, sorted. By default those that occur.

        Returns
        -------
        Y : CSR array of shape (n_rows, n_classes)
            True where a row has the label.
        classes : array of shape (n_classes,)

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"3,17 1:0.5\n17 2:0.25\n"); file.flush()
        ...     Y, classes = read(file.name, all_labels=True).indicator()
        >>> Y.toarray().astype(int)
        array([[1, 1],
               [0, 1]])
        >>> classes
        array([ 3, 17])
        """
        if self.pairs is None:
            raise ValueError("y: all labels are wanted; read the data with all_labels=True")
        rows, labels = self.pairs
        classes = np.unique(labels) if classes is None else np.asarray(classes)
        unknown = np.flatnonzero(~np.isin(labels, classes))
        if unknown.size:
            row, label = rows[unknown[0]], labels[unknown[0]]
            raise ValueError(f"y: row {row} has the label {label}, which is not among classes")
        ones, columns = np.ones(rows.size, bool), np.searchsorted(classes, labels)
        shape = self.X.shape[0], classes.size
        return sp.csr_array((ones, (rows, columns)), shape=shape), classes


def read(
    path: str | Path,
    *,
    layout: Layout | None = None,
    n_features: int | None = None,
    first_feature: int | None = None,
    target: str | None = None,
    labelled: bool = True,
    all_labels: bool = False,
) -> Data:
    r"""Read a file: svmlight, extreme-classification text, CSV, TSV or Parquet, or a store.

    Parameters
    ----------
    path : str or Path
        The file, plain or compressed by gzip or Zstandard; ``"-"`` is standard input. Or the folder
        of a store, or a folder of Parquet files. Tables are recognised by name, other files by
        their contents.
    layout : Layout, optional
        The layout of a model's training data, so that features get the same column indices.
    n_features : int, optional
        The number of features, if the file may lack the highest one.
    first_feature : {0, 1}, optional
        The number of the first feature in svmlight files. By default 0 if a feature 0 occurs,
        else 1.
    target : str, optional
        A table's column of labels. By default the one named label, target, class or y.
    labelled : bool
        Whether rows must have labels.
    all_labels : bool
        Whether to keep all labels of a row, for `Data.indicator`.

    Returns
    -------
    Data
        X is a CSR matrix, or an array if the file is a table. If a row has several labels, y is
        the lowest.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"1 1:0.5 3:2 # a comment\n-1 2:0.25\n"); file.flush()
    ...     data = read(file.name)
    >>> data.X.toarray()
    array([[0.5 , 0.  , 2.  ],
           [0.  , 0.25, 0.  ]])
    >>> data.y, data.format, data.notes
    (array([ 1, -1]), 'svmlight', ('features are numbered from 1',))
    """
    if target is not None and not is_table(path):
        raise DataError("it is no table with a column to choose", path, cure="give no target")
    if not is_stdin(path) and Path(path).is_dir() and not is_table(path):
        from monro.data.store import open_store

        data = open_store(path, layout, n_features)
    elif is_table(path):
        from monro.data.tables import read_table

        if n_features is not None:
            raise DataError("a table's columns are its features", path, cure="give no number")
        data = read_table(path, layout, target, labelled)
    else:
        source = open_rows(path, labelled)
        return _read_rows(source, layout, n_features, first_feature, labelled, all_labels)
    if all_labels and data.y is not None:  # one per row
        data = data._replace(pairs=(np.arange(data.y.size), data.y))
    return data


def is_table(path: str | Path) -> bool:
    """Return whether a path is a table (CSV, TSV, Parquet) by its name, or a folder of Parquet."""
    name = str(path).lower().removesuffix(".gz").removesuffix(".zst")
    return name.endswith((".csv", ".tsv", ".parquet")) or bool(parquet_files(path))


def parquet_files(path: str | Path) -> list[Path]:
    """Return the sorted Parquet files in a folder and below it; none if it is not a folder."""
    folder = Path(path)
    return sorted(folder.rglob("*.parquet")) if folder.is_dir() else []


class RowSource(NamedTuple):
    """An opened file of text rows: its rows, and what its first line says about it."""

    blocks: Iterator[RowBlock]
    name: str
    format: str
    width: int | None = None  # number of features, if the file has a header


def open_rows(path: str | Path, labelled: bool) -> RowSource:
    """Open a file of text rows; the first line shows the format."""
    name = display_name(path)
    texts = line_blocks(path)
    first = next(texts, None)
    if first is None:
        raise DataError("the file is empty", name)
    texts = chain([first], texts)
    line = first[0][: first[0].index(b"\n")]
    if line.startswith(b"PAR1") or (b":" not in line and b"," in line.split(b"#")[0]):
        raise DataError(
            "this looks like a table", name, cure="give the file a name in .csv, .tsv or .parquet"
        )
    if parse_header(line) is not None:
        header, blocks = xc_blocks(texts, name)
        return RowSource(blocks, name, "extreme-classification text", header.features)
    return RowSource(svmlight_blocks(texts, name, labelled), name, "svmlight")


def concatenate_blocks(blocks: Iterable[RowBlock]) -> RowBlock:
    """Concatenate blocks of rows, one field at a time: only one is in memory twice."""
    fields: list[Any] = [list(parts) for parts in zip(*blocks, strict=True)]
    for counted, ends in ((0, 2), (3, 4)):
        start = 0
        for numbers, part in zip(fields[counted], fields[ends], strict=True):
            part += start
            start += numbers.size
    for k, parts in enumerate(fields):
        fields[k] = np.concatenate(parts)
        parts.clear()
    return RowBlock(*fields)


def lowest_labels(rows: RowBlock) -> Array:
    """Return each row's lowest label; NaN if it has none."""
    starts = np.append(0, rows.label_ends[:-1])
    labelled = rows.label_ends > starts
    y = np.full(rows.ends.size, np.nan)
    if rows.labels.size:
        y[labelled] = np.minimum.reduceat(rows.labels, starts[labelled])
    return y


def find_first_feature(lowest: int | None, known: int | None, source: RowSource) -> int:
    """Return the number of the first feature: `known`, else 0 if a feature 0 occurs, else 1."""
    if source.width is not None:
        return 0  # by the definition of the format
    if known is not None:
        return known
    return 0 if lowest == 0 else 1


def check_columns(rows: RowBlock, first: int, width: int, name: str, cure: str) -> None:
    """Raise if a row has a feature outside ``first`` … ``first + width - 1``."""
    wrong = np.flatnonzero((rows.columns < first) | (rows.columns >= first + width))
    if wrong.size:
        row = np.searchsorted(rows.ends, wrong[0], side="right")
        raise DataError(
            f"the feature {rows.columns[wrong[0]]} is none of the {width:,} numbered from {first}",
            name,
            int(rows.lines[row]),
            cure,
        )


def _read_rows(
    source: RowSource,
    layout: Layout | None,
    n_features: int | None,
    first: int | None,
    labelled: bool,
    all_labels: bool,
) -> Data:
    rows = concatenate_blocks(source.blocks)
    if rows.ends.size == 0:
        raise DataError("the file has no rows", source.name)
    lowest = int(rows.columns.min()) if rows.columns.size else None
    first = find_first_feature(lowest, layout.first_feature if layout else first, source)
    if layout is not None:
        width = layout.n_features
    else:
        highest = int(rows.columns.max(initial=first - 1))
        width = n_features or source.width or max(1, highest + 1 - first)
    cure = "drop it, or fit the model for more" if layout else "give a higher number of features"
    check_columns(rows, first, width, source.name, cure)

    notes = [f"features are numbered from {first}"]
    if layout is None and width > 1_000_000 and width > 20 * rows.values.size:
        notes.append(f"{width:,} features for {rows.values.size:,} values: is one number wrong?")
    X = sp.csr_matrix(
        (rows.values, rows.columns - np.int32(first), np.append(0, rows.ends)),
        shape=(rows.ends.size, width),
    )
    y = lowest_labels(rows)
    if labelled and np.isnan(y).any():  # only some formats allow it
        kept = np.flatnonzero(~np.isnan(y))
        notes.append(f"{y.size - kept.size:,} rows without a label were left out")
        X, y = X[kept], y[kept]
        if kept.size == 0:
            raise DataError("no row has a label", source.name)
    counts = np.diff(rows.label_ends, prepend=0)
    several = int((counts > 1).sum())
    pairs = None
    if all_labels:
        kept_counts = counts[counts > 0] if labelled else counts
        pairs = np.repeat(np.arange(kept_counts.size), kept_counts), as_integers(rows.labels)
    elif labelled and several:
        notes.append(f"{several:,} rows have several labels: the lowest counts")
    return Data(
        X,
        as_integers(y) if not np.isnan(y).all() else None,
        Layout(width, first),
        source.format,
        tuple(notes),
        several,
        pairs,
    )
