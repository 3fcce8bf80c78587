"""Links: the distribution (law) of the noise in random utilities.

Each alternative's utility is its score plus a draw from one law, and the alternative of highest
utility is chosen (paper 001, section 2). Gumbel noise gives the softmax, Gaussian noise the
multinomial probit, logistic noise the multinomial logistic. Each law has the functions that choice
probabilities need, accurate far into both tails: ``log φ``, its slope, ``log Φ``, ``φ/Φ`` and
curvatures.
"""

import math
from typing import Any, NamedTuple

from monro._jit import generic, leaf
from monro._math import sigmoid, softplus

Law = Any  # one of the classes below; Numba resolves which

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_TWO = math.sqrt(2.0)
_ROOT_PI = math.sqrt(math.pi)
_FAR = 12.0  # from here on, erfcx equals its asymptotic series to the last digit


@generic
def log_density(law: Law, t: float) -> float:
    """``log φ(t)``."""
    return float(law.log_density(t))


@generic
def slope(law: Law, t: float) -> float:
    """``(log φ)'(t)``."""
    return float(law.slope(t))


@generic
def log_cdf(law: Law, t: float) -> float:
    """``log Φ(t)``."""
    return float(law.log_cdf(t))


@generic
def hazard(law: Law, t: float) -> float:
    """``φ(t)/Φ(t)``, the slope of ``log Φ``."""
    return float(law.hazard(t))


@generic
def curvature(law: Law, t: float) -> float:
    """``-(log φ)''(t)``."""
    return float(law.curvature(t))


@generic
def cdf_curvature(law: Law, t: float) -> float:
    """``-(log Φ)''(t)``."""
    return float(law.cdf_curvature(t))


@leaf
def erfcx(x: float) -> float:
    """``exp(x²) erfc(x)`` for x ≥ 0."""
    if x < _FAR:
        return math.exp(x * x) * math.erfc(x)
    # 1 - 1/(2x²) + 3/(2x²)² - 15/(2x²)³ + …
    step = 0.5 / (x * x)
    term = 1.0
    total = 1.0
    for n in range(1, 11):
        term *= -(2.0 * n - 1.0) * step
        total += term
    return total / (x * _ROOT_PI)


class Gaussian(NamedTuple):
    """The standard normal law: probit.

    Examples
    --------
    >>> law = Gaussian()
    >>> round(law.log_density(0.0), 4), round(law.log_cdf(0.0), 4)
    (-0.9189, -0.6931)
    """

    def log_density(self, t):  # type: ignore[no-untyped-def]
        return -0.5 * t * t - _HALF_LOG_TWO_PI

    def slope(self, t):  # type: ignore[no-untyped-def]
        return -t

    def log_cdf(self, t):  # type: ignore[no-untyped-def]
        if t > -1.0:
            return math.log1p(-0.5 * math.erfc(t / _ROOT_TWO))
        return math.log(0.5 * erfcx(-t / _ROOT_TWO)) - 0.5 * t * t

    def hazard(self, t):  # type: ignore[no-untyped-def]
        if t > 0.0:
            density = math.exp(-0.5 * t * t - _HALF_LOG_TWO_PI)
            return density / (1.0 - 0.5 * math.erfc(t / _ROOT_TWO))
        return math.sqrt(2.0 / math.pi) / erfcx(-t / _ROOT_TWO)

    def curvature(self, t):  # type: ignore[no-untyped-def]
        return 1.0

    def cdf_curvature(self, t):  # type: ignore[no-untyped-def]
        h = hazard(self, t)
        return h * (t + h)


class Logistic(NamedTuple):
    """The standard logistic law.

    Examples
    --------
    >>> law = Logistic()
    >>> round(law.log_density(0.0), 4), round(law.log_cdf(0.0), 4)
    (-1.3863, -0.6931)
    """

    def log_density(self, t):  # type: ignore[no-untyped-def]
        return -abs(t) - 2.0 * softplus(-abs(t))

    def slope(self, t):  # type: ignore[no-untyped-def]
        return -math.tanh(0.5 * t)

    def log_cdf(self, t):  # type: ignore[no-untyped-def]
        return -softplus(-t)

    def hazard(self, t):  # type: ignore[no-untyped-def]
        return sigmoid(-t)

    def curvature(self, t):  # type: ignore[no-untyped-def]
        return 2.0 * sigmoid(t) * sigmoid(-t)

    def cdf_curvature(self, t):  # type: ignore[no-untyped-def]
        return sigmoid(t) * sigmoid(-t)


class Gumbel(NamedTuple):
    """The standard Gumbel law: softmax.

    Examples
    --------
    >>> law = Gumbel()
    >>> round(law.log_density(0.0), 4), round(law.log_cdf(0.0), 4)
    (-1.0, -1.0)
    """

    def log_density(self, t):  # type: ignore[no-untyped-def]
        return -t - math.exp(-t)

    def slope(self, t):  # type: ignore[no-untyped-def]
        return math.expm1(-t)

    def log_cdf(self, t):  # type: ignore[no-untyped-def]
        return -math.exp(-t)

    def hazard(self, t):  # type: ignore[no-untyped-def]
        return math.exp(-t)

    def curvature(self, t):  # type: ignore[no-untyped-def]
        return math.exp(-t)

    def cdf_curvature(self, t):  # type: ignore[no-untyped-def]
        return math.exp(-t)


# The entropy ``-E log φ`` of the standard laws.
_EULER = 0.5772156649015329
ENTROPY = {
    "softmax": 1.0 + _EULER,
    "probit": 0.5 * math.log(2.0 * math.pi * math.e),
    "logistic": 2.0,
}
LINKS = {"softmax": Gumbel(), "probit": Gaussian(), "logistic": Logistic()}
