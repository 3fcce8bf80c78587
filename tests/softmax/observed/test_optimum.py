"""Fits of many epochs, against optima that SciPy or proximal gradient steps find."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from tests.softmax.observed.helpers import (
    label_matrix,
    loss_and_slopes,
    mask_of,
    minimum,
    objective,
    objective_of,
    observed,
    one_hot,
    parts_of,
    sparse_rows,
)

KINDS = ["share", "one", "independent"]


def data(kind, seed=0, n=80, d=15, K=5):
    """Sparse rows and a matrix of labels that depend on them; single labels for `single`."""
    rng = np.random.default_rng(seed)
    X = sparse_rows(rng, n, d, 0.1)
    scores = X @ rng.standard_normal((d, K)) + rng.gumbel(size=(n, K))
    if kind == "single":
        y = np.where(np.arange(n) < K, np.arange(n), scores.argmax(axis=1))
        return X, y, one_hot(y, K)
    Y = np.maximum((scores > 1.5).astype(int), one_hot(scores.argmax(axis=1), K))
    return X, Y, Y


def best_by_scipy(X, Y, kind, alpha, mask, intercept=True):
    """The optimum of a ridge, by L-BFGS-B over the weights of the mask and the intercepts."""
    n, K = Y.shape
    m = int(mask.sum())

    def unpack(theta):
        W = np.zeros(mask.shape)
        W[mask] = theta[:m]
        return W, theta[m:] * intercept

    def f(theta):
        W, b = unpack(theta)
        _, slopes = loss_and_slopes(X @ W.T + b, Y, kind)
        slope = (slopes.T @ X / n)[mask] + alpha * theta[:m]
        return objective(W, b, X, Y, kind, alpha), np.append(slope, intercept * slopes.mean(axis=0))

    options = {"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(f, np.zeros(m + K), jac=True, method="L-BFGS-B", options=options)
    return unpack(found.x)


def label_weight(kind):
    return {} if kind == "single" else {"label_weight": kind}


def loss_of(kind):
    return "share" if kind == "single" else kind


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["single", *KINDS])
def test_a_ridge_reaches_the_optimum_of_scipy(kind, intercept):
    X, y, Y = data(kind)
    alpha = 0.01
    mask = mask_of(X, Y)
    assert not mask.all()
    best = best_by_scipy(X.toarray(), Y, loss_of(kind), alpha, mask, intercept)
    model = observed(
        alpha=alpha, max_epochs=400, fit_intercept=intercept, dtype="float64", **label_weight(kind)
    ).fit(X, y)
    W, b = parts_of(model)
    assert (W[~mask] == 0).all()
    assert (b != 0).any() == intercept
    least = objective(*best, X, Y, loss_of(kind), alpha)
    assert objective_of(model, X, Y, loss_of(kind)) <= 1.01 * least
    np.testing.assert_allclose(W, best[0], atol=0.2 * np.abs(best[0]).max())


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("kind", ["single", "independent"])
def test_an_elastic_net_reaches_the_optimum_and_has_its_zeros(kind, l1_ratio):
    X, y, Y = data(kind, seed=1)
    alpha = 0.02
    best = minimum(X, Y, loss_of(kind), alpha, l1_ratio)
    model = observed(
        alpha=alpha, l1_ratio=l1_ratio, max_epochs=400, dtype="float64", **label_weight(kind)
    ).fit(X, y)
    W, _ = parts_of(model)
    least = objective(*best, X, Y, loss_of(kind), alpha, l1_ratio)
    assert objective_of(model, X, Y, loss_of(kind)) <= 1.01 * least
    mask = mask_of(X, Y)
    zeros = mask & (best[0] == 0)
    assert zeros.sum() > 10
    largest = np.abs(best[0]).max()
    assert np.abs(W[zeros]).max() < 0.02 * largest
    assert (W[zeros] == 0).any() or kind == "independent"
    assert (W[np.abs(best[0]) > 0.1 * largest] != 0).all()


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_a_strong_l1_norm_leaves_no_weight(kind):
    X, y, Y = data(kind, seed=1)
    assert not minimum(X, Y, loss_of(kind), 1.0, 1.0)[0].any()
    model = observed(alpha=1.0, l1_ratio=1.0, max_epochs=400, **label_weight(kind)).fit(X, y)
    assert not parts_of(model)[0].any()


def test_the_two_references_agree():
    X, _, Y = data("independent", seed=2)
    for kind in KINDS:
        one = best_by_scipy(X.toarray(), Y, kind, 0.01, mask_of(X, Y))
        two = minimum(X, Y, kind, 0.01)
        np.testing.assert_allclose(one[0], two[0], atol=1e-3)
        np.testing.assert_allclose(one[1], two[1], atol=1e-3)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["share", "independent"])
def test_features_of_one_row_and_of_all_rows_pay_the_whole_penalty(kind, l1_ratio):
    rng = np.random.default_rng(3)
    n, K = 60, 3
    Y = label_matrix(rng, n, K, 0.2)
    X = np.zeros((n, 4))
    X[:, 0] = 1.0 + Y[:, 0] + 0.5 * rng.standard_normal(n)  # all rows
    X[7, 1] = 3.0  # one row
    X[20:25, 2] = 2.0  # five rows
    X[::2, 3] = 1.0 + Y[::2, 1]  # half of the rows
    rows = sp.csr_matrix(X)
    alpha = 0.02 if l1_ratio == 0.0 else 0.01
    W, b = minimum(X, Y, kind, alpha, l1_ratio)
    model = observed(
        alpha=alpha, l1_ratio=l1_ratio, label_weight=kind, max_epochs=500, dtype="float64"
    ).fit(rows, Y)
    least = objective(W, b, X, Y, kind, alpha, l1_ratio)
    assert objective_of(model, X, Y, kind) <= 1.005 * least
    found, _ = parts_of(model)
    for j in range(1, 4):
        size = np.abs(W[:, j]).sum()
        assert size > 0.01
        assert abs(np.abs(found[:, j]).sum() - size) <= 0.15 * size


def test_stored_zeros_pay_no_penalty():
    X, y, Y = data("single", seed=4)
    rng, dense, alpha = np.random.default_rng(0), X.toarray(), 0.03
    rows, columns = np.nonzero((dense != 0) | (rng.random(X.shape) < 0.5))
    stored = sp.csr_matrix((dense[rows, columns], (rows, columns)), shape=X.shape)
    assert stored.nnz > 2 * X.nnz
    model = observed(alpha=alpha, dtype="float64", max_epochs=400).fit(stored, y)
    least = objective(*minimum(X, Y, "share", alpha), X, Y, "share", alpha)
    assert objective_of(model, X, Y, "share") <= 1.01 * least


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_a_row_of_weight_2_is_a_row_twice(kind):
    X, y, Y = data(kind, seed=5)
    weight = np.where(np.arange(Y.shape[0]) % 3 == 0, 2.0, 1.0)
    alpha, loss = 0.02, loss_of(kind)
    W, b = minimum(X, Y, loss, alpha, weight=weight)
    settings = {"alpha": alpha, "max_epochs": 400, "dtype": "float64", **label_weight(kind)}
    model = observed(**settings).fit(X, y, sample_weight=weight)
    least = objective(W, b, X, Y, loss, alpha, weight=weight)
    assert objective_of(model, X, Y, loss, weight) <= 1.01 * least
    twice = np.repeat(np.arange(Y.shape[0]), weight.astype(int))
    other = observed(**settings).fit(X[twice], y[twice])
    assert objective_of(other, X, Y, loss, weight) <= 1.01 * least


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_rows_of_weight_0_add_no_pairs(kind):
    X, y, Y = data(kind, seed=6)
    weight = (np.arange(Y.shape[0]) % 2).astype(float)
    mask = mask_of(X[weight > 0], Y[weight > 0])
    assert mask.sum() < mask_of(X, Y).sum()
    settings = {"max_epochs": 10, **label_weight(kind)}
    model = observed(**settings).fit(X, y, sample_weight=weight)
    assert model.plan_["pairs"] == mask.sum()
    assert (parts_of(model)[0][~mask] == 0).all()


@pytest.mark.parametrize("min_count", [1, 2, 4])
def test_pairs_of_few_rows_have_no_weight(min_count):
    X, y, Y = data("single", seed=7)
    model = observed(min_pair_count=min_count, max_epochs=10).fit(X, y)
    mask = mask_of(X, Y, min_count)
    W, _ = parts_of(model)
    assert model.plan_["pairs"] == mask.sum() < mask.size
    np.testing.assert_array_equal(W != 0, mask)


def test_factors_multiply_the_penalty_of_columns():
    X, y, Y = data("single", seed=8)
    factors = np.where(np.arange(X.shape[1]) < 5, 10.0, 0.5)
    alpha = 0.01
    W, b = minimum(X @ sp.diags(factors**-0.5), Y, "share", alpha)
    model = observed(alpha=alpha, penalty_factor=factors, max_epochs=400, dtype="float64").fit(X, y)
    expected = objective(W, b, X @ sp.diags(factors**-0.5), Y, "share", alpha)
    found, bias = parts_of(model)
    value = objective(found, bias, X, Y, "share") + alpha / 2 * (factors * found**2).sum()
    assert value <= 1.01 * expected


def test_class_weights_multiply_those_of_rows():
    X, y, Y = data("single", seed=9)
    alpha, of_class = 0.01, {0: 3.0, 1: 1.0, 2: 0.5, 3: 1.0, 4: 1.0}
    weight = np.array([of_class[k] for k in y])
    W, b = minimum(X, Y, "share", alpha, weight=weight)
    model = observed(alpha=alpha, class_weight=of_class, max_epochs=400, dtype="float64").fit(X, y)
    least = objective(W, b, X, Y, "share", alpha, weight=weight)
    assert objective_of(model, X, Y, "share", weight) <= 1.01 * least


def test_columns_of_any_unit_are_scaled():
    """With scale=True alpha is in the units of scaled columns, so units do not matter."""
    X, y, _ = data("single", seed=10)
    X = X.toarray() + 1.0
    units = 10.0 ** np.linspace(-3, 3, X.shape[1])
    settings = {"scale": True, "dtype": "float64", "max_epochs": 30}
    one, two = (observed(**settings).fit(each, y) for each in (X, X * units + 7.0))
    np.testing.assert_allclose(
        one.predict_proba(X), two.predict_proba(X * units + 7.0), rtol=1e-3, atol=1e-4
    )
