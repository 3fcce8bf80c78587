"""Implicit steps against independent solvers."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp, wrightomega

from monro.softmax.kernel.sweep import DrawnBlocks, DrawnClasses
from monro.softmax.rules.implicit import Implicit
from monro.softmax.rules.raman_implicit import RamanImplicit
from tests.marks import needs_compiler, thorough
from tests.softmax.helpers import (
    Model,
    assert_models_agree,
    drawn_classes,
    draws,
    proximal_step,
    random_model,
    take,
)

BOTH = pytest.mark.parametrize("formulation", ["difference", "raman"])
BOTH_DTYPES = pytest.mark.parametrize(
    "dtype", [pytest.param("float32", marks=(needs_compiler, thorough)), "float64"]
)


def implicit_rule(formulation, r=1.0, dtype="float64"):
    number = np.dtype(dtype).type
    tolerance = number(1e-6 if dtype == "float64" else 3e-3)
    if formulation == "difference":
        return Implicit(tolerance)
    return RamanImplicit(tolerance, number(1.0 / r))


def draw_for(rng, drawing, y, K, dtype="float64"):
    """Draw one, three or all other classes, or one or two blocks of sixteen."""
    if isinstance(drawing, int):
        others = np.delete(np.arange(K), y)
        return draws(
            DrawnClasses, rng.choice(others, drawing, replace=False), (K - 1) / drawing, dtype
        )
    blocks = -(-K // 16)
    m = min(blocks, len(drawing))
    return draws(DrawnBlocks, rng.choice(blocks, m, replace=False), blocks / m, dtype)


@BOTH
@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-4, 3),
    size=st.sampled_from([0.0, 0.3, 1.0, 10.0]),
    old=st.floats(0, 30),
    spread=st.sampled_from([0.1, 2.0, 20.0]),
    ridge=st.sampled_from([0.0, 1e-3, 1.0]),
    damping=st.sampled_from([0.0, 0.03, 1.0]),
    weight=st.sampled_from([1.0, 0.2, 7.0]),
    r=st.sampled_from([1.0, 0.05]),
    drawing=st.sampled_from([1, 3, "b"]),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_an_implicit_step_is_the_minimiser_over_all_variables(
    formulation, seed, log_eta, size, old, spread, ridge, damping, weight, r, drawing
):
    rng = np.random.default_rng(seed)
    K, d = (20, 2) if drawing == "b" else (6, 3)
    eta = 10.0**log_eta
    x = rng.standard_normal(d)
    x *= size / np.linalg.norm(x)
    W = rng.standard_normal((K, d)) * spread / (size or 1.0)
    model = Model(W, rng.standard_normal(K), np.array([old]))
    y = rng.integers(K)
    ridge = ridge * rng.random(K)
    drawn = draw_for(rng, drawing, y, K)
    if formulation == "difference":
        r = 1.0
    C = np.zeros((1, K))
    classes, weights = drawn_classes(drawn, 0, y, K)
    C[0, classes] = weights

    rule = implicit_rule(formulation, r)
    actual, _ = take(
        rule, model, x[None], [y], drawn, eta=eta, ridge=ridge, damping=damping, weight=[weight],
        scale=0.5 + rng.random(K),
    )  # fmt: skip
    expected = proximal_step(
        model, x[None], [y], C, [eta * weight], formulation=formulation, ridge=eta * ridge,
        damping=damping, r=r,
    )  # fmt: skip
    assert_models_agree(actual, expected, 1e-7)
    untouched = np.setdiff1d(np.arange(K), np.append(classes, y))
    np.testing.assert_allclose(actual.W[untouched], model.W[untouched], rtol=1e-15)
    np.testing.assert_array_equal(actual.b[untouched], model.b[untouched])


@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-3, 3),
    spread=st.sampled_from([0.1, 2.0, 10.0]),
    damping=st.sampled_from([0.0, 0.1]),
    old=st.floats(-30, 30),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_with_all_classes_and_no_stiffness_it_is_the_implicit_step_of_the_softmax(
    seed, log_eta, spread, damping, old
):
    """``min η [log Σ e^{s_k} - s_y] + ½ ‖W - W̃‖² + ‖b - b̃‖²/2δ``, whatever u was before."""
    rng = np.random.default_rng(seed)
    K, d, eta = 20, 3, 10.0**log_eta
    x, y = rng.standard_normal(d), int(rng.integers(K))
    model = Model(spread * rng.standard_normal((K, d)), rng.standard_normal(K), np.array([old]))
    drawn = draws(DrawnBlocks, [0, 1], 1.0)
    rule = RamanImplicit(1e-9, 0.0)
    actual, _ = take(rule, model, x[None], [y], drawn, eta=eta, damping=damping)

    # In the scores: s = s̃ - q g, where g is the gradient at s.
    q = x @ x + damping
    start = model.W @ x + model.b

    def at(t):
        """Return g for a guess of the normaliser, and the error of the guess."""
        own = np.arange(K) == y
        w = wrightomega(np.log(eta * q) + start + eta * q * own - t).real
        return w / q - eta * own, logsumexp(start - w + eta * q * own) - t

    low, high = start.min() - eta * q - 1, logsumexp(start) + eta * q + 1
    t = brentq(lambda t: -at(t)[1], low, high, xtol=1e-13)
    g, _ = at(t)
    size = 1 + np.abs(model.W).max()
    np.testing.assert_allclose(actual.W, model.W - np.outer(g, x), rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(actual.b, model.b - damping * g, rtol=0, atol=1e-6 * size)


def increasing_root(f, low, high):
    if f(low) >= 0 or low == high:
        return low
    if f(high) <= 0:
        return high
    return brentq(f, low, high, xtol=1e-300, rtol=1e-15, maxiter=1000)


def reduced_difference(eta, c, s, s_y, q, q_y, old, r):
    """Minimise over the scores' moves and u, one inside the other; return g, G and u.

    ``η [u + e^{-u} + Σ c e^{s - fall - s_y - A - u}] + (u - old)²/2 + Σ fall²/2q + A²/2q_y``
    """
    t = np.log(eta * c * q) + s - s_y

    def falls(u, A):  # fall/q = η c e^{s - fall - s_y - A - u}
        return wrightomega(t - u - A)

    def rise(u):
        most = q_y * (falls(u, 0.0) / q).sum()
        return increasing_root(lambda A: A - q_y * (falls(u, A) / q).sum(), 0.0, most)

    def slope(u):
        return u - old - eta * np.expm1(-u) - rise(u) / q_y

    most = max(old, np.logaddexp(0.0, logsumexp(s - s_y, b=c))) + 1
    u = increasing_root(slope, 0.0, most)
    A = rise(u)
    return falls(u, A) / q, A / q_y, u


def reduced_raman(eta, c, s, s_y, q, q_y, old, r):
    """Do so for ``η [v - s_y - A + e^{s_y + A - v} + Σ c e^{s - fall - v}] + (v - old)²/2r …``."""
    t = np.log(eta * c * q) + s

    def pushes(v):
        return wrightomega(t - v) / q

    def rise(v):  # A/q_y = η (1 - e^{s_y + A - v}): between 0 and v - s_y
        def slope(A):
            return A / q_y + eta * np.expm1(min(s_y + A - v, 600.0))

        return increasing_root(slope, *sorted((0.0, v - s_y)))

    def slope(v):
        return (v - old) / r + rise(v) / q_y - pushes(v).sum()

    top = max(old, s_y)
    v = increasing_root(slope, min(old, s_y) - r * eta, top + r * pushes(top).sum())
    return pushes(v), rise(v) / q_y, v


extremes = given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-6, 6),
    size=st.sampled_from([0.0, 1e-3, 1.0, 100.0, 1e6]),
    old=st.floats(0, 30),
    spread=st.sampled_from([1.0, 30.0, 1e3, 1e4]),
    ridge=st.sampled_from([0.0, 1e-3, 1.0]),
    damping=st.sampled_from([0.0, 0.03, 1.0]),
    r=st.sampled_from([1.0, 0.05]),
    drawing=st.sampled_from([1, 3, "b", "bb"]),
)


def extreme_case(rng, size, old, spread, drawing, dtype="float64"):
    """Return a model, a row, its class and draws; scores are of the order of `spread`."""
    K, d = 40, 3
    x = rng.standard_normal(d)
    x *= size / np.linalg.norm(x)
    W = rng.standard_normal((K, d)) * spread / (size or 1.0)
    model = Model(W, spread * rng.standard_normal(K), np.array([old]))
    y = int(rng.integers(K))
    drawn = draw_for(rng, drawing, y, K, dtype)
    # In float32 all numbers are rounded before the step: the reference is to see the same.
    x, model = x.astype(dtype).astype(float), Model(*(a.astype(dtype).astype(float) for a in model))
    return model, x, y, drawn


def reduced_problem(model, x, y, drawn, eta, ridge, damping):
    """Return c, s̃, s̃_y, q and q_y of a step, its classes and its ρ."""
    classes, c = drawn_classes(drawn, 0, y, model.b.size)
    rho = 1 / (1 + eta * ridge)
    s = rho * (model.W @ x) + model.b
    q = np.maximum(rho * (x @ x) + damping, 1e-30)
    return classes, rho, (c, s[classes], s[y], q[classes], q[y])


@BOTH
@extremes
@settings(max_examples=250, deadline=None, derandomize=True)
def test_an_implicit_step_is_exact_for_any_rate_and_any_row(
    formulation, seed, log_eta, size, old, spread, ridge, damping, r, drawing
):
    rng = np.random.default_rng(seed)
    eta = 10.0**log_eta
    model, x, y, drawn = extreme_case(rng, size, old, spread, drawing)
    ridge = ridge * rng.random(model.b.size)
    if formulation == "raman":
        model.u[0] += rng.choice([0.0, 1.0]) * (model.W[y] @ x + model.b[y])

    rule = implicit_rule(formulation, r)
    actual, loss = take(rule, model, x[None], [y], drawn, eta=eta, ridge=ridge, damping=damping)

    classes, rho, problem = reduced_problem(model, x, y, drawn, eta, ridge, damping)
    solve = reduced_difference if formulation == "difference" else reduced_raman
    g, G, u = solve(eta, *problem, model.u[0], r)
    W, b = model.W.copy(), model.b.copy()
    W[classes] = rho[classes, None] * (W[classes] - g[:, None] * x)
    W[y] = rho[y] * (W[y] + G * x)
    b[classes] -= damping * g
    b[y] += damping * G
    assert_models_agree(actual, Model(W, b, np.array([u])), 1e-7)
    c, s, s_y, _, _ = problem
    exact = np.logaddexp(0.0, logsumexp(s - s_y, b=c)) if classes.size else 0.0
    assert loss == pytest.approx(exact, rel=1e-9, abs=1e-9) if exact < 690 else loss > 690


@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-3, 3),
    size=st.sampled_from([0.1, 1.0, 10.0]),
    z=st.floats(-30, 30),
    old=st.floats(0, 30),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_with_one_class_and_no_ridge_it_is_the_papers_bisection(seed, log_eta, size, z, old):
    """Paper 000, appendix F.1; its ηN is our η."""
    rng = np.random.default_rng(seed)
    K, eta = 9, 10.0**log_eta
    x = rng.standard_normal(4)
    x *= size / np.linalg.norm(x)
    x2 = x @ x
    W = rng.standard_normal((K, 4))
    W[3] = W[5] + z * x / x2  # x·(w_3 - w_5) = z

    def bisect(increasing, low, high):
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if increasing(middle) > 0 else (middle, high)
        return (low + high) / 2

    def a_of(u):  # eq. 13, of which we take the logarithm
        log_right = np.log(2 * eta * (K - 1) * x2) + z - u
        return bisect(lambda a: a + np.log(a) - log_right, 0.0, max(1.0, log_right))

    def derivative(u):  # eq. 16
        a = a_of(u)
        change = -a / (1 + a) / x2 - a * a / ((1 + a) * x2)
        return 2 * eta - 2 * eta * np.exp(-u) + change + 2 * (u - old)

    if derivative(old) < 0:
        u = bisect(derivative, old, np.log1p((K - 1) * np.exp(z)))
    else:
        u = bisect(derivative, max(0.0, np.log(K - 1) + z - 2 * eta * x2), old)
    a = a_of(u)
    expected = W.copy()  # eq. 11
    expected[5] += a * x / (2 * x2)
    expected[3] -= a * x / (2 * x2)

    model = Model(W, np.zeros(K), np.array([old]))
    drawn = draws(DrawnClasses, [3], K - 1)
    actual, _ = take(Implicit(1e-6), model, x[None], [5], drawn, eta=eta)
    assert_models_agree(actual, Model(expected, np.zeros(K), np.array([u])), 1e-7)


@BOTH_DTYPES
@BOTH
@extremes
@settings(max_examples=150, deadline=None, derandomize=True)
def test_an_implicit_step_stays_in_the_order_of_z_minus_u(
    dtype, formulation, seed, log_eta, size, old, spread, ridge, damping, r, drawing
):
    rng = np.random.default_rng(seed)
    eta = 10.0**log_eta
    model, x, y, drawn = extreme_case(rng, size, old, spread, drawing, dtype)
    ridge = ridge * rng.random(model.b.size)
    rule = implicit_rule(formulation, r, dtype)
    new, loss = take(
        rule, model, x[None], [y], drawn, eta=eta, ridge=ridge, damping=damping, dtype=dtype
    )
    assert all(np.isfinite(part).all() for part in new)
    assert np.isfinite(loss)

    classes, rho, (c, s, s_y, q, q_y) = reduced_problem(model, x, y, drawn, eta, ridge, damping)
    assume(classes.size > 0)
    moves = new.W @ x + new.b - (rho * (model.W @ x) + model.b)
    u = min(new.u[0], old)
    slack = 1.0 + (1e-4 if dtype == "float32" else 1e-9) * spread
    if formulation == "difference":
        t = np.log(eta * c * q) + s - s_y - u
        most = np.log(classes.size * q_y / q.min()) + t.max()  # all of these classes move y
        assert new.u[0] >= 0
    else:
        t = np.log(eta * c * q) + s - u
        most = abs(new.u[0] - s_y)
        assert moves[y] >= -slack - max(0.0, s_y - u)
    assert (-moves[classes] <= slack + np.maximum(0.0, t)).all()
    assert (moves[classes] <= slack - 1).all()
    assert moves[y] <= slack + max(0.0, most)


@needs_compiler
@BOTH
@extremes
@settings(max_examples=100, deadline=None, derandomize=True)
def test_in_float32_an_implicit_step_is_as_exact_as_its_scores(
    formulation, seed, log_eta, size, old, spread, ridge, damping, r, drawing
):
    rng = np.random.default_rng(seed)
    eta = float(np.float32(10.0 ** (log_eta / 2)))  # rates to 1000
    spread = min(spread, 30.0)
    model, x, y, drawn = extreme_case(rng, size, old, spread, drawing, "float32")
    rule = implicit_rule(formulation, 1.0, "float32")
    new, _ = take(rule, model, x[None], [y], drawn, eta=eta, damping=damping, dtype="float32")
    _, _, problem = reduced_problem(model, x, y, drawn, eta, np.zeros(40), damping)
    solve = reduced_difference if formulation == "difference" else reduced_raman
    g, G, u = solve(eta, *problem, model.u[0], 1.0)
    classes, _ = drawn_classes(drawn, 0, y, 40)
    moves = new.W @ x + new.b - (model.W @ x + model.b)
    expected = np.zeros(40)
    expected[classes] = -g * (x @ x + damping)
    expected[y] = G * (x @ x + damping)
    noise = 2e-6 * (spread + old + 10) + (1e-6 * eta if formulation == "raman" else 0.0)
    np.testing.assert_allclose(moves, expected, rtol=1e-4, atol=3 * noise)
    assert new.u[0] == pytest.approx(u, rel=1e-4, abs=noise)


@BOTH
@pytest.mark.parametrize("eta", [0.1, 1.0, 3.0, 30.0])
def test_the_tolerance_of_float32_loses_no_more_than_its_square(formulation, eta):
    rng = np.random.default_rng(0)
    K, rows = 20, 1500
    X = rng.standard_normal((rows, 3))
    y = rng.integers(K, size=rows)
    model = random_model(rng, K, 3, rows)
    drawn = draws(DrawnBlocks, rng.integers(2, size=(rows, 1)), 2.0)
    rough, exact = implicit_rule(formulation), implicit_rule(formulation)
    rough = rough._replace(tolerance=3e-3)
    # All in one step, so that all start from the same weights.
    results = [take(r, model, X, y, drawn, eta=eta, n=rows)[0].u for r in (rough, exact)]
    np.testing.assert_allclose(*results, rtol=0, atol=1e-5)


@needs_compiler
@BOTH_DTYPES
@BOTH
def test_a_row_without_weight_moves_nothing(formulation, dtype):
    rng = np.random.default_rng(0)
    model, x, y, drawn = extreme_case(rng, 1.0, 2.0, 3.0, "b", dtype)
    rule = implicit_rule(formulation, 1.0, dtype)
    new, loss = take(
        rule, model, x[None], [y], drawn, eta=1.0, damping=1.0, weight=[0.0], dtype=dtype
    )
    assert_models_agree(new, model, 1e-12)
    assert loss == 0.0
