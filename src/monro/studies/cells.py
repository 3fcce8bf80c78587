"""Formatting of numbers in tables."""

from collections.abc import Sequence
from typing import Any

MISSING = "–"


def number(value: float | None, form: str = ".4f", *, missing: str = MISSING) -> str:
    """Return a number as text, or `missing` (a dash) for None.

    Examples
    --------
    >>> number(0.25, ".2f"), number(None), number(None, missing="diverged")
    ('0.25', '–', 'diverged')
    """
    return missing if value is None else f"{value:{form}}"


def ratio(value: float | None, base: float | None, form: str = ".2f") -> str:
    """Return ``value / base`` as text, or a dash if either is missing.

    Examples
    --------
    >>> ratio(3.0, 2.0), ratio(None, 2.0)
    ('1.50', '–')
    """
    return MISSING if value is None or not base else f"{value / base:{form}}"


def percent(value: float | None, digits: int = 2) -> str:
    """Return a share in percent as text, or a dash for None.

    Examples
    --------
    >>> percent(0.0625), percent(None)
    ('6.25', '–')
    """
    return MISSING if value is None else f"{100.0 * value:.{digits}f}"


def spread(values: Sequence[float | None], form: str = ".4f") -> str:
    """Return the mean over seeds ± half their range; seeds that diverged are counted as such.

    Examples
    --------
    >>> spread([0.25, 0.27], ".2f"), spread([0.25], ".2f"), spread([])
    ('0.26 ± 0.01', '0.25', '–')
    >>> spread([0.25, None, None], ".2f"), spread([None])
    ('0.25, 2 of 3 diverged', 'diverged')
    """
    finite = [value for value in values if value is not None]
    lost = len(values) - len(finite)
    if not finite:
        return "diverged" if values else MISSING
    text = f"{sum(finite) / len(finite):{form}}"
    if len(finite) > 1:
        text += f" ± {(max(finite) - min(finite)) / 2:{form}}"
    return f"{text}, {lost} of {len(values)} diverged" if lost else text


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None if there are no values.

    Examples
    --------
    >>> mean([1.0, 2.0]), mean([])
    (1.5, None)
    """
    return sum(values) / len(values) if values else None


def last(result: dict[str, Any] | None, name: str) -> float | None:
    """Return the last value of a curve; None if the fit diverged or was not run."""
    if result is None or result.get("diverged") or not result.get(name):
        return None
    value: float | None = result[name][-1]
    return value
