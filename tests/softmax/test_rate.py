"""The automatic learning rate, and the plan that it is part of."""

import numpy as np
import pytest
import scipy.sparse as sp

import monro.softmax.base
from monro import SoftmaxClassifier
from monro.softmax.training.planning import make_plan
from monro.softmax.training.rate import choose_rate
from tests.callbacks import killed_after
from tests.marks import thorough_unless
from tests.softmax.data import STREAMING, make_data, objective


def is_implicit(solver):
    return solver == "implicit"


def chosen(X, y, **parameters):
    settings = {"alpha": 0.0, "random_state": 0, "max_epochs": 20} | parameters
    return SoftmaxClassifier(**settings).fit(X, y)


@pytest.mark.parametrize(
    "solver", thorough_unless(is_implicit, ["implicit", "umax", "exact", "ove"])
)
def test_the_chosen_rate_is_nearly_the_best_power_of_ten(solver):
    X, y = make_data(n=1000, n_classes=20)
    rows = sp.csr_matrix(X)
    model = chosen(rows, y, solver=solver)
    unit = 1.0 / (X**2).sum(axis=1).mean()
    best = np.inf
    for power in range(-3, 5):
        try:
            found = chosen(rows, y, solver=solver, learning_rate=unit * 10.0**power)
        except ArithmeticError:  # a rate at which explicit steps diverge
            continue
        best = min(best, found.log_loss(X, y))

    assert model.log_loss(X, y) < 1.1 * best


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_the_chosen_rate_suits_the_ridge(alpha):
    X, y = make_data(n=500)
    values = [
        objective(chosen(X, y, alpha=alpha, learning_rate=rate), X, y)
        for rate in ("auto", *10.0 ** np.arange(-3.0, 4.0))
    ]
    assert values[0] < 1.02 * min(values[1:])


def test_the_chosen_rate_suits_the_weights():
    """Only the rows of one class have weight: learning the labels of others must not count."""
    X, y = make_data()
    weight = np.where(y == 0, 1e3, 1e-4)
    model = SoftmaxClassifier(init="zero", alpha=0.0, random_state=0).fit(
        X, y, sample_weight=weight
    )
    assert (model.predict(X) == 0).mean() > 0.95


@pytest.mark.parametrize("solver", thorough_unless(is_implicit, STREAMING))
def test_the_same_seed_chooses_the_same_rate(solver):
    X, y = make_data()
    rates = {chosen(X, y, solver=solver, max_epochs=2).learning_rate_ for _ in range(3)}
    assert len(rates) == 1
    assert 0 < rates.pop() < np.inf


def test_rows_and_classes_in_another_order_choose_about_the_same_rate():
    X, y = make_data(n=1000)
    rates = [chosen(X, y, random_state=seed, max_epochs=10).learning_rate_ for seed in range(6)]
    assert max(rates) < 11 * min(rates)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("solver", thorough_unless(is_implicit, STREAMING))
def test_rows_of_zeros_take_any_rate(form, solver):
    X, y = np.zeros((50, 3)), np.arange(50) % 3
    assert chosen(form(X), y, solver=solver).learning_rate_ == 1.0


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_a_few_rows_choose_a_rate_too(n):
    X, y = make_data(n=n, n_classes=2)
    for solver in ("implicit", "vanilla", "exact"):
        model = chosen(X, y, solver=solver)
        assert 0 < model.learning_rate_ < np.inf
        assert model.log_loss(X, y) < np.log(2)


def test_labels_that_are_noise_choose_a_rate_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(4, size=200)
    for solver in ("implicit", "vanilla", "exact", "nce"):
        model = chosen(X, y, solver=solver)
        assert model.log_loss(X, y) < np.log(4) + 0.1


def test_a_given_rate_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(monro.softmax.base, "choose_rate", None)
    X, y = make_data()
    model = chosen(X, y, learning_rate=0.123, max_epochs=2)
    assert model.learning_rate_ == model.plan_["eta0"] == model.history_[0]["rate"] == 0.123


def test_batches_choose_a_rate_at_the_first_one(monkeypatch):
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0).partial_fit(X, y)
    rate = model.learning_rate_
    monkeypatch.setattr(monro.softmax.base, "choose_rate", None)
    model.partial_fit(X, y)
    assert model.learning_rate_ == rate


def test_a_fit_that_resumes_does_not_search_again(tmp_path, monkeypatch):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    stopped = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=5)
    killed_after(1, stopped, X, y, path)
    monkeypatch.setattr(monro.softmax.base, "choose_rate", None)
    resumed = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=5).fit(X, y, checkpoint=path)
    assert resumed.learning_rate_ == stopped.learning_rate_


class FakeTrainer:
    """A trainer whose loss is a function of the rate alone."""

    size, mean_sqnorm = 50, 1.0

    def __init__(self, eta0, loss, visited, plan):
        self.plan = plan._replace(eta0=eta0)
        self.adjacent_blocks = 1
        self.loss, self.visited, self.rates = loss, visited, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.visited.append((self.plan.eta0, self.rates))

    def visit(self, order, rate):
        self.rates.append(rate)
        return 0.0

    def sample_loss(self):
        return self.loss(np.log10(self.plan.eta0)) if self.rates else 2.0


@pytest.mark.parametrize("best", [-2.8, -1.0, 0.4, 1.0, 2.1, 3.9])
@pytest.mark.parametrize("wall", [np.inf, 1.5, 0.5, -2.0])
@pytest.mark.parametrize("solver", ["implicit", "exact"])
def test_the_search_finds_the_minimum_on_this_side_of_the_wall(best, wall, solver):
    """Beyond the wall every trial diverges, and its loss means nothing."""
    visited = []
    plan = make_plan(SoftmaxClassifier(solver=solver, alpha=0.0), 4, 1.0)

    def loss(power):
        return 1e9 / abs(power) if power > wall else 1 + abs(power - best) / 5

    rate, trials = choose_rate(
        lambda eta0: FakeTrainer(eta0, loss, visited, plan), np.random.default_rng(0)
    )

    # A fit is 2.5 times as long as a trial here, and needs a larger rate with implicit steps. These
    # do not diverge, so no margin is kept from the wall.
    growth = 0.27 * np.log10(2.5) if solver == "implicit" else 0.0
    target = min(best, wall - 0.75, 2.0 - growth if solver == "implicit" else np.inf)
    assert abs(np.log10(rate) - growth - target) <= 0.51 + 0.25 * (solver == "implicit")
    assert len(visited) == trials <= 10
    for eta0, rates in visited:  # the rate falls as in the fit
        assert rates[0] <= eta0
        assert rates == sorted(rates, reverse=True)
        assert rates[-1] < 0.01 * eta0


@pytest.mark.parametrize(("solver", "lower"), [("implicit", 0.0), ("exact", 0.5)])
def test_of_two_rates_about_as_good_explicit_steps_take_the_smaller(solver, lower):
    plan = make_plan(SoftmaxClassifier(solver=solver, epoch_decay=0.9, alpha=0.0), 4, 1.0)
    rate, _ = choose_rate(
        lambda eta0: FakeTrainer(eta0, lambda power: 1 + abs(power) / 10, [], plan),
        np.random.default_rng(0),
    )
    assert np.log10(rate) == pytest.approx(-lower)


def test_separable_classes_do_not_choose_ever_larger_rates():
    X = np.repeat(np.eye(6), 30, axis=0)
    model = SoftmaxClassifier(alpha=0.0, random_state=0).fit(X, np.repeat(np.arange(6), 30))
    assert 30 < model.learning_rate_ <= 100.001
