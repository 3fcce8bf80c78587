"""Trials are run once, even if a run is killed; models are measured at the right times."""

import os
import signal
import time

import numpy as np
import pytest

from monro import LinearClassifier, LinearRegressor
from monro.errors import DivergenceError
from monro.fitting.order import visiting_order
from monro.linear.examples import Examples
from monro.linear.problem import Problem
from monro.linear.solvers import make_solver
from monro.losses import Log
from monro.penalties import Ridge
from monro.rows import as_rows
from monro.studies import runner
from monro.studies.journal import Journal
from monro.studies.monitoring import EpochMonitor, fit_monitored, sweep_monitored
from monro.studies.study import Study, Trial, chapter, seconds_alone
from tests import processes
from tests.linear.helpers import make_data
from tests.marks import thorough

TRIALS = [
    Trial("table 1", name, {"method": method, "rate": 0.5})
    for name in ("mnist", "rcv1", "")
    for method in ("sgd", "dual")
]


def trials(quick):
    return TRIALS[::2] if quick else TRIALS


def answer(trial):
    return {"number": TRIALS.index(trial)}


def made_up(run):
    return Study(
        "made-up", "Made up", "A paper", "A lead.", ("mnist", "rcv1"), trials, run,
        lambda outcomes: [], lambda outcomes: [],
    )  # fmt: skip


class Counting:
    """Runs trials and records them; one of them may fail."""

    def __init__(self, fails=None):
        self.ran = []
        self.fails = fails

    def __call__(self, trial, tick):
        self.ran.append(trial)
        if len(self.ran) == self.fails:
            raise KeyboardInterrupt
        tick(0.5)
        return answer(trial)


def run(counting, folder, **options):
    return runner.run(made_up(counting), folder, show=False, **options)


def test_each_trial_is_run_once(tmp_path):
    counting = Counting()
    outcomes = run(counting, tmp_path)
    assert counting.ran == TRIALS
    assert [o.trial for o in outcomes] == TRIALS
    assert [o.result for o in outcomes] == [answer(trial) for trial in TRIALS]

    again = Counting()
    assert run(again, tmp_path) == outcomes
    assert again.ran == []


@pytest.mark.parametrize("fails", range(1, len(TRIALS) + 1))
def test_trials_run_before_an_interruption_are_not_run_again(tmp_path, fails):
    first, second = Counting(fails), Counting()
    with pytest.raises(KeyboardInterrupt):
        run(first, tmp_path)
    outcomes = run(second, tmp_path)
    assert first.ran[:-1] + second.ran == TRIALS
    assert [o.result for o in outcomes] == [answer(trial) for trial in TRIALS]


def test_quick_results_are_kept_apart(tmp_path):
    quick, full = Counting(), Counting()
    assert [o.trial for o in run(quick, tmp_path, quick=True)] == TRIALS[::2]
    assert [o.trial for o in run(full, tmp_path)] == TRIALS
    assert quick.ran == TRIALS[::2]
    assert full.ran == TRIALS
    assert {path.name for path in tmp_path.iterdir()} == {"made-up.jsonl", "made-up-quick.jsonl"}


def test_on_one_data_set_only(tmp_path):
    some, rest = Counting(), Counting()
    outcomes = run(some, tmp_path, sets=["rcv1"])
    assert some.ran == [o.trial for o in outcomes] == [t for t in TRIALS if t.data == "rcv1"]
    assert run(rest, tmp_path, sets=["rcv1", "mnist"]) == run(Counting(), tmp_path, sets=["mnist"])
    assert rest.ran == [t for t in TRIALS if t.data == "mnist"]


def test_the_error_for_an_unknown_data_set_lists_the_known_ones(tmp_path):
    counting = Counting()
    with pytest.raises(ValueError, match=r"--dataset minst: made-up has mnist, rcv1$"):
        run(counting, tmp_path, sets=["rcv1", "minst"])
    assert counting.ran == []
    assert list(tmp_path.iterdir()) == []


def test_a_chapter_says_how_many_trials_are_missing(tmp_path):
    counting = Counting()
    outcomes = run(counting, tmp_path, sets=["rcv1"])
    assert (
        "4 of 6 trials have not been run yet"
        in chapter(made_up(counting), outcomes, quick=False).lead
    )
    whole = chapter(made_up(counting), run(counting, tmp_path), quick=False)
    assert "have not been run" not in whole.lead
    assert "quick run" in chapter(made_up(counting), outcomes, quick=True).lead


# -------------------------------------------------------------------------------- several at a time


def process_of(trial, tick):
    tick(1.0)
    if trial.data == "fails":
        raise ArithmeticError("on purpose")
    return {"process": os.getpid()}


def timed(trial):
    return trial.settings["method"] == "dual"


def test_trials_whose_time_is_compared_run_alone(tmp_path):
    study = made_up(process_of)._replace(timed=timed)
    outcomes = runner.run(study, tmp_path, jobs=2, show=False)
    assert [outcome.trial for outcome in outcomes] == TRIALS
    for outcome in outcomes:
        alone = timed(outcome.trial)
        assert outcome.provenance["alone"] is alone
        assert (outcome.result["process"] == os.getpid()) is alone
        seconds = seconds_alone(outcome, "process")
        assert seconds == (os.getpid() if alone else None)
    assert runner.run(study, tmp_path, jobs=2, show=False) == outcomes


@thorough
def test_a_trial_whose_time_is_compared_is_run_again_if_it_was_not_alone(tmp_path):
    study = made_up(process_of)
    runner.run(study, tmp_path, jobs=2, show=False)
    again = Counting()
    outcomes = runner.run(study._replace(run=again, timed=timed), tmp_path, show=False)
    assert again.ran == [trial for trial in TRIALS if timed(trial)]
    assert [outcome.provenance["alone"] for outcome in outcomes] == list(map(timed, TRIALS))


@thorough
def test_an_error_in_another_process_is_raised_and_other_results_are_kept(tmp_path):
    more = [*TRIALS, Trial("table 1", "fails", {"method": "sgd"})]
    study = made_up(process_of)._replace(trials=lambda quick: more)
    with pytest.raises(ArithmeticError, match="on purpose"):
        runner.run(study, tmp_path, jobs=2, show=False)
    path = runner.journal_path(tmp_path, study, quick=False)
    assert all(outcome.trial in TRIALS for outcome in Journal(path).outcomes.values())
    whole = runner.run(study._replace(trials=trials), tmp_path, jobs=2, show=False)
    assert [outcome.trial for outcome in whole] == TRIALS


# ------------------------------------------------------------------------------------------ killing


def run_until_killed(folder):
    """Run two trials; create a file in the third, and wait there."""
    counting = Counting()

    def slow(trial, tick):
        if len(counting.ran) == 2:
            (folder / "here").touch()
            time.sleep(600)
        return counting(trial, tick)

    runner.run(made_up(slow), folder, show=False)


def test_a_run_killed_in_the_middle_of_a_trial_resumes(tmp_path):
    process = processes.start(run_until_killed, tmp_path)
    while not (tmp_path / "here").exists():
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    assert processes.status(process) == -signal.SIGKILL
    path = runner.journal_path(tmp_path, made_up(None), quick=False)
    assert len(Journal(path).outcomes) == 2

    counting = Counting()
    outcomes = run(counting, tmp_path)
    assert counting.ran == TRIALS[2:]
    assert [o.result for o in outcomes] == [answer(trial) for trial in TRIALS]


# ----------------------------------------------------------------------------------------- progress


def test_lines_of_progress_where_there_is_no_terminal(tmp_path, capsys):
    runner.run(made_up(Counting()), tmp_path, sets=["rcv1"])
    assert capsys.readouterr() == (
        "",
        "made-up 1/2: table 1, rcv1, sgd, η0 = 0.5\nmade-up 2/2: table 1, rcv1, dual, η0 = 0.5\n",
    )
    runner.run(made_up(Counting()), tmp_path)
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "made-up: 2 of 6 trials were run before"
    assert [line.split(":")[0] for line in lines] == [f"made-up {k}/6" for k in range(3, 7)]
    assert lines[-1] == "made-up 6/6: table 1, dual, η0 = 0.5"


def test_a_bar_on_a_terminal_moves_within_a_trial(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    runner.run(made_up(Counting()), tmp_path)
    text = capsys.readouterr().err
    assert "6/6" in text
    assert "done" in text


# --------------------------------------------------------------------------------------- monitoring


def coefficients(model):
    return {"weights": model.coef_.ravel().tolist()}


@pytest.mark.parametrize(
    ("points", "expected"), [(None, [1, 2, 3, 4, 5, 6]), (3, [2, 4, 6]), (4, [2, 3, 4, 6])]
)
def test_a_model_is_measured_after_evenly_spaced_epochs(points, expected):
    X, y = make_data()
    model = LinearClassifier(
        loss="log", solver="sgd", alpha=1e-5, learning_rate=0.1, random_state=0
    )
    shares = []
    curve = fit_monitored(
        model.set_params(max_epochs=6), coefficients, shares.append, X, y, points=points
    )

    assert curve["epochs"] == expected
    assert not curve["diverged"]
    assert curve["seconds"] == sorted(curve["seconds"])
    assert shares == pytest.approx([k / 6 for k in range(1, 7)])
    for epochs, found in zip(expected, curve["weights"], strict=True):
        shorter = LinearClassifier(
            loss="log", solver="sgd", alpha=1e-5, learning_rate=0.1, random_state=0
        )
        assert found == shorter.set_params(max_epochs=epochs).fit(X, y).coef_.ravel().tolist()


def test_a_fit_that_diverges_returns_the_curve_so_far():
    X, y = make_data()
    model = LinearRegressor(
        loss="squared", solver="sgd", alpha=1e-5, learning_rate=40.0, max_epochs=9, random_state=0
    )
    curve = fit_monitored(model, coefficients, lambda share: None, X, y.astype(float))

    assert curve["diverged"]
    assert len(curve["epochs"]) < 9
    assert len({len(curve.get(name, [])) for name in ("epochs", "seconds", "weights")}) == 1


def test_a_measurement_that_fails_adds_no_partial_point():
    X, y = make_data()
    measured = []

    def measure(model):
        measured.append(model)
        if len(measured) == 3:
            raise DivergenceError("too large to be measured")
        return {"count": float(len(measured))}

    model = LinearClassifier(
        loss="log", solver="sgd", alpha=1e-5, learning_rate=0.1, random_state=0
    )
    curve = fit_monitored(model, measure, lambda share: None, X, y)
    assert curve["diverged"]
    assert curve["epochs"] == curve["count"] == [1, 2]
    assert len(curve["seconds"]) == 2


def test_other_tasks_of_a_fit_are_not_measured():
    class Context:
        task_name = "fit"

    monitor = EpochMonitor(coefficients, lambda share: None)
    assert monitor.on_fit_task_end(None, Context()) is False
    assert monitor.curve == {"epochs": [], "seconds": []}


def test_a_solver_is_measured_within_an_epoch():
    X, y = make_data(n=10, d=4)
    examples = Examples(as_rows(X), 2.0 * y - 1.0, np.ones(10))
    problem = Problem(Log(), Ridge(0.1), examples, True, 4)
    shares = []

    def measure(state):
        w, b = solver.solution(state)
        return {"steps": state.t[0], "weights": [*w, b]}

    solver = make_solver(problem, "sgd", "bottou", 0.3)
    found = sweep_monitored(problem, solver, measure, shares.append, epochs=2, points=4)
    assert found["epochs"] == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    assert found["steps"] == [3, 6, 8, 10, 13, 16, 18, 20]
    assert shares == [0.5, 1.0]

    rng = np.random.default_rng(0)
    order = np.concatenate([visiting_order(10, rng), visiting_order(10, rng)])
    for steps, expected in zip(found["steps"], found["weights"], strict=True):
        solver = make_solver(problem, "sgd", "bottou", 0.3)
        state = solver.start()
        solver.sweep(order[: int(steps)], state)
        w, b = solver.solution(state)
        np.testing.assert_allclose([*w, b], expected, rtol=1e-12)
