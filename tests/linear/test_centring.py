"""Centred rows: each solver against the same one on rows that were centred before."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import monro
from monro import LinearClassifier, LinearRegressor
from monro.linear.centring import with_centre
from monro.linear.solvers import SOLVERS, solvers_that
from monro.losses import Hinge, Log
from monro.rows import as_rows
from tests.linear.helpers import make_data
from tests.linear.test_exactness import close, make_problem, run
from tests.marks import thorough, thorough_unless

CENTRED = solvers_that(lambda t: t.takes_center and not t.centred)
SCHEDULED = [(name, each) for name in CENTRED for each in SOLVERS[name].schedules or ("bottou",)]
EVERYDAY = [("sgd", "bottou"), ("dual", "bottou")]
few = settings(max_examples=10, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("name", "schedule"),
    [pytest.param(*case, marks=() if case in EVERYDAY else thorough) for case in SCHEDULED],
)
@pytest.mark.parametrize("loss", [Log(), pytest.param(Hinge(), marks=thorough)], ids=str)
@given(seed=st.integers(0, 2**32 - 1), sparse=st.booleans(), weighted=st.booleans())
@few
def test_a_solver_on_centred_rows_is_that_on_rows_centred_before(
    loss, name, schedule, seed, sparse, weighted
):
    # Without an intercept where that of sparse rows, which differ here, learns more slowly.
    intercept = name == "dual" or schedule == "inverse-t" or not sparse
    problem, X, order = make_problem(loss, seed, 0.01, sparse, weighted, intercept)
    centre = problem.examples.weight @ X / len(X)
    before = problem._replace(examples=problem.examples._replace(rows=as_rows(X - centre)))
    w, b = run(before, order, name, schedule, epochs=2)
    close(run(with_centre(problem), order, name, schedule, epochs=2), (w, b - w @ centre), 1e-8)


@pytest.mark.parametrize(
    "solver", thorough_unless(lambda solver: solver in ("sgd", "dual"), CENTRED)
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_estimator_that_centres(solver, n_classes):
    X, y = make_data(n_classes=n_classes)
    given = {"learning_rate": 0.1} if SOLVERS[solver].takes_rate else {}
    model = LinearClassifier(
        loss="log", solver=solver, alpha=1e-2, max_epochs=3, random_state=0, **given
    )
    expected = model.fit(X - X.mean(axis=0), y).decision_function(X - X.mean(axis=0))
    model.set_params(center=True)
    for rows in (X, X + 100.0, sp.csr_array(X + 10.0)):
        np.testing.assert_allclose(model.fit(rows, y).decision_function(rows), expected, atol=1e-8)


def test_casgd_is_asgd_centred():
    X, y = make_data()
    casgd = LinearClassifier(solver="casgd", alpha=1e-5, learning_rate=0.1, random_state=0).fit(
        X, y
    )
    asgd = LinearClassifier(
        solver="asgd", center=True, alpha=1e-5, learning_rate=0.1, random_state=0
    ).fit(X, y)
    np.testing.assert_array_equal(casgd.coef_, asgd.coef_)
    np.testing.assert_array_equal(casgd.intercept_, asgd.intercept_)


def test_a_regressor_that_centres():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) + 50.0
    y = X @ [1.0, 2.0, 3.0, 4.0] + 7.0
    peer = Ridge(alpha=200 * 0.01).fit(X, y)
    model = LinearRegressor(solver="dual", center=True, alpha=0.01, max_epochs=300, random_state=0)
    np.testing.assert_allclose(model.fit(X, y).coef_, peer.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=1e-6)


def four_thousand_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20))
    return X, X @ rng.normal(size=20) + rng.normal(size=4000) > 0


def largest_change(model, X, other, y):
    """Return the largest change of a score, relative to the largest score."""
    scores = model.fit(X, y).decision_function(X)
    return np.abs(model.fit(other, y).decision_function(other) - scores).max() / scores.max()


@pytest.mark.parametrize(
    ("schedule", "alpha", "limit"),
    [("inverse-t", 1e-2, 1e-12), ("inverse-t", 1e-3, 1e-9)]
    + [("bottou", alpha, 1e-12) for alpha in (1e-2, 1e-3, 1e-4)],
)
@pytest.mark.parametrize("solver", ["casgd", "sgd"])
def test_scores_do_not_move_with_the_rows(solver, schedule, alpha, limit):
    """docs/linear.md: 4,000 dense rows moved by 10, with an automatic rate."""
    X, y = four_thousand_rows()
    model = LinearClassifier(
        loss="log", solver=solver, center=True, schedule=schedule, alpha=alpha, random_state=0
    )
    assert largest_change(model, X, X + 10.0, y) <= limit


def test_steps_of_a_weak_ridge_amplify_the_last_digit_of_a_row():
    """The limit that docs/linear.md states has nothing to do with centring."""
    X, y = four_thousand_rows()
    rounded = X * (1.0 + 1e-15 * np.random.default_rng(1).choice([-1, 0, 1], size=X.shape))
    model = LinearClassifier(
        loss="log", solver="asgd", schedule="inverse-t", alpha=1e-5, random_state=0
    )
    change = [
        largest_change(model.set_params(alpha=alpha), X, rounded, y) for alpha in (1e-2, 1e-4)
    ]
    assert change[0] < 1e-12
    assert change[1] > 1e-4


# -------------------------------------------------------------------------------------- continuing


@pytest.mark.parametrize(
    ("solver", "schedule"),
    thorough_unless(
        lambda solver, schedule: solver == "casgd" or (solver, schedule) in EVERYDAY,
        ["casgd", "sgd", "aisgd"],
        ["bottou", "inverse-t"],
    ),
)
def test_partial_fit_moves_the_centre_but_no_prediction(solver, schedule):
    """With batches of one row of tiny weight, the centre moves and the weights do not."""
    X, y = make_data(n=100)
    rate = {"learning_rate": 1e-3} if schedule == "bottou" else {}
    model = LinearClassifier(
        loss="log",
        solver=solver,
        center=True,
        schedule=schedule,
        alpha=1e-2,
        random_state=0,
        **rate,
    )
    for k in range(0, 100, 25):
        model.partial_fit(X[k : k + 25], y[k : k + 25], classes=[0, 1])
        (state,) = model._fitted.states
        np.testing.assert_allclose(state.centre, X[: k + 25].mean(axis=0), atol=1e-12)
    before = model.decision_function(X)
    (solver_before,) = model._fitted.states
    far = sp.csr_array(np.full((1, X.shape[1]), 1000.0))
    model.partial_fit(far, y[:1], sample_weight=[1e-12])
    (state,) = model._fitted.states
    assert state.centre.max() > solver_before.centre.max() + 5.0
    shrunk = 0.02 * np.abs(before).max()  # the ridge of one step
    np.testing.assert_allclose(model.decision_function(X), before, atol=shrunk)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_centre_counts_rows_and_not_steps(n_jobs):
    X, y = make_data(n=400)
    model = LinearClassifier(
        loss="log", solver="sgd", center=True, n_jobs=n_jobs, alpha=1e-5, random_state=0
    )
    model.fit(X, y).partial_fit(X + 10.0, y)  # ten epochs and one
    (state,) = model._fitted.states
    np.testing.assert_allclose(state.centre, X.mean(axis=0) + 5.0, atol=1e-9)


@pytest.mark.parametrize("solver", CENTRED)
def test_a_warm_start_continues_what_was_saved(solver, tmp_path):
    X, y = make_data()
    given = {"learning_rate": 0.1} if SOLVERS[solver].takes_rate else {}
    model = LinearClassifier(
        loss="log", solver=solver, center=True, alpha=1e-2, max_epochs=3, warm_start=True,
        random_state=0, **given,
    ).fit(X, y)  # fmt: skip
    model.save(tmp_path / "model.monro")
    loaded = monro.load(tmp_path / "model.monro")
    np.testing.assert_array_equal(loaded.fit(X, y).coef_, model.fit(X, y).coef_)
    assert loaded._fitted.center
    fewer = model.fit(X[:200], y[:200]).decision_function(X)
    assert np.isfinite(fewer).all()
