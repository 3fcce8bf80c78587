"""monro reproduce and monro report: reproductions of papers, and a page of their results."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table as RichTable

from monro import studies
from monro._jit import announce_compilation
from monro.cli.common import COMPILING, check_output, say
from monro.data.registry import how_to_get
from monro.progress import pipe_safe_console
from monro.report.content import Page, Section
from monro.report.page import write
from monro.studies import finding, runner
from monro.studies.journal import Journal
from monro.studies.study import Outcome, Study, chapter

_LEAD = (
    "Five papers on fitting linear models by stochastic approximation, reproduced with monro: "
    "their tables and plots, with the published figures beside ours. Every loss is exact, and "
    "every method is measured by the same code."
)


def reproduce(
    name: str, sets: Sequence[str], out: Path, *, quick: bool, jobs: int, quiet: bool
) -> None:
    """Run a study, or all studies, and print the findings."""
    names = studies.NAMES if name == "all" else (name,)
    unknown = [each for each in names if each not in studies.NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]}: there is no such study; all or {', '.join(studies.NAMES)}")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: this is a file; give the name of a folder")
    chosen = [studies.get(each) for each in names]
    known = dict.fromkeys(one for study in chosen for one in study.sets)
    runner.check_sets(sets, known, name)
    console = pipe_safe_console()
    for study in chosen:
        own = [one for one in sets if one in study.sets]
        if sets and not own:  # with "all", run those that have the data set
            continue
        for absent in _absent(study):
            if own and absent not in own:
                continue
            say(console, f"skipped, because its files are not here: {how_to_get(absent)}")
        with announce_compilation(lambda: say(pipe_safe_console(stderr=True), COMPILING)):
            outcomes = runner.run(study, out, quick=quick, sets=own, jobs=jobs, show=not quiet)
        _print_findings(study, outcomes)
        path = runner.journal_path(out, study, quick=quick)
        say(console, f"{path} has {len(outcomes)} results")
    say(console, f"monro report {out} writes a page of them")


def _absent(study: Study) -> list[str]:
    """Return the data sets that a study would run on if their files were here."""
    present = {trial.data for trial in study.trials(False)}
    return [name for name in study.sets if name not in present]


def _print_findings(study: Study, outcomes: Sequence[Outcome]) -> None:
    table = RichTable(title=f"{study.title}: {study.paper}", title_justify="left")
    table.add_column("")
    table.add_column("paper", justify="right")
    table.add_column("here", justify="right")
    table.add_column("verdict")
    found = study.findings(outcomes)
    for one in found:
        table.add_row(*one.cells)
    console = pipe_safe_console()
    console.print(table, markup=False)
    say(console, finding.count(found))


def report(folder: Path, out: Path) -> None:
    """Write a page of all results in a folder."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder; monro reproduce makes it")
    check_output(out)
    page = make_page(folder)
    if not page.chapters:
        raise ValueError(f"{folder}: no results of a study are here; run monro reproduce first")
    write(page, out)
    say(pipe_safe_console(), f"{out}: {', '.join(part.title for part in page.chapters)}")


def make_page(folder: Path) -> Page:
    """Return the page of the results in a folder; full runs take precedence over quick ones."""
    chapters, tables = [], []
    for name in studies.NAMES:
        study = studies.get(name)
        for quick in (False, True):
            path = runner.journal_path(folder, study, quick=quick)
            outcomes = Journal(path).of(study.trials(quick))
            if outcomes:
                chapters.append(chapter(study, outcomes, quick=quick))
                title = f"{study.title}{' (quick run)' if quick else ''}"
                tables.append(finding.table(title, study.findings(outcomes)))
                break
    summary = Section(
        "Summary",
        "A linear model scores each class by a weighted sum of features. The weights are found by "
        "visiting the examples one at a time and changing the weights a little at each: how far, "
        "in which direction, and at what cost is the subject of these papers. Below are their "
        "claims, each compared with the results by a rule, which also states the verdict; ± is "
        "half the range over seeds. The tables and plots of each study follow.",
        tables,
    )
    return Page("Five papers reproduced", _LEAD, summary, chapters)
