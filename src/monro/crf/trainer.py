"""The trainer of CRFs: epochs over the sentences of a problem."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from monro.crf.feature_map import FeatureMap, Vocabulary
from monro.crf.problem import (
    ChainProblem,
    is_mapped,
    objective,
    reading_sentences,
    take_sentences,
)
from monro.crf.solvers import Solver
from monro.crf.weights import ChainWeights
from monro.errors import DivergenceError
from monro.fitting.order import blocks_per_read, visiting_order
from monro.fitting.trainer import Record, Report, Trainer
from monro.fitting.watching import watched_rows
from monro.rows import Array

_PARTS = 20  # of an epoch, between reports of progress
_MAPPED_TOKENS = 1 << 19  # of mapped files to read ahead together
# A loss, in double precision, takes as long as a step.
_WATCHED_SHARE, _FEWEST_WATCHED = 0.05, 200
_RUNAWAY = 10.0  # times the loss of zero weights: the fit is diverging


class ChainFit(NamedTuple):
    """A fitted tagger: features and weights, and the state that the next fit may continue from."""

    features: FeatureMap
    weights: ChainWeights
    state: Any  # SgdState or GainState; None in a model for predictions only
    sentences: float  # trained on, counted by their weights


class ChainTrainer(Trainer):
    """Takes epochs on the sentences of a problem.

    Parameters
    ----------
    solver : Solver
    state : SgdState or GainState
        Where to begin.
    vocabulary : Vocabulary
        The features and tags of the model.
    sentences : float
        The number of sentences trained on, in this fit and earlier ones.
    shuffle : bool
        Whether each epoch visits the sentences in a new order.
    rng : Generator
        Orders the sentences.
    earlier_epochs : int
        Epochs of earlier fits: averaging begins after the first epoch of all.
    auto_rate : bool
        Whether the learning rate was chosen automatically, for messages.
    visited : array of bool, optional
        Which sentences to visit; by default all.
    """

    samples_objective = True

    def __init__(
        self,
        solver: Solver,
        state: Any,
        vocabulary: Vocabulary,
        sentences: float,
        *,
        shuffle: bool,
        rng: np.random.Generator,
        earlier_epochs: int = 0,
        auto_rate: bool = False,
        visited: Array | None = None,
    ):
        super().__init__(rng, solver.n_jobs)
        self.solver = solver
        self.problem = solver.problem
        self.state = state
        self.vocabulary = vocabulary
        self.sentences = sentences
        self.shuffle = shuffle
        self.earlier_epochs = earlier_epochs
        self.auto_rate = auto_rate
        self.title = f"CRF, {solver.name}"
        self.visited = visited
        self.rows_per_epoch = self.problem.size if visited is None else int(visited.sum())

    def visit_all(self, report: Report) -> Record:
        """Take a step on each sentence."""
        n, mapped = self.rows_per_epoch, is_mapped(self.problem.data)
        parts = _PARTS if n > 1000 * _PARTS else 1
        if mapped:
            parts = max(parts, -(-self.problem.y.size // _MAPPED_TOKENS))
        averages = self.epochs + self.earlier_epochs > 0
        total = 0.0
        for part in np.array_split(self._order(mapped), parts):
            with reading_sentences(self.problem, part):
                total += self.solver.sweep(part, self.state, averages, self._pool)
            report(part.size)
        return {"loss": total / n}

    def _order(self, mapped: bool) -> Array:
        """Return the order of the sentences in this epoch."""
        n = self.problem.size
        if not self.shuffle:
            order = np.arange(n)
        elif not mapped:  # a sentence is long enough to be fetched by itself
            order = self.rng.permutation(n)
        else:
            bytes_each = 2.0 * self.problem.data.features.nbytes / n
            order = visiting_order(n, self.rng, blocks_per_read(bytes_each))
        return order if self.visited is None else order[self.visited[order]]

    def check(self, record: Record) -> None:
        """Raise DivergenceError if the loss is far above that of zero weights."""
        problem = self.problem
        lengths = np.diff(problem.data.starts)
        at_zero = float(problem.weight @ lengths) / problem.size * np.log(problem.n_tags)
        if not record["loss"] <= _RUNAWAY * max(at_zero, 1.0):
            raise self._divergence(f" in epoch {record['epoch']}")

    def _divergence(self, when: str) -> DivergenceError:
        cure = "" if self.auto_rate else "use a smaller learning_rate or 'auto', or "
        return DivergenceError(
            f"solver={self.solver.name!r} diverged{when} with learning_rate={self.solver.eta0:g}: "
            f"{cure}scale the values of the features"
        )

    def weights(self) -> ChainWeights:
        """Return the weights, averaged where the solver averages."""
        return self.solver.solution(self.state)

    def objective(self) -> float:
        """Return the regularised mean loss, of some of the sentences."""
        return objective(self._watched, self.weights())

    @cached_property
    def _watched(self) -> ChainProblem:
        problem = self.problem
        chosen = watched_rows(problem.size, max(_FEWEST_WATCHED, _WATCHED_SHARE * problem.size))
        if chosen.size == problem.size:
            return problem
        data, y = take_sentences(problem.data, problem.y, chosen)
        return problem._replace(data=data, y=y, weight=problem.weight[chosen])

    def exact_objective(self) -> float:
        """Return the regularised mean loss."""
        return objective(self.problem, self.weights())

    def solution(self) -> dict[str, Any]:
        """Return the fitted object, the tags, and how they were fitted."""
        features, classes = self.vocabulary
        return {
            "_fitted": ChainFit(features, self.weights(), self.state, self.sentences),
            "classes_": classes,
            "solver_": self.solver.name,
            "learning_rate_": self.solver.eta0,
        }

    def finish(self, record: Record) -> dict[str, Any]:
        """Return the solution; raise DivergenceError unless all weights are finite."""
        solution = self.solution()
        if not all(np.isfinite(part).all() for part in solution["_fitted"].weights):
            raise self._divergence("")
        return solution
