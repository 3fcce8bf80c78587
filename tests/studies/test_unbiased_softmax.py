"""The study of paper 000: its trials, the tuning of rates, and verdicts that follow the results."""

import gzip
from collections import Counter

import numpy as np
import pytest

from monro import SoftmaxClassifier
from monro.studies import data
from monro.studies import unbiased_softmax_runs as runs
from monro.studies.finding import MEASURED, NOT_REPRODUCED, REPRODUCED, UNCLEAR
from monro.studies.study import SEEDS, Outcome, Trial
from monro.studies.unbiased_softmax import STUDY
from monro.studies.unbiased_softmax_findings import at_best_rate, losses
from monro.studies.unbiased_softmax_published import (
    AUTHORS,
    DIFFERENCE,
    LARGE,
    LOG_K,
    NCE_1,
    OURS,
    RAMAN,
    STEPS_3,
    TABLE_2,
    TABLE_3,
    published_rate,
)  # fmt: skip
from tests.cli.helpers import output
from tests.marks import thorough
from tests.softmax.data import make_data
from tests.studies.test_trials import rendered, rows_of

PAPERS, TUNED = runs.PAPERS, runs.TUNED


def table_3(method, loss, rate=PAPERS, seed=0, name="bibtex", alone=False, **more):
    settings = {"method": method, "rate": rate, "seed": seed}
    result = {
        "epochs": [5, 50], "seconds": [1.0, 2.0], "log_loss": [2 * loss, loss],
        "error": [0.5, 0.25], "diverged": False, "rate": 0.1,
    }  # fmt: skip
    return Outcome(Trial("table 3", name, settings), result | more, {"alone": alone})


def verdict(outcomes, *words):
    """The verdict of the only claim that has these words."""
    (found,) = (f for f in STUDY.findings(outcomes) if all(word in f.claim for word in words))
    return found.verdict


# -------------------------------------------------------------------------------- published figures


def test_figures_are_those_of_the_paper():
    assert published_rate("wiki10", "OVE") == 0.01
    assert published_rate("amazoncat", "vanilla") == 1e-5
    assert published_rate("bibtex", STEPS_3) == published_rate("bibtex", "Implicit") == 10
    assert published_rate("delicious", LOG_K) == published_rate("delicious", "U-max") == 0.01
    assert published_rate("bibtex", "SCO") is published_rate("wikitext2", "OVE") is None
    averages = {"OVE": 7.62, "NCE": 7.64, "IS": 8.17, "vanilla": 4.29, "U-max": 2.71}
    for method, average in averages.items():  # the last row of Table 3
        assert np.mean([row[method] for row in TABLE_3.values()]) == pytest.approx(
            average, abs=6e-3
        )
    assert set(AUTHORS) == set(TABLE_2) == set(TABLE_3)
    for name, loss in AUTHORS.items():  # U-max was not run again, Implicit was
        assert loss["U-max"] / loss[STEPS_3] == pytest.approx(TABLE_3[name]["U-max"], abs=0.04)


# ------------------------------------------------------------------------------------------- trials


def test_everything_that_is_compared_has_three_seeds():
    compared = [trial for trial in STUDY.trials(False) if trial.part != "table 1"]
    without = [t._replace(settings=t.settings | {"seed": None}).key for t in compared]
    assert set(Counter(without).values()) == {len(SEEDS)}
    assert {trial.settings["seed"] for trial in compared} == set(SEEDS)
    assert {trial.settings["seed"] for trial in compared if STUDY.timed(trial)} == {0}


@pytest.mark.parametrize("seed", SEEDS)
def test_settings_of_the_methods(seed):
    def settings(method, **more):
        have = {"method": method, "epochs": 50, "seed": seed} | more
        return runs.settings_of(Trial("table 3", "bibtex", have), 10.0)

    once, thrice = settings("Implicit"), settings(STEPS_3)
    assert once["random_state"] == settings(OURS)["random_state"] == seed
    assert (once["max_epochs"], thrice["max_epochs"]) == (50, 150)
    assert thrice["epoch_decay"] ** 3 == pytest.approx(once["epoch_decay"])
    assert {k for k in once if once[k] != thrice[k]} == {"max_epochs", "epoch_decay"}
    umax, log_k = settings("U-max"), settings(LOG_K)
    assert {k for k in umax if umax[k] != log_k[k]} == {"init"}
    assert settings(NCE_1)["examples_per_step"] == settings(NCE_1)["classes_per_step"] == 1
    assert settings("U-max", sum=RAMAN)["formulation"] == "raman"
    assert settings("Implicit", n=5)["examples_per_step"] == 5


@thorough
@pytest.mark.parametrize("method", ["OVE", "SCO"])
def test_the_tuned_rate_is_the_best_of_the_grid_on_the_seeds_tenth(method):
    X, y = make_data(n=400)
    found = {}
    for seed in (0, 1):
        have = {"method": method, "epochs": 3, "seed": seed, "grid": [0.01, 1.0, 100.0]}
        trial = Trial("table 3", "bibtex", have)
        rate, tried = runs.tune(trial, X, y)
        rows = np.sort(np.random.default_rng(seed).choice(400, 40, replace=False))
        expected = {}
        for each in have["grid"]:
            model = SoftmaxClassifier(**runs.settings_of(trial, each)).fit(X[rows], y[rows])
            expected[f"{each:g}"] = pytest.approx(model.log_loss(X[rows], y[rows]))
        assert tried == expected
        assert f"{rate:g}" == min(tried, key=tried.get)
        found[seed] = tried
    assert found[0] != found[1]


@thorough
def test_where_the_whole_grid_overflows_the_largest_rate_that_does_not_is_taken():
    X, y = make_data(n=400)
    have = {"method": "vanilla", "epochs": 30, "seed": 0, "grid": [10.0, 100.0]}
    rate, tried = runs.tune(Trial("table 3", "bibtex", have), X, y)
    assert tried.pop(f"{rate:g}") is not None
    assert tried
    assert set(tried.values()) == {None}
    assert rate < min(float(text) for text in tried)


@thorough
def test_a_tuned_rate_that_is_the_published_one_is_not_fitted_again(monkeypatch):
    X, y = make_data(n=300)
    monkeypatch.setattr(runs, "load", lambda name: (X, y))
    have = {"method": "Implicit", "rate": TUNED, "epochs": 2, "points": 2, "seed": 0}
    for grid in ([10.0], [0.1]):
        result = runs.run(Trial("table 3", "bibtex", have | {"grid": grid}), lambda share: None)
        assert result["rate"] == grid[0]
        assert ("epochs" in result) == (grid != [10.0])


# ------------------------------------------------------------------------------ sets without files


@pytest.fixture
def eurlex(tmp_path, monkeypatch):
    """The training file of Eurlex, much smaller."""
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(5)},{5 + k % 7} {k % 20}:1 {20 + k % 9}:0.5" for k in range(60)]
    path = tmp_path / "eurlex" / "train.xc.txt.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress("\n".join(["60 5000 3993", *rows, ""]).encode()))
    monkeypatch.setenv("MONRO_DATA", str(tmp_path))
    data.truncated.cache_clear()
    yield
    data.truncated.cache_clear()


@thorough
def test_whoever_has_the_files_runs_them(eurlex):
    trials = STUDY.trials(False)
    assert {t.data for t in trials} & set(LARGE) == {"eurlex"}
    assert {t.data for t in trials if t.part in ("figure 2", "figure 3")} == {"eurlex"}
    chosen = [t for t in trials if t.data == "eurlex" and t.settings.get("seed", 0) == 0]
    chosen = [t for t in chosen if t.settings.get("method", "Implicit") in ("Implicit", STEPS_3)]
    chosen = [t for t in chosen if t.part in ("table 1", "table 3")]
    outcomes = []
    for trial in chosen:
        small = trial._replace(settings=trial.settings | {"epochs": 2, "points": 2})
        outcomes.append(Outcome(trial, runs.run(small, lambda share: None), {}))
    assert rows_of(STUDY, outcomes, "Sizes")["Eurlex"][2:] == ["5,000", "5,000", "60", "15,539"]
    after = rows_of(STUDY, outcomes, "Eurlex after training")
    assert after["Implicit"][2] == "1.3415"
    assert after[STEPS_3][2] == "0.9630"


def test_a_set_without_files_is_skipped_and_said_how_to_get(tmp_path, monkeypatch):
    monkeypatch.setenv("MONRO_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not {t.data for t in STUDY.trials(False)} & set(LARGE)
    text = output("reproduce", STUDY.name, "--dataset", "wiki10", "--out", tmp_path / "out")
    for name in LARGE:
        skipped = f"skipped, because its files are not here: {name}: from"
        assert (skipped in text) is (name == "wiki10")  # the one asked for
    assert "wiki10/train.xc.txt.gz" in text
    assert "monro data info eurlex" in STUDY.sections([])[0].text


# ----------------------------------------------------------------------------------------- verdicts


def test_each_method_is_compared_at_the_better_of_its_rates():
    outcomes = [table_3("Implicit", 0.5), table_3("Implicit", 0.3, TUNED), table_3("OVE", 0.4)]
    assert losses(at_best_rate(outcomes, "bibtex", "Implicit")) == [0.3]
    assert verdict(outcomes, "Implicit ends below OVE") == REPRODUCED
    assert verdict([outcomes[0], outcomes[2]], "Implicit ends below OVE") == NOT_REPRODUCED
    two = [*outcomes, table_3("Implicit", 0.6, TUNED, seed=1), table_3("Implicit", 0.9, seed=1)]
    assert verdict(two, "Implicit ends below OVE") == UNCLEAR
    diverged = table_3("vanilla", 0.1, diverged=True)
    assert verdict([*outcomes, diverged], "Implicit ends below vanilla") == REPRODUCED


def test_a_tuned_rate_that_is_the_published_one_has_its_result():
    same = table_3("Implicit", 0.0, TUNED)._replace(result={"rate": 10.0, "tried": {}})
    none = table_3("vanilla", 0.0, TUNED)._replace(result={"rate": None, "tried": {}})
    outcomes = [table_3("Implicit", 0.5, rate=PAPERS), same, none]
    assert losses(at_best_rate(outcomes, "bibtex", "Implicit")) == [0.5]
    assert losses(at_best_rate(outcomes, "bibtex", "vanilla")) == [None]
    assert "Implicit, rate found here" not in rows_of(STUDY, outcomes, "Bibtex after training")
    assert verdict(outcomes, "η0 of Implicit") == REPRODUCED
    assert verdict(outcomes, "η0 of vanilla") == NOT_REPRODUCED
    assert rows_of(STUDY, outcomes, "Best rates")["Bibtex"][3] == "all overflow (0.01)"


def test_where_the_paper_has_the_opposite_order_its_order_is_claimed():
    outcomes = [table_3("U-max", 0.3, name="mnist"), table_3("vanilla", 0.2, name="mnist")]
    assert verdict(outcomes, "MNIST: vanilla ends below U-max") == REPRODUCED  # 1.43 and 1.56


def test_published_losses_and_ratios():
    outcomes = [table_3(STEPS_3, 0.1451), table_3("U-max", 9.77 * 0.1451), table_3("OVE", 0.9)]
    outcomes.append(table_3(LOG_K, 3.39))
    assert verdict(outcomes, "U-max over that of Implicit") == REPRODUCED
    assert verdict(outcomes, "U-max in the authors' files (") == REPRODUCED
    assert verdict(outcomes, "U-max in the authors' files, from u = log K") == NOT_REPRODUCED
    (ove,) = (f for f in STUDY.findings(outcomes) if "OVE over" in f.claim)
    assert ove.verdict == MEASURED  # even if the figures happened to agree
    assert "softmax twice" in ove.claim


@pytest.mark.parametrize("rate", [0.1, 1.0, 100.0])
def test_figure_2_is_judged_at_each_rate(rate):
    def at(form, each, loss):
        settings = {"method": "U-max", "sum": form, "rate": each, "seed": 0}
        result = {"epochs": [50], "log_loss": [loss], "diverged": False, "rate": each}
        return Outcome(Trial("figure 2", "bibtex", settings), result, {})

    for ours, theirs, expected in ((1.0, 2.0, REPRODUCED), (2.0, 1.0, NOT_REPRODUCED)):
        outcomes = [at(DIFFERENCE, rate, ours), at(RAMAN, rate, theirs)]
        assert verdict(outcomes, f"at η0 = {rate:g} ") == expected
        assert verdict(outcomes, "each at its best") == expected
        assert f"{DIFFERENCE}, {rate:g}" in rendered(STUDY, outcomes)  # η0 > 1 is drawn, too


def test_seconds_are_shown_only_of_fits_that_ran_alone():
    for alone, seconds in ((True, "2.00"), (False, "–")):
        outcomes = [table_3(method, 0.5, alone=alone) for method in ("Implicit", "U-max")]
        assert rows_of(STUDY, outcomes, "Bibtex after training")["U-max"][-1] == seconds
        claims = [f.claim for f in STUDY.findings(outcomes) if "takes as long" in f.claim]
        assert len(claims) == alone


@thorough
def test_the_default_says_what_it_has_that_the_others_have_not():
    X, y = make_data(n=200)
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y)
    more = {"chosen": model.history_[0]["chosen"], "intercept": model.fit_intercept}
    section = STUDY.sections([table_3(OURS, 0.1, rate="auto", **more)])[2]
    for what in ("has an intercept", "all 4 classes at every step", "log frequencies"):
        assert what in section.text
