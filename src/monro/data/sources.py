"""Sources of rows that `fit` accepts besides arrays: stores, Parquet, Arrow, iterables of chunks.

Everything but a store is first written to a store in a temporary folder, which shuffles it. The
folder is removed as soon as its files are memory-mapped; the system frees them with the arrays.
"""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.data.convert import write_store
from monro.data.parquet import Parts, arrow_parts, is_arrow, is_parquet, parquet_parts
from monro.data.read import Layout
from monro.data.store import is_store, map_store
from monro.errors import DataError
from monro.mapped.labels import MappedLabels

Mapped = tuple[Any, MappedLabels, Layout]


def is_chunks(data: Any) -> bool:
    """Return whether an object yields chunks: an iterable but not an array, list or data frame."""
    return (
        isinstance(data, Iterable)
        and not hasattr(data, "__getitem__")
        and not hasattr(data, "__array__")
        and not sp.issparse(data)
    )


def open_source(data: Any, target: Any, dtype: str | None, *, weighted: bool) -> Mapped | None:
    """Return memory-mapped rows and labels and their layout; None if `data` is in memory.

    Parameters
    ----------
    data : str, Path, Arrow data set, table or reader, iterable of (X, y); or anything else
        A path is that of a store, of a Parquet file or of a folder of Parquet files.
    target : str, optional
        The column of labels of Arrow and Parquet data.
    dtype : {"float32", "float64"}, optional
        The precision of the values. By default that of the first chunk. A store has its own.
    weighted : bool
        Whether there are sample weights. They are an error for data that is shuffled here.
    """
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return None
    layout = None
    if isinstance(data, (str, Path)):
        path = Path(data)
        if is_store(path):
            if target is not None:
                raise ValueError("y: a store has its own labels; leave y None")
            return map_store(path)
        if path.exists() and not is_parquet(path):
            raise DataError(
                "this is neither a store nor Parquet",
                path,
                cure="make a store with `monro data convert`, or read it with monro.data.read",
            )
        chunks, layout = parquet_parts(path, _label_column(target))
    elif is_arrow(data) and (target is None or isinstance(target, str)):
        chunks, layout = arrow_parts(data, target)
    elif is_chunks(data):
        if target is not None:
            raise ValueError("y: the chunks (X, y) have the labels; leave y None")
        chunks = _checked_pairs(data)
    else:
        return None
    if weighted:
        raise ValueError(
            "sample_weight: the rows are shuffled, and weights with them; write a store first "
            "(monro.data.convert.write_store), and give the weights in its order"
        )
    first = next(chunks, None)
    if first is None:
        raise ValueError("X: there are no chunks; give at least one (X, y)")
    if dtype is None:
        kind = first[0].dtype if hasattr(first[0], "dtype") else np.dtype(np.float64)
        dtype = "float32" if kind in (np.float16, np.float32) else "float64"
    with tempfile.TemporaryDirectory(prefix="monro-", ignore_cleanup_errors=True) as folder:
        store = Path(folder) / "store"
        write_store(chain([first], chunks), store, dtype=dtype, layout=layout)
        return map_store(store)


def _label_column(target: Any) -> str | None:
    if target is not None and not isinstance(target, str):
        raise ValueError("y: give the name of the column of labels")
    return target


def _checked_pairs(chunks: Iterable[Any]) -> Parts | Iterator[Any]:
    for k, chunk in enumerate(chunks):
        if not isinstance(chunk, tuple) or len(chunk) != 2:
            raise ValueError(f"part {k}: a chunk is a pair (X, y), here is {type(chunk).__name__}")
        yield chunk
