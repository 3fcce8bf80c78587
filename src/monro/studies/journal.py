"""The file of a study's results: one line of JSON per trial, with its provenance.

Each line is written at once. A run that is killed leaves at most an incomplete last line, which the
next run truncates: its trial is run again.
"""

import hashlib
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
from monro._cache import source_hash
from monro.data.registry import File, data_sets, locate
from monro.errors import DataError
from monro.studies.study import Outcome, Trial

_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


class Journal:
    """The results of a study on disk.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    """

    def __init__(self, path: Path):
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        self._incomplete: int | None = None  # the offset of an incomplete last line
        if path.exists():
            self._load(path.read_bytes())

    def _load(self, text: bytes) -> None:
        *lines, rest = text.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                trial = Trial(**entry["trial"])
                outcome = Outcome(trial, entry["result"], entry["provenance"])
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    "this is not a line of results",
                    self.path,
                    number,
                    "remove the line or the file",
                ) from None
            self.outcomes[trial.key] = outcome
        if rest:
            self._incomplete = len(text) - len(rest)

    def add(self, outcome: Outcome) -> None:
        """Append an outcome to the file."""
        entry = outcome._asdict() | {"trial": outcome.trial._asdict()}
        line = json.dumps(to_json_types(entry), ensure_ascii=False, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._incomplete is not None:
            os.truncate(self.path, self._incomplete)
            self._incomplete = None
        with self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self.outcomes[outcome.trial.key] = Outcome(**json.loads(line) | {"trial": outcome.trial})

    def of(self, trials: Iterable[Trial]) -> list[Outcome]:
        """Return the outcomes of those of the trials that were run, in the order of the trials."""
        keys = (trial.key for trial in trials)
        return [self.outcomes[key] for key in keys if key in self.outcomes]


def to_json_types(value: Any) -> Any:
    """Return a value with types that JSON has; NaN and infinities become None (null).

    Examples
    --------
    >>> to_json_types({"a": np.float64(0.5), "b": [np.inf, np.int64(3)], "c": (True, None)})
    {'a': 0.5, 'b': [None, 3], 'c': [True, None]}
    """
    if isinstance(value, dict):
        return {name: to_json_types(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return to_json_types(value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_json_types(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def environment() -> dict[str, Any]:
    """Return the versions of packages and the machine."""
    return {
        "monro": monro.__version__,
        "sources": source_hash()[:12],
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def provenance(trial: Trial, seconds: float, *, alone: bool = True) -> dict[str, Any]:
    """Return the provenance of a result: versions, machine, seed, data and time.

    `alone` says whether no other trial ran at the same time; otherwise seconds mean little.
    """
    return environment() | {
        "seed": trial.settings.get("seed", 0),
        "data": _checksums(trial.data),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "alone": alone,
    }


def _checksums(name: str) -> dict[str, str]:
    """Return the checksums of a data set's files; they were verified when the files were read."""
    if name not in data_sets():
        return {}
    files = data_sets()[name].parts.values()
    found = {file.path: file.sha256 or _checksum(file) for file in files}
    return {path: digest for path, digest in found.items() if digest}


@cache
def _checksum(file: File) -> str | None:
    """Return the checksum of the file that is here, for one without a registered checksum."""
    path = locate(file)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        found = re.search(r"model name\s*:\s*(.+)", path.read_text())
        if found:
            return found[1]
    return platform.processor() or platform.machine()
