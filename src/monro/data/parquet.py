"""Parquet files and Arrow data sets of any size, read some rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from monro.data.arrow import load_pyarrow, rows_of_batch
from monro.data.files import display_name
from monro.data.read import Layout, parquet_files
from monro.data.tables import Places, choose_target, is_numeric, one_line
from monro.errors import DataError
from monro.rows import Array

_CELLS = 1 << 21  # to convert at a time
_MOST_ROWS = 1 << 14
_LARGE = 1 << 28  # bytes of a file

Parts = Iterator[tuple[Any, Array]]


def is_parquet(path: str | Path) -> bool:
    """Tell whether a name is that of a Parquet file, or of a folder of them."""
    return str(path).lower().endswith(".parquet") or bool(parquet_files(path))


def is_large(path: str | Path) -> bool:
    """Tell whether it is Parquet that had better not be read at once: a folder, or a large file."""
    return is_parquet(path) and (Path(path).is_dir() or Path(path).stat().st_size > _LARGE)


def is_arrow(data: Any) -> bool:
    """Tell whether something is Arrow's: a table, a reader, a data set."""
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
    """Return rows and labels of a Parquet file or a folder of them, and what their columns are."""
    return arrow_parts(open_parquet(path), target, display_name(path))


def arrow_parts(
    data: Any, target: str | None, name: str = "the table"
) -> tuple[Parts, Layout | None]:
    """Return rows and labels of an Arrow data set, table or reader, and what their columns are."""
    schema = data.schema
    target = choose_target(schema.names, None, target, True, name)
    features = [column for column in schema.names if column != target]
    scalar = bool(features) and all(is_numeric(schema.field(column).type) for column in features)
    layout = Layout(len(features), 0, tuple(features), target) if scalar else None
    return _parts(data, target, name, _rows_at_a_time(schema)), layout


def _rows_at_a_time(schema: Any) -> int:
    """Return how many rows take a few MB, as far as their types tell."""
    cells = sum(max(1, getattr(field.type, "list_size", 1)) for field in schema)
    return max(1, min(_MOST_ROWS, _CELLS // cells))


def _parts(data: Any, target: str | None, name: str, size: int) -> Parts:
    for start, batch in batches_of(data, name, size):
        X, y = rows_of_batch(batch, target, places=Places(name, start=start))
        assert y is not None
        yield X, y


def batches_of(data: Any, name: str, size: int) -> Iterator[tuple[int, Any]]:
    """Yield up to `size` rows at a time, and the number of the first."""
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

        # A few pages of each column at a time, not whole row groups of several files.
        options = pyarrow.dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, pre_buffer=False
        )
        parquet = getattr(data, "format", None)
        own = isinstance(parquet, pyarrow.dataset.ParquetFileFormat)
        return iter(
            data.to_batches(
                batch_size=size,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
                **({"fragment_scan_options": options} if own else {}),
            )
        )
    return iter(data)


def _damaged(error: Exception, name: str) -> DataError:
    return DataError(
        f"the Parquet file is damaged ({one_line(str(error))})", name, cure="copy it again"
    )
