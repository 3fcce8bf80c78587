"""sigmoid, softplus and omega, compiled and plain, against scipy and 50-digit arithmetic."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from monro._math import omega, sigmoid, softplus

PROPERTY = settings(deadline=None, derandomize=True, max_examples=200)
NORMAL = 708.0  # exp(-708) is still a normal number, with all its digits


def compiled_and_plain(function):
    """Parametrise by both forms; without Numba's compiler they are one."""
    plain = getattr(function, "py_func", function)
    return pytest.mark.parametrize("f", [function, plain], ids=["compiled", "plain"])


def relative_error(value, exact):
    return float(abs((Decimal(value) - exact) / exact))


def exact_sigmoid(t):
    with localcontext(prec=50):
        return 1 / (1 + (-Decimal(t)).exp())


def exact_softplus(t):
    # 1 + exp(t) drops what lies 300 digits down, so it needs as many.
    with localcontext(prec=50 + int(abs(t))):
        return (1 + Decimal(t).exp()).ln()


@compiled_and_plain(sigmoid)
@PROPERTY
@given(t=st.floats(-NORMAL, NORMAL))
def test_sigmoid_has_full_relative_accuracy_in_both_tails(f, t):
    assert relative_error(f(t), exact_sigmoid(t)) < 1e-15


@compiled_and_plain(sigmoid)
def test_sigmoid_agrees_with_scipy(f):
    t = np.linspace(-NORMAL, NORMAL, 5001)
    np.testing.assert_allclose([f(v) for v in t], special.expit(t), rtol=1e-15)


@compiled_and_plain(sigmoid)
@PROPERTY
@given(t=st.floats(allow_nan=False))
def test_sigmoid_is_a_probability_for_any_number(f, t):
    assert 0.0 <= f(t) <= 1.0
    assert abs(f(t) + f(-t) - 1.0) < 1e-15


@compiled_and_plain(softplus)
@PROPERTY
@given(t=st.floats(-NORMAL, NORMAL))
def test_softplus_has_full_relative_accuracy_in_both_tails(f, t):
    assert relative_error(f(t), exact_softplus(t)) < 1e-15


@compiled_and_plain(softplus)
def test_softplus_agrees_with_scipy(f):
    t = np.concatenate([np.linspace(-NORMAL, NORMAL, 5001), [-1e300, 1e300]])
    np.testing.assert_allclose([f(v) for v in t], -special.log_expit(-t), rtol=1e-15)


@compiled_and_plain(softplus)
@PROPERTY
@given(t=st.floats(allow_nan=False))
def test_softplus_bounds_the_positive_part_from_above(f, t):
    assert max(t, 0.0) <= f(t) <= max(t, 0.0) + math.log(2.0)


@compiled_and_plain(sigmoid)
@pytest.mark.parametrize(("t", "limit"), [(math.inf, 1.0), (-math.inf, 0.0), (0.0, 0.5)])
def test_sigmoid_reaches_its_limits(f, t, limit):
    assert f(t) == limit


@compiled_and_plain(softplus)
@pytest.mark.parametrize(("t", "limit"), [(math.inf, math.inf), (-math.inf, 0.0)])
def test_softplus_reaches_its_limits(f, t, limit):
    assert f(t) == limit


@compiled_and_plain(omega)
def test_omega_agrees_with_scipy(f):
    t = np.concatenate([np.linspace(-700.0, 60.0, 20_001), np.logspace(1.5, 153.0, 2_001)])
    # The formula changes at -37 and at 1.
    t = np.concatenate([t, *(np.nextafter(b, [-1e3, b, 1e3]) for b in (-37.0, 1.0))])
    expected = special.wrightomega(t)
    np.testing.assert_allclose([f(v) for v in t], expected, rtol=1e-14, atol=0.0)


@compiled_and_plain(omega)
@pytest.mark.parametrize("t", [1e154, 1e200, 1e300])
def test_omega_does_not_overflow(f, t):
    np.testing.assert_allclose(f(t), special.wrightomega(t), rtol=1e-14)


@compiled_and_plain(omega)
@PROPERTY
@given(t=st.one_of(st.floats(-700.0, 700.0), st.floats(-2.0, 2.0), st.floats(1.0, 1e153)))
def test_omega_solves_its_equation(f, t):
    w = Decimal(f(t))
    with localcontext(prec=200):
        residual = w + w.ln() - Decimal(t)
        assert abs(residual / (1 + w)) < 1e-14  # the relative error of w, to first order


@compiled_and_plain(omega)
@PROPERTY
@given(t=st.floats(-1e300, -37.0))
def test_omega_is_the_exponential_far_left(f, t):
    np.testing.assert_allclose(f(t), math.exp(t), rtol=1e-15)
