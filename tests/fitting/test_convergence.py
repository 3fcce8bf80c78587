"""A fit that has clearly not converged warns; others do not, and no fit is changed by the check."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from monro import LinearClassifier, LinearRegressor, SoftmaxClassifier
from monro.coordinate import Strengths
from monro.fitting import convergence
from monro.fitting.convergence import (
    Sample,
    SampledRows,
    Solution,
    Trial,
    choose_sample,
    load_sample,
    try_step,
)
from tests.callbacks import Callback
from tests.marks import thorough, thorough_unless

WINE = load_wine(return_X_y=True)  # one column around 750, another around 0.4


def warning(fit):
    """The message of a fit that warns; it must be a single line."""
    with pytest.warns(ConvergenceWarning) as caught:
        fit()
    (text,) = {str(each.message) for each in caught}
    assert "\n" not in text
    return text


def assert_silent(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()


def linear(**parameters):
    given = {"loss": "log", "alpha": 1e-5, "random_state": 0} | parameters
    return LinearClassifier(**given)


def shifted(n=400, d=4, seed=0):
    """Rows that a model needs an intercept for, and labels with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0
    return X, np.where(X @ np.arange(1.0, d + 1) + rng.logistic(size=n) > 31.0, 1, -1)


# ------------------------------------------------------------------------------ fits that warn


@pytest.mark.parametrize(
    ("solver", "loss"),
    thorough_unless(
        lambda solver, loss: loss == "log" and solver in ("sgd", "asgd", "implicit", "dual"),
        ("sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn", "dual"),
        ("log", "hinge"),
    ),
)
def test_columns_in_very_different_units_warn(solver, loss):
    text = warning(lambda: linear(solver=solver, loss=loss).fit(*WINE))
    assert text.startswith("max_epochs=10: the fit has not converged (one step of gradient")
    assert "use scale=True if columns are in different units, or a larger max_epochs" in text


def test_the_softmax_warns_too():
    text = warning(lambda: SoftmaxClassifier(alpha=0.0, random_state=0).fit(*WINE))
    assert "scale=True" in text


def test_too_few_epochs_warn():
    X, y = WINE
    settings = {"scale": True, "solver": "sgd", "learning_rate": 1e-4}
    text = warning(lambda: linear(**settings).fit(X, y))
    assert text.endswith("; use a larger max_epochs, or learning_rate='auto'")


def test_rows_of_which_some_are_sampled_warn():
    X, y = shifted(n=3 * convergence._MOST_ROWS)
    X = X * 10.0 ** np.array([-2, 0, 1, 3])
    for rows in (X, sp.csr_matrix(X)):
        warning(lambda rows=rows: linear(solver="sgd").fit(rows, y))


# -------------------------------------------------------------------------- fits that do not warn


@pytest.mark.parametrize(
    "load",
    [
        load_wine,
        load_iris,
        pytest.param(load_breast_cancer, marks=thorough),
        pytest.param(load_digits, marks=thorough),
    ],
)
def test_default_settings_do_not_warn(load):
    X, y = load(return_X_y=True)
    for model in (LinearClassifier(random_state=0), SoftmaxClassifier(random_state=0)):
        assert_silent(lambda model=model: model.fit(X, y))


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "poisson", "gamma"])
def test_regression_does_not_warn(loss):
    X, y = load_diabetes(return_X_y=True)
    for alpha in ("auto", 1e-5):
        model = LinearRegressor(loss=loss, alpha=alpha, random_state=0)
        assert_silent(lambda model=model: model.fit(X, y))


@pytest.mark.parametrize("solver", ["sgd", "aisgd", "coordinate"])
def test_scaled_columns_do_not_warn(solver):
    assert_silent(lambda: linear(solver=solver, scale=True).fit(*WINE))


def test_more_epochs_end_the_warning():
    X, y = shifted()
    settings = {"solver": "sgd", "learning_rate": 1e-3}
    warning(lambda: linear(max_epochs=1, **settings).fit(X - 3.0, y))
    assert_silent(lambda: linear(max_epochs=300, **settings).fit(X - 3.0, y))


def test_separable_rows_do_not_warn():
    X, y = shifted()
    y = np.where(X[:, 0] > 3.0, 1, 0)
    X[:, 0] += y
    for model in (linear(alpha=1e-9), SoftmaxClassifier(alpha=0.0, random_state=0)):
        assert_silent(lambda model=model: model.fit(X, y))


def test_fits_that_something_else_ends_do_not_warn():
    X, y = WINE

    class Stop(Callback):
        def on_fit_task_end(self, estimator, context):
            return True

    bad = {"solver": "sgd", "learning_rate": 1e-9}
    warning(lambda: linear(**bad).fit(X, y))
    assert_silent(lambda: linear(**bad).set_callbacks(Stop()).fit(X, y))
    assert_silent(lambda: linear(tol=1.0, **bad).fit(X, y))
    assert_silent(lambda: linear(warm_start=True, **bad).fit(X, y))
    assert_silent(lambda: linear(max_steps=2 * y.size, **bad).fit(X, y))
    assert_silent(lambda: linear(**bad).partial_fit(X, y, classes=[0, 1, 2]))


@pytest.mark.parametrize("solver", ["ove", "nce", "augment-reduce"])
def test_solvers_of_other_losses_do_not_warn(solver):
    assert_silent(
        lambda: SoftmaxClassifier(alpha=0.0, solver=solver, max_epochs=1, random_state=0).fit(*WINE)
    )


# ----------------------------------------------------------------------------- the trial itself


@pytest.mark.parametrize("model", [linear(n_jobs=2), SoftmaxClassifier(alpha=0.0, random_state=0)])
def test_the_trial_changes_no_bit(model, monkeypatch):
    X, y = WINE
    with_trial = model.fit(X, y).decision_function(X)
    monkeypatch.setattr(convergence.Trial, "is_clear", property(lambda trial: 1 / 0))
    with pytest.raises(ZeroDivisionError):  # it was tried
        model.fit(X, y)
    monkeypatch.setattr("monro.fitting.epochs.warn_unless_converged", lambda *_: None)
    for trainer in ("linear", "softmax.training"):
        name = {"linear": "LinearTrainer", "softmax.training": "SoftmaxTrainer"}[trainer]
        monkeypatch.setattr(f"monro.{trainer}.trainer.{name}.try_step", lambda self: None)
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), with_trial)


class LogLoss:
    """The log-loss of labels ±1."""

    def __init__(self, y):
        self.y = y

    def values(self, S):
        return np.logaddexp(0.0, -self.y * S[:, 0])

    def slopes(self, S):
        return (-self.y / (1.0 + np.exp(self.y * S[:, 0])))[:, None]


@pytest.mark.parametrize("strengths", [Strengths(0.0, 0.01, True), Strengths(0.02, 0.0, False)])
def test_a_step_gains_nothing_at_the_optimum_and_much_at_zero(strengths):
    X, y = shifted()
    rows, loss = SampledRows(X, np.ones(y.size)), LogLoss(y)

    def objective(v):  # positive and negative parts of the weights, and the intercept
        w, b = v[:4] - v[4:8], v[8] * strengths.has_bias
        penalty = strengths.l1 * v[:8].sum() + strengths.l2 / 2 * (w @ w)
        return loss.values((X @ w + b)[:, None]).mean() + penalty

    bounds = [(0.0, None)] * 8 + [(None, None)]
    best = minimize(objective, np.zeros(9), bounds=bounds, options={"maxiter": 10_000})
    w, b = best.x[:4] - best.x[4:8], best.x[8] * strengths.has_bias

    def after(w, b):
        solution = Solution(w[None], np.array([b]))
        return try_step((rows, rows), (loss, loss), solution, strengths)

    before, gained = after(w, b)
    assert before == pytest.approx(best.fun, rel=1e-6)
    assert best.fun - 1e-6 <= gained <= before
    before, gained = after(np.zeros(4), 0.0)
    assert before == pytest.approx(np.log(2.0))
    assert best.fun - 1e-6 <= gained < before - 0.2 * (before - best.fun)


def test_units_of_columns_do_not_change_a_step():
    X, y = shifted()
    units = 2.0 ** np.array([-9, 0, 4, 12])
    found = []
    for each in (np.ones(4), units):
        rows, loss = SampledRows(X * each, np.ones(y.size)), LogLoss(y)
        solution = Solution(np.arange(4.0)[None] / each, np.zeros(1))
        found.append(try_step((rows, rows), (loss, loss), solution, Strengths(0.0, 0.0, True)))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_a_small_loss_that_still_falls_is_not_clear():
    assert Trial(objective=0.5, gain=0.2, constant=0.7).is_clear
    assert not Trial(objective=0.001, gain=0.0009, constant=0.7).is_clear
    assert not Trial(objective=30.0, gain=0.2, constant=0.7).is_clear
    assert not Trial(objective=0.0, gain=1e-16, constant=0.0).is_clear
    assert not Trial(objective=np.nan, gain=np.nan, constant=0.7).is_clear


def test_a_sample_is_all_rows_or_two_different_parts():
    few = choose_sample(50, 200)
    rows = np.arange(50)
    for part in few.split(rows):
        np.testing.assert_array_equal(part, rows)
    many = choose_sample(10**6, 10**9)
    taken, judged = many.split(many.numbers)
    assert taken.size == judged.size == 32  # 65,536 entries in all
    assert np.intersect1d(taken, judged).size == 0


def test_sparse_rows_keep_the_columns_that_occur():
    X = sp.csr_matrix(([1.0, 2.0, 3.0], [900_000, 5, 900_000], [0, 1, 2, 3]), (3, 1_000_000))
    rows, used = load_sample(X, Sample(np.array([0, 2]), 2))
    np.testing.assert_array_equal(used, [900_000])
    np.testing.assert_array_equal(rows.toarray(), [[1.0], [3.0]])


@pytest.mark.parametrize("positives", [10, 100])
@pytest.mark.parametrize("kind", [LinearClassifier, SoftmaxClassifier])
def test_hardly_any_rows_of_a_class_are_no_sign(kind, positives):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = np.zeros(X.shape[0])
    y[:positives] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        kind(alpha=1e-5, random_state=0).fit(X, y)
