"""Epochs of augment and reduce: one step a batch, all batches of an epoch different rows."""

from typing import Any

import numpy as np

from monro.fitting import Report
from monro.rows import Array, as_rows
from monro.softmax.adaptive import move_all, rate_of_step
from monro.softmax.evaluate import Weights
from monro.softmax.posterior import (
    Draws,
    Point,
    Spread,
    make_noise,
    move_spread,
    new_spread,
    standard_deviations,
)
from monro.softmax.reduce import Moves, make_model, new_memory, take_batch
from monro.softmax.state import State
from monro.softmax.train import Problem, Trainer

_WEIGHTS, _INTERCEPTS = 0.1, 0.001  # standard deviations to begin with


def begin_at_random(state: State, problem: Problem, rng: np.random.Generator) -> None:
    """Draw weights and intercepts as paper 001 does (section 4); 0 where no row has the feature."""
    n_classes = problem.counts.size
    occurs = np.asarray(abs(problem.X).sum(axis=0)).ravel() > 0.0
    state.W[:n_classes] = _WEIGHTS * rng.standard_normal((n_classes, state.W.shape[1])) * occurs
    state.bias[:n_classes] = _INTERCEPTS * rng.standard_normal(n_classes)


class ReduceTrainer(Trainer):
    """Takes the steps of paper 001's Algorithms 1 and 2, on one thread."""

    def __init__(self, *args: Any, **keywords: Any):
        super().__init__(*args, **keywords)
        W, problem, plan = self.state.W, self.problem, self.plan
        self._model = make_model(plan.link)
        self.memory = new_memory(self._model, problem.y.size, W, self.state.bias)
        self.spread: Spread | None = None
        if plan.posterior is not None:
            X, weight, counts = problem.X, problem.weight, problem.counts
            self.spread = new_spread(X, weight, counts, W.shape[0], plan.alpha)
        self._moves = Moves(np.zeros_like(W), np.zeros(W.shape[0], W.dtype))
        self._noise: Any = None

    @property
    def states(self) -> list[Any]:
        """What a checkpoint keeps."""
        return [self.state, self.memory] + ([self.spread] if self.spread is not None else [])

    @states.setter
    def states(self, states: list[Any]) -> None:
        self.state, self.memory, *spread = states
        self.spread = spread[0] if spread else None
        self._noise = None

    def weights(self) -> Weights:
        """Return the weights as they are, with their standard deviations where these are fitted."""
        weights = super().weights()
        if self.spread is None:
            return weights
        return weights._replace(spread=standard_deviations(self.spread, self.slots))

    def _borders(self, n: int) -> list[int]:
        return [0, n]

    def visit(self, order: Array, rate: float, report: Report = lambda rows: None) -> float:
        """Step on the batches of `order`; return the sum of the examples' negative bounds."""
        plan, problem, state, memory = self.plan, self.problem, self.state, self.memory
        rows = as_rows(problem.X)
        z = np.empty(self.sampler.per_step, state.W.dtype)
        if self._noise is None:
            self._noise = (
                Point()
                if self.spread is None
                else make_noise(plan.link, problem.X, self.spread, plan.examples, z.size)
            )
        bound = 0.0
        for start in range(0, order.size, plan.examples):
            batch = order[start : start + plan.examples]
            drawn: Any = self.sampler.draw(batch, problem.y[batch], self.rng)
            noise = self._model.draw(batch.size, self.rng)
            if isinstance(self._noise, Draws):
                self._noise.normal[:] = self.rng.standard_normal(self._noise.normal.shape)
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
                self._moves,
                self._noise,
                z,
            )
            memory.steps[0] += 1
            self._move(rate)
            report(batch.size)
        return -bound

    def _move(self, rate: float) -> None:
        plan, state, memory, spread = self.plan, self.state, self.memory, self.spread
        t = int(memory.steps[0])
        rho, first, ridge = rate_of_step(rate, t), t == 1, plan.alpha * self.problem.y.size
        real = slice(self.slots.size)  # slots that hold a class
        W, W_moves, W_squares = state.W, self._moves.W, memory.squares
        move_all(_flat(W), _flat(W_moves), _flat(W_squares), rho, first, ridge)
        if plan.damping > 0.0:
            bias_moves, bias_squares = self._moves.bias[real], memory.bias_squares[real]
            move_all(state.bias[real], bias_moves, bias_squares, rho, first, 0.0)
        if spread is None:
            return
        noise = self._noise
        gamma, moves, squares = _flat(spread.gamma), _flat(noise.moves), _flat(spread.squares)
        move_spread(gamma, moves, squares, rho, first, ridge, _flat(noise.variance))
        if plan.damping > 0.0:
            gamma, squares = spread.bias_gamma[real], spread.bias_squares[real]
            moves, variance = noise.bias_moves[real], noise.bias_variance[real]
            move_spread(gamma, moves, squares, rho, first, 0.0, variance)


def _flat(array: Array) -> Array:
    return array.reshape(-1)
