"""`penalty_factor` of linear models and softmaxes: the optimum of its definition, and its forms."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.linear_model import Lasso

import monro
from monro import LinearClassifier, LinearRegressor, SoftmaxClassifier
from tests.callbacks import killed_after
from tests.linear.helpers import assert_same_bits, make_data
from tests.marks import thorough
from tests.messages import message

FACTORS = np.array([0.01, 1.0, 3.0, 0.5, 40.0])
FORMS = [np.asarray, sp.csr_matrix]
RIDGE = {"alpha": 0.05, "penalty_factor": FACTORS, "random_state": 0}
LASSO = RIDGE | {"l1_ratio": 1.0}
ACCURATE = {"dtype": "float64", "max_epochs": 300}


def mean_log_loss(p, y):
    return np.logaddexp(0.0, np.where(y == 1, -p, p)).mean()


def mean_squared_loss(p, y):
    return ((p - y) ** 2).mean() / 2


def ridge_optimum(loss, X, y):
    """Weights and intercept that minimise the definition of F; scipy finds them."""

    def objective(v):
        return loss(X @ v[:-1] + v[-1], y) + 0.05 / 2 * (FACTORS @ v[:-1] ** 2)

    v = minimize(objective, np.zeros(X.shape[1] + 1), method="BFGS", options={"gtol": 1e-8}).x
    return v[:-1], v[-1]


def targets(X, y):
    return X @ np.arange(1.0, 6.0) + y + 3.0


# ------------------------------------------------------------------------------ the optimum


@pytest.mark.parametrize("form", FORMS)
def test_a_ridge_minimises_the_objective(form):
    X, y = make_data()
    for model, loss, t in (
        (LinearClassifier(loss="log", max_epochs=50, **RIDGE), mean_log_loss, y),
        (LinearRegressor(max_epochs=50, **RIDGE), mean_squared_loss, targets(X, y)),
    ):
        model.fit(form(X), t)
        coef, intercept = ridge_optimum(loss, X, t)
        assert model.solver_ == "coordinate"
        np.testing.assert_allclose(model.coef_.ravel(), coef, atol=2e-6)
        np.testing.assert_allclose(model.intercept_, intercept, atol=2e-6)


@pytest.mark.parametrize("solver", ["dual", "aisgd"])
def test_steps_on_rows_come_near_the_same_optimum(solver):
    X, y = make_data()
    settings = RIDGE | {"penalty_factor": np.maximum(FACTORS, 0.3), "loss": "log"}
    best = LinearClassifier(**settings, max_epochs=50).fit(X, y)
    model = LinearClassifier(**settings, solver=solver, max_epochs=300).fit(X, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_a_lasso_satisfies_the_conditions_of_its_optimum(form):
    X, y = make_data()
    model = LinearClassifier(loss="log", max_epochs=50, **LASSO).fit(form(X), y)
    residual = expit(X @ model.coef_[0] + model.intercept_) - y
    slope, limit = X.T @ residual / y.size, 0.05 * FACTORS
    w = model.coef_[0]
    assert 0 < np.count_nonzero(w) < w.size
    assert abs(residual.mean()) < 1e-7
    np.testing.assert_allclose(slope[w != 0], -(limit * np.sign(w))[w != 0], atol=1e-6)
    assert (abs(slope) <= limit + 1e-6).all()


def test_a_lasso_is_that_of_scikit_learn_on_divided_columns():
    X, y = make_data()
    t = targets(X, y)
    model = LinearRegressor(max_epochs=100, **LASSO).fit(X, t)
    peer = Lasso(alpha=0.05, tol=1e-12).fit(X / FACTORS, t)
    np.testing.assert_allclose(model.coef_, peer.coef_ / FACTORS, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver", ["lbfgs", "coordinate", "implicit"])
def test_a_softmax_minimises_the_objective(solver, form):
    X, y = make_data(n_classes=3)

    def objective(v):
        W, b = v[:-3].reshape(3, 5), v[-3:]
        losses = -log_softmax(X @ W.T + b, axis=1)[np.arange(y.size), y]
        return losses.mean() + 0.05 / 2 * (FACTORS * W**2).sum()

    best = minimize(objective, np.zeros(18), method="BFGS", options={"gtol": 1e-8}).x
    model = SoftmaxClassifier(solver=solver, **RIDGE, **ACCURATE).fit(form(X), y)
    np.testing.assert_allclose(model.coef_, best[:-3].reshape(3, 5), atol=1e-4)


def test_a_sparse_softmax_satisfies_the_conditions_of_its_optimum():
    X, y = make_data(n_classes=3)
    model = SoftmaxClassifier(solver="coordinate", **LASSO, **ACCURATE).fit(X, y)
    slope = (model.predict_proba(X) - np.eye(3)[y]).T @ X / y.size
    W, limit = model.coef_, np.broadcast_to(0.05 * FACTORS, slope.shape)
    assert 0 < np.count_nonzero(W) < W.size
    np.testing.assert_allclose(slope[W != 0], -(limit * np.sign(W))[W != 0], atol=1e-6)
    assert (abs(slope) <= limit + 1e-6).all()


def test_very_light_penalties_beside_common_ones():
    """As the optimum on the limit: a feature of no penalty at all."""
    X, y = make_data(n_classes=3)
    settings = {"alpha": 0.05, "random_state": 0, "dtype": "float64"}
    light = [SoftmaxClassifier(penalty_factor=[f, 1, 1, 1, 1], **settings) for f in (1e-5, 1e-7)]
    coef = [model.fit(X, y).coef_ for model in light]
    np.testing.assert_allclose(coef[0], coef[1], atol=1e-4)


# ------------------------------------------------------------------------------ what follows


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(
    "make", [lambda **given: LinearClassifier(loss="log", **given), SoftmaxClassifier]
)
def test_factors_of_one_change_nothing(make, scale):
    X, y = make_data()
    settings = {"alpha": 0.01, "scale": scale, "solver": "coordinate", "max_epochs": 50}
    one = make(penalty_factor=np.ones(5), **settings).fit(X, y)
    assert_same_bits(one, make(**settings).fit(X, y))


def test_a_large_factor_keeps_a_feature_out():
    X, y = make_data()
    factors = [1.0, 1e12, 1.0, 1.0, 1.0]
    for model in (LinearClassifier(), SoftmaxClassifier(alpha=0.01), LinearRegressor()):
        model.set_params(penalty_factor=factors, random_state=0).fit(X, y)
        weights = np.abs(np.atleast_2d(model.coef_)).max(axis=0)
        assert weights[1] < 1e-5 < 1e-2 < weights[0]


def test_scaled_columns_are_penalised_as_scaled():
    X, y = make_data()
    raw = 1000.0 * X + 7.0
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    settings = RIDGE | {"loss": "log", "max_epochs": 50}
    model = LinearClassifier(**settings, scale=True).fit(raw, y)
    other = LinearClassifier(**settings, scale=False).fit(scaled, y)
    np.testing.assert_allclose(model.coef_ * raw.std(axis=0), other.coef_, rtol=1e-6)


def test_numbers_beside_text_are_scaled_and_have_factors():
    X, y = make_data()
    rng = np.random.default_rng(0)
    text = sp.random(y.size, 40, 0.1, format="csr", rng=rng)
    both = sp.hstack([text, 100.0 * (X + 3.0)], format="csr")
    length = np.r_[np.ones(40), np.sqrt((both[:, 40:].toarray() ** 2).mean(axis=0))]
    factors = rng.uniform(0.1, 10.0, 45)
    settings = {"loss": "log", "alpha": 0.01, "max_epochs": 100}
    model = LinearClassifier(penalty_factor=factors, scale=True, **settings).fit(both, y)
    divided = both / (length * np.sqrt(factors))
    peer = LinearClassifier(solver="coordinate", **settings).fit(sp.csr_matrix(divided), y)
    scores = model.decision_function(both), peer.decision_function(sp.csr_matrix(divided))
    np.testing.assert_allclose(*scores, atol=1e-6)


def test_constant_columns_and_zeros():
    X, y = make_data()
    X = np.column_stack([X, np.zeros(y.size), np.full(y.size, 3.0)])
    settings = RIDGE | {"penalty_factor": np.r_[FACTORS, 0.1, 0.1]}
    for model in (LinearClassifier(scale=True, **settings), SoftmaxClassifier(**settings)):
        assert model.fit(X, y).coef_[0, 5] == 0.0
        assert np.isfinite(model.coef_).all()


# ------------------------------------------------------------------------------ the strength


@pytest.mark.parametrize("parameters", [{}, {"l1_ratio": 1.0}])
@pytest.mark.parametrize(
    "make",
    [
        lambda **given: LinearClassifier(loss="log", **given),
        pytest.param(LinearRegressor, marks=thorough),
        SoftmaxClassifier,
    ],
)
def test_the_path_is_not_led_astray_by_one_light_feature(make, parameters):
    X, y = make_data(n=200, d=30)
    factors = np.ones(30)
    factors[0] = 1e-6
    settings = {"random_state": 0, "max_epochs": 12} | parameters
    model = make(penalty_factor=factors, **settings).fit(X, y)
    plain = make(**settings).fit(X, y)
    first, same = (m.alpha_path_[0]["alpha"] for m in (model, plain))
    assert 0.5 * same < first < 2.0 * same
    assert 0.1 * plain.alpha_ < model.alpha_ < 10.0 * plain.alpha_


@pytest.mark.parametrize("l1_ratio", [0, 1])
@pytest.mark.parametrize(
    "make", [lambda **given: LinearClassifier(loss="log", **given), SoftmaxClassifier]
)
def test_the_path_is_that_of_divided_columns(make, l1_ratio):
    X, y = make_data()
    factors = np.array([1.0, 1.0, 1.0, 9.0, 100.0])  # none is below the median
    settings = {"solver": "coordinate", "scale": False, "l1_ratio": l1_ratio, "random_state": 0}
    model = make(penalty_factor=factors, **settings).fit(X, y)
    peer = make(**settings).fit(X / (factors if l1_ratio else np.sqrt(factors)), y)
    assert model.alpha_ == pytest.approx(peer.alpha_, rel=1e-3)
    means = [[record["mean"] for record in m.alpha_path_] for m in (model, peer)]
    np.testing.assert_allclose(*means, rtol=1e-4)


def test_the_path_finds_a_strength_with_kinks_and_without():
    X, y = make_data()
    factors = [0.1, 1.0, 1.0, 2.0, 10.0]
    for loss in ("hinge", "squared_hinge"):
        model = LinearClassifier(loss=loss, penalty_factor=factors, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.7
        assert model.predict_proba(X).shape == (y.size, 2)


# ------------------------------------------------------------------------------ forms


@pytest.mark.parametrize("kind", [LinearClassifier, SoftmaxClassifier])
@pytest.mark.parametrize("given", [FACTORS, FACTORS.tolist(), tuple(FACTORS.tolist())])
def test_a_file_keeps_the_factors(tmp_path, kind, given):
    X, y = make_data()
    model = kind(alpha=0.05, penalty_factor=given, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")
    assert_same_bits(loaded, model)
    np.testing.assert_array_equal(loaded.penalty_factor, FACTORS)
    assert_same_bits(loaded.fit(X, y), model)
    np.testing.assert_array_equal(clone(model).penalty_factor, FACTORS)


@pytest.mark.parametrize("killed", [pytest.param(0, marks=thorough), 3])
@pytest.mark.parametrize("kind", [LinearClassifier, SoftmaxClassifier])
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, kind, killed):
    X, y = make_data()
    settings = RIDGE | {"alpha": "auto", "max_epochs": 8, "early_stopping": True}
    killed_after(killed, kind(**settings), X, y, tmp_path / "checkpoint")
    resumed = kind(**settings).fit(X, y, checkpoint=tmp_path / "checkpoint")
    assert_same_bits(resumed, kind(**settings).fit(X, y))
    settings["penalty_factor"] = 2.0 * FACTORS
    model = kind(**settings)
    text = message(ValueError, model.fit, X, y, checkpoint=tmp_path / "checkpoint")
    assert "penalty_factor was" in text


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (LinearClassifier, {"solver": "dual", "loss": "log", "max_epochs": 300}),
        (LinearClassifier, {"solver": "sgd", "loss": "log", "max_epochs": 300}),
        (SoftmaxClassifier, {"solver": "lbfgs", "max_epochs": 300}),
        (SoftmaxClassifier, {"max_epochs": 60}),
    ],
)
def test_a_warm_start_begins_where_the_last_fit_ended(kind, settings):
    X, y = make_data()
    factors = np.maximum(FACTORS, 0.1)
    model = kind(**(RIDGE | settings | {"penalty_factor": factors, "warm_start": True})).fit(X, y)
    before, rate = model.coef_.copy(), model.learning_rate_
    model.set_params(max_epochs=1).fit(X, y)
    np.testing.assert_allclose(model.coef_, before, atol=0.03)
    # With other factors, and so another rate, it goes to another optimum.
    model.set_params(penalty_factor=np.full(5, 1e4), max_epochs=60).fit(X, y)
    assert np.abs(model.coef_).max() < 0.05
    assert rate is None or model.learning_rate_ != rate


# ------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor, SoftmaxClassifier])
@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"penalty_factor": [1, 1, 0, 1, 1]}, ["feature 2 has 0", "such as 0.01"]),
        ({"penalty_factor": [1, 1, 1, -2, 1]}, ["feature 3 has -2"]),
        ({"penalty_factor": [np.nan, 1, 1, 1, 1]}, ["feature 0 has nan"]),
        ({"penalty_factor": [1, np.inf, 1, 1, 1]}, ["feature 1 has inf"]),
        ({"penalty_factor": 2.0}, ["one for each feature"]),
        ({"penalty_factor": np.ones((1, 5))}, ["one for each feature"]),
        ({"penalty_factor": "abc"}, ["one for each feature"]),
        ({"penalty_factor": [[1], [1, 2]]}, ["one for each feature"]),
        ({"penalty_factor": [1, 1]}, ["2 numbers", "5 features"]),
        ({"penalty_factor": [1, 1], "alpha": 0.1}, ["2 numbers", "5 features"]),
        ({"penalty_factor": np.ones(5), "l1_ratio": 0.5}, ["l1_ratio=0.5", "l1_ratio=1"]),
    ],
)
def test_other_values_are_refused(kind, parameters, named):
    X, y = make_data(n=60)
    text = message(ValueError, kind(**parameters).fit, X, y)
    assert text.startswith("penalty_factor")
    assert all(part in text for part in named)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"solver": "umax", "radius": 3.0}, "radius=3.0"),
        ({"solver": "augment-reduce", "posterior": "gaussian"}, "posterior='gaussian'"),
        ({"solver": "augment-reduce"}, "solver='augment-reduce'"),
    ],
)
def test_what_is_in_the_units_of_the_columns_is_refused(parameters, named):
    X, y = make_data(n=60)
    text = message(ValueError, SoftmaxClassifier(**(RIDGE | parameters)).fit, X, y)
    assert text.startswith("penalty_factor")
    assert named in text


@pytest.mark.parametrize("alpha", [0.1, "auto"])
@pytest.mark.parametrize("kind", [LinearClassifier, SoftmaxClassifier])
def test_data_larger_than_memory_is_refused(kind, alpha):
    X, y = make_data()
    model = kind(**(RIDGE | {"alpha": alpha}))
    text = message(ValueError, model.fit, iter([(X[:150], y[:150]), (X[150:], y[150:])]))
    assert text.startswith("penalty_factor is for data in memory")


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor, SoftmaxClassifier])
def test_streams_are_refused(kind):
    X, y = make_data(n=60)
    model = kind(**RIDGE)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, y)
    assert "penalty_factor is for fit" in str(error.value.__cause__ or error.value)
