"""Quick runs of every study: all of it works, and partial results can be shown at any time."""

import html
import os
import shutil

import numpy as np
import pytest

from monro import studies
from monro.cli.studies import make_page
from monro.report.content import Chapter, Page, Plot, Section, Table
from monro.report.page import render
from monro.studies import finding, runner
from monro.studies.study import chapter

pytestmark = [
    pytest.mark.studies,
    pytest.mark.skipif("MONRO_DATA" not in os.environ, reason="needs the data sets of $MONRO_DATA"),
]
each_study = pytest.mark.parametrize("name", studies.NAMES)


def items_of(sections):
    return [item for section in sections for item in section.items]


@each_study
def test_every_trial_has_an_outcome_and_is_not_run_again(name, quick_results):
    folder, outcomes = quick_results(name)
    study = studies.get(name)
    assert [outcome.trial for outcome in outcomes] == study.trials(True)
    assert all(outcome.result for outcome in outcomes)
    for outcome in outcomes:
        curves = [outcome.result.get(x) for x in ("epochs", "seconds", "log_loss", "cost")]
        assert len({len(curve) for curve in curves if isinstance(curve, list)}) <= 1, outcome.trial

    def fail(trial, tick):
        raise AssertionError(f"{trial} was run again")

    assert runner.run(study._replace(run=fail), folder, quick=True, show=False) == outcomes


@each_study
def test_the_page_has_all_tables_and_plots(name, quick_results, tmp_path):
    folder, outcomes = quick_results(name)
    study = studies.get(name)
    shutil.copy(runner.journal_path(folder, study, quick=True), tmp_path)
    page = make_page(tmp_path)
    text = html.unescape(render(page))

    (only,) = page.chapters
    assert only == chapter(study, outcomes, quick=True)
    items = items_of(study.sections(outcomes))
    assert {type(item) for item in items} == {Table, Plot}
    for item in items:
        assert item.title in text
        if isinstance(item, Table):
            assert item.rows, item.title
        else:
            assert any(y is not None for curve in item.curves for y in curve.y), item.title
    for section in only.sections:
        titles = [item.title for item in section.items]
        assert len(set(titles)) == len(titles)
    findings = study.findings(outcomes)
    assert findings
    assert all(isinstance(cell, str) for one in findings for cell in one.cells)
    assert all(one.claim and one.here for one in findings)
    assert {one.verdict for one in findings} <= {*finding.VERDICTS, finding.MEASURED}
    title = f"{study.title} (quick run)"
    assert page.summary.items == [finding.table(title, findings)]
    assert "trials have not been run" not in only.lead


@each_study
def test_partial_results_can_be_shown(name, quick_results):
    """Results are shown while a study runs, and on some data sets only."""
    _, outcomes = quick_results(name)
    study = studies.get(name)
    rng = np.random.default_rng(0)
    some = [[outcome] for outcome in outcomes]
    some += [outcomes[:k] for k in range(len(outcomes))]
    for share in rng.uniform(0.05, 0.95, 20):
        some.append([outcome for outcome in outcomes if rng.random() < share])
    for part in some:
        shown = Chapter(name, study.title, "", study.sections(part), {})
        table = finding.table("Found", study.findings(part))
        text = render(Page("Part", "", Section("Found", "", [table]), [shown]))
        assert text.count("<caption>") == 1 + sum(
            isinstance(item, Table) for item in items_of(shown.sections)
        )
