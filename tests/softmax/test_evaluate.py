"""The evaluator against scikit-learn's metrics and brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss, top_k_accuracy_score, zero_one_loss

from monro.softmax import evaluate as evaluator
from monro.softmax.evaluate import Weights, chunked, evaluate, log_normaliser, losses, scores, top_k
from monro.softmax.layout import LANES, n_blocks


def make_model(rng, K, d, layout, dtype="float64"):
    """Return weights in a layout, slots permuted and scaled; and the same as plain arrays."""
    W, b = rng.standard_normal((K, d)), rng.standard_normal(K)
    W[rng.random((K, d)) < 0.3] = 0.0
    W, b = W.astype(dtype).astype(float), b.astype(dtype).astype(float)
    if layout == "sparse":
        sparse = sp.csr_matrix(W.astype(dtype))
        return Weights(sparse, np.ones(K, dtype), b.astype(dtype), np.arange(K)), W, b
    size = LANES * n_blocks(K)
    slots = rng.permutation(K)
    scale = 2.0 ** rng.integers(-3, 4, size)
    rows, bias = rng.standard_normal((size, d)), np.full(size, -1e30)  # where no class is: anything
    rows[slots], bias[slots] = W / scale[slots, None], b
    if layout == "block":
        rows = rows.reshape(-1, LANES, d).transpose(0, 2, 1)
    rows = np.ascontiguousarray(rows, dtype)
    return Weights(rows, scale.astype(dtype), bias.astype(dtype), slots), W, b


LAYOUTS = ["block", "class", "sparse"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sparse_rows", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_are_computed_in_double_whatever_the_layout(layout, sparse_rows, dtype):
    rng = np.random.default_rng(0)
    weights, W, b = make_model(rng, 37, 6, layout, dtype)
    X = (rng.standard_normal((9, 6)) * (rng.random((9, 6)) < 0.6)).astype(dtype)
    S = scores(weights, sp.csr_matrix(X) if sparse_rows else X)
    assert type(S) is np.ndarray
    assert S.dtype == np.float64
    np.testing.assert_allclose(S, X.astype(float) @ W.T + b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 22])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_metrics_are_scikit_learns(monkeypatch, n_jobs, chunk, weighted):
    monkeypatch.setattr(evaluator, "_CHUNK", chunk)
    rng = np.random.default_rng(1)
    K, n = 12, 80
    weights, W, b = make_model(rng, K, 5, "block")
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
def test_a_nearly_perfect_model_is_told_from_a_softmax_applied_twice(layout):
    rng = np.random.default_rng(2)
    K = 50
    weights, W, b = make_model(rng, K, 6, layout)
    X = 100 * np.linalg.qr(rng.standard_normal((6, 6)))[0] @ rng.standard_normal((6, 200))
    X = X.T
    S = X @ W.T + b
    y = S.argmax(axis=1)
    sure = softmax(S, axis=1).max(axis=1) > 1 - 1e-12
    assert sure.sum() > 100
    found = evaluate(weights, X[sure], y[sure])
    # Probabilities taken for scores lie in [0, 1]: no loss is then below this.
    least = np.log(np.e + K - 1) - 1
    twice = losses(Weights(np.eye(K), np.ones(K), np.zeros(K), np.arange(K)), softmax(S, axis=1), y)
    assert twice.min() >= least - 1e-12
    assert found["log_loss"] < 1e-11 < least / 100
    assert found["error"] == found["top_5_error"] == 0
    assert found["calibration_error"] < 1e-11


def test_large_scores_do_not_overflow():
    S = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]])
    np.testing.assert_allclose(log_normaliser(S), [1e4, -1e4 + np.log(3)], rtol=1e-15)


def test_top_k_prefers_lower_columns_among_equals():
    rng = np.random.default_rng(3)
    S = rng.integers(4, size=(50, 9)).astype(float)
    for k in (1, 3, 8, 9, 12):
        expected = np.lexsort((np.tile(np.arange(9), (50, 1)), -S), axis=1)[:, :k]
        np.testing.assert_array_equal(top_k(S, k), expected)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_chunks_come_in_order_and_cover_all_rows(monkeypatch, n_jobs):
    monkeypatch.setattr(evaluator, "_CHUNK", 70)
    rng = np.random.default_rng(4)
    weights, W, b = make_model(rng, 12, 3, "class")
    X = rng.standard_normal((23, 3))
    parts = list(chunked(weights, X, lambda S, rows: (rows, S), n_jobs))
    assert [rows for rows, _ in parts] == [slice(a, min(a + 5, 23)) for a in range(0, 23, 5)]
    np.testing.assert_allclose(np.concatenate([S for _, S in parts]), X @ W.T + b, atol=1e-12)


def test_a_class_major_matrix_is_converted_part_by_part(monkeypatch):
    monkeypatch.setattr(evaluator, "_CLASSES", 7)
    rng = np.random.default_rng(5)
    weights, W, b = make_model(rng, 37, 4, "class", "float32")
    X = rng.standard_normal((5, 4))
    np.testing.assert_allclose(scores(weights, X), X @ W.T + b, rtol=0, atol=1e-12)
