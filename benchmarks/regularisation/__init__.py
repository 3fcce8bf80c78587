"""Nothing to tune: defaults that choose the strength of their penalty, beside peers that search.

Each part is saved as soon as a set of it is measured, and takes the place of the last result of
that set. Test rows are used to judge the result of a fit and for nothing else: strengths are chosen
by rows held out of the training rows, by monro as by its peers, and of several variants of a peer
the one with the least loss held out is compared with.
"""

import importlib
from types import ModuleType
from typing import Any

from benchmarks import harness

NAME = "regularisation"
PARTS = {
    "softmax": "the default softmax on six sets",
    "linear": "the default linear classifier with log loss",
    "regression": "the default regression",
    "l1": "time to 1 % of the optimum with an L1 penalty",
    "crf": "the default tagger on CoNLL-2000",
    "stability": "strengths and losses over seeds",
    "columns": "columns as they come, and scaled",
    "watching": "what early stopping and verbose=1 cost",
    "memory": "memory and time of a default fit with many classes",
}
QUICK = ("softmax", "l1", "columns")
LIMIT = 3600.0  # seconds for a peer on one set


def _part(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.regularisation.{name}")


def wanted(only: str | None, quick: bool) -> list[tuple[str, str]]:
    """Return pairs of part and set: all, or those of a list like "softmax/Bibtex,l1"."""
    names = list(QUICK if quick else PARTS) if only is None else only.split(",")
    found = []
    for name in names:
        part, _, one = name.partition("/")
        if part not in PARTS:
            raise SystemExit(f"unknown part {part!r}: choose from {', '.join(PARTS)}")
        known = _part(part).cells(quick)
        if one and one not in known:
            raise SystemExit(f"unknown set {one!r} of {part}: choose from {', '.join(known)}")
        found += [(part, cell) for cell in ([one] if one else known)]
    return found


def replaced(rows: list[dict[str, Any]], row: dict[str, Any], order: list[str]) -> list[Any]:
    """Return the rows with one put in the place of that of the same set."""
    others = [other for other in rows if other["set"] != row["set"]]
    return sorted([*others, row], key=lambda one: order.index(one["set"]))


def run(*, quick: bool, only: str | None = None, limit: float | None = None) -> dict[str, Any]:
    parts: dict[str, Any] = {} if quick else dict(harness.load(NAME)["parts"])
    for part, cell in wanted(only, quick):
        module = _part(part)
        row = {"set": cell} | module.measure(cell, quick=quick, limit=limit or LIMIT)
        parts[part] = replaced(parts.get(part, []), row, module.cells(quick))
        harness.save(NAME, {"parts": parts}, quick=quick)
    return {"parts": parts}


def table(result: dict[str, Any]) -> str:
    parts = [_part(name).table(rows) for name in PARTS if (rows := result["parts"].get(name))]
    return "\n\n".join(parts) or "Not measured yet."
