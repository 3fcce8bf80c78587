"""The maximum-likelihood reference against scikit-learn, and the stochastic rules against it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from monro.blocks import n_blocks
from monro.fitting.run import LabelledRows
from monro.softmax.kernel.state import new_state
from monro.softmax.metrics import evaluate
from monro.softmax.model import Weights
from monro.softmax.plan import Plan
from monro.softmax.sampling.registry import SamplerInputs, make_sampler
from monro.softmax.training.lbfgs import fit_lbfgs
from monro.softmax.training.monitoring import sample_for_loss
from monro.softmax.training.problem import in_precision, make_problem
from monro.softmax.training.trainer import SoftmaxTrainer
from tests.marks import thorough
from tests.softmax.helpers import read


def make_data(rng, n=200, d=5, K=4):
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal((d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def fit(X, y, weight, alpha, *, fit_intercept=True, start=None, max_epochs=5000):
    K = y.max() + 1
    history = []
    W, b = fit_lbfgs(
        X,
        y,
        weight,
        K,
        alpha=alpha,
        fit_intercept=fit_intercept,
        max_epochs=max_epochs,
        tol=None,
        start=start or (np.zeros((X.shape[1], K)), np.zeros(K)),
        history=history,
    )
    return W.T, b, history


def mean_loss(W, b, X, y, weight):
    weights = Weights(W, b, np.ones(b.size), np.arange(b.size))
    return evaluate(weights, X, y, weight)["log_loss"]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 1e-3])
@pytest.mark.parametrize("sparse", [True, False])
def test_it_is_scikit_learns_logistic_regression(sparse, alpha, fit_intercept):
    rng = np.random.default_rng(0)
    X, y = make_data(rng)
    X = sp.csr_matrix(X * (rng.random(X.shape) < 0.6)) if sparse else X
    weight = 0.3 + rng.random(y.size)
    weight *= y.size / weight.sum()
    W, b, history = fit(X, y, weight, alpha, fit_intercept=fit_intercept)
    peer = LogisticRegression(
        C=1 / (alpha * y.size), fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000
    ).fit(X, y, sample_weight=weight)

    np.testing.assert_allclose(W, peer.coef_, rtol=0, atol=1e-4)
    shift = b - b.mean()  # a constant added to all intercepts changes nothing
    np.testing.assert_allclose(shift, peer.intercept_ - np.mean(peer.intercept_), rtol=0, atol=1e-4)
    ours = mean_loss(W, b, X, y, weight)
    theirs = mean_loss(peer.coef_, np.broadcast_to(peer.intercept_, 4), X, y, weight)
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert history[-1]["loss"] == pytest.approx(ours + alpha / 2 * (W**2).sum(), abs=1e-8)
    assert [record["epoch"] for record in history] == list(range(1, len(history) + 1))
    assert fit_intercept or not b.any()


def test_it_continues_from_a_start():
    rng = np.random.default_rng(1)
    X, y = make_data(rng)
    W, b, history = fit(X, y, np.ones(y.size), 0.01)
    W2, _, again = fit(X, y, np.ones(y.size), 0.01, start=(W.T, b))
    assert len(again) < len(history) / 3
    np.testing.assert_allclose(W2, W, atol=1e-5)
    assert len(fit(X, y, np.ones(y.size), 0.01, max_epochs=3)[2]) == 3


# -------------------------------------------------------- the stochastic rules approach the optimum


def train(X, y, plan, epochs):
    K = y.max() + 1
    rows = LabelledRows(X, y, np.ones(y.size))
    problem = make_problem(*in_precision(X, y, plan.dtype), y, rows.weight, np.arange(K))
    state = new_state(False, K, n_blocks(K), X.shape[1], y.size, plan.dtype)
    rng = np.random.default_rng(0)
    sampler = make_sampler(SamplerInputs(plan, X, problem.y, problem.counts, rng))
    sample = sample_for_loss(rows, K)
    with SoftmaxTrainer(problem, plan, sampler, state, sample, rng=rng) as trainer:
        for _ in range(epochs):
            trainer.epoch()
        return read(trainer.state, K)


@thorough
@pytest.mark.parametrize(
    ("solver", "formulation", "sampling", "classes", "eta0", "gap"),
    [
        ("exact", "difference", "all", 5, 0.3, 1e-4),
        ("implicit", "difference", "uniform", 1, 3.0, 0.01),
        ("implicit", "raman", "uniform", 3, 3.0, 0.005),
        ("umax", "difference", "uniform", 1, 0.3, 0.01),
    ],
)
def test_many_epochs_approach_the_optimum(solver, formulation, sampling, classes, eta0, gap):
    rng = np.random.default_rng(2)
    X, y = make_data(rng, n=120, d=3, K=5)
    alpha = 0.01
    _, _, history = fit(X, y, np.ones(y.size), alpha)
    plan = Plan(
        solver=solver,
        link="softmax",
        posterior=None,
        formulation=formulation,
        sampling=sampling,
        examples=1,
        classes=classes,
        eta0=eta0,
        epochs=300,
        exact_epochs=0,
        decay=0.98,
        delta=1.0,
        radius=None,
        alpha=alpha,
        damping=1.0,
        stiffness=1.0,
        dtype="float64",
    )
    model = train(X, y, plan, 300)
    reached = mean_loss(model.W, model.b, X, y, None) + alpha / 2 * (model.W**2).sum()
    optimum = history[-1]["loss"]
    assert optimum <= reached + 1e-9
    assert reached <= optimum + gap
