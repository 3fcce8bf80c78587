"""The Gaussian posterior: against the Laplace approximation, and its steps against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special
from scipy.optimize import minimize

from monro import SoftmaxClassifier, load
from monro.links import LINKS
from monro.rows import as_rows
from monro.softmax.model import LogProbabilities, Weights
from monro.softmax.sampling.samplers import StratifiedClasses
from monro.variational.augment_reduce import (
    BatchGradient,
    make_model,
    new_augment_reduce_state,
)
from monro.variational.posterior import (
    AnalyticPosterior,
    SampledPosterior,
    Spread,
    make_posterior,
    move_spread,
    new_spread,
)
from tests.callbacks import killed_after
from tests.marks import thorough, thorough_unless
from tests.softmax.data import assert_same_bits, make_data
from tests.variational.helpers import take_batch

FIT = {
    "solver": "augment-reduce", "posterior": "gaussian", "alpha": 1e-3, "examples_per_step": 50,
    "classes_per_step": 3, "learning_rate": 0.2, "random_state": 0, "dtype": "float64",
}  # fmt: skip


by_link = pytest.mark.parametrize("link", thorough_unless(lambda link: link != "logistic", LINKS))


def make_choices(n, d, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X, W = rng.normal(size=(n, d)), rng.normal(size=(n_classes, d))
    return X, np.argmax(X @ W.T + rng.gumbel(size=(n, n_classes)), axis=1)


def laplace(X, y, n_classes, alpha):
    """Return the likeliest weights, centred, and the Laplace approximation's errors of these."""
    n, d = X.shape
    Z = np.column_stack([X, np.ones(n)])
    prior = np.append(np.full(d, alpha * n), 0.0)

    def objective(flat):
        W = flat.reshape(n_classes, d + 1)
        P = special.softmax(Z @ W.T, axis=1)
        gradient = (P - np.eye(n_classes)[y]).T @ Z + prior * W
        loss = -special.log_softmax(Z @ W.T, axis=1)[np.arange(n), y].sum()
        return loss + (prior * W**2).sum() / 2, gradient.ravel()

    W = minimize(objective, np.zeros(n_classes * (d + 1)), jac=True).x.reshape(n_classes, d + 1)
    P = special.softmax(Z @ W.T, axis=1)
    H = np.zeros((n_classes, d + 1, n_classes, d + 1))
    for k in range(n_classes):
        for j in range(n_classes):
            H[k, :, j] = Z.T @ (Z * (P[:, k] * ((k == j) - P[:, j]))[:, None])
        H[k, :, k] += np.diag(prior)
    covariance = np.linalg.pinv(H.reshape(W.size, W.size), rcond=1e-10)
    centring = np.kron(np.eye(n_classes) - 1 / n_classes, np.eye(d + 1))
    errors = np.sqrt(np.diag(centring @ covariance @ centring)).reshape(W.shape)
    return W - W.mean(axis=0), errors


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_errors_are_those_of_laplace_but_for_the_factorisation(n_classes):
    """Noise and weights are independent under q: errors are too small, by a factor of up to √2 for
    many classes and of 1 for two classes, and by what correlations add."""
    X, y = make_choices(2000, 3, n_classes)
    model = SoftmaxClassifier(**FIT, max_epochs=60).fit(X, y)
    coef, errors = laplace(X, y, n_classes, FIT["alpha"])
    table = model.summary()
    found = table.coefficient.reshape(n_classes, 4)[:, [1, 2, 3, 0]]
    ratio = table.std_error.reshape(n_classes, 4)[:, [1, 2, 3, 0]] / errors
    assert abs(found - coef).max() < 1.5 * errors.max()
    assert ratio.min() > 0.5
    assert ratio.max() < 1.1
    assert table.name[:2] == ["0: intercept", "0: x0"]


@by_link
def test_more_rows_make_smaller_errors(link):
    errors = []
    for n in (300, 4800):
        X, y = make_choices(n, 2, 3)
        model = SoftmaxClassifier(**FIT, link=link, max_epochs=30).fit(X, y)
        errors.append(model.coef_std_.mean())
    assert 2.5 < errors[0] / errors[1] < 5.5


@by_link
@pytest.mark.parametrize("form", [np.asarray, pytest.param(sp.csr_matrix, marks=thorough)])
def test_a_step_of_the_spread_is_the_gradient(link, form):
    """The gradient of the bound in σ, for the draws that were made, by differences."""
    rng = np.random.default_rng(0)
    N, D, K, m = 5, 3, 4, 2
    X, y = rng.normal(size=(N, D)), rng.integers(K, size=N).astype(np.int32)
    W, b = rng.normal(size=(K, D)), rng.normal(size=K)
    gamma = rng.normal(size=(K, D)) - 2.0
    spread = Spread(gamma, rng.normal(size=K) - 2.0, np.zeros((K, D)), np.zeros(K))
    batch = np.arange(N)
    drawn = StratifiedClasses(K, m, K, "float64").draw(batch, y, rng)
    model = make_model(link)
    draws = model.draw(N, rng)
    draws[:, 1] = draws[:, 0]  # one draw of the noise for both steps
    normal = rng.standard_normal((N, m + 1))

    def bound(spread):
        posterior = make_posterior(link, form(X), spread, N, m)
        if isinstance(posterior, SampledPosterior):
            posterior.normal[:] = normal
        memory = new_augment_reduce_state(model, N, b.size, W, b)
        memory.location[:] = 3.0
        gradient = BatchGradient(np.zeros((K, D)), np.zeros(K))
        value = take_batch(
            model, as_rows(form(X)), y, np.ones(N), batch, drawn, draws, 10**12, W, b,
            memory, gradient, posterior, np.empty(m),
        )  # fmt: skip
        return value, posterior

    _, posterior = bound(spread)
    assert isinstance(posterior, AnalyticPosterior if link == "softmax" else SampledPosterior)
    sigma = np.log1p(np.exp(gamma))
    for k, j in [(0, 0), (1, 2), (3, 1)]:
        up, down = gamma.copy(), gamma.copy()
        up[k, j] += 1e-5
        down[k, j] -= 1e-5
        rise = bound(spread._replace(gamma=up))[0] - bound(spread._replace(gamma=down))[0]
        expected = rise / 2e-5 / special.expit(gamma[k, j])
        actual = -posterior.precision[k, j] * sigma[k, j]
        assert actual == pytest.approx(expected, rel=1e-5, abs=1e-8)

    moved, squares, V = gamma.ravel().copy(), np.zeros(K * D), np.empty(K * D)
    precision = posterior.precision.ravel()
    move_spread(moved, precision.copy(), squares, 0.1, True, 2.0, V)
    s = sigma.ravel()
    g = (1 / s - (2.0 + precision) * s) * special.expit(gamma.ravel())
    np.testing.assert_allclose(moved, gamma.ravel() + 0.1 * g / (1 + abs(g)))
    np.testing.assert_allclose(V, np.log1p(np.exp(moved)) ** 2)


def test_the_initial_spread_is_from_the_curvature_at_the_frequencies():
    X, y = make_choices(500, 2, 3)
    counts = np.bincount(y)
    spread = new_spread(X, np.ones(500), counts, 16, 0.01)
    p = counts / 500
    expected = 1 / np.sqrt(5.0 + np.outer(p * (1 - p) + 1 / 500, (X**2).sum(axis=0)))
    np.testing.assert_allclose(np.log1p(np.exp(spread.gamma[:3])), expected)


@pytest.mark.parametrize("link", thorough_unless(lambda link: link == "softmax", LINKS))
def test_probabilities_are_means_over_the_posterior(link, tmp_path):
    X, y = make_data(n=150)
    model = SoftmaxClassifier(**FIT | {"alpha": 0.1}, link=link, max_epochs=5).fit(X, y)
    rng = np.random.default_rng(0)
    W, (sigma, bias_sigma) = model._fitted.weights, model._fitted.weights.spread
    mean = np.zeros((150, 4))
    for _ in range(300):
        coef = W.W[W.slots] + sigma * rng.standard_normal(sigma.shape)
        bias = W.bias[W.slots] + bias_sigma * rng.standard_normal(4)
        drawn = Weights(coef, bias, np.ones(4), np.arange(4))
        mean += (
            np.exp(LogProbabilities(drawn, X, link).of_all(X @ coef.T + bias, slice(None))) / 300
        )
    np.testing.assert_allclose(model.predict_proba(X), mean, atol=0.07)
    assert abs(model.predict_proba(X).sum(axis=1) - 1).max() < 1e-9
    np.testing.assert_allclose(model.predict_proba(X[:7]), model.predict_proba(X)[:7])
    of_label = mean[np.arange(150), np.searchsorted(model.classes_, y)]
    assert model.log_loss(X, y) == pytest.approx(-np.log(of_label).mean(), abs=0.03)
    model.save(tmp_path / "model")
    same = load(tmp_path / "model")
    np.testing.assert_array_equal(same.coef_std_, model.coef_std_)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert model.intercept_std_.shape == (4,)


def test_an_interrupted_fit_resumes_with_the_same_bits(tmp_path):
    X, y = make_data(n=200)
    parameters = FIT | {"max_epochs": 5, "link": "probit"}
    path = tmp_path / "checkpoint"
    killed_after(1, SoftmaxClassifier(**parameters), X, y, path)
    resumed = SoftmaxClassifier(**parameters).fit(X, y, checkpoint=path)
    whole = SoftmaxClassifier(**parameters).fit(X, y)
    assert_same_bits(resumed, whole)
    assert resumed.coef_std_.tobytes() == whole.coef_std_.tobytes()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"posterior": "cauchy"}, "posterior='cauchy': choose one of 'gaussian'"),
        ({"posterior": "gaussian"}, "is for solver='augment-reduce'"),
        ({"posterior": "gaussian", "solver": "augment-reduce"}, "needs a prior: give alpha > 0"),
    ],
)
def test_invalid_combinations_raise(parameters, words):
    X, y = make_data(n=20)
    with pytest.raises(ValueError, match=words):
        SoftmaxClassifier(alpha=0.0, **parameters).fit(X, y)
    model = SoftmaxClassifier(alpha=0.0, max_epochs=1).fit(X, y)
    with pytest.raises(AttributeError, match="there is no posterior"):
        model.coef_std_  # noqa: B018
    with pytest.raises(AttributeError, match="there is no posterior"):
        model.summary()
