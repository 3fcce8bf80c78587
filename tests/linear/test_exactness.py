"""Each solver against its paper's recursion, written out naively in dense NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from monro.linear.algorithms.dual import MOST_IDLE
from monro.linear.algorithms.sgdqn import IfSlopeChanged
from monro.linear.examples import Examples
from monro.linear.objective import objective
from monro.linear.problem import Problem
from monro.linear.solvers import make_solver
from monro.losses import (
    COUNTS,
    POSITIVE,
    SIGNS,
    Absolute,
    Gamma,
    Hinge,
    Huber,
    Log,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    derivative,
    implicit_derivative,
)
from monro.penalties import Ridge
from monro.rows import as_rows
from tests.marks import thorough, thorough_unless

LOSSES = [
    Hinge(),
    SquaredHinge(),
    Log(),
    Squared(),
    Absolute(),
    Huber(0.7),
    Poisson(),
    Quantile(0.8),
    Gamma(),
]
names = [type(loss).__name__ for loss in LOSSES]


def is_hinge(loss):
    return isinstance(loss, Hinge)


by_loss = pytest.mark.parametrize("loss", thorough_unless(is_hinge, LOSSES), ids=names)

cases = given(
    seed=st.integers(0, 2**32 - 1),
    lam=st.sampled_from([1e-3, 1e-2, 0.1, 1.0]),
    sparse=st.booleans(),
    weighted=st.booleans(),
)
often = settings(max_examples=25, deadline=None, derandomize=True)


def expected_damping(X, sparse):
    """Return the damping of the bias: 0.01 if rows have a quarter of the features or fewer."""
    return 0.01 if sparse and X.size >= 4 * np.count_nonzero(X) else 1.0


def make_problem(loss, seed, lam, sparse, weighted, fit_intercept=True, n=40, d=7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < (0.2 if sparse else 0.4))
    if loss.traits.targets == SIGNS:
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    elif loss.traits.targets in (COUNTS, POSITIVE):
        X *= 0.2  # explicit steps on exp(p) diverge on larger rows: that is the method, not a bug
        counts = loss.traits.targets == COUNTS
        y = rng.poisson(1.0, n).astype(float) if counts else rng.gamma(2.0, size=n)
    else:
        y = rng.standard_normal(n)
    weight = rng.random(n) + 0.5 if weighted else np.ones(n)
    weight *= n / weight.sum()
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    order = np.concatenate([rng.permutation(n), rng.permutation(n)])
    return Problem(loss, Ridge(lam), Examples(rows, y, weight), fit_intercept, d), X, order


def run(problem, order, name, schedule="bottou", eta0=0.3, decay=1.0, epochs=1):
    solver = make_solver(problem, name, schedule, eta0, decay)
    state = solver.start()
    for part in np.array_split(order, epochs):
        state = solver.begin_epoch(state)
        solver.sweep(part, state)
    return solver.solution(state)


def close(actual, expected, tolerance=1e-10):
    scale = 1.0 + np.abs(expected[0]).max()
    np.testing.assert_allclose(actual[0], expected[0], rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(actual[1], expected[1], rtol=0, atol=tolerance * scale)


# --------------------------------------------------------------- A1-A3: the papers' 1/(λt)


def naive_inverse_t(problem, X, order):
    """Equation (3) of paper 002, bias regularised: the last and the mean iterate."""
    loss, (_, y, c), lam = problem.loss, problem.examples, problem.penalty.strength
    X = np.column_stack([X, np.ones(len(X))])
    w = np.zeros(X.shape[1])
    total = np.zeros_like(w)
    for t, i in enumerate(order, start=1):
        g = c[i] * derivative(loss, X[i] @ w, y[i])
        w = (1 - 1 / t) * w - g / (lam * t) * X[i]
        total += w
    return (w[:-1], w[-1]), (total[:-1] / len(order), total[-1] / len(order))


@pytest.mark.parametrize("loss", thorough_unless(is_hinge, LOSSES[:-1]), ids=names[:-1])
@cases
@often
def test_gradient_sums_equal_the_naive_recursion(loss, seed, lam, sparse, weighted):
    problem, X, order = make_problem(loss, seed, lam, sparse, weighted)
    # The first steps, 1/λ times a gradient, may be so long that roundings grow, or they overflow.
    try:
        with np.errstate(over="raise"):
            expected = naive_inverse_t(problem, X, order)
            rounded = naive_inverse_t(problem, X * (1.0 + 1e-13), order)
    except (OverflowError, FloatingPointError):
        assume(False)
    for solver, exact, other in zip(("sgd", "asgd"), expected, rounded, strict=True):
        assume(max(abs(exact[0] - other[0]).max(), abs(exact[1] - other[1])) < 1e-9)
        close(run(problem, order, solver, "inverse-t"), exact)


@pytest.mark.parametrize(
    "loss",
    thorough_unless(is_hinge, [Hinge(), Log(), Squared()]),
    ids=["Hinge", "Log", "Squared"],
)
@cases
@often
def test_centred_equals_averaged_on_centred_rows(loss, seed, lam, sparse, weighted):
    problem, X, order = make_problem(loss, seed, lam, sparse, weighted)
    centre = problem.examples.weight @ X / len(X)
    for schedule in ("inverse-t", "bottou"):
        if schedule == "inverse-t":
            w, b = naive_inverse_t(problem, X - centre, order)[1]
        else:
            # The same solver on dense centred rows; the bias's share of a step must agree.
            dense = problem._replace(
                examples=problem.examples._replace(rows=as_rows(X - centre)), fit_intercept=False
            )
            w, b = run(dense, order, "asgd", schedule, epochs=2)
            problem = problem._replace(fit_intercept=False)
        actual = run(problem, order, "casgd", schedule, epochs=2)
        close(actual, (w, b - w @ centre), 1e-9)


@cases
@often
def test_centred_predictions_do_not_move_with_the_data(seed, lam, sparse, weighted):
    problem, X, order = make_problem(Log(), seed, lam, sparse, weighted)
    shift = np.arange(X.shape[1]) * 3.0 - 5.0
    moved = problem._replace(examples=problem.examples._replace(rows=as_rows(X + shift)))
    for schedule in ("inverse-t", "bottou"):
        w, b = run(problem, order, "casgd", schedule, epochs=2)
        v, c = run(moved, order, "casgd", schedule, epochs=2)
        if schedule == "bottou" and sparse:  # the bias of sparse rows learns more slowly
            continue
        np.testing.assert_allclose((X + shift) @ v + c, X @ w + b, rtol=0, atol=1e-7)


# ------------------------------------------------------------------- A4: the practical schedule


def naive_bottou(problem, X, order, eta0, decay, *, averaged, implicit, damping):
    loss, (_, y, c), lam = problem.loss, problem.examples, problem.penalty.strength
    w, b = np.zeros(X.shape[1]), 0.0
    ws, bs = [], []
    for t, i in enumerate(order):
        eta = eta0 / (1 + decay * lam * eta0 * t) ** (0.75 if averaged else 1)
        if implicit:
            L = 1 + eta * lam
            step = c[i] * eta
            length = X[i] @ X[i] / L + damping
            g = implicit_derivative(loss, X[i] @ w / L + b, y[i], step * length) if length else 0.0
            w, b = (w - step * g * X[i]) / L, b - damping * step * g
        else:
            g = c[i] * derivative(loss, X[i] @ w + b, y[i])
            w, b = w - eta * (g * X[i] + lam * w), b - damping * eta * g
        ws.append(w)
        bs.append(b)
    if averaged:  # from the second epoch on
        half = len(order) // 2
        return np.mean(ws[half:], axis=0), np.mean(bs[half:])
    return w, b


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", ["sgd", "asgd", "implicit", "aisgd"])
@by_loss
@cases
@often
def test_lazy_scaling_equals_the_naive_recursion(
    loss, name, fit_intercept, seed, lam, sparse, weighted
):
    problem, X, order = make_problem(loss, seed, lam, sparse, weighted, fit_intercept)
    implicit = name in ("implicit", "aisgd")
    damping = float(fit_intercept) * expected_damping(X, sparse)
    expected = naive_bottou(
        problem, X, order, 0.3, 2.0, averaged=name[0] == "a", implicit=implicit, damping=damping
    )
    close(run(problem, order, name, eta0=0.3, decay=2.0, epochs=2), expected)


@pytest.mark.parametrize("name", ["sgd", "asgd", "implicit", "aisgd"])
def test_rescaling_of_a_tiny_scale_changes_nothing(name):
    # η0 λ = 0.9 shrinks the scale below every threshold within a few dozen steps.
    problem, X, order = make_problem(Squared(), 3, 0.9, False, False)
    order = np.tile(order, 5)
    options = {"averaged": name[0] == "a", "implicit": "i" in name, "damping": 1.0}
    expected = naive_bottou(problem, X, order, 1.0, 0.0, **options)
    close(run(problem, order, name, eta0=1.0, decay=0.0, epochs=2), expected)


# ------------------------------------------------------------------------ A5: implicit steps


@pytest.mark.parametrize("fit_intercept", [True, False])
@by_loss
@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-6, 6),
    log_lam=st.floats(-6, 0),
    size=st.sampled_from([0.01, 1.0, 30.0]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_an_implicit_step_minimises_its_proximal_problem(
    loss, fit_intercept, seed, log_eta, log_lam, size
):
    """θ⁺ has 0 in the subdifferential of ηℓ(θ) + ηλ/2‖w‖² + ½‖θ - θ_old‖²: checked on ℓ alone."""
    rng = np.random.default_rng(seed)
    eta, lam = 10.0**log_eta, 10.0**log_lam
    x = size * rng.standard_normal(5)
    y = rng.choice([-1.0, 1.0]) if loss.traits.targets == SIGNS else abs(rng.standard_normal())
    w0, b0 = rng.standard_normal(5) / size, float(fit_intercept) * rng.standard_normal()
    examples = Examples(as_rows(x[None, :]), np.array([y]), np.ones(1))
    problem = Problem(loss, Ridge(lam), examples, fit_intercept, 5)
    solver = make_solver(problem, "implicit", "bottou", eta)
    state = solver.start()
    state.r[:] = w0
    state.bias[0] = b0
    solver.sweep(np.array([0]), state)
    w, b = solver.solution(state)
    assert np.isfinite(np.append(w, b)).all()

    # The step must be along x, and its length the root of a monotone one-dimensional equation.
    L = 1 + eta * lam
    xi = (L * w - w0) @ x / (x @ x)
    np.testing.assert_allclose(L * w, w0 + xi * x, rtol=1e-7, atol=1e-7 * (1 + abs(xi) * size))
    assert b == pytest.approx(b0 + xi * fit_intercept, abs=1e-7 * (1 + abs(xi)))
    low, high = subgradients(loss, x @ w + b, y, 1e-7 * (1 + abs(x @ w) + abs(b)))
    slack = 1e-8 * (1 + abs(xi))
    assert eta * low - slack <= -xi <= eta * high + slack


def subgradients(loss, p, y, blur):
    """Bound ℓ' near p: it increases, so its values at p ± blur do."""
    return derivative(loss, p - blur, y), derivative(loss, p + blur, y)


# ---------------------------------------------------------------------------------- A7: SGD-QN


def naive_sgdqn(problem, X, order, eta0, skip, *, flawed, damping, only_changed=False):
    """Figure 4 of paper 004, line by line; the bias is a coordinate without ridge.

    Returns every iterate, and the gains. `only_changed`: leave out measurements in which the slope
    of the loss is the same at w and v.
    """
    loss, (_, y, c), lam = problem.loss, problem.examples, problem.penalty.strength
    if problem.fit_intercept:
        X = np.column_stack([X, np.ones(len(X))])
    d = X.shape[1]
    penalised = np.arange(d) < problem.n_features
    t0 = 1 / (lam * eta0)
    B = np.full(d, 1 / lam if flawed else eta0)
    B[~penalised] *= damping
    w, v = np.zeros(d), np.zeros(d)
    count, r, update = skip, 2.0, False
    iterates = []

    def slope_change(i, w, v):
        return c[i] * (derivative(loss, X[i] @ w, y[i]) - derivative(loss, X[i] @ v, y[i]))

    def ratios(i, w, v):
        change = slope_change(i, w, v)
        out = np.full(d, lam)
        for k in np.flatnonzero(X[i]):
            moved = w[k] - v[k]
            out[k] = lam + change * X[i, k] / moved if moved else 100 * lam
        return np.minimum(out, 100 * lam)

    for t, i in enumerate(order):
        g = c[i] * derivative(loss, X[i] @ w, y[i])
        if flawed:
            w = w - g * B * X[i] / (t + t0)
            if update:
                B = B + 2 / r * (1 / ratios(i, w, v) - B)
                r, update = r + 1, False
            count -= 1
            if count <= 0:
                count, update = skip, True
                w = w - np.where(penalised, skip * lam * B * w / (t + t0), 0)
                v = w
        else:
            if update:
                if not only_changed or slope_change(i, w, v) != 0:
                    B = B / (1 + skip * B * np.maximum(ratios(i, w, v), lam))
                update = False
            count -= 1
            if count <= 0:
                count, update = skip, True
                v = w
                w = w - np.where(penalised, skip * lam * B * w, 0)
            w = w - g * B * X[i]
        iterates.append(w)
    return np.array(iterates), B


def as_solution(problem, w):
    """Return weights and bias."""
    return w[: problem.n_features], w[-1] if problem.fit_intercept else 0.0


@pytest.mark.parametrize("fit_intercept", [True, pytest.param(False, marks=thorough)])
@pytest.mark.parametrize(
    "name", thorough_unless(lambda name: name == "sgdqn", ["sgdqn", "asgdqn", "sgdqn-flawed"])
)
@pytest.mark.parametrize("loss", thorough_unless(is_hinge, LOSSES[:-1]), ids=names[:-1])
@given(seed=st.integers(0, 2**32 - 1), sparse=st.booleans(), skip=st.integers(1, 9))
@often
def test_sgdqn_equals_the_papers_figure(loss, name, fit_intercept, seed, sparse, skip):
    problem, X, order = make_problem(loss, seed, 0.01, sparse, True, fit_intercept)
    solver = make_solver(problem, name, "bottou", 0.05, skip=skip)
    state = solver.start()
    parts = np.array_split(order, 3)
    for part in parts:  # the cycle of `skip` steps crosses epochs
        state = solver.begin_epoch(state)
        solver.sweep(part, state)
    flawed, damping = name == "sgdqn-flawed", expected_damping(X, sparse)
    iterates, gains = naive_sgdqn(problem, X, order, 0.05, skip, flawed=flawed, damping=damping)
    averaged = iterates[len(parts[0]) :] if name == "asgdqn" else iterates[-1:]
    close(solver.solution(state), as_solution(problem, averaged.mean(axis=0)), 1e-9)
    np.testing.assert_allclose(state.gains, gains, rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), skip=st.integers(1, 9))
@often
def test_measurements_without_a_change_of_slope_can_be_left_out(seed, skip):
    problem, X, order = make_problem(Hinge(), seed, 0.01, False, True)
    solver = make_solver(problem, "sgdqn", "bottou", 0.05, skip=skip)
    solver.rule = IfSlopeChanged()
    state = solver.start()
    solver.sweep(order, state)
    iterates, gains = naive_sgdqn(
        problem, X, order, 0.05, skip, flawed=False, damping=1.0, only_changed=True
    )
    close(solver.solution(state), as_solution(problem, iterates[-1]), 1e-9)
    np.testing.assert_allclose(state.gains, gains, rtol=1e-9)


def test_only_the_corrected_gains_follow_the_scale_of_dense_features():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 20))
    y = np.where(X @ rng.standard_normal(20) + rng.standard_normal(4000) > 0, 1.0, -1.0)
    X[:, ::10] *= 12
    problem = Problem(Hinge(), Ridge(1e-3), Examples(as_rows(X), y, np.ones(4000)), False, 20)
    gains = {}
    for name in ("sgdqn", "sgdqn-flawed"):
        solver = make_solver(problem, name, "bottou", 0.01)
        state = solver.start()
        solver.sweep(rng.permutation(4000), state)
        gains[name] = state.gains
    large = np.arange(20) % 10 == 0
    assert gains["sgdqn"][large].max() < gains["sgdqn"][~large].min()
    # On dense rows the flaw makes all ratios, hence all gains, equal.
    np.testing.assert_allclose(gains["sgdqn-flawed"], gains["sgdqn-flawed"][0], rtol=1e-9)


# ---------------------------------------------------------------------------- the dual solver


@pytest.mark.parametrize("fit_intercept", [True, False])
@by_loss
@given(seed=st.integers(0, 2**32 - 1), sparse=st.booleans(), sigma=st.sampled_from([1, 3]))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_dual_weights_are_the_sum_of_their_examples(loss, fit_intercept, seed, sparse, sigma):
    """The incrementally kept w and b equal the sums they stand for."""
    problem, X, order = make_problem(loss, seed, 0.05, sparse, True, fit_intercept)
    solver = make_solver(problem, "dual")
    state = solver.start()
    anchor = 0.0
    for _ in range(3):
        anchor = state.bias[0]
        state = solver.begin_epoch(state)
        solver.sweep(order, state)
    if sigma > 1:  # one of several sweeps at once: w moves further than g says, until averaged
        before = state.w.copy()
        g = state.memory.g.copy()
        solver.sweep(order, state, sigma)
        moved = problem.examples.weight * (state.memory.g - g)
        np.testing.assert_allclose(
            state.w - before, -sigma * solver.h * moved @ X, rtol=0, atol=1e-9
        )
        return
    mass = problem.examples.weight * state.memory.g
    np.testing.assert_allclose(state.w, -solver.h * mass @ X, rtol=0, atol=1e-10)
    assert state.bias[0] == pytest.approx(anchor - solver.h_bias * mass.sum(), abs=1e-10)


@by_loss
def test_dual_goes_on_from_a_solution_with_the_weights_its_slopes_imply(loss):
    problem, X, _ = make_problem(loss, 3, 0.05, True, True, True)
    coef = np.random.default_rng(0).normal(size=X.shape[1])
    solver = make_solver(problem, "dual")
    state = solver.resume(coef, 0.3, 0.0)

    slopes = [
        derivative(loss, p, y) for p, y in zip(X @ coef + 0.3, problem.examples.y, strict=True)
    ]
    np.testing.assert_allclose(state.memory.g, slopes, rtol=1e-9)
    mass = problem.examples.weight * slopes
    np.testing.assert_allclose(state.w, -solver.h * mass @ X, rtol=0, atol=1e-9)


def test_dual_counts_the_visits_in_a_row_that_moved_nothing():
    problem, _, _ = make_problem(Hinge(), 2, 0.05, False, False, n=60, d=4)
    solver = make_solver(problem, "dual")
    state = solver.start()
    expected = np.zeros(60)
    for _ in range(12):
        g = state.memory.g.copy()
        solver.sweep(np.arange(60), state)
        expected = np.where(state.memory.g == g, np.minimum(expected + 1, MOST_IDLE), 0)
        np.testing.assert_array_equal(state.memory.idle, expected)
    assert 0 in expected
    assert MOST_IDLE in expected


@pytest.mark.parametrize("fit_intercept", [True, False])
@by_loss
def test_dual_reaches_the_optimum(loss, fit_intercept):
    problem, _, _ = make_problem(loss, 5, 0.05, False, True, fit_intercept, n=60, d=4)
    solver = make_solver(problem, "dual")
    state = solver.start()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        state = solver.begin_epoch(state)
        solver.sweep(rng.permutation(60), state)
    reached = objective(problem, *solver.solution(state))

    def value(theta):
        return objective(problem, theta[:4], theta[4] * fit_intercept)

    start = np.append(solver.solution(state)[0], solver.solution(state)[1])
    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 20000, "maxfev": 20000}
    polished = min(
        minimize(value, x0, method="Nelder-Mead", options=options).fun
        for x0 in (start, np.zeros(5))
    )
    assert reached <= polished + 1e-7 * (1 + abs(polished))
