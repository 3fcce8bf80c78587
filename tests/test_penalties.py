"""Penalties: the ridge against NumPy, and an elastic net through the hooks that kernels have."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet as PeerNet
from sklearn.linear_model import Lasso as PeerLasso
from sklearn.linear_model import LogisticRegression

from monro import LinearClassifier, LinearRegressor
from monro.linear.examples import Examples
from monro.linear.objective import objective
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS, make_solver
from monro.losses import Hinge, Log, Squared, derivative, implicit_derivative
from monro.penalties import ElasticNet, Ridge, soft_threshold
from monro.rows import as_rows
from tests.marks import thorough, thorough_unless
from tests.messages import message

PROPERTY = settings(deadline=None, derandomize=True, max_examples=50)
vectors = hnp.arrays(np.float64, st.integers(1, 9), elements=st.floats(-1e3, 1e3))
strengths = st.floats(0.0, 10.0)


# ------------------------------------------------------------------------------------------- ridge


@given(w=vectors, lam=strengths, step=st.floats(1e-3, 10.0))
@PROPERTY
def test_ridge_steps_are_those_of_its_value(w, lam, step):
    penalty = Ridge(lam)
    assert penalty.value(w) == pytest.approx(lam / 2 * np.square(w).sum(), rel=1e-12)
    slope = np.array([lam * each for each in w])
    np.testing.assert_allclose(penalty.shrinkage(step) * w, w - step * slope, rtol=0, atol=1e-9)
    after = w / penalty.implicit_divisor(step)
    np.testing.assert_allclose(after, w - step * lam * after, rtol=1e-9, atol=1e-9)


@given(v=vectors, lam=strengths)
@PROPERTY
def test_ridge_is_as_convex_as_it_says(v, lam):
    """``R(w) - λ/2 ‖w‖²`` is convex for its λ, and for no larger one."""
    penalty, w = Ridge(lam), np.zeros_like(v)

    def rest(at, more):
        return penalty.value(at) - (penalty.strong_convexity() + more) / 2 * at @ at

    tiny = 1e-9 * (1 + v @ v)
    assert rest((w + v) / 2, 0.0) <= (rest(w, 0.0) + rest(v, 0.0)) / 2 + tiny
    if v @ v > 1e-3:
        assert rest((w + v) / 2, 0.1) > (rest(w, 0.1) + rest(v, 0.1)) / 2


def test_ridge_needs_no_scratch():
    penalty = Ridge(0.5)
    assert penalty.with_scratch(1000) is penalty
    assert not penalty.has_kink


# ------------------------------------------------------------------------------------- elastic net


@given(w=vectors, strength=strengths, l1_ratio=st.floats(0.0, 1.0))
@PROPERTY
def test_the_value_of_an_elastic_net_is_that_of_its_definition(w, strength, l1_ratio):
    penalty = ElasticNet(strength, l1_ratio)
    ridge = sum(each**2 for each in w) / 2
    lasso = sum(abs(each) for each in w)
    expected = strength * (l1_ratio * lasso + (1 - l1_ratio) * ridge)
    assert penalty.value(w) == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert penalty.has_kink == (strength * l1_ratio > 0)
    after = w / penalty.implicit_divisor(0.1)
    lam = penalty.strong_convexity()
    np.testing.assert_allclose(after, w - 0.1 * lam * after, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(penalty.shrinkage(0.1) * w, w - 0.1 * lam * w, rtol=0, atol=1e-9)


def test_scratch_is_of_one_sweep():
    penalty = ElasticNet(0.5, 0.5)
    one, two = penalty.with_scratch(3), penalty.with_scratch(3)
    one.postpone(0.1, 1.0)
    assert two.owed[0] == 0.0
    assert two.paid.shape == (3,)


@given(value=st.floats(-10, 10), threshold=st.floats(0, 10))
@PROPERTY
def test_the_soft_threshold_minimises_what_it_says(value, threshold):
    found = soft_threshold(value, threshold)
    grid = np.append(np.linspace(-10, 10, 2001), found)
    values = (grid - value) ** 2 / 2 + threshold * abs(grid)
    assert values[-1] <= values.min() + 1e-12


PROXIMAL = [name for name, traits in SOLVERS.items() if traits.proximal]


def make_problem(loss, penalty, *, seed=0, sparse=False, fit_intercept=False, n=60, d=8):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    y = X @ np.where(np.arange(d) < 3, [3.0, -2.0, 1.0, *[0.0] * (d - 3)], 0.0) + 0.5
    y += 0.1 * rng.standard_normal(n)
    if not isinstance(loss, Squared):
        y = np.where(y + rng.standard_normal(n) > 0, 1.0, -1.0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return Problem(loss, penalty, Examples(rows, y, np.ones(n)), fit_intercept, d), X, y


def run(problem, order, name, eta0, *, schedule="bottou", decay=1.0, parts=1):
    solver = make_solver(problem, name, schedule, eta0, decay)
    state = solver.start()
    for part in np.array_split(order, parts):
        solver.sweep(part, state)
    return solver.solution(state)


def soft(w, threshold):
    return np.sign(w) * np.maximum(np.abs(w) - threshold, 0.0)


def naive(problem, X, order, eta0, *, decay, implicit, inverse_t):
    """Each step and each proximal step on all coordinates, at once."""
    loss, (_, y, _), penalty = problem.loss, problem.examples, problem.penalty
    lam = penalty.strong_convexity()
    if inverse_t:  # the bias is one more weight
        X = np.column_stack([X, np.ones(len(X))])
    damping = float(problem.fit_intercept and not inverse_t)
    w, b = np.zeros(X.shape[1]), 0.0
    for t, i in enumerate(order):
        eta = 1 / (lam * (t + 1)) if inverse_t else eta0 / (1 + decay * penalty.strength * eta0 * t)
        if implicit:
            L = 1 + eta * lam
            length = X[i] @ X[i] / L + damping
            g = implicit_derivative(loss, X[i] @ w / L + b, y[i], eta * length) if length else 0.0
            w = (w - eta * g * X[i]) / L
        else:
            g = derivative(loss, X[i] @ w + b, y[i])
            w = w - eta * (g * X[i] + lam * w)
        w, b = soft(w, eta * penalty.strength * penalty.l1_ratio), b - eta * damping * g
    return (w[: problem.n_features], w[-1]) if inverse_t else (w, b)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(Hinge(), marks=thorough, id="hinge"),
        pytest.param(Log(), id="log"),
        pytest.param(Squared(), marks=thorough, id="squared"),
    ],
)
@pytest.mark.parametrize("name", thorough_unless(lambda name: name == "implicit", PROXIMAL))
@given(
    seed=st.integers(0, 2**32 - 1),
    strength=st.sampled_from([1e-3, 0.1, 3.0]),
    l1_ratio=st.sampled_from([0.3, 1.0]),
    sparse=st.booleans(),
    inverse_t=st.booleans(),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_postponed_steps_equal_the_naive_recursion(
    name, loss, seed, strength, l1_ratio, sparse, inverse_t
):
    penalty = ElasticNet(strength, l1_ratio)
    inverse_t = inverse_t and l1_ratio < 1.0
    problem, X, _ = make_problem(
        loss, penalty, seed=seed, sparse=sparse, fit_intercept=inverse_t or not sparse
    )
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(60), 3))
    implicit = name == "implicit"
    expected = naive(problem, X, order, 0.4, decay=1.0, implicit=implicit, inverse_t=inverse_t)
    schedule = "inverse-t" if inverse_t else "bottou"
    for parts in (1, 7):  # nothing is owed between two sweeps
        found = run(problem, order, name, 0.4, schedule=schedule, parts=parts)
        scale = 1e-10 * (1 + abs(expected[0]).max())
        np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=scale)
        np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=scale)


@pytest.mark.parametrize("name", PROXIMAL)
def test_postponed_steps_are_taken_before_a_tiny_scale_is_multiplied_out(name):
    # η0 times the ridge is 1.2: within a dozen steps the scale is below every threshold.
    problem, X, _ = make_problem(Squared(), ElasticNet(3.0, 0.01), sparse=True)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(60), 3))
    implicit = name == "implicit"
    expected, _ = naive(problem, X, order, 0.4, decay=0.0, implicit=implicit, inverse_t=False)
    found, _ = run(problem, order, name, 0.4, decay=0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def converged(problem, name, *, epochs=4000):
    rng = np.random.default_rng(1)
    n = problem.examples.y.size
    order = np.concatenate([rng.permutation(n) for _ in range(epochs)])
    return run(problem, order, name, 0.1, decay=0.2)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", PROXIMAL)
def test_a_lasso_reaches_scikit_learns(name, sparse):
    problem, X, y = make_problem(Squared(), ElasticNet(0.2, 1.0), sparse=sparse)
    w, _ = converged(problem, name)
    peer = PeerLasso(alpha=0.2, fit_intercept=False, tol=1e-10).fit(X, y)
    assert 0 < np.count_nonzero(peer.coef_) < peer.coef_.size
    np.testing.assert_allclose(w, peer.coef_, rtol=0, atol=2e-3)
    assert objective(problem, w, 0.0) == pytest.approx(
        objective(problem, peer.coef_, 0.0), rel=2e-4
    )


@pytest.mark.parametrize("name", PROXIMAL)
def test_an_elastic_net_reaches_scikit_learns(name):
    problem, X, y = make_problem(Squared(), ElasticNet(0.3, 0.5), fit_intercept=True)
    w, b = converged(problem, name)
    peer = PeerNet(alpha=0.3, l1_ratio=0.5, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(w, peer.coef_, rtol=0, atol=2e-3)
    assert b == pytest.approx(peer.intercept_, abs=5e-3)


@pytest.mark.parametrize("name", PROXIMAL)
def test_l1_logistic_regression_reaches_scikit_learns(name):
    problem, X, y = make_problem(Log(), ElasticNet(0.05, 1.0))
    w, _ = converged(problem, name)
    peer = LogisticRegression(
        C=1 / (0.05 * y.size), l1_ratio=1.0, solver="saga", fit_intercept=False, tol=1e-10,
        max_iter=100_000,
    ).fit(X, y)  # fmt: skip
    (expected,) = peer.coef_
    assert 0 < np.count_nonzero(expected) < expected.size
    np.testing.assert_allclose(w, expected, rtol=0, atol=5e-3)


def test_the_objective_has_the_penalty_of_the_problem():
    problem, X, y = make_problem(Squared(), ElasticNet(0.2, 0.5))
    w = np.arange(8.0)
    expected = np.square(X @ w - y).mean() / 2 + 0.2 * (28.0 * 0.5 + 140.0 / 4)
    assert objective(problem, w, 0.0) == pytest.approx(expected, rel=1e-12)
    ridge = problem._replace(penalty=Ridge(0.2))
    best = minimize(lambda w: objective(ridge, w, 0.0), w).x
    exact = np.linalg.solve(X.T @ X / 60 + 0.2 * np.eye(8), X.T @ y / 60)
    np.testing.assert_allclose(best, exact, atol=1e-4)


class Box(NamedTuple):
    """A penalty that is neither quadratic nor an L1 norm."""

    strength: float
    has_kink = True


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in PROXIMAL])
def test_other_solvers_refuse_a_kink_and_name_those_that_do_not(name):
    problem, _, _ = make_problem(Squared(), Box(0.3))
    text = message(ValueError, make_solver, problem, name)
    assert repr(name) in text
    assert text.endswith("Box needs: use " + ", ".join(map(repr, PROXIMAL)))


# -------------------------------------------------------------------------------------- estimators


def test_a_lasso_of_proximal_steps():
    _, X, y = make_problem(Squared(), Ridge(0.0))
    options = {"solver": "implicit", "max_epochs": 1000, "random_state": 0, "decay": 0.2}
    model = LinearRegressor(alpha=0.2, l1_ratio=1.0, fit_intercept=False, **options).fit(X, y)
    peer = PeerLasso(alpha=0.2, fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=0.02)
    with pytest.raises(ValueError, match="proximal"):
        LinearRegressor(alpha=0.2, l1_ratio=1.0, solver="asgd").fit(X, y)


def test_one_vs_rest_on_threads_gives_the_bits_of_one_thread():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 6)), rng.integers(4, size=200)
    options = {"alpha": 0.01, "l1_ratio": 1.0, "solver": "sgd", "random_state": 0}
    one = LinearClassifier(**options).fit(X, y)
    two = LinearClassifier(**options, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
