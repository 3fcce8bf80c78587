"""Timing, results on disk, and the tables made from them."""

import importlib
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).parent.parent
README = _ROOT / "README.md"
# Where tables of results stand.
_TABLES = ("softmax.md", "untuned.md", "choice.md", "tagging.md")
DOCUMENTS = [README, *(_ROOT / "docs" / name for name in _TABLES)]


def median_seconds(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Time each run `repeats` times, taking turns so that all meet the same noise."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def machine() -> dict[str, Any]:
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        model = found[1] if found else model
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def save(name: str, result: dict[str, Any], *, quick: bool) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}{'-quick' if quick else ''}.json"
    document = {"benchmark": name, "machine": machine(), **result}
    path.write_text(json.dumps(document, indent=1, default=_plain) + "\n")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(type(value))


def load(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, the first column to the left, the others to the right."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])


def tables(name: str, result: dict[str, Any]) -> str:
    text: str = importlib.import_module(f"benchmarks.{name}").table(result)
    return text


_BLOCK = re.compile(r"(<!-- benchmark: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(document: Path) -> str:
    """Return a document with every benchmark's table made anew from its results."""
    return _BLOCK.sub(
        lambda match: f"{match[1]}{tables(match[2], load(match[2]))}\n{match[3]}",
        document.read_text(),
    )


def render() -> None:
    for document in DOCUMENTS:
        document.write_text(rendered(document))
