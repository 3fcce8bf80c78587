"""History, stopping and continuing: early stopping, partial_fit, warm starts."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from monro import LinearClassifier, LinearRegressor
from monro.linear.objective import objective_of
from tests.linear.helpers import (
    SOLVERS,
    STREAMING,
    assert_close,
    assert_same_bits,
    make_data,
    objective,
)

# ----------------------------------------------------------------------------- history and stopping


def test_history_tells_each_epoch():
    X, y = make_data()
    model = LinearClassifier(alpha=1e-5, random_state=0, max_epochs=4).fit(X, y)

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


def test_the_objective_is_of_some_rows_after_each_epoch_and_of_all_in_the_end(monkeypatch):
    judged = []

    def noted(problem, rows, *solution):
        judged.append(rows)
        return objective_of(problem, rows, *solution)

    monkeypatch.setattr("monro.linear.trainer.objective_of", noted)
    X, y = make_data(n=16_000)
    weight = np.random.default_rng(1).integers(1, 3, size=y.size)
    model = LinearClassifier(loss="log", alpha=0.01, verbose=1, max_epochs=3, random_state=0)
    model.fit(X, y, sample_weight=weight)

    assert [rows.size for rows in judged] == [1600] * 3
    expected = objective(model, X, y, weight)
    values = [record["objective"] for record in model.history_]
    np.testing.assert_allclose(values[-1], expected, rtol=1e-12)
    np.testing.assert_allclose(values[:-1], expected, rtol=0.1)


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
    stopped = LinearClassifier(tol=1e-3, alpha=1e-5, max_epochs=100, random_state=0).fit(X, y)
    plain = LinearClassifier(alpha=1e-5, max_epochs=stopped.n_iter_, random_state=0).fit(X, y)

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
        alpha=1e-5,
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

    # It continues from the solution instead of starting over.
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
    model = LinearClassifier(alpha=1e-5, random_state=0).partial_fit(X, 1 - y, classes=[0, 1])
    model.fit(X, y)

    assert_same_bits(model, LinearClassifier(alpha=1e-5, random_state=0).fit(X, y))
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
    model = LinearClassifier(
        solver="sgd", alpha=1e-5, learning_rate=0.3, warm_start=True, random_state=0
    )
    before = model.fit(X, y).coef_.copy()
    model.set_params(learning_rate=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, before, rtol=1e-6)

    model.set_params(solver="implicit").fit(X, y)
    assert model.solver_ == "implicit"


@pytest.mark.parametrize("width", [3, 9])
def test_warm_start_with_another_number_of_features_is_refused(width):
    X, y = make_data()
    model = LinearClassifier(solver="sgd", warm_start=True, alpha=1e-5, random_state=0).fit(
        sp.csr_array(X), y
    )
    # The further columns are empty: nothing beyond the old weights is touched, whatever happens.
    other = sp.csr_array(np.hstack([X[:, :3], np.zeros((y.size, width - 3))]))

    with pytest.raises(ValueError, match="features"):
        model.fit(other, y)


def test_partial_fit_needs_classes_at_the_first_call_only():
    X, y = make_data(n_classes=3)
    model = LinearClassifier(alpha=1e-5, random_state=0)
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
    model = LinearClassifier(alpha=1e-5, random_state=0)
    for label in (0, 1):
        model.partial_fit(X[y == label], y[y == label], classes=[0, 1])

    assert model.n_iter_ == 2
    assert set(model.predict(X)) <= {0, 1}
