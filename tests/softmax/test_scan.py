"""The pass over all classes, against a full sort of NumPy's scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from monro.softmax import scan as scan_module
from monro.softmax.metrics import evaluate, losses
from monro.softmax.model import Weights
from monro.softmax.scan import label_scores, scan
from tests.marks import thorough
from tests.softmax.data import fitted, make_data
from tests.softmax.helpers import LAYOUTS, in_layout, weights_in_layout

OFTEN = settings(max_examples=60, deadline=None, derandomize=True)
# 10,000 models and rows.
AT_LENGTH = settings(max_examples=2000, deadline=None, derandomize=True)


def with_ties(seed, layout):
    """Return a model of a few whole numbers, its rows, and their scores: many are equal."""
    rng = np.random.default_rng(seed)
    K, D, n = (int(rng.integers(1, most)) for most in (80, 6, 11))
    W, b = rng.integers(-2, 3, (K, D)).astype(np.float64), rng.integers(-1, 2, K).astype(np.float64)
    X = rng.integers(-1, 2, (n, D)).astype(np.float64)
    return in_layout(rng, W, b, layout), X, X @ W.T + b


def check(seed, layout, sparse):
    weights, X, S = with_ties(seed, layout)
    K, rng = S.shape[1], np.random.default_rng(seed)
    k = int(rng.integers(1, K + 2))
    found = scan(weights, sp.csr_matrix(X) if sparse else X, k, n_jobs=2)
    order = np.lexsort((np.broadcast_to(np.arange(K), S.shape), -S), axis=1)[:, :k]
    np.testing.assert_array_equal(found.codes, order)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(S, order, axis=1))
    np.testing.assert_allclose(found.log_normaliser, logsumexp(S, axis=1), rtol=1e-13, atol=1e-13)


@OFTEN
@given(seed=st.integers(0, 2**32), layout=st.sampled_from(LAYOUTS), sparse=st.booleans())
def test_the_best_classes_are_those_of_a_full_sort(seed, layout, sparse):
    check(seed, layout, sparse)


@thorough
@AT_LENGTH
@given(seed=st.integers(0, 2**32), layout=st.sampled_from(LAYOUTS), sparse=st.booleans())
def test_the_best_classes_of_ten_thousand_rows_are_those_of_a_full_sort(seed, layout, sparse):
    check(seed, layout, sparse)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_the_rows_and_classes_are_merged(monkeypatch, layout, sparse):
    rng = np.random.default_rng(1)
    weights, W, b = weights_in_layout(rng, 100, 6, layout)
    X = rng.standard_normal((23, 6))
    rows = sp.csr_matrix(X) if sparse else X
    whole = scan(weights, rows, 7)
    monkeypatch.setattr(scan_module, "_BATCH_ROWS", 5)
    monkeypatch.setattr(scan_module, "_BATCH_SCORES", 80)
    monkeypatch.setattr(scan_module, "CHUNK_CLASSES", 16)
    parts = [scan(weights, rows, 7, n_jobs) for n_jobs in (1, 3)]
    for one, other in zip(*parts, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(parts[0].codes, whole.codes)
    np.testing.assert_allclose(parts[0].scores, whole.scores, rtol=1e-14)
    np.testing.assert_allclose(parts[0].log_normaliser, whole.log_normaliser, rtol=1e-14)
    np.testing.assert_allclose(whole.log_normaliser, logsumexp(X @ W.T + b, axis=1), rtol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_alone_have_the_scores_that_they_have_among_others(layout):
    # Of few rows with few of the features, weights are prefetched in another way.
    rng = np.random.default_rng(3)
    weights, W, b = weights_in_layout(rng, 70, 200, layout)
    X = rng.standard_normal((150, 200)) * (rng.random((150, 200)) < 0.02)
    rows = sp.csr_matrix(X)
    together = scan(weights, rows, 3)
    alone = [scan(weights, rows[[i]], 3) for i in range(150)]
    for whole, *parts in zip(together, *alone, strict=True):
        np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-13)
    np.testing.assert_allclose(together.log_normaliser, logsumexp(X @ W.T + b, axis=1), rtol=1e-13)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_of_labels(monkeypatch, layout, sparse):
    monkeypatch.setattr(scan_module, "_MOST_ENTRIES", 11)
    rng = np.random.default_rng(2)
    weights, W, b = weights_in_layout(rng, 37, 5, layout)
    X = rng.standard_normal((9, 5)) * (rng.random((9, 5)) < 0.6)
    row_of, codes = np.sort(rng.integers(9, size=40)), rng.integers(37, size=40)
    found = label_scores(weights, sp.csr_matrix(X) if sparse else X, row_of, codes)
    np.testing.assert_allclose(found, (X @ W.T + b)[row_of, codes], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sorted_biases", [1, 5, 1 << 12])
def test_few_sorted_biases_find_the_same_classes(monkeypatch, sorted_biases):
    monkeypatch.setattr(scan_module, "_FEWEST_BIASES", sorted_biases)
    for seed in range(30):
        check(seed, "sparse", sparse=True)


@pytest.mark.parametrize("height", [-60.0, -9.0, 0.0, 9.0, 60.0])
def test_the_normaliser_of_sparse_weights_where_differences_cancel(height):
    rng = np.random.default_rng(4)
    K, d = 50, 4
    W = np.full((K, d), height) * (rng.random((K, d)) < 0.9)
    b = 3.0 * rng.standard_normal(K)
    W[:2] = 0.0  # classes that no feature touches
    weights = in_layout(rng, W, b, "sparse")
    X = np.vstack([np.ones((1, d)), np.eye(d), np.zeros((1, d))])
    found = scan(weights, sp.csr_matrix(X), 3)
    S = X @ W.T + b
    np.testing.assert_allclose(found.log_normaliser, logsumexp(S, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.codes, np.argsort(-S, axis=1, kind="stable")[:, :3])
    weights = in_layout(rng, W[2:], b[2:], "sparse")  # all classes may be touched
    found = scan(weights, sp.csr_matrix(X))
    np.testing.assert_allclose(
        found.log_normaliser, logsumexp(S[:, 2:], axis=1), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("far", [900.0, -900.0])
def test_sparse_weights_whose_biases_are_far_apart(far):
    """Exponentials relative to the largest bias underflow; those relative to the score do not."""
    b = np.array([0.0, far, 1.0])
    W = np.array([[0.0], [-far], [0.0]])
    found = scan(in_layout(None, W, b, "sparse"), np.array([[1.0], [0.0], [2.0]]), 2)
    S = np.array([[1.0], [0.0], [2.0]]) @ W.T + b
    np.testing.assert_allclose(found.log_normaliser, logsumexp(S, axis=1), rtol=1e-13)
    np.testing.assert_array_equal(found.codes, np.argsort(-S, axis=1, kind="stable")[:, :2])


@pytest.mark.parametrize("dense", [True, False])
def test_losses_are_not_below_zero_and_ties_count_as_found(dense):
    rng = np.random.default_rng(6)
    K, d = 30, 20
    W = np.repeat(rng.standard_normal((1, d)), K, axis=0)  # all classes alike
    X = rng.standard_normal((50, d))
    y = rng.integers(K, size=50)
    rows = X if dense else sp.csr_matrix(X)
    alike = in_layout(rng, W, np.zeros(K), "class" if dense else "block")
    assert evaluate(alike, rows, y)["top_5_error"] == 0.0
    certain = in_layout(rng, 100 * rng.standard_normal((K, d)), np.zeros(K), "class")
    best = scan(certain, rows).codes[:, 0]
    assert losses(certain, rows, best).min() >= 0.0


def test_large_scores_do_not_overflow_and_small_ones_are_counted():
    W = np.array([[1e4], [1e4], [-1e4], [0.0]])
    weights = Weights(W, np.zeros(4), np.ones(4), np.arange(4))
    found = scan(weights, np.array([[1.0], [-1.0], [0.0]]))
    np.testing.assert_allclose(found.log_normaliser, [1e4 + np.log(2), 1e4, np.log(4)], rtol=1e-15)


@pytest.mark.parametrize("k", [3, 20])
def test_more_classes_than_a_scan_keeps_are_found_by_sorting(monkeypatch, k):
    X, y = make_data(n_classes=20)
    model = fitted(X, y)
    labels, log_proba = model.predict_top_k(X, k)
    monkeypatch.setattr("monro.softmax.predicting.MOST_BEST", 1)
    sorted_labels, sorted_log_proba = model.predict_top_k(X, k)
    np.testing.assert_array_equal(labels, sorted_labels)
    np.testing.assert_allclose(log_proba, sorted_log_proba, rtol=1e-12, atol=1e-13)
