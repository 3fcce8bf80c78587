"""SGD-QN: a gain for each feature, learnt from the curvature seen on the way (paper 004, Figure 4).

Minimise ``λ/2 ‖w‖² + mean_i ℓ(w·x_i, y_i)`` by ``w ← w - B g_t(w)`` with diagonal gains B. Between
a past point v and the present w the gradient of one example changes by

    ``[g_t(w) - g_t(v)]_i / [w - v]_i = λ + (ℓ'(w·x) - ℓ'(v·x)) x_i / (w_i - v_i) = r_i``,

an estimate of the i-th curvature. The *corrected* algorithm takes a fresh example for it and adds
the curvatures up: ``1/B_ii`` grows by r_i a step. The *flawed* algorithm of 2009 takes the example
that just moved w, which makes all r_i of a dense row equal; it is kept to redraw the erratum's
figures.

Both touch all D weights only once in `skip` steps. A bias is one more coordinate (`rows.Biased`),
with a gain but no ridge.
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel, leaf
from monro.linear.state import Examples, look_ahead
from monro.losses import Loss, derivative, value
from monro.rows import Array, Rows, add, add_scaled, dot


class GainState(NamedTuple):
    """Weights w, the past point v, the gains B, and where in the cycle of `skip` steps we are."""

    w: Array
    v: Array
    gains: Array
    t: Array
    countdown: Array
    measure: Array  # 1 when the next step measures the curvature
    measured: Array  # how often it was
    x: Array  # room for one dense row; zero between steps


def new_gain_state(gains: Array, skip: float) -> GainState:
    """Return the state of zero weights."""
    one = np.zeros(1)
    w = np.zeros_like(gains)
    return GainState(w, w.copy(), gains, one, np.full(1, skip), one.copy(), one.copy(), w.copy())


@leaf
def curvature(lam: float, change: float, x: float, moved: float) -> float:
    """``r_i``, at most 100λ; where x_i = 0 it is λ, where only w_i stands still it is 100λ."""
    if x == 0.0:
        return lam
    if moved == 0.0:
        return 100.0 * lam
    return min(lam + change * x / moved, 100.0 * lam)


@leaf
def spread(rows: Rows, i: int, x: Array) -> None:
    """Write row i into the dense x."""
    x[:] = 0.0
    add(rows, i, 1.0, x)


@kernel
def sgdqn_epoch(
    loss: Loss,
    examples: Examples,
    order: Array,
    lam: float,
    skip: float,
    penalised: int,
    state: GainState,
) -> float:
    """Corrected SGD-QN: a step on each example of `order`; return the loss before each step."""
    rows = examples.rows
    w = state.w
    v = state.v
    B = state.gains
    total = 0.0
    for j in range(order.size):
        look_ahead(examples, order, j, w)
        i = order[j]
        y = examples.y[i]
        p = dot(rows, i, w)
        total += examples.weight[i] * value(loss, p, y)
        slope = derivative(loss, p, y)

        if state.measure[0] != 0.0:
            change = examples.weight[i] * (slope - derivative(loss, dot(rows, i, v), y))
            spread(rows, i, state.x)
            for k in range(w.size):
                r = max(curvature(lam, change, state.x[k], w[k] - v[k]), lam)
                B[k] /= 1.0 + skip * B[k] * r
            state.measure[0] = 0.0

        state.countdown[0] -= 1.0
        if state.countdown[0] <= 0.0:
            state.countdown[0] = skip
            state.measure[0] = 1.0
            for k in range(w.size):
                v[k] = w[k]
            for k in range(penalised):  # a ridge step that would overshoot ends at 0
                w[k] *= max(0.0, 1.0 - skip * lam * B[k])

        if slope != 0.0:
            add_scaled(rows, i, -examples.weight[i] * slope, B, w)
        state.t[0] += 1.0
    return total


@kernel
def sgdqn_flawed_epoch(
    loss: Loss,
    examples: Examples,
    order: Array,
    lam: float,
    skip: float,
    penalised: int,
    t0: float,
    state: GainState,
) -> float:
    """Flawed SGD-QN: a step on each example of `order`; return the loss before each step."""
    rows = examples.rows
    w = state.w
    v = state.v
    B = state.gains
    total = 0.0
    for j in range(order.size):
        look_ahead(examples, order, j, w)
        i = order[j]
        y = examples.y[i]
        p = dot(rows, i, w)
        total += examples.weight[i] * value(loss, p, y)
        slope = derivative(loss, p, y)
        rate = 1.0 / (state.t[0] + t0)
        if slope != 0.0:
            add_scaled(rows, i, -rate * examples.weight[i] * slope, B, w)

        if state.measure[0] != 0.0:
            change = derivative(loss, dot(rows, i, w), y) - derivative(loss, dot(rows, i, v), y)
            change *= examples.weight[i]
            spread(rows, i, state.x)
            pull = 2.0 / (2.0 + state.measured[0])
            for k in range(w.size):
                B[k] += pull * (1.0 / curvature(lam, change, state.x[k], w[k] - v[k]) - B[k])
            state.measured[0] += 1.0
            state.measure[0] = 0.0

        state.countdown[0] -= 1.0
        if state.countdown[0] <= 0.0:
            state.countdown[0] = skip
            state.measure[0] = 1.0
            for k in range(penalised):
                w[k] *= max(0.0, 1.0 - skip * lam * rate * B[k])
            for k in range(w.size):
                v[k] = w[k]
        state.t[0] += 1.0
    return total
