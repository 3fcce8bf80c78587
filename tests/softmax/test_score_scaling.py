"""The factor that scales all scores, while training and on held-out rows, against line searches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.data.embedded import next_words
from monro.fitting.run import LabelledRows
from monro.softmax.model import Weights, scores
from monro.softmax.training import score_scaling
from monro.softmax.training.monitoring import LossSample, sample_for_loss
from monro.softmax.training.score_scaling import (
    best_training_scale,
    best_validation_scale,
    is_too_costly,
    scaled_local_variables,
    scaled_weights,
)
from tests.marks import thorough

# ---------------------------------------------------------------------------------- while training


def a_model(seed, n=60, K=5, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((K, d))
    y = (X @ W.T + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, y, W


@given(seed=st.integers(0, 1000), scale=st.floats(0.05, 3.0), ridge=st.floats(0.0, 0.2))
def test_the_training_scale_is_that_of_a_line_search(seed, scale, ridge):
    X, y, W = a_model(seed)
    S = X @ (scale * W).T
    weight = np.random.default_rng(seed).random(y.size)

    def objective(c):
        loss = logsumexp(c * S, axis=1) - c * S[np.arange(y.size), y]
        return np.average(loss, weights=weight) + c * c * ridge

    sample = LossSample(X, y, weight / weight.sum(), 1.0)
    best = minimize_scalar(objective, bounds=(1.0, 4.0), method="bounded").x
    assert best_training_scale(S, sample, ridge) == pytest.approx(best, abs=0.06)


def test_a_sample_gives_a_more_cautious_scale_than_all_rows():
    X, y, W = a_model(0, n=2000)
    S = X @ (0.3 * W).T
    of_all_rows = best_training_scale(S, LossSample(X, y, np.full(2000, 1 / 2000), 1.0), 0.0)
    some = LossSample(X[:200], y[:200], np.full(200, 1 / 200), 0.1)
    cautious = best_training_scale(S[:200], some, 0.0)
    assert 1.0 <= cautious < of_all_rows


@given(
    z=st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=6),
    s_y=st.floats(-20.0, 20.0),
    c=st.floats(1.0, 4.0),
)
def test_scaled_local_variables_are_upper_bounds(z, s_y, c):
    u = np.array([s_y + np.logaddexp(0.0, logsumexp(z))])
    exact = c * s_y + np.logaddexp(0.0, logsumexp(c * np.array(z)))
    new = scaled_local_variables(u, np.array([s_y]), c)
    assert new >= exact - 1e-6 * (1 + abs(exact))
    if len(z) == 1:
        np.testing.assert_allclose(new, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("n_classes", "rows", "costly"),
    [(10, 20_000, False), (150, 3495, False), (1623, 1292, False), (10_000, 209, False),
     (33_278, 200, True)],
)  # fmt: skip
def test_the_loss_sample_is_small_and_evenly_spread(n_classes, rows, costly):
    X = np.arange(100_000.0)[:, None]
    sample = sample_for_loss(LabelledRows(X, np.arange(100_000), np.ones(100_000)), n_classes)
    assert sample.X.shape == (rows, 1)
    assert sample.weight.sum() == pytest.approx(1.0)
    assert sample.share == rows / 100_000
    np.testing.assert_array_equal(sample.X[:, 0], sample.codes)
    assert sample.codes[0] == 0
    assert sample.codes[-1] == 99_999
    assert is_too_costly(sample, n_classes) == costly


def test_separable_classes_end_with_a_small_loss():
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=400)
    X = np.eye(20)[y] + 0.1 * rng.standard_normal((400, 20))
    model = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=10.0).fit(X, y)
    plain = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=10.0, epoch_decay=0.9).fit(
        X, y
    )
    assert model.log_loss(X, y) < 0.1 * plain.log_loss(X, y)


# -------------------------------------------------------------------------------- on held-out rows


def identity(n_classes):
    """Return a model whose scores are its input."""
    return Weights(np.eye(n_classes), np.zeros(n_classes), np.ones(n_classes), np.arange(n_classes))


def chosen_by(S, rng):
    """Return classes drawn from the softmax of the scores."""
    return (S + rng.gumbel(size=S.shape)).argmax(axis=1)


@pytest.mark.parametrize("truth", [0.5, 1.0, 1.3, 1.6, 3.0])
def test_the_validation_scale_is_that_of_the_labels_distribution_but_at_least_1(truth):
    rng = np.random.default_rng(0)
    S = rng.normal(size=(20_000, 7))
    c = best_validation_scale(identity(7), S, chosen_by(truth * S, rng), np.ones(20_000))
    assert c == pytest.approx(max(1.0, truth), rel=0.05)


def test_the_validation_scale_minimises_the_loss(monkeypatch):
    monkeypatch.setattr(score_scaling, "_VALIDATION_ERRORS", 0.0)
    rng = np.random.default_rng(1)
    S, weight = rng.normal(size=(500, 5)), rng.random(500)
    y = chosen_by(1.7 * S, rng)

    def loss(c):
        return weight @ (logsumexp(c * S, axis=1) - c * S[np.arange(500), y])

    best = minimize_scalar(loss, bounds=(0.1, 4.0), method="bounded").x
    assert best_validation_scale(identity(5), S, y, weight) == pytest.approx(best, rel=2e-3)


@given(st.integers(1, 40), st.integers(2, 6), st.floats(0.01, 100), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_the_validation_scale_never_increases_the_loss_of_its_rows(n, k, size, seed):
    rng = np.random.default_rng(seed)
    S, y, weight = size * rng.normal(size=(n, k)), rng.integers(k, size=n), 0.1 + rng.random(n)

    def loss(c):
        return weight @ (logsumexp(c * S, axis=1) - c * S[np.arange(n), y])

    c = best_validation_scale(identity(k), S, y, weight)
    assert 1.0 <= c <= 4.0
    assert loss(c) <= loss(1.0) * (1 + 1e-6) + 1e-9


def test_a_few_rows_rarely_change_the_scale():
    rng = np.random.default_rng(0)
    changed = 0
    for _ in range(100):
        S = rng.normal(size=(10, 4))
        changed += best_validation_scale(identity(4), S, chosen_by(S, rng), np.ones(10)) != 1.0
    assert changed < 30  # a sixth of all exceed one standard error on one side


def test_scaled_weights_have_scaled_scores():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(20, size=60)
    weights = SoftmaxClassifier(alpha=0.0, max_epochs=2, random_state=0).fit(X, y)._fitted.weights
    np.testing.assert_allclose(
        scores(scaled_weights(weights, 1.5), X), 1.5 * scores(weights, X), rtol=1e-5, atol=1e-6
    )


@thorough
def test_a_fit_that_stops_early_is_calibrated():
    X, y, words = next_words()
    known = np.arange(y.size) % 3 > 0
    model = SoftmaxClassifier(
        classes=range(len(words)),
        early_stopping=True,
        alpha=0.0,
        max_epochs=3,
        learning_rate=0.01,
        random_state=0,
    )
    model.fit(X[known], y[known])
    c = model.history_[-1]["multiple"]
    assert c > 1.02  # after three slow epochs it is underconfident
    after = model.log_loss(X[~known], y[~known])
    model._fitted = model._fitted._replace(weights=scaled_weights(model._fitted.weights, 1 / c))
    assert after < model.log_loss(X[~known], y[~known])


def test_without_held_out_rows_nothing_is_scaled():
    rng = np.random.default_rng(0)
    model = SoftmaxClassifier(alpha=0.0, max_epochs=2, random_state=0).fit(
        rng.normal(size=(60, 4)), [0, 1] * 30
    )
    assert "multiple" not in model.history_[-1]
