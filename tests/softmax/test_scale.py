"""Columns in any units: the parameter `scale` of SoftmaxClassifier."""

import numpy as np
import pytest
import scipy.sparse as sp

import monro
from monro import SoftmaxClassifier
from monro.softmax.training.planning import STREAM_ALPHA
from tests.callbacks import Callback, killed_after
from tests.marks import thorough
from tests.messages import message
from tests.softmax.data import FORMS, assert_same_bits, make_data

ALPHA = {"alpha": 0.01, "scale": True, "random_state": 0}
UNITS = 2.0 ** np.array([8, -6, 0, 3, -1])
PLACES = np.array([0.0, 3.0, 2959.0, -100.0, 16.0])


def fitted(X, y, weight=None, **parameters):
    return SoftmaxClassifier(**(ALPHA | parameters)).fit(X, y, weight)


def in_other_units(X):
    return UNITS * (X + PLACES)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        pytest.param({"dtype": "float64"}, marks=thorough),
        {"solver": "lbfgs"},
        {"early_stopping": True},
        pytest.param({"solver": "umax", "learning_rate": 0.1}, marks=thorough),
        pytest.param({"sampling": "uniform", "classes_per_step": 2}, marks=thorough),
        pytest.param({"examples_per_step": 8}, marks=thorough),
    ],
)
def test_units_and_places_of_columns_do_not_matter(parameters):
    X, y = make_data()
    X = np.where(X == 0.0, 0.01, X)  # so that all columns are centred wherever they are
    model, other = fitted(X, y, **parameters), fitted(in_other_units(X), y, **parameters)
    np.testing.assert_allclose(
        other.predict_log_proba(in_other_units(X)), model.predict_log_proba(X), atol=2e-3
    )
    np.testing.assert_allclose(UNITS * other.coef_, model.coef_, rtol=2e-3, atol=2e-3)


def test_it_is_the_fit_of_scaled_columns():
    X, y = make_data(n=1000)
    raw = in_other_units(X)
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)  # no range is above ten deviations
    best = fitted(scaled, y, scale=False, solver="lbfgs", max_epochs=500)
    for solver in ("lbfgs", "implicit"):
        model = fitted(raw, y, solver=solver, max_epochs=200)
        assert model.log_loss(raw, y) == pytest.approx(best.log_loss(scaled, y), rel=1e-3)
        np.testing.assert_allclose(model.coef_ * raw.std(axis=0), best.coef_, atol=0.02)


def test_a_number_for_alpha_is_in_the_units_of_the_columns():
    X, y = make_data()
    X = in_other_units(X)
    auto, off, on = (fitted(X, y, scale=scale) for scale in ("auto", False, True))
    assert_same_bits(auto, off)
    assert not np.array_equal(on.coef_, off.coef_)


def test_large_means_lose_no_digits():
    X, y = make_data()
    far = X + 2.0**20
    near, other = fitted(X, y), fitted(far, y)
    np.testing.assert_allclose(other.decision_function(far), near.decision_function(X), atol=2e-3)


def test_weights_count_in_the_conditioning():
    X, y = make_data()
    junk = np.r_[X, 1e6 * X[:50]], np.r_[y, y[:50]], np.r_[np.ones(y.size), np.zeros(50)]
    assert_same_bits(fitted(*junk), fitted(X, y))


def test_sparse_rows_beside_large_numbers():
    X, y = make_data()
    rng = np.random.default_rng(0)
    text = sp.random(y.size, 40, 0.1, format="csr", rng=rng)
    rows = [sp.hstack([text, unit * (X + 3.0)], format="csr") for unit in (1.0, 1024.0)]
    one, other = (fitted(X, y) for X in rows)
    np.testing.assert_array_equal(other.predict_proba(rows[1]), one.predict_proba(rows[0]))
    assert_same_bits(fitted(text, y), fitted(text, y, scale=False))


def test_partial_fit_continues_from_the_folded_weights():
    X, y = make_data()
    raw = in_other_units(X)
    model = fitted(raw, y)
    before, loss = model.coef_, model.log_loss(raw, y)
    model.partial_fit(raw[:100], y[:100])
    # As if the model had been given these weights without any state.
    assert not model._fitted.scaled
    length = (raw[:100] ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(model._fitted.partial.damping, 0.1 * length, rtol=1e-5)
    assert model.log_loss(raw, y) < loss + 0.02
    np.testing.assert_allclose(model.coef_ * UNITS, before * UNITS, atol=0.2)
    for _ in range(3):
        model.partial_fit(raw, y)
    assert model.log_loss(raw, y) < loss + 0.02


def test_partial_fit_takes_no_strength_that_is_meant_for_scaled_columns():
    X, y = make_data()
    model = fitted(in_other_units(X), y, alpha="auto", scale="auto", max_epochs=12)
    assert model.alpha_ > 1e-3
    model.partial_fit(in_other_units(X), y)
    assert model.alpha_ == model.plan_["alpha"] == STREAM_ALPHA


@pytest.mark.parametrize("solver", ["implicit", "lbfgs"])
def test_a_warm_start_begins_where_the_last_fit_ended(solver):
    X, y = make_data()
    raw = in_other_units(X)
    settings = {"solver": solver, "warm_start": True, "max_epochs": 60}
    model = fitted(raw, y, **settings)
    coef, loss = model.coef_ * UNITS, model.log_loss(raw, y)
    model.set_params(max_epochs=1)
    model.fit(raw, y)
    np.testing.assert_allclose(model.coef_ * UNITS, coef, atol=0.02)
    # Other rows, and so other conditioning.
    model.fit(raw[:200], y[:200])
    assert model.log_loss(raw, y) < loss + 0.02
    # A fit without scaling does not take over a rate in other units.
    before = model.learning_rate_
    model.set_params(scale=False).fit(raw, y)
    assert before is None or model.learning_rate_ != before


@pytest.mark.parametrize("killed", [pytest.param(0, marks=thorough), 3])
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, killed):
    X, y = make_data()
    raw, path = in_other_units(X), tmp_path / "checkpoint"
    settings = ALPHA | {"max_epochs": 8, "early_stopping": True}
    killed_after(killed, SoftmaxClassifier(**settings), raw, y, path)
    resumed = SoftmaxClassifier(**settings).fit(raw, y, checkpoint=path)
    assert_same_bits(resumed, fitted(raw, y, max_epochs=8, early_stopping=True))


@pytest.mark.parametrize("form", FORMS)
def test_a_file_keeps_the_folded_weights(tmp_path, form):
    X, y = make_data()
    X = form(in_other_units(X))
    model = fitted(X, y)
    model.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")
    assert_same_bits(loaded, model)
    assert_same_bits(loaded.partial_fit(X, y), model.partial_fit(X, y))


class Seen(Callback):
    """Keeps the solution and the rows that callbacks see."""

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator):
        self.X = X
        self.fit = fitted_estimator._fitted
        return False


@pytest.mark.parametrize("solver", ["implicit", "lbfgs"])
def test_callbacks_see_the_units_that_were_given(solver):
    X, y = make_data()
    raw, seen = in_other_units(X), Seen()
    model = SoftmaxClassifier(solver=solver, **ALPHA).set_callbacks(seen).fit(raw, y)
    np.testing.assert_array_equal(seen.X, raw)
    np.testing.assert_array_equal(seen.fit.weights.W, model._fitted.weights.W)
    np.testing.assert_array_equal(seen.fit.weights.bias, model._fitted.weights.bias)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"solver": "umax", "radius": 3.0}, "radius=3.0"),
        ({"solver": "augment-reduce", "posterior": "gaussian"}, "posterior='gaussian'"),
        ({"solver": "augment-reduce"}, "solver='augment-reduce'"),
        ({"scale": "yes"}, "scale='yes'"),
        ({"scale": 2}, "scale=2"),
    ],
)
def test_what_is_in_the_units_of_the_columns_is_refused(parameters, named):
    X, y = make_data(n=60)
    model = SoftmaxClassifier(**(ALPHA | parameters))
    assert named in message(ValueError, model.fit, X, y)


def test_auto_leaves_columns_as_they_are_where_their_units_matter():
    X, y = make_data()
    settings = {"solver": "umax", "radius": 3.0, "alpha": "auto", "max_epochs": 4}
    auto, off = (fitted(X, y, scale=scale, **settings) for scale in ("auto", False))
    assert_same_bits(auto, off)


def test_data_larger_than_memory_is_not_scaled():
    X, y = make_data()
    parts = [(X[:150], y[:150]), (X[150:], y[150:])]
    settings = {"alpha": "auto", "max_epochs": 6}
    auto, off = (fitted(iter(parts), None, scale=scale, **settings) for scale in ("auto", False))
    assert_same_bits(auto, off)
    text = message(ValueError, fitted, iter(parts), None)
    assert text.startswith("scale=True is for data in memory")
