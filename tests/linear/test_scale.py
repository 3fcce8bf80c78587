"""Columns in any units: the parameter `scale` of the linear estimators."""

import numpy as np
import pytest
import scipy.sparse as sp

import monro
from monro import LinearClassifier, LinearRegressor
from tests.callbacks import Callback, killed_after
from tests.linear.helpers import SOLVERS, assert_same_bits, make_data
from tests.marks import thorough, thorough_unless
from tests.messages import message

SETTINGS = {"loss": "log", "alpha": 0.01, "scale": True, "random_state": 0}
UNITS = 2.0 ** np.array([8, -6, 0, 3, -1])
PLACES = np.array([0.0, 3.0, 2959.0, -100.0, 16.0])


def fitted(X, y, weight=None, **parameters):
    return LinearClassifier(**(SETTINGS | parameters)).fit(X, y, weight)


def in_other_units(X):
    return UNITS * (X + PLACES)


def in_the_first_units(model):
    """Weights and intercept for X, of a model of `in_other_units(X)`."""
    coef = model.coef_ * UNITS
    return coef, model.intercept_ + coef @ PLACES


@pytest.mark.parametrize(
    "solver", thorough_unless(lambda solver: solver in ("auto", "dual", "sgd"), ("auto", *SOLVERS))
)
def test_units_and_places_of_columns_do_not_matter(solver):
    X, y = make_data()
    X = np.where(X == 0.0, 0.01, X)  # so that all columns are centred wherever they are
    model = fitted(X, y, solver=solver)
    coef, intercept = in_the_first_units(fitted(in_other_units(X), y, solver=solver))
    np.testing.assert_allclose(coef, model.coef_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(intercept, model.intercept_, atol=1e-6)


@pytest.mark.parametrize("parameters", [{}, {"l1_ratio": 0.5}])
def test_it_is_the_fit_of_scaled_columns(parameters):
    X, y = make_data()
    raw = in_other_units(X)
    mean, deviation = raw.mean(axis=0), raw.std(axis=0)  # no range is above ten deviations
    settings = {"solver": "coordinate", "max_epochs": 100} | parameters
    model = fitted(raw, y, **settings)
    best = fitted((raw - mean) / deviation, y, scale=False, **settings)
    np.testing.assert_allclose(model.coef_ * deviation, best.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.coef_ @ mean + model.intercept_, best.intercept_, rtol=1e-6)
    np.testing.assert_array_equal(model.coef_ == 0.0, best.coef_ == 0.0)


def test_several_classes_and_regression():
    X, y = make_data(n_classes=3)
    raw = in_other_units(X)
    settings = {"max_epochs": 30}
    scores = fitted(X, y, **settings).decision_function(X)
    np.testing.assert_allclose(fitted(raw, y, **settings).decision_function(raw), scores, atol=0.02)
    for fit_intercept in (True, False):
        model = LinearRegressor(
            alpha=1e-4, scale=True, fit_intercept=fit_intercept, max_epochs=50, random_state=0
        )
        target = X @ np.arange(5.0) + 7.0 * fit_intercept
        for rows in (X * UNITS, raw) if fit_intercept else (X * UNITS,):
            assert model.fit(rows, target).score(rows, target) > 0.999


def test_a_number_for_alpha_is_in_the_units_of_the_columns():
    X, y = make_data()
    auto, off, on = (fitted(in_other_units(X), y, scale=scale) for scale in ("auto", False, True))
    assert_same_bits(auto, off)
    assert not np.array_equal(on.coef_, off.coef_)
    assert_same_bits(
        LinearClassifier(alpha=1e-5, random_state=0).fit(X, y), fitted(X, y, **DEFAULTS)
    )


DEFAULTS = {"loss": "hinge", "alpha": 1e-5, "scale": False}


def test_sparse_rows_beside_large_numbers():
    X, y = make_data()
    rng = np.random.default_rng(0)
    text = sp.random(y.size, 40, 0.1, format="csr", rng=rng)
    one, other = (
        fitted(sp.hstack([text, unit * (X + 3.0)], format="csr"), y) for unit in (1.0, 1024.0)
    )
    np.testing.assert_array_equal(other.coef_ * np.r_[np.ones(40), np.full(5, 1024.0)], one.coef_)
    assert_same_bits(fitted(text, y), fitted(text, y, scale=False))


def test_rows_of_weight_zero_do_not_count():
    X, y = make_data()
    junk = np.r_[X, 1e6 * X[:50]], np.r_[y, y[:50]], np.r_[np.ones(y.size), np.zeros(50)]
    assert_same_bits(fitted(*junk), fitted(X, y))


def test_held_out_rows_are_conditioned_as_the_others():
    X, y = make_data()
    model = fitted(X, y, early_stopping=True, max_epochs=5)
    other = fitted(X * UNITS, y, early_stopping=True, max_epochs=5)
    losses, same = ([r["validation_loss"] for r in m.history_] for m in (model, other))
    assert losses == same
    assert losses[-1] < 0.6


@pytest.mark.parametrize("solver", ["aisgd", "sgdqn"])
def test_partial_fit_continues_from_the_folded_weights(solver):
    X, y = make_data()
    raw = X * UNITS
    model = fitted(raw, y, solver=solver)
    assert model._fitted.states == ()
    fresh = LinearClassifier(**(SETTINGS | {"solver": solver, "scale": False}))
    fresh.fit(raw, y)
    fresh._fitted = model._fitted
    fresh.coef_, fresh.intercept_ = model.coef_.copy(), model.intercept_.copy()
    # As a model with these weights, and no state or rate of the units inside.
    fresh.learning_rate_ = None
    assert_same_bits(model.partial_fit(raw, y), fresh.partial_fit(raw, y))


@pytest.mark.parametrize("solver", ["aisgd", "dual"])
def test_a_warm_start_begins_where_the_last_fit_ended(solver):
    X, y = make_data()
    raw = in_other_units(X)
    model = fitted(raw, y, solver=solver, warm_start=True, max_epochs=100)
    coef, intercept = in_the_first_units(model)
    model.set_params(max_epochs=1).fit(raw, y)
    again, again_intercept = in_the_first_units(model)
    np.testing.assert_allclose(again, coef, atol=0.05)
    np.testing.assert_allclose(again_intercept, intercept, atol=0.05)


@pytest.mark.parametrize("killed", [pytest.param(0, marks=thorough), 3])
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, killed):
    X, y = make_data()
    raw, path = in_other_units(X), tmp_path / "checkpoint"
    settings = SETTINGS | {"max_epochs": 8, "early_stopping": True}
    killed_after(killed, LinearClassifier(**settings), raw, y, path)
    resumed = LinearClassifier(**settings).fit(raw, y, checkpoint=path)
    assert_same_bits(resumed, fitted(raw, y, max_epochs=8, early_stopping=True))


def test_a_file_keeps_the_folded_weights(tmp_path):
    X, y = make_data()
    raw = in_other_units(X)
    model = fitted(raw, y, solver="aisgd")
    model.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")
    assert_same_bits(loaded, model)
    assert_same_bits(loaded.partial_fit(raw, y), model.partial_fit(raw, y))


class Seen(Callback):
    """Keeps the solution and the rows that callbacks see."""

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator):
        self.X = X
        self.coef, self.intercept = fitted_estimator.coef_, fitted_estimator.intercept_
        return False


def test_callbacks_see_the_units_that_were_given():
    X, y = make_data()
    raw, seen = in_other_units(X), Seen()
    model = LinearClassifier(**SETTINGS).set_callbacks(seen).fit(raw, y)
    np.testing.assert_array_equal(seen.X, raw)
    np.testing.assert_array_equal(seen.coef, model.coef_)
    np.testing.assert_array_equal(seen.intercept, model.intercept_)


def test_data_larger_than_memory_is_not_scaled():
    X, y = make_data()
    parts = [(X[:150], y[:150]), (X[150:], y[150:])]
    auto, off = (fitted(iter(parts), None, scale=scale) for scale in ("auto", False))
    assert_same_bits(auto, off)
    text = message(ValueError, fitted, iter(parts), None)
    assert text.startswith("scale=True is for data in memory")


@pytest.mark.parametrize("scale", ["yes", 2, None])
def test_other_values_are_refused(scale):
    X, y = make_data()
    assert f"scale={scale!r}" in message(ValueError, fitted, X, y, scale=scale)
