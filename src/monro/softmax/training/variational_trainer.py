"""Epochs of augment and reduce: one step for each mini-batch of rows."""

from typing import Any

import numpy as np

from monro.fitting.trainer import Report, no_report
from monro.rows import Array, as_rows
from monro.softmax.kernel.state import State
from monro.softmax.model import Weights
from monro.softmax.training.problem import SoftmaxProblem
from monro.softmax.training.trainer import SoftmaxTrainer
from monro.variational.adaptive import move_all, rate_of_step
from monro.variational.augment_reduce import (
    BatchGradient,
    make_model,
    new_augment_reduce_state,
    take_batch,
)
from monro.variational.posterior import (
    PointEstimate,
    SampledPosterior,
    Spread,
    make_posterior,
    move_spread,
    new_spread,
    standard_deviations,
)

_INITIAL_WEIGHT_SD, _INITIAL_INTERCEPT_SD = 0.1, 0.001


def draw_initial_weights(state: State, problem: SoftmaxProblem, rng: np.random.Generator) -> None:
    """Draw weights and intercepts as in paper 001 (section 4); 0 for features that no row has."""
    n_classes = problem.counts.size
    occurs = np.asarray(abs(problem.X).sum(axis=0)).ravel() > 0.0
    W = rng.standard_normal((n_classes, state.W.shape[1]))
    state.W[:n_classes] = _INITIAL_WEIGHT_SD * W * occurs
    state.bias[:n_classes] = _INITIAL_INTERCEPT_SD * rng.standard_normal(n_classes)


class AugmentReduceTrainer(SoftmaxTrainer):
    """Takes the steps of paper 001's Algorithms 1 and 2, on one thread."""

    def __init__(self, *args: Any, **keywords: Any):
        super().__init__(*args, **keywords)
        W, problem, plan = self.state.W, self.problem, self.plan
        self._model = make_model(plan.link)
        self.memory = new_augment_reduce_state(self._model, problem.y.size, W, self.state.bias)
        self.spread: Spread | None = None
        if plan.posterior is not None:
            X, weight, counts = problem.X, problem.weight, problem.counts
            self.spread = new_spread(X, weight, counts, W.shape[0], plan.alpha)
        self._gradient = BatchGradient(np.zeros_like(W), np.zeros(W.shape[0], W.dtype))
        self._posterior: Any = None  # made on first use

    @property
    def states(self) -> list[Any]:
        """The weights, the local variables, and the posterior where one is fitted."""
        return [self.state, self.memory] + ([self.spread] if self.spread is not None else [])

    @states.setter
    def states(self, states: list[Any]) -> None:
        self.state, self.memory, *spread = states
        self.spread = spread[0] if spread else None
        self._posterior = None

    def weights(self) -> Weights:
        """Return the current weights, with their standard deviations if a posterior is fitted."""
        weights = super().weights()
        if self.spread is None:
            return weights
        return weights._replace(spread=standard_deviations(self.spread, self.problem.slots))

    def _borders(self, n: int) -> list[int]:
        return [0, n]

    def visit(self, order: Array, rate: float, report: Report = no_report) -> float:
        """Step on the batches of `order`; return the sum of the examples' negative bounds."""
        plan, problem, state, memory = self.plan, self.problem, self.state, self.memory
        rows = as_rows(problem.X)
        z = np.empty(self.sampler.per_step, state.W.dtype)
        if self._posterior is None:
            self._posterior = (
                PointEstimate()
                if self.spread is None
                else make_posterior(plan.link, problem.X, self.spread, plan.examples, z.size)
            )
        bound = 0.0
        for start in range(0, order.size, plan.examples):
            batch = order[start : start + plan.examples]
            drawn: Any = self.sampler.draw(batch, problem.y[batch], self.rng)
            noise = self._model.draw(batch.size, self.rng)
            if isinstance(self._posterior, SampledPosterior):
                normal = self._posterior.normal
                normal[:] = self.rng.standard_normal(normal.shape)
            bound += take_batch(
                self._model,
                rows,
                problem.y,
                problem.weight,
                batch,
                drawn,
                noise,
                self.epochs,
                state.W,
                state.bias,
                memory,
                self._gradient,
                self._posterior,
                z,
            )
            memory.steps[0] += 1
            self._move(rate)
            report(batch.size)
        return -bound

    def _move(self, rate: float) -> None:
        """Take the M step of a batch."""
        plan, state, memory, spread = self.plan, self.state, self.memory, self.spread
        t = int(memory.steps[0])
        rho, first, ridge = rate_of_step(rate, t), t == 1, plan.alpha * self.problem.y.size
        real = slice(self.problem.n_classes)  # slots that hold a class
        W, gradient, squares = state.W, self._gradient, memory.squares
        move_all(_flat(W), _flat(gradient.W), _flat(squares), rho, first, ridge)
        if plan.damping > 0.0:
            squares = memory.bias_squares[real]
            move_all(state.bias[real], gradient.bias[real], squares, rho, first, 0.0)
        if spread is None:
            return
        posterior = self._posterior
        gamma, squares = _flat(spread.gamma), _flat(spread.squares)
        precision, variance = _flat(posterior.precision), _flat(posterior.variance)
        move_spread(gamma, precision, squares, rho, first, ridge, variance)
        if plan.damping > 0.0:
            gamma, squares = spread.bias_gamma[real], spread.bias_squares[real]
            precision, variance = posterior.bias_precision[real], posterior.bias_variance[real]
            move_spread(gamma, precision, squares, rho, first, 0.0, variance)


def _flat(array: Array) -> Array:
    return array.reshape(-1)
