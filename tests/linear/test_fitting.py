"""Fitting: weights, randomness, threads, stopping, going on, callbacks, order of visits."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import monro.linear.train
from monro import LinearClassifier, LinearRegressor

STREAMING = ("sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn", "sgdqn-flawed")
SOLVERS = (*STREAMING, "dual")


def make_data(n=300, d=5, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    centres = rng.normal(size=(n_classes, d))
    y = np.argmax(X @ centres.T + rng.normal(size=(n, n_classes)), axis=1)
    return X, y


def objective(model, X, y, weight=None):
    """F of a fitted binary model, from its definition."""
    margin = np.where(y == model.classes_[1], 1.0, -1.0) * (X @ model.coef_[0] + model.intercept_)
    if model.loss == "log":
        losses = np.logaddexp(0.0, -margin)
    else:
        losses = np.maximum(0.0, 1.0 - margin) ** (2 if model.loss == "squared_hinge" else 1)
    return (
        np.average(losses, weights=weight) + model.alpha / 2 * (model.coef_ @ model.coef_.T)[0, 0]
    )


def assert_same_bits(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)


def assert_close(model, other, **tolerance):
    np.testing.assert_allclose(model.coef_, other.coef_, **tolerance)
    np.testing.assert_allclose(model.intercept_, other.intercept_, **tolerance)


# ----------------------------------------------------------------------------------- sample weights


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("loss", ["log", "squared_hinge"])
def test_a_weight_of_2_is_a_row_given_twice(loss, form):
    X, y = make_data()
    twice = np.arange(y.size) % 3 == 0
    settings = {"loss": loss, "solver": "dual", "alpha": 0.05, "max_epochs": 1000}

    weighted = LinearClassifier(**settings, random_state=0).fit(
        form(X), y, sample_weight=1.0 + twice
    )
    repeated = LinearClassifier(**settings, random_state=1).fit(
        form(np.vstack([X, X[twice]])), np.append(y, y[twice])
    )

    assert_close(weighted, repeated, rtol=0, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
def test_a_weight_of_2_is_a_row_given_twice_for_regression(loss):
    X, _ = make_data()
    y = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0]))
    twice = np.arange(y.size) % 3 == 0
    settings = {"loss": loss, "solver": "dual", "alpha": 0.05, "max_epochs": 1000}

    weighted = LinearRegressor(**settings, random_state=0).fit(X, y, sample_weight=1.0 + twice)
    repeated = LinearRegressor(**settings, random_state=1).fit(
        np.vstack([X, X[twice]]), np.append(y, y[twice])
    )

    assert_close(weighted, repeated, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_weight_of_0_is_a_row_left_out(solver, form):
    X, y = make_data()
    weight = np.random.default_rng(1).integers(3, size=y.size).astype(float)
    kept = weight > 0
    settings = {"loss": "log", "solver": solver, "max_epochs": 3, "random_state": 0}

    zero = LinearClassifier(**settings).fit(form(X), y, sample_weight=weight)
    dropped = LinearClassifier(**settings).fit(form(X[kept]), y[kept], sample_weight=weight[kept])

    assert_same_bits(zero, dropped)


def test_a_weight_of_0_is_a_row_left_out_of_the_held_out_rows_too():
    X, y = make_data()
    weight = np.where(np.arange(y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    settings = {"early_stopping": True, "random_state": 0}

    zero = LinearClassifier(**settings).fit(X, y, sample_weight=weight)
    dropped = LinearClassifier(**settings).fit(X[kept], y[kept])

    assert_same_bits(zero, dropped)
    for record, other in zip(zero.history_, dropped.history_, strict=True):
        assert record["validation_loss"] == other["validation_loss"]


def test_a_weight_of_0_is_a_row_left_out_of_a_partial_fit():
    X, y = make_data()
    weight = np.where(np.arange(y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    zero = LinearClassifier(random_state=0).partial_fit(X, y, [0, 1], sample_weight=weight)
    dropped = LinearClassifier(random_state=0).partial_fit(X[kept], y[kept], [0, 1])

    assert_same_bits(zero, dropped)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_unit_of_the_weights_does_not_matter(solver):
    X, y = make_data()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    settings = {"loss": "log", "solver": solver, "max_epochs": 3, "random_state": 0}

    plain = LinearClassifier(**settings).fit(X, y, sample_weight=weight)
    scaled = LinearClassifier(**settings).fit(X, y, sample_weight=1024.0 * weight)

    assert_close(scaled, plain, rtol=1e-9)


# --------------------------------------------------------------------------- randomness and threads


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_the_same_seed_gives_the_same_bits(solver):
    X, y = make_data()
    settings = {"solver": solver, "alpha": 1e-3, "max_epochs": 3}
    first = LinearClassifier(**settings, random_state=7).fit(X, y)

    for n_jobs in (None, 1):
        assert_same_bits(
            LinearClassifier(**settings, random_state=7, n_jobs=n_jobs).fit(X, y), first
        )
    assert_same_bits(
        LinearClassifier(**settings, random_state=np.random.RandomState(7)).fit(X, y), first
    )
    other = LinearClassifier(**settings, random_state=8).fit(X, y)
    assert not np.array_equal(other.coef_, first.coef_)


@pytest.mark.parametrize("solver", ["auto", "sgd", "asgd", "dual", "sgdqn"])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_one_vs_rest_on_threads_gives_the_same_bits(solver, early_stopping):
    X, y = make_data(n_classes=5)
    settings = {
        "solver": solver,
        "alpha": 1e-3,
        "early_stopping": early_stopping,
        "random_state": 0,
    }

    assert_same_bits(
        LinearClassifier(**settings, n_jobs=2).fit(X, y),
        LinearClassifier(**settings, n_jobs=1).fit(X, y),
    )


@pytest.mark.parametrize("solver", ["sgd", "asgd", "aisgd", "dual"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_one_model_on_threads_reaches_the_same_objective(solver, form):
    X, y = make_data(n=6000, d=20)
    settings = {"loss": "log", "solver": solver, "alpha": 1e-3, "random_state": 0}

    one = LinearClassifier(**settings, n_jobs=1).fit(form(X), y)
    two = LinearClassifier(**settings, n_jobs=2).fit(form(X), y)

    np.testing.assert_allclose(objective(two, X, y), objective(one, X, y), rtol=0.02)


def test_threads_work_on_fewer_rows_than_threads():
    model = LinearRegressor(solver="sgd", learning_rate=0.1, n_jobs=4, shuffle=False, alpha=0.0)
    X, y = np.eye(3), np.array([1.0, 2.0, 3.0])
    model.set_params(fit_intercept=False, max_epochs=1).fit(X, y)

    # Rows of their own features do not disturb each other, in whatever order and number of threads.
    np.testing.assert_allclose(model.coef_, 0.1 * y)


# ----------------------------------------------------------------------------- history and stopping


def test_history_tells_each_epoch():
    X, y = make_data()
    model = LinearClassifier(random_state=0, max_epochs=4).fit(X, y)

    assert model.n_iter_ == 4
    assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4]
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)
    assert all(set(record) == {"epoch", "seconds", "loss"} for record in model.history_)


@pytest.mark.parametrize("solver", ["sgd", "implicit", "dual"])
def test_the_loss_in_history_is_that_of_each_row_before_its_step(solver):
    X, y = make_data(n=1)
    X, y = np.repeat(X, 2, axis=0), np.array([1.5, 1.5])
    settings = {"solver": solver, "alpha": 0.1, "shuffle": False}
    both = LinearRegressor(**settings, max_epochs=1)
    if solver != "dual":
        both.set_params(learning_rate=0.05)
    both.fit(X, y)

    before_any = 1.5**2 / 2
    assert both.history_[0]["loss"] < before_any
    assert both.history_[0]["loss"] > before_any / 2  # half of it is the first row's


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_the_objective_in_history_is_that_of_the_solution(solver):
    X, y = make_data()
    weight = np.random.default_rng(1).integers(3, size=y.size)
    model = LinearClassifier(
        loss="log", solver=solver, alpha=0.01, tol=0.0, max_epochs=3, random_state=0
    ).fit(X, y, sample_weight=weight)

    expected = objective(model, X, y, weight)
    np.testing.assert_allclose(model.history_[-1]["objective"], expected, rtol=1e-12)


def test_tol_stops_after_3_epochs_without_improvement():
    X, y = make_data()
    tol = 1e-4
    model = LinearClassifier(
        loss="log", solver="aisgd", alpha=0.01, tol=tol, max_epochs=500, random_state=0
    ).fit(X, y)
    values = np.array([record["objective"] for record in model.history_])

    assert model.n_iter_ == len(values) < 500
    best = np.minimum.accumulate(values)
    improved = np.append(True, values[1:] < best[:-1] - tol)
    assert not improved[-3:].any()
    assert all(improved[k : k + 3].any() for k in range(len(values) - 3))


def test_tol_does_not_change_the_steps():
    X, y = make_data()
    stopped = LinearClassifier(tol=1e-3, max_epochs=100, random_state=0).fit(X, y)
    plain = LinearClassifier(max_epochs=stopped.n_iter_, random_state=0).fit(X, y)

    assert stopped.n_iter_ < 100
    assert_same_bits(stopped, plain)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "sgd", "asgd", "sgdqn", "dual"])
def test_early_stopping_restores_the_best_epoch(solver, n_classes):
    X, y = make_data(n=80, d=30, n_classes=n_classes)
    settings = {
        "loss": "log",
        "solver": solver,
        "alpha": 1e-4,
        "early_stopping": True,
        "validation_fraction": 0.3,
        "random_state": 0,
    }
    model = LinearClassifier(**settings, max_epochs=200).fit(X, y)
    losses = [record["validation_loss"] for record in model.history_]
    best = int(np.argmin(losses)) + 1

    assert best < model.n_iter_ == len(losses) < 200
    until_best = LinearClassifier(**settings, max_epochs=best).fit(X, y)
    assert_same_bits(model, until_best)


def test_the_validation_loss_is_of_rows_held_out():
    rng = np.random.default_rng(1)
    # Noise on many features: what is trained on can be fitted, what is held out cannot.
    X = rng.normal(size=(60, 200))
    target = rng.normal(size=60)
    model = LinearRegressor(
        solver="dual", alpha=1e-3, early_stopping=True, tol=0.0, max_epochs=30, random_state=0
    ).fit(X, target)

    for record in model.history_[1:]:
        assert record["objective"] < 0.1 * record["validation_loss"]


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
def test_validation_rows_are_a_fraction_of_all(kind):
    # Rows of their own feature each: a weight that stays 0 shows that its row was held out.
    y = np.tile([0.0, 1.0], 50)
    targets = y if kind is LinearClassifier else y + 1.0
    model = kind(
        loss="log" if kind is LinearClassifier else "squared",
        solver="sgd",
        early_stopping=True,
        validation_fraction=0.2,
        max_epochs=1,
        random_state=0,
    ).fit(np.eye(100), targets)

    held_out = np.ravel(model.coef_) == 0.0
    assert held_out.sum() == 20
    if kind is LinearClassifier:
        assert y[held_out].sum() == 10  # of each class its share


# ----------------------------------------------------------------------------------------- going on


@pytest.mark.parametrize("schedule", ["bottou", "inverse-t"])
@pytest.mark.parametrize("solver", ["sgd", "asgd", "casgd", "implicit", "aisgd"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_partial_fit_twice_is_a_fit_of_two_epochs(solver, schedule, n_classes):
    X, y = make_data(n_classes=n_classes)
    rate = 0.3 if schedule == "bottou" else "auto"
    settings = {
        "loss": "log",
        "solver": solver,
        "schedule": schedule,
        "alpha": 0.01,
        "learning_rate": rate,
        "shuffle": False,
    }
    whole = LinearClassifier(**settings, max_epochs=2).fit(X, y)
    parts = LinearClassifier(**settings).partial_fit(X, y, classes=range(n_classes))
    parts.partial_fit(X, y)

    assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    assert parts.n_iter_ == 2
    assert [record["epoch"] for record in parts.history_] == [1, 2]


@pytest.mark.parametrize("solver", ["sgdqn", "sgdqn-flawed"])
def test_partial_fit_twice_is_a_fit_of_two_epochs_for_learnt_gains(solver):
    X, y = make_data()
    settings = {"solver": solver, "alpha": 0.01, "learning_rate": 0.3, "shuffle": False}
    whole = LinearClassifier(**settings, max_epochs=2).fit(X, y)
    parts = LinearClassifier(**settings).partial_fit(X, y, classes=[0, 1]).partial_fit(X, y)

    assert_close(parts, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("solver", ["sgd", "implicit"])
def test_partial_fit_of_batches_is_one_epoch(solver):
    X, y = make_data()
    target = X[:, 0] + 0.1 * y
    settings = {"solver": solver, "alpha": 0.01, "learning_rate": 0.3, "shuffle": False}
    whole = LinearRegressor(**settings, max_epochs=1).fit(X, target)
    parts = LinearRegressor(**settings)
    for batch in np.array_split(np.arange(y.size), 7):
        parts.partial_fit(X[batch], target[batch])

    assert_close(parts, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("solver", STREAMING)
def test_fit_then_partial_fit_is_one_more_epoch(solver):
    X, y = make_data()
    settings = {"solver": solver, "alpha": 0.01, "learning_rate": 0.3, "shuffle": False}
    whole = LinearClassifier(**settings, max_epochs=3).fit(X, y)
    parts = LinearClassifier(**settings, max_epochs=2).fit(X, y).partial_fit(X, y)

    assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    assert parts.n_iter_ == 3
    assert len(parts.history_) == 3


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("alpha", [1e-5, 0.1])
def test_fit_then_partial_fit_works_with_solver_auto(alpha, warm_start):
    X, y = make_data()
    model = LinearClassifier(
        loss="log", alpha=alpha, max_epochs=100, warm_start=warm_start, random_state=0
    ).fit(X, y)
    assert model.solver_ == ("dual" if alpha == 0.1 else "aisgd")
    before = objective(model, X, y)
    model.partial_fit(X, y)

    # It goes on from the solution: neither starts anew nor forgets what it knew.
    assert model.solver_ == "aisgd"
    assert model.n_iter_ == 101
    np.testing.assert_allclose(objective(model, X, y), before, rtol=0.01)


@pytest.mark.parametrize("solver", STREAMING)
def test_partial_fit_goes_on_from_a_solution_of_another_solver(solver):
    X, y = make_data()
    model = LinearClassifier(loss="log", solver="dual", alpha=0.1, max_epochs=300, random_state=0)
    model.fit(X + 0.5, y)
    before = clone(model).fit(X + 0.5, y)
    model.set_params(solver=solver, learning_rate=1e-9)
    try:
        model.partial_fit(X + 0.5, y)
    except ValueError:
        return  # a clear refusal would do as well

    assert model.solver_ == solver
    assert_close(model, before, rtol=0, atol=1e-5)


@pytest.mark.parametrize("solver", ["sgd", "implicit"])
def test_partial_fit_goes_on_from_a_solution_of_another_schedule(solver):
    X, y = make_data()
    model = LinearClassifier(loss="log", solver="dual", alpha=0.1, max_epochs=300, random_state=0)
    before = clone(model.fit(X + 0.5, y)).fit(X + 0.5, y)
    model.set_params(solver=solver, schedule="inverse-t")
    try:
        model.partial_fit(X + 0.5, y)
    except ValueError:
        return  # a clear refusal would do as well

    # After 300 epochs the rates 1/(alpha t) are small.
    assert_close(model, before, rtol=0, atol=0.02)


def test_fit_starts_anew_after_partial_fit():
    X, y = make_data()
    model = LinearClassifier(random_state=0).partial_fit(X, 1 - y, classes=[0, 1])
    model.fit(X, y)

    assert_same_bits(model, LinearClassifier(random_state=0).fit(X, y))
    assert model.n_iter_ == len(model.history_) == 10


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_warm_start_goes_on_where_the_last_fit_ended(solver):
    X, y = make_data()
    settings = {"loss": "log", "solver": solver, "alpha": 0.01, "shuffle": False}
    if solver not in ("auto", "dual"):
        settings["learning_rate"] = 0.3
    whole = LinearClassifier(**settings, max_epochs=6, random_state=0).fit(X, y)
    parts = LinearClassifier(**settings, max_epochs=3, warm_start=True, random_state=0)
    parts.fit(X, y).fit(X, y)

    assert_close(parts, whole, rtol=1e-9, atol=1e-9)
    fresh = LinearClassifier(**settings, max_epochs=3, random_state=0).fit(X, y)
    assert not np.array_equal(parts.coef_, fresh.coef_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_goes_on_with_other_rows(solver):
    X, y = make_data(n=400)
    settings = {"loss": "log", "solver": solver, "alpha": 0.05, "random_state": 0}
    model = LinearClassifier(**settings, max_epochs=300, warm_start=True).fit(X, y)
    before = objective(model, X, y)
    some = np.arange(300)
    model.set_params(max_epochs=1).fit(X[some], y[some])
    cold = LinearClassifier(**settings, max_epochs=1).fit(X[some], y[some])

    # A sample of the same rows: the old solution is nearly its best, one epoch from 0 is not.
    start = objective(model, X, y)
    assert start - before < 0.3 * (objective(cold, X, y) - before)


def test_warm_start_uses_the_parameters_as_they_are_now():
    X, y = make_data()
    model = LinearClassifier(solver="sgd", learning_rate=0.3, warm_start=True, random_state=0)
    before = model.fit(X, y).coef_.copy()
    model.set_params(learning_rate=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, before, rtol=1e-6)

    model.set_params(solver="implicit").fit(X, y)
    assert model.solver_ == "implicit"


@pytest.mark.parametrize("width", [3, 9])
def test_warm_start_with_another_number_of_features_is_refused(width):
    X, y = make_data()
    model = LinearClassifier(solver="sgd", warm_start=True, random_state=0).fit(sp.csr_array(X), y)
    # The further columns are empty: nothing beyond the old weights is touched, whatever happens.
    other = sp.csr_array(np.hstack([X[:, :3], np.zeros((y.size, width - 3))]))

    with pytest.raises(ValueError, match="features"):
        model.fit(other, y)


def test_partial_fit_needs_classes_at_the_first_call_only():
    X, y = make_data(n_classes=3)
    model = LinearClassifier(random_state=0)
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X, y)

    two = y < 2
    model.partial_fit(X[two], y[two], classes=[2, 0, 1])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.coef_.shape == (3, X.shape[1])
    model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="row 0 has the label"):
        model.partial_fit(X[:1], [5])


def test_partial_fit_takes_batches_of_one_class():
    X, y = make_data()
    model = LinearClassifier(random_state=0)
    for label in (0, 1):
        model.partial_fit(X[y == label], y[y == label], classes=[0, 1])

    assert model.n_iter_ == 2
    assert set(model.predict(X)) <= {0, 1}


# ---------------------------------------------------------------------------------------- callbacks


class Recorder:
    def __init__(self, stop_at=None):
        self.events = []
        self.stop_at = stop_at

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name, context.task_id))
        return context.task_name == "epoch" and context.task_id == self.stop_at


def expected_events(epochs):
    events = [("setup", "fit"), ("begin", "fit", 0)]
    for k in range(epochs):
        events += [("begin", "epoch", k), ("end", "epoch", k)]
    return [*events, ("end", "fit", 0), ("teardown", "fit")]


@pytest.mark.parametrize(
    "model",
    [LinearClassifier(max_epochs=3), LinearRegressor(max_epochs=3), LinearClassifier(max_epochs=1)],
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
    model = LinearClassifier(**stopping, max_epochs=20, random_state=0)
    model.set_callbacks(recorder).fit(X, y)

    assert model.n_iter_ < 20
    assert recorder.events == expected_events(model.n_iter_)


def test_a_callback_can_stop_the_fit():
    X, y = make_data()
    recorder = Recorder(stop_at=1)
    model = LinearClassifier(random_state=0).set_callbacks(recorder).fit(X, y)

    assert model.n_iter_ == len(model.history_) == 2
    assert recorder.events == expected_events(2)
    assert_same_bits(model, LinearClassifier(max_epochs=2, random_state=0).fit(X, y))


def test_callbacks_do_not_change_the_fit():
    X, y = make_data()
    watched = LinearClassifier(random_state=0).set_callbacks(Recorder()).fit(X, y)

    assert_same_bits(watched, LinearClassifier(random_state=0).fit(X, y))


class Predictions:
    """Keeps what the estimator of each epoch predicts, and the data it was given."""

    def __init__(self):
        self.predicted = []
        self.targets = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

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
    LinearClassifier(max_epochs=1).set_callbacks(seen).fit(X, names)

    np.testing.assert_array_equal(seen.targets[0], names)


@pytest.mark.parametrize("names", [[0, 1], ["no", "yes"]])
def test_scoring_monitor_scores_each_epoch(names):
    X, y = make_data()
    labels = np.array(names)[y]
    monitor = ScoringMonitor(scoring="accuracy")
    settings = {"random_state": 0, "solver": "sgd"}
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
    LinearClassifier().set_callbacks(ProgressBar()).fit(X, y)

    out, err = capsys.readouterr()
    assert "LinearClassifier" in out + err
    assert "100%" in out + err


def test_verbose_prints_a_plain_line_an_epoch_to_standard_error(capsys):
    X, y = make_data()
    model = LinearClassifier(loss="log", verbose=1, max_epochs=3, random_state=0).fit(X, y)

    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.strip().splitlines()
    assert len(lines) == 3
    for line, record in zip(lines, model.history_, strict=True):
        assert "LinearClassifier" in line
        assert f"{record['objective']:.5g}" in line


def test_nothing_is_printed_unless_asked_for(capfd):
    X, y = make_data()
    LinearClassifier(tol=1e-3, early_stopping=True).fit(X, y)

    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------------------------- order of visits


@pytest.mark.parametrize("solver", ["asgd", "dual"])
def test_shuffling_blocks_is_nearly_as_good_as_shuffling_rows(solver, monkeypatch):
    X, y = make_data(n=20_000, d=20)
    by_class = np.argsort(y, kind="stable")
    X, y = X[by_class], y[by_class]
    settings = {"loss": "log", "solver": solver, "alpha": 1e-4, "max_epochs": 5}

    rng = np.random.default_rng(0)
    order = monro.linear.train.visiting_order(y.size, rng)
    assert (np.diff(order) == 1).mean() > 0.5  # blocks are in use
    blocks = objective(LinearClassifier(**settings, random_state=0).fit(X, y), X, y)
    monkeypatch.setattr(monro.linear.train, "visiting_order", lambda n, rng: rng.permutation(n))
    rows = objective(LinearClassifier(**settings, random_state=0).fit(X, y), X, y)

    assert blocks < 1.01 * rows


def test_without_shuffling_the_rows_are_visited_as_they_stand():
    X, y = make_data(n=2000)
    target = X[:, 0] - X[:, 1] + y
    eta, lam = 0.01, 0.1
    w, b = np.zeros(X.shape[1]), 0.0
    for t, (x, goal) in enumerate(zip(X, target, strict=True)):
        rate = eta / (1 + lam * eta * t)
        slope = x @ w + b - goal
        w, b = w - rate * (slope * x + lam * w), b - rate * slope
    model = LinearRegressor(
        solver="sgd", alpha=lam, learning_rate=eta, shuffle=False, max_epochs=1
    ).fit(X, target)

    np.testing.assert_allclose(model.coef_, w, rtol=1e-10)
    np.testing.assert_allclose(model.intercept_, [b], rtol=1e-10)


# -------------------------------------------------------------------------------- the learning rate


@pytest.mark.parametrize("solver", ["auto", "sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn"])
@pytest.mark.parametrize(("n", "d"), [(50, 20), (2000, 50)])
def test_the_automatic_rate_learns_where_a_single_pass_does_not_help(solver, n, d):
    # Labels are noise: in one pass no rate predicts the next row better than weights of 0 do. The
    # training objective has its minimum elsewhere all the same.
    rng = np.random.default_rng(0)
    X, y = 20.0 * rng.normal(size=(n, d)), rng.integers(2, size=n)
    alpha = 1e-3
    best = LogisticRegression(C=1 / (alpha * n), tol=1e-10, max_iter=10_000).fit(X, y)
    model = LinearClassifier(
        loss="log", solver=solver, alpha=alpha, max_epochs=100, random_state=0
    ).fit(X, y)

    def value(fitted):
        margin = (2 * y - 1) * (X @ fitted.coef_[0] + fitted.intercept_[0])
        return np.logaddexp(0.0, -margin).mean() + alpha / 2 * (fitted.coef_**2).sum()

    # It has left the weights of 0, in the right direction.
    assert value(model) - value(best) < 0.95 * (np.log(2.0) - value(best))


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_automatic_rate_follows_the_unit_of_the_features(unit):
    X, y = make_data(n=1000)
    settings = {"loss": "log", "solver": "sgd", "fit_intercept": False, "random_state": 0}
    plain = LinearClassifier(**settings, alpha=0.0).fit(X, y)
    scaled = LinearClassifier(**settings, alpha=0.0).fit(unit * X, y)

    np.testing.assert_allclose(scaled.learning_rate_ * unit**2, plain.learning_rate_, rtol=1e-9)
    np.testing.assert_allclose(scaled.coef_ * unit, plain.coef_, rtol=1e-6)


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
    model = LinearClassifier(loss="log", max_epochs=20, random_state=0)
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
    apart = LinearClassifier(random_state=0).fit(scaler.transform(3.0 * X + 1.0), y)
    pipeline = make_pipeline(StandardScaler(), LinearClassifier(random_state=0)).fit(
        3.0 * X + 1.0, y
    )

    assert_same_bits(pipeline[-1], apart)
    expected = expit(apart.decision_function(scaler.transform(X))) > 0.5
    np.testing.assert_array_equal(pipeline.predict(X), expected.astype(int))
