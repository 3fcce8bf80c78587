"""Benchmarks in parts, each of several sets, that can be measured one at a time.

Each part is saved as soon as a set of it is measured, and takes the place of the last result of
that set.
"""

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks import harness

LIMIT = 3600.0  # seconds for a learner on one set


@dataclass(frozen=True)
class Parts:
    """The parts of a benchmark: modules of its package with `cells`, `measure` and `table`.

    ``cells(quick)`` returns the names of the sets, ``measure(name, quick=…, limit=…)`` the result
    of one, ``table(rows)`` the text of all.
    """

    name: str
    about: dict[str, str]  # of each part
    quick: tuple[str, ...]  # the parts of a smoke test

    def part(self, name: str) -> ModuleType:
        """Return the module of a part."""
        return importlib.import_module(f"benchmarks.{self.name}.{name}")

    def wanted(self, only: str | None, quick: bool) -> list[tuple[str, str]]:
        """Return pairs of part and set: all, or those of a list like "softmax/Bibtex,l1"."""
        names = list(self.quick if quick else self.about) if only is None else only.split(",")
        found = []
        for name in names:
            part, _, one = name.partition("/")
            if part not in self.about:
                raise SystemExit(f"unknown part {part!r}: choose from {', '.join(self.about)}")
            known = self.part(part).cells(quick)
            if one and one not in known:
                raise SystemExit(f"unknown set {one!r} of {part}: choose from {', '.join(known)}")
            found += [(part, cell) for cell in ([one] if one else known)]
        return found

    def run(
        self, *, quick: bool, only: str | None = None, limit: float | None = None
    ) -> dict[str, Any]:
        """Measure what is wanted; return the results of all parts."""
        measured = not quick and (harness.RESULTS / f"{self.name}.json").exists()
        parts: dict[str, Any] = dict(harness.load(self.name)["parts"]) if measured else {}
        for name, cell in self.wanted(only, quick):
            part = self.part(name)
            row = {"set": cell} | part.measure(cell, quick=quick, limit=limit or LIMIT)
            parts[name] = replaced(parts.get(name, []), row, part.cells(quick))
            harness.save(self.name, {"parts": parts}, quick=quick)
        return {"parts": parts}

    def table(self, result: dict[str, Any]) -> str:
        """Return the tables of all parts that were measured."""
        found = [(name, result["parts"].get(name)) for name in self.about]
        parts = [self.part(name).table(rows) for name, rows in found if rows]
        return "\n\n".join(parts) or "Not measured yet."


def replaced(rows: list[dict[str, Any]], row: dict[str, Any], order: list[str]) -> list[Any]:
    """Return the rows with one put in the place of that of the same set."""
    others = [other for other in rows if other["set"] != row["set"]]
    return sorted([*others, row], key=lambda one: order.index(one["set"]))
