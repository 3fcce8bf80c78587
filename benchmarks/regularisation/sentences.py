"""Verdicts as sentences, computed from the results."""

from collections.abc import Mapping
from typing import Any


def at_most(claim: str, values: Mapping[str, float | None], bar: float, form: str = ".3f") -> str:
    """Return the claim, on how many sets it holds, and the values where it does not.

    Parameters
    ----------
    claim : str
    values : mapping from sets to numbers
        None where there is nothing to compare with.
    bar : float
        The claim holds where the value is at most the bar.
    form : str
        How values are written.
    """
    known = {name: value for name, value in values.items() if value is not None}
    missed = [f"{name} ({value:{form}})" for name, value in known.items() if not value <= bar]
    parts = [f"{claim}: {len(known) - len(missed)} of {len(known)}"]
    if missed:
        parts.append(f"not {', '.join(missed)}")
    absent = [name for name in values if name not in known]
    if absent:
        parts.append(f"nothing to compare with on {', '.join(absent)}")
    return "; ".join(parts) + "."


def defaults_ahead(rows: list[dict[str, Any]], defaults: tuple[str, ...], measure: str) -> str:
    """Return a sentence that lists the peers whose defaults are ahead, and on which sets."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for peer in defaults:
            theirs = row["peers"].get(peer, {}).get(measure)
            if theirs is not None and theirs < row["ours"][measure]:
                ratio = theirs / row["ours"][measure]
                found.setdefault(peer, []).append(f"{row['set']} ({ratio:.3f}×)")
    places = [f"{peer} on {', '.join(sets)}" for peer, sets in found.items()]
    return f"Peers' defaults that are ahead: {'; '.join(places) or 'none'}."


def seconds(found: Mapping[str, Any]) -> str:
    """Return the seconds of a fit, or that it was stopped."""
    if "limit" in found:
        return f"not finished in {found['limit']:,.0f} s"
    return f"{found['seconds']:.3g}"
