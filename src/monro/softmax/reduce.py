"""Augment and reduce (paper 001): variational EM on mini-batches of examples and of classes.

Of the noise that makes alternative y the best, ε, each example keeps a law q: for the softmax
Gumbel(log η, 1), else N(μ, 1/P). With ``z_k = s_k - s_y``, c_k the inverse chance of class k to be
drawn and S the classes drawn,

- the softmax (Algorithm 1): ``η̃ = 1 + Σ_S c_k e^{z_k}``, ``η ← (1 - a) η + a η̃``, and a class pulls
  with ``g_k = c_k e^{z_k}/η``;
- probit and logistic (Algorithm 2): for ε ~ q a step of q along
  ``(log φ)'(ε) + Σ_S c_k (φ/Φ)(ε - z_k)`` and the entropy's slope; then from a new ε
  ``g_k = c_k (φ/Φ)(ε - z_k)``.

The M step moves w_k against ``g_k x`` and w_y along with their sum, at the rates of `adaptive`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, kernel, lanes_leaf
from monro._math import fast_exp, sigmoid, softplus
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
from monro.softmax.posterior import note, vary
from monro.softmax.state import NOWHERE
from monro.softmax.sweep import Slots

LOCAL_POWER = 0.9  # a = (1 + visits)^-0.9
_LOCAL_RATE = 0.01  # of Algorithm 2
_FARTHEST = 3.0  # that a natural step goes
_LARGEST = 80.0  # exponent: sums of many stay within float32


class Memory(NamedTuple):
    """All that the solver remembers besides the weights."""

    location: Array  # (examples,): η of the softmax, else μ
    scale: Array  # (examples,): P; as printed γ, where the scale is log(1 + e^γ)
    squares: Array  # s of each weight
    bias_squares: Array
    steps: Array  # (1,): taken so far


class Moves(NamedTuple):
    """The gradient of a batch."""

    W: Array
    bias: Array


@generic
def respond(
    model: Any, z: Array, log_c: Array, memory: Memory, i: int, a: float, first: float,
    second: float,
) -> float:  # fmt: skip
    """Take the local step of example i; z becomes g. Return an estimate of its bound."""
    return float(model.respond(z, log_c, memory, i, a, first, second))


@lanes_leaf
def scaled_exponentials(z: Array, log_c: Array) -> Any:
    """Replace z by ``c e^z``, 0 for a class left out; return the sum."""
    largest = z.dtype.type(_LARGEST)
    nowhere = z.dtype.type(0.5 * NOWHERE)
    zero = z.dtype.type(0.0)
    total = zero
    for d in range(z.size):
        t = z[d] + log_c[d]
        e = fast_exp(t if t < largest else largest)
        z[d] = e if t > nowhere else zero
        total += z[d]
    return total


@lanes_leaf
def multiply(z: Array, c: float) -> None:
    """``z *= c``."""
    for d in range(z.size):
        z[d] *= c


class SoftmaxModel(NamedTuple):
    """Algorithm 1."""

    def begin(self) -> tuple[float, float]:
        return 1.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, 2))

    def respond(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        total = 1.0 + scaled_exponentials(z, log_c)
        eta = (1.0 - a) * memory.location[i] + a * total
        memory.location[i] = eta
        multiply(z, z.dtype.type(1.0 / eta))
        return 1.0 - math.log(eta) - total / eta


class PlainModel(NamedTuple):
    """Algorithm 2 as printed: Gaussian noise with a Gaussian q, logistic noise with a logistic q.

    For studies: see `NaturalModel`.
    """

    law: Law
    entropy: float  # of the standard law

    def begin(self) -> tuple[float, float]:
        return 0.0, float(np.log(np.expm1(1.0)))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        logistic = isinstance(self.law, Logistic)  # as tuples all laws are equal
        return rng.logistic(size=(n, 2)) if logistic else rng.standard_normal((n, 2))

    def respond(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        mu = memory.location[i]
        gamma = memory.scale[i]
        sigma = softplus(gamma)
        noise = mu + sigma * first
        rise = slope(self.law, noise)
        bound = log_density(self.law, noise) + self.entropy + math.log(sigma)
        for d in range(z.size):
            if z[d] > 0.5 * NOWHERE:
                c = math.exp(log_c[d])
                rise += c * hazard(self.law, noise - z[d])
                bound += c * log_cdf(self.law, noise - z[d])
        mu += _LOCAL_RATE * a * rise
        gamma += _LOCAL_RATE * a * (rise * first + 1.0 / sigma) * sigmoid(gamma)
        memory.location[i] = mu
        memory.scale[i] = gamma
        noise = mu + softplus(gamma) * second
        for d in range(z.size):
            there = z[d] > 0.5 * NOWHERE
            z[d] = math.exp(log_c[d]) * hazard(self.law, noise - z[d]) if there else 0.0
        return bound


class NaturalModel(NamedTuple):
    """Algorithm 2 with natural steps: q is N(μ, 1/P) for any noise, and soon at its best.

    The paper's local steps are so small that q hardly leaves the prior, which biases the weights.
    With f the log of the integrand, ``P ← (1 - a) P - a f''(ε)``, ``μ ← μ + a f'(ε)/P`` for ε ~ q
    is the stochastic natural gradient of the bound (f'' < 0, for all laws are log-concave).
    """

    law: Law
    entropy: float  # of the standard normal law

    def begin(self) -> tuple[float, float]:
        return 0.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, 2))

    def respond(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        mu = memory.location[i]
        precision = memory.scale[i]
        sigma = 1.0 / math.sqrt(precision)
        noise = mu + sigma * first
        rise = slope(self.law, noise)
        fall = curvature(self.law, noise)
        bound = log_density(self.law, noise) + self.entropy + math.log(sigma)
        for d in range(z.size):
            if z[d] > 0.5 * NOWHERE:
                c = math.exp(log_c[d])
                rise += c * hazard(self.law, noise - z[d])
                fall += c * cdf_curvature(self.law, noise - z[d])
                bound += c * log_cdf(self.law, noise - z[d])
        precision += a * (fall - precision)
        change = a * rise / precision
        mu += min(max(change, -_FARTHEST), _FARTHEST)
        memory.location[i] = mu
        memory.scale[i] = precision
        noise = mu + second / math.sqrt(precision)
        for d in range(z.size):
            there = z[d] > 0.5 * NOWHERE
            z[d] = math.exp(log_c[d]) * hazard(self.law, noise - z[d]) if there else 0.0
        return bound


def make_model(link: str) -> Any:
    """Return the local step of a link.

    Its `begin` is the location and scale of every q to begin with, the law of the noise itself; its
    `draw` makes two standard draws for each of n examples.
    """
    return SoftmaxModel() if link == "softmax" else NaturalModel(LINKS[link], ENTROPY["probit"])


def new_memory(model: Any, n_examples: int, W: Array, bias: Array) -> Memory:
    """Return the memory of no step."""
    location, scale = model.begin()
    return Memory(
        np.full(n_examples, location),
        np.full(n_examples, scale),
        np.zeros_like(W),
        np.zeros_like(bias),
        np.zeros(1, np.int64),
    )


@kernel
def take_batch(
    model: Any,
    rows: Rows,
    y: Array,
    weight: Array,
    batch: Array,
    drawn: Slots,
    noise: Array,
    visits: int,
    W: Array,
    bias: Array,
    memory: Memory,
    moves: Moves,
    spread: Any,
    z: Array,
) -> float:
    """Take the local steps of a batch, and leave its gradient in the moves; return its bound.

    The gradient is that of all examples' bound, estimated from the batch's.
    """
    a = (1.0 + visits) ** -LOCAL_POWER
    share = y.size / batch.size
    bound = 0.0
    for p in range(batch.size):
        i = batch[p]
        own = dot(rows, i, W[y[i]]) + bias[y[i]]
        chosen = drawn.chosen[p]
        for d in range(z.size):
            k = chosen[d]
            if k < 0 or k == y[i]:
                z[d] = NOWHERE
            elif W.shape[1] == 0:  # intercepts alone: spare the calls
                z[d] = bias[k] - own
            else:
                z[d] = dot(rows, i, W[k]) + bias[k] - own
        vary(spread, i, y[i], chosen, p, z)
        found = respond(model, z, drawn.log_weight[p], memory, i, a, noise[p, 0], noise[p, 1])
        bound += weight[i] * found
        multiply(z, z.dtype.type(share * weight[i]))
        pull = z.dtype.type(0.0)
        for d in range(z.size):
            if z[d] > 0.0:
                if W.shape[1] > 0:
                    add(rows, i, -z[d], moves.W[chosen[d]])
                moves.bias[chosen[d]] -= z[d]
                pull += z[d]
        add(rows, i, pull, moves.W[y[i]])
        moves.bias[y[i]] += pull
        note(spread, i, y[i], chosen, z, pull)
    return bound
