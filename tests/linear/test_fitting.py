"""Weights, seeds, threads, the order of visits and the learning rate."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from monro import LinearClassifier, LinearRegressor
from monro.fitting.order import visiting_order
from monro.linear import trainer
from tests.linear.helpers import SOLVERS, assert_close, assert_same_bits, make_data, objective
from tests.marks import thorough, thorough_unless

# ----------------------------------------------------------------------------------- sample weights


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("loss", ["log", pytest.param("squared_hinge", marks=thorough)])
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


@pytest.mark.parametrize(
    "loss", thorough_unless(lambda loss: loss == "squared", ["squared", "huber", "poisson"])
)
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


@pytest.mark.parametrize(
    ("solver", "form"),
    thorough_unless(
        lambda solver, form: form is np.asarray or solver == "auto",
        ["auto", *SOLVERS],
        [np.asarray, sp.csr_array],
    ),
)
def test_a_weight_of_0_is_a_row_left_out(solver, form):
    X, y = make_data()
    weight = np.random.default_rng(1).integers(3, size=y.size).astype(float)
    kept = weight > 0
    settings = {"loss": "log", "solver": solver, "alpha": 1e-5, "max_epochs": 3, "random_state": 0}

    zero = LinearClassifier(**settings).fit(form(X), y, sample_weight=weight)
    dropped = LinearClassifier(**settings).fit(form(X[kept]), y[kept], sample_weight=weight[kept])

    assert_same_bits(zero, dropped)


def test_a_weight_of_0_is_a_row_left_out_of_the_held_out_rows_too():
    X, y = make_data()
    weight = np.where(np.arange(y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    settings = {"early_stopping": True, "alpha": 1e-5, "random_state": 0}

    zero = LinearClassifier(**settings).fit(X, y, sample_weight=weight)
    dropped = LinearClassifier(**settings).fit(X[kept], y[kept])

    assert_same_bits(zero, dropped)
    for record, other in zip(zero.history_, dropped.history_, strict=True):
        assert record["validation_loss"] == other["validation_loss"]


def test_a_weight_of_0_is_a_row_left_out_of_a_partial_fit():
    X, y = make_data()
    weight = np.where(np.arange(y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    zero = LinearClassifier(alpha=1e-5, random_state=0).partial_fit(
        X, y, [0, 1], sample_weight=weight
    )
    dropped = LinearClassifier(alpha=1e-5, random_state=0).partial_fit(X[kept], y[kept], [0, 1])

    assert_same_bits(zero, dropped)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_unit_of_the_weights_does_not_matter(solver):
    X, y = make_data()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    settings = {"loss": "log", "solver": solver, "alpha": 1e-5, "max_epochs": 3, "random_state": 0}

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


# ---------------------------------------------------------------------------------- order of visits


@pytest.mark.parametrize("solver", ["asgd", "dual"])
def test_shuffling_blocks_is_nearly_as_good_as_shuffling_rows(solver, monkeypatch):
    X, y = make_data(n=20_000, d=20)
    by_class = np.argsort(y, kind="stable")
    X, y = X[by_class], y[by_class]
    settings = {"loss": "log", "solver": solver, "alpha": 1e-4, "max_epochs": 5}

    rng = np.random.default_rng(0)
    order = visiting_order(y.size, rng)
    assert (np.diff(order) == 1).mean() > 0.5  # blocks are in use
    blocks = objective(LinearClassifier(**settings, random_state=0).fit(X, y), X, y)
    monkeypatch.setattr(trainer, "visiting_order", lambda n, rng, *_: rng.permutation(n))
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


def test_rows_in_a_file_are_visited_in_runs_and_all_of_them_once():
    n, near = 40_000, 4
    order = visiting_order(n, np.random.default_rng(0), near)
    assert sorted(order.tolist()) == list(range(n))
    # Runs of 4 blocks of 16 rows stay within 64 rows, and begin anywhere.
    runs = order[: n // 64 * 64 - 640].reshape(-1, 64)
    assert (runs.max(axis=1) - runs.min(axis=1)).max() == 63
    assert len(set((runs.min(axis=1) // 64).tolist())) == len(runs)
    # The blocks of a run come in random order.
    firsts = (runs[:, 0] - runs.min(axis=1)) // 16
    assert np.bincount(firsts, minlength=4).min() > 100


@pytest.mark.parametrize("solver", ["sgdqn", pytest.param("asgdqn", marks=thorough)])
def test_skip_is_that_of_the_solver(solver):
    X, y = make_data()
    settings = {"solver": solver, "alpha": 1e-3, "learning_rate": 0.1, "random_state": 0}
    default, same, other = (
        LinearClassifier(**settings, skip=skip).fit(X, y).coef_ for skip in (None, 16, 3)
    )
    np.testing.assert_array_equal(default, same)  # rows are dense
    assert np.abs(default - other).max() > 1e-6
