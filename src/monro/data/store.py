"""A store: shuffled rows on disk, memory-mapped as a CSR matrix, for data larger than memory.

It is a folder with the files

    header.json    version, sizes, types, classes and layout
    values.bin     the non-zeros, float32 or float64
    columns.bin    their columns, int32
    ends.bin       the row pointers of CSR, int64: a 0, then the end of each row
    labels.bin     one label per row, float64; of strings, the index into the header's classes

`convert.py` writes them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from monro.data.read import Data, Layout
from monro.data.scan import LARGEST_COLUMN
from monro.errors import DataError
from monro.mapped.chunked_arrays import chunks
from monro.mapped.labels import MappedLabels
from monro.mapped.matrices import csr_from_files
from monro.rows import Array

VERSION = 1
DTYPES = ("float32", "float64")


def open_store(
    path: str | Path, layout: Layout | None = None, n_features: int | None = None
) -> Data:
    """Open a store: X is memory-mapped, y is read into memory.

    Parameters
    ----------
    path : str or Path
        The folder.
    layout : Layout, optional
        The layout of a model, which the store must match.
    n_features : int, optional
        The number of features the store must have.

    Examples
    --------
    >>> import tempfile
    >>> from monro.data.convert import write_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_store([([[1.0, 0.0]], [3]), ([[0.0, 2.0]], [7])], f"{folder}/rows.store")
    ...     data = open_store(f"{folder}/rows.store")
    ...     sorted(data.y.tolist()), data.X.shape
    ([3, 7], (2, 2))
    """
    X, labels, own = map_store(path)
    wanted = layout or own._replace(n_features=n_features or own.n_features)
    what = None
    if wanted.n_features != own.n_features:
        what = f"the store has {own.n_features:,} features, not {wanted.n_features:,}"
    elif wanted.first_feature != own.first_feature:
        what = f"the store's features are numbered from {own.first_feature}, the model's are not"
    elif wanted.names != own.names:
        what = "the store's columns are not those the model was fitted on"
    if what:
        raise DataError(what, path, cure="convert the data again, like the training data")
    return Data(X, np.asarray(labels), own, "store")


def is_store(path: str | Path) -> bool:
    """Return whether a folder is a store, possibly a damaged one."""
    return (Path(path) / "header.json").exists()


def map_store(path: str | Path) -> tuple[Any, MappedLabels, Layout]:
    """Open a store: return memory-mapped rows and labels, and the layout."""
    path = Path(path)
    damaged = DataError("the store is damaged", path, cure="convert the data again")
    try:
        header = json.loads((path / "header.json").read_text())
        kind, version = header["monro"], header["version"]
    except FileNotFoundError:
        raise DataError(
            "this folder is not a store", path, cure="make one with `monro data convert`"
        ) from None
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise damaged from None
    if kind != "store" or not isinstance(version, int) or version > VERSION:
        raise DataError(
            f"the store is of version {version}, this monro reads up to {VERSION}",
            path,
            cure="install a newer monro",
        )
    try:
        rows, nonzeros = int(header["rows"]), int(header["nonzeros"])
        own = Layout(**header["layout"])
        own = own._replace(names=tuple(own.names) if own.names else None)
        if not 0 < own.n_features <= LARGEST_COLUMN + 1 or header["dtype"] not in DTYPES:
            raise damaged
        values = _map_file(path / "values.bin", header["dtype"], nonzeros)
        columns = _map_file(path / "columns.bin", "int32", nonzeros)
        ends = _map_file(path / "ends.bin", "int64", rows + 1)
        X = csr_from_files(values, columns, ends, int(own.n_features))
        numbers = _map_file(path / "labels.bin", "float64", rows)
        words = header["classes"]
        y = MappedLabels(numbers, words)
        if words is not None and not _are_indices(numbers, len(words)):
            raise damaged
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, OSError):
        raise damaged from None
    if ends[0] != 0 or ends[-1] != nonzeros or any((np.diff(p) < 0).any() for p in chunks(ends, 1)):
        raise damaged
    return X, y, own


def _are_indices(numbers: Array, count: int) -> bool:
    """Return whether all numbers are indices into a list of `count` elements."""
    return all(
        ((part >= 0) & (part < count) & (part == np.floor(part))).all() for part in chunks(numbers)
    )


def _map_file(path: Path, dtype: str, size: int) -> Array:
    if path.stat().st_size != size * np.dtype(dtype).itemsize:
        raise ValueError(path)
    if size == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
