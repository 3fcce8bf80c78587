"""Timing, results on disk, and the tables in documents that are made from them."""

import importlib
import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monro import studies
from monro.report.content import Table
from monro.report.tables import markdown as report_table
from monro.studies import finding
from monro.studies.journal import Journal, environment, to_json_types
from monro.studies.runner import journal_path
from monro.studies.study import Outcome, Study, what_is_missing

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).parent.parent
README = _ROOT / "README.md"
# The documents with tables of results.
_TABLES = (
    "linear.md",
    "softmax.md",
    "untuned.md",
    "choice.md",
    "tagging.md",
    "scaling.md",
    "results.md",
    "measured.md",
)
STUDIES = _ROOT / "docs" / "results"  # full results of `monro reproduce`
DOCUMENTS = [README, *(_ROOT / "docs" / name for name in _TABLES)]


def median_seconds(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Time each run `repeats` times, in turns, so that all are exposed to the same noise."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def save(name: str, result: dict[str, Any], *, quick: bool) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}{'-quick' if quick else ''}.json"
    document = {"benchmark": name, "machine": environment(), **result}
    path.write_text(json.dumps(to_json_types(document), indent=1) + "\n")
    return path


def load(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; the first column is left-aligned, the others right-aligned."""
    return report_table(Table("", header, rows))


def tables(name: str, result: dict[str, Any]) -> str:
    text: str = importlib.import_module(f"benchmarks.{name}").table(result)
    return text


def study(name: str) -> str:
    """Return the findings and all tables of a study; for "verdicts", counts of all studies."""
    if name == "verdicts":
        return _verdicts()
    found, outcomes = _results_of(name)
    findings = found.findings(outcomes)
    parts = [
        found.lead,
        *(["\n".join(f"- {fact}" for fact in found.setup)] if found.setup else []),
        " ".join([finding.count(findings), *what_is_missing(found, outcomes, quick=False)]),
        report_table(finding.table("Findings", findings)),
    ]
    for section in found.sections(outcomes):
        tables = [item for item in section.items if isinstance(item, Table)]
        if tables:
            parts.append(f"### {section.title}")
        parts += [f"{table.title}:\n\n{report_table(table)}" for table in tables]
        parts += [table.note for table in tables if table.note]
    return "\n\n".join(parts)


def _results_of(name: str) -> tuple[Study, list[Outcome]]:
    """Return a study and its full results."""
    found = studies.get(name)
    return found, Journal(journal_path(STUDIES, found, quick=False)).of(found.trials(False))


def _verdicts() -> str:
    rows = []
    for name in studies.NAMES:
        found, outcomes = _results_of(name)
        verdicts = [one.verdict for one in found.findings(outcomes)]
        rows.append([name, *(str(verdicts.count(verdict)) for verdict in finding.VERDICTS)])
    return markdown(["study", *finding.VERDICTS], rows)


_BLOCK = re.compile(r"(<!-- (benchmark|study): ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(document: Path) -> str:
    """Return a document with all tables of benchmarks and studies made from the results."""

    def made(kind: str, name: str) -> str:
        return study(name) if kind == "study" else tables(name, load(name))

    return _BLOCK.sub(
        lambda match: f"{match[1]}{made(match[2], match[3])}\n{match[4]}", document.read_text()
    )


def render() -> None:
    for document in DOCUMENTS:
        document.write_text(rendered(document))
