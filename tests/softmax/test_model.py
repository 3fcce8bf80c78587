"""Scores of models in every layout, in chunks, and the best classes."""

import numpy as np
import pytest
import scipy.sparse as sp

from monro.softmax import model as model_module
from monro.softmax.model import chunked, log_normaliser, scores, top_k
from tests.softmax.helpers import LAYOUTS, weights_in_layout


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sparse_rows", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_are_computed_in_double_whatever_the_layout(layout, sparse_rows, dtype):
    rng = np.random.default_rng(0)
    weights, W, b = weights_in_layout(rng, 37, 6, layout, dtype)
    X = (rng.standard_normal((9, 6)) * (rng.random((9, 6)) < 0.6)).astype(dtype)
    S = scores(weights, sp.csr_matrix(X) if sparse_rows else X)
    assert type(S) is np.ndarray
    assert S.dtype == np.float64
    np.testing.assert_allclose(S, X.astype(float) @ W.T + b, rtol=0, atol=1e-12)


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
    monkeypatch.setattr(model_module, "_CHUNK_SCORES", 70)
    rng = np.random.default_rng(4)
    weights, W, b = weights_in_layout(rng, 12, 3, "class")
    X = rng.standard_normal((23, 3))
    parts = list(chunked(weights, X, lambda S, rows: (rows, S), n_jobs))
    assert [rows for rows, _ in parts] == [slice(a, min(a + 5, 23)) for a in range(0, 23, 5)]
    np.testing.assert_allclose(np.concatenate([S for _, S in parts]), X @ W.T + b, atol=1e-12)


def test_a_class_major_matrix_is_converted_part_by_part(monkeypatch):
    monkeypatch.setattr(model_module, "CHUNK_CLASSES", 16)
    rng = np.random.default_rng(5)
    weights, W, b = weights_in_layout(rng, 37, 4, "class", "float32")
    X = rng.standard_normal((5, 4))
    np.testing.assert_allclose(scores(weights, X), X @ W.T + b, rtol=0, atol=1e-12)
