"""Losses against references of their own: values, derivatives, and exact implicit steps."""

import collections
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from monro._jit import kernel
from monro.losses import (
    CLASSIFICATION,
    COUNTS,
    LOGIT,
    REGRESSION,
    Absolute,
    Gamma,
    Hinge,
    Huber,
    Log,
    LossTraits,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    derivative,
    implicit_derivative,
    value,
)
from tests.marks import thorough, thorough_unless

PROPERTY = settings(deadline=None, derandomize=True, max_examples=100)
SIGNS = st.sampled_from([-1.0, 1.0])
COUNTS_DRAWN = st.integers(0, 10).map(float)
# Near 0 as often as far away: that is where kinks and curvature are.
NUMBERS = st.one_of(st.floats(-3.0, 3.0), st.floats(-1e3, 1e3))
# Twelve decades, each as likely as the others.
STEPS = st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent)


class Case(NamedTuple):
    """A loss, its value by other means, and its derivative for 50-digit numbers."""

    loss: Any
    value: Callable[[float, float], float]
    slope: Callable[[Decimal, Decimal], Decimal]  # increasing; a kink is a jump
    targets: st.SearchStrategy[float]
    kinks: Callable[[float], list[float]]
    predictions: st.SearchStrategy[float] = NUMBERS


DELTA = Decimal("1.25")
CASES = {
    "hinge": Case(
        Hinge(),
        lambda p, y: float(np.clip(1.0 - y * p, 0.0, None)),
        lambda a, y: -y if y * a < 1 else Decimal(0),
        SIGNS,
        lambda y: [y],
    ),
    "squared_hinge": Case(
        SquaredHinge(),
        lambda p, y: float(np.clip(1.0 - y * p, 0.0, None) ** 2),
        lambda a, y: -2 * y * max(Decimal(0), 1 - y * a),
        SIGNS,
        lambda y: [y],
    ),
    "log": Case(
        Log(),
        lambda p, y: float(np.logaddexp(0.0, -y * p)),
        lambda a, y: -y / (1 + (y * a).exp()),
        SIGNS,
        lambda y: [],
    ),
    "squared": Case(
        Squared(),
        lambda p, y: float(np.square(p - y)) / 2.0,
        lambda a, y: a - y,
        NUMBERS,
        lambda y: [],
    ),
    "absolute": Case(
        Absolute(),
        lambda p, y: math.dist([p], [y]),
        lambda a, y: Decimal((a > y) - (a < y)),
        NUMBERS,
        lambda y: [y],
    ),
    "huber": Case(
        Huber(1.25),
        lambda p, y: float(special.huber(1.25, p - y)),
        lambda a, y: max(-DELTA, min(DELTA, a - y)),
        NUMBERS,
        lambda y: [y - 1.25, y + 1.25],
    ),
    "poisson": Case(
        Poisson(),
        lambda p, y: -float(stats.poisson.logpmf(y, np.exp(p)) + special.gammaln(y + 1.0)),
        lambda a, y: a.exp() - y,
        COUNTS_DRAWN,
        lambda y: [],
        st.floats(-30.0, 30.0),
    ),
    "quantile": Case(
        Quantile(0.75),
        lambda p, y: float(np.maximum(0.75 * (y - p), -0.25 * (y - p))),
        lambda a, y: Decimal("0.25") * (a > y) - Decimal("0.75") * (a < y),
        NUMBERS,
        lambda y: [y],
    ),
    "gamma": Case(
        Gamma(),
        lambda p, y: -float(stats.expon.logpdf(y, scale=np.exp(p))),
        lambda a, y: 1 - y * (-a).exp(),
        st.floats(0.01, 100.0),
        lambda y: [],
        st.floats(-30.0, 30.0),
    ),
}
every_loss = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def root(f, start):
    """Find where an increasing function of Decimals crosses 0, by bisection."""
    rising = f(start) < 0
    inner, reach = start, Decimal(1)
    while (f(start + reach if rising else start - reach) < 0) == rising:
        inner = start + reach if rising else start - reach
        reach *= 2
    low, high = sorted([inner, start + reach if rising else start - reach])
    while high - low > Decimal("1e-36"):
        middle = (low + high) / 2
        if f(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def exact_step(case, p, y, step):
    """Minimise ``step·ℓ(a, y) + (a - p)²/2`` over a; return the best a and ``(p - a)/step``."""
    p, y, step = Decimal(p), Decimal(y), Decimal(step)
    with localcontext(prec=50):
        a = root(lambda a: a - p + step * case.slope(a, y), p)
        return a, (p - a) / step


# ------------------------------------------------------------------------------------------ traits


def test_every_registered_loss_is_tested_here():
    assert CLASSIFICATION.keys() | REGRESSION.keys() == CASES.keys()
    for name, case in CASES.items():
        registry = CLASSIFICATION if case.targets is SIGNS else REGRESSION
        assert registry[name] is type(case.loss)
        assert case.loss.traits.name == name


@every_loss
def test_a_kink_is_a_jump_of_the_derivative(case):
    y, tiny = 1.0, Decimal("1e-20")
    jumps = [
        abs(case.slope(at + tiny, Decimal(y)) - case.slope(at - tiny, Decimal(y))) > 0.1
        for at in map(Decimal, case.kinks(y))
    ]
    assert case.loss.traits.has_kink == any(jumps)


@every_loss
@PROPERTY
@given(data=st.data())
def test_targets_are_those_of_the_traits(case, data):
    assert data.draw(case.targets) >= case.loss.traits.targets.lowest
    assert (case.loss.traits.targets == COUNTS) == (case.targets is COUNTS_DRAWN)


@pytest.mark.parametrize("name", ["log", "squared", "poisson"])
def test_the_best_constant_prediction_is_the_link_of_the_mean(name):
    loss = CASES[name].loss
    share = np.array([0.7, 0.3])
    y = np.array([1.0, -1.0]) if name == "log" else np.array([1.0, 4.0])
    low, high = -10.0, 10.0
    for _ in range(100):  # the mean derivative increases with p
        p = (low + high) / 2
        slope = sum(c * derivative(loss, p, t) for c, t in zip(share, y, strict=True))
        low, high = (p, high) if slope < 0 else (low, p)
    mean = share[0] if name == "log" else share @ y
    assert loss.traits.link.inverse(np.array(p)) == pytest.approx(mean, rel=1e-9)
    assert loss.traits.gives_probabilities == (name == "log") == (loss.traits.link == LOGIT)


@pytest.mark.parametrize("positive", [0, 1, 30, 50, 89, 90, 91, 99, 100])
def test_the_first_intercept_is_the_log_odds_beyond_nine_to_one(positive):
    y = np.where(np.arange(100) < positive, 1.0, -1.0)
    starts = {n: c.loss.traits.starting_intercept(y, np.ones(100)) for n, c in CASES.items()}
    assert all(starts[name] == 0.0 for name in REGRESSION)
    if 10 <= positive <= 90:
        assert all(abs(start) < 1e-12 for start in starts.values())
    else:
        assert np.sign(starts["log"]) == np.sign(positive - 50)
        assert starts["hinge"] == starts["squared_hinge"] == np.clip(starts["log"], -1.0, 1.0)
    if positive in (1, 91, 99):
        expected = abs(np.log(positive / (100 - positive))) - np.log(9)
        assert abs(starts["log"]) == pytest.approx(expected, rel=1e-12)


# --------------------------------------------------------------------------- value and derivative


def subtracted(case, p, y):
    """Return the larger part of a loss that is a difference: no formula keeps more digits."""
    return {Poisson: abs(y * p), Gamma: abs(p)}.get(type(case.loss), 0.0)


@every_loss
@PROPERTY
@given(data=st.data())
def test_value_is_that_of_the_reference(case, data):
    p, y = data.draw(st.tuples(case.predictions, case.targets))
    expected = case.value(p, y)
    size = abs(expected) + subtracted(case, p, y)
    assert abs(value(case.loss, p, y) - expected) <= 1e-13 * size


@every_loss
@PROPERTY
@given(data=st.data())
def test_derivative_agrees_with_finite_differences(case, data):
    p, y = data.draw(st.tuples(case.predictions, case.targets))
    h = 1e-3
    assume(all(abs(p - kink) > 2.0 * h for kink in case.kinks(y)))
    far, near = (
        value(case.loss, p + k * h, y) - value(case.loss, p - k * h, y) for k in (2.0, 1.0)
    )
    largest = max(abs(value(case.loss, p + k * h, y)) for k in (-2.0, 2.0))
    rounding = 1e-15 * (largest + abs(p * y) + abs(p)) / h
    d = derivative(case.loss, p, y)
    assert abs((8.0 * near - far) / (12.0 * h) - d) <= 1e-10 * abs(d) + rounding + 1e-12


@every_loss
@PROPERTY
@given(data=st.data())
def test_the_tangent_lies_below_the_loss(case, data):
    # The definition of a subgradient: convexity, and the right value at every kink.
    y = data.draw(case.targets)
    points = st.one_of(case.predictions, *map(st.just, case.kinks(y)))
    p, q = data.draw(st.tuples(points, points))
    tangent = value(case.loss, p, y) + derivative(case.loss, p, y) * (q - p)
    size = sum(abs(value(case.loss, t, y)) + abs(y * t) + abs(t) for t in (p, q))
    slack = 1e-14 * (size + abs(derivative(case.loss, p, y) * (q - p)))
    assert value(case.loss, q, y) >= tangent - slack


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_derivative_at_the_hinge_is_between_its_sides(y):
    for margin in (1.0, math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)):
        assert 0.0 <= -y * derivative(Hinge(), y * margin, y) <= 1.0
    assert derivative(SquaredHinge(), y, y) == 0.0


def test_derivative_at_the_corner_of_the_absolute_loss_is_between_its_sides():
    assert -1.0 <= derivative(Absolute(), 0.3, 0.3) <= 1.0


@pytest.mark.parametrize("p", [-1e3, -800.0, 800.0, 1e3])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_log_loss_is_the_hinge_far_out(p, y):
    assert value(Log(), p, y) == max(0.0, -y * p)
    assert derivative(Log(), p, y) == (-y if y * p < 0 else 0.0)


# --------------------------------------------------------------------------------- implicit steps


def parts_of_slope(case, y):
    """Return the smaller part of a derivative that is a difference."""
    return {Poisson: y, Gamma: 1.0}.get(type(case.loss), 0.0)


@every_loss
@PROPERTY
@given(data=st.data())
def test_implicit_step_minimises(case, data):
    p, y, step = data.draw(st.tuples(case.predictions, case.targets, STEPS))
    check_implicit_step(case, p, y, step)


def check_implicit_step(case, p, y, step):
    g = implicit_derivative(case.loss, p, y, step)
    best, exact_g = exact_step(case, p, y, step)
    assert math.isfinite(g)
    assert abs(p - step * g - float(best)) <= 1e-8
    # p moves little in a short step, so the above says little about g there.
    parts = parts_of_slope(case, y)
    assert abs(g - float(exact_g)) <= 1e-10 * abs(float(exact_g)) + 1e-14 * parts + 1e-28


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "log"])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_implicit_step_minimises_from_far_away_for_every_step(name, y):
    for p in (-1e3, -30.0, -1.0, 0.0, 1.0, 30.0, 1e3):
        for exponent in range(-6, 7):
            check_implicit_step(CASES[name], p, y, 10.0**exponent)


@pytest.mark.parametrize("exponent", range(-6, 7))
@pytest.mark.parametrize("y", [0.0, 1.0, 10.0])
def test_implicit_poisson_step_does_not_overflow(y, exponent):
    for p in (-500.0, -30.0, 0.0, 30.0, 500.0):
        step = 10.0**exponent
        g = implicit_derivative(Poisson(), p, y, step)
        best, _ = exact_step(CASES["poisson"], p, y, step)
        assert math.isfinite(g)
        assert abs(p - step * g - float(best)) <= 1e-8


@pytest.mark.parametrize(("y", "step"), [(1e3, 1e6), (1e4, 1e6), (1e6, 1e4)])
def test_implicit_poisson_step_minimises_for_large_counts(y, step):
    for p in np.linspace(-5.0, 5.0, 21):
        best, _ = exact_step(CASES["poisson"], p, y, step)
        after = p - step * implicit_derivative(Poisson(), float(p), y, step)
        assert abs(after - float(best)) <= 1e-8


@every_loss
@settings(PROPERTY, max_examples=60)
@given(data=st.data())
def test_implicit_step_never_overshoots(case, data):
    p, y, step = data.draw(st.tuples(case.predictions, case.targets, STEPS))
    g, d = implicit_derivative(case.loss, p, y, step), derivative(case.loss, p, y)
    parts = parts_of_slope(case, y)
    slack = 1e-13 * (abs(d) + parts)
    assert min(0.0, d) - slack <= g <= max(0.0, d) + slack


@pytest.mark.parametrize("y", [-1.0, 1.0])
@PROPERTY
@given(step=STEPS, share=st.floats(0.01, 0.99))
def test_implicit_hinge_step_can_end_on_the_kink(y, step, share):
    p = y * (1.0 - share * step)
    g = implicit_derivative(Hinge(), p, y, step)
    assert math.isclose(p - step * g, y, rel_tol=1e-9)
    assert 0.0 < -y * g < 1.0


# ------------------------------------------------- the update of weights and bias, from one number


def exact_update(case, weights, x, y, eta, penalties):
    """Minimise ``ηℓ(θ·x, y) + ½ Σ_k ηλ_k θ_k² + ½ ‖θ - weights‖²`` over θ.

    Among the θ that predict a, the best one and the slope ν of what it costs solve a linear system
    (Lagrange), so both are affine in a. That leaves one number to search for.
    """
    n = x.size
    system = np.block([[np.diag(1.0 + eta * penalties), -x[:, None]], [x, np.zeros(1)]])
    at_zero = np.linalg.solve(system, np.append(weights, 0.0))
    by_one = np.linalg.solve(system, np.append(np.zeros(n), 1.0))
    with localcontext(prec=50):
        intercept, slope = Decimal(at_zero[n]), Decimal(by_one[n])
        a = root(
            lambda a: intercept + slope * a + Decimal(eta) * case.slope(a, Decimal(y)),
            Decimal(float(weights @ x)),
        )
    return (at_zero + by_one * float(a))[:n]


@every_loss
@pytest.mark.parametrize(
    "bias", [True, pytest.param(False, marks=thorough)], ids=["bias", "no_bias"]
)
@settings(PROPERTY, max_examples=60)
@given(data=st.data())
def test_full_update_minimises_the_proximal_objective(case, bias, data):
    *w, b = data.draw(st.tuples(*4 * [st.floats(-3.0, 3.0)]))
    x = np.array(data.draw(st.tuples(*3 * [st.floats(-1.0, 1.0)])))
    ridges = st.sampled_from([0.0, 1e-4, 1.0])
    y, eta, lam = data.draw(st.tuples(case.targets, STEPS, ridges))
    assume(bias or np.linalg.norm(x) > 1e-3)
    w, b = np.array(w), b * bias

    L = 1.0 + eta * lam
    step = eta * (x @ x / L + bias)
    g = implicit_derivative(case.loss, float(w @ x) / L + b, y, float(step))
    updated = np.append((w - eta * g * x) / L, b - eta * bias * g)

    # The bias is a coordinate that is always 1 (or always 0), without a ridge.
    penalties = np.array([lam, lam, lam, 0.0])
    row = np.append(x, float(bias))
    expected = exact_update(case, np.append(w, b), row, y, eta, penalties)
    np.testing.assert_allclose(updated, expected, rtol=1e-8, atol=1e-8)


@every_loss
def test_an_empty_row_moves_the_bias_alone(case):
    y, eta, b = 1.0, 0.7, 0.2
    g = implicit_derivative(case.loss, b, y, eta)
    theta = np.array([0.5, b])
    expected = exact_update(case, theta, np.array([0.0, 1.0]), y, eta, np.zeros(2))
    np.testing.assert_allclose([0.5, b - eta * g], expected, rtol=1e-12)


# ---------------------------------------------------------------------------------- inside kernels


@kernel
def tabulate(loss, p, y, step, out):
    for i in range(p.size):
        out[0, i] = value(loss, p[i], y[i])
        out[1, i] = derivative(loss, p[i], y[i])
        out[2, i] = implicit_derivative(loss, p[i], y[i], step[i])


@every_loss
def test_kernels_compute_the_same_numbers(case):
    rng = np.random.default_rng(0)
    n = 500
    p = rng.normal(size=n) * 10.0 ** rng.uniform(-1, 1, size=n)
    y = np.sign(rng.normal(size=n)) if case.targets is SIGNS else np.rint(rng.uniform(0, 5, size=n))
    y = np.maximum(y, 1.0) if isinstance(case.loss, Gamma) else y
    step = 10.0 ** rng.uniform(-6, 6, size=n)
    out = np.empty((3, n))
    tabulate(case.loss, p, y, step, out)
    for i in range(n):
        args = float(p[i]), float(y[i])
        expected = [
            value(case.loss, *args),
            derivative(case.loss, *args),
            implicit_derivative(case.loss, *args, float(step[i])),
        ]
        # Fused multiply-adds may change the last digit of what is subtracted.
        np.testing.assert_allclose(out[:, i], expected, rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------------------- value and slope alone


def without_implicit_step(loss):
    """Return a loss that has no more than the value and derivative of another one."""
    kind = type(loss)
    # A name of its own: Numba takes classes of the same name for the same.
    two = collections.namedtuple(f"{kind.__name__}InTwoMethods", ())
    two.value, two.derivative = kind.value, kind.derivative
    return LossTraits("two")(two)()


@pytest.mark.parametrize(
    "name",
    thorough_unless(
        lambda name: name in ("hinge", "poisson"),
        ["hinge", "squared_hinge", "log", "absolute", "poisson", "gamma"],
    ),
)
def test_a_loss_without_an_implicit_step_gets_a_numerical_one(name):
    case, rng, n = CASES[name], np.random.default_rng(0), 200
    p, step = 3 * rng.normal(size=n), 10.0 ** rng.uniform(-6, 6, size=n)
    y = np.sign(rng.normal(size=n)) if case.targets is SIGNS else 1.0 + rng.poisson(2.0, size=n)
    out = np.empty((3, n))
    tabulate(without_implicit_step(case.loss), p, y, step, out)
    expected = [float(exact_step(case, *each)[1]) for each in zip(p, y, step, strict=True)]
    np.testing.assert_allclose(out[2], expected, rtol=1e-6, atol=1e-12)
