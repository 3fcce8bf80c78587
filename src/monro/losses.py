"""Losses ``ℓ(p, y)`` of a prediction ``p = w·x + b`` and a target y (−1 or +1 for classes).

Each loss has three methods: its value, its derivative ``ℓ'(p, y)`` in p, and the derivative *after
an implicit step*: with ``p⁺ = argmin_a step·ℓ(a, y) + (a - p)²/2``, the number ``ℓ'(p⁺, y)``, so
that ``p⁺ = p - step·ℓ'(p⁺, y)``. Every implicit step of a linear model reduces to this equation.
Where the loss has a kink, ``ℓ'(p⁺, y)`` is the subgradient that solves it. A convex loss may leave
out the third method: the equation is then solved numerically. So is a fourth, the second derivative
(`curvature`), which only solvers of Newton's kind need.

Its other properties are its `LossTraits`. Its fields are parameters of the estimator.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from monro._jit import generic
from monro._math import omega, sigmoid, softplus
from monro.rows import Array

Loss = Any  # one of the classes below; Numba resolves which


@generic
def value(loss: Loss, p: float, y: float) -> float:
    """``ℓ(p, y)``."""
    return float(loss.value(p, y))


@generic
def derivative(loss: Loss, p: float, y: float) -> float:
    """``ℓ'(p, y)``, the (sub)derivative with respect to p."""
    return float(loss.derivative(p, y))


@generic
def implicit_derivative(loss: Loss, p: float, y: float, step: float) -> float:
    """``ℓ'(p⁺, y)`` where ``p⁺ = p - step·ℓ'(p⁺, y)``; step > 0."""
    return float(loss.implicit_derivative(p, y, step))


@generic
def curvature(loss: Loss, p: float, y: float) -> float:
    """``ℓ''(p, y)``, the second derivative with respect to p."""
    return float(loss.curvature(p, y))


# ------------------------------------------------------------------------------------------ traits


class Link(NamedTuple):
    """The link function of a generalised linear model, which maps the mean of y to p."""

    name: str
    inverse: Callable[[Array], Array]


def _same(p: Array) -> Array:
    return p


IDENTITY = Link("identity", _same)
LOG = Link("log", np.exp)
LOGIT = Link("logit", expit)


class Targets(NamedTuple):
    """The targets a loss is defined for."""

    description: str
    lowest: float = -math.inf


SIGNS = Targets("takes y = -1 or 1", -1.0)
NUMBERS = Targets("takes any number")
COUNTS = Targets("counts, y >= 0", 0.0)
POSITIVE = Targets("takes y > 0", math.ulp(0.0))


def start_at_zero(y: Array, weight: Array) -> float:
    """Return 0, whatever the targets."""
    return 0.0


def start_at_log_odds(y: Array, weight: Array) -> float:
    """Return the part of the log-odds of y = 1 that exceeds 9 : 1 in size, else 0.

    If one class has nearly all the weight, the optimal intercept is at least about that large.
    """
    positive = float(weight[y > 0].sum())
    log_odds = float(np.log(max(positive, 1e-12)) - np.log(max(weight.sum() - positive, 1e-12)))
    return float(np.sign(log_odds) * max(0.0, abs(log_odds) - np.log(9.0)))


def start_within_margin(y: Array, weight: Array) -> float:
    """Return `start_at_log_odds`, clipped to ±1, where the hinge loss of one class is 0."""
    return float(np.clip(start_at_log_odds(y, weight), -1.0, 1.0))


class LossTraits(NamedTuple):
    """Properties of a loss; decorates the class of the loss, which gets the attribute `traits`.

    Examples
    --------
    >>> @LossTraits("tilted", has_kink=True)
    ... class Tilted(NamedTuple):
    ...     slope: float
    >>> Tilted.traits.name, Tilted(2.0).traits.has_kink
    ('tilted', True)
    """

    name: str
    link: Link = IDENTITY
    targets: Targets = NUMBERS
    has_kink: bool = False  # whether ℓ' jumps
    starting_intercept: Callable[[Array, Array], float] = start_at_zero

    @property
    def gives_probabilities(self) -> bool:
        """Whether predictions are log-odds."""
        return self.link == LOGIT

    def __call__(self, loss: Any) -> Any:
        """Attach these traits to the class of a loss; add the methods that it may leave out."""
        loss.traits = self
        if not hasattr(loss, "implicit_derivative"):
            loss.implicit_derivative = _numerical_implicit_derivative
        if not hasattr(loss, "curvature"):
            loss.curvature = _numerical_curvature
        return loss


_BISECTIONS = 1200  # at most, for slopes of any size; about 60 for those near 1


def _numerical_implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
    # g - ℓ'(p - step·g) increases with g, and is 0 between 0 and ℓ'(p). Bisection ends at a kink
    # where ℓ' jumps.
    slope = min(max(derivative(self, p, y), -_LARGEST_SLOPE), _LARGEST_SLOPE)
    low = min(slope, 0.0)
    high = max(slope, 0.0)
    for _ in range(_BISECTIONS):
        # Where the bracket spans decades, its geometric mean.
        g = 0.5 * (low + high)
        if low > 0.0 and high > 4.0 * low:
            g = math.sqrt(low) * math.sqrt(high)
        elif high < 0.0 and low < 4.0 * high:
            g = -math.sqrt(-low) * math.sqrt(-high)
        if g in (low, high):
            break
        if g < derivative(self, p - step * g, y):
            low = g
        else:
            high = g
    return 0.5 * (low + high)


_LARGEST_SLOPE = 1e300


def _numerical_curvature(self, p, y):  # type: ignore[no-untyped-def]
    h = 1e-5 * max(1.0, abs(p))
    return (derivative(self, p + h, y) - derivative(self, p - h, y)) / (2.0 * h)


# ------------------------------------------------------------------------------------------ losses


@LossTraits("hinge", targets=SIGNS, has_kink=True, starting_intercept=start_within_margin)
class Hinge(NamedTuple):
    """``max(0, 1 - yp)``.

    Examples
    --------
    >>> loss = Hinge()
    >>> loss.value(0.5, 1.0), loss.derivative(0.5, 1.0)
    (0.5, -1.0)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return max(0.0, 1.0 - y * p)

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return -y if y * p < 1.0 else 0.0

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        # A full step, no step, or a step that ends on the kink.
        return -y * min(max((1.0 - y * p) / step, 0.0), 1.0)


@LossTraits("squared_hinge", targets=SIGNS, starting_intercept=start_within_margin)
class SquaredHinge(NamedTuple):
    """``max(0, 1 - yp)²``.

    Examples
    --------
    >>> loss = SquaredHinge()
    >>> loss.value(0.5, 1.0), loss.derivative(0.5, 1.0)
    (0.25, -1.0)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return max(0.0, 1.0 - y * p) ** 2

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return -2.0 * y * max(0.0, 1.0 - y * p)

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        return -2.0 * y * max(0.0, 1.0 - y * p) / (1.0 + 2.0 * step)

    def curvature(self, p, y):  # type: ignore[no-untyped-def]
        return 2.0 if y * p < 1.0 else 0.0


@LossTraits("log", link=LOGIT, targets=SIGNS, starting_intercept=start_at_log_odds)
class Log(NamedTuple):
    """``log(1 + exp(-yp))``.

    Examples
    --------
    >>> loss = Log()
    >>> round(loss.value(0.0, 1.0), 4), loss.derivative(0.0, 1.0)
    (0.6931, -0.5)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return softplus(-y * p)

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return -y * sigmoid(-y * p)

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        # The new margin z solves h(z) = z - m - step·σ(-z) = 0. h increases (h' ≥ 1), and its root
        # lies between m and m + step·σ(-m); Newton's method, kept inside that bracket.
        m = y * p
        s = sigmoid(-m)
        low = m
        high = m + step * s
        z = m + step * s / (1.0 + step * s * (1.0 - s))
        if step * s > 4.0:
            # A long step: σ(-z) ≤ exp(-z) bounds the root by that of z - m = step·exp(-z).
            high = min(high, m + omega(math.log(step) - m))
            z = min(z, high)
        for _ in range(60):
            s = sigmoid(-z)
            h = z - m - step * s
            if h > 0.0:
                high = z
            else:
                low = z
            move = h / (1.0 + step * s * (1.0 - s))
            z -= move
            if not low <= z <= high:
                z = 0.5 * (low + high)
            elif abs(move) <= 1e-6:  # convergence is quadratic: the error left is its square
                s += move * s * (1.0 - s)  # σ(-z) after this last move
                break
        return -y * s

    def curvature(self, p, y):  # type: ignore[no-untyped-def]
        s = sigmoid(-y * p)
        return s * (1.0 - s)


@LossTraits("squared")
class Squared(NamedTuple):
    """``(p - y)²/2``.

    Examples
    --------
    >>> loss = Squared()
    >>> loss.value(3.0, 1.0), loss.derivative(3.0, 1.0)
    (2.0, 2.0)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return 0.5 * (p - y) ** 2

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return p - y

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        return (p - y) / (1.0 + step)

    def curvature(self, p, y):  # type: ignore[no-untyped-def]
        return 1.0


@LossTraits("absolute", has_kink=True)
class Absolute(NamedTuple):
    """``|p - y|``.

    Examples
    --------
    >>> loss = Absolute()
    >>> loss.value(3.0, 1.0), loss.derivative(3.0, 1.0)
    (2.0, 1.0)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return abs(p - y)

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return 1.0 if p > y else (-1.0 if p < y else 0.0)

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        return min(max((p - y) / step, -1.0), 1.0)


@LossTraits("huber")
class Huber(NamedTuple):
    """``r²/2`` where ``|r| ≤ δ``, else ``δ(|r| - δ/2)``, with ``r = p - y``.

    Examples
    --------
    >>> loss = Huber(1.0)
    >>> loss.value(3.0, 1.0), loss.derivative(3.0, 1.0)
    (1.5, 1.0)
    """

    delta: float

    def value(self, p, y):  # type: ignore[no-untyped-def]
        r = abs(p - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return min(max(p - y, -self.delta), self.delta)

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        return min(max((p - y) / (1.0 + step), -self.delta), self.delta)

    def curvature(self, p, y):  # type: ignore[no-untyped-def]
        return 1.0 if abs(p - y) <= self.delta else 0.0


@LossTraits("poisson", link=LOG, targets=COUNTS)
class Poisson(NamedTuple):
    """``exp(p) - yp``: minus the log-likelihood of a count y of mean exp(p), up to a constant.

    Examples
    --------
    >>> loss = Poisson()
    >>> loss.value(0.0, 2.0), loss.derivative(0.0, 2.0)
    (1.0, -1.0)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return math.exp(p) - y * p

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return math.exp(p) - y

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        # p⁺ + step·exp(p⁺) = p + step·y, and ω = step·exp(p⁺) solves this without an exponential of
        # p. For a large ω the difference ω/step - y would cancel: go by way of p⁺ instead.
        w = omega(math.log(step) + p + step * y)
        return (p - math.log(w / step)) / step if w > 1.0 else w / step - y

    def curvature(self, p, y):  # type: ignore[no-untyped-def]
        return math.exp(p)


@LossTraits("quantile", has_kink=True)
class Quantile(NamedTuple):
    """``τ(y - p)`` where p is below y, else ``(1 - τ)(p - y)``: its minimum is the τ-quantile of y.

    Examples
    --------
    >>> loss = Quantile(0.75)
    >>> loss.value(1.0, 3.0), loss.derivative(1.0, 3.0)
    (1.5, -0.75)
    """

    quantile: float

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return self.quantile * (y - p) if p < y else (1.0 - self.quantile) * (p - y)

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return 1.0 - self.quantile if p > y else (-self.quantile if p < y else 0.0)

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        return min(max((p - y) / step, -self.quantile), 1.0 - self.quantile)


@LossTraits("gamma", link=LOG, targets=POSITIVE)
class Gamma(NamedTuple):
    """``y exp(-p) + p``: minus the log-likelihood of a gamma distribution of mean exp(p), scaled.

    Examples
    --------
    >>> loss = Gamma()
    >>> loss.value(0.0, 2.0), loss.derivative(0.0, 2.0)
    (2.0, -1.0)
    """

    def value(self, p, y):  # type: ignore[no-untyped-def]
        return y * math.exp(-p) + p

    def derivative(self, p, y):  # type: ignore[no-untyped-def]
        return 1.0 - y * math.exp(-p)

    def implicit_derivative(self, p, y, step):  # type: ignore[no-untyped-def]
        # p⁺ - (p - step) = step·y·exp(-p⁺) is ω(log(step·y) - p + step). For a large ω the
        # difference 1 - ω/step would cancel: go by way of p⁺ instead.
        w = omega(math.log(step) + math.log(y) - p + step)
        return (
            (p - math.log(step) - math.log(y) + math.log(w)) / step if w > 1.0 else 1.0 - w / step
        )

    def curvature(self, p, y):  # type: ignore[no-untyped-def]
        return y * math.exp(-p)


def _by_name(*losses: Any) -> dict[str, Any]:
    return {loss.traits.name: loss for loss in losses}


CLASSIFICATION = _by_name(Hinge, SquaredHinge, Log)
REGRESSION = _by_name(Squared, Absolute, Huber, Quantile, Poisson, Gamma)
