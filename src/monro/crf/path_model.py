"""c="auto" of taggers: the models of the path of strengths (`monro.fitting.path`), and the choice.

A split is two lists of sentence numbers: no sentence is encoded or copied to train on it.
Features that occur only in sentences that are held out have the weight 0.
"""

from typing import Any, NamedTuple

import numpy as np

from monro.crf.chain import all_allowed
from monro.crf.encoding import Hashed
from monro.crf.feature_map import Vocabulary
from monro.crf.problem import (
    FIXED_C,
    ChainProblem,
    make_ridge,
    make_scratch,
    mean_square,
    sentence_losses,
    take_sentences,
)
from monro.crf.sgd import SgdState
from monro.crf.solvers import SOLVERS, choose_rate, make_solver
from monro.crf.trainer import ChainTrainer
from monro.crf.weights import ChainWeights
from monro.errors import DivergenceError
from monro.fitting.path import Parameter, PathModel, StrengthPath, Strengths, follow_path
from monro.penalties import Ridge
from monro.progress import Progress
from monro.rows import Array

_SOLVER = "asgd"  # of the path: the best strength is that of the objective, not of the solver
_EPOCHS_SHARE = 5  # a fit of the path takes one in 5 of the epochs of a whole fit
_MOST_EPOCHS = 10
_FEW_SENTENCES = 300  # with fewer, folds
_FOLDS = 5
_HELD_OUT_SHARE = 10  # one sentence in 10
_MOST_JUDGED = 2000
# 1/c, in units of the mean square of the features' values. Neighbours must be near, because fits of
# two epochs follow each other.
_STRENGTHS = 10.0 ** np.arange(1.5, -5.0, -0.5)
_STREAM = 1  # of random numbers, besides those of the whole fit


class Split(NamedTuple):
    """The numbers of the sentences that are fitted, and of those that judge the fit."""

    training: Array
    held_out: Array


def c_of(alpha: float, sentences: float) -> float:
    """Return CRF++'s parameter for the strength of a ridge."""
    return 1.0 / (alpha * sentences)


class PathSteps(NamedTuple):
    """How each fit of a path takes its steps."""

    rate: float
    epochs: int
    shuffle: bool
    n_jobs: int
    seed: int


class ChainPathModel(PathModel):
    """A tagger that is fitted with one strength after the other, and judged by other sentences.

    Parameters
    ----------
    problem : ChainProblem
        All sentences.
    split : Split
    vocabulary : Vocabulary
    sentences : float
        The number of all sentences, counted by their weights.
    steps : PathSteps
    """

    def __init__(
        self,
        problem: ChainProblem,
        split: Split,
        vocabulary: Vocabulary,
        sentences: float,
        steps: PathSteps,
    ):
        training, held_out = split
        weight = float(problem.weight[training].sum())
        self.n_rows = sentences * weight / problem.size
        self.problem = problem._replace(weight=problem.weight * (training.size / weight))
        self.visited = np.zeros(problem.size, bool)
        self.visited[training] = True
        self.vocabulary = vocabulary
        self.steps = steps
        self.rng = np.random.default_rng([steps.seed, _STREAM])
        data, self.y = take_sentences(problem.data, problem.y, held_out)
        self.data = data._replace(values=data.values.astype(np.float64))
        self.tokens = np.maximum(np.diff(data.starts), 1)
        # The mean is one over tokens; its standard error is that of whole sentences.
        self.weight = problem.weight[held_out] * self.tokens
        self.state: SgdState | None = None
        self.weights: ChainWeights | None = None  # None: the last fit diverged

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        problem = self.problem._replace(penalty=Ridge(max(alpha, 1e-30)))
        solver = make_solver(problem, _SOLVER, self.steps.rate, self.steps.n_jobs)
        first = self.state is None
        self.weights = None
        self.state = solver.start() if self.state is None else _with_new_average(self.state)
        trainer = ChainTrainer(
            solver,
            self.state,
            self.vocabulary,
            self.n_rows,
            shuffle=self.steps.shuffle,
            rng=self.rng,
            earlier_epochs=int(self.steps.epochs == 1),  # a single epoch is averaged, too
            visited=self.visited,
        )
        try:
            with trainer:
                for _ in range(self.steps.epochs):
                    trainer.epoch()
        except DivergenceError:
            if first:
                raise
            return
        self.weights = trainer.weights()

    def losses(self) -> Array:
        """Return ``-log p(tags)`` of each sentence held out, divided by its number of tokens."""
        out = np.full(self.tokens.size, np.inf)
        if self.weights is not None:
            n_tags = self.problem.n_tags
            scratch = make_scratch(self.data, n_tags, np.float64)
            allowed = all_allowed(n_tags, np.float64)
            sentence_losses(self.data, self.y, self.weights, allowed, scratch, out)
        return out / self.tokens

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        assert self.weights is not None
        return sum(int(np.count_nonzero(part)) for part in self.weights)


def _with_new_average(state: SgdState) -> SgdState:
    """Return the state with the same weights, at the first step, and nothing averaged."""
    for part in state.total:
        part[:] = 0.0
    return SgdState(state.w, state.total, np.zeros(1), np.zeros(1))


def choose_c(
    tagger: Any, problem: ChainProblem, vocabulary: Vocabulary, sentences: float, seed: int
) -> StrengthPath:
    """Resolve c="auto": return the strength ``1/(c·sentences)`` that predicts best, and its path.

    Parameters
    ----------
    tagger : CRFTagger
        Its other parameters are used.
    problem, vocabulary, sentences
        As in `ChainPathModel`.
    seed : int
    """
    n = problem.size
    if n < 2:
        return StrengthPath(1.0 / (FIXED_C * sentences), [])
    splits = _make_splits(n, np.random.default_rng([seed, _STREAM]))
    if len(splits) > 1 and isinstance(vocabulary.features.single, Hashed):
        problem = _without_unused(problem)
    if tagger.learning_rate == "auto" or SOLVERS[tagger.solver].learns_gains:
        of_search = problem._replace(penalty=make_ridge(FIXED_C, sentences))
        rng = np.random.default_rng([seed, _STREAM])
        rate = choose_rate(of_search, _SOLVER, rng, visited=splits[0].training)
    else:
        rate = float(tagger.learning_rate)
    epochs = min(-(-int(tagger.max_epochs) // _EPOCHS_SHARE), _MOST_EPOCHS)
    steps = PathSteps(rate, epochs, bool(tagger.shuffle), tagger._threads(), seed)
    models = [ChainPathModel(problem, split, vocabulary, sentences, steps) for split in splits]
    unit = 1.0 if vocabulary.features.templates is not None else mean_square(problem.data.values)
    strengths = Strengths(unit * _STRENGTHS)
    with Progress(tagger.verbose > 0, "strength", strengths.values.size, n) as progress:
        weights = [model.weight for model in models]
        return follow_path(
            models, weights, sentences, strengths, progress.step, parameter=Parameter("c", c_of)
        )


def _make_splits(n: int, rng: np.random.Generator) -> list[Split]:
    """Return folds of few sentences, or one split that holds out a tenth of many."""
    order = rng.permutation(n)
    if n < _FEW_SENTENCES:
        parts = np.array_split(order, min(_FOLDS, n))
    else:
        parts = [order[: min(n // _HELD_OUT_SHARE, _MOST_JUDGED)]]
    return [Split(np.setdiff1d(order, part), np.sort(part)) for part in parts]


def _without_unused(problem: ChainProblem) -> ChainProblem:
    """Return the problem without hashed features that do not occur, so that folds stay small."""
    used, numbers = np.unique(problem.data.features, return_inverse=True)
    data = problem.data._replace(features=numbers.astype(np.uint32))
    return problem._replace(data=data, n_features=used.size)
