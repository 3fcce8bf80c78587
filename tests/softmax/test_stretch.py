"""The best multiple of the weights, against a general line search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.softmax.stretch import (
    Judged,
    best_multiple,
    costs_too_much,
    some_rows,
    stretched_local,
)


def a_model(seed, n=60, K=5, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((K, d))
    y = (X @ W.T + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, y, W


@given(seed=st.integers(0, 1000), scale=st.floats(0.05, 3.0), ridge=st.floats(0.0, 0.2))
def test_the_multiple_is_that_of_a_line_search(seed, scale, ridge):
    X, y, W = a_model(seed)
    S = X @ (scale * W).T
    weight = np.random.default_rng(seed).random(y.size)

    def objective(c):
        loss = logsumexp(c * S, axis=1) - c * S[np.arange(y.size), y]
        return np.average(loss, weights=weight) + c * c * ridge

    judged = Judged(X, y, weight / weight.sum(), 1.0)
    best = minimize_scalar(objective, bounds=(1.0, 4.0), method="bounded").x
    assert best_multiple(S, judged, ridge) == pytest.approx(best, abs=0.06)


def test_few_rows_leave_a_doubt():
    X, y, W = a_model(0, n=2000)
    S = X @ (0.3 * W).T
    everyone = best_multiple(S, Judged(X, y, np.full(2000, 1 / 2000), 1.0), 0.0)
    some = Judged(X[:200], y[:200], np.full(200, 1 / 200), 0.1)
    cautious = best_multiple(S[:200], some, 0.0)
    assert 1.0 <= cautious < everyone


@given(
    z=st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=6),
    own=st.floats(-20.0, 20.0),
    c=st.floats(1.0, 4.0),
)
def test_stretched_local_variables_are_upper_bounds(z, own, c):
    u = np.array([own + np.logaddexp(0.0, logsumexp(z))])
    exact = c * own + np.logaddexp(0.0, logsumexp(c * np.array(z)))
    new = stretched_local(u, np.array([own]), c)
    assert new >= exact - 1e-6 * (1 + abs(exact))
    if len(z) == 1:
        np.testing.assert_allclose(new, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("n_classes", "rows", "costly"),
    [(10, 20_000, False), (150, 3495, False), (1623, 1292, False), (10_000, 209, False),
     (33_278, 200, True)],
)  # fmt: skip
def test_rows_to_judge_by_are_spread_and_few(n_classes, rows, costly):
    X = np.arange(100_000.0)[:, None]
    judged = some_rows(X, np.arange(100_000), np.ones(100_000), n_classes)
    assert judged.X.shape == (rows, 1)
    assert judged.weight.sum() == pytest.approx(1.0)
    assert judged.share == rows / 100_000
    np.testing.assert_array_equal(judged.X[:, 0], judged.codes)
    assert judged.codes[0] == 0
    assert judged.codes[-1] == 99_999
    assert costs_too_much(judged, n_classes) == costly


def test_separable_classes_end_with_a_small_loss():
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=400)
    X = np.eye(20)[y] + 0.1 * rng.standard_normal((400, 20))
    model = SoftmaxClassifier(random_state=0, learning_rate=10.0).fit(X, y)
    plain = SoftmaxClassifier(random_state=0, learning_rate=10.0, epoch_decay=0.9).fit(X, y)
    assert model.log_loss(X, y) < 0.1 * plain.log_loss(X, y)
