"""The base of explicit and implicit stochastic gradient descent: everything but the step."""

from collections.abc import Callable
from typing import Any

from monro.linear.algorithms.solver_base import Options, Solver, Traits
from monro.linear.centring import EXTRA, centred, plain_weights, set_weights
from monro.linear.descent_state import DescentState, Last, Mean, new_state, start_averaging, weights
from monro.linear.problem import Problem, bias_damping
from monro.rows import Array, Biased
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
        self.centre = problem.centre
        if self.centre.size:
            if self.earlier is not None:
                self.centre = _running_mean(self.earlier, self.centre, problem.examples.y.size)
            rows = centred(rows, self.centre)
            self.size += EXTRA
        # The papers' 1/(λt) regularises the bias as one more weight.
        self.biased = self.from_start and problem.fit_intercept
        if self.biased:
            rows = Biased(rows)
            self.size += 1
        self.examples = problem.examples._replace(rows=rows)

    def start(self, intercept: float = 0.0) -> DescentState:
        if self.earlier is not None:
            return self._moved(self.earlier) if self.centre.size else self.earlier
        state: DescentState = super().start(intercept)
        return start_averaging(state) if self.traits.averaged and self.from_start else state

    def _moved(self, state: DescentState) -> DescentState:
        """Return a state whose predictions are the same, of rows with the present centre."""
        old, new = state.centre, self.centre

        def moved(w: Array) -> tuple[Array, float]:
            found, coef = w.copy(), plain_weights(w, old)
            rise = set_weights(found, coef, new) - float(coef @ old)
            if self.biased:
                found[-1] += rise
            return found, 0.0 if self.biased else rise

        r, rise = moved(state.r)
        bias, seen = state.bias + state.scale * rise, state.seen + self.problem.examples.y.size
        state = state._replace(r=r, bias=bias, centre=new, seen=seen)
        average = state.average
        if isinstance(average, Mean):
            u, fall = moved(average.u)
            biases = average.biases + (average.scales * rise - fall)
            state = state._replace(average=average._replace(u=u, biases=biases))
        return state

    def resume(self, coef: Array, intercept: float, t: float) -> DescentState:
        state = new_state(self.size)._replace(centre=self.centre)
        state.r[: coef.size] = coef
        state.t[0] = t
        if self.centre.size:
            intercept += set_weights(state.r, coef, self.centre)
            state.seen[0] = self.problem.examples.y.size
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
        if not self.centre.size:
            return w[: self.problem.n_features], b
        coef = plain_weights(w, self.centre)
        return coef, b - float(coef @ self.centre)  # w·(x - x̄) + b


def _running_mean(state: DescentState, mean: Array, count: int) -> Array:
    """Return the mean of the rows whose mean a state has and of `count` more."""
    moved: Array = state.centre + (count / (state.seen[0] + count)) * (mean - state.centre)
    return moved
