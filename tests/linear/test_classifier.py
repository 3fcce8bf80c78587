"""LinearClassifier: what it minimises, its shapes and its predictions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.svm import SVC, LinearSVC

from monro import LinearClassifier
from tests.linear.helpers import SOLVERS
from tests.marks import thorough, thorough_unless

ALPHA = 0.05
SMOOTH = ("log", "squared_hinge")
WITH_INVERSE_T = ("sgd", "asgd", "casgd", "implicit", "aisgd")


def make_data(n_classes=2, n=120, d=6, seed=0):
    """Noisy classes that no hyperplane separates; a third of the entries are 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    centres = rng.normal(size=(n_classes, d))
    y = np.argmax(X @ centres.T + rng.normal(scale=1.5, size=(n, n_classes)) + 0.3, axis=1)
    return X, y


def loss_and_slope(loss, margin):
    if loss == "log":
        return np.logaddexp(0.0, -margin), -expit(-margin)
    gap = np.maximum(0.0, 1.0 - margin)
    if loss == "squared_hinge":
        return gap**2, -2.0 * gap
    return gap, -1.0 * (gap > 0)


def objective(loss, X, sign, w, b, alpha=ALPHA, weight=None):
    weight = np.ones(sign.size) if weight is None else weight
    values, _ = loss_and_slope(loss, sign * (X @ w + b))
    return weight @ values / weight.sum() + alpha / 2 * (w @ w)


def reference(loss, X, sign, fit_intercept=True, alpha=ALPHA, weight=None):
    """Minimise a smooth objective by L-BFGS."""
    n, d = X.shape
    weight = np.ones(n) if weight is None else weight
    weight = weight / weight.sum()

    def value_and_gradient(theta):
        w, b = theta[:d], theta[d] * fit_intercept
        values, slopes = loss_and_slope(loss, sign * (X @ w + b))
        g = weight * slopes * sign
        gradient = np.append(X.T @ g + alpha * w, g.sum() * fit_intercept)
        return weight @ values + alpha / 2 * (w @ w), gradient

    options = {"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
    found = minimize(
        value_and_gradient, np.zeros(d + 1), jac=True, method="L-BFGS-B", options=options
    )
    return found.x[:d], found.x[d] * fit_intercept


def signs(y):
    return np.where(y == 1, 1.0, -1.0)


def converged(**parameters):
    defaults = {"solver": "dual", "alpha": ALPHA, "max_epochs": 500, "random_state": 0}
    return LinearClassifier(**defaults | parameters)


# -------------------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize(
    ("loss", "form"),
    thorough_unless(
        lambda loss, form: form is np.asarray or loss == "log", SMOOTH, [np.asarray, sp.csr_matrix]
    ),
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_dual_reaches_the_optimum_that_lbfgs_finds(loss, fit_intercept, form):
    X, y = make_data()
    w, b = reference(loss, X, signs(y), fit_intercept)

    model = converged(loss=loss, fit_intercept=fit_intercept).fit(form(X), y)

    np.testing.assert_allclose(model.coef_[0], w, atol=1e-6)
    np.testing.assert_allclose(model.intercept_[0], b, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_dual_reaches_the_optimum_of_the_hinge_loss(fit_intercept, form):
    X, y = make_data()
    sign = signs(y)
    C = 1 / (ALPHA * y.size)
    if fit_intercept:  # LinearSVC would penalise the intercept
        svm = SVC(kernel="linear", C=C, tol=1e-10).fit(X, y)
    else:
        svm = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    w, b = svm.coef_[0], float(np.ravel(svm.intercept_)[0])

    model = converged(loss="hinge", fit_intercept=fit_intercept, max_epochs=3000).fit(form(X), y)

    mine = objective("hinge", X, sign, model.coef_[0], model.intercept_[0])
    np.testing.assert_allclose(mine, objective("hinge", X, sign, w, b), rtol=1e-6)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-4)


@pytest.mark.parametrize(
    ("solver", "loss"),
    thorough_unless(lambda solver, loss: solver == "dual" or loss == "log", SOLVERS, SMOOTH),
)
def test_every_solver_comes_near_the_optimum(solver, loss):
    X, y = make_data(n=1000)
    sign = signs(y)
    best = objective(loss, X, sign, *reference(loss, X, sign))

    model = converged(loss=loss, solver=solver, max_epochs=100).fit(X, y)

    mine = objective(loss, X, sign, model.coef_[0], model.intercept_[0])
    start = objective(loss, X, sign, np.zeros(X.shape[1]), 0.0)
    assert best <= mine + 1e-12
    assert mine - best < 0.02 * (start - best)


@pytest.mark.parametrize("solver", WITH_INVERSE_T)
def test_inverse_t_minimises_the_objective_with_a_regularised_intercept(solver):
    X, y = make_data(n=1000)
    X = X + 1.0
    centre = X.mean(axis=0) if solver == "casgd" else 0.0
    with_ones = np.column_stack([X - centre, np.ones(y.size)])
    sign = signs(y)
    w, _ = reference("log", with_ones, sign, fit_intercept=False)
    best = objective("log", with_ones, sign, w, 0.0)

    model = converged(loss="log", solver=solver, schedule="inverse-t", max_epochs=100).fit(X, y)

    # The penalty is on the intercept of the features as the solver sees them.
    intercept = model.intercept_[0] + model.coef_[0] @ (centre * np.ones(X.shape[1]))
    mine = objective("log", with_ones, sign, np.append(model.coef_[0], intercept), 0.0)
    assert best <= mine + 1e-12
    assert mine - best < 0.02 * (np.log(2) - best)


# ------------------------------------------------------------------------------- shapes, predicting


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize(("n_classes", "rows"), [(2, 1), (3, 3), (5, 5)])
def test_shapes(solver, n_classes, rows):
    X, y = make_data(n_classes)
    model = LinearClassifier(solver=solver, alpha=1e-5, max_epochs=2, random_state=0).fit(X, y)

    assert model.coef_.shape == (rows, X.shape[1])
    assert model.intercept_.shape == (rows,)
    assert model.decision_function(X).shape == ((y.size,) if rows == 1 else (y.size, rows))
    assert model.predict(X).shape == (y.size,)
    np.testing.assert_array_equal(model.classes_, np.arange(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("solver", "schedule"),
    [(s, "bottou") for s in SOLVERS if s != "casgd"]  # whose centre goes into the intercept
    + [pytest.param(s, "inverse-t", marks=thorough) for s in WITH_INVERSE_T if s != "casgd"],
)
def test_without_intercept_it_is_zero(solver, schedule, n_classes):
    X, y = make_data(n_classes)
    model = LinearClassifier(
        solver=solver,
        schedule=schedule,
        fit_intercept=False,
        alpha=1e-5,
        max_epochs=2,
        random_state=0,
    ).fit(X, y)

    np.testing.assert_array_equal(model.intercept_, np.zeros(1 if n_classes == 2 else 3))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_predictions_follow_from_the_coefficients(n_classes, form):
    X, y = make_data(n_classes)
    labels = np.array(["ash", "birch", "cedar", "deodar"])[y]
    model = LinearClassifier(alpha=1e-5, random_state=0).fit(form(X), labels)

    scores = X @ model.coef_.T + model.intercept_
    decision = model.decision_function(form(X))
    np.testing.assert_allclose(decision, scores[:, 0] if n_classes == 2 else scores, atol=1e-12)
    codes = (scores[:, 0] > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(form(X)), model.classes_[codes])


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [-1, 1], [7, 30], [False, True], [2.0, 3.0], ["a", "b", "c"], [10, 20, 30]],
)
def test_labels_are_only_names(labels):
    X, y = make_data(len(labels))
    named = np.array(labels)[y]
    plain = LinearClassifier(alpha=1e-5, random_state=0).fit(X, y)
    model = LinearClassifier(alpha=1e-5, random_state=0).fit(X, named)

    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.classes_, np.unique(named))
    np.testing.assert_array_equal(model.predict(X), np.array(labels)[plain.predict(X)])


# ------------------------------------------------------------------------------------ probabilities


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_the_logistic_function_of_the_scores(n_classes):
    X, y = make_data(n_classes)
    model = LinearClassifier(loss="log", alpha=1e-5, random_state=0).fit(X, y)

    proba = model.predict_proba(X)
    if n_classes == 2:
        expected = expit(np.column_stack([-1, 1]) * model.decision_function(X)[:, None])
    else:
        odds = expit(model.decision_function(X))
        expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proba, expected, rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(proba), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_far_out_neither_overflow_nor_vanish(n_classes):
    X, y = make_data(n_classes)
    model = LinearClassifier(loss="log", alpha=1e-5, random_state=0).fit(X, y)

    for far in (1e4 * X, -1e6 * X):
        proba = model.predict_proba(far)
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
        log_proba = model.predict_log_proba(far)
        assert np.isfinite(log_proba).all()
        np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("loss", ["hinge", pytest.param("squared_hinge", marks=thorough)])
def test_only_log_loss_has_probabilities(loss):
    X, y = make_data()
    model = LinearClassifier(loss=loss, alpha=1e-5).fit(X, y)

    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    assert hasattr(LinearClassifier(loss="log", alpha=1e-5), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


# -------------------------------------------------------------------------------------- one-vs-rest


@pytest.mark.parametrize("loss", SMOOTH)
def test_one_vs_rest_is_a_binary_problem_for_each_class(loss):
    X, y = make_data(3)
    model = converged(loss=loss).fit(X, y)

    for k in range(3):
        w, b = reference(loss, X, np.where(y == k, 1.0, -1.0))
        np.testing.assert_allclose(model.coef_[k], w, atol=1e-6)
        np.testing.assert_allclose(model.intercept_[k], b, atol=1e-6)


@pytest.mark.parametrize("solver", ["asgd", "dual"])
def test_one_vs_rest_equals_separate_fits_in_objective(solver):
    X, y = make_data(3, n=600)
    settings = {"loss": "hinge", "solver": solver, "max_epochs": 100}
    model = converged(**settings).fit(X, y)

    for k in range(3):
        sign = np.where(y == k, 1.0, -1.0)
        alone = converged(**settings).fit(X, sign)
        together = objective("hinge", X, sign, model.coef_[k], model.intercept_[k])
        apart = objective("hinge", X, sign, alone.coef_[0], alone.intercept_[0])
        np.testing.assert_allclose(together, apart, rtol=5e-3)


# ------------------------------------------------------------------------------------ class weights


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "sgd", "dual", "casgd"])
def test_class_weights_are_sample_weights(n_classes, solver):
    X, y = make_data(n_classes)
    by_class = {0: 3.0, 1: 0.5, 2: 0.0} if n_classes == 3 else {0: 3.0, 1: 0.5}
    per_row = np.array([by_class[label] for label in y])

    by_dict = LinearClassifier(
        solver=solver, class_weight=by_class, alpha=1e-5, random_state=0
    ).fit(X, y)
    by_rows = LinearClassifier(solver=solver, alpha=1e-5, random_state=0).fit(
        X, y, sample_weight=per_row
    )

    np.testing.assert_array_equal(by_dict.coef_, by_rows.coef_)
    np.testing.assert_array_equal(by_dict.intercept_, by_rows.intercept_)


def test_class_weights_multiply_sample_weights():
    X, y = make_data()
    given = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    per_row = np.where(y == 0, 3.0, 1.0)

    both = LinearClassifier(class_weight={0: 3.0}, alpha=1e-5, random_state=0).fit(
        X, y, sample_weight=given
    )
    product = LinearClassifier(alpha=1e-5, random_state=0).fit(X, y, sample_weight=given * per_row)

    np.testing.assert_array_equal(both.coef_, product.coef_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_balanced_classes_all_weigh_the_same(n_classes):
    X, y = make_data(n_classes)
    keep = (y != 0) | (np.arange(y.size) % 5 == 0)
    X, y = X[keep], y[keep]
    counts = np.bincount(y)
    per_row = y.size / (n_classes * counts[y])

    balanced = LinearClassifier(class_weight="balanced", alpha=1e-5, random_state=0).fit(X, y)
    by_rows = LinearClassifier(alpha=1e-5, random_state=0).fit(X, y, sample_weight=per_row)

    np.testing.assert_allclose(balanced.coef_, by_rows.coef_, rtol=1e-12)
    np.testing.assert_allclose(balanced.intercept_, by_rows.intercept_, rtol=1e-12)


def test_class_weights_move_the_optimum_as_the_objective_says():
    X, y = make_data()
    weight = np.where(y == 1, 5.0, 1.0)
    w, b = reference("log", X, signs(y), weight=weight)

    model = converged(loss="log", class_weight={0: 1.0, 1: 5.0}, max_epochs=1000).fit(X, y)

    np.testing.assert_allclose(model.coef_[0], w, atol=1e-6)
    np.testing.assert_allclose(model.intercept_[0], b, atol=1e-6)
