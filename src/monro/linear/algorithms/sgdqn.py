"""SGD-QN: a gain for each feature, learnt from observed curvature (paper 004, Figure 4).

Minimise ``λ/2 ‖w‖² + mean_i ℓ(w·x_i, y_i)`` by ``w ← w - B g_t(w)`` with diagonal gains B. Between
a past point v and the present w the gradient of one example changes by

    ``[g_t(w) - g_t(v)]_i / [w - v]_i = λ + (ℓ'(w·x) - ℓ'(v·x)) x_i / (w_i - v_i) = r_i``,

an estimate of the i-th curvature. The corrected algorithm, here, takes a fresh example for it and
adds the curvatures up: ``1/B_ii`` grows by r_i a step. (`sgdqn_flawed` has the algorithm of 2009.)
The mean of the iterates costs another O(nnz) a step.

All D weights are touched only once in `skip` steps. A bias is one more coordinate (`rows.Biased`),
with a gain but no ridge.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, kernel, leaf
from monro.linear.algorithms.solver_base import Options, Solver, Traits
from monro.linear.descent_state import (
    Average,
    Last,
    Mean,
    add_gained_row,
    add_iterate,
    mean_iterate,
    multiply,
    new_mean,
)
from monro.linear.examples import Examples, look_ahead
from monro.linear.problem import Problem, bias_damping, sparsity
from monro.losses import Loss, derivative, value
from monro.penalties import Penalty, strong_convexity
from monro.rows import Array, Biased, Rows, add, dot
from monro.saving.states import PerFeature

Rule = Any  # Always | IfSlopeChanged; Numba resolves which


@generic
def counts(rule: Rule, change: float) -> bool:
    """Return whether a measurement counts in which the slope of the loss changed by that much."""
    return bool(rule.counts(change))


class Always(NamedTuple):
    """Every measurement counts, as in Figure 4."""

    def counts(self, change):  # type: ignore[no-untyped-def]
        return True


class IfSlopeChanged(NamedTuple):
    """Gains stay as they are where the slope of the loss has not changed, as for most hinges.

    The paper does not say so; it is what a port of the authors' program does.
    """

    def counts(self, change):  # type: ignore[no-untyped-def]
        return change != 0.0


class GainState(NamedTuple):
    """Weights w, the past point v, the gains B, and the position in the cycle of `skip` steps."""

    w: PerFeature
    v: PerFeature
    gains: PerFeature
    t: Array
    countdown: Array
    measure: Array  # 1 when the next step measures the curvature
    measured: Array  # number of measurements so far
    x: PerFeature  # scratch buffer for one dense row; zero between steps
    average: Average = Last()


def new_gain_state(gains: Array, skip: float) -> GainState:
    """Return the state of zero weights."""
    one = np.zeros(1)
    w = np.zeros_like(gains)
    return GainState(w, w.copy(), gains, one, np.full(1, skip), one.copy(), one.copy(), w.copy())


@leaf
def curvature(lam: float, change: float, x: float, moved: float) -> float:
    """``r_i``, at most 100λ; λ where x_i = 0, else 100λ where w_i has not changed."""
    if x == 0.0:
        return lam
    if moved == 0.0:
        return 100.0 * lam
    return min(lam + change * x / moved, 100.0 * lam)


@leaf
def spread(rows: Rows, i: int, x: Array) -> None:
    """Write row i into the dense vector x."""
    x[:] = 0.0
    add(rows, i, 1.0, x)


@kernel
def sgdqn_sweep(
    loss: Loss,
    penalty: Penalty,
    examples: Examples,
    order: Array,
    skip: float,
    penalised: int,
    rule: Rule,
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

        if state.measure[0] != 0.0:
            change = examples.weight[i] * (slope - derivative(loss, dot(rows, i, v), y))
            if counts(rule, change):
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
                multiply(state.average, k, max(0.0, 1.0 - skip * lam * B[k]), w)

        if slope != 0.0:
            add_gained_row(state.average, rows, i, -examples.weight[i] * slope, B, w)
        add_iterate(state.average, 1.0, 0.0)
        state.t[0] += 1.0
    return total


class QuasiNewton(Solver):
    """The solvers "sgdqn" and, with averaging, "asgdqn"."""

    state_types = {"GainState": GainState, "Last": Last, "Mean": Mean}
    rule: Rule = Always()

    def __init__(self, problem: Problem, traits: Traits, options: Options):
        super().__init__(problem, traits, options)
        rows = problem.examples.rows
        size = problem.n_features
        if problem.fit_intercept:
            rows = Biased(rows)
            size += 1
        self.examples = problem.examples._replace(rows=rows)
        self.gains = np.full(size, self.first_gain(options.eta0))
        if problem.fit_intercept:
            self.gains[-1] *= bias_damping(problem)
        # By default so large that the dense passes cost less than the sparse steps between them.
        self.skip = float(options.skip or 16 * sparsity(problem))

    def first_gain(self, eta0: float) -> float:
        """Return the gain of each weight before any curvature is known."""
        return eta0

    def resume(self, coef: Array, intercept: float, t: float) -> GainState:
        state = new_gain_state(self.gains.copy(), self.skip)
        state.w[: coef.size] = coef
        if self.problem.fit_intercept:
            state.w[-1] = intercept
        state.t[0] = t
        return state

    def begin_epoch(self, state: GainState) -> GainState:
        if self.traits.averaged and isinstance(state.average, Last) and state.t[0] > 0.0:
            return state._replace(average=new_mean(state.w.size))
        return state

    def sweep(self, order: Array, state: GainState, sigma: float = 1.0) -> float:
        loss, penalty, width = self.problem.loss, self.problem.penalty, self.problem.n_features
        return sgdqn_sweep(loss, penalty, self.examples, order, self.skip, width, self.rule, state)

    def solution(self, state: GainState) -> tuple[Array, float]:
        averages = isinstance(state.average, Mean) and state.average.steps[0] > 0.0
        w = mean_iterate(state.average, state.w) if averages else state.w
        b = float(w[-1]) if self.problem.fit_intercept else 0.0
        return w[: self.problem.n_features].copy(), b
