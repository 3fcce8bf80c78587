"""The file of a study's results: a line of JSON for each trial, with what it was made with.

A line is written whole and at once. Whoever is killed leaves at most a torn last line, which the
next run takes away: its trial is run again.
"""

import json
import math
import os
import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import monro
from monro._jit import STAMP
from monro.data.registry import data_sets
from monro.errors import DataError
from monro.studies.study import Outcome, Trial

_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


class Journal:
    """Results on disk.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    """

    def __init__(self, path: Path):
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        self._torn: int | None = None  # where a torn line begins
        if path.exists():
            self._load(path.read_bytes())

    def _load(self, text: bytes) -> None:
        *lines, torn = text.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                trial = Trial(**entry["trial"])
                outcome = Outcome(trial, entry["result"], entry["provenance"])
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    "this is no line of results", self.path, number, "remove the line or the file"
                ) from None
            self.outcomes[trial.key] = outcome
        if torn:
            self._torn = len(text) - len(torn)

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        entry = outcome._asdict() | {"trial": outcome.trial._asdict()}
        line = json.dumps(plain(entry), ensure_ascii=False, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._torn is not None:
            os.truncate(self.path, self._torn)
            self._torn = None
        with self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self.outcomes[outcome.trial.key] = Outcome(**json.loads(line) | {"trial": outcome.trial})

    def of(self, trials: Iterable[Trial]) -> list[Outcome]:
        """Return the outcomes of these trials, in their order, as far as they were run."""
        keys = (trial.key for trial in trials)
        return [self.outcomes[key] for key in keys if key in self.outcomes]


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what is no number becomes null.

    Examples
    --------
    >>> plain({"a": np.float64(0.5), "b": [np.inf, np.int64(3)], "c": (True, None)})
    {'a': 0.5, 'b': [None, 3], 'c': [True, None]}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def made_with() -> dict[str, Any]:
    """Return versions and machine."""
    return {
        "monro": monro.__version__,
        "sources": STAMP[:12],
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def provenance(trial: Trial, seconds: float) -> dict[str, Any]:
    """Return what a result was made with: versions, machine, data and time."""
    return made_with() | {
        "seed": trial.settings.get("seed", 0),
        "data": _checksums(trial.data),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }


def _checksums(name: str) -> dict[str, str]:
    """Return the checksums of a data set's files, which reading them has compared."""
    if name not in data_sets():
        return {}
    found = data_sets()[name]
    return {file.path: file.sha256 for file in found.parts.values()}


@cache
def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        found = re.search(r"model name\s*:\s*(.+)", path.read_text())
        if found:
            return found[1]
    return platform.processor() or platform.machine()
