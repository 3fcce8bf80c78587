"""Coordinate descent: its optimum against SciPy and scikit-learn, its zeros, and its estimators."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet as PeerNet
from sklearn.linear_model import LogisticRegression

import monro
from monro import LinearClassifier, LinearRegressor, coordinate
from monro.coordinate import ByResiduals, by_gram, fill_gram, move, new_model, slope
from monro.errors import DivergenceError
from monro.linear.examples import Examples
from monro.linear.objective import objective
from monro.linear.problem import Problem, columns_of
from monro.linear.solvers import make_solver, solvers_that
from monro.losses import (
    Absolute,
    Gamma,
    Hinge,
    Huber,
    Log,
    Poisson,
    Squared,
    SquaredHinge,
    curvature,
)
from monro.penalties import ElasticNet, Ridge
from monro.rows import as_rows
from tests.linear.helpers import assert_same_bits, make_data
from tests.marks import thorough_unless
from tests.messages import message

# Each loss's value and slope in NumPy.
REFERENCES = {
    "log": (lambda p, y: np.logaddexp(0, -y * p), lambda p, y: -y / (1 + np.exp(y * p))),
    "squared_hinge": (
        lambda p, y: np.maximum(0, 1 - y * p) ** 2,
        lambda p, y: -2 * y * np.maximum(0, 1 - y * p),
    ),
    "squared": (lambda p, y: (p - y) ** 2 / 2, lambda p, y: p - y),
    "huber": (
        lambda p, y: np.where(abs(p - y) < 0.5, (p - y) ** 2 / 2, 0.5 * (abs(p - y) - 0.25)),
        lambda p, y: np.clip(p - y, -0.5, 0.5),
    ),
    "poisson": (lambda p, y: np.exp(p) - y * p, lambda p, y: np.exp(p) - y),
    "gamma": (lambda p, y: y * np.exp(-p) + p, lambda p, y: 1 - y * np.exp(-p)),
}
LOSSES = [Log(), SquaredHinge(), Squared(), Huber(0.5), Poisson(), Gamma()]


def is_everyday(loss, sparse=True):
    return isinstance(loss, Squared) or (sparse and isinstance(loss, (Log, Poisson)))


by_loss = pytest.mark.parametrize("loss", thorough_unless(is_everyday, LOSSES), ids=REFERENCES)


def make_problem(loss, l1_ratio, *, alpha=0.05, sparse=False, intercept=True, n=120, d=12):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    p = X[:, :3] @ [1.5, -1.0, 0.5] + 0.4 + 0.3 * rng.standard_normal(n)
    signs = np.where(p + rng.standard_normal(n) > 0, 1.0, -1.0)
    counts = rng.poisson(np.exp(p)).astype(float)
    y = {"log": signs, "squared_hinge": signs, "poisson": counts, "gamma": counts + 0.5}.get(
        loss.traits.name, p
    )
    weight = rng.random(n) + 0.5
    weight /= weight.mean()
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    penalty = ElasticNet(alpha, l1_ratio) if l1_ratio else Ridge(alpha)
    return Problem(loss, penalty, Examples(rows, y, weight), intercept, d), X


def converged(problem, epochs=100):
    solver = make_solver(problem, "coordinate")
    state = solver.start()
    values = [objective(problem, *solver.solution(state))]
    for _ in range(epochs):
        solver.sweep(np.arange(problem.examples.y.size), state)
        values.append(objective(problem, *solver.solution(state)))
    return *solver.solution(state), values


def generic_optimum(problem, X, alpha, l1_ratio):
    """Minimise over w = u - v with u, v ≥ 0, where the L1 norm is linear: L-BFGS-B, from SciPy."""
    value, slope = REFERENCES[problem.loss.traits.name]
    _, y, weight = problem.examples
    n, d = X.shape

    @np.errstate(over="ignore")
    def with_gradient(theta):
        w, b = theta[:d] - theta[d:-1], theta[-1]
        p = X @ w + b
        g = weight * slope(p, y) / n
        smooth = X.T @ g + alpha * (1 - l1_ratio) * w
        f = np.mean(weight * value(p, y)) + alpha * (1 - l1_ratio) / 2 * w @ w
        f += alpha * l1_ratio * theta[:-1].sum()
        l1 = alpha * l1_ratio
        return f, np.concatenate([smooth + l1, l1 - smooth, [g.sum()]])

    free = (None, None) if problem.fit_intercept else (0, 0)
    found = minimize(
        with_gradient, np.zeros(2 * d + 1), jac=True, bounds=[(0, None)] * (2 * d) + [free],
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return found.x[:d] - found.x[d:-1], found.x[-1], found.fun


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("loss", "sparse"),
    thorough_unless(is_everyday, LOSSES, [False, True]),
)
@pytest.mark.parametrize("l1_ratio", thorough_unless(lambda ratio: ratio == 0.4, [0.0, 0.4, 1.0]))
def test_the_optimum_is_that_of_a_generic_solver(loss, sparse, l1_ratio, intercept):
    problem, X = make_problem(loss, l1_ratio, sparse=sparse, intercept=intercept)
    w, b, values = converged(problem)
    expected, bias, best = generic_optimum(problem, X, 0.05, l1_ratio)
    assert values[-1] == pytest.approx(best, rel=1e-8, abs=1e-9)
    np.testing.assert_allclose(w, expected, rtol=0, atol=1e-4)
    assert b == pytest.approx(bias, abs=1e-4)
    assert (b != 0) == intercept
    if l1_ratio:
        assert 0 < np.count_nonzero(w) < w.size
        np.testing.assert_array_equal(w == 0, abs(expected) < 1e-6)


@by_loss
def test_the_condition_of_an_optimum_holds(loss):
    """``-∇_j = λ₁ sign(w_j)`` where w_j ≠ 0, ``|∇_j| ≤ λ₁`` elsewhere, and ``∇_b = 0``."""
    problem, X = make_problem(loss, 0.7, sparse=True)
    w, b, _ = converged(problem)
    _, y, weight = problem.examples
    g = weight * REFERENCES[loss.traits.name][1](X @ w + b, y) / y.size
    gradient = X.T @ g + 0.05 * 0.3 * w
    l1, zero = 0.05 * 0.7, w == 0
    np.testing.assert_allclose(gradient[~zero], -l1 * np.sign(w[~zero]), rtol=0, atol=1e-7)
    assert abs(gradient[zero]).max() <= l1
    assert g.sum() == pytest.approx(0.0, abs=1e-7)


@by_loss
@pytest.mark.parametrize("numerical", [False, True])
def test_curvatures_are_differences_of_slopes(loss, numerical):
    """Also the numerical ones, of losses that leave the method out."""
    slope = REFERENCES[loss.traits.name][1]
    for y in (-1.0, 1.0) if loss.traits.name in ("log", "squared_hinge") else (0.7, 2.0):
        for p in (-1.7, -0.4, 0.3, 1.3, 2.9):  # none where a slope has a corner
            expected = (slope(p + 1e-6, y) - slope(p - 1e-6, y)) / 2e-6
            found = Absolute.curvature(loss, p, y) if numerical else curvature(loss, p, y)
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@by_loss
def test_the_objective_falls_in_every_epoch(loss):
    problem, _ = make_problem(loss, 1.0, alpha=1e-3, sparse=True)
    _, _, values = converged(problem, epochs=15)
    rounding = 1e-14 * (1 + abs(values[-1]))
    assert all(new <= old + rounding for old, new in pairwise(values))


@pytest.mark.parametrize(
    "loss", thorough_unless(is_everyday, [Huber(0.5), Poisson(), Gamma(), SquaredHinge()])
)
def test_a_bad_start_is_left_behind(loss):
    """Where the loss is nearly linear, its model is nearly flat, and promises too much."""
    problem, X = make_problem(loss, 0.5, sparse=True)
    solver = make_solver(problem, "coordinate")
    state = solver.resume(np.full(X.shape[1], 3.0), -20.0, 0.0)
    for _ in range(200):
        solver.sweep(np.arange(len(X)), state)
    _, _, best = generic_optimum(problem, X, 0.05, 0.5)
    assert objective(problem, *solver.solution(state)) == pytest.approx(best, rel=1e-4, abs=1e-4)


def test_a_strong_penalty_leaves_the_bias_only():
    problem, _ = make_problem(Squared(), 1.0, alpha=10.0)
    w, b, _ = converged(problem, epochs=3)
    _, y, weight = problem.examples
    np.testing.assert_array_equal(w, 0.0)
    assert b == pytest.approx(np.average(y, weights=weight), rel=1e-9)


def test_a_constant_column_beside_the_bias_stays_zero():
    problem, X = make_problem(Squared(), 0.5)
    X[:, 5] = 2.0
    problem = problem._replace(examples=problem.examples._replace(rows=as_rows(X)))
    w, _, _ = converged(problem)
    assert w[5] == 0.0
    _, _, best = generic_optimum(problem, X, 0.05, 0.5)
    assert objective(problem, *converged(problem)[:2]) == pytest.approx(best, rel=1e-9)


def similar_columns(sparse):
    """Return a problem whose columns resemble each other, so that one step takes many sweeps."""
    problem, X = make_problem(Log(), 0.2, alpha=1e-4, n=300)
    X[:, 1:] = 0.05 * X[:, 1:] + X[:, :1]
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return problem._replace(examples=problem.examples._replace(rows=rows)), X


@pytest.mark.parametrize("sparse", [False, True])
def test_slopes_of_a_gram_matrix_are_those_of_the_columns(sparse):
    """After the same moves; and G is the matrix product in NumPy."""
    problem, X = similar_columns(sparse)
    rng = np.random.default_rng(0)
    model = new_model(*X.shape)
    model.r[:], model.h[:] = rng.normal(size=len(X)), rng.random(len(X))
    rows, columns = problem.examples.rows, columns_of(problem)
    gram, columnwise = by_gram(rows, columns, model), ByResiduals(columns, model.r, model.h)
    np.testing.assert_allclose(gram.gram.data, X.T @ (model.h[:, None] * X), rtol=1e-12)
    for j in (3, 0, 3, 7):
        move(gram, j, 0.5 - j)
        move(columnwise, j, 0.5 - j)
    found = [[slope(each, j) for j in range(X.shape[1])] for each in (gram, columnwise)]
    np.testing.assert_allclose(*found, rtol=1e-12)
    np.testing.assert_allclose(found[0], X.T @ model.r, rtol=1e-12)


def test_similar_columns_have_the_optimum_of_a_generic_solver(monkeypatch):
    used = []
    monkeypatch.setattr(coordinate, "fill_gram", lambda *args: used.append(fill_gram(*args)))
    problem, X = similar_columns(sparse=True)
    *_, values = converged(problem)
    *_, best = generic_optimum(problem, X, 1e-4, 0.2)
    assert used
    assert values[-1] == pytest.approx(best, rel=1e-9)
    monkeypatch.setattr(coordinate, "MOST_COLUMNS", 0)  # without the matrix it takes longer
    *_, slowly = converged(problem)
    assert values[-1] <= slowly[-1] == pytest.approx(best, rel=1e-3)


# -------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_a_regression_is_scikit_learns(l1_ratio):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = X[:, :4] @ [3.0, -2.0, 1.0, 0.5] + 1.0 + rng.normal(size=300)
    model = LinearRegressor(alpha=0.1, l1_ratio=l1_ratio, max_epochs=50).fit(X, y)
    peer = PeerNet(alpha=0.1, l1_ratio=l1_ratio, tol=1e-12).fit(X, y)
    assert model.solver_ == "coordinate"
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(model.coef_ == 0, peer.coef_ == 0)
    assert model.intercept_[0] == pytest.approx(peer.intercept_, abs=1e-7)


def test_l1_logistic_regression_is_liblinears():
    X, y = make_data(n=400, d=20)
    model = LinearClassifier(
        loss="log", alpha=0.02, l1_ratio=1.0, max_epochs=50, fit_intercept=False
    ).fit(sp.csr_matrix(X), y)
    peer = LogisticRegression(
        C=1 / (0.02 * 400), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-10,
        max_iter=10_000,
    ).fit(X, y)  # fmt: skip
    assert 0 < np.count_nonzero(peer.coef_) < 20
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(model.coef_ == 0, peer.coef_ == 0)


def test_auto_takes_a_solver_that_suits_the_loss_and_the_data():
    X, y = make_data()
    options = {"alpha": 0.01, "l1_ratio": 0.5, "random_state": 0}
    assert LinearClassifier(**options).fit(X, y).solver_ == "implicit"  # a hinge has a kink
    for loss in ("log", "squared_hinge"):
        assert LinearClassifier(loss=loss, **options).fit(X, y).solver_ == "coordinate"
    log = LinearClassifier(loss="log", **options)
    assert log.partial_fit(X, y, classes=[0, 1]).solver_ == "implicit"
    assert log.set_params(learning_rate=0.1).fit(X, y).solver_ == "implicit"
    assert LinearClassifier(loss="log", alpha=0.0, l1_ratio=1.0).fit(X, y).solver_ == "aisgd"


def test_no_l1_norm_is_a_ridge():
    assert LinearClassifier(alpha=0.5)._penalty() == Ridge(0.5)
    assert LinearClassifier(alpha=0.5, l1_ratio=0)._penalty() == Ridge(0.5)
    assert isinstance(LinearRegressor(l1_ratio=0.1, alpha=1e-5)._penalty(), ElasticNet)


def fit(**options):
    X, y = make_data()
    return LinearClassifier(**({"loss": "log", "l1_ratio": 0.5, "alpha": 1e-5} | options)).fit(X, y)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"l1_ratio": -0.1}, ["l1_ratio=-0.1"]),
        ({"l1_ratio": 1.5}, ["l1_ratio=1.5", "<= 1"]),
        ({"l1_ratio": "much"}, ["l1_ratio='much'"]),
        ({"solver": "asgd"}, ["ElasticNet", "'sgd'", "'implicit'", "'coordinate'"]),
        ({"solver": "dual"}, ["ElasticNet", "'coordinate'"]),
        ({"solver": "coordinate", "loss": "hinge"}, ["'hinge'", "kink", "'implicit'"]),
        ({"center": True}, ["center", "'coordinate'"]),
        ({"solver": "implicit", "center": True}, ["center", "'coordinate'"]),
        ({"solver": "casgd"}, ["center", "'coordinate'"]),
        ({"solver": "implicit", "schedule": "inverse-t", "l1_ratio": 1}, ["l1_ratio < 1"]),
        ({"solver": "coordinate", "max_steps": 10}, ["max_steps", "'dual'"]),
        ({"solver": "coordinate", "learning_rate": 0.1}, ["learning_rate"]),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, texts):
    text = message(ValueError, fit, **options)
    assert "\n" not in text
    for each in texts:
        assert each in text


def test_solvers_that_take_an_l1_norm_are_named():
    problem, _ = make_problem(Squared(), 0.5)
    able = solvers_that(lambda t: t.proximal or t.takes_l1)
    text = message(ValueError, make_solver, problem, "sgdqn")
    assert text.endswith("use " + ", ".join(map(repr, able)))
    text = message(ValueError, make_solver, problem._replace(loss=Hinge()), "coordinate")
    assert "needs a loss without kinks" in text


def test_one_vs_rest_models_share_the_columns_and_threads_give_the_same_bits():
    X, y = make_data(n_classes=4)
    options = {"loss": "log", "alpha": 0.01, "l1_ratio": 1.0}
    one = LinearClassifier(**options).fit(X, y)
    assert_same_bits(one, LinearClassifier(n_jobs=2, random_state=1, **options).fit(X, y))
    for k in range(4):
        alone = LinearClassifier(**options).fit(X, y == k)
        np.testing.assert_allclose(one.coef_[k], alone.coef_[0], rtol=0, atol=1e-12)


def test_a_row_of_weight_two_counts_twice():
    X, y = make_data()
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    options = {"loss": "squared_hinge", "alpha": 0.01, "l1_ratio": 0.5, "max_epochs": 40}
    weighted = LinearClassifier(**options).fit(X, y, sample_weight=weight)
    repeated = LinearClassifier(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-9)


def test_checkpoints_and_warm_starts_continue(tmp_path):
    X, y = make_data()
    options = {"loss": "log", "alpha": 0.003, "l1_ratio": 0.5}
    whole = LinearClassifier(max_epochs=4, **options).fit(X, y)
    model = LinearClassifier(max_epochs=2, warm_start=True, **options)
    assert_same_bits(model.fit(X, y).fit(X, y), whole)
    path = tmp_path / "progress"

    class Kill:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context):
            if len(estimator.history_) == 2:
                raise KeyboardInterrupt

    model = LinearClassifier(max_epochs=4, random_state=0, **options)
    with pytest.raises(KeyboardInterrupt):
        LinearClassifier(max_epochs=4, random_state=0, **options).set_callbacks(Kill()).fit(
            X, y, checkpoint=path
        )
    assert_same_bits(model.fit(X, y, checkpoint=path), whole)


@pytest.mark.parametrize(
    ("solver", "sparse"),
    thorough_unless(
        lambda solver, sparse: sparse == (solver == "coordinate"),
        ["coordinate", "implicit"],
        [False, True],
    ),
)
def test_files_and_sparse_weights(solver, sparse, tmp_path):
    X, y = make_data(n_classes=3, d=10)
    X = sp.csr_matrix(X) if sparse else X
    options = {"alpha": 0.05, "l1_ratio": 1.0, "solver": solver, "random_state": 0}
    models = [
        (LinearClassifier(loss="log", **options).fit(X, y), "predict_proba"),
        (LinearClassifier(loss="log", **options).fit(X, y == 0), "predict_proba"),
        (LinearRegressor(**options).fit(X, y.astype(float)), "predict"),
    ]
    for model, method in models:
        expected, dense = getattr(model, method)(X), model.coef_
        assert sp.issparse(model.sparsify().coef_)
        assert model.coef_.nnz == np.count_nonzero(dense)
        np.testing.assert_allclose(getattr(model, method)(X), expected, rtol=0, atol=1e-12)
        model.save(tmp_path / "model.monro")
        loaded = monro.load(tmp_path / "model.monro")
        assert loaded.l1_ratio == 1.0
        np.testing.assert_array_equal(getattr(loaded, method)(X), expected)
        np.testing.assert_array_equal(model.densify().coef_, dense)


def test_a_sparse_model_can_be_fitted_further():
    X, y = make_data()
    options = {"loss": "log", "alpha": 0.01, "l1_ratio": 0.5, "random_state": 0}
    model = LinearClassifier(**options).partial_fit(X, y, classes=[0, 1]).sparsify()
    other = LinearClassifier(**options).partial_fit(X, y, classes=[0, 1])
    assert_same_bits(model.partial_fit(X, y), other.partial_fit(X, y))


def test_wide_rows_keep_their_columns():
    rng = np.random.default_rng(0)
    X = sp.random(60, 300_000, density=1e-4, format="csr", random_state=0)
    X.data[:] = rng.normal(size=X.nnz)
    X[:, 299_999] = rng.normal(size=(60, 1))
    y = X[:, 299_999].toarray().ravel() > 0
    model = LinearClassifier(loss="log", alpha=0.1, l1_ratio=1.0).fit(X.tocsr(), y)
    assert model.coef_.shape == (1, 300_000)
    assert np.flatnonzero(model.coef_[0])[-1] == 299_999
    assert np.count_nonzero(model.coef_) < 5


def test_a_loss_that_overflows_says_so():
    with pytest.raises((DivergenceError, ValueError)):
        LinearRegressor(solver="coordinate", l1_ratio=0.5, alpha=1e-5).fit(
            [[1e200], [2e200]], [1.0, 2.0]
        )
