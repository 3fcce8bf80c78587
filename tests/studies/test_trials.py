"""The trials of the studies, and tables with the published figures next to ours."""

import json
from collections import Counter

import pytest

from monro import studies
from monro.report.content import Chapter, Page, Section, Table
from monro.report.page import render
from monro.studies import augment_reduce, implicit_sgd, sparse_averaging, unbiased_softmax
from monro.studies.study import Outcome, Trial

ALL = [studies.get(name) for name in studies.NAMES]
each_study = pytest.mark.parametrize("study", ALL, ids=studies.NAMES)


@each_study
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_a_key_identifies_a_trial(study, quick):
    trials = study.trials(quick)
    assert trials
    assert set(Counter(trial.key for trial in trials).values()) == {1}
    for trial in trials:
        again = Trial(*json.loads(trial.key))
        assert again == trial
        assert again.key == trial.key
        assert trial.data in (*study.sets, "")
        assert trial.part in str(trial)
    assert study.trials(quick) == trials


@each_study
def test_a_quick_run_is_smaller_and_has_all_parts(study):
    quick, full = study.trials(True), study.trials(False)
    assert len(quick) < len(full)
    assert {trial.part for trial in quick} == {trial.part for trial in full}
    assert study.name in studies.NAMES
    assert {trial.data for trial in full} - {""} == set(study.sets)


@each_study
def test_without_results_there_are_no_rows_and_plots(study):
    assert study.findings([]) == []
    for section in study.sections([]):
        assert all(isinstance(item, Table) and not item.rows for item in section.items)


# ------------------------------------------------------------------------------- published settings


def test_rates_are_those_of_paper_000():
    expected = {
        ("mnist", "OVE"): 10, ("mnist", "vanilla"): 0.01, ("mnist", "U-max"): 10,
        ("mnist", "Implicit"): 0.1, ("bibtex", "IS"): 100, ("bibtex", "U-max"): 0.1,
        ("bibtex", "Implicit"): 10, ("delicious", "OVE"): 10, ("delicious", "NCE"): 1000,
        ("delicious", "vanilla"): 0.001, ("delicious", "U-max"): 0.01,
        ("delicious", "Implicit"): 0.01,
    }  # fmt: skip
    for (name, method), rate in expected.items():
        assert unbiased_softmax.rate_of(name, method) == rate
    assert unbiased_softmax.rate_of("bibtex", unbiased_softmax.STEPS_3) == 10
    assert unbiased_softmax.rate_of("bibtex", "SCO") == 0.01


def test_three_steps_an_epoch_are_three_epochs_that_decay_as_one():
    trial = Trial("table 3", "bibtex", {"method": "Implicit", "rate": 10.0, "epochs": 50})
    again = trial._replace(settings=trial.settings | {"method": unbiased_softmax.STEPS_3})
    once, thrice = map(unbiased_softmax.settings_of, (trial, again))
    assert once["max_epochs"] == 50
    assert thrice["max_epochs"] == 150
    assert thrice["epoch_decay"] ** 3 == pytest.approx(once["epoch_decay"])
    names = set(once) - {"max_epochs", "epoch_decay"}
    assert {name: once[name] for name in names} == {name: thrice[name] for name in names}


def test_augment_and_reduce_takes_as_many_steps_as_the_paper():
    """Table 1: 35,000 batches of 500 of 60,000 rows; 5,000 of 488 of 4,880; 45,000 of 541."""
    epochs = {
        trial.data: trial.settings["epochs"]
        for trial in augment_reduce.trials(False)
        if trial.part == "table 3"
    }
    assert epochs["mnist"] * 60_000 == pytest.approx(35_000 * 500, rel=0.01)
    assert epochs["bibtex"] * 4_880 == pytest.approx(5_000 * 488, rel=0.01)
    assert epochs["omniglot"] * 25_968 == pytest.approx(45_000 * 541, rel=0.01)


# ------------------------------------------------------------------------------------------- tables


def made(part, name, result, **settings):
    return Outcome(Trial(part, name, settings), result, {})


def curve(loss, rate=0.1):
    x = {"epochs": [25, 50], "seconds": [1.0, 2.0], "error": [0.5, 0.25]}
    return x | {"log_loss": [2 * loss, loss], "diverged": False, "rate": rate}


def rows_of(study, outcomes, title):
    """Return the rows of the table with the given title, by their names."""
    sections = study.sections(outcomes)
    tables = [item for section in sections for item in section.items if isinstance(item, Table)]
    (table,) = (table for table in tables if table.title == title)
    return {row[0]: row[1:] for row in table.rows}


def rendered(study, outcomes):
    chapter = Chapter("study", "", "", study.sections(outcomes), {})
    return render(Page("", "", Section("In short", "", []), [chapter]))


def test_paper_000_beside_ours():
    study = unbiased_softmax.STUDY
    diverged = {"epochs": [], "seconds": [], "diverged": True, "rate": 0.01}
    outcomes = [
        made("table 1", "bibtex", {"classes": 147, "features": 1836, "examples": 4880}),
        made("table 2", "bibtex", curve(0.5), method="OVE", rate=0.001),
        made("table 2", "bibtex", curve(0.4), method="OVE", rate=10.0),
        made("table 2", "bibtex", diverged, method="OVE", rate=1000.0),
        made("table 3", "bibtex", curve(4.0), method="U-max", rate=0.1),
        made("table 3", "bibtex", curve(0.5), method=unbiased_softmax.STEPS_3, rate=10.0),
        made("table 3", "bibtex", diverged, method="vanilla", rate=0.01),
    ]
    sizes = rows_of(study, outcomes, "Sizes")
    assert sizes["Bibtex"] == ["147", "147", "1,836", "1,836", "4,880", "4,880"]
    best = rows_of(study, outcomes, "Best rates")
    assert best["Bibtex"][:2] == ["10 (100)", "– (100)"]
    after = rows_of(study, outcomes, "Bibtex after training")
    assert after["U-max"] == ["0.1", "4.0000", "1.4144", "8.00", "9.77", "25.00", "2.00"]
    assert after["vanilla"] == ["0.01", "diverged", "–", "–", "15.18", "–", "–"]
    assert after[unbiased_softmax.STEPS_3][2:5] == ["0.1451", "1.00", "1.00"]
    assert [one[:3] for one in study.findings(outcomes)] == [
        ("Bibtex: train log-loss of U-max after 50 epochs", "1.4144", "4.0000")
    ]
    assert "Bibtex: log-loss while training" in rendered(study, outcomes)


def test_paper_001_beside_ours():
    study = augment_reduce.STUDY
    sizes = {"train": 4880, "test": 2381, "features": 1836, "classes": 148, "paper_test": 2413}
    fit = {
        "seconds_per_epoch": 0.05, "epochs": [1], "seconds": [1.0], "bound": [-2.0],
        "log_likelihood": -3.0, "importance_sampled": -3.1, "accuracy": 0.36,
        "train_log_likelihood": -1.5,
    }  # fmt: skip
    synthetic = {
        "total_bound": -2.6e6, "log_likelihood": -2.6e6, "maximum": -2.5e6, "mean_error": 3e-6
    }  # fmt: skip
    outcomes = [
        made("table 1", "bibtex", sizes),
        *(
            made("table 3", "bibtex", fit, method=method, epochs=500)
            for method in ("OVE", "softmax", "probit", "logistic, as printed", "exact softmax")
        ),
        made("table 2", "bibtex", {"seconds_per_epoch": 0.05}, method="probit"),
        *(made("section 4.1", "", synthetic, method=method) for method in ("OVE", "softmax")),
    ]
    data = rows_of(study, outcomes, "Data")
    assert data["Bibtex"] == ["4,880", "2,381 (2,413)", "1,836", "148", "488", "20", "5,000"]
    test = rows_of(study, outcomes, "Test rows")
    for method, likelihood, accuracy in (
        ("OVE", "-3.300", "35.2"),
        ("softmax", "-3.036", "36.1"),
        ("probit", "-4.184", "34.6"),
        ("logistic, as printed", "-3.151", "35.3"),
        ("exact softmax", "-3.188", "36.1"),
    ):
        row = test[f"Bibtex, {method}"]
        assert row == ["-3.000", "-3.100", likelihood, "36.0", accuracy, "25.0"]
    times = rows_of(study, outcomes, "Median seconds an epoch")
    assert times["Bibtex"] == ["–", "0.181", "–", "–", "0.188", "–", "0.050", "0.244", "4.9",
                               "–", "0.246", "–"]  # fmt: skip
    found = rows_of(study, outcomes, "No features")
    assert found["OVE"][1::4] == ["-1.4e+09", "3.65e-06"]
    assert found["A&R, softmax"][1::4] == ["-2.62e+06", "3.00e-06"]
    assert ("Bibtex, A&R softmax: test log-likelihood and accuracy", "-3.036, 36.1 %",
            "-3.000, 36.0 %") in [one[:3] for one in study.findings(outcomes)]  # fmt: skip
    assert "bound on the training likelihood" in rendered(study, outcomes)


def alone(part, name, result, **settings):
    return Outcome(Trial(part, name, settings | {"seed": 0}), result, {"alone": True})


def test_paper_003_beside_ours():
    study = implicit_sgd.STUDY
    fit = {"seconds": 0.1, "error": 0.0525, "cost": 0.15, "rate": 4.0}
    nothing = dict.fromkeys(fit)
    size = {"train_rows": 20_000, "values": 1_000_000}
    given = {"tuned": False, "epochs": 10}
    robust = {"grid": [0.01, 1.0, 1e5], "error": [0.2, 0.1, 0.5], "auto": None}
    outcomes = [
        alone("table", "rcv1", fit | size, loss="hinge", solver=implicit_sgd.PRINTED, **given),
        alone("table", "rcv1", fit | size, loss="log", solver="sgd", **given),
        alone("table", "covtype", nothing | size, loss="log", solver="asgd", **given),
        alone("robustness", "rcv1", robust, loss="log", solver="sgd", vary="rate", intercept=False),
    ]
    hinge = rows_of(study, outcomes, "RCV1-CCAT, hinge loss")
    assert hinge == {
        "Implicit, as printed": [
            "4", "0.100", "0.71", "2", "1.10", "100", "5.25", "5.18", "0.150", "0.144"
        ]
    }  # fmt: skip
    log = rows_of(study, outcomes, "RCV1-CCAT, log loss")
    assert log["SGD"][1:6] == ["0.100", "3.47", "2", "0.23", "100"]
    other = rows_of(study, outcomes, "covtype, log loss")
    assert other["ASGD"] == ["diverged", "–", "3.50", "–", "–", "–", "diverged", "21.90",
                             "diverged", "0.474"]  # fmt: skip
    worst = rows_of(study, outcomes, "RCV1-CCAT")
    # Down as well as up; 1e5 times the best is too far.
    assert worst["sgd, log, no bias"][-4:] == ["2.00", "2.00", "1.00", "1.00"]
    assert "Learning rate, log loss" in rendered(study, outcomes)
    shared = [each._replace(provenance={"alone": False}) for each in outcomes]
    assert rows_of(study, shared, "RCV1-CCAT, log loss")["SGD"][1] == "–"


def test_paper_003_states_what_came_out():
    """The same outcomes with other figures have other verdicts."""

    def outcomes(implicit, sgd, asgd):
        for solver, value in ((implicit_sgd.PRINTED, implicit), ("sgd", sgd), ("asgd", asgd)):
            fit = {"seconds": value, "error": value, "cost": value, "rate": 1.0}
            given = {"tuned": False, "epochs": 10}
            yield alone("table", "rcv1", fit, loss="hinge", solver=solver, **given)
            for vary in ("alpha", "decay", "rate"):
                robust = {"grid": [1e-5, 1e-4], "error": [0.1, 0.1 + value], "auto": 0.1}
                settings = {"loss": "hinge", "solver": solver, "vary": vary, "intercept": False}
                yield alone("robustness", "rcv1", robust, **settings)

    def verdicts(*values):
        found = implicit_sgd.STUDY.findings(list(outcomes(*values)))
        return {one.claim: one.verdict for one in found if one.verdict != "–"}

    true, false = verdicts(0.001, 0.003, 0.002), verdicts(0.3, 0.1, 0.2)
    compared = [claim for claim in true if "within 10 %" not in claim and "ASGD below" not in claim]
    assert len(compared) == 6 + 3 + 1  # time, error and cost; λ and decay; η0
    assert {true[claim] for claim in compared} == {"reproduced"}
    assert {false[claim] for claim in compared} == {"not reproduced"}


def test_paper_002_states_what_came_out():
    """The same outcomes with other figures have other verdicts."""
    study = sparse_averaging.STUDY

    def outcomes(powers, mean, moved):
        alone = {"alone": True}
        for title, power in powers.items():
            for n in (1_000, 10_000):
                result = {"per_step": 1e-9 * n**power, "end": 0.0}
                settings = {"algorithm": title, "features": n, "nonzeros": 50, "seed": 0}
                yield Outcome(Trial("cost", "", settings), result, alone)
        for title, shift, loss in (("SGD", 0.0, 0.5), ("ASGD", 0.0, mean), ("CASGD", 0.0, 0.5),
                                   ("CASGD", 10.0, moved)):  # fmt: skip
            ends = {"steps": [9], "loss": [loss], "objective": [loss], "error": [0.2]}
            draws = {"draws": sparse_averaging.DRAWS[0], "seed": 0}
            yield made("fit", "covtype", ends, algorithm=title, shift=shift, **draws)

    true = list(outcomes({"ASGD": 0.1, "ASGD, dense": 1.0}, 0.4, 0.5))
    false = list(outcomes({"ASGD": 1.0, "ASGD, dense": 0.1}, 0.6, 0.51))
    verdicts = [[one.verdict for one in study.findings(each)] for each in (true, false)]
    assert [v for v in verdicts[0] if v != "–"] == ["reproduced"] * 4
    assert [v for v in verdicts[1] if v != "–"] == ["not reproduced"] * 4
    assert rows_of(study, true, "Microseconds a step, 50 nonzeros")["ASGD"] == ["0.002", "0.00251"]
    shared = [each._replace(provenance={"alone": False}) for each in true]
    assert rows_of(study, shared, "Microseconds a step, 50 nonzeros")["ASGD"] == ["–", "–"]
    assert all(study.timed(each.trial) is (each.trial.part == "cost") for each in true)
