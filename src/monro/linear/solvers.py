"""The solvers by name: which kernel, on which view of the rows, with which schedule.

A solver is built for one problem, anew or to go on from an earlier state, and then only asked to
`start`, `begin_epoch`, `sweep` and give its `solution`. All it remembers is in the state it gave.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from monro.linear.dual import (
    DualState,
    add_all,
    bias_pull,
    derivatives,
    dual_epoch,
    new_dual_state,
)
from monro.linear.implicit import implicit_epoch
from monro.linear.sgd import sgd_epoch
from monro.linear.sgdqn import GainState, new_gain_state, sgdqn_epoch, sgdqn_flawed_epoch
from monro.linear.state import Examples, Last, State, new_state, start_averaging, weights
from monro.losses import Loss
from monro.rows import Array, Biased, Centered, Sparse
from monro.schedules import Bottou, InverseT, SlowBottou


class Problem(NamedTuple):
    """What to minimise: ``lam/2 ‖w‖² + mean weight_i·loss(w·x_i + b, y_i)``."""

    loss: Loss
    examples: Examples
    lam: float
    fit_intercept: bool
    n_features: int


class Solver(Protocol):
    """A way to minimise one problem, a sweep over its examples at a time."""

    def start(self, intercept: float = 0.0) -> Any:
        """Return the state to begin with: zero weights and this bias, or the earlier state."""

    def resume(self, coef: Array, intercept: float, t: float) -> Any:
        """Return the state to go on with from a solution found otherwise, in t steps."""

    def begin_epoch(self, state: Any) -> Any:
        """Return the state to begin an epoch with."""

    def thin(self, order: Array, state: Any, rng: np.random.Generator) -> Array:
        """Leave out examples not worth a visit in this epoch."""

    def sweep(self, order: Array, state: Any, crowd: float = 1) -> float:
        """Step on each example of `order`, changing `state`; return the loss before each step.

        `crowd` says how many sweeps run at once, on copies of the weights to be averaged.
        """

    def solution(self, state: Any) -> tuple[Array, float]:
        """Return weights and bias."""


class Traits(NamedTuple):
    """What a solver can be asked for; the estimator's checks read this."""

    schedules: tuple[str, ...]
    needs_alpha: bool
    takes_rate: bool
    streams: bool


_BOTH = ("bottou", "inverse-t")
SOLVERS = {
    "sgd": Traits(_BOTH, False, True, True),
    "asgd": Traits(_BOTH, False, True, True),
    "casgd": Traits(_BOTH, False, True, True),
    "implicit": Traits(_BOTH, False, True, True),
    "aisgd": Traits(_BOTH, False, True, True),
    "sgdqn": Traits(("bottou",), True, True, True),
    "sgdqn-flawed": Traits(("bottou",), True, True, True),
    "dual": Traits((), True, False, False),
}

AVERAGED = ("asgd", "casgd", "aisgd")
LEARNT = ("sgdqn", "sgdqn-flawed")  # gains


def bias_damping(problem: Problem) -> float:
    """Return the share of a step that the bias takes.

    The bias is a feature that is always 1. Among sparse features, each small or rare, full steps
    would let it swing with every example.
    """
    if not problem.fit_intercept:
        return 0.0
    return 0.01 if _sparsity(problem) >= 4 else 1.0


class Descent:
    """sgd, asgd, casgd, implicit and aisgd: a kernel, a schedule, and the last or mean iterate."""

    def __init__(
        self,
        problem: Problem,
        name: str,
        schedule: str,
        eta0: float,
        decay: float,
        state: State | None,
    ):
        self.problem = problem
        self.averaged = name in AVERAGED
        self.from_start = schedule == "inverse-t"
        implicit = name in ("implicit", "aisgd")
        self.kernel = implicit_epoch if implicit else sgd_epoch
        if schedule == "inverse-t":
            self.schedule: Any = InverseT(problem.lam)
            self.damping = 0.0
        else:
            law = SlowBottou if self.averaged else Bottou
            self.schedule = law(eta0, decay * problem.lam)
            self.damping = bias_damping(problem)

        rows = problem.examples.rows
        self.size = problem.n_features
        self.mean = np.zeros(0)
        if name == "casgd":
            self.mean = _mean_row(problem) if state is None else state.centre
            rows = Centered(rows, self.mean, float(self.mean @ self.mean))
            self.size += 2
        # The papers' 1/(λt) regularises the bias as one more weight.
        self.biased = schedule == "inverse-t" and problem.fit_intercept
        if self.biased:
            rows = Biased(rows)
            self.size += 1
        self.examples = problem.examples._replace(rows=rows)
        self.earlier = state

    def start(self, intercept: float = 0.0) -> State:
        if self.earlier is not None:
            return self.earlier
        state = self.resume(np.zeros(self.problem.n_features), intercept, 0.0)
        return start_averaging(state) if self.averaged and self.from_start else state

    def resume(self, coef: Array, intercept: float, t: float) -> State:
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

    def begin_epoch(self, state: State) -> State:
        if self.averaged and isinstance(state.average, Last) and state.t[0] > 0.0:
            return start_averaging(state)
        return state

    def thin(self, order: Array, state: State, rng: np.random.Generator) -> Array:
        return order

    def sweep(self, order: Array, state: State, crowd: float = 1) -> float:
        return self.kernel(
            self.problem.loss,
            self.examples,
            order,
            self.schedule,
            self.problem.lam,
            self.damping,
            state,
        )

    def solution(self, state: State) -> tuple[Array, float]:
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


class QuasiNewton:
    """sgdqn and sgdqn-flawed."""

    def __init__(self, problem: Problem, name: str, eta0: float, state: GainState | None):
        self.problem = problem
        self.earlier = state
        self.flawed = name == "sgdqn-flawed"
        rows = problem.examples.rows
        size = problem.n_features
        if problem.fit_intercept:
            rows = Biased(rows)
            size += 1
        self.examples = problem.examples._replace(rows=rows)
        self.t0 = 1.0 / (problem.lam * eta0)
        self.gains = np.full(size, 1.0 / problem.lam if self.flawed else eta0)
        if problem.fit_intercept:
            self.gains[-1] *= bias_damping(problem)
        # Rare enough that the dense passes cost less than the sparse steps between them.
        self.skip = float(16 * _sparsity(problem))

    def start(self, intercept: float = 0.0) -> GainState:
        if self.earlier is not None:
            return self.earlier
        return self.resume(np.zeros(self.problem.n_features), intercept, 0.0)

    def resume(self, coef: Array, intercept: float, t: float) -> GainState:
        state = new_gain_state(self.gains.copy(), self.skip)
        state.w[: coef.size] = coef
        if self.problem.fit_intercept:
            state.w[-1] = intercept
        state.t[0] = t
        return state

    def begin_epoch(self, state: GainState) -> GainState:
        return state

    def thin(self, order: Array, state: GainState, rng: np.random.Generator) -> Array:
        return order

    def sweep(self, order: Array, state: GainState, crowd: float = 1) -> float:
        loss, lam, width = self.problem.loss, self.problem.lam, self.problem.n_features
        if self.flawed:
            return sgdqn_flawed_epoch(
                loss, self.examples, order, lam, self.skip, width, self.t0, state
            )
        return sgdqn_epoch(loss, self.examples, order, lam, self.skip, width, state)

    def solution(self, state: GainState) -> tuple[Array, float]:
        b = float(state.w[-1]) if self.problem.fit_intercept else 0.0
        return state.w[: self.problem.n_features].copy(), b


def _sparsity(problem: Problem) -> int:
    """Return how many times wider a row is than its non-zeros."""
    rows = problem.examples.rows
    if isinstance(rows, Sparse):
        return max(1, problem.n_features * problem.examples.y.size // max(1, rows.data.size))
    return 1


class Dual:
    """Dual coordinate ascent."""

    def __init__(self, problem: Problem, state: DualState | None):
        self.problem = problem
        self.earlier = state
        n = problem.examples.y.size
        self.h = 1.0 / (problem.lam * n)
        self.h_bias = 1.0 / (bias_pull(problem.loss) * n) if problem.fit_intercept else 0.0

    def start(self, intercept: float = 0.0) -> DualState:
        state = new_dual_state(self.problem.n_features, self.problem.examples.y.size)
        state.bias[0] = intercept
        if self.earlier is not None:
            if self.earlier.memory.g.size != state.memory.g.size:
                return self.resume(*self.solution(self.earlier), 0.0)
            # The rows may have changed: the weights that belong to these g_i must be summed anew.
            state.memory.g[:] = self.earlier.memory.g
            state.bias[0] = self.earlier.bias[0]
            add_all(self.problem.examples, -self.h, state.memory.g, state.w)
        return state

    def resume(self, coef: Array, intercept: float, t: float) -> DualState:
        # The weights are a sum over the examples; these are the g_i that the solution implies.
        state = new_dual_state(self.problem.n_features, self.problem.examples.y.size)
        derivatives(self.problem.loss, self.problem.examples, coef, intercept, state.memory.g)
        add_all(self.problem.examples, -self.h, state.memory.g, state.w)
        state.bias[0] = intercept
        return state

    def begin_epoch(self, state: DualState) -> DualState:
        if self.problem.fit_intercept:
            # Anchor the bias where it is: its part h_b Σ g_i of the sum starts anew from there.
            state.bias[0] -= self.h_bias * self.pull(state)
        return state

    def pull(self, state: DualState) -> float:
        """Return ``Σ g_i``."""
        return float(np.sum(self.problem.examples.weight * state.memory.g))

    def share(self, fraction: float) -> None:
        """Know that the problem's examples are but this fraction of all."""
        self.h *= fraction
        self.h_bias *= fraction

    def thin(self, order: Array, state: DualState, rng: np.random.Generator) -> Array:
        # An example that did not move at its last k visits is visited with probability 2^-k: far
        # on the flat side of a hinge it would not move now either (LIBLINEAR's shrinking, but
        # nothing is ever left out for good).
        idle = state.memory.idle
        if not idle.any():
            return order
        kept: Array = order[rng.random(order.size) < np.ldexp(1.0, -idle[order])]
        return kept

    def sweep(self, order: Array, state: DualState, crowd: float = 1) -> float:
        return dual_epoch(
            self.problem.loss,
            self.problem.examples,
            order,
            self.h,
            self.h_bias,
            float(crowd),
            state,
        )

    def solution(self, state: DualState) -> tuple[Array, float]:
        return state.w.copy(), float(state.bias[0])


def make_solver(
    problem: Problem,
    name: str,
    schedule: str = "bottou",
    eta0: float = 1.0,
    decay: float = 1.0,
    state: Any = None,
) -> Solver:
    """Build the solver of that name for a problem; `state` is an earlier one to go on from."""
    if name == "dual":
        return Dual(problem, state)
    if name in LEARNT:
        return QuasiNewton(problem, name, eta0, state)
    return Descent(problem, name, schedule, eta0, decay, state)
