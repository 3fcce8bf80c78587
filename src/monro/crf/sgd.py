"""Stochastic gradient descent on sentences (paper 004, section 4.2), with averaging (paper 002).

Minimise ``λ/2 ‖w‖² + mean_i -log p(y_i | x_i)`` by ``w ← w - η_t (weight_i·slope + λ w)``, one
sentence at a time. ``w = s·r``, so that a step touches the weights of the sentence alone. Rates and
scales depend on t alone: they are computed for a whole epoch beforehand, and threads that share the
weights need not agree on anything.
"""

from typing import NamedTuple

from monro._jit import kernel
from monro.crf.chain import Allowed, Room, forward, gradient, subtract_pairs, subtract_state
from monro.crf.encoding import Encoded
from monro.crf.weights import Weights
from monro.rows import Array


class Steps(NamedTuple):
    """For each step: the scale s before it, what moves r, and what moves the sum u (see `Mean`)."""

    scale: Array
    move: Array  # η/s, s after the step
    remember: Array  # the same times Σ s of the steps before; 0 where nothing is averaged


@kernel
def sgd_sweep(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    steps: Steps,
    r: Weights,
    u: Weights,
    averages: bool,
    allowed: Allowed,
    room: Room,
    scratch: Array,
) -> float:
    """Take a step on each sentence of `order`; return the loss summed before each step."""
    total = 0.0
    for j in range(order.size):
        s = order[j]
        if data.starts[s] == data.starts[s + 1]:
            continue
        loss, _ = gradient(data, s, y, r, steps.scale[j], allowed, room)
        total += weight[s] * loss
        number = scratch.dtype.type
        move = number(weight[s] * steps.move[j])
        subtract_state(data, s, move, r.W, room, scratch)
        subtract_pairs(data, s, move, r.V, room)
        if averages:
            remember = number(weight[s] * steps.remember[j])
            subtract_state(data, s, remember, u.W, room, scratch)
            subtract_pairs(data, s, remember, u.V, room)
    return total


@kernel
def total_loss(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    weights: Weights,
    allowed: Allowed,
    room: Room,
) -> float:
    """Return ``Σ weight_i·(-log p(y_i))`` over `order`."""
    total = 0.0
    for s in order:
        if data.starts[s] < data.starts[s + 1]:
            log_z, score, _ = forward(data, s, y, weights, 1.0, allowed, room)
            total += weight[s] * (log_z - score)
    return total
