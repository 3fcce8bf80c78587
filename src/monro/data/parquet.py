"""Parquet files and Arrow data sets of any size, read in batches of rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from monro.data.arrow import rows_of_batch
from monro.data.files import display_name
from monro.data.read import Layout, parquet_files
from monro.data.tables import RowLocator, choose_target, is_numeric, load_pyarrow, one_line
from monro.errors import DataError
from monro.rows import Array

_BATCH_CELLS = 1 << 21  # numbers in a batch, about
_MAX_BATCH_ROWS = 1 << 14
_LARGE_FILE = 1 << 28  # bytes

Parts = Iterator[tuple[Any, Array]]


def is_parquet(path: str | Path) -> bool:
    """Return whether a path is that of a Parquet file, or of a folder of them."""
    return str(path).lower().endswith(".parquet") or bool(parquet_files(path))


def is_large(path: str | Path) -> bool:
    """Return whether a path is a large Parquet file or a folder, to be read in batches."""
    return is_parquet(path) and (Path(path).is_dir() or Path(path).stat().st_size > _LARGE_FILE)


def is_arrow(data: Any) -> bool:
    """Return whether an object is from pyarrow: a table, a reader, a data set."""
    return type(data).__module__.partition(".")[0] == "pyarrow"


def open_parquet(path: str | Path) -> Any:
    """Open a Parquet file, or a folder of them, as a data set."""
    load_pyarrow()
    import pyarrow.dataset

    files = parquet_files(path) or [Path(path)]
    name = display_name(path)
    if not Path(path).exists():
        raise DataError("there is no such file or folder", name)
    try:
        return pyarrow.dataset.dataset([str(file) for file in files], format="parquet")
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged(error, name) from None


def parquet_parts(path: str | Path, target: str | None) -> tuple[Parts, Layout | None]:
    """Return batches (X, y) of a Parquet file or a folder of them, and the layout of columns."""
    return arrow_parts(open_parquet(path), target, display_name(path))


def arrow_parts(
    data: Any, target: str | None, name: str = "the table"
) -> tuple[Parts, Layout | None]:
    """Return batches (X, y) of an Arrow data set, table or reader, and the layout of columns.

    The layout is None unless each feature is a column of numbers.
    """
    schema = data.schema
    target = choose_target(schema.names, None, target, True, name)
    features = [column for column in schema.names if column != target]
    scalar = bool(features) and all(is_numeric(schema.field(column).type) for column in features)
    layout = Layout(len(features), 0, tuple(features), target) if scalar else None
    return _parts(data, target, name, _batch_rows(schema)), layout


def _batch_rows(schema: Any) -> int:
    """Return about how many rows take a few MB, estimated from the types of the columns."""
    cells = sum(max(1, getattr(field.type, "list_size", 1)) for field in schema)
    return max(1, min(_MAX_BATCH_ROWS, _BATCH_CELLS // cells))


def _parts(data: Any, target: str | None, name: str, size: int) -> Parts:
    for start, batch in batches_of(data, name, size):
        X, y = rows_of_batch(batch, target, locator=RowLocator(name, start=start))
        assert y is not None
        yield X, y


def batches_of(data: Any, name: str, size: int) -> Iterator[tuple[int, Any]]:
    """Yield batches of up to `size` rows, each after the number of its first row."""
    pa = load_pyarrow()
    start = 0
    batches = _batches(data, size)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error, name) from None
        if batch is None:
            return
        for k in range(0, batch.num_rows, size):
            yield start + k, batch.slice(k, size)
        start += batch.num_rows


def _batches(data: Any, size: int) -> Iterator[Any]:
    if hasattr(data, "to_batches"):  # a table, or a data set
        if not hasattr(data, "scanner"):
            return iter(data.to_batches(size))
        import pyarrow.dataset

        # Read a few pages of each column at a time, not whole row groups of several files.
        options = pyarrow.dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, pre_buffer=False
        )
        format_ = getattr(data, "format", None)
        parquet = isinstance(format_, pyarrow.dataset.ParquetFileFormat)
        return iter(
            data.to_batches(
                batch_size=size,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
                **({"fragment_scan_options": options} if parquet else {}),
            )
        )
    return iter(data)


def _damaged(error: Exception, name: str) -> DataError:
    return DataError(
        f"the Parquet file is damaged ({one_line(str(error))})", name, cure="copy it again"
    )
