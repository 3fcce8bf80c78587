"""A Gaussian posterior of the weights for augment and reduce (paper 001, section 3.3).

Every weight has a mean and a standard deviation: ``w ~ N(m, σ²)``. So a score is Gaussian, too,
with variance ``v_k = Σ_j x_j² σ_kj²``. The prior is ``N(0, 1/(αN))``, flat for intercepts. The
gradient of the bound in σ_kj is ``1/σ_kj - (αN + p_kj) σ_kj``, with p_kj the precision that the
likelihood contributes:

- softmax: the expectation of the bound is known, ``E e^{s_k - s_y} = e^{z_k + (v_k + v_y)/2}``.
  With g as for fixed weights, ``p_kj = Σ_i g_k x_j²``.
- probit and logistic: scores are drawn, ``s_k = x·m_k + √v_k υ_k`` with υ ~ N(0, 1). Then the
  expectation of ``Σ_i g_k υ_k/√v_k x_j²`` is p_kj.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, vector_kernel
from monro._math import sigmoid, softplus
from monro.blocks import MASKED_SCORE
from monro.rows import Array, Rows, add, as_rows, dot
from monro.variational.adaptive import adapt

_TINY = 1e-30


@generic
def add_score_variance(posterior: Any, i: int, y: int, chosen: Array, p: int, z: Array) -> None:
    """Adjust ``z_k = s_k - s_y`` of the classes drawn to the variance of the scores.

    Example i is the p-th of its batch.
    """
    posterior.add_score_variance(i, y, chosen, p, z)


@generic
def add_likelihood_precision(
    posterior: Any, i: int, y: int, chosen: Array, g: Array, G: float
) -> None:
    """Add the precision that example i contributes to the weights; ``G = Σ g`` belongs to y."""
    posterior.add_likelihood_precision(i, y, chosen, g, G)


class PointEstimate(NamedTuple):
    """Weights without variance."""

    def add_score_variance(self, i, y, chosen, p, z):  # type: ignore[no-untyped-def]
        pass

    def add_likelihood_precision(self, i, y, chosen, g, G):  # type: ignore[no-untyped-def]
        pass


class AnalyticPosterior(NamedTuple):
    """The posterior for the softmax, whose expectations are known."""

    squares: Rows  # x²
    variance: Array  # σ² of the weights
    bias_variance: Array  # σ² of the intercepts
    precision: Array  # p, accumulated over a batch
    bias_precision: Array

    def add_score_variance(self, i, y, chosen, p, z):  # type: ignore[no-untyped-def]
        half = z.dtype.type(0.5)
        v_y = dot(self.squares, i, self.variance[y]) + self.bias_variance[y]
        for d in range(z.size):
            if z[d] > 0.5 * MASKED_SCORE:
                k = chosen[d]
                z[d] += half * (
                    dot(self.squares, i, self.variance[k]) + self.bias_variance[k] + v_y
                )

    def add_likelihood_precision(self, i, y, chosen, g, G):  # type: ignore[no-untyped-def]
        for d in range(g.size):
            if g[d] > 0.0:
                add(self.squares, i, g[d], self.precision[chosen[d]])
                self.bias_precision[chosen[d]] += g[d]
        add(self.squares, i, G, self.precision[y])
        self.bias_precision[y] += G


class SampledPosterior(NamedTuple):
    """The posterior for probit and logistic, where scores are drawn. See `AnalyticPosterior`."""

    squares: Rows
    variance: Array
    bias_variance: Array
    precision: Array
    bias_precision: Array
    normal: Array  # (batch, classes drawn + 1): υ; the last column is of y
    ratio: Array  # (classes drawn + 1,): υ/√v

    def add_score_variance(self, i, y, chosen, p, z):  # type: ignore[no-untyped-def]
        tiny = z.dtype.type(_TINY)
        last = z.size
        sd_y = math.sqrt(dot(self.squares, i, self.variance[y]) + self.bias_variance[y] + tiny)
        self.ratio[last] = self.normal[p, last] / sd_y
        for d in range(z.size):
            self.ratio[d] = 0.0
            if z[d] > 0.5 * MASKED_SCORE:
                k = chosen[d]
                sd = math.sqrt(
                    dot(self.squares, i, self.variance[k]) + self.bias_variance[k] + tiny
                )
                self.ratio[d] = self.normal[p, d] / sd
                z[d] += sd * self.normal[p, d] - sd_y * self.normal[p, last]

    def add_likelihood_precision(self, i, y, chosen, g, G):  # type: ignore[no-untyped-def]
        last = g.size
        for d in range(g.size):
            if g[d] > 0.0:
                add(self.squares, i, g[d] * self.ratio[d], self.precision[chosen[d]])
                self.bias_precision[chosen[d]] += g[d] * self.ratio[d]
        add(self.squares, i, -G * self.ratio[last], self.precision[y])
        self.bias_precision[y] -= G * self.ratio[last]


class Spread(NamedTuple):
    """The standard deviations ``σ = log(1 + e^γ)``, and the state of their adaptive steps."""

    gamma: Array
    bias_gamma: Array
    squares: Array
    bias_squares: Array


def new_spread(X: Any, weight: Array, counts: Array, slots: int, alpha: float) -> Spread:
    """Return the initial spread: from the curvature of the loss at the log frequencies."""
    n = weight.size
    share = np.zeros(slots)
    share[: counts.size] = counts / n
    curvature = share * (1.0 - share) + 1.0 / n
    precision = alpha * n + np.outer(curvature, squared(X).T @ weight)
    gamma = _inverse_softplus(1.0 / np.sqrt(precision)).astype(X.dtype)
    bias_gamma = _inverse_softplus(1.0 / np.sqrt(curvature * n)).astype(X.dtype)
    return Spread(gamma, bias_gamma, np.zeros_like(gamma), np.zeros_like(bias_gamma))


def standard_deviations(spread: Spread, slots: Array) -> tuple[Array, Array]:
    """Return the standard deviations of the weights and of the intercepts, in class order."""
    W, bias = (np.logaddexp(0.0, gamma[slots]) for gamma in (spread.gamma, spread.bias_gamma))
    return W, bias


def squared(X: Any) -> Any:
    """Return X with every entry squared."""
    return X.multiply(X).tocsr() if hasattr(X, "tocsr") else X * X


def _inverse_softplus(t: Array) -> Array:
    return np.asarray(t + np.log(-np.expm1(-t)))


def make_posterior(link: str, X: Any, spread: Spread, examples: int, classes: int) -> Any:
    """Return the posterior for batches of `examples` rows and `classes` drawn classes."""
    rows = as_rows(squared(X))
    shared = (
        rows,
        np.empty_like(spread.gamma),
        np.empty_like(spread.bias_gamma),
        np.zeros_like(spread.gamma),
        np.zeros_like(spread.bias_gamma),
    )
    dtype = spread.gamma.dtype
    normal, ratio = np.empty((examples, classes + 1), dtype), np.empty(classes + 1, dtype)
    posterior: Any = (
        AnalyticPosterior(*shared)
        if link == "softmax"
        else SampledPosterior(*shared, normal, ratio)
    )
    update_variances(spread.gamma.reshape(-1), posterior.variance.reshape(-1))
    update_variances(spread.bias_gamma, posterior.bias_variance)
    return posterior


@vector_kernel
def update_variances(gamma: Array, V: Array) -> None:
    """``V = σ²``."""
    for j in range(gamma.size):
        sigma = softplus(gamma[j])
        V[j] = sigma * sigma


@vector_kernel
def move_spread(
    gamma: Array,
    precision: Array,
    squares: Array,
    rate: float,
    first: bool,
    prior_precision: float,
    V: Array,
) -> None:
    """Take a step of every standard deviation along its gradient, and reset `precision` to 0."""
    number = gamma.dtype.type
    for j in range(gamma.size):
        sigma = softplus(gamma[j])
        g = number((1.0 / sigma - (prior_precision + precision[j]) * sigma) * sigmoid(gamma[j]))
        gamma[j] += adapt(g, squares, j, rate, first)
        sigma = softplus(gamma[j])
        V[j] = sigma * sigma
        precision[j] = number(0.0)
