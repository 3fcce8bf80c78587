"""History, stopping and callbacks."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.callback import ScoringMonitor

from monro import SoftmaxClassifier
from monro.softmax import metrics
from tests.callbacks import Callback, Recorder, expected_events
from tests.softmax.data import FRUIT, assert_same_bits, make_data, many_classes

# ----------------------------------------------------------------------------- history and stopping


def test_history_has_a_record_of_each_epoch():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=4, epoch_decay=0.5).fit(X, y)

    assert model.n_iter_ == 4
    assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4]
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)
    assert set(model.history_[0]) == {"epoch", "seconds", "loss", "rate", "chosen"}
    assert all(set(r) == {"epoch", "seconds", "loss", "rate"} for r in model.history_[1:])
    rates = [record["rate"] for record in model.history_]
    np.testing.assert_allclose(rates, model.learning_rate_ * 0.5 ** np.arange(4))
    losses = [record["loss"] for record in model.history_]
    assert losses[-1] < losses[0]


def test_the_plan_shows_what_was_chosen():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=1).fit(X, y)

    assert model.plan_["eta0"] == model.learning_rate_
    assert model.plan_["decay"] is None
    assert (model.plan_["examples"], model.plan_["classes"]) == (1, 4)
    assert model.plan_["sampling"] == "all"
    assert model.plan_["formulation"] == "raman"
    assert model.plan_["stiffness"] == 0.0
    assert SoftmaxClassifier(solver="lbfgs", alpha=0.0).fit(X, y).learning_rate_ is None


def test_the_plan_for_many_classes():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=1, classes=range(1000)).fit(
        X, y
    )

    assert model.plan_["sampling"] == "neighbour"
    assert model.plan_["classes"] == 192  # 12 of 63 blocks
    assert model.plan_["formulation"] == "raman"
    assert model.plan_["stiffness"] > 0.0
    cold = SoftmaxClassifier(
        alpha=0.0, random_state=0, max_epochs=1, classes=range(1000), init="zero"
    )
    assert cold.fit(X, y).plan_["formulation"] == "difference"


def test_the_first_record_says_what_was_chosen_and_why():
    X, y = make_data()
    few = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=1).fit(X, y).history_[0]["chosen"]
    assert "sampling: all 4 classes at every step, because they are few" in few
    assert "formulation: raman" in few
    assert "trials" in few
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=1, classes=range(1000)).fit(
        X, y
    )
    many = model.history_[0]["chosen"]
    assert "192 of 1,000 classes a step, by neighbours' labels and by frequency" in many
    assert "init: the log frequencies" in many
    given = SoftmaxClassifier(
        sampling="block",
        formulation="difference",
        init="zero",
        alpha=0.0,
        learning_rate=1.0,
        max_epochs=1,
    )
    assert "chosen" not in given.fit(X, y).history_[0]


def test_the_rate_falls_to_0_with_the_square_of_the_time_left():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=3.0, max_epochs=5).fit(X, y)
    rates = [record["rate"] for record in model.history_]
    np.testing.assert_allclose(rates, 3.0 * (1 - np.arange(5) / 5) ** 2)
    again = model.set_params(warm_start=True).fit(X, y)  # as the end of ten epochs
    rates = [record["rate"] for record in again.history_]
    np.testing.assert_allclose(rates, 3.0 * (1 - np.arange(5, 10) / 10) ** 2)


def test_without_tol_all_epochs_are_taken():
    X, y = make_data()
    assert SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=30).fit(X, y).n_iter_ == 30


def test_tol_stops_after_3_epochs_without_improvement():
    X, y = make_data()
    tol = 1e-3
    model = SoftmaxClassifier(tol=tol, alpha=0.0, max_epochs=200, random_state=0).fit(X, y)
    values = np.array([record["log_loss"] for record in model.history_])

    assert model.n_iter_ == len(values) < 200
    best_so_far = np.minimum.accumulate(values)
    improved = np.append(True, values[1:] < best_so_far[:-1] - tol)
    assert not improved[-3:].any()
    assert all(improved[k : k + 3].any() for k in range(len(values) - 3))
    # With as few rows as these the log-loss watched is that of all of them.
    np.testing.assert_allclose(values[-1], model.log_loss(X, y), rtol=1e-6)


def test_tol_ends_the_iterations_of_lbfgs():
    X, y = make_data()
    early = SoftmaxClassifier(solver="lbfgs", tol=1e-3, alpha=0.0).fit(X, y)
    assert (
        early.n_iter_
        == len(early.history_)
        < SoftmaxClassifier(solver="lbfgs", alpha=0.0).fit(X, y).n_iter_
    )


@pytest.mark.parametrize("solver", ["implicit", "exact", "ove"])
def test_early_stopping_restores_the_best_epoch(solver):
    X, y = make_data(n=80, d=40)
    parameters = {
        "solver": solver,
        "early_stopping": True,
        "validation_fraction": 0.3,
        "epoch_decay": 1.0,
        "alpha": 0.0,
        "learning_rate": 0.3 if solver != "ove" else 30.0,
        "random_state": 0,
    }
    model = SoftmaxClassifier(**parameters, max_epochs=200).fit(X, y)
    losses = [record["validation_loss"] for record in model.history_]
    at_best = int(np.argmin(losses)) + 1

    assert at_best < model.n_iter_ == len(losses) < 200
    assert_same_bits(model, SoftmaxClassifier(**parameters, max_epochs=at_best).fit(X, y))


def test_the_validation_loss_is_of_rows_held_out():
    rng = np.random.default_rng(0)
    # Noise on many features: what is trained on can be fitted, what is held out cannot.
    X, y = rng.normal(size=(100, 300)), rng.integers(4, size=100)
    model = SoftmaxClassifier(
        early_stopping=True, tol=0.0, alpha=0.0, learning_rate=0.1, max_epochs=5, random_state=0
    ).fit(X, y)

    assert model.history_[-1]["validation_loss"] > np.log(4)
    assert model.history_[-1]["log_loss"] < 0.5


def watched(monkeypatch, **parameters):
    """Fit many rows of many classes; return the model, and the rows judged each time."""
    seen = []

    def noted(weights, X, codes, *others):
        seen.append((X, codes))
        return metrics.losses(weights, X, codes, *others)

    monkeypatch.setattr("monro.softmax.training.trainer.losses", noted)
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(50, size=(20_000, 3)), axis=1)
    X = sp.csr_matrix((np.ones(60_000), columns.ravel(), np.arange(0, 60_001, 3)), (20_000, 50))
    X.sum_duplicates()
    model = SoftmaxClassifier(
        classes=range(4000), alpha=0.0, max_epochs=3, learning_rate=0.1, random_state=0
    )
    return model.set_params(**parameters).fit(X, 80 * columns[:, 0]), seen


def test_few_held_out_rows_are_judged_after_each_epoch_and_all_in_the_end(monkeypatch):
    model, seen = watched(monkeypatch, early_stopping=True)
    *epochs, (X, codes) = seen
    assert [rows.shape[0] for rows, _ in epochs] == [epochs[0][0].shape[0]] * 3
    assert epochs[0][0].shape[0] < 400  # 1.6 million scores; all rows would be 8 million
    assert codes.size == 2000
    np.testing.assert_array_equal(epochs[0][1], epochs[2][1])  # the same rows: compared fairly
    last = model.history_[-1]
    scores = model.decision_function(X) / last["multiple"]
    exact = -log_softmax(scores, axis=1)[np.arange(codes.size), codes].mean()
    assert last["held_out_loss"] == pytest.approx(exact, rel=1e-5)


def test_verbose_judges_few_rows(monkeypatch):
    _, seen = watched(monkeypatch, verbose=1)
    assert max(X.shape[0] for X, _ in seen) < 400


def test_early_stopping_where_classes_are_too_many_to_be_held_out_evenly():
    X, y = many_classes(n=200)
    model = SoftmaxClassifier(early_stopping=True, alpha=0.0, random_state=0, max_epochs=3).fit(
        X, y
    )
    assert model.classes_.size == 90
    assert np.isfinite(model.predict_proba(X)).all()


# ---------------------------------------------------------------------------------------- callbacks


def test_callbacks_see_each_epoch_begin_and_end():
    X, y = make_data()
    recorder = Recorder()
    SoftmaxClassifier(alpha=0.0, max_epochs=3).set_callbacks(recorder).fit(X, y)
    assert recorder.events == expected_events(3)


def test_callbacks_see_lbfgs_begin_and_end():
    X, y = make_data()
    recorder = Recorder()
    SoftmaxClassifier(solver="lbfgs", alpha=0.0).set_callbacks(recorder).fit(X, y)
    assert recorder.events == expected_events(0)


def test_a_callback_can_stop_the_fit():
    X, y = make_data()
    recorder = Recorder(stop_at=1)
    parameters = {"alpha": 0.0, "random_state": 0, "learning_rate": 0.3, "epoch_decay": 0.9}
    model = SoftmaxClassifier(**parameters).set_callbacks(recorder).fit(X, y)

    assert model.n_iter_ == len(model.history_) == 2
    assert recorder.events == expected_events(2)
    assert_same_bits(model, SoftmaxClassifier(**parameters, max_epochs=2).fit(X, y))


class Predictions(Callback):
    """Keeps what the estimator of each task predicts, and the labels it was given."""

    def __init__(self):
        self.predicted = []
        self.targets = []

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.predicted.append(fitted_estimator.predict_proba(X))
        self.targets.append(y)


@pytest.mark.parametrize("solver", ["implicit", "exact", "lbfgs"])
def test_callbacks_get_an_estimator_as_if_the_fit_had_stopped(solver):
    X, y = make_data()
    predictions = Predictions()
    parameters = {"solver": solver, "alpha": 0.0, "random_state": 0}
    if solver != "lbfgs":
        parameters |= {"learning_rate": 0.3, "epoch_decay": 0.9}
    SoftmaxClassifier(**parameters, max_epochs=3).set_callbacks(predictions).fit(X, FRUIT[y])

    epochs = [1, 2, 3, 3] if solver != "lbfgs" else [3]
    for predicted, targets, k in zip(
        predictions.predicted, predictions.targets, epochs, strict=True
    ):
        stopped = SoftmaxClassifier(**parameters, max_epochs=k).fit(X, FRUIT[y])
        np.testing.assert_array_equal(predicted, stopped.predict_proba(X))
        np.testing.assert_array_equal(targets, FRUIT[y])


def test_scoring_monitor_scores_each_epoch():
    X, y = make_data()
    monitor = ScoringMonitor(scoring="neg_log_loss")
    SoftmaxClassifier(alpha=0.0, max_epochs=3, random_state=0).set_callbacks(monitor).fit(X, y)
    assert len(monitor.get_logs().data_as_pandas) >= 3


def test_verbose_prints_a_plain_line_an_epoch_to_standard_error(capsys):
    X, y = make_data()
    model = SoftmaxClassifier(verbose=1, alpha=0.0, max_epochs=3, random_state=0).fit(X, y)
    out, err = capsys.readouterr()
    lines = err.strip().splitlines()

    assert out == ""
    assert "\x1b" not in err
    assert lines[0] == f"implicit: {model.history_[0]['chosen']}"
    for line, record in zip(lines[1:], model.history_, strict=True):
        assert line.startswith(f"implicit: epoch {record['epoch']}/3")
        assert f"{record['log_loss']:.5g}" in line


def test_nothing_is_printed_by_default(capfd):
    X, y = make_data()
    SoftmaxClassifier(tol=1e-3, early_stopping=True, alpha=0.0, max_epochs=3).fit(X, y)
    assert capfd.readouterr() == ("", "")
