"""Numbers as tables show them."""

from typing import Any

NONE = "–"


def number(value: float | None, form: str = ".4f", *, missing: str = NONE) -> str:
    """Return a number, or a dash where there is none.

    Examples
    --------
    >>> number(0.25, ".2f"), number(None), number(None, missing="diverged")
    ('0.25', '–', 'diverged')
    """
    return missing if value is None else f"{value:{form}}"


def ratio(value: float | None, base: float | None, form: str = ".2f") -> str:
    """Return how many times the base a value is.

    Examples
    --------
    >>> ratio(3.0, 2.0), ratio(None, 2.0)
    ('1.50', '–')
    """
    return NONE if value is None or not base else f"{value / base:{form}}"


def percent(value: float | None, digits: int = 2) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.0625), percent(None)
    ('6.25', '–')
    """
    return NONE if value is None else f"{100.0 * value:.{digits}f}"


def last(result: dict[str, Any] | None, name: str) -> float | None:
    """Return the end of a curve, None where the fit diverged or was not run."""
    if result is None or result.get("diverged") or not result.get(name):
        return None
    value: float | None = result[name][-1]
    return value
