"""Draws with replacement, and a budget of steps."""

import numpy as np
import pytest

from monro import LinearClassifier, LinearRegressor
from monro.errors import CheckpointError
from tests.callbacks import killed_after
from tests.linear.helpers import SOLVERS, assert_same_bits, make_data
from tests.marks import thorough, thorough_unless
from tests.messages import message

PAPER = {"loss": "log", "schedule": "inverse-t", "alpha": 0.1, "fit_intercept": False}


def orders(monkeypatch):
    """Record the rows that each sweep visits."""
    from monro.linear.algorithms.sgd import Sgd

    visited, sweep = [], Sgd.sweep
    monkeypatch.setattr(
        Sgd, "sweep", lambda self, order, *rest: visited.append(order) or sweep(self, order, *rest)
    )
    return visited


def test_draws_with_replacement_are_independent_and_uniform(monkeypatch):
    X, y = make_data(n=20)
    visited = orders(monkeypatch)
    LinearClassifier(
        solver="sgd", shuffle="replacement", max_epochs=500, random_state=0, **PAPER
    ).fit(X, y)
    rows = np.array(visited)
    assert rows.shape == (500, 20)
    counts = np.bincount(rows.ravel(), minlength=20)
    assert abs(counts - 500).max() < 5 * np.sqrt(500)  # of a binomial with mean 500
    # Twenty of twenty draws differ with probability 20!/20^20 = 2e-8.
    assert max(np.unique(row).size for row in rows) < 20
    # Successive draws are equal with probability 1/20.
    assert abs((rows[:, 1:] == rows[:, :-1]).mean() - 0.05) < 0.01


@pytest.mark.parametrize("shuffle", [True, False, "replacement"])
@pytest.mark.parametrize("steps", [1, 7, 300, 301, 750])
def test_a_budget_of_steps_is_the_papers_algorithm(monkeypatch, shuffle, steps):
    """Algorithm 2 of paper 002, written naively, on the rows that were drawn."""
    X, y = make_data()
    visited = orders(monkeypatch)
    model = LinearClassifier(
        solver="asgd", shuffle=shuffle, max_steps=steps, random_state=0, **PAPER
    ).fit(X, y)
    order = np.concatenate(visited)
    assert order.size == steps
    assert model.n_iter_ == len(model.history_) == -(-steps // 300)
    w, total, losses, sign = np.zeros(5), np.zeros(5), [], np.where(y == 1, 1.0, -1.0)
    for t, i in enumerate(order, start=1):
        losses.append(np.logaddexp(0.0, -sign[i] * (X[i] @ w)))
        g = -sign[i] / (1.0 + np.exp(sign[i] * (X[i] @ w)))
        w = (1 - 1 / t) * w - g / (0.1 * t) * X[i]
        total += w
    np.testing.assert_allclose(model.coef_[0], total / steps, rtol=1e-8, atol=1e-10)
    last = np.mean(losses[300 * (model.n_iter_ - 1) :])
    assert model.history_[-1]["loss"] == pytest.approx(last)


@pytest.mark.parametrize(
    ("solver", "n_classes"),
    thorough_unless(lambda solver, _: solver in ("asgd", "dual"), SOLVERS, [2, 3]),
)
def test_a_budget_resumes_to_the_same_bits(tmp_path, solver, n_classes):
    X, y = make_data(n_classes=n_classes)
    given = {"solver": solver, "alpha": 1e-3, "random_state": 0, "max_epochs": 1}
    given |= {"shuffle": "replacement", "max_steps": 1000}
    whole = LinearClassifier(**given).fit(X, y)
    assert whole.n_iter_ == 4
    path = tmp_path / "checkpoint"
    killed_after(2, LinearClassifier(**given), X, y, path)
    resumed = LinearClassifier(**given).fit(X, y, checkpoint=path)
    assert_same_bits(resumed, whole)
    assert_same_bits(LinearClassifier(**given).fit(X, y, checkpoint=path), whole)
    assert_same_bits(LinearClassifier(**given, n_jobs=2 if n_classes > 2 else 1).fit(X, y), whole)
    with pytest.raises(CheckpointError, match="max_steps was 1000"):
        LinearClassifier(**given | {"max_steps": 1100}).fit(X, y, checkpoint=path)


@pytest.mark.parametrize("solver", ["sgd", "dual"])
def test_threads_on_one_model(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=20_000) > 0
    model = LinearClassifier(
        loss="log", solver=solver, alpha=1e-3, shuffle="replacement", max_steps=90_000,
        random_state=0,
    )  # fmt: skip
    alone = model.fit(X, y).decision_function(X)
    together = model.set_params(n_jobs=2).fit(X, y).decision_function(X)
    assert np.corrcoef(alone, together)[0, 1] > 0.99


@thorough
def test_early_stopping_counts_the_rows_it_trains_on():
    X, y = make_data(n=100)
    model = LinearRegressor(
        max_steps=200, early_stopping=True, validation_fraction=0.2, alpha=1e-5, random_state=0
    )
    assert model.fit(X, y.astype(float)).n_iter_ <= 3
    model.set_params(early_stopping=False).fit(X, y.astype(float))
    assert model.n_iter_ == 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"shuffle": "with"}, "'replacement'"),
        ({"shuffle": 2}, "shuffle=2"),
        ({"max_steps": 0}, "1"),
    ],
)
def test_values_that_make_no_sense(given, named):
    X, y = make_data()
    assert named in message(ValueError, LinearClassifier(alpha=1e-5, **given).fit, X, y)
