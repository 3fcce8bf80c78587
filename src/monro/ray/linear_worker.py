"""A worker of a linear model: steps on its row shard, from weights that all workers share.

In a round every worker begins at the common weights and steps on a piece of its shard; then the
results are combined.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from monro.fitting.order import visiting_order
from monro.fitting.row_shard import RowShard
from monro.fitting.run import LabelledRows
from monro.linear.algorithms.dual import Dual, DualState
from monro.linear.classifier import LinearClassifier
from monro.linear.columns import Columns
from monro.linear.descent_state import ExampleMemory
from monro.linear.objective import total_loss
from monro.linear.trainer import SingleModel
from monro.rows import Array


class LinearModel(NamedTuple):
    """Weights, (models, features), and intercepts, (models,)."""

    coef: Array
    intercept: Array


class RoundStart(NamedTuple):
    """The input of a round."""

    now: LinearModel | None  # None: at the start of the fit
    epochs: float  # taken before the round
    averages: bool  # whether the round counts in the mean of the iterates
    sigma: float  # σ′ of CoCoA+, for the dual solver


class RoundResult(NamedTuple):
    """The result of a worker's round."""

    now: LinearModel  # the last iterate
    mean: LinearModel  # of the iterates
    loss: float  # sum over the examples, each before the step on it
    steps: int
    derivative_sum: Array  # (models,): Σ_i g_i, after the last piece of the dual solver
    memory: ExampleMemory | None  # (models, examples), after the same


class Iterates(NamedTuple):
    """The common weights, and the mean of the iterates of all workers and rounds (paper 002)."""

    now: LinearModel | None = None
    mean: LinearModel | None = None
    rounds: int = 0  # number of rounds in the mean

    def average(
        self, results: Sequence[RoundResult], sizes: Sequence[int], *, counts: bool
    ) -> "Iterates":
        """Return the iterates after a round; `counts` says whether the round is part of the mean.

        Workers are weighted by their numbers of examples, `sizes`.
        """
        now = mean_model([result.now for result in results], sizes)
        mean = mean_model([result.mean for result in results], sizes)
        mean = mean_model([self.mean or mean, mean], [self.rounds, 1])
        return Iterates(now, mean, self.rounds + counts)


def mean_model(models: Sequence[LinearModel], weights: Sequence[int]) -> LinearModel:
    """Return the weighted mean of models."""
    coef, intercept = (np.stack(each) for each in zip(*models, strict=True))
    share = np.array(weights) / sum(weights)
    return LinearModel(np.tensordot(share, coef, 1), np.tensordot(share, intercept, 1))


def _stack(solutions: Iterable[tuple[Array, float]]) -> LinearModel:
    coef, intercept = zip(*solutions, strict=True)
    return LinearModel(np.array(coef), np.array(intercept))


def _last_iterate(state: Any) -> tuple[Array, float]:
    if isinstance(state, DualState):
        return state.w, float(state.bias[0])
    return state.scale[0] * state.r, float(state.bias[0])


class LinearWorker:
    """A row shard, and the linear models that learn from it.

    Parameters
    ----------
    estimator : LinearClassifier
        Has the parameters, the solver's name and the classes.
    shard : RowShard
    n_examples : int
        The number of examples in all shards.
    """

    def __init__(self, estimator: LinearClassifier, shard: RowShard, n_examples: int):
        self.estimator = estimator
        rows = LabelledRows(shard.X, shard.y, shard.weight)
        self.problems = estimator._problems(rows, Columns(shard.X.shape[1]))
        self.size = int(shard.y.size)
        rng = np.random.default_rng(0)
        self.models = estimator._models(self.problems, rng, streaming=False)
        for model in self.models:
            if isinstance(model.solver, Dual):
                model.solver.set_share(self.size / n_examples)

    def rate(self) -> float | None:
        """Return the learning rate that suits this shard."""
        return self.estimator.learning_rate_

    def set_memory(self, g: Array, idle: Array) -> None:
        """Set the dual solver's memory of the examples, (models, examples)."""
        for k, model in enumerate(self.models):
            model.state.memory.g[:], model.state.memory.idle[:] = g[k], idle[k]

    def round(self, start: RoundStart, piece: int, pieces: int, seed: Any) -> RoundResult:
        """Step on a piece of the shard."""
        rng = np.random.default_rng(seed)
        order = np.array_split(visiting_order(self.size, rng), pieces)[piece]
        loss, steps = 0.0, 0
        for k, model in enumerate(self.models):
            self._begin(start, k, model)
            visited = model.solver.rows_to_visit(order, model.state, rng)
            loss += model.solver.sweep(visited, model.state, start.sigma)
            steps += visited.size
        now = _stack(_last_iterate(model.state) for model in self.models)
        mean = _stack(model.solution() for model in self.models)
        result = RoundResult(now, mean, loss, steps, np.zeros(0), None)
        dual = [(m.solver, m.state) for m in self.models if isinstance(m.solver, Dual)]
        if not dual or piece < pieces - 1:
            return result
        sums = np.array([solver.sum_of_derivatives(state) for solver, state in dual])
        g, idle = (np.array([state.memory[k] for _, state in dual]) for k in (0, 1))
        return result._replace(derivative_sum=sums, memory=ExampleMemory(g, idle))

    def _begin(self, start: RoundStart, k: int, model: SingleModel) -> None:
        """Set the weights of a model to the common ones."""
        if start.now is None:
            return
        w, b = start.now.coef[k], float(start.now.intercept[k])
        if isinstance(model.solver, Dual):
            model.state.w[:], model.state.bias[0] = w, b
            return
        model.state = model.solver.resume(w, b, start.epochs * self.size)
        if start.averages:
            model.state = model.solver.begin_epoch(model.state)

    def loss(self, solution: LinearModel) -> float:
        """Return the sum of the examples' losses, averaged over the models."""
        pairs = zip(self.problems, *solution, strict=True)
        each = [total_loss(p.loss, p.examples, w, float(b)) for p, w, b in pairs]
        return float(np.mean(each))
