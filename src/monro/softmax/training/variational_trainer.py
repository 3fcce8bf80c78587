"""Epochs of augment and reduce: one step for each mini-batch of rows."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.fitting.trainer import Record, Report, no_report
from monro.rows import Array, Rows, as_rows
from monro.softmax.kernel.state import State
from monro.softmax.model import Weights
from monro.softmax.training.problem import SoftmaxProblem
from monro.softmax.training.trainer import SoftmaxTrainer
from monro.variational.adaptive import (
    ClassSteps,
    growth_and_decay,
    link_classes,
    move_all,
    move_classes,
    rate_of_step,
    rescale_squares,
)
from monro.variational.augment_reduce import (
    BatchGradient,
    add_gradient,
    local_steps,
    new_augment_reduce_state,
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
    """Takes the steps of paper 001's Algorithms 1 and 2.

    Threads share the examples of a batch, then the classes it touches; the bits do not depend on
    their number, but for the sum of the bounds.
    """

    def __init__(self, *args: Any, **keywords: Any):
        super().__init__(*args, **keywords)
        W, problem, plan = self.state.W, self.problem, self.plan
        assert self.traits.e_step is not None
        self._model = self.traits.e_step(plan.link)
        self.memory = new_augment_reduce_state(
            self._model, problem.y.size, problem.n_classes, W, self.state.bias
        )
        self.spread: Spread | None = None
        if plan.posterior is not None:
            X, weight, counts = problem.X, problem.weight, problem.counts
            self.spread = new_spread(X, weight, counts, W.shape[0], plan.alpha)
        self._posterior: Any = None  # made on first use

    @cached_property
    def _gradient(self) -> BatchGradient:
        W = self.state.W
        return BatchGradient(np.zeros_like(W), np.zeros(W.shape[0], W.dtype))

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

    def finish(self, record: Record) -> dict[str, Any]:
        """Return the attributes of the estimator, with the local variables of the rows, if any."""
        attributes = super().finish(record)
        if not self.traits.is_variational:
            return attributes
        local = self.problem.fingerprint(), np.append(self.memory.location, self.memory.scale)
        attributes["_fitted"] = attributes["_fitted"]._replace(local=local)
        return attributes

    def _borders(self, n: int) -> list[int]:
        return [0, n]

    def visit(self, order: Array, rate: float, report: Report = no_report) -> float:
        """Step on the batches of `order`; return the sum of the examples' negative bounds."""
        plan, problem, state, memory = self.plan, self.problem, self.state, self.memory
        rows = as_rows(problem.X)
        m = self.sampler.per_step
        if self._posterior is None:
            self._posterior = (
                PointEstimate()
                if self.spread is None
                else make_posterior(plan.link, problem.X, self.spread, plan.examples, m)
            )
        g = np.empty((self._batch, m + 1), state.W.dtype)
        bound = 0.0
        for start in range(0, order.size, plan.examples):
            batch = order[start : start + plan.examples]
            drawn: Any = self.sampler.draw(batch, problem.y[batch], self.rng)
            noise = self._model.draw(batch.size, self.rng)
            if isinstance(self._posterior, SampledPosterior):
                normal = self._posterior.normal
                normal[:] = self.rng.standard_normal(normal.shape)

            def work(first: int, stop: int, batch=batch, drawn=drawn, noise=noise) -> float:  # type: ignore[no-untyped-def]
                return local_steps(
                    self._model,
                    rows,
                    problem.y,
                    problem.weight,
                    batch,
                    first,
                    stop,
                    drawn,
                    noise,
                    self.epochs,
                    state.W,
                    state.bias,
                    memory,
                    self._posterior,
                    g,
                )

            # A posterior collects what all examples contribute.
            bound += sum(self._in_threads(work, batch.size, parallel=self.spread is None))
            memory.steps[0] += 1
            if self._is_lazy:
                self._move_touched(rows, batch, drawn.chosen, g, rate)
            else:
                add_gradient(rows, problem.y, batch, drawn.chosen, g, self._gradient)
                self._move(rate)
            report(batch.size)
        return -bound

    def _in_threads(
        self, work: Callable[[int, int], Any], n: int, parallel: bool = True
    ) -> list[Any]:
        """Return the results of ``work(start, stop)`` on parts of 0…n, one for each thread."""
        if self._pool is None or not parallel:
            return [work(0, n)]
        borders = np.linspace(0, n, self.n_jobs + 1).astype(int)
        return list(self._pool.map(work, borders[:-1], borders[1:]))

    @property
    def _batch(self) -> int:
        """The largest number of rows in a batch."""
        return min(self.plan.examples, self.size)

    @cached_property
    def _is_lazy(self) -> bool:
        """Whether M steps are on the weights that a batch has touched; it is exact without a ridge.

        Where a batch touches a weight many times, it is faster to step on all weights.
        """
        plan, X = self.plan, self.problem.X
        row = X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1]
        touched = self._batch * (self.sampler.per_step + 1) * row
        return plan.alpha == 0.0 and self.spread is None and 8 * touched < self.state.W.size

    @cached_property
    def _lists(self) -> ClassSteps:
        entries = self._batch * (self.sampler.per_step + 1)
        slots = self.state.bias.size
        return ClassSteps(
            np.empty(min(entries, slots), np.int64),
            np.full(slots, -1, np.int64),
            np.empty(entries, np.int64),
        )

    def _move_touched(self, rows: Rows, batch: Array, chosen: Array, g: Array, rate: float) -> None:
        """Take the M step of a batch on the weights that it has touched."""
        state, memory, t = self.state, self.memory, int(self.memory.steps[0])
        bias_squares = memory.bias_squares if self.plan.damping > 0.0 else np.zeros_like(g[0, :0])
        for squares in (memory.squares, memory.bias_squares):
            rescale_squares(squares, t)
        factors = rate_of_step(rate, t), *growth_and_decay(t)
        lists, width = self._lists, state.W.shape[1]
        n_classes = link_classes(self.problem.y, batch, chosen, lists)

        def work(start: int, stop: int) -> None:
            gradient, stamp = np.zeros(width, state.W.dtype), np.zeros(width + 1, np.int64)
            move_classes(
                rows, batch, g, lists, start, stop, state.W, state.bias, memory.squares,
                bias_squares, gradient, stamp, *factors,
            )  # fmt: skip

        self._in_threads(work, n_classes)

    def _move(self, rate: float) -> None:
        """Take the M step of a batch on all weights."""
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
