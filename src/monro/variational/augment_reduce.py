"""Augment and reduce (paper 001): variational EM on mini-batches of examples and of classes.

Each example has a variational distribution q of ε, the noise of the utility of y, given that y was
chosen: for softmax and logistic Gumbel(log η, 1), for probit N(μ, 1/P). With ``z_k = s_k - s_y``, S
the classes drawn and c_k the inverse of the inclusion probability of class k, the E step is

- for the softmax (Algorithm 1): ``η̃ = 1 + Σ_S c_k e^{z_k}``, ``η ← (1 - a) η + a η̃``,
  ``g_k = c_k e^{z_k}/η``;
- for probit and logistic (Algorithm 2): for ε ~ q, a natural gradient step of q along
  ``(log φ)'(ε) + Σ_S c_k (φ/Φ)(ε - z_k)`` and the gradient of the entropy; then, for a new ε,
  ``g_k = c_k (φ/Φ)(ε - z_k)``.

The M step moves w_k by ``-g_k x`` and w_y by ``Σ g_k x``, at the learning rates of `adaptive`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, kernel, lanes_leaf
from monro._math import fast_exp, sigmoid, softplus
from monro.blocks import MASKED_SCORE
from monro.links import (
    ENTROPY,
    LINKS,
    Law,
    Logistic,
    cdf_curvature,
    curvature,
    hazard,
    log_cdf,
    log_density,
    slope,
)
from monro.rows import Array, Rows, add, dot
from monro.variational.posterior import add_likelihood_precision, add_score_variance

LOCAL_POWER = 0.9  # a = (1 + visits)^-0.9
_LOCAL_RATE = 0.01  # of Algorithm 2
_NARROW = -40.0  # log(1 + e^γ) = e^γ below this γ, to rounding
_LARGEST_STEP = 3.0  # of μ, by a natural gradient
_SMALLEST_FACTOR = math.exp(-_LARGEST_STEP)  # of η
# Gauss–Laguerre nodes and weights, for expectations under a Gumbel distribution.
_NODES, _NODE_WEIGHTS = (tuple(map(float, part)) for part in np.polynomial.laguerre.laggauss(4))
_LARGEST_EXPONENT = 80.0  # so that sums of many exponentials do not overflow float32


class AugmentReduceState(NamedTuple):
    """The variational distributions of the examples, and the state of the adaptive steps."""

    location: Array  # (examples,): η, or μ of a Gaussian q and in `PlainModel`
    scale: Array  # (examples,): P of a Gaussian q; in `PlainModel` γ, where σ = log(1 + e^γ)
    squares: Array  # s of each weight, or s/0.9^t for lazy steps: see `adaptive`
    bias_squares: Array
    steps: Array  # (1,): number of steps taken


class BatchGradient(NamedTuple):
    """The gradient of the bound, estimated from a batch."""

    W: Array
    bias: Array


@generic
def local_step(
    model: Any, z: Array, log_c: Array, memory: AugmentReduceState, i: int, a: float, first: float,
    second: float,
) -> float:  # fmt: skip
    """Take the E step of example i and replace z by g; return an estimate of its bound.

    `first` and `second` are draws of the standard noise, for the step of q and for g.
    """
    return float(model.local_step(z, log_c, memory, i, a, first, second))


@lanes_leaf
def scaled_exponentials(z: Array, log_c: Array) -> Any:
    """Replace z by ``c e^z``, 0 for a masked class; return the sum."""
    largest = z.dtype.type(_LARGEST_EXPONENT)
    masked = z.dtype.type(0.5 * MASKED_SCORE)
    zero = z.dtype.type(0.0)
    total = zero
    for d in range(z.size):
        t = z[d] + log_c[d]
        e = fast_exp(t if t < largest else largest)
        z[d] = e if t > masked else zero
        total += z[d]
    return total


@lanes_leaf
def multiply(z: Array, c: float) -> None:
    """``z *= c``."""
    for d in range(z.size):
        z[d] *= c


class SoftmaxModel(NamedTuple):
    """The E step of Algorithm 1."""

    def initial(self, n_classes: int) -> tuple[float, float]:
        return float(n_classes), 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, 2))

    def noise(self, location: Array, scale: Array) -> tuple[str, Array, Array]:
        return "softmax", np.log(location), np.ones_like(location)

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        total = 1.0 + scaled_exponentials(z, log_c)
        eta = memory.location[i]
        # At the old η, which does not know these draws: the new one would fit their errors.
        bound = 1.0 - math.log(eta) - total / eta
        eta = (1.0 - a) * eta + a * total
        memory.location[i] = eta
        multiply(z, z.dtype.type(1.0 / eta))
        return bound


class PlainModel(NamedTuple):
    """The E step of Algorithm 2 as printed: a Gaussian q for probit, a logistic q for logistic.

    The t of its step size counts the visits of an example. With many classes its first steps are
    long, and γ may fall so far that σ is 0 in floating point.
    """

    law: Law
    entropy: float  # of the standard distribution

    def initial(self, n_classes: int) -> tuple[float, float]:
        return 0.0, float(np.log(np.expm1(1.0)))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        logistic = isinstance(self.law, Logistic)  # compare types: as tuples all laws are equal
        return rng.logistic(size=(n, 2)) if logistic else rng.standard_normal((n, 2))

    def noise(self, location: Array, scale: Array) -> tuple[str, Array, Array]:
        logistic = isinstance(self.law, Logistic)
        sigma = np.maximum(np.logaddexp(0.0, scale), np.finfo(np.float64).tiny)
        return "logistic" if logistic else "probit", location, sigma

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        mu = memory.location[i]
        gamma = memory.scale[i]
        sigma = softplus(gamma)
        narrow = gamma < _NARROW  # then log σ = γ to rounding
        epsilon = mu + sigma * first
        f_slope = slope(self.law, epsilon)
        bound = log_density(self.law, epsilon) + self.entropy
        bound += gamma if narrow else math.log(sigma)
        for d in range(z.size):
            if z[d] > 0.5 * MASKED_SCORE:
                c = math.exp(log_c[d])
                f_slope += c * hazard(self.law, epsilon - z[d])
                bound += c * log_cdf(self.law, epsilon - z[d])
        entropy_slope = 1.0 if narrow else sigmoid(gamma) / sigma
        mu += _LOCAL_RATE * a * f_slope
        gamma += _LOCAL_RATE * a * (f_slope * first * sigmoid(gamma) + entropy_slope)
        memory.location[i] = mu
        memory.scale[i] = gamma
        epsilon = mu + softplus(gamma) * second
        for d in range(z.size):
            drawn = z[d] > 0.5 * MASKED_SCORE
            z[d] = math.exp(log_c[d]) * hazard(self.law, epsilon - z[d]) if drawn else 0.0
        return bound


class GumbelModel(NamedTuple):
    """The E step of Algorithm 2 with natural gradients for a Gumbel q, as that of the softmax.

    With many alternatives the exact distribution of ε is nearly this one for the logistic link:
    ``log φ(ε) ≈ -ε`` and ``log Φ(ε - z) ≈ -e^{z - ε}`` where ε is large. With f the log of the
    integrand, ``η ← (1 - a) η + a η (1 + E f'(ε))`` is the natural gradient of the bound; as in the
    softmax η is an average of unbiased estimates. Expectations under q are sums over a few nodes
    (Gauss–Laguerre: ``η e^{-ε}`` is exponentially distributed). Draws of ε would make the gradient
    more skewed, and the adaptive steps shorten rare large gradients more than frequent small ones:
    with thousands of alternatives the weights would end a fifth too small.
    """

    law: Law

    def initial(self, n_classes: int) -> tuple[float, float]:
        return float(n_classes), 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, 2))

    def noise(self, location: Array, scale: Array) -> tuple[str, Array, Array]:
        return "softmax", np.log(location), np.ones_like(location)

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        eta = memory.location[i]
        bound = 1.0 - math.log(eta)  # the entropy of q, less the mean of ε
        f_slope = 0.0
        for q in range(len(_NODES)):
            epsilon = math.log(eta / _NODES[q])
            f_slope += _NODE_WEIGHTS[q] * slope(self.law, epsilon)
            bound += _NODE_WEIGHTS[q] * (epsilon + log_density(self.law, epsilon))
            for d in range(z.size):
                if z[d] > 0.5 * MASKED_SCORE:
                    c = _NODE_WEIGHTS[q] * math.exp(log_c[d])
                    f_slope += c * hazard(self.law, epsilon - z[d])
                    bound += c * log_cdf(self.law, epsilon - z[d])
        eta *= min(max(1.0 + a * f_slope, _SMALLEST_FACTOR), 1.0 / _SMALLEST_FACTOR)
        memory.location[i] = eta
        for d in range(z.size):
            g = 0.0
            if z[d] > 0.5 * MASKED_SCORE:
                for q in range(len(_NODES)):
                    epsilon = math.log(eta / _NODES[q])
                    g += _NODE_WEIGHTS[q] * hazard(self.law, epsilon - z[d])
                g *= math.exp(log_c[d])
            z[d] = g
        return bound


class GaussianModel(NamedTuple):
    """The E step of Algorithm 2 with natural gradients for q = N(μ, 1/P).

    The paper's local steps are so small that q hardly leaves the prior, which biases the weights;
    natural gradient steps converge quickly. With f the log of the integrand,
    ``P ← (1 - a) P - a f''(ε)``, ``μ ← μ + a f'(ε)/P`` for ε ~ q is the stochastic natural gradient
    of the bound (f'' < 0, as all the distributions are log-concave).
    """

    law: Law
    entropy: float  # of the standard normal distribution

    def initial(self, n_classes: int) -> tuple[float, float]:
        return 0.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, 2))

    def noise(self, location: Array, scale: Array) -> tuple[str, Array, Array]:
        return "probit", location, 1.0 / np.sqrt(scale)

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        mu = memory.location[i]
        precision = memory.scale[i]
        sigma = 1.0 / math.sqrt(precision)
        epsilon = mu + sigma * first
        f_slope = slope(self.law, epsilon)
        f_curvature = curvature(self.law, epsilon)
        bound = log_density(self.law, epsilon) + self.entropy + math.log(sigma)
        for d in range(z.size):
            if z[d] > 0.5 * MASKED_SCORE:
                c = math.exp(log_c[d])
                f_slope += c * hazard(self.law, epsilon - z[d])
                f_curvature += c * cdf_curvature(self.law, epsilon - z[d])
                bound += c * log_cdf(self.law, epsilon - z[d])
        precision += a * (f_curvature - precision)
        change = a * f_slope / precision
        mu += min(max(change, -_LARGEST_STEP), _LARGEST_STEP)
        memory.location[i] = mu
        memory.scale[i] = precision
        epsilon = mu + second / math.sqrt(precision)
        for d in range(z.size):
            drawn = z[d] > 0.5 * MASKED_SCORE
            z[d] = math.exp(log_c[d]) * hazard(self.law, epsilon - z[d]) if drawn else 0.0
        return bound


_MODELS = {
    "softmax": SoftmaxModel(),
    "probit": GaussianModel(LINKS["probit"], ENTROPY["probit"]),
    "logistic": GumbelModel(LINKS["logistic"]),
}


def make_model(link: str) -> Any:
    """Return the E step of a link.

    Its `initial` returns the location and scale of every q before the first step. Its `draw`
    returns two draws of the standard noise for each of n examples. Its `noise` returns the link
    whose standard noise υ has, where ``location + scale υ`` has the distribution q.
    """
    return _MODELS[link]


def make_printed_model(link: str) -> Any:
    """Return the E step of a link as printed in the paper; see `make_model`."""
    return make_model(link) if link == "softmax" else PlainModel(LINKS[link], ENTROPY[link])


def new_augment_reduce_state(
    model: Any, n_examples: int, n_classes: int, W: Array, bias: Array
) -> AugmentReduceState:
    """Return the state before the first step."""
    location, scale = model.initial(n_classes)
    return AugmentReduceState(
        np.full(n_examples, location),
        np.full(n_examples, scale),
        np.zeros_like(W),
        np.zeros_like(bias),
        np.zeros(1, np.int64),
    )


@kernel
def local_steps(
    model: Any,
    rows: Rows,
    y: Array,
    weight: Array,
    batch: Array,
    start: int,
    stop: int,
    drawn: Any,
    noise: Array,
    visits: int,
    W: Array,
    bias: Array,
    memory: AugmentReduceState,
    posterior: Any,
    g: Array,
) -> float:
    """Take the E steps of examples start…stop of a batch; return the sum of their bounds.

    Writes the gradient of the bound of all examples, estimated from the batch: row p of g has the
    multiple of x that is the gradient in w_k for each draw of the p-th example, then that for y.
    """
    a = (1.0 + visits) ** -LOCAL_POWER
    share = y.size / batch.size
    m = g.shape[1] - 1
    bound = 0.0
    for p in range(start, stop):
        i = batch[p]
        z = g[p, :m]
        s_y = dot(rows, i, W[y[i]]) + bias[y[i]]
        chosen = drawn.chosen[p]
        for d in range(m):
            k = chosen[d]
            if k < 0 or k == y[i]:
                z[d] = MASKED_SCORE
            elif W.shape[1] == 0:  # intercepts only: skip the calls
                z[d] = bias[k] - s_y
            else:
                z[d] = dot(rows, i, W[k]) + bias[k] - s_y
        add_score_variance(posterior, i, y[i], chosen, p, z)
        log_c = drawn.log_weight[p]
        bound_i = local_step(model, z, log_c, memory, i, a, noise[p, 0], noise[p, 1])
        bound += weight[i] * bound_i
        multiply(z, z.dtype.type(share * weight[i]))
        G = z.dtype.type(0.0)
        for d in range(m):
            G += z[d]
        add_likelihood_precision(posterior, i, y[i], chosen, z, G)
        for d in range(m):
            z[d] = -z[d]
        g[p, m] = G
    return bound


@kernel
def add_gradient(
    rows: Rows, y: Array, batch: Array, chosen: Array, g: Array, gradient: BatchGradient
) -> None:
    """Add the steps of a batch, as `local_steps` wrote them, to the gradient of all weights."""
    m = chosen.shape[1]
    for p in range(batch.size):
        i = batch[p]
        for d in range(m + 1):
            k = y[i] if d == m else chosen[p, d]
            if g[p, d] != 0.0:
                if gradient.W.shape[1] > 0:
                    add(rows, i, g[p, d], gradient.W[k])
                gradient.bias[k] += g[p, d]
