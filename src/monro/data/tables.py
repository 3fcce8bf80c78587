"""CSV, TSV and Parquet tables, read by pyarrow: a column of labels and columns of features."""

import io
import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from monro.data.files import byte_chunks, display_name
from monro.data.read import Data, Layout, parquet_files
from monro.errors import DataError, MissingExtraError
from monro.mapped.labels import as_integers
from monro.rows import Array

_TARGET_NAMES = ("label", "target", "class", "y")


def load_pyarrow() -> Any:
    """Return pyarrow; if it is missing, raise an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "reading CSV, Parquet and Arrow needs pyarrow: pip install 'monro[data]'"
        ) from None
    return pyarrow


def read_table(path: str | Path, layout: Layout | None, target: str | None, labelled: bool) -> Data:
    """Read a table; the parameters are those of `read`."""
    pa = load_pyarrow()
    name = display_name(path)
    is_csv = False
    if parquet_files(path):
        from monro.data.parquet import open_parquet

        table, locator = open_parquet(path).to_table(use_threads=False), RowLocator(name)
    else:
        text = b"".join(byte_chunks(path)).removeprefix(b"\xef\xbb\xbf")
        if not text.strip():
            raise DataError("the file is empty", name)
        is_csv = not text.startswith(b"PAR1")
        if is_csv:
            _check_encoding(text, name)
            table, locator = _parse_csv(pa, text, name)
        else:
            table, locator = _parse_parquet(pa, text, name), RowLocator(name)
    if table.num_rows == 0:
        raise DataError("the table has no rows", name)
    target = choose_target(table.column_names, layout, target, labelled, name)
    y = labels_of(table[target], target, locator) if labelled and target is not None else None
    format_ = "CSV" if is_csv else "Parquet"
    notes = (f"labels are in the column {target!r}",) if y is not None else ()
    others = [column for column in table.column_names if column != target]
    if any("list<" in str(table[column].type) for column in others):  # vectors or sparse rows
        from monro.data.arrow import rows_of_batch

        width = layout.n_features if layout else None
        X, _ = rows_of_batch(table.select(others), None, n_features=width, locator=locator)
        return Data(X, y, Layout(X.shape[1], 0, None, target), format_, notes)
    names = _features(table.column_names, target, layout, name)
    X = array_of(table, names, locator)
    return Data(X, y, Layout(len(names), 0, tuple(names), target), format_, notes)


def array_of(table: Any, names: list[str], locator: "RowLocator") -> Array:
    """Return columns of numbers as an array: float32 if all columns fit into it, else float64."""
    single = all(is_single(table[column].type) for column in names)
    X = np.empty((table.num_rows, len(names)), np.float32 if single else np.float64)
    for k, column in enumerate(names):
        X[:, k] = numbers_of(table[column], column, locator)
    return X


class RowLocator:
    """Locates rows of a table in error messages: by line in a text file, else by row number.

    Parameters
    ----------
    name : str
        The name of the file.
    text : bytes, optional
        The contents of a text file.
    headings : int
        The number of lines before the first row.
    start : int
        The number of rows before this table, if it is one of several batches.
    """

    def __init__(self, name: str, text: bytes | None = None, headings: int = 0, start: int = 0):
        self.name = name
        self.text = text
        self.headings = headings
        self.start = start

    def error(self, row: int, column: str, what: str, cure: str = "") -> DataError:
        """Return the error for a cell, to be raised."""
        what = f"column {column!r}: {what}"
        if self.text is None:
            return DataError(f"row {self.start + row + 1}, {what}", self.name, None, cure)
        # Blank lines do not count as rows.
        filled = (k for k, line in enumerate(self.text.split(b"\n"), 1) if line.strip())
        line = next(islice(filled, row + self.headings, None))
        return DataError(what, self.name, line, cure)


def _features(
    columns: list[str], target: str | None, layout: Layout | None, name: str
) -> list[str]:
    """Return the feature columns: those of the model's layout, else all but the labels."""
    others = [column for column in columns if column != target]
    if layout is None:
        if not others:
            raise DataError("the table has no column besides the labels", name)
        return others
    if layout.names is None:  # the model was fitted on columns without names: match by order
        if len(others) != layout.n_features:
            raise DataError(
                f"the table has {len(others):,} columns of features, the model "
                f"{layout.n_features:,}",
                name,
            )
        return others
    missing = [column for column in layout.names if column not in columns]
    if missing:
        raise DataError(
            f"the table has no column {missing[0]!r}, which the model was fitted on", name
        )
    return list(layout.names)


def _check_encoding(text: bytes, name: str) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise DataError("the text is not UTF-8", name, line, "convert it") from None


def _parse_csv(pa: Any, text: bytes, name: str) -> tuple[Any, RowLocator]:
    """Return the table, and the locator of its rows."""
    first = text.lstrip().partition(b"\n")[0].strip()
    delimiter = max((b",", b"\t", b";"), key=first.count).decode()
    words = first.decode("utf-8", "replace").split(delimiter)
    headless = all(_is_number(word) for word in words)

    try:
        # A single thread reports the line of an error, and no thread outlives the program.
        table = pa.csv.read_csv(
            io.BytesIO(text),
            pa.csv.ReadOptions(use_threads=False, autogenerate_column_names=headless),
            pa.csv.ParseOptions(delimiter=delimiter),
        )
    except pa.ArrowInvalid as error:
        reason = str(error)
        row = re.search(r"Row #(\d+): (.*)", reason)
        if row is None:
            raise DataError(f"the table cannot be read ({one_line(reason)})", name) from None
        counts = re.search(r"Expected (\d+) columns, got (\d+)", row[2])
        what = f"the line has {counts[2]} columns, the first one {counts[1]}" if counts else row[2]
        raise DataError(what, name, int(row[1])) from None
    repeated = {n for n in table.column_names if table.column_names.count(n) > 1}
    if repeated:
        raise DataError(f"two columns are named {sorted(repeated)[0]!r}", name, 1, "rename one")
    return table, RowLocator(name, text, 0 if headless else 1)


def _parse_parquet(pa: Any, text: bytes, name: str) -> Any:
    try:
        return pa.parquet.read_table(io.BytesIO(text), use_threads=False, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"the Parquet file is damaged ({one_line(str(error))})", name, cure="copy it again"
        ) from None


def one_line(text: str) -> str:
    """Return the first 120 characters of a message, on one line."""
    return " ".join(text.split())[:120]


def _is_number(word: str) -> bool:
    try:
        float(word.strip().strip('"'))
    except ValueError:
        return False
    return True


def choose_target(
    columns: list[str], layout: Layout | None, target: str | None, labelled: bool, name: str
) -> str | None:
    """Return the column of labels; None if there is none and none is needed."""
    target = target or (layout.target if layout else None)
    shown = ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")
    if target is not None:
        if target in columns:
            return target
        if not labelled:
            return None
        raise DataError(f"there is no column {target!r}", name, cure=f"choose from {shown}")
    found = [column for column in columns if column.lower() in _TARGET_NAMES]
    if len(found) == 1:
        return found[0]
    if not labelled:
        return None
    what = "no column" if not found else "more than one column"
    raise DataError(
        f"{what} is named {', '.join(_TARGET_NAMES[:-1])} or {_TARGET_NAMES[-1]}",
        name,
        cure=f"choose the labels with --target from {shown}",
    )


def first_null(column: Any) -> int:
    """Return the number of the first missing value of a column."""
    return int(np.flatnonzero(np.asarray(column.is_null()))[0])


def labels_of(column: Any, label: str, locator: RowLocator) -> Array:
    """Return a column of labels; if one is missing, raise an error that names the row."""
    if column.null_count:
        raise locator.error(first_null(column), label, "the label is missing", "drop the row")
    if str(column.type).startswith(("int", "uint", "bool")):
        return np.asarray(column.to_numpy()).astype(np.int64)
    if is_numeric(column.type):
        y = np.asarray(column.to_numpy(), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(y))
        if bad.size:
            raise locator.error(int(bad[0]), label, f"the label is {y[bad[0]]}", "drop the row")
        return as_integers(y)
    words = np.asarray(column.to_pylist(), dtype=np.str_)
    empty = np.flatnonzero(words == "")
    if empty.size:
        raise locator.error(int(empty[0]), label, "the label is missing", "drop the row")
    return words


def is_numeric(kind: Any) -> bool:
    """Return whether values of an Arrow type are numbers."""
    return str(kind).startswith(("int", "uint", "float", "double", "half", "bool", "decimal"))


def is_single(kind: Any) -> bool:
    """Return whether float32 holds all values of a numeric Arrow type."""
    return str(kind) in ("float", "halffloat")


def numbers_of(column: Any, label: str, locator: RowLocator) -> Array:
    """Return a column of features; raise an error naming the first cell that is not a number."""
    if column.null_count:
        cure = "fill it in, or drop the row"
        raise locator.error(first_null(column), label, "the value is missing", cure)
    if not is_numeric(column.type):
        cells = column.to_pylist()
        row = next((k for k, cell in enumerate(cells) if not _is_number(str(cell))), 0)
        cure = "encode it as numbers, or drop the column"
        raise locator.error(row, label, f"{str(cells[row])[:40]!r} is not a number", cure)
    values = np.asarray(column.to_numpy(), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise locator.error(int(bad[0]), label, f"the value is {values[bad[0]]}", "give a number")
    return values
