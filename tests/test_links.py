"""Noise laws against SciPy, far out in both tails; choice probabilities against quadrature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from monro._jit import kernel
from monro.integrals import MAX_POINTS, log_probabilities, log_probability
from monro.links import LINKS, cdf_curvature, curvature, hazard, log_cdf, log_density, slope
from tests.marks import thorough_unless

# log φ, its slope, log Φ, φ/Φ
LAWS = {
    "probit": (
        stats.norm.logpdf,
        np.negative,
        special.log_ndtr,
        lambda t: np.sqrt(2 / np.pi) / special.erfcx(-t / np.sqrt(2)),
    ),
    "logistic": (
        stats.logistic.logpdf,
        lambda t: -np.tanh(t / 2),
        special.log_expit,
        lambda t: special.expit(-t),
    ),
    "softmax": (
        stats.gumbel_r.logpdf,
        lambda t: np.expm1(-t),
        stats.gumbel_r.logcdf,
        lambda t: np.exp(-t),
    ),
}
by_link = pytest.mark.parametrize("link", thorough_unless(lambda link: link != "logistic", LAWS))
TS = np.concatenate([np.linspace(-40.0, 40.0, 401), [-1.0, -1e-9, 0.0, 1e-9]])
PROPERTY = settings(deadline=None, derandomize=True, max_examples=60)


@kernel
def at(law, t):
    return log_density(law, t), slope(law, t), log_cdf(law, t), hazard(law, t)


@kernel
def curvatures(law, t):
    return curvature(law, t), cdf_curvature(law, t)


@pytest.mark.parametrize("link", LAWS)
def test_laws_agree_with_scipy(link):
    found = np.array([at(LINKS[link], t) for t in TS]).T
    for ours, theirs in zip(found, LAWS[link], strict=True):
        np.testing.assert_allclose(ours, theirs(TS), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("link", LAWS)
@given(t=st.floats(-30.0, 30.0))
@PROPERTY
def test_slopes_and_curvatures_are_derivatives(link, t):
    h = 1e-5
    before, here, after = (np.array(at(LINKS[link], x)) for x in (t - h, t, t + h))
    slopes = (after - before) / (2 * h)
    np.testing.assert_allclose(slopes[[0, 2]], here[[1, 3]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(-slopes[[1, 3]], curvatures(LINKS[link], t), rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------ integrals


def probabilities(link, s):
    s = np.asarray(s, float)
    out = np.empty(s.size)
    log_probabilities(LINKS[link], s, np.empty(MAX_POINTS + 1), out)
    return out


def by_trapezoids(link, s):
    """Return all log p_k, by the trapezoidal rule.

    For smooth functions that vanish at both ends its error decreases exponentially with the number
    of points: adaptive integration agrees to twelve digits, and takes a thousand times as long.
    """
    pdf, _, cdf, _ = LAWS[link]
    t, width = np.linspace(s.min() - 30.0, s.max() + 60.0, 4001, retstep=True)
    noise = t[:, None] - s
    log_cdfs = cdf(noise)
    return [
        special.logsumexp(pdf(noise[:, k]) + np.delete(log_cdfs, k, axis=1).sum(axis=1))
        + np.log(width)
        for k in range(s.size)
    ]


@by_link
@given(
    scores=st.lists(st.floats(-20.0, 20.0), min_size=2, max_size=7),
    shift=st.floats(-100.0, 100.0),
)
@PROPERTY
def test_probabilities_agree_with_quadrature(link, scores, shift):
    s = np.array(scores) + shift
    found = probabilities(link, s)
    assert found == pytest.approx(by_trapezoids(link, s - shift), abs=1e-6)
    for k in range(s.size):
        assert log_probability(LINKS[link], s, k) == pytest.approx(found[k], abs=1e-8)


@by_link
@pytest.mark.parametrize("n", [2, 30, 3000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0])
def test_probabilities_sum_to_one(link, n, spread):
    s = spread * np.random.default_rng(0).standard_normal(n)
    p = np.exp(probabilities(link, s))
    assert p.sum() == pytest.approx(1.0, abs=1e-8)
    assert (np.diff(p[np.argsort(s)]) >= -1e-15).all()
    for k in (int(s.argmin()), int(s.argmax())):
        one = log_probability(LINKS[link], s, k)
        assert one == pytest.approx(probabilities(link, s)[k], abs=1e-8)


@given(scores=st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=50))
@PROPERTY
def test_gumbel_noise_gives_the_softmax(scores):
    np.testing.assert_allclose(
        probabilities("softmax", scores), special.log_softmax(scores), atol=1e-8
    )


@given(a=st.floats(-50.0, 50.0), b=st.floats(-50.0, 50.0))
@PROPERTY
def test_with_two_alternatives_the_probit_is_a_normal_probability(a, b):
    found = probabilities("probit", [a, b])
    expected = special.log_ndtr((a - b) / np.sqrt(2.0) * np.array([1.0, -1.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
