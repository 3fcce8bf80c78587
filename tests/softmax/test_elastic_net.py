"""l1_ratio of SoftmaxClassifier: its optimum and its zeros against scikit-learn, and its forms."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import monro
from monro import SoftmaxClassifier
from monro.fitting.run import LabelledRows
from monro.softmax.kernel.layout import class_major
from monro.softmax.kernel.state import l1_norm_of, new_state
from monro.softmax.solvers import SOLVERS, solvers_that
from monro.softmax.training.coordinate import best_shifts
from monro.softmax.training.path_model import strongest_l1
from monro.softmax.training.proximal import take_proximal_step
from tests.callbacks import killed_after
from tests.marks import thorough, thorough_unless
from tests.messages import message
from tests.softmax.data import FORMS, assert_same_bits, log_softmax, parts_of

DOUBLE = {"dtype": "float64", "random_state": 0}


def sparse_problem(n=300, d=12, n_classes=5, seed=0):
    """Noisy classes that depend on four of the features; half of the entries are 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    S = X[:, :4] @ rng.normal(size=(4, n_classes)) + rng.gumbel(size=(n, n_classes))
    y = S.argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)  # every class occurs
    return X, y


def objective(coef, intercept, X, y, alpha, l1_ratio):
    S = X @ coef.T + intercept
    losses = np.logaddexp.reduce(S, axis=1) - S[np.arange(y.size), y]
    return losses.mean() + alpha * (
        l1_ratio * np.abs(coef).sum() + (1 - l1_ratio) / 2 * (coef**2).sum()
    )


def peer(X, y, alpha, l1_ratio, tol=1e-9):
    """The optimum of scikit-learn."""
    model = LogisticRegression(
        solver="saga", l1_ratio=l1_ratio, C=1 / (alpha * y.size), tol=tol, max_iter=100_000
    ).fit(X, y)
    return model.coef_, model.intercept_


def soft(W, threshold):
    return np.sign(W) * np.maximum(np.abs(W) - threshold, 0.0)


# ------------------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize(
    ("solver", "form", "l1_ratio"),
    thorough_unless(
        lambda solver, form, l1_ratio: (form is sp.csr_matrix) == (l1_ratio == 1.0),
        ["coordinate", "implicit"],
        FORMS,
        [1.0, 0.4],
    ),
)
def test_optimum_and_zeros_are_those_of_scikit_learn(solver, form, l1_ratio):
    X, y = sparse_problem()
    coef, intercept = peer(X, y, 0.02, l1_ratio)
    model = SoftmaxClassifier(solver=solver, alpha=0.02, l1_ratio=l1_ratio, **DOUBLE)
    model.fit(form(X), y)

    best = objective(coef, intercept, X, y, 0.02, l1_ratio)
    found = objective(model.coef_, model.intercept_, X, y, 0.02, l1_ratio)
    assert found <= best * (1 + 1e-6)
    assert 0 < np.count_nonzero(coef) < 0.7 * coef.size
    np.testing.assert_array_equal(model.coef_ != 0, coef != 0)
    np.testing.assert_allclose(model.coef_, coef, rtol=0, atol=1e-3)


@thorough
@pytest.mark.parametrize("solver", ["coordinate", "implicit"])
@pytest.mark.parametrize("form", FORMS)
def test_digits(solver, form):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    coef, intercept = peer(X, y, 0.003, 0.9, tol=1e-7)
    model = SoftmaxClassifier(solver=solver, alpha=0.003, l1_ratio=0.9, random_state=0)
    model.fit(form(X), y)
    best = objective(coef, intercept, X, y, 0.003, 0.9)
    assert objective(*parts_of(model), X, y, 0.003, 0.9) == pytest.approx(best, rel=1e-3)
    assert ((model.coef_ != 0) == (coef != 0)).mean() > 0.99


@pytest.mark.parametrize("fit_intercept", [True, pytest.param(False, marks=thorough)])
def test_the_conditions_of_an_optimum_hold(fit_intercept):
    # Nearly separable: classes with almost all of an example's probability.
    X, y = sparse_problem(n=400)
    X[:, 0] += 30.0 * (y == 0)
    weight = np.random.default_rng(1).integers(0, 4, size=y.size)
    settings = DOUBLE | {"alpha": 1e-3, "l1_ratio": 0.7, "fit_intercept": fit_intercept}
    model = SoftmaxClassifier(solver="coordinate", max_epochs=300, **settings)
    model.fit(X, y, sample_weight=weight)
    W, b = model.coef_, model.intercept_

    P = softmax(X @ W.T + b, axis=1)
    assert P.max() > 0.9999
    P[np.arange(y.size), y] -= 1.0
    P *= (weight / weight.sum())[:, None]
    slope = P.T @ X + 3e-4 * W
    zero = W == 0
    assert zero.any()
    assert np.abs(slope[zero]).max() <= 7e-4 + 1e-6
    np.testing.assert_allclose(slope[~zero], -7e-4 * np.sign(W[~zero]), rtol=0, atol=1e-5)
    np.testing.assert_allclose(P.sum(axis=0) * fit_intercept, 0.0, atol=1e-5)


def test_the_objective_falls_in_every_epoch():
    X, y = sparse_problem()
    values = []
    for epochs in range(1, 8):
        model = SoftmaxClassifier(
            solver="coordinate", alpha=0.01, l1_ratio=0.5, max_epochs=epochs, **DOUBLE
        ).fit(X, y)
        values.append(objective(*parts_of(model), X, y, 0.01, 0.5))
    assert all(b < a for a, b in pairwise(values))
    # Each record has the mean loss before its epoch.
    losses = -log_softmax(model, X)[np.arange(y.size), y]
    more = SoftmaxClassifier(
        solver="coordinate", alpha=0.01, l1_ratio=0.5, max_epochs=8, **DOUBLE
    ).fit(X, y)
    assert more.history_[-1]["loss"] == pytest.approx(losses.mean(), rel=1e-12)


def test_a_ridge_alone_has_the_optimum_of_lbfgs():
    X, y = sparse_problem()
    one, other = (
        SoftmaxClassifier(solver=solver, alpha=0.01, max_epochs=100, **DOUBLE).fit(X, y)
        for solver in ("coordinate", "lbfgs")
    )
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-4)


def test_shifts_are_the_best():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(6, 40)).round(1) * (rng.random((6, 40)) < 0.7)
    for l1, l2 in [(1.0, 0.0), (0.7, 0.3), (0.1, 0.9), (0.0, 1.0)]:

        def penalty(c, w, l1=l1, l2=l2):
            return l1 * np.abs(w - c).sum() + l2 / 2 * ((w - c) ** 2).sum()

        shifts = best_shifts(W, l1, l2)
        for c, w in zip(shifts, W.T, strict=True):
            least = minimize_scalar(penalty, args=(w,), bounds=(-5, 5), method="bounded").fun
            least = min(least, *(penalty(each, w) for each in [0.0, *w]))
            assert penalty(c, w) <= least + 1e-12
            if penalty(0.0, w) <= least + 1e-12:
                assert c == 0.0


def test_the_strongest_penalty_is_the_least_without_weights():
    X, y = sparse_problem()
    weight = np.random.default_rng(0).integers(1, 4, size=y.size).astype(float)
    strongest = strongest_l1(LabelledRows(sp.csr_matrix(X), y, weight), 5, True)
    for factor, count in ((1.01, 0), (0.97, 1)):
        model = SoftmaxClassifier(
            solver="coordinate", alpha=factor * strongest, l1_ratio=1.0, **DOUBLE
        ).fit(X, y, sample_weight=weight)
        assert np.count_nonzero(model.coef_) == count


# -------------------------------------------------------------------------------- stochastic steps


@pytest.mark.parametrize("sparse", [False, True])
def test_proximal_steps_are_soft_thresholds_of_the_weights(sparse):
    rng = np.random.default_rng(0)
    state = new_state(sparse, 20, 2, 7, 1, "float64")
    state.W[:] = rng.normal(size=state.W.shape)
    state.scale[:] = rng.random(32) + 0.5
    W = class_major(state.W) * state.scale[:, None]
    assert l1_norm_of(state, 0.3) == pytest.approx(0.3 * np.abs(W).sum())
    take_proximal_step(state, 0.4)
    moved = class_major(state.W) * state.scale[:, None]
    np.testing.assert_allclose(moved, soft(W, 0.4), rtol=0, atol=1e-15)
    assert 0 < np.count_nonzero(moved) < moved.size


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_of_short_steps_ends_with_one_threshold(form):
    X, y = sparse_problem()
    rate = 0.9 / y.size / (X**2).sum(axis=1).mean()  # a single proximal step
    settings = DOUBLE | {"learning_rate": rate}
    one = SoftmaxClassifier(alpha=0.1, l1_ratio=0.75, **settings).partial_fit(form(X), y)
    ridge = SoftmaxClassifier(alpha=0.025, **settings).partial_fit(form(X), y)
    expected = soft(ridge.coef_, y.size * rate * 0.075)
    assert 0 < np.count_nonzero(expected) < expected.size
    np.testing.assert_allclose(one.coef_, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_batches_and_unknown_ends_come_near_the_optimum(form):
    X, y = sparse_problem()
    best = objective(*peer(X, y, 0.02, 1.0), X, y, 0.02, 1.0)
    stopped = SoftmaxClassifier(alpha=0.02, l1_ratio=1.0, tol=1e-9, max_epochs=40, random_state=0)
    stream = SoftmaxClassifier(alpha=0.02, l1_ratio=1.0, random_state=0)
    for _ in range(100):
        stream.partial_fit(form(X), y)
    for model in (stopped.fit(form(X), y), stream):
        assert objective(*parts_of(model), X, y, 0.02, 1.0) < 1.01 * best
        assert np.count_nonzero(model.coef_) < model.coef_.size


def test_a_number_without_l1_fits_as_before():
    X, y = sparse_problem()
    one, other = (
        SoftmaxClassifier(alpha=0.01, random_state=0, max_epochs=5, **more).fit(X, y)
        for more in ({}, {"l1_ratio": 0.0})
    )
    assert_same_bits(one, other)
    assert one.plan_["coordinate_epochs"] == 0
    assert np.count_nonzero(one.coef_) == one.coef_.size


# ------------------------------------------------------------------------------- the whole of a fit


@pytest.mark.parametrize(
    ("solver", "killed", "form"),
    thorough_unless(
        lambda solver, killed, form: form is np.asarray,
        ["coordinate", "implicit"],
        [2, 8],  # epochs; of "implicit" the last two of ten are of coordinate descent
        FORMS,
    ),
)
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, solver, killed, form):
    X, y = sparse_problem()
    settings = {"solver": solver, "alpha": 0.01, "l1_ratio": 0.8, "max_epochs": 10}
    whole = SoftmaxClassifier(random_state=0, **settings).fit(form(X), y)
    path = tmp_path / "progress"
    killed_after(killed, SoftmaxClassifier(random_state=0, **settings), form(X), y, path)
    resumed = SoftmaxClassifier(random_state=0, **settings).fit(form(X), y, checkpoint=path)
    assert_same_bits(resumed, whole)
    assert resumed.n_iter_ == 10


@pytest.mark.parametrize("solver", ["coordinate", "implicit"])
@pytest.mark.parametrize("form", FORMS)
def test_files_and_sparse_weights(tmp_path, solver, form):
    X, y = sparse_problem()
    settings = {"solver": solver, "alpha": 0.02, "l1_ratio": 1.0, "max_epochs": 10}
    model = SoftmaxClassifier(random_state=0, **settings).fit(form(X), y)
    dense, expected = model.coef_, model.predict_proba(X)
    model.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")
    assert loaded.l1_ratio == 1.0
    assert str(loaded.plan_) == str(model.plan_)  # η0 is NaN where there is no rate
    assert_same_bits(loaded, model)
    assert model.sparsify().coef_.nnz == np.count_nonzero(dense) < dense.size
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-6)
    model.save(tmp_path / "sparse")
    np.testing.assert_array_equal(monro.load(tmp_path / "sparse").coef_.toarray(), dense)
    np.testing.assert_array_equal(model.densify().coef_, dense)


def test_two_classes_have_one_row_of_weights():
    X, y = sparse_problem()
    for solver in ("coordinate", "implicit"):
        model = SoftmaxClassifier(solver=solver, alpha=0.02, l1_ratio=1.0, **DOUBLE)
        model.fit(X, y == 0)
        coef, _ = peer(X, y == 0, 0.02, 1.0)
        assert model.coef_.shape == coef.shape
        np.testing.assert_array_equal(model.coef_ != 0, coef != 0)
        np.testing.assert_allclose(model.coef_, coef, rtol=0, atol=1e-4)


def test_threads():
    X, y = sparse_problem(n=600)
    settings = DOUBLE | {"alpha": 0.02, "l1_ratio": 0.5}
    one, two = (
        SoftmaxClassifier(solver="coordinate", n_jobs=n, **settings).fit(X, y) for n in (1, 2)
    )
    assert_same_bits(one, two)
    best = objective(*parts_of(one), X, y, 0.02, 0.5)
    model = SoftmaxClassifier(n_jobs=2, **settings).fit(X, y)
    assert objective(*parts_of(model), X, y, 0.02, 0.5) < best * (1 + 1e-6)


def test_classes_without_rows_and_warm_starts():
    X, y = sparse_problem()
    settings = DOUBLE | {"solver": "coordinate", "alpha": 0.02, "l1_ratio": 0.5}
    model = SoftmaxClassifier(classes=range(7), **settings).fit(X, y)
    assert model.coef_.shape == (7, 12)
    assert model.predict_proba(X)[:, 5:].max() < 0.01
    whole = SoftmaxClassifier(max_epochs=6, **settings).fit(X, y)
    parts = SoftmaxClassifier(max_epochs=3, warm_start=True, **settings).fit(X, y).fit(X, y)
    assert_same_bits(parts, whole)
    again = SoftmaxClassifier(alpha=0.02, l1_ratio=0.5, warm_start=True, max_epochs=6, **DOUBLE)
    again.fit(X, y).fit(X, y)
    best = objective(*parts_of(whole.set_params(max_epochs=50).fit(X, y)), X, y, 0.02, 0.5)
    assert objective(*parts_of(again), X, y, 0.02, 0.5) < best * (1 + 1e-4)


@thorough
def test_rows_of_a_store():
    X, y = sparse_problem(n=3000)
    chunks = [(X[k : k + 500], y[k : k + 500]) for k in range(0, 3000, 500)]
    settings = {"alpha": 0.02, "l1_ratio": 1.0, "random_state": 0}
    memory = SoftmaxClassifier(solver="coordinate", **settings).fit(X, y)
    best = objective(*parts_of(memory), X, y, 0.02, 1.0)
    store = SoftmaxClassifier(solver="coordinate", **settings).fit(iter(chunks))
    np.testing.assert_array_equal(store.coef_ != 0, memory.coef_ != 0)
    stream = SoftmaxClassifier(**settings).fit(iter(chunks))
    assert objective(*parts_of(stream), X, y, 0.02, 1.0) < 1.01 * best
    auto = SoftmaxClassifier(**settings | {"alpha": "auto"}).fit(iter(chunks))
    assert auto.alpha_path_[0]["alpha"] > auto.alpha_ > 0


# ------------------------------------------------------------------------------------ alpha="auto"


def few_informative(n, d=60, seed=0):
    """Three of the features say what can be said about the classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    S = 2.0 * X[:, :3]
    return X, np.argmax(S + rng.gumbel(size=S.shape), axis=1)


def test_auto_with_a_lasso_predicts_better_than_a_ridge_where_few_features_matter():
    X, y = few_informative(1300)
    X, new_X, y, new_y = train_test_split(X, y, train_size=300, random_state=0)
    ridge, lasso = (
        SoftmaxClassifier(alpha="auto", l1_ratio=ratio, random_state=0).fit(X, y)
        for ratio in (0.0, 1.0)
    )
    assert lasso.log_loss(new_X, new_y) < 0.95 * ridge.log_loss(new_X, new_y)
    assert np.count_nonzero(lasso.coef_) < lasso.coef_.size / 2
    counts = [record["nonzeros"] for record in lasso.alpha_path_]
    assert counts[0] == 0 < counts[1]
    assert counts == sorted(counts)
    best = min(lasso.alpha_path_, key=lambda record: record["mean"])
    assert 0.3 < lasso.alpha_ / best["alpha"] < 3
    assert lasso.alpha_path_[-1]["mean"] > best["mean"]


def test_auto_with_a_lasso_does_not_depend_on_units_and_resumes(tmp_path):
    X, y = few_informative(200, d=10)
    settings = {"alpha": "auto", "l1_ratio": 1.0, "max_epochs": 12, "random_state": 0}
    whole = SoftmaxClassifier(**settings).fit(X, y)
    scaled = SoftmaxClassifier(**settings).fit(64.0 * X, y)
    assert scaled.alpha_ == pytest.approx(whole.alpha_, rel=1e-3)
    path = tmp_path / "progress"
    killed_after(3, SoftmaxClassifier(**settings), X, y, path)
    resumed = SoftmaxClassifier(**settings).fit(X, y, checkpoint=path)
    assert_same_bits(resumed, whole)
    assert resumed.alpha_path_ == whole.alpha_path_


# ---------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"l1_ratio": -0.1}, ["l1_ratio=-0.1", ">= 0"]),
        ({"l1_ratio": 1.5}, ["l1_ratio=1.5", "<= 1"]),
        ({"l1_ratio": "much"}, ["l1_ratio='much'"]),
        ({"l1_ratio": 0.5, "solver": "lbfgs"}, ["'lbfgs'", "a ridge"]),
        ({"l1_ratio": 0.5, "examples_per_step": 4}, ["examples_per_step=None"]),
        ({"solver": "coordinate", "learning_rate": 0.1}, ["'coordinate'", "learning_rate"]),
        ({"solver": "coordinate", "epoch_decay": 0.5}, ["'coordinate'", "epoch_decay"]),
        ({"solver": "coordinate", "sampling": "block"}, ["'coordinate'", "all classes"]),
        ({"solver": "coordinate", "link": "probit"}, ["'coordinate'", "probit"]),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, texts):
    X, y = sparse_problem(n=40)
    text = message(ValueError, SoftmaxClassifier(**options).fit, X, y)
    for each in texts:
        assert each in text


@pytest.mark.parametrize("solver", [name for name, t in SOLVERS.items() if not t.takes_l1])
def test_solvers_that_take_an_l1_norm_are_named(solver):
    X, y = sparse_problem(n=40)
    model = SoftmaxClassifier(solver=solver, l1_ratio=0.5)
    text = message(ValueError, model.fit, X, y)
    assert text.endswith(f"or use {solvers_that(lambda t: t.takes_l1)}")


def test_coordinate_descent_has_no_partial_fit():
    assert not hasattr(SoftmaxClassifier(solver="coordinate"), "partial_fit")
