"""One-vs-each and the exact softmax with the adaptive steps of paper 001, against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit, softmax

from monro import SoftmaxClassifier, load
from monro.blocks import MASKED_SCORE
from monro.variational.baselines import OneVsEachModel
from tests.marks import thorough
from tests.softmax.data import ADAPTIVE, make_data, parts_of

OFTEN = settings(max_examples=25, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)
BASELINES = ("ove-adaptive", "exact-adaptive")


def one_vs_each(z, c):
    """Eq. 10 with importance weights c: Σ c log σ(s_y - s_k), z = s_k - s_y."""
    return c @ log_expit(-z)


@pytest.mark.parametrize(
    ("dtype", "digits"), [pytest.param("float64", 1e-9, marks=thorough), ("float32", 5e-5)]
)
@given(
    scores=st.lists(st.floats(-40, 40), min_size=1, max_size=20),
    left_out=st.integers(0, 3),
    seed=SEEDS,
)
@OFTEN
def test_one_vs_each_is_a_weighted_sum_of_log_sigmoids(dtype, digits, scores, left_out, seed):
    rng = np.random.default_rng(seed)
    z = np.array(scores)
    c = 1 + 10 * rng.random(z.size)
    where = rng.permutation(z.size + left_out)[: z.size]
    padded, log_c = np.full(z.size + left_out, MASKED_SCORE), np.zeros(z.size + left_out)
    padded[where], log_c[where] = z, np.log(c)

    g, g_again = padded.astype(dtype), padded.astype(dtype)
    log_c = log_c.astype(dtype)
    model = OneVsEachModel()
    value = model.local_step(g, log_c, None, 0, 0.5, 0.1, 0.0)
    none = model.local_step(g_again, log_c, None, 0, 0.5, 0.2, 0.0)

    # An eighth of the examples count for all; log(1 + e) is less exact for small e.
    assert value == pytest.approx(8 * one_vs_each(z, c), rel=digits, abs=0.16 * digits * c.sum())
    assert none == 0.0
    np.testing.assert_array_equal(g, g_again)
    expected = np.zeros(padded.size)
    expected[where] = c * expit(z)
    np.testing.assert_allclose(g, expected, rtol=digits, atol=1e-30)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), SEEDS)
@OFTEN
def test_one_vs_each_moves_along_its_bounds_gradient(scores, seed):
    z = np.array(scores)
    c = 1 + 10 * np.random.default_rng(seed).random(z.size)
    g = z.copy()
    OneVsEachModel().local_step(g, np.log(c), None, 1, 0.5, 0.0, 0.0)
    slopes = approx_fprime(z, one_vs_each, 1e-7, c)
    np.testing.assert_allclose(g, -slopes, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("solver", BASELINES)
@pytest.mark.parametrize("form", [np.asarray, pytest.param(sp.csr_matrix, marks=thorough)])
def test_two_steps_on_all_rows_and_classes(solver, form):
    """The gradient of all rows, and the step sizes of the paper's section 4."""
    X, y = make_data(n=60)
    labels = np.eye(4)[y]
    theta, squares = np.zeros((4, 6)), np.zeros((4, 6))
    rows = np.c_[X, np.ones(60)]
    for t in (1, 2):
        S = rows @ theta.T
        if solver == "exact-adaptive":
            g = labels - softmax(S, axis=1)
        else:
            other = (1 - labels) * expit(S - S[np.arange(60), y][:, None])
            g = labels * other.sum(axis=1)[:, None] - other
        G = g.T @ rows
        squares = G**2 if t == 1 else 0.1 * G**2 + 0.9 * squares
        theta += 0.02 / np.sqrt(t) * G / (1 + np.sqrt(squares))
    classes = {} if solver == "exact-adaptive" else {"classes_per_step": 3}
    model = SoftmaxClassifier(
        solver=solver,
        init="zero",
        alpha=0.0,
        max_epochs=2,
        dtype="float64",
        random_state=0,
        **classes,
    ).fit(form(X), y)
    coef, intercept = parts_of(model)
    np.testing.assert_allclose(np.c_[coef, intercept], theta, rtol=1e-6)


@pytest.mark.parametrize("solver", BASELINES)
def test_the_loss_in_the_history_estimates_the_bound(solver, tmp_path):
    """At weights that hardly move; every 64th row differs, as in data with a period."""
    X, y = make_data(n=4000)
    X[::64] *= 30.0
    model = SoftmaxClassifier(
        solver=solver, alpha=0.0, learning_rate=1e-9, max_epochs=30, random_state=0
    ).fit(X, y)
    mean = np.mean([-record["loss"] for record in model.history_])
    assert mean == pytest.approx(model.bound(X, y), rel=0.02)
    likelihood = -model.log_loss(X, y)
    if solver == "ove-adaptive":
        assert model.bound(X, y) < likelihood
    else:
        assert model.bound(X, y) == pytest.approx(likelihood)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").bound(X, y) == pytest.approx(model.bound(X, y))


def test_all_methods_start_from_the_same_weights():
    X, y = make_data(n=40)
    still = {"alpha": 0.0, "learning_rate": 1e-12, "max_epochs": 1, "random_state": 3}
    models = [SoftmaxClassifier(solver=solver, **still).fit(X, y) for solver in ADAPTIVE]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-6)
    assert np.std(models[0].coef_) == pytest.approx(0.1, rel=0.5)
