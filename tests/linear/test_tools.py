"""scikit-learn's callbacks and tools, and what is printed."""

import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from monro import LinearClassifier, LinearRegressor
from tests.callbacks import Callback, Recorder, expected_events
from tests.linear.helpers import SOLVERS, assert_same_bits, make_data

# ---------------------------------------------------------------------------------------- callbacks


@pytest.mark.parametrize(
    "model",
    [
        LinearClassifier(alpha=1e-5, max_epochs=3),
        LinearRegressor(alpha=1e-5, max_epochs=3),
        LinearClassifier(alpha=1e-5, max_epochs=1),
    ],
)
def test_callbacks_see_each_epoch_begin_and_end(model):
    X, y = make_data()
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)

    assert recorder.events == expected_events(model.max_epochs)


@pytest.mark.parametrize("stopping", [{"tol": 10.0}, {"early_stopping": True, "tol": 10.0}])
def test_callbacks_see_no_epoch_begin_that_does_not_end(stopping):
    X, y = make_data()
    recorder = Recorder()
    model = LinearClassifier(alpha=1e-5, **stopping, max_epochs=20, random_state=0)
    model.set_callbacks(recorder).fit(X, y)

    assert model.n_iter_ < 20
    assert recorder.events == expected_events(model.n_iter_)


def test_a_callback_can_stop_the_fit():
    X, y = make_data()
    recorder = Recorder(stop_at=1)
    model = LinearClassifier(alpha=1e-5, random_state=0).set_callbacks(recorder).fit(X, y)

    assert model.n_iter_ == len(model.history_) == 2
    assert recorder.events == expected_events(2)
    assert_same_bits(model, LinearClassifier(alpha=1e-5, max_epochs=2, random_state=0).fit(X, y))


def test_callbacks_do_not_change_the_fit():
    X, y = make_data()
    watched = LinearClassifier(alpha=1e-5, random_state=0).set_callbacks(Recorder()).fit(X, y)

    assert_same_bits(watched, LinearClassifier(alpha=1e-5, random_state=0).fit(X, y))


class Predictions(Callback):
    """Keeps what the estimator of each epoch predicts, and the data it was given."""

    def __init__(self):
        self.predicted = []
        self.targets = []

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        if context.task_name == "epoch":
            self.predicted.append(fitted_estimator.predict(X))
            self.targets.append(y)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_callbacks_get_an_estimator_as_if_the_fit_had_stopped(solver):
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    seen = Predictions()
    settings = {"solver": solver, "alpha": 0.01, "random_state": 0}
    LinearClassifier(**settings, max_epochs=3).set_callbacks(seen).fit(X, names)

    for k, predicted in enumerate(seen.predicted):
        stopped = LinearClassifier(**settings, max_epochs=k + 1).fit(X, names)
        np.testing.assert_array_equal(predicted, stopped.predict(X))


def test_callbacks_get_the_labels_as_they_were_given():
    X, y = make_data(n_classes=3)
    names = np.array(["a", "b", "c"])[y]
    seen = Predictions()
    LinearClassifier(alpha=1e-5, max_epochs=1).set_callbacks(seen).fit(X, names)

    np.testing.assert_array_equal(seen.targets[0], names)


@pytest.mark.parametrize("names", [[0, 1], ["no", "yes"]])
def test_scoring_monitor_scores_each_epoch(names):
    X, y = make_data()
    labels = np.array(names)[y]
    monitor = ScoringMonitor(scoring="accuracy")
    settings = {"alpha": 1e-5, "random_state": 0, "solver": "sgd"}
    LinearClassifier(**settings, max_epochs=3).set_callbacks(monitor).fit(X, labels)

    logs = monitor.get_logs().data_as_pandas
    epochs = [
        LinearClassifier(**settings, max_epochs=k).fit(X, labels).score(X, labels)
        for k in (1, 2, 3)
    ]
    for score in epochs:
        assert score in logs["accuracy"].tolist()


def test_progress_bar_shows_the_fit(capsys):
    X, y = make_data()
    LinearClassifier(alpha=1e-5).set_callbacks(ProgressBar()).fit(X, y)

    out, err = capsys.readouterr()
    assert "LinearClassifier" in out + err
    assert "100%" in out + err


def test_verbose_prints_a_plain_line_an_epoch_to_standard_error(capsys):
    X, y = make_data()
    model = LinearClassifier(loss="log", verbose=1, alpha=1e-5, max_epochs=3, random_state=0).fit(
        X, y
    )

    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.strip().splitlines()
    assert len(lines) == 3
    for line, record in zip(lines, model.history_, strict=True):
        assert line.startswith(f"{model.solver_}: epoch {record['epoch']}/3")
        assert f"{record['objective']:.5g}" in line


def test_nothing_is_printed_unless_asked_for(capfd):
    X, y = make_data()
    LinearClassifier(tol=1e-3, early_stopping=True, alpha=1e-5).fit(X, y)

    assert capfd.readouterr() == ("", "")


# ----------------------------------------------------------------------------- scikit-learn's tools


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_pickled_model_predicts_the_same_and_can_go_on(solver, n_classes):
    X, y = make_data(n_classes=n_classes)
    model = LinearClassifier(solver=solver, alpha=0.01, random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))

    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    if solver != "dual":
        assert_same_bits(copy.partial_fit(X, y), model.partial_fit(X, y))


def test_a_clone_has_the_parameters_and_nothing_else():
    X, y = make_data()
    model = LinearClassifier(loss="log", alpha=0.1, class_weight={0: 2.0}, random_state=3).fit(X, y)
    copy = clone(model)

    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert_same_bits(copy.fit(X, y), model)


def test_grid_search_picks_what_cross_validation_prefers():
    X, y = make_data()
    model = LinearClassifier(loss="log", alpha=1e-5, max_epochs=20, random_state=0)
    alphas = [1e-4, 1e-1, 10.0]
    search = GridSearchCV(model, {"alpha": alphas}, cv=3, scoring="neg_log_loss").fit(X, y)

    scores = [
        cross_val_score(clone(model).set_params(alpha=a), X, y, cv=3, scoring="neg_log_loss").mean()
        for a in alphas
    ]
    assert search.best_params_ == {"alpha": alphas[int(np.argmax(scores))]}
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert_same_bits(
        search.best_estimator_, clone(model).set_params(**search.best_params_).fit(X, y)
    )


def test_a_pipeline_fits_the_same_as_its_parts():
    X, y = make_data()
    scaler = StandardScaler().fit(3.0 * X + 1.0)
    apart = LinearClassifier(alpha=1e-5, random_state=0).fit(scaler.transform(3.0 * X + 1.0), y)
    pipeline = make_pipeline(StandardScaler(), LinearClassifier(alpha=1e-5, random_state=0)).fit(
        3.0 * X + 1.0, y
    )

    assert_same_bits(pipeline[-1], apart)
    expected = expit(apart.decision_function(scaler.transform(X))) > 0.5
    np.testing.assert_array_equal(pipeline.predict(X), expected.astype(int))
