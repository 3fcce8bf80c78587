"""CSV, TSV and Parquet tables, through pyarrow: a column of labels, and the others as features."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from monro.data.files import chunks, display_name
from monro.data.read import Data, Layout, as_integers
from monro.errors import DataError, MissingExtraError
from monro.rows import Array

_TARGETS = ("label", "target", "class", "y")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "reading CSV and Parquet needs pyarrow: pip install 'monro[data]'"
        ) from None
    return pyarrow


def read_table(path: str | Path, layout: Layout | None, target: str | None, labelled: bool) -> Data:
    """Read a table; parameters as in `read`."""
    pa = _pyarrow()
    name = display_name(path)
    text = b"".join(chunks(path))
    if not text:
        raise DataError("the file is empty", name)
    is_csv = not text.startswith(b"PAR1")
    if is_csv:
        _check_encoding(text, name)
    table, first_line = (
        _parse_csv(pa, text, name) if is_csv else (_parse_parquet(pa, text, name), 0)
    )
    if table.num_rows == 0:
        raise DataError("the table has no rows", name)
    target = _choose_target(table.column_names, layout, target, labelled, name)
    y = None
    if target is not None and target in table.column_names:
        y = _labels(table[target], target, first_line, name, labelled)
    names = list(layout.names or ()) if layout else [n for n in table.column_names if n != target]
    if not names:
        raise DataError("the table has no column besides the labels", name)
    missing = [column for column in names if column not in table.column_names]
    if missing:
        raise DataError(
            f"the table has no column {missing[0]!r}, which the model was fitted on", name
        )
    single = all(str(table[column].type) in ("float", "halffloat") for column in names)
    X = np.empty((table.num_rows, len(names)), np.float32 if single else np.float64)
    for k, column in enumerate(names):
        X[:, k] = _numbers(table[column], column, first_line, name)
    format_ = "CSV" if is_csv else "Parquet"
    notes = (f"labels are in the column {target!r}",) if y is not None else ()
    return Data(X, y, Layout(len(names), 0, tuple(names), target), format_, notes)


def _check_encoding(text: bytes, name: str) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise DataError("the text is not UTF-8", name, line, "convert it") from None


def _parse_csv(pa: Any, text: bytes, name: str) -> tuple[Any, int]:
    """Return the table, and the line of its first row."""
    first = text[: text.find(b"\n") + 1 or len(text)].strip()
    delimiter = max((b",", b"\t", b";"), key=first.count).decode()
    words = first.decode("utf-8", "replace").split(delimiter)
    headless = all(_is_number(word) for word in words)

    def parse(threads: bool) -> Any:
        return pa.csv.read_csv(
            io.BytesIO(text),
            pa.csv.ReadOptions(use_threads=threads, autogenerate_column_names=headless),
            pa.csv.ParseOptions(delimiter=delimiter),
        )

    try:
        table = parse(True)
    except pa.ArrowInvalid:
        try:
            table = parse(False)  # in one thread, to learn the line
        except pa.ArrowInvalid as error:
            reason = str(error)
            row = re.search(r"Row #(\d+): (.*)", reason)
            if row:
                counts = re.search(r"Expected (\d+) columns, got (\d+)", row[2])
                what = (
                    f"the line has {counts[2]} columns, the first one {counts[1]}"
                    if counts
                    else row[2]
                )
                raise DataError(what, name, int(row[1])) from None
            raise DataError(f"the table cannot be read ({_one_line(reason)})", name) from None
    repeated = {n for n in table.column_names if table.column_names.count(n) > 1}
    if repeated:
        raise DataError(f"two columns are named {sorted(repeated)[0]!r}", name, 1, "rename one")
    return table, 1 if headless else 2


def _parse_parquet(pa: Any, text: bytes, name: str) -> Any:
    try:
        return pa.parquet.read_table(io.BytesIO(text))
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"the Parquet file is damaged ({_one_line(str(error))})", name, cure="copy it again"
        ) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:120]


def _is_number(word: str) -> bool:
    try:
        float(word.strip().strip('"'))
    except ValueError:
        return False
    return True


def _choose_target(
    columns: list[str], layout: Layout | None, target: str | None, labelled: bool, name: str
) -> str | None:
    target = target or (layout.target if layout else None)
    if target is None:
        found = [column for column in columns if column.lower() in _TARGETS]
        if len(found) == 1:
            return found[0]
        what = "no column" if not found else "more than one column"
        shown = ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")
        raise DataError(
            f"{what} is named {', '.join(_TARGETS[:-1])} or {_TARGETS[-1]}",
            name,
            cure=f"choose the labels with --target from {shown}",
        )
    if target not in columns and labelled:
        shown = ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")
        raise DataError(f"there is no column {target!r}", name, cure=f"choose from {shown}")
    return target


def _at(row: int, first_line: int) -> tuple[str, int | None]:
    """Return how to name a row: by its line in a text file, else by its number."""
    return ("", first_line + row) if first_line else (f"row {row + 1}, ", None)


def _labels(column: Any, label: str, first_line: int, name: str, labelled: bool) -> Array | None:
    if column.null_count:
        if not labelled:
            return None
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        where, line = _at(row, first_line)
        raise DataError(
            f"{where}column {label!r}: the label is missing", name, line, "drop the row"
        )
    if _is_numeric(column):
        y = np.asarray(column.to_numpy(), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(y))
        if bad.size:
            where, line = _at(int(bad[0]), first_line)
            raise DataError(f"{where}column {label!r}: the label is {y[bad[0]]}", name, line)
        return as_integers(y)
    return np.asarray(column.to_pylist(), dtype=np.str_)


def _is_numeric(column: Any) -> bool:
    return str(column.type).startswith(
        ("int", "uint", "float", "double", "half", "bool", "decimal")
    )


def _numbers(column: Any, label: str, first_line: int, name: str) -> Array:
    """Return a column of features, or name the cell that is no number."""
    if str(column.type) == "null":
        where, line = _at(0, first_line)
        raise DataError(f"{where}column {label!r}: the value is missing", name, line, "drop it")
    if not _is_numeric(column):
        cells = column.to_pylist()
        row = next((k for k, cell in enumerate(cells) if not _is_number(str(cell))), 0)
        where, line = _at(row, first_line)
        raise DataError(
            f"{where}column {label!r}: {str(cells[row])[:40]!r} is no number",
            name,
            line,
            "encode it as numbers, or drop the column",
        )
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        where, line = _at(row, first_line)
        raise DataError(
            f"{where}column {label!r}: the value is missing", name, line, "fill it in, or drop it"
        )
    values = np.asarray(column.to_numpy(), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        where, line = _at(int(bad[0]), first_line)
        raise DataError(
            f"{where}column {label!r}: the value is {values[bad[0]]}", name, line, "give a number"
        )
    return values
