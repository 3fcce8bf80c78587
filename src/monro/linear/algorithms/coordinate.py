"""Coordinate descent on a quadratic model of the loss: the solver for sparse weights.

An epoch is one step of a proximal Newton method for ``F(w, b) = (1/N) Σ_i ℓ(w·x_i + b, y_i) +
λ₁‖w‖₁ + λ₂/2 ‖w‖²`` (`monro.coordinate`).
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel
from monro.coordinate import TINY, Strengths, new_model, newton_step
from monro.linear.algorithms.solver_base import Options, Solver, Traits
from monro.linear.problem import Problem, columns_of
from monro.rows import Array, Rows, add
from monro.saving.states import PerFeature


class CoordinateState(NamedTuple):
    """Weights and bias."""

    w: PerFeature
    bias: Array
    gain: Array  # what the last epoch promised, as a part of the objective before it


@kernel
def predict(columns: Rows, w: Array, b: float, out: Array) -> None:
    """``out_i = w·x_i + b``, from the columns whose weights are not zero."""
    out[:] = b
    for j in range(w.size):
        if w[j] != 0.0:
            add(columns, j, w[j], out)


class Coordinate(Solver):
    """coordinate."""

    state_types = {"CoordinateState": CoordinateState}

    def __init__(self, problem: Problem, traits: Traits, options: Options):
        super().__init__(problem, traits, options)
        self.columns = columns_of(problem)
        penalty = problem.penalty
        self.strengths = Strengths(
            float(penalty.l1_strength()) if penalty.has_kink else 0.0,
            float(penalty.strong_convexity()),
            problem.fit_intercept,
        )
        self.model = new_model(problem.examples.y.size, problem.n_features)

    def resume(self, coef: Array, intercept: float, t: float) -> CoordinateState:
        return CoordinateState(coef.copy(), np.array([intercept]), np.array([np.inf]))

    def start(self, intercept: float = 0.0) -> CoordinateState:
        if self.earlier is None:
            return self.resume(np.zeros(self.problem.n_features), intercept, 0.0)
        w, bias, *_ = self.earlier  # it may have settled on other rows
        return self.resume(w, bias[0], 0.0)

    def promised_gain(self, state: CoordinateState) -> float:
        return float(state.gain[0])

    def sweep(self, order: Array, state: CoordinateState, sigma: float = 1.0) -> float:
        examples, model = self.problem.examples, self.model
        predict(self.columns, state.w, state.bias[0], model.p)
        before = self.problem.penalty.value(state.w)
        total, fall, t, c = newton_step(
            self.problem.loss, examples.y, examples.weight, examples.rows, self.columns,
            self.strengths, state.w, model,
        )  # fmt: skip
        state.bias[0] += t * c
        state.gain[0] = -fall / max(abs(total) / examples.y.size + before, TINY)
        return total

    def solution(self, state: CoordinateState) -> tuple[Array, float]:
        return state.w.copy(), float(state.bias[0])
