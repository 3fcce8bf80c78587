"""Rows with several labels: an indicator matrix of 0s and 1s, expanded to single-label examples.

The target of a row with n labels is 1/n for each of them. Its loss is then the mean of the losses
of its labels: the row counts as n examples of weight 1/n.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.checks.labels import label_arrays
from monro.rows import Array


def is_indicator(y: Any) -> bool:
    """Return whether y is a matrix of labels; a matrix of one column counts as a vector.

    Examples
    --------
    >>> is_indicator([[0, 1], [1, 1]]), is_indicator([[0], [1]]), is_indicator(["fig", "kiwi"])
    (True, False, False)
    """
    if sp.issparse(y):
        return bool(y.ndim == 2)
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def read_indicator(y: Any, n_rows: int) -> Any:
    """Validate a matrix of labels; return it as a canonical CSR array of its ones.

    Examples
    --------
    >>> read_indicator([[0, 1], [1, 1]], 2).indices.tolist()
    [1, 0, 1]
    """
    y = y if sp.issparse(y) else np.asarray(y)
    if y.shape[0] != n_rows:
        raise ValueError(f"y: it has {y.shape[0]:,} rows, X has {n_rows:,}; give a row for each")
    if y.shape[1] < 2:
        raise ValueError("y: it has one column; give one for each label, and at least 2 labels")
    if sp.issparse(y):
        rows, columns, values = sp.find(y)
    else:
        rows, columns = np.nonzero(y != 0)
        values = y[rows, columns]
    invalid = np.flatnonzero(values != 1)
    if invalid.size:
        at = invalid[rows[invalid].argmin()]
        value = values[at : at + 1].tolist()[0]
        raise ValueError(
            f"y: row {rows[at]} holds {value!r}; a matrix of labels holds 1 where a row has the "
            "label, else 0"
        )
    if not rows.size:
        raise ValueError("y: no row has a label; at least one is needed")
    return sp.csr_array((np.ones(rows.size, bool), (rows, columns)), shape=y.shape)


def name_columns(n_columns: int, named: Any, known: Array | None = None) -> Array:
    """Return the label of each column: from `named`, else from `known`, else the column's number.

    Examples
    --------
    >>> name_columns(2, ["kiwi", "fig"]).tolist(), name_columns(3, None).tolist()
    (['fig', 'kiwi'], [0, 1, 2])
    """
    if named is None:
        numbered = known is None or np.array_equal(known, np.arange(known.size))
        named = np.arange(n_columns) if numbered else known
    labels: Array = np.unique(label_arrays({"classes": named})[0])
    if labels.size != n_columns:
        raise ValueError(
            f"y: it has {n_columns:,} columns for {labels.size:,} classes; give one for each class"
        )
    return labels


def expand(Y: Any) -> tuple[Array, Array, Array]:
    """Return the single-label examples of a matrix of labels: row, label and weight of each.

    Examples
    --------
    >>> rows, labels, weights = expand(read_indicator([[0, 1], [0, 0], [1, 1]], 3))
    >>> rows.tolist(), labels.tolist(), weights.tolist()
    ([0, 2, 2], [1, 0, 1], [1.0, 0.5, 0.5])
    """
    counts = np.diff(Y.indptr)
    rows = np.repeat(np.arange(counts.size), counts)
    return rows, Y.indices.astype(np.int64), 1.0 / counts[rows]
