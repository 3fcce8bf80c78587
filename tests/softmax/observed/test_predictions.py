"""Predictions and metrics, against dense arithmetic and loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax
from sklearn.metrics import ndcg_score

from monro.softmax.metrics import ndcg_of_rows, propensities
from monro.softmax.observed.calibration import fit_sigmoid, judge
from monro.softmax.observed.pairs import LabelSets
from tests.softmax.observed.helpers import (
    label_matrix,
    loss_and_slopes,
    observed,
    parts_of,
    sparse_rows,
)

OFTEN = settings(max_examples=25, deadline=None, derandomize=True)


def fitted(seed, kind, K=12, **parameters):
    """A model of a few epochs, and rows it has not seen, some of them empty."""
    rng = np.random.default_rng(seed)
    n, d = 60, 9
    X, Y = sparse_rows(rng, n, d), label_matrix(rng, n, K, 0.15)
    if kind == "single":
        model = observed(max_epochs=3, **parameters).fit(X, Y.argmax(axis=1) * 0 + np.arange(n) % K)
    else:
        model = observed(max_epochs=3, label_weight=kind, **parameters).fit(X, Y)
    new = sparse_rows(rng, 17, d, 0.3)
    return model, new, label_matrix(rng, 17, K, 0.2), Y


def scores_of(model, X):
    W, b = parts_of(model)
    return X.toarray() @ W.T + b


def log_odds_of(model, X):
    a, c, least = model._fitted.weights.calibration
    p = np.clip((1 + scores_of(model, X)) / 2, least, 1 - least)
    return a * np.log(p / (1 - p)) + c


@pytest.mark.parametrize("kind", ["single", "share", "one"])
@OFTEN
@given(seed=st.integers(0, 2**32), fit_intercept=st.booleans())
def test_probabilities_are_a_softmax_of_all_classes(kind, seed, fit_intercept):
    model, X, _, _ = fitted(seed, kind, fit_intercept=fit_intercept)
    S = scores_of(model, X)
    expected = log_softmax(S, axis=1)
    np.testing.assert_allclose(model.decision_function(X), S, atol=1e-5)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(expected), atol=1e-6)
    labels, log_proba = model.predict_top_k(X, 4)
    rows = np.arange(X.shape[0])[:, None]
    np.testing.assert_allclose(log_proba, -np.sort(-expected, axis=1)[:, :4], atol=1e-5)
    np.testing.assert_allclose(log_proba, expected[rows, labels], atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), labels[:, 0])
    y = np.arange(X.shape[0]) % 12
    own = -expected[np.arange(y.size), y]
    np.testing.assert_allclose(model.log_loss(X, y), own.mean(), rtol=1e-5)
    measured = model.evaluate(X, y)
    np.testing.assert_allclose(measured["log_loss"], own.mean(), rtol=1e-5)
    np.testing.assert_allclose(measured["error"], (model.predict(X) != y).mean())


@OFTEN
@given(seed=st.integers(0, 2**32), calibrate=st.booleans())
def test_probabilities_of_independent_labels(seed, calibrate):
    model, X, Y, _ = fitted(seed, "independent")
    if calibrate:  # numbers far from those of so few rows
        weights = model._fitted.weights._replace(calibration=np.array([0.7, -0.4, 0.05]))
        model._fitted = model._fitted._replace(weights=weights)
    z = log_odds_of(model, X)
    P = expit(z)
    np.testing.assert_allclose(model.predict_proba(X), P, rtol=1e-4, atol=1e-6)
    labels, log_proba = model.predict_top_k(X, 5)
    rows = np.arange(X.shape[0])[:, None]
    np.testing.assert_allclose(log_proba, np.log(P)[rows, labels], rtol=1e-4, atol=1e-5)
    S = scores_of(model, X)
    best = -np.sort(-S, axis=1)[:, :5]
    np.testing.assert_allclose(S[rows, labels], best, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), labels[:, 0])
    losses = -(Y * np.log(P) + (1 - Y) * np.log1p(-P)).sum(axis=1)
    np.testing.assert_allclose(model.log_loss(X, Y), losses.mean(), rtol=1e-4)
    weight = np.random.default_rng(seed).uniform(0.1, 2, Y.shape[0])
    np.testing.assert_allclose(
        model.log_loss(X, Y, weight), np.average(losses, weights=weight), rtol=1e-4
    )


def test_a_dense_copy_of_independent_labels_predicts_the_same():
    model, X, Y, _ = fitted(3, "independent")
    proba, measured = model.predict_proba(X), model.evaluate(X, Y)
    model.densify()
    assert isinstance(model.coef_, np.ndarray)
    np.testing.assert_allclose(model.predict_proba(X), proba, rtol=1e-6)
    again = model.evaluate(X, Y)
    assert again.keys() == measured.keys()
    np.testing.assert_allclose(list(again.values()), list(measured.values()), rtol=1e-5)
    model.sparsify()
    np.testing.assert_allclose(model.predict_proba(X), proba, rtol=1e-6)
    assert model.evaluate(X, Y).keys() == measured.keys()


def test_a_single_label_of_a_row_is_a_set_of_one():
    model, X, _, _ = fitted(4, "independent")
    y = np.arange(X.shape[0]) % 12
    np.testing.assert_allclose(model.log_loss(X, y), model.log_loss(X, np.eye(12, dtype=int)[y]))


def metrics_by_loops(scores, Y, training, weight):
    """Precision, nDCG and propensity-scored precision at k, as their papers define them."""
    N = len(training)
    C, A, B = (np.log(N) - 1) * 2.5**0.55, 0.55, 1.5
    value = [1 + C * (sum(row[k] for row in training) + B) ** -A for k in range(Y.shape[1])]
    total, measured = sum(weight), {}
    for k in (1, 3, 5):
        precision = ndcg = gained = possible = 0.0
        for s, y, w in zip(scores, Y, weight, strict=True):
            best = np.argsort(-s, kind="stable")[:k]
            precision += w * sum(y[best]) / k
            gain = sum(y[c] / np.log2(2 + r) for r, c in enumerate(best))
            ndcg += w * gain / sum(1 / np.log2(2 + r) for r in range(min(k, sum(y))))
            gained += w * sum(value[c] for c in best if y[c])
            possible += w * sum(sorted((value[c] for c in np.flatnonzero(y)), reverse=True)[:k])
        measured[f"precision_at_{k}"] = precision / total
        measured[f"ndcg_at_{k}"] = ndcg / total
        measured[f"propensity_scored_precision_at_{k}"] = gained / possible
    return measured


@pytest.mark.parametrize("kind", ["share", "independent"])
@OFTEN
@given(seed=st.integers(0, 2**32), K=st.sampled_from([3, 12]), weighted=st.booleans())
def test_metrics_of_label_sets_are_those_of_loops(kind, seed, K, weighted):
    model, X, Y, training = fitted(seed, kind, K)
    weight = np.random.default_rng(seed).uniform(0.1, 2, len(Y)) if weighted else np.ones(len(Y))
    S = model.decision_function(X)
    measured = model.evaluate(X, sp.csr_matrix(Y), weight if weighted else None)
    for name, value in metrics_by_loops(S, Y, training, weight).items():
        np.testing.assert_allclose(measured[name], value, rtol=1e-6, err_msg=name)
    if K == 12:
        np.testing.assert_allclose(
            measured["ndcg_at_5"], ndcg_score(Y, S, k=5, sample_weight=weight), rtol=1e-6
        )


@pytest.mark.parametrize("kind", ["share", "independent"])
def test_rows_without_a_label_are_not_measured_nor_counted(kind):
    rng = np.random.default_rng(5)
    X, Y = sparse_rows(rng, 40, 8), label_matrix(rng, 40, 6)
    Y[::4] = 0
    kept = Y.any(axis=1)
    settings = {"label_weight": kind, "max_epochs": 3}
    model, other = observed(**settings).fit(X, Y), observed(**settings).fit(X[kept], Y[kept])
    assert model.evaluate(X, Y) == other.evaluate(X[kept], Y[kept])


def test_losses_of_a_fit_are_those_of_its_objective():
    """With tol also of the rows, after the epoch; `loss` is that before each step."""
    rng = np.random.default_rng(6)
    X, Y = sparse_rows(rng, 50, 8), label_matrix(rng, 50, 6)
    for kind, name in (("independent", "squared_hinge"), ("share", "log_loss")):
        model = observed(label_weight=kind, tol=0.0, max_epochs=5, dtype="float64").fit(X, Y)
        losses, _ = loss_and_slopes(scores_of(model, X), Y, kind)
        np.testing.assert_allclose(model.history_[-1][name], losses.mean(), rtol=1e-6)
        plain = observed(label_weight=kind, max_epochs=5, dtype="float64").fit(X, Y)
        assert [r["loss"] for r in plain.history_] == [r["loss"] for r in model.history_]


# ------------------------------------------------------------------------------------ small parts


@OFTEN
@given(seed=st.integers(0, 2**32), n=st.integers(3, 100_000))
def test_propensities(seed, n):
    counts = np.random.default_rng(seed).integers(0, n + 1, 5)
    c = (np.log(n) - 1) * 2.5**0.55
    expected = [1 / (1 + c * np.exp(-0.55 * np.log(m + 1.5))) for m in counts]
    np.testing.assert_allclose(propensities(counts, n), expected)


@OFTEN
@given(seed=st.integers(0, 2**32))
def test_ndcg_of_rows_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    Y, S = label_matrix(rng, 8, 7), rng.standard_normal((8, 7))
    hits = np.take_along_axis(Y, np.argsort(-S, axis=1)[:, :5], axis=1) > 0
    expected = [ndcg_score(Y[i : i + 1], S[i : i + 1], k=5) for i in range(8)]
    np.testing.assert_allclose(ndcg_of_rows(hits, Y.sum(axis=1), 5), expected)


@OFTEN
@given(seed=st.integers(0, 2**32), a=st.floats(0.3, 3), c=st.floats(-2, 2))
def test_the_sigmoid_is_the_best_of_its_neighbours(seed, a, c):
    rng = np.random.default_rng(seed)
    s = rng.standard_normal(200)
    y = rng.random(200) < expit(a * s + c)

    def loss(log_a, c):
        z = np.exp(log_a) * s + c
        return -(np.log(expit(np.where(y, z, -z)))).sum() + (log_a**2 + c**2) / 2

    found_a, found_c = fit_sigmoid(s, y)
    best = loss(np.log(found_a), found_c)
    for step in (1e-2, -1e-2):
        assert best <= loss(np.log(found_a) + step, found_c)
        assert best <= loss(np.log(found_a), found_c + step)


def test_strengths_are_judged_by_ndcg_and_calibrated_on_the_best_labels():
    model, X, Y, _ = fitted(7, "independent")
    weights, S = model._fitted.weights, scores_of(model, X)
    sets, targets = LabelSets.of_rows(sp.csr_array(Y)), np.arange(len(Y))
    loss, calibration = judge(weights, X, targets, sets, 0.02)
    expected = [1 - ndcg_score(Y[i : i + 1], S[i : i + 1], k=5) for i in range(len(Y))]
    np.testing.assert_allclose(loss, expected, atol=1e-6)
    best = np.argsort(-S, axis=1)[:, :10]
    p = np.clip((1 + np.take_along_axis(S, best, 1)) / 2, 0.02, 0.98)
    a, c = fit_sigmoid(np.log(p / (1 - p)).ravel(), np.take_along_axis(Y, best, 1).ravel() > 0)
    np.testing.assert_allclose(calibration, [a, c, 0.02], rtol=1e-3)
