"""sigmoid, softplus and omega, compiled and in Python, against SciPy and 50-digit arithmetic.

And their fast versions for loops over classes, in both precisions.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from monro._jit import vector_kernel
from monro._math import (
    exp_of_negative,
    fast_exp,
    fast_log,
    fast_omega,
    omega,
    sigmoid,
    softplus,
)
from tests.marks import needs_compiler

PROPERTY = settings(deadline=None, derandomize=True, max_examples=200)
NORMAL = 708.0  # exp(-708) is a normal number, with full precision


def compiled_and_plain(function):
    """Parametrise by the compiled and the Python function; without a compiler they are one."""
    plain = getattr(function, "py_func", function)
    return pytest.mark.parametrize("f", [function, plain], ids=["compiled", "plain"])


def relative_error(value, exact):
    return float(abs((Decimal(value) - exact) / exact))


def exact_sigmoid(t):
    with localcontext(prec=50):
        return 1 / (1 + (-Decimal(t)).exp())


def exact_softplus(t):
    # For exp(t) around 1e-300, 1 + exp(t) needs as many digits.
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


# --------------------------------------------------------------------------- for loops over classes


@vector_kernel
def tabulate_exp(x, out):
    for i in range(x.size):
        out[i] = fast_exp(x[i])


@vector_kernel
def tabulate_log(x, out):
    for i in range(x.size):
        out[i] = fast_log(x[i])


@vector_kernel
def tabulate_omega(x, out):
    for i in range(x.size):
        out[i] = fast_omega(x[i])


def tabulated(tabulate, x, dtype):
    """Return the arguments, rounded to `dtype`, and the values of the function."""
    x = np.asarray(x, dtype)
    out = np.empty_like(x)
    tabulate(x, out)
    return x.astype(np.float64), out.astype(np.float64)


in_both = pytest.mark.parametrize(
    ("dtype", "accuracy"), [("float32", 4e-7), ("float64", 1e-14)], ids=["single", "double"]
)


@in_both
def test_fast_exp_agrees_with_numpy(dtype, accuracy):
    x = np.concatenate([np.linspace(-87, 88, 100_001), np.linspace(-1, 1, 20_001), [0.0]])
    x, value = tabulated(tabulate_exp, x, dtype)
    np.testing.assert_allclose(value, np.exp(x), rtol=accuracy)


@vector_kernel
def tabulate_exp_of_negative(x, out):
    for i in range(x.size):
        out[i] = exp_of_negative(x[i])


def test_exp_of_negative_agrees_with_numpy():
    x = np.concatenate([np.linspace(-87, 0, 100_001), np.linspace(-1, 0, 20_001)])
    value = np.empty_like(x)
    tabulate_exp_of_negative(x, value)
    np.testing.assert_allclose(value, np.exp(x), rtol=5e-16)
    assert exp_of_negative(0.0) == 1.0
    for far in (-88.0, -1e300, -np.inf):
        assert 0.0 < exp_of_negative(far) < 2e-38


@in_both
def test_fast_log_agrees_with_numpy(dtype, accuracy):
    x = np.concatenate([np.logspace(-37.9, 38.5, 100_001), np.linspace(0.4, 3.0, 20_001)])
    x = np.append(x, 2.0 ** np.arange(-125, 128) * np.sqrt(0.5))  # where the exponent changes
    x, value = tabulated(tabulate_log, x, dtype)
    np.testing.assert_allclose(value, np.log(x), rtol=accuracy, atol=accuracy / 4)
    assert tabulated(tabulate_log, [1.0], dtype)[1] == 0.0


@in_both
def test_fast_omega_agrees_with_scipy(dtype, accuracy):
    x = np.concatenate([np.linspace(-80, 60, 100_001), np.logspace(1.5, 30, 10_001)])
    # The formula changes at these points.
    borders = np.array([-37.0, -15.0, -6.0, 1.0, 15.0, 20.0], dtype)
    for towards in (-np.inf, np.inf):
        x = np.append(x, np.nextafter(borders, np.array(towards, dtype)))
    x, value = tabulated(tabulate_omega, np.append(x, borders), dtype)
    expected = special.wrightomega(x)
    np.testing.assert_allclose(value, expected, rtol=3 * accuracy)
    assert (np.diff(tabulated(tabulate_omega, np.linspace(-20, 30, 5001), dtype)[1]) > 0).all()


@needs_compiler
@in_both
def test_extreme_arguments_are_clipped(dtype, accuracy):
    low, high = {"float32": (-87.0, 88.0), "float64": (-np.inf, 700.0)}[dtype]
    far = np.array([-np.inf, -1e30, -1e6, -800.0, -100.0, 100.0, 800.0, 1e6, 1e30, np.inf])
    x, value = tabulated(tabulate_exp, far, dtype)
    np.testing.assert_allclose(value, np.exp(np.clip(x, low, high)), rtol=accuracy)
    assert np.isfinite(value).all()

    least = {"float32": -80.0, "float64": -700.0}[dtype]
    x, value = tabulated(tabulate_omega, far[:-1], dtype)
    assert (value > 0).all()
    np.testing.assert_allclose(value, special.wrightomega(np.maximum(x, least)), rtol=3 * accuracy)

    tiny = np.finfo(dtype).tiny
    _, value = tabulated(tabulate_log, [tiny, np.finfo(dtype).max], dtype)
    expected = [math.log(tiny), math.log(np.finfo(dtype).max)]
    np.testing.assert_allclose(value, expected, rtol=accuracy)


@needs_compiler
def test_the_log_of_zero_and_of_infinity_in_single_precision_are_finite():
    # They occur with a rate of zero and with a sum that overflowed, and only have to be large.
    _, (zero, infinity) = tabulated(tabulate_log, [0.0, np.inf], "float32")
    assert -100 < zero < -80
    assert 80 < infinity < 100
