"""alpha="auto" of the linear estimators."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_expit, log_softmax
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GroupKFold, PredefinedSplit, TimeSeriesSplit, train_test_split

import monro
from monro import LinearClassifier, LinearRegressor
from monro.linear.base import STREAM_ALPHA
from monro.linear.calibration import fit_calibration
from tests.callbacks import Recorder, expected_events, killed_after
from tests.linear.helpers import assert_same_bits, make_data
from tests.marks import thorough
from tests.messages import message


def noisy(n, d=60, seed=0):
    """Three columns matter, the other ones invite a model without a penalty to learn noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, :3].sum(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("form", [np.asarray, pytest.param(sp.csr_matrix, marks=thorough)])
def test_it_is_the_fit_with_the_strength_chosen(form):
    X, y = make_data()
    model = LinearClassifier(loss="log", alpha="auto", random_state=0).fit(form(X), y)
    same = LinearClassifier(
        loss="log", alpha=model.alpha_, scale=True, solver=model.solver_, random_state=0
    ).fit(form(X), y)

    # "auto" begins at about the solution, which the path has found.
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-3)
    np.testing.assert_allclose(model.intercept_, same.intercept_, rtol=1e-3)
    assert model.n_iter_ <= same.n_iter_
    strengths = [record["alpha"] for record in model.alpha_path_]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] <= model.alpha_ <= strengths[0]
    assert all(record["standard_error"] > 0 for record in model.alpha_path_)


def test_new_rows_are_predicted_as_well_as_with_a_search_by_scikit_learn():
    X, y = noisy(900)
    X, new_X, y, new_y = train_test_split(X, y > 0, test_size=500, random_state=0)
    peer = LogisticRegressionCV(
        Cs=10, cv=5, scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False
    ).fit(X, y)
    auto = LinearClassifier(loss="log", alpha="auto", random_state=0).fit(X, y)
    weak = LinearClassifier(loss="log", alpha=1e-8, solver="coordinate").fit(X, y)

    best = log_loss(new_y, peer.predict_proba(new_X))
    assert log_loss(new_y, auto.predict_proba(new_X)) < 1.02 * best
    assert log_loss(new_y, weak.predict_proba(new_X)) > 1.1 * best


def test_regression_on_new_rows_is_as_good_as_ridge_with_a_search():
    X, y = noisy(300)
    X, new_X, y, new_y = train_test_split(X, y, test_size=150, random_state=0)
    peer = RidgeCV(alphas=np.logspace(-3, 4, 30)).fit(X, y)
    auto = LinearRegressor(alpha="auto", random_state=0).fit(X, y)
    assert auto.score(new_X, new_y) > peer.score(new_X, new_y) - 0.01


def test_a_lasso_on_new_rows_is_as_good_as_that_of_scikit_learn():
    X, y = noisy(300)
    X, new_X, y, new_y = train_test_split(X, y, test_size=150, random_state=0)
    peer = LassoCV(cv=5).fit(X, y)
    auto = LinearRegressor(alpha="auto", l1_ratio=1.0, scale=False, random_state=0).fit(X, y)

    assert auto.score(new_X, new_y) > peer.score(new_X, new_y) - 0.01
    assert auto.alpha_path_[0]["nonzeros"] == 0
    assert 3 <= np.count_nonzero(auto.coef_) < 40
    # The first strength is the weakest that leaves no weight.
    strongest = abs((y - y.mean()) @ X).max() / y.size
    assert auto.alpha_path_[0]["alpha"] == pytest.approx(
        strongest, rel=0.3
    )  # the folds' rows differ


def test_the_units_of_the_features_do_not_matter():
    X, y = make_data()
    one, many = (
        LinearClassifier(loss="log", alpha="auto", scale=False, random_state=0).fit(c * X, y)
        for c in (1.0, 256.0)
    )
    assert many.alpha_ == pytest.approx(256.0**2 * one.alpha_, rel=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_splits_are_those_of_cv(weighted):
    X, y = noisy(240)
    groups = np.arange(240) // 12
    weight = np.where(np.arange(240) % 7 == 0, 0.0, 1.0) if weighted else None
    pairs = list(GroupKFold(4).split(X, y, groups))
    given, folds = (
        LinearRegressor(alpha="auto", cv=cv, scale=False, random_state=0).fit(X, y, weight)
        for cv in (pairs, 4)
    )
    # By hand, for the first strength.
    losses, shares = [], []
    kept = np.ones(240) if weight is None else weight
    for training, judged in pairs:
        alpha = given.alpha_path_[0]["alpha"] * kept.sum() / kept[training].sum()
        model = LinearRegressor(alpha=alpha, solver="coordinate", max_epochs=2)
        model.fit(X[training], y[training], kept[training])
        losses.append(0.5 * (model.predict(X[judged]) - y[judged]) ** 2)
        shares.append(kept[judged])
    mean = np.average(np.concatenate(losses), weights=np.concatenate(shares))
    assert given.alpha_path_[0]["mean"] == pytest.approx(mean)
    assert folds.alpha_path_[0]["mean"] != pytest.approx(mean, rel=1e-6)


@thorough
def test_a_splitter_may_respect_time():
    X, y = noisy(240)
    model = LinearRegressor(alpha="auto", cv=TimeSeriesSplit(3), random_state=0).fit(X, y)
    assert model.alpha_ > 0


@pytest.mark.parametrize("killed", [pytest.param(0, marks=thorough), 1])
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, killed):
    X, y = make_data(n_classes=3)
    model = LinearClassifier(loss="log", alpha="auto", random_state=0)
    whole = monro.LinearClassifier(**model.get_params()).fit(X, y)
    killed_after(killed, model, X, y, tmp_path / "checkpoint")
    resumed = LinearClassifier(**model.get_params()).fit(X, y, checkpoint=tmp_path / "checkpoint")

    assert_same_bits(resumed, whole)
    assert resumed.alpha_path_ == whole.alpha_path_
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=thorough)])
def test_a_file_keeps_path_and_probabilities(tmp_path, n_classes):
    X, y = make_data(n_classes=n_classes)
    model = LinearClassifier(alpha="auto", cv=TimeSeriesSplit(3), random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")

    assert loaded.alpha == "auto"
    assert loaded.alpha_path_ == model.alpha_path_
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_callbacks_see_the_last_fit_only():
    X, y = make_data()
    recorder = Recorder()
    model = LinearClassifier(loss="log", alpha="auto", random_state=0, max_epochs=2)
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.events == expected_events(2)


def test_folds_in_parallel_give_the_same_bits():
    X, y = make_data()
    one, two = (
        LinearClassifier(loss="log", alpha="auto", n_jobs=n, random_state=0).fit(X, y)
        for n in (1, 2)
    )
    assert one.alpha_path_ == two.alpha_path_


def test_a_fit_that_continues_keeps_its_strength():
    X, y = make_data()
    model = LinearClassifier(loss="log", alpha="auto", warm_start=True, random_state=0).fit(X, y)
    path = model.alpha_path_
    assert model.fit(X[:200], y[:200]).alpha_path_ is path


def test_batches_take_a_fixed_strength():
    X, y = make_data()
    auto, number = (
        LinearClassifier(loss="log", alpha=alpha, random_state=0).partial_fit(X, y, classes=[0, 1])
        for alpha in ("auto", STREAM_ALPHA)
    )
    assert_same_bits(auto, number)


# --------------------------------------------------------------------------------- probabilities


def test_the_slope_of_two_classes_is_that_of_a_generic_solver():
    rng = np.random.default_rng(0)
    s = rng.normal(size=4000)
    y = (rng.random(4000) < expit(1.5 * s)).astype(int)
    slope, power = fit_calibration(s[:, None], y, np.ones(4000))
    peer = LinearClassifier(loss="log", alpha=1e-9, solver="coordinate", fit_intercept=False)
    assert slope == pytest.approx(peer.fit(s[:, None], y).coef_[0, 0], rel=0.001)
    assert power == 0.0


def calibrated_loss(a, b, S, y):
    return -log_softmax(a * S + b * log_expit(S), axis=1)[np.arange(y.size), y].mean()


@pytest.mark.parametrize(("a", "b"), [(2.0, 0.0), (0.0, 1.5), (0.7, 1.0)])
def test_two_numbers_for_several_classes_have_the_least_loss(a, b):
    rng = np.random.default_rng(0)
    S = 2.0 * rng.normal(size=(20_000, 4))
    y = np.argmax(a * S + b * log_expit(S) + rng.gumbel(size=S.shape), axis=1)
    found = fit_calibration(S, y, np.ones(y.size))
    least = calibrated_loss(*found, S, y)
    np.testing.assert_allclose(found, (a, b), atol=0.1)
    for change in ((0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)):
        other = np.array(found) + change
        assert other.min() < 0 or least < calibrated_loss(*other, S, y)


def test_weights_count_in_the_calibration():
    rng = np.random.default_rng(0)
    n = 5000
    S = rng.normal(size=(n, 3))
    y = np.argmax(
        np.where(rng.random((n, 1)) < 0.5, 2.0, 0.5) * S + rng.gumbel(size=(n, 3)), axis=1
    )
    weight = np.where(y == S.argmax(axis=1), 1, 3)
    repeated = np.repeat(np.arange(n), weight)
    by_weight = fit_calibration(S, y, 1e4 * weight)  # their scale does not count
    by_rows = fit_calibration(S[repeated], y[repeated], np.ones(repeated.size))
    np.testing.assert_allclose(by_weight, by_rows, atol=0.01)
    assert by_weight.a < fit_calibration(S, y, np.ones(n)).a - 0.1


def test_separable_rows_do_not_make_certain():
    S, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    assert fit_calibration(S, y, np.ones(4)).a < 10.0


def test_a_hinge_has_probabilities_that_new_rows_confirm():
    X, y = noisy(1500)
    X, new_X, y, new_y = train_test_split(X, y > 0, test_size=700, random_state=0)
    hinge = LinearClassifier(alpha="auto", random_state=0).fit(X, y)
    log = LinearClassifier(loss="log", alpha="auto", random_state=0).fit(X, y)
    by_hinge, by_log = (brier_score_loss(new_y, m.predict_proba(new_X)[:, 1]) for m in (hinge, log))
    assert by_hinge < by_log + 0.01
    np.testing.assert_allclose(np.exp(hinge.predict_log_proba(new_X)), hinge.predict_proba(new_X))


def test_several_classes_have_better_probabilities_than_normalised_ones():
    X, y = make_data(n=1200, n_classes=4)
    X, new_X, y, new_y = train_test_split(X, y, test_size=700, random_state=0)
    auto = LinearClassifier(loss="log", alpha="auto", random_state=0).fit(X, y)
    number = LinearClassifier(loss="log", alpha=auto.alpha_, scale=True, random_state=0).fit(X, y)
    assert log_loss(new_y, auto.predict_proba(new_X)) < log_loss(new_y, number.predict_proba(new_X))


def test_refusals():
    X, y = make_data(n=40)
    assert "alpha" in message(ValueError, LinearClassifier(alpha="best").fit, X, y)
    assert "cv" in message(ValueError, LinearClassifier(alpha="auto", cv=1).fit, X, y)
    assert "cv" in message(ValueError, LinearClassifier(alpha="auto", cv=[([], [])]).fit, X, y)
    assert not hasattr(LinearClassifier(alpha=0.1), "predict_proba")
    stream = LinearClassifier(alpha="auto").partial_fit(X, y, classes=[0, 1])
    assert "partial_fit" in message(AttributeError, stream.predict_proba, X)


@thorough
@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "hinge", "l1_ratio": 1.0},
        {"loss": "squared_hinge"},
        {"solver": "sgd"},
        {"solver": "sgdqn"},
        {"loss": "log", "schedule": "inverse-t", "solver": "asgd"},
        {"loss": "log", "center": True},
        {"loss": "log", "early_stopping": True},
        {"loss": "log", "max_steps": 500},
        {"loss": "log", "class_weight": "balanced"},
        {"loss": "log", "fit_intercept": False},
        {"loss": "log", "n_jobs": 2},
    ],
    ids=str,
)
def test_it_goes_with_other_parameters(parameters):
    X, y = make_data()
    model = LinearClassifier(alpha="auto", random_state=0, **parameters).fit(X, y)
    assert model.alpha_ > 0
    assert model.score(X, y) > 0.7


@thorough
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile", "poisson", "gamma"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_every_loss_of_regression(loss, l1_ratio):
    X, y = noisy(300, d=5)
    y = np.exp(y / 3) if loss in ("poisson", "gamma") else y
    model = LinearRegressor(loss=loss, alpha="auto", l1_ratio=l1_ratio, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.alpha_path_[0]["mean"] > min(record["mean"] for record in model.alpha_path_)


@thorough
def test_rows_of_a_store():
    X, y = noisy(4000, d=10)
    chunks = [(X[k : k + 500], y[k : k + 500]) for k in range(0, 4000, 500)]
    model = LinearRegressor(alpha="auto", random_state=0).fit(iter(chunks))
    assert model.score(X, y) > 0.7


def test_a_splitter_may_know_each_row_of_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 3))
    thirds = PredefinedSplit(np.repeat([0, 1, 2], 10_000))
    model = LinearClassifier(loss="log", cv=thirds, random_state=0).fit(X, X[:, 0] > 0)
    assert model.alpha_ > 0
