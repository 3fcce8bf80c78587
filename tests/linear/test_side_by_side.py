"""Problems fitted side by side: their optimum against SciPy, and the estimators that use them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from monro import LinearClassifier, LinearRegressor
from monro.linear import path_model
from monro.linear.lanes import LANES, PAIR, lanes_moments, lanes_move, lanes_slopes
from monro.linear.side_by_side import SideBySide, Variant
from monro.losses import Log, Poisson, Squared, SquaredHinge
from monro.rows import as_rows
from tests.linear.helpers import assert_same_bits
from tests.linear.test_coordinate import REFERENCES
from tests.marks import needs_compiler, thorough_unless

LOSSES = {"log": Log(), "squared": Squared(), "squared_hinge": SquaredHinge(), "poisson": Poisson()}


def problems(name, n=60, d=7, many=LANES + 3, seed=0):
    """Return rows, their problems' targets and shares; each problem leaves some rows out."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.5, random_state=seed, format="csr")
    y = rng.normal(size=(many, n))
    if name in ("log", "squared_hinge"):
        y = np.where(y > 0.3, 1.0, -1.0)
    elif name == "poisson":
        y = np.floor(np.exp(y))
    share = rng.random((many, n)) * (rng.random((many, n)) < 0.7)
    return X, y, share / share.sum(axis=1, keepdims=True)


def together(name, X, y, share, *, has_bias=True, n_jobs=1):
    return SideBySide(
        LOSSES[name],
        as_rows(X.T.tocsr()),
        [Variant(*each) for each in zip(y, share, strict=True)],
        [(np.zeros(X.shape[1]), 0.1 * has_bias)] * len(y),
        has_bias=has_bias,
        n_jobs=n_jobs,
    )


@pytest.mark.parametrize(
    ("name", "has_bias"),
    thorough_unless(lambda name, has_bias: name == "log" and has_bias, LOSSES, [True, False]),
)
def test_each_problem_reaches_its_optimum(name, has_bias):
    X, y, share = problems(name)
    strengths = np.geomspace(0.01, 1.0, len(y))
    fitted = together(name, X, y, share, has_bias=has_bias)
    fitted.fit(strengths, 100, 1e-9)

    value, slope = REFERENCES[name]
    for k, (w, b) in enumerate(fitted.solutions()):
        assert w.dtype == np.float64  # as whole fits, which begin there, have it

        def objective(v, k=k):
            p = X @ v[:-1] + v[-1] * has_bias
            g = share[k] * slope(p, y[k])
            total = share[k] @ value(p, y[k]) + 0.5 * strengths[k] * v[:-1] @ v[:-1]
            return total, np.append(X.T @ g + strengths[k] * v[:-1], g.sum() * has_bias)

        best = minimize(objective, np.zeros(X.shape[1] + 1), jac=True, options={"gtol": 1e-9})
        assert objective(np.append(w, b))[0] == pytest.approx(best.fun, rel=1e-6)
        np.testing.assert_allclose(w, best.x[:-1], atol=2e-3)
        # Those of all rows, also of the rows left out.
        np.testing.assert_allclose(fitted.predictions()[k], X @ w + b, atol=1e-4)


def test_threads_and_other_problems_change_no_bits():
    X, y, share = problems("log", many=2 * LANES + 1)
    one, two = (together("log", X, y, share, n_jobs=n) for n in (1, 2))
    first = together("log", X, y[:LANES], share[:LANES])
    for fitted in (one, two, first):
        fitted.fit([0.1] * len(fitted.predictions()), 3, 1e-3)
    np.testing.assert_array_equal(one.predictions(), two.predictions())
    np.testing.assert_array_equal(one.predictions()[:LANES], first.predictions())


def test_a_copy_is_continued_from():
    X, y, share = problems("log")
    fitted = together("log", X, y, share)
    fitted.fit([0.1] * len(y), 3, 1e-3)
    copy, before = fitted.copy(), fitted.solutions()
    for _ in range(2):
        fitted.fit([0.01] * len(y), 3, 1e-3)
        fitted.restore(copy)
        for (w, b), (same_w, same_b) in zip(fitted.solutions(), before, strict=True):
            np.testing.assert_array_equal(w, same_w)
            assert b == same_b


@needs_compiler
def test_loops_over_lanes_compute_their_sums():
    from numba import njit

    rng = np.random.default_rng(0)
    data, indices = rng.random(7).astype(np.float32), rng.permutation(20)[:7].astype(np.uint32)
    G, HQ = (rng.random((20, width)).astype(np.float32) for width in (LANES, PAIR))
    by = rng.random(LANES).astype(np.float32)

    @njit
    def compiled(data, indices, G, HQ, by, moments, slopes):
        lanes_moments(data, indices, 1, 7, G, HQ, moments)
        lanes_slopes(data, indices, 1, 7, HQ, slopes)
        lanes_move(data, indices, 1, 7, by, HQ)

    x, h, q, g = data[1:], *np.split(HQ[indices[1:]], 2, axis=1), G[indices[1:]]
    expected = np.array([x @ g, x @ h, x**2 @ h, x @ (h * q)])
    moved = HQ.copy()
    moved[indices[1:], LANES:] += x[:, None] * by
    for run in (compiled, compiled.py_func):
        moments, slopes, pairs = np.empty((4, LANES), np.float32), np.empty_like(by), HQ.copy()
        run(data, indices, G, pairs, by, moments, slopes)
        np.testing.assert_allclose(moments, expected, rtol=1e-5)
        np.testing.assert_allclose(slopes, expected[3], rtol=1e-5)
        np.testing.assert_allclose(pairs, moved, rtol=1e-6)


def documents(n=600, d=700, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.csr_matrix(rng.poisson(20.0 / d, size=(n, d)).astype(np.float64))
    scores = X @ (rng.normal(size=(d, n_classes)) * (rng.random((d, 1)) < 0.2))
    return X, np.argmax(scores + 0.5 * rng.normal(size=scores.shape), axis=1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_strengths_are_those_of_fits_one_by_one(n_classes, monkeypatch):
    X, y = documents(n_classes=n_classes)
    model = LinearClassifier(loss="log", random_state=0).fit(X, y)
    used = []
    monkeypatch.setattr(
        "monro.linear.base.goes_side_by_side", lambda problem: used.append(problem) or False
    )
    same = LinearClassifier(loss="log", random_state=0).fit(X, y)

    assert used
    assert path_model.goes_side_by_side(used[0])
    assert len(model.alpha_path_) == len(same.alpha_path_)
    for ours, theirs in zip(model.alpha_path_, same.alpha_path_, strict=True):
        assert ours["alpha"] == theirs["alpha"]
        assert ours["mean"] == pytest.approx(theirs["mean"], rel=0.01)
        assert ours["standard_error"] == pytest.approx(theirs["standard_error"], rel=0.05)
    assert model.alpha_ == pytest.approx(same.alpha_, rel=0.1)
    exact = LinearClassifier(
        loss="log", alpha=model.alpha_, solver="coordinate", max_epochs=100, random_state=0
    ).fit(X, y)
    size = np.linalg.norm(exact.coef_)
    assert np.linalg.norm(model.coef_ - exact.coef_) < 0.01 * size


def test_units_do_not_matter():
    X, y = documents()
    one, other = (
        LinearClassifier(loss="log", scale=False, random_state=0).fit(X * unit, y)
        for unit in (1.0, 2.0**100)
    )
    assert_same_bits(one, LinearClassifier(loss="log", scale=False, random_state=0).fit(X, y))
    assert other.alpha_ == pytest.approx(one.alpha_ * 4.0**100, rel=1e-3)
    np.testing.assert_allclose(other.predict_proba(X * 2.0**100), one.predict_proba(X), rtol=1e-3)


def test_a_regression_is_as_good_as_fits_one_by_one(monkeypatch):
    X, _ = documents(1200)
    rng = np.random.default_rng(1)
    y = X @ (rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < 0.1))
    noisy = y + rng.normal(size=y.size)
    model = LinearRegressor(alpha="auto", random_state=0).fit(X[:600], noisy[:600])
    monkeypatch.setattr("monro.linear.base.goes_side_by_side", lambda problem: False)
    same = LinearRegressor(alpha="auto", random_state=0).fit(X[:600], noisy[:600])
    assert model.score(X[600:], y[600:]) > same.score(X[600:], y[600:]) - 0.01


def test_stronger_penalties_are_tried_from_the_best_fit():
    rng = np.random.default_rng(0)
    X, _ = documents()
    model = LinearClassifier(loss="log", random_state=0).fit(X, rng.random(X.shape[0]) < 0.5)
    means = [record["mean"] for record in model.alpha_path_]
    assert len(means) > 3
    assert np.all(np.isfinite(means))
    assert means[0] == pytest.approx(np.log(2.0), rel=0.01)
