"""Learning-rate schedules against their formulas, in Python and in kernels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monro._jit import kernel
from monro.schedules import Bottou, InverseT, SlowBottou, rate

PROPERTY = settings(deadline=None, derandomize=True, max_examples=200)
RATES = st.floats(1e-6, 1e6)
RIDGES = st.floats(1e-10, 1e2)
STEPS = st.integers(0, 10**12).map(float)


@kernel
def tabulate(schedule, t, out):
    for j in range(t.size):
        out[j] = rate(schedule, t[j])


@PROPERTY
@given(eta0=RATES, decay=RIDGES, t=STEPS)
def test_bottou_is_its_formula(eta0, decay, t):
    expected = 1.0 / (1.0 / eta0 + decay * t)
    assert math.isclose(rate(Bottou(eta0, decay), t), expected, rel_tol=1e-13)


@PROPERTY
@given(eta0=RATES, decay=RIDGES, t=STEPS)
def test_slow_bottou_is_its_formula(eta0, decay, t):
    expected = eta0 * math.exp(-0.75 * math.log1p(decay * eta0 * t))
    assert math.isclose(rate(SlowBottou(eta0, decay), t), expected, rel_tol=1e-13)


@PROPERTY
@given(lam=RIDGES, t=STEPS)
def test_inverse_t_counts_steps_from_one(lam, t):
    assert math.isclose(rate(InverseT(lam), t) * lam * (t + 1.0), 1.0, rel_tol=1e-13)


@pytest.mark.parametrize("law", [Bottou, SlowBottou])
@PROPERTY
@given(eta0=RATES, decay=RIDGES)
def test_the_first_rate_is_eta0(law, eta0, decay):
    assert rate(law(eta0, decay), 0.0) == eta0


@PROPERTY
@given(lam=RIDGES)
def test_the_first_inverse_t_rate_is_one_over_lambda(lam):
    assert rate(InverseT(lam), 0.0) == 1.0 / lam


@pytest.mark.parametrize("law", [Bottou, SlowBottou])
def test_without_a_ridge_the_rate_is_constant(law):
    assert rate(law(0.3, 0.0), 1e9) == 0.3


@pytest.mark.parametrize(
    ("schedule", "exponent"),
    [(Bottou(0.5, 1e-2), -1.0), (SlowBottou(0.5, 1e-2), -0.75), (InverseT(1e-2), -1.0)],
)
def test_rates_decay_as_a_power_of_t(schedule, exponent):
    ratio = rate(schedule, 2e12) / rate(schedule, 1e12)
    assert math.isclose(ratio, 2.0**exponent, rel_tol=1e-8)


@pytest.mark.parametrize("schedule", [Bottou(0.5, 1e-2), SlowBottou(0.5, 1e-2), InverseT(1e-2)])
def test_kernels_see_the_same_rates(schedule):
    t = np.concatenate([[0.0, 1.0, 2.0], np.logspace(1, 12, 50)])
    rates = np.empty_like(t)
    tabulate(schedule, t, rates)
    np.testing.assert_allclose(rates, [rate(schedule, v) for v in t], rtol=1e-15)
    assert (np.diff(rates) < 0).all()
