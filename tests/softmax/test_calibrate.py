"""The multiple of all scores that rows held out want."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.data.embedded import next_words
from monro.softmax import calibrate
from monro.softmax.calibrate import multiplied, suited_multiple
from monro.softmax.evaluate import Weights, scores


def identity(n_classes):
    """Return a model whose scores are its input."""
    return Weights(np.eye(n_classes), np.ones(n_classes), np.zeros(n_classes), np.arange(n_classes))


def chosen_by(S, rng):
    """Return classes drawn from the softmax of the scores."""
    return (S + rng.gumbel(size=S.shape)).argmax(axis=1)


@pytest.mark.parametrize("truth", [0.5, 1.0, 1.3, 1.6, 3.0])
def test_it_is_the_multiple_the_labels_were_drawn_with_or_1(truth):
    rng = np.random.default_rng(0)
    S = rng.normal(size=(20_000, 7))
    c = suited_multiple(identity(7), S, chosen_by(truth * S, rng), np.ones(20_000))
    assert c == pytest.approx(max(1.0, truth), rel=0.05)


def test_it_is_the_minimum_of_the_loss(monkeypatch):
    monkeypatch.setattr(calibrate, "_DOUBT", 0.0)
    rng = np.random.default_rng(1)
    S, weight = rng.normal(size=(500, 5)), rng.random(500)
    y = chosen_by(1.7 * S, rng)

    def loss(c):
        return weight @ (logsumexp(c * S, axis=1) - c * S[np.arange(500), y])

    best = minimize_scalar(loss, bounds=(0.1, 4.0), method="bounded").x
    assert suited_multiple(identity(5), S, y, weight) == pytest.approx(best, rel=2e-3)


@given(st.integers(1, 40), st.integers(2, 6), st.floats(0.01, 100), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_it_never_makes_these_rows_lose_more(n, k, size, seed):
    rng = np.random.default_rng(seed)
    S, y, weight = size * rng.normal(size=(n, k)), rng.integers(k, size=n), 0.1 + rng.random(n)

    def loss(c):
        return weight @ (logsumexp(c * S, axis=1) - c * S[np.arange(n), y])

    c = suited_multiple(identity(k), S, y, weight)
    assert 1.0 <= c <= 4.0
    assert loss(c) <= loss(1.0) * (1 + 1e-6) + 1e-9


def test_a_few_rows_leave_it_as_it_is():
    rng = np.random.default_rng(0)
    changed = 0
    for _ in range(100):
        S = rng.normal(size=(10, 4))
        changed += suited_multiple(identity(4), S, chosen_by(S, rng), np.ones(10)) != 1.0
    assert changed < 30  # one standard error is exceeded, to one side, by a sixth of all


def test_multiplied_scores():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(20, size=60)
    weights = SoftmaxClassifier(max_epochs=2, random_state=0).fit(X, y)._weights
    np.testing.assert_allclose(
        scores(multiplied(weights, 1.5), X), 1.5 * scores(weights, X), rtol=1e-5, atol=1e-6
    )


def test_a_fit_that_stops_early_is_calibrated():
    X, y, words = next_words()
    known = np.arange(y.size) % 3 > 0
    model = SoftmaxClassifier(
        classes=range(len(words)),
        early_stopping=True,
        max_epochs=3,
        learning_rate=0.01,
        random_state=0,
    )
    model.fit(X[known], y[known])
    c = model.history_[-1]["multiple"]
    assert c > 1.02  # after three slow epochs it is too shy
    after = model.log_loss(X[~known], y[~known])
    model._weights = multiplied(model._weights, 1 / c)
    assert after < model.log_loss(X[~known], y[~known])


def test_without_rows_held_out_nothing_is_multiplied():
    rng = np.random.default_rng(0)
    model = SoftmaxClassifier(max_epochs=2, random_state=0).fit(
        rng.normal(size=(60, 4)), [0, 1] * 30
    )
    assert "multiple" not in model.history_[-1]
