"""SGD-QN as published in 2009, with its flaw (paper 004, Figure 4, left).

Its gains are those of `monro.linear.algorithms.sgdqn`, but the curvature is taken on the example
that has just moved w, which makes all r_i of a dense row equal, and 1/r_i is averaged over all
measurements; the learning rate is ``B/(t + t0)``. It is kept to redraw the erratum's figures.
"""

from monro._jit import kernel
from monro.linear.algorithms.sgdqn import GainState, QuasiNewton, curvature, spread
from monro.linear.algorithms.solver_base import Options, Traits
from monro.linear.examples import Examples, look_ahead
from monro.linear.problem import Problem
from monro.losses import Loss, derivative, value
from monro.penalties import Penalty, strong_convexity
from monro.rows import Array, add_scaled, dot


@kernel
def sgdqn_flawed_sweep(
    loss: Loss,
    penalty: Penalty,
    examples: Examples,
    order: Array,
    skip: float,
    penalised: int,
    t0: float,
    state: GainState,
) -> float:
    """Take a step on each example of `order`; return the loss summed *before* each step."""
    lam = strong_convexity(penalty)
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


class FlawedQuasiNewton(QuasiNewton):
    """sgdqn-flawed."""

    def __init__(self, problem: Problem, traits: Traits, options: Options):
        super().__init__(problem, traits, options)
        self.t0 = 1.0 / (problem.penalty.strong_convexity() * options.eta0)

    def first_gain(self, eta0: float) -> float:
        return 1.0 / float(self.problem.penalty.strong_convexity())

    def sweep(self, order: Array, state: GainState, sigma: float = 1.0) -> float:
        loss, penalty, width = self.problem.loss, self.problem.penalty, self.problem.n_features
        return sgdqn_flawed_sweep(
            loss, penalty, self.examples, order, self.skip, width, self.t0, state
        )
