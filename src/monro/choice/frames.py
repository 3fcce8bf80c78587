"""Choice data in long format: one row for each alternative that is available in a situation."""

from typing import Any, NamedTuple

import numpy as np

from monro.rows import Array


class Choices(NamedTuple):
    """Rows sorted by situation: those of situation n are ``starts[n] … starts[n + 1] - 1``."""

    X: Array  # (rows, attributes)
    alternative: Array  # (rows,): codes
    starts: Array  # (situations + 1,)
    chosen: Array  # (situations,): the row that was chosen; empty if that is not known
    order: Array  # (rows,): the row of the frame
    situations: Array  # (situations,): their labels


def columns_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns: pandas, polars, Arrow, or a dictionary of arrays."""
    for name in ("column_names", "columns"):
        if hasattr(frame, name):
            return list(getattr(frame, name))
    if hasattr(frame, "keys"):
        return list(frame.keys())
    raise TypeError(
        "give a data frame (pandas, polars, Arrow) or a dictionary of columns, one row for each "
        f"alternative of a situation, not {type(frame).__name__}"
    )


def column(frame: Any, name: str) -> Array:
    """Return one column; raise if the frame does not have it."""
    known = columns_of(frame)
    if name not in known:
        raise ValueError(f"there is no column {name!r}: the frame has {', '.join(map(str, known))}")
    values = np.asarray(frame[name])
    if values.ndim != 1:
        raise ValueError(f"column {name!r} has {values.ndim} dimensions: give one value a row")
    return values


def numbers(frame: Any, name: str) -> Array:
    """Return a column of finite numbers."""
    try:
        values = np.asarray(column(frame, name), np.float64)
    except (TypeError, ValueError) as error:
        if "there is no column" in str(error):
            raise
        raise ValueError(
            f"column {name!r} holds no numbers: code it as numbers, or leave it out of attributes"
        ) from None
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"column {name!r}: row {bad[0]} holds {values[bad[0]]}; give finite numbers, or drop it"
        )
    return values


def read_choices(
    frame: Any,
    situation: str,
    alternative: str,
    chosen: str | None,
    attributes: list[str],
    alternatives: Array | None,
) -> tuple[Choices, Array]:
    """Check and sort choices; return them, and the labels of the alternatives.

    Parameters
    ----------
    frame : data frame or dictionary of columns
    situation, alternative, chosen : str
        Columns; `chosen` is None where choices are to be predicted.
    attributes : list of str
        Columns of numbers.
    alternatives : array, optional
        The labels that are allowed; by default those of the frame.
    """
    labels, code = _codes(frame, alternative, alternatives)
    situations, of_row = np.unique(column(frame, situation), return_inverse=True)
    n = of_row.size
    if n == 0:
        raise ValueError("the frame has no rows")
    X = np.column_stack([numbers(frame, name) for name in attributes] or [np.empty((n, 0))])
    order = np.lexsort((code, of_row))
    of_row, code = of_row[order], code[order]
    again = np.flatnonzero((np.diff(of_row) == 0) & (np.diff(code) == 0))
    if again.size:
        where = f"{situation} {_label(situations, of_row[again[0]])}"
        raise ValueError(f"{where} has alternative {_label(labels, code[again[0]])} twice")
    starts = np.append(0, np.cumsum(np.bincount(of_row)))
    choice = np.empty(0, np.int64)
    if chosen is not None:
        choice = _chosen_rows(numbers(frame, chosen)[order], of_row, situations, situation, chosen)
    X = np.ascontiguousarray(X[order])
    return Choices(X, code.astype(np.int32), starts, choice, order, situations), labels


def _codes(frame: Any, alternative: str, known: Array | None) -> tuple[Array, Array]:
    """Return the labels of the alternatives, and each row's code among them."""
    given = column(frame, alternative)
    if known is None:
        labels, code = np.unique(given, return_inverse=True)
        return labels, code
    code = np.minimum(np.searchsorted(known, given), known.size - 1)
    invalid = np.flatnonzero(known[code] != given)
    if invalid.size:
        raise ValueError(
            f"column {alternative!r}: row {invalid[0]} has {_label(given, invalid[0])}, an "
            "alternative the model does not know"
        )
    return known, code


def _chosen_rows(
    flags: Array, of_row: Array, situations: Array, situation: str, chosen: str
) -> Array:
    """Return the chosen row of each situation."""
    invalid = flags[(flags != 0.0) & (flags != 1.0)]
    if invalid.size:
        raise ValueError(f"column {chosen!r} holds {invalid[0]:g}: give 1 where chosen, else 0")
    count = np.bincount(of_row, flags, situations.size)
    wrong = np.flatnonzero(count != 1.0)
    if wrong.size:
        raise ValueError(
            f"{situation} {_label(situations, wrong[0])} has {int(count[wrong[0]])} chosen "
            "alternatives: it needs one"
        )
    return np.flatnonzero(flags)


def _label(labels: Array, k: int) -> str:
    """Return a label as one would write it in Python, whatever its NumPy type."""
    return repr(labels[k : k + 1].tolist()[0])
