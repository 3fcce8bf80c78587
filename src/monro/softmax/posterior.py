"""A Gaussian posterior of the weights for augment and reduce (paper 001, section 3.3).

Every weight has its own mean and standard deviation: ``w ~ N(m, σ²)``, so a score is Gaussian, too,
with variance ``v_k = Σ_j x_j² σ_kj²``. The prior is ``N(0, 1/(αN))``, flat for intercepts.

- softmax: the expectation of the bound is known, ``E e^{s_k - s_y} = e^{z_k + (v_k + v_y)/2}``, and
  so are its slopes: with g as for fixed weights, σ_kj falls by ``g_k x_j² σ_kj``.
- probit and logistic: scores are drawn, ``s_k = x·m_k + √v_k υ_k``; then σ_kj falls by
  ``g_k υ_k/√v_k x_j² σ_kj`` on average.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, vector_kernel
from monro._math import sigmoid, softplus
from monro.rows import Array, Rows, add, as_rows, dot
from monro.softmax.adaptive import adapt
from monro.softmax.state import NOWHERE

_TINY = 1e-30


@generic
def vary(spread: Any, i: int, y: int, chosen: Array, p: int, z: Array) -> None:
    """Let the scores of the classes drawn, ``s_k - s_y``, take part in the posterior's spread."""
    spread.vary(i, y, chosen, p, z)


@generic
def note(spread: Any, i: int, y: int, chosen: Array, g: Array, pull: float) -> None:
    """Note how the classes' steps pull at the spread."""
    spread.note(i, y, chosen, g, pull)


class Point(NamedTuple):
    """Weights are numbers."""

    def vary(self, i, y, chosen, p, z):  # type: ignore[no-untyped-def]
        pass

    def note(self, i, y, chosen, g, pull):  # type: ignore[no-untyped-def]
        pass


class Moments(NamedTuple):
    """Scores vary, their exponentials have a known mean."""

    squares: Rows  # x²
    variance: Array  # σ²
    bias_variance: Array
    moves: Array
    bias_moves: Array

    def vary(self, i, y, chosen, p, z):  # type: ignore[no-untyped-def]
        half = z.dtype.type(0.5)
        own = dot(self.squares, i, self.variance[y]) + self.bias_variance[y]
        for d in range(z.size):
            if z[d] > 0.5 * NOWHERE:
                k = chosen[d]
                z[d] += half * (
                    dot(self.squares, i, self.variance[k]) + self.bias_variance[k] + own
                )

    def note(self, i, y, chosen, g, pull):  # type: ignore[no-untyped-def]
        for d in range(g.size):
            if g[d] > 0.0:
                add(self.squares, i, g[d], self.moves[chosen[d]])
                self.bias_moves[chosen[d]] += g[d]
        add(self.squares, i, pull, self.moves[y])
        self.bias_moves[y] += pull


class Draws(NamedTuple):
    """Scores vary, and are drawn."""

    squares: Rows
    variance: Array
    bias_variance: Array
    moves: Array
    bias_moves: Array
    normal: Array  # (batch, classes drawn + 1): the last is y's
    ratio: Array  # (classes drawn + 1,): υ/√v

    def vary(self, i, y, chosen, p, z):  # type: ignore[no-untyped-def]
        tiny = z.dtype.type(_TINY)
        last = z.size
        own = math.sqrt(dot(self.squares, i, self.variance[y]) + self.bias_variance[y] + tiny)
        self.ratio[last] = self.normal[p, last] / own
        for d in range(z.size):
            self.ratio[d] = 0.0
            if z[d] > 0.5 * NOWHERE:
                k = chosen[d]
                size = math.sqrt(
                    dot(self.squares, i, self.variance[k]) + self.bias_variance[k] + tiny
                )
                self.ratio[d] = self.normal[p, d] / size
                z[d] += size * self.normal[p, d] - own * self.normal[p, last]

    def note(self, i, y, chosen, g, pull):  # type: ignore[no-untyped-def]
        last = g.size
        for d in range(g.size):
            if g[d] > 0.0:
                add(self.squares, i, g[d] * self.ratio[d], self.moves[chosen[d]])
                self.bias_moves[chosen[d]] += g[d] * self.ratio[d]
        add(self.squares, i, -pull * self.ratio[last], self.moves[y])
        self.bias_moves[y] -= pull * self.ratio[last]


class Spread(NamedTuple):
    """The standard deviations ``σ = log(1 + e^γ)``, and what their steps remember."""

    gamma: Array
    bias_gamma: Array
    squares: Array
    bias_squares: Array


def new_spread(X: Any, weight: Array, counts: Array, slots: int, alpha: float) -> Spread:
    """Return the spread to begin with: by the curvature where scores know only frequencies."""
    n = weight.size
    share = np.zeros(slots)
    share[: counts.size] = counts / n
    curvature = share * (1.0 - share) + 1.0 / n
    precision = alpha * n + np.outer(curvature, squared(X).T @ weight)
    gamma = _inverse_softplus(1.0 / np.sqrt(precision)).astype(X.dtype)
    bias_gamma = _inverse_softplus(1.0 / np.sqrt(curvature * n)).astype(X.dtype)
    return Spread(gamma, bias_gamma, np.zeros_like(gamma), np.zeros_like(bias_gamma))


def standard_deviations(spread: Spread, slots: Array) -> tuple[Array, Array]:
    """Return those of the weights and of the intercepts, class by class."""
    W, bias = (np.logaddexp(0.0, gamma[slots]) for gamma in (spread.gamma, spread.bias_gamma))
    return W, bias


def squared(X: Any) -> Any:
    """Return X with every number squared."""
    return X.multiply(X).tocsr() if hasattr(X, "tocsr") else X * X


def _inverse_softplus(t: Array) -> Array:
    return np.asarray(t + np.log(-np.expm1(-t)))


def make_noise(link: str, X: Any, spread: Spread, examples: int, classes: int) -> Any:
    """Return how scores vary with that spread, with room for a batch."""
    rows = as_rows(squared(X))
    shared = (
        rows,
        np.empty_like(spread.gamma),
        np.empty_like(spread.bias_gamma),
        np.zeros_like(spread.gamma),
        np.zeros_like(spread.bias_gamma),
    )
    dtype = spread.gamma.dtype
    noise: Any = (
        Moments(*shared)
        if link == "softmax"
        else Draws(*shared, np.empty((examples, classes + 1), dtype), np.empty(classes + 1, dtype))
    )
    update_variances(spread.gamma.reshape(-1), noise.variance.reshape(-1))
    update_variances(spread.bias_gamma, noise.bias_variance)
    return noise


@vector_kernel
def update_variances(gamma: Array, V: Array) -> None:
    """``V = σ²``."""
    for j in range(gamma.size):
        sigma = softplus(gamma[j])
        V[j] = sigma * sigma


@vector_kernel
def move_spread(
    gamma: Array, moves: Array, squares: Array, rate: float, first: bool, precision: float, V: Array
) -> None:
    """Move every standard deviation along its gradient, which is forgotten then."""
    number = gamma.dtype.type
    for j in range(gamma.size):
        sigma = softplus(gamma[j])
        g = number((1.0 / sigma - (precision + moves[j]) * sigma) * sigmoid(gamma[j]))
        gamma[j] += adapt(g, squares, j, rate, first)
        sigma = softplus(gamma[j])
        V[j] = sigma * sigma
        moves[j] = number(0.0)
