"""The base class of linear solvers, their options, and their traits."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from monro.linear.problem import Problem
from monro.rows import Array

SETTLED = 1e-8  # of the objective: a sweep that promises to gain less is the last one
# The same where the strength was chosen and nothing is exactly 0: what the strength is chosen by
# is known far less accurately.
NEARLY_SETTLED = 1e-5


class Options(NamedTuple):
    """How a solver runs."""

    schedule: str = "bottou"
    eta0: float = 1.0  # the initial learning rate
    decay: float = 1.0
    state: Any = None  # an earlier one to continue from
    skip: int | None = None  # of solvers that learn gains: steps between passes over all weights


class Solver(ABC):
    """Minimises one problem, one sweep over its examples at a time.

    Parameters
    ----------
    problem : Problem
    traits : Traits
        Those of the solver's name in `monro.linear.solvers`.
    options : Options
    """

    state_types: Mapping[str, Any]  # the classes of its state, by their names in files

    def __init__(self, problem: Problem, traits: "Traits", options: Options):
        self.problem = problem
        self.traits = traits
        self.earlier = options.state

    def start(self, intercept: float = 0.0) -> Any:
        """Return the state to begin with: zero weights and this bias, or the earlier state."""
        if self.earlier is not None:
            return self.earlier
        return self.resume(np.zeros(self.problem.n_features), intercept, 0.0)

    @abstractmethod
    def resume(self, coef: Array, intercept: float, t: float) -> Any:
        """Return the state that continues from these weights and bias, found in t steps."""

    def begin_epoch(self, state: Any) -> Any:
        """Return the state to begin an epoch with."""
        return state

    def rows_to_visit(self, order: Array, state: Any, rng: np.random.Generator) -> Array:
        """Return the rows of `order` to visit in this epoch."""
        return order

    @abstractmethod
    def sweep(self, order: Array, state: Any, sigma: float = 1.0) -> float:
        """Step on each example of `order`, changing `state`; return the loss before each step.

        `sigma` is CoCoA+'s σ′ (Ma et al., 2015), the factor of a subproblem's quadratic term, which
        allows for steps on other copies of the weights at the same time.
        """

    def promised_gain(self, state: Any) -> float:
        """Return what the last sweep promised to gain, as a part of the objective, if known."""
        return np.inf

    @abstractmethod
    def solution(self, state: Any) -> tuple[Array, float]:
        """Return weights and bias."""


class Traits(NamedTuple):
    """What a solver needs and supports. Other modules read this instead of comparing names."""

    make: type[Solver]
    schedules: tuple[str, ...]
    averaged: bool = False  # the solution is the mean of the iterates
    centred: bool = False  # the mean row is always subtracted, which moves the intercept
    learns_gains: bool = False  # each weight has its own learning rate, learnt while training
    remembers_examples: bool = False  # the state has values for each example
    proximal: bool = False  # supports any penalty with a kink, by proximal steps
    takes_l1: bool = False  # supports penalties whose only kink is that of an L1 norm
    by_columns: bool = False  # an epoch visits features, not rows: a row must not move alone
    needs_smooth_loss: bool = False
    needs_alpha: bool = False  # divides by the strength of the ridge
    takes_rate: bool = True
    takes_decay: bool = True
    takes_center: bool = False  # the mean row may be subtracted
    has_partial_fit: bool = True
