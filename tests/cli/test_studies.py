"""monro reproduce and monro report: errors, and a page of hand-written results."""

import json
import re

import pytest

from monro import studies
from monro.studies import runner
from tests.cli.helpers import failure, invoke, output

STUDY = studies.get("implicit-sgd")
SIZE = {"train_rows": 14_401, "values": 1_000_000}


def line(trial, result):
    made = {
        "numpy": "2.0",
        "data": {"rcv1/train.gz": "ab" * 32},
        "time": "2024-01-01",
        "seconds": 2,
        "alone": True,
    }
    entry = {"trial": trial._asdict(), "result": result, "provenance": made}
    return json.dumps(entry) + "\n"


@pytest.fixture
def results(tmp_path):
    """Hand-written results of one table of a paper."""
    folder = tmp_path / "results"
    folder.mkdir()
    trials = [trial for trial in STUDY.trials(False) if trial.part == "table"]
    with runner.journal_path(folder, STUDY, quick=False).open("w") as file:
        for k, trial in enumerate(trials):
            result = {"seconds": 1.5, "error": 0.0625 + k / 1000, "cost": 0.5, "rate": 4.0}
            file.write(line(trial, result | SIZE))
    return folder


# ------------------------------------------------------------------------------------------- report


def test_a_page_is_made_of_results(results, tmp_path):
    text = output("report", results, "--out", tmp_path / "page.html")
    assert text == f"{tmp_path / 'page.html'}: Implicit SGD\n"
    page = (tmp_path / "page.html").read_text()
    for text in ("Five papers reproduced", "RCV1-CCAT, hinge loss", "covtype, log loss", "6.25"):
        assert text in page
    assert f"sha256 {'ab' * 32}" in page
    trials = STUDY.trials(False)
    missing = sum(trial.part != "table" for trial in trials)
    assert f"{missing} of {len(trials)} trials have not been run yet" in page


def test_full_results_take_precedence_over_quick_ones(results, tmp_path):
    quick = STUDY.trials(True)[0]
    fit = {"seconds": 1.0, "error": 0.125, "cost": 0.5, "rate": 4.0} | SIZE
    path = runner.journal_path(results, STUDY, quick=True)
    path.write_text(line(quick, fit))
    output("report", results, "--out", tmp_path / "page.html")
    assert "quick run" not in (tmp_path / "page.html").read_text()

    runner.journal_path(results, STUDY, quick=False).unlink()
    output("report", results, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "This was a quick run" in page
    assert "12.50" in page


def test_a_report_changes_no_result(results, tmp_path):
    """A study may be running, so that its last line may be incomplete."""
    path = runner.journal_path(results, STUDY, quick=False)
    incomplete = path.read_bytes()[:-40]
    path.write_bytes(incomplete)
    output("report", results, "--out", tmp_path / "page.html")
    assert path.read_bytes() == incomplete
    total = len(STUDY.trials(False))
    assert f"of {total} trials have not been run yet" in (tmp_path / "page.html").read_text()


def test_a_damaged_line_is_named(results, tmp_path):
    path = runner.journal_path(results, STUDY, quick=False)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "not JSON\n", *lines[4:]]))
    text = failure("report", results, "--out", tmp_path / "page.html")
    assert text == f"{path}, line 4: this is not a line of results; remove the line or the file"
    assert not (tmp_path / "page.html").exists()
    assert "line 4" in failure("reproduce", STUDY.name, "--out", results)


def test_errors_of_report(results, tmp_path):
    (tmp_path / "empty").mkdir()
    page = tmp_path / "page.html"
    text = failure("report", tmp_path / "empty", "--out", page)
    assert text.endswith("empty: no results of a study are here; run monro reproduce first")
    text = failure("report", tmp_path / "nothing", "--out", page)
    assert text.endswith("nothing: there is no such folder; monro reproduce makes it")
    text = failure("report", results, "--out", tmp_path / "empty")
    assert text.endswith("empty: this is a folder; give the name of a file")
    text = failure("report", results, "--out", tmp_path / "no" / "page.html")
    assert f"there is no folder {tmp_path / 'no'}" in text
    assert not page.exists()


# ---------------------------------------------------------------------------------------- reproduce


def test_errors_of_reproduce(tmp_path):
    text = failure("reproduce", "sgd-nq", "--out", tmp_path)
    assert text == f"sgd-nq: there is no such study; all or {', '.join(studies.NAMES)}"
    text = failure("reproduce", "implicit-sgd", "--dataset", "mnist", "--out", tmp_path)
    assert text == "--dataset mnist: implicit-sgd has rcv1, covtype"
    text = failure("reproduce", "all", "--dataset", "minst", "--out", tmp_path)
    assert text.startswith("--dataset minst: all has mnist, ")
    (tmp_path / "file").touch()
    text = failure("reproduce", "sgd-qn", "--out", tmp_path / "file")
    assert text.endswith("file: this is a file; give the name of a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def ran(monkeypatch):
    """Replace the runner: record the studies and their arguments, and run nothing."""
    calls = []

    def run(study, folder, *, quick, sets, jobs, show):
        calls.append((study.name, list(sets), quick, jobs, show))
        return []

    monkeypatch.setattr(runner, "run", run)
    return calls


def test_all_studies_that_have_a_data_set(ran, tmp_path):
    sets = ("--dataset", "rcv1", "--dataset", "bibtex")
    text = output("reproduce", "all", *sets, "--quick", "--quiet", "--out", tmp_path)
    assert ran == [
        ("unbiased-softmax", ["bibtex"], True, 1, False),
        ("augment-reduce", ["bibtex"], True, 1, False),
        ("implicit-sgd", ["rcv1"], True, 1, False),
        ("sgd-qn", ["rcv1"], True, 1, False),
    ]
    assert text.endswith(f"monro report {tmp_path} writes a page of them\n")
    ran.clear()
    output("reproduce", "all", "--jobs", "3", "--out", tmp_path)
    assert ran == [(name, [], False, 3, True) for name in studies.NAMES]


def test_findings_are_printed(results):
    """The journal has results of all trials, so nothing is run."""
    path = runner.journal_path(results, STUDY, quick=False)
    robust = {"grid": [1e-5, 1.0, 10.0], "error": [0.25, 0.25, 0.5], "auto": 0.25}
    with path.open("a") as file:
        for trial in STUDY.trials(False):
            if trial.part == "robustness":
                file.write(line(trial, robust))
    result = invoke("reproduce", STUDY.name, "--out", results, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    total = len(STUDY.trials(False))
    assert f"implicit-sgd: {total} of {total} trials were run before" in result.stderr
    assert "5.184" in result.stdout  # the error that the paper has
    assert "not reproduced" in result.stdout
    assert re.search(r"^Of \d+ claims \d+ are reproduced", result.stdout, re.MULTILINE)
    assert f"{path} has {total} results" in result.stdout
