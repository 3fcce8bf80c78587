"""The base of explicit and implicit stochastic gradient descent: everything but the step."""

from collections.abc import Callable
from typing import Any

import numpy as np

from monro.linear.algorithms.solver_base import Options, Solver, Traits
from monro.linear.descent_state import DescentState, Last, Mean, new_state, start_averaging, weights
from monro.linear.examples import add_all
from monro.linear.problem import Problem, bias_damping
from monro.rows import Array, Biased, Centered
from monro.schedules import Bottou, InverseT, SlowBottou


class Descent(Solver):
    """A kernel and a schedule; optionally averages the iterates and centres the rows."""

    state_types = {"State": DescentState, "Last": Last, "Mean": Mean}
    kernel: Callable[..., float]

    def __init__(self, problem: Problem, traits: Traits, options: Options):
        super().__init__(problem, traits, options)
        self.from_start = options.schedule == "inverse-t"  # average from the first epoch on
        if self.from_start:
            self.schedule: Any = InverseT(problem.penalty.strong_convexity())
            self.damping = 0.0
        else:
            law = SlowBottou if traits.averaged else Bottou
            self.schedule = law(options.eta0, options.decay * problem.penalty.strength)
            self.damping = bias_damping(problem)

        rows = problem.examples.rows
        self.size = problem.n_features
        self.mean = np.zeros(0)
        if traits.centred:
            self.mean = _mean_row(problem) if self.earlier is None else self.earlier.centre
            rows = Centered(rows, self.mean, float(self.mean @ self.mean))
            self.size += 2
        # The papers' 1/(λt) regularises the bias as one more weight.
        self.biased = self.from_start and problem.fit_intercept
        if self.biased:
            rows = Biased(rows)
            self.size += 1
        self.examples = problem.examples._replace(rows=rows)

    def start(self, intercept: float = 0.0) -> DescentState:
        state: DescentState = super().start(intercept)
        averages = self.earlier is None and self.traits.averaged and self.from_start
        return start_averaging(state) if averages else state

    def resume(self, coef: Array, intercept: float, t: float) -> DescentState:
        state = new_state(self.size)._replace(centre=self.mean)
        state.r[: coef.size] = coef
        state.t[0] = t
        if self.mean.size:
            shift = float(coef @ self.mean)
            state.r[self.mean.size + 1] = shift
            intercept += shift
        if self.biased:
            state.r[-1] = intercept
        else:
            state.bias[0] = intercept
        return state

    def begin_epoch(self, state: DescentState) -> DescentState:
        if self.traits.averaged and isinstance(state.average, Last) and state.t[0] > 0.0:
            return start_averaging(state)
        return state

    def sweep(self, order: Array, state: DescentState, sigma: float = 1.0) -> float:
        return self.kernel(
            self.problem.loss,
            self.problem.penalty.with_scratch(self.size),
            self.examples,
            order,
            self.schedule,
            self.damping,
            state,
        )

    def solution(self, state: DescentState) -> tuple[Array, float]:
        w, b = weights(state)
        if self.biased:
            b = float(w[-1])
        coef = w[: self.problem.n_features]
        if self.mean.size:  # w·(x - x̄) + b
            coef = coef - w[self.mean.size] * self.mean
            b -= float(coef @ self.mean)
        return coef, b


def _mean_row(problem: Problem) -> Array:
    weight = problem.examples.weight
    mean = np.zeros(problem.n_features)
    add_all(problem.examples, 1.0 / float(weight.sum()), np.ones(weight.size), mean)
    return mean
