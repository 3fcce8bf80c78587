"""The automatic learning rate against a grid of rates."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from monro import LinearClassifier
from tests.linear.helpers import STREAMING, assert_same_bits, make_data, objective
from tests.marks import thorough, thorough_unless


def rare_categories(n=6000, fields=10, levels=100):
    """One-hot rows, level k with probability ∝ 1/(k + 1); one row in fifty is positive."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / (np.arange(levels) + 1.0)
    drawn = rng.choice(levels, size=(n, fields), p=frequency / frequency.sum())
    columns = (drawn + levels * np.arange(fields)).ravel()
    X = sp.csr_matrix((np.ones(columns.size), columns, np.arange(0, columns.size + 1, fields)))
    scores = X @ rng.normal(size=X.shape[1]) + rng.logistic(size=n)
    return X, np.where(scores > np.quantile(scores, 0.98), 1, -1)


def zipf_counts(n=10_000, words=4000, draws=40):
    """Counts of words, word k with probability ∝ 1/(k + 10), in rows of unit length."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / (np.arange(words) + 10.0)
    drawn = rng.choice(words, size=n * draws, p=frequency / frequency.sum())
    rows = np.repeat(np.arange(n), draws)
    X = normalize(sp.csr_matrix((np.ones(n * draws), (rows, drawn)), shape=(n, words)))
    scores = X @ (rng.normal(size=words) * (rng.random(words) < 0.1))
    return X, np.where(scores + 0.3 * scores.std() * rng.normal(size=n) > 0.0, 1, -1)


def separable(n=6000, d=20):
    """Dense rows on two sides of a margin."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    y = np.where(X @ w > 0.0, 1, -1)
    return X + y[:, None] * w, y


# Where the objective is nearly 0, it differs by a tenth from one rate of the grid to the next.
PROBLEMS = [
    (zipf_counts, {"loss": "hinge", "alpha": 1e-5}, 1.03),
    (rare_categories, {"loss": "log", "alpha": 1e-5}, 1.2),
    (separable, {"loss": "hinge", "alpha": 1e-3}, 1.2),
]


@pytest.mark.parametrize("solver", ["sgd", "aisgd", pytest.param("asgd", marks=thorough)])
@pytest.mark.parametrize(("make", "settings", "within"), PROBLEMS)
def test_the_automatic_rate_is_nearly_as_good_as_the_best_of_a_grid(make, settings, within, solver):
    X, y = make()
    length = float(X.power(2).sum() if sp.issparse(X) else (X**2).sum()) / y.size

    def value(rate):
        model = LinearClassifier(**settings, solver=solver, learning_rate=rate, random_state=0)
        return objective(model.fit(X, y), X, y)

    grid = [value(10.0**power / length) for power in np.arange(-2.5, 1.1, 0.5)]
    assert value("auto") < within * min(grid)


@pytest.mark.parametrize("solver", thorough_unless(lambda name: name == "sgd", STREAMING))
def test_a_fit_with_the_rate_that_auto_found_has_the_same_bits(solver):
    X, y = make_data(n=3000)
    settings = {"solver": solver, "alpha": 1e-5, "max_epochs": 2, "random_state": 0}
    model = LinearClassifier(**settings).fit(X, y)

    given = LinearClassifier(**settings, learning_rate=model.learning_rate_).fit(X, y)

    assert_same_bits(model, given)
