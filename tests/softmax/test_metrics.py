"""Metrics against those of scikit-learn and brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss, top_k_accuracy_score, zero_one_loss

from monro.softmax import scan as scan_module
from monro.softmax.metrics import evaluate, losses
from monro.softmax.model import Weights
from tests.softmax.helpers import LAYOUTS, weights_in_layout


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("batch", [1, 30, 1 << 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_metrics_are_scikit_learns(monkeypatch, n_jobs, batch, weighted):
    monkeypatch.setattr(scan_module, "_BATCH_ROWS", batch)
    monkeypatch.setattr(scan_module, "_BATCH_SCORES", 1)
    rng = np.random.default_rng(1)
    K, n = 12, 80
    weights, W, b = weights_in_layout(rng, K, 5, "block")
    X = 0.7 * rng.standard_normal((n, 5))
    S = X @ W.T + b
    y = np.where(rng.random(n) < 0.6, S.argmax(axis=1), rng.integers(K, size=n))
    y[:K] = np.arange(K)
    weight = 0.2 + rng.random(n) if weighted else None
    found = evaluate(weights, sp.csr_matrix(X), y, weight, n_jobs)

    P = softmax(S, axis=1)
    assert found["log_loss"] == pytest.approx(log_loss(y, P, sample_weight=weight), rel=1e-12)
    wrong = zero_one_loss(y, S.argmax(axis=1), sample_weight=weight)
    assert found["error"] == pytest.approx(wrong, rel=1e-12)
    in_five = top_k_accuracy_score(y, S, k=5, sample_weight=weight)
    assert found["top_5_error"] == pytest.approx(1 - in_five, rel=1e-12)
    assert found["calibration_error"] == pytest.approx(calibration(P, y, weight), rel=1e-12)
    each = losses(weights, sp.csr_matrix(X), y, n_jobs)
    np.testing.assert_allclose(each, -log_softmax(S, axis=1)[np.arange(n), y], rtol=1e-11)


def calibration(P, y, weight):
    """Σ over 15 bins of the confidence of its share · |accuracy - mean confidence|."""
    weight = np.ones(len(y)) if weight is None else weight
    confidence, right = P.max(axis=1), P.argmax(axis=1) == y
    total = 0.0
    for k in range(15):
        inside = (confidence >= k / 15) & ((confidence < (k + 1) / 15) | (k == 14))
        if inside.any():
            w = weight[inside]
            gap = np.average(right[inside], weights=w) - np.average(confidence[inside], weights=w)
            total += w.sum() / weight.sum() * abs(gap)
    return total


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_nearly_perfect_model_is_distinguished_from_a_softmax_applied_twice(layout):
    rng = np.random.default_rng(2)
    K = 50
    weights, W, b = weights_in_layout(rng, K, 6, layout)
    X = 100 * np.linalg.qr(rng.standard_normal((6, 6)))[0] @ rng.standard_normal((6, 200))
    X = X.T
    S = X @ W.T + b
    y = S.argmax(axis=1)
    certain = softmax(S, axis=1).max(axis=1) > 1 - 1e-12
    assert certain.sum() > 100
    found = evaluate(weights, X[certain], y[certain])
    # Probabilities used as scores are in [0, 1], which bounds the loss from below.
    least = np.log(np.e + K - 1) - 1
    twice = losses(Weights(np.eye(K), np.zeros(K), np.ones(K), np.arange(K)), softmax(S, axis=1), y)
    assert twice.min() >= least - 1e-12
    assert found["log_loss"] < 1e-11 < least / 100
    assert found["error"] == found["top_5_error"] == 0
    assert found["calibration_error"] < 1e-11


@pytest.mark.parametrize("layout", LAYOUTS)
def test_losses_of_large_scores_and_of_empty_rows(layout):
    rng = np.random.default_rng(2)
    K, n = 37, 30
    weights, W, b = weights_in_layout(rng, K, 5, layout)
    X = 20.0 * rng.standard_normal((n, 5)) * (rng.random((n, 5)) < 0.6)
    y = rng.integers(K, size=n)
    expected = -log_softmax(X @ W.T + b, axis=1)[np.arange(n), y]

    found = losses(weights, sp.csr_matrix(X), y, 2)

    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
