"""Stochastic dual coordinate ascent: implicit steps with a dual variable for each example.

At the optimum of ``F(w, b) = λ/2 ‖w‖² + (1/N) Σ_i ℓ(w·x_i + b, y_i)`` the weights are a sum over
examples, ``w = -h Σ_i g_i x_i`` with ``g_i = ℓ'(p_i, y_i)`` and ``h = 1/(λN)``. One g_i is
kept for each example, and w is kept equal to that sum. A step on example i replaces g_i by the
value that is optimal given all others:

    ``p⁺ = (p + h‖x_i‖² g_i) - h‖x_i‖² g⁺``,   ``g⁺ = ℓ'(p⁺, y_i)``:

the same scalar equation as that of an implicit step of length h, but from the prediction without
the example's own term. That removes the noise: the steps converge to zero without a learning rate
(Hsieh et al., 2008; Shalev-Shwartz & Zhang, 2013).

The bias is not regularised, so it has no such sum. A proximal term ``κ/2 (b - anchor)²`` stands in
for the ridge, where the anchor is the bias at the start of the epoch (a proximal point method):
``b = anchor - h_b Σ_i g_i`` with ``h_b = 1/(κN)``.
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel
from monro.linear.algorithms.solver_base import Options, Solver, Traits
from monro.linear.centring import EXTRA, centred, plain_weights
from monro.linear.descent_state import ExampleMemory
from monro.linear.examples import Examples, add_all, look_ahead
from monro.linear.problem import Problem
from monro.losses import Loss, derivative, implicit_derivative, value
from monro.rows import Array, add, dot, sqnorm
from monro.saving.states import PerFeature


def bias_prox_strength(loss: Loss) -> float:
    """Return κ, the strength of the proximal term of the bias.

    Each epoch reduces the error of the bias by the factor κ/(H + κ), where H is the curvature of
    the mean loss: about 0.25 for balanced classes and log loss, a few hundredths for rare ones. A
    loss with a kink has its curvature in the few examples on the kink, and oscillates for so small
    a κ.
    """
    return 0.1 if loss.traits.has_kink else 0.01


class DualState(NamedTuple):
    """Weights and bias, and the g_i whose sum they are."""

    w: PerFeature
    bias: Array
    memory: ExampleMemory
    centre: PerFeature = np.zeros(0)  # of centred rows


MOST_IDLE = 6


def new_dual_state(size: int, n_examples: int) -> DualState:
    """Return the state of zero weights."""
    memory = ExampleMemory(np.zeros(n_examples), np.zeros(n_examples, np.int8))
    return DualState(np.zeros(size), np.zeros(1), memory)


@kernel
def derivatives(loss: Loss, examples: Examples, w: Array, b: float, g: Array) -> None:
    """Write each example's ``ℓ'(w·x_i + b, y_i)``."""
    for i in range(g.size):
        g[i] = derivative(loss, dot(examples.rows, i, w) + b, examples.y[i])


@kernel
def dual_sweep(
    loss: Loss,
    examples: Examples,
    order: Array,
    h: float,
    h_bias: float,
    sigma: float,
    state: DualState,
) -> float:
    """Take a step on each example of `order`; return the loss summed *before* each step.

    With several copies of the weights, whose changes are combined later, `sigma` is CoCoA+'s σ′ (Ma
    et al., 2015): each step then allows for those on the other copies.
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

        c = sigma * examples.weight[i]
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


class Dual(Solver):
    """dual."""

    state_types = {"DualState": DualState, "PerExample": ExampleMemory}

    def __init__(self, problem: Problem, traits: Traits, options: Options):
        super().__init__(problem, traits, options)
        n = problem.examples.y.size
        self.size = problem.n_features + (EXTRA if problem.centre.size else 0)
        rows = centred(problem.examples.rows, problem.centre)
        self.examples = problem.examples._replace(rows=rows)
        self.h = 1.0 / (problem.penalty.strong_convexity() * n)
        self.h_bias = 1.0 / (bias_prox_strength(problem.loss) * n) if problem.fit_intercept else 0.0

    def start(self, intercept: float = 0.0) -> DualState:
        if self.earlier is not None:
            return self._continued(self.earlier)
        state = self._zero()
        state.bias[0] = intercept
        return state

    def _zero(self) -> DualState:
        state = new_dual_state(self.size, self.problem.examples.y.size)
        return state._replace(centre=self.problem.centre)

    def _continued(self, earlier: DualState) -> DualState:
        state = self._zero()
        if earlier.memory.g.size != state.memory.g.size:
            return self.resume(*self.solution(earlier), 0.0)
        # The rows may have changed: the weights that belong to these g_i must be summed again.
        state.memory.g[:] = earlier.memory.g
        state.bias[0] = earlier.bias[0]
        add_all(self.examples, -self.h, state.memory.g, state.w)
        return state

    def resume(self, coef: Array, intercept: float, t: float) -> DualState:
        # The weights must be a sum over the examples: compute the g_i that the solution implies.
        state = self._zero()
        derivatives(self.problem.loss, self.problem.examples, coef, intercept, state.memory.g)
        add_all(self.examples, -self.h, state.memory.g, state.w)
        state.bias[0] = intercept
        if state.centre.size:
            state.bias[0] += coef @ state.centre
        return state

    def begin_epoch(self, state: DualState) -> DualState:
        if self.problem.fit_intercept:
            # Move the anchor to the current bias: the bias is then that minus h_b Σ g_i.
            state.bias[0] -= self.h_bias * self.sum_of_derivatives(state)
        return state

    def sum_of_derivatives(self, state: DualState) -> float:
        """Return ``Σ_i weight_i·g_i``."""
        return float(np.sum(self.problem.examples.weight * state.memory.g))

    def set_share(self, fraction: float) -> None:
        """Treat the problem's examples as this fraction of all; the rest are on other workers."""
        self.h *= fraction
        self.h_bias *= fraction

    def rows_to_visit(self, order: Array, state: DualState, rng: np.random.Generator) -> Array:
        # An example that did not move at its last k visits is visited with probability 2^-k: far
        # on the flat side of a hinge it would not move now either (LIBLINEAR's shrinking, but no
        # example is excluded permanently).
        idle = state.memory.idle
        if not idle.any():
            return order
        kept: Array = order[rng.random(order.size) < np.ldexp(1.0, -idle[order])]
        return kept

    def sweep(self, order: Array, state: DualState, sigma: float = 1.0) -> float:
        return dual_sweep(
            self.problem.loss,
            self.examples,
            order,
            self.h,
            self.h_bias,
            float(sigma),
            state,
        )

    def solution(self, state: DualState) -> tuple[Array, float]:
        if not state.centre.size:
            return state.w.copy(), float(state.bias[0])
        coef = plain_weights(state.w, state.centre)
        return coef, float(state.bias[0] - coef @ state.centre)
