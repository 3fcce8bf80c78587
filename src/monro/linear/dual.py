"""Stochastic dual coordinate ascent: an implicit step that remembers (beyond the papers).

At the optimum of ``F(w, b) = λ/2 ‖w‖² + (1/N) Σ_i ℓ(w·x_i + b, y_i)`` the weights are a sum over
examples, ``w = -h Σ_i g_i x_i`` with ``g_i = ℓ'(p_i, y_i)`` and ``h = 1/(λN)``. Keep one g_i for
each example and let w follow. A step on example i takes its own part out of the prediction and
puts the best one in:

    ``p⁺ = (p + h‖x_i‖² g_i) - h‖x_i‖² g⁺``,   ``g⁺ = ℓ'(p⁺, y_i)``:

the same scalar equation as an implicit step of length h, but from where the example would be
without its own pull. That removes the noise: the steps go to zero by themselves, with no rate to
choose (Hsieh et al., 2008; Shalev-Shwartz & Zhang, 2013).

The bias is not regularised, so it has no such sum. It is pulled towards its value at the start of
the epoch (a proximal point method): ``b = anchor - h_b Σ_i g_i`` with ``h_b = 1/(κN)``.
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel
from monro.linear.state import Examples, PerExample, look_ahead
from monro.losses import Absolute, Hinge, Loss, derivative, implicit_derivative, value
from monro.rows import Array, add, dot, sqnorm


def bias_pull(loss: Loss) -> float:
    """Return κ, the pull on the bias.

    Each epoch takes the bias the share H/(H + κ) of its way, where H is the curvature of the mean
    loss: about 0.25 for balanced classes and log loss, a few hundredths for rare ones. A kinked
    loss has its curvature in the few examples on the kink, and swings if pulled as weakly.
    """
    return 0.1 if isinstance(loss, (Hinge, Absolute)) else 0.01


class DualState(NamedTuple):
    """Weights and bias, and the g_i they are the sum of."""

    w: Array
    bias: Array
    memory: PerExample


MOST_IDLE = 6


def new_dual_state(size: int, n_examples: int) -> DualState:
    """Return the state of zero weights."""
    memory = PerExample(np.zeros(n_examples), np.zeros(n_examples, np.int8))
    return DualState(np.zeros(size), np.zeros(1), memory)


@kernel
def derivatives(loss: Loss, examples: Examples, w: Array, b: float, g: Array) -> None:
    """Write each example's ``ℓ'(w·x_i + b, y_i)``."""
    for i in range(g.size):
        g[i] = derivative(loss, dot(examples.rows, i, w) + b, examples.y[i])


@kernel
def add_all(examples: Examples, c: float, g: Array, w: Array) -> None:
    """``w += c Σ_i weight_i·g_i x_i``."""
    for i in range(g.size):
        if g[i] != 0.0:
            add(examples.rows, i, c * examples.weight[i] * g[i], w)


@kernel
def dual_epoch(
    loss: Loss,
    examples: Examples,
    order: Array,
    h: float,
    h_bias: float,
    crowd: float,
    state: DualState,
) -> float:
    """Take a step on each example of `order`; return the loss summed *before* each step.

    With several copies of the weights at work at once (`crowd` of them, to be averaged later), each
    expects the others to move as far as itself (CoCoA+, Ma et al., 2015).
    """
    rows = examples.rows
    w = state.w
    g = state.memory.g
    idle = state.memory.idle
    b = state.bias[0]
    total = 0.0
    for j in range(order.size):
        look_ahead(examples, order, j, w)
        i = order[j]
        y = examples.y[i]
        p = dot(rows, i, w) + b
        total += examples.weight[i] * value(loss, p, y)

        c = crowd * examples.weight[i]
        step = c * (h * sqnorm(rows, i) + h_bias)
        if step > 0.0:
            new = implicit_derivative(loss, p + step * g[i], y, step)
            change = new - g[i]
            if change != 0.0:
                add(rows, i, -c * h * change, w)
                b -= c * h_bias * change
                g[i] = new
                idle[i] = 0
            elif idle[i] < MOST_IDLE:
                idle[i] += 1
    state.bias[0] = b
    return total
