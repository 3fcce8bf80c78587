"""Arrow tables as rows and labels, from Parquet data sets, Arrow readers or Ray.

The columns besides the labels are the features, in one of three forms: columns of numbers; one
column of vectors of equal length; or two columns of lists with the indices and values of sparse
rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.data.tables import RowLocator, array_of, first_null, is_numeric, is_single, labels_of
from monro.data.tables import load_pyarrow as load_pyarrow  # re-exported for callers
from monro.errors import DataError
from monro.rows import Array

_MAX_FEATURE = np.iinfo(np.int32).max - 1


def rows_of_batch(
    batch: Any,
    label_column: str | None,
    feature_columns: Sequence[str] | None = None,
    n_features: int | None = None,
    *,
    locator: RowLocator | None = None,
) -> tuple[Any, Array | None]:
    """Return the rows and labels of an Arrow table.

    Parameters
    ----------
    batch : pyarrow.Table or pyarrow.RecordBatch
        The table.
    label_column : str or None
        The column of labels; None if there are no labels.
    feature_columns : list of str, optional
        Columns of numbers; or one column of vectors; or, for sparse rows, the column of feature
        indices (from 0) and the column of their values. By default all columns but the labels.
    n_features : int, optional
        The number of features. By default the length of the vectors, or one more than the highest
        index of a sparse row.
    locator : RowLocator, optional
        Names rows in error messages.

    Returns
    -------
    X : array or CSR matrix
        C-contiguous, or canonical. Of float32 if all columns fit into it, else float64.
    y : array or None

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = {"index": [[0, 2], [1]], "value": [[1.0, 2.0], [3.0]]}
    >>> table = pa.table(rows | {"label": ["a", "b"]})
    >>> X, y = rows_of_batch(table, "label")
    >>> X.toarray()
    array([[1., 0., 2.],
           [0., 3., 0.]])
    >>> y.tolist()
    ['a', 'b']
    """
    pa = load_pyarrow()
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    locator = locator or RowLocator("the table")
    names = table.column_names
    for column in (label_column, *(feature_columns or ())):
        if column is not None and names.count(column) != 1:
            what = "no column" if column not in names else "more than one column"
            raise ValueError(
                f"{locator.name}: there is {what} {column!r}; there are {_listing(names)}"
            )
    y = None if label_column is None else labels_of(table[label_column], label_column, locator)
    features = list(feature_columns or (name for name in names if name != label_column))
    if not features:
        raise ValueError(f"{locator.name}: there is no column besides the labels")
    table = table.select(features)
    lists = [name for name in features if _is_list(pa, _storage_of(pa, table[name]).type)]
    if not lists:
        return _with_width(array_of(table, features, locator), n_features, locator), y
    if len(lists) < len(features) or len(lists) > 2:
        raise ValueError(
            f"{locator.name}: the features are {_listing(features)}, of which {_listing(lists)} "
            "hold lists; choose numbers, one column of vectors, or two of sparse rows in "
            "feature_columns"
        )
    if len(lists) == 1:
        return _with_width(_vectors(pa, table, lists[0], locator), n_features, locator), y
    numbers, values = lists if feature_columns else _index_column_first(pa, table, lists, locator)
    return _sparse(pa, table, numbers, values, n_features, locator), y


def sentences_of_batch(
    batch: Any, tag_column: str, locator: RowLocator | None = None
) -> tuple[list[list[tuple[str, ...]]], list[list[str]]]:
    """Return the sentences of an Arrow table, one per row, and their tags.

    Parameters
    ----------
    batch : pyarrow.Table or pyarrow.RecordBatch
        Each column holds lists of strings, one string for each token.
    tag_column : str
        The column of tags.
    locator : RowLocator, optional
        Names rows in error messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"word": [["the", "dog"], ["he"]], "tags": [["D", "N"], ["P"]]})
    >>> sentences_of_batch(table, "tags")
    ([[('the',), ('dog',)], [('he',)]], [['D', 'N'], ['P']])
    """
    locator = locator or RowLocator("the table")
    names = batch.column_names
    if tag_column not in names:
        cure = f"choose tags= from {_listing(names)}"
        raise DataError(f"there is no column {tag_column!r}", locator.name, cure=cure)
    if len(names) < 2:
        raise DataError("there is no column besides the tags", locator.name)
    tags = _texts(batch, tag_column, locator)
    columns = [_texts(batch, name, locator) for name in names if name != tag_column]
    for name, column in zip((name for name in names if name != tag_column), columns, strict=True):
        for row, (found, expected) in enumerate(zip(column, tags, strict=True)):
            if len(found) != len(expected):
                what = f"there are {len(found)} texts for {len(expected)} tags"
                raise locator.error(row, name, what, "give one for each token")
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)], tags


def _texts(batch: Any, name: str, locator: RowLocator) -> list[list[str]]:
    rows: list[Any] = batch.column(name).to_pylist()
    for k, row in enumerate(rows):
        if not isinstance(row, list) or not all(isinstance(text, str) for text in row):
            raise locator.error(k, name, f"{row!r:.40} is no list of texts", "give a text a token")
    return rows


def _listing(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")


def _storage_of(pa: Any, column: Any) -> Any:
    """Return a column without its extension type: tensors are stored as fixed-size lists."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([part.storage for part in column.chunks], column.type.storage_type)


def _is_list(pa: Any, kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _with_width(X: Array, n_features: int | None, locator: RowLocator) -> Array:
    """Return X; raise unless it has `n_features` columns, where that is given."""
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"{locator.name}: it has {X.shape[1]:,} features, not {n_features:,}")
    return X


def _lists(pa: Any, table: Any, name: str, locator: RowLocator) -> tuple[Any, Array]:
    """Return all elements of a column of lists, flattened, and the length of each row's list."""
    column = _storage_of(pa, table[name])
    if column.null_count:
        cure = "fill it in, or drop the row"
        raise locator.error(first_null(column), name, "the list is missing", cure)
    lengths = np.asarray(pa.compute.list_value_length(column).to_numpy(), np.int64)
    flat = pa.compute.list_flatten(column)
    if _is_list(pa, flat.type):
        raise locator.error(0, name, "a list of lists is no vector", "flatten it")
    if flat.null_count or not is_numeric(flat.type):
        at = first_null(flat) if flat.null_count else 0
        row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
        what = (
            "a value is missing" if flat.null_count else f"{flat[at].as_py()!r:.40} is not a number"
        )
        raise locator.error(min(row, lengths.size - 1), name, what, "give numbers")
    return flat, lengths


def _values(flat: Any, lengths: Array, name: str, locator: RowLocator) -> Array:
    dtype = np.float32 if is_single(flat.type) else np.float64
    values = np.array(flat.to_numpy(), dtype)  # a copy: Arrow's memory is read-only
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = int(np.searchsorted(np.cumsum(lengths), bad[0], side="right"))
        raise locator.error(row, name, f"a value is {values[bad[0]]}", "give numbers")
    return values


def _vectors(pa: Any, table: Any, name: str, locator: RowLocator) -> Array:
    flat, lengths = _lists(pa, table, name, locator)
    ragged = np.flatnonzero(lengths != lengths[:1])
    if ragged.size:
        row = int(ragged[0])
        what = f"the vector has {lengths[row]} numbers, the first one {lengths[0]}"
        raise locator.error(row, name, what, "give all the same length, or two columns of lists")
    width = int(lengths[0]) if lengths.size else 0
    return _values(flat, lengths, name, locator).reshape(lengths.size, width)


def _index_column_first(pa: Any, table: Any, lists: list[str], locator: RowLocator) -> list[str]:
    """Return the two columns of sparse rows, the one of integers (the feature indices) first."""
    kinds = [_storage_of(pa, table[name]).type.value_type for name in lists]
    whole = [name for name, kind in zip(lists, kinds, strict=True) if pa.types.is_integer(kind)]
    if len(whole) != 1:
        what = "neither holds" if not whole else "both hold"
        raise ValueError(
            f"{locator.name}: of {_listing(lists)} {what} integers; name the features' numbers and "
            "their values, in this order, in feature_columns"
        )
    return sorted(lists, key=lambda name: name != whole[0])


def _sparse(
    pa: Any, table: Any, numbers: str, values: str, n_features: int | None, locator: RowLocator
) -> sp.csr_matrix:
    flat, lengths = _lists(pa, table, numbers, locator)
    if not pa.types.is_integer(flat.type):
        raise locator.error(0, numbers, "a feature's number must be an integer", "convert them")
    flat_values, value_lengths = _lists(pa, table, values, locator)
    different = np.flatnonzero(lengths != value_lengths)
    if different.size:
        row = int(different[0])
        what = f"it has {value_lengths[row]} values for {lengths[row]} features of {numbers!r}"
        raise locator.error(row, values, what, "give one for each")
    columns = np.asarray(flat.to_numpy())
    width = n_features or int(columns.max(initial=0)) + 1
    outside = np.flatnonzero((columns < 0) | (columns >= width) | (columns > _MAX_FEATURE))
    if outside.size:
        row = int(np.searchsorted(np.cumsum(lengths), outside[0], side="right"))
        what = f"the feature {columns[outside[0]]} is none of the {width:,} numbered from 0"
        raise locator.error(row, numbers, what, "number them from 0, or give a higher n_features")
    X = sp.csr_matrix(
        (
            _values(flat_values, value_lengths, values, locator),
            columns.astype(np.int32),
            np.append(0, np.cumsum(lengths)),
        ),
        shape=(lengths.size, width),
    )
    X.sum_duplicates()
    return X
