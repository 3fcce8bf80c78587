"""The models of the path of strengths that alpha="auto" compares (`monro.fitting.path`)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils.extmath import safe_sparse_dot

from monro.coordinate import MOST_COLUMNS
from monro.fitting.order import visiting_order
from monro.fitting.path import (
    PathModel,
)
from monro.fitting.run import LabelledRows
from monro.fitting.splits import (
    Split,
    rows_to_compare,
)
from monro.linear.algorithms.dual import derivatives
from monro.linear.columns import Columns
from monro.linear.examples import Examples, add_all
from monro.linear.objective import mean_loss
from monro.linear.problem import Problem, columns_of
from monro.linear.rate import choose_rate
from monro.linear.side_by_side import SideBySide, Variant
from monro.linear.solvers import SOLVERS, make_solver
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import load_rows
from monro.rows import Array, Sparse

# The rows that strengths are fitted to have at most so many entries, but so many rows are taken.
_MOST_ENTRIES, _FEWEST_ROWS = 1 << 21, 10_000
_FEWEST_OF_A_CLASS = 200  # rows, unless that takes more entries
_MOST_OF_FOLDS = 1 << 23  # entries, those of one-vs-rest models added up
# A whole fit with alpha="auto" uses columns, too, which are a second copy of the rows.
_MOST_BY_COLUMNS = 1 << 24


class Fits(NamedTuple):
    """How the fits of a path are made: from warm starts, in few epochs."""

    solver: str
    epochs: int


Solutions = Sequence[tuple[Array, float]]  # the weights and the intercept of each model


class Kept(NamedTuple):
    """What the fit with the best strength found."""

    scores: Array  # of the rows held out
    solutions: Solutions


_FEWEST_STEPS, _MOST_EPOCHS = 5_000, 50  # of each fit by steps on rows: few are visited more often
# Of losses without kinks; with a ridge; with an L1 norm.
_SMOOTH, _KINKED, _SPARSE = Fits("coordinate", 4), Fits("dual", 3), Fits("implicit", 5)
_ENOUGH = 0.05  # of the objective: if a sweep has promised to gain less, it is the last one
_STEPS_PER_EPOCH = 3  # of steps side by side, which take a fraction of an epoch's time


def fits_of(problem: Problem) -> Fits:
    """Return how to make the fits of a path, whatever solver the whole fit has."""
    if not problem.loss.traits.has_kink:
        return _SMOOTH
    return _SPARSE if problem.penalty.has_kink else _KINKED


def goes_side_by_side(problem: Problem) -> bool:
    """Return whether models of all splits and classes are fitted side by side.

    Their sweeps take no short cut for columns that are few and resemble each other.
    """
    is_smooth = not problem.loss.traits.has_kink and not problem.penalty.has_kink
    return (
        is_smooth
        and problem.n_features > MOST_COLUMNS
        and isinstance(problem.examples.rows, Sparse)
    )


def fit_side_by_side(
    problems: Sequence[Problem], begin: Solutions, epochs: int, enough: float, n_jobs: int
) -> Solutions:
    """Return about the solutions of problems that share their rows and columns.

    Parameters
    ----------
    problems : sequence of Problem
    begin : sequence of (weights, intercept)
    epochs : int
        The steps take about as long as so many, at most.
    enough : float
        Of the objective: if a step has promised to gain less, it is the last one.
    n_jobs : int
    """
    loss, penalty, (_, _, weight), has_bias, *_ = problems[0]
    share = weight / weight.sum()
    variants = [Variant(problem.examples.y, share) for problem in problems]
    together = SideBySide(
        loss, columns_of(problems[0]), variants, begin, has_bias=has_bias, n_jobs=n_jobs
    )
    strength = float(penalty.strong_convexity())
    together.fit([strength] * len(problems), _STEPS_PER_EPOCH * epochs, enough)
    return together.solutions()


def may_fold(problems: list[Problem]) -> bool:
    """Return whether fits of all models to several folds take about as long as a few fits."""
    entries = sum(problem.examples.rows.data.size for problem in problems)
    return bool(entries <= _MOST_OF_FOLDS)


def few_enough_for_columns(problem: Problem) -> bool:
    """Return whether the rows are so few that a second copy of them, by columns, may be made."""
    return bool(problem.examples.rows.data.size <= _MOST_BY_COLUMNS)


def sample_rows(
    rows: LabelledRows, strata: Array | None, seed: int
) -> tuple[LabelledRows, Array | None]:
    """Return as many rows as strengths are compared on, in memory, and their numbers if not all.

    Strata are labels, of each of which enough rows are to be expected.
    """
    n = rows.y.size
    entries = rows.X.size if isinstance(rows.X, np.ndarray) else rows.X.data.size
    most = max(_FEWEST_ROWS, n * _MOST_ENTRIES // max(1, entries))
    enough = rows_to_compare(n, rows.X.shape[1])
    if strata is not None:
        fewest = np.unique(strata, return_counts=True)[1].min()
        enough = max(enough, _FEWEST_OF_A_CLASS * n // int(fewest))
    most = min(most, enough)
    if most >= n and not is_mapped(rows.X):
        return rows, None
    chosen = np.sort(np.random.default_rng(seed).choice(n, min(n, most), replace=False))
    X = load_rows(rows.X, chosen)
    return LabelledRows(X, np.asarray(rows.y[chosen]), np.asarray(rows.weight[chosen])), chosen


def strongest_lasso(problems: list[Problem], l1_ratio: float) -> float:
    """Return the weakest ``alpha·N`` at which no weight differs from 0."""
    most = 0.0
    for problem in problems:
        slopes = np.empty(problem.examples.y.size)
        gradient = np.zeros(problem.n_features)
        derivatives(problem.loss, problem.examples, gradient, best_constant(problem), slopes)
        add_all(problem.examples, 1.0, slopes, gradient)
        most = max(most, float(abs(gradient).max()))
    return most / l1_ratio


def best_constant(problem: Problem) -> float:
    """Return the intercept of the model without weights: the loss is convex in it."""
    if not problem.fit_intercept:
        return 0.0
    zero = np.zeros(problem.n_features)
    _, y, weight = problem.examples
    start = problem.loss.traits.starting_intercept(y, weight)
    return float(minimize_scalar(lambda b: mean_loss(problem, zero, b), (start, start + 1.0)).x)


class LinearPathModel(PathModel):
    """A linear model, or one for each class, fitted with one strength after the other.

    Parameters
    ----------
    estimator : LinearClassifier or LinearRegressor
        Its losses, targets and penalties are used.
    split : Split
    columns : Columns
        The columns to train weights for.
    seed : int
    n_jobs : int
        The number of threads for models of several classes.
    """

    def __init__(self, estimator: Any, split: Split, columns: Columns, seed: int, n_jobs: int):
        self.estimator = estimator
        self.n_rows = split.training.y.size
        self.held_out = split.held_out
        self.y, self.weight = split.held_out.y, split.held_out.weight
        self.columns = columns
        self.n_jobs = n_jobs
        problems = estimator._problems(split.training.with_mean_weight_one(), columns)
        self.fits = fits_of(problems[0])
        by_rows = not SOLVERS[self.fits.solver].by_columns
        fewest = -(-_FEWEST_STEPS // self.n_rows) if by_rows else 1
        self.epochs = max(self.fits.epochs, min(fewest, _MOST_EPOCHS))
        if not by_rows:
            by_columns = columns_of(problems[0])
            problems = [problem._replace(columns=by_columns) for problem in problems]
        self.problems: list[Problem] = problems
        zero = np.zeros(columns.kept)
        self.solutions: Solutions = [
            (zero, estimator._first_intercept(problem)) for problem in problems
        ]
        self.seed = seed
        self.rate = 1.0
        if SOLVERS[self.fits.solver].takes_rate:
            intercept, rng = self.solutions[0][1], np.random.default_rng(seed)
            self.rate = choose_rate(problems[0], self.fits.solver, 1.0, rng, intercept)
        self.scores: Array = np.zeros(0)
        self.kept = Kept(self.scores, self.solutions)

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        penalty = self.estimator._penalty_of(alpha)
        problems = [problem._replace(penalty=penalty) for problem in self.problems]
        if self.n_jobs == 1 or len(problems) == 1:
            self.solutions = list(map(self._fit, problems, self.solutions))
        else:
            with ThreadPoolExecutor(self.n_jobs) as pool:
                self.solutions = list(pool.map(self._fit, problems, self.solutions))

    def _fit(self, problem: Problem, earlier: tuple[Array, float]) -> tuple[Array, float]:
        """Return the weights and the intercept after a few epochs."""
        solver = make_solver(problem, self.fits.solver, eta0=self.rate)
        rng = np.random.default_rng(self.seed)
        state = solver.resume(*earlier, 0.0)
        order = np.arange(problem.examples.y.size)
        for _ in range(self.epochs):
            if solver.promised_gain(state) < _ENOUGH:
                break
            state = solver.begin_epoch(state)
            if not solver.traits.by_columns:
                order = visiting_order(problem.examples.y.size, rng)
            solver.sweep(solver.rows_to_visit(order, state, rng), state)
        return solver.solution(state)

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""
        coef = np.array([self.columns.widen(w) for w, _ in self.solutions])
        scores = safe_sparse_dot(self.held_out.X, coef.T, dense_output=True)
        self.scores = np.asarray(scores + [b for _, b in self.solutions], dtype=np.float64)
        losses: Array = self.estimator._losses_of(self.scores, self.held_out.y)
        return losses

    def keep(self) -> None:
        """Keep what the last fit found: it is the best so far."""
        self.kept = Kept(self.scores, self.solutions)

    def go_back(self) -> None:
        """Continue from the best fit."""
        self.solutions = self.kept.solutions

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        return sum(int(np.count_nonzero(w)) for w, _ in self.solutions)


class SideBySidePathModel(PathModel):
    """Linear models of all splits, fitted together with one strength after the other.

    Parameters
    ----------
    estimator : LinearClassifier or LinearRegressor
        Its losses and penalties are used.
    problems : sequence of Problem
        Those of all rows, one for each class.
    splits : sequence of Split
    n_jobs : int
    """

    n_rows = 1.0  # strengths are divided by the number of rows of each split

    def __init__(
        self, estimator: Any, problems: Sequence[Problem], splits: Sequence[Split], n_jobs: int
    ):
        self.estimator = estimator
        self.splits = splits
        self.n_models = len(problems)
        self.y = np.concatenate([split.rows.y[split.judged] for split in splits])
        self.weight = np.concatenate([split.rows.weight[split.judged] for split in splits])
        rows, _, weight = problems[0].examples
        zero = np.zeros(problems[0].n_features)
        variants, begin = [], []
        for split in splits:
            share = np.zeros(weight.size)
            share[split.fitted] = weight[split.fitted] / weight[split.fitted].sum()
            for problem in problems:
                y = problem.examples.y
                fitted = Examples(rows, y[split.fitted], weight[split.fitted])
                variants.append(Variant(y, share))
                begin.append((zero, estimator._first_intercept(problem._replace(examples=fitted))))
        self.together = SideBySide(
            problems[0].loss,
            columns_of(problems[0]),
            variants,
            begin,
            has_bias=problems[0].fit_intercept,
            n_jobs=n_jobs,
        )
        self.scores: Array = np.zeros(0)
        self.keep()

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        strengths = [
            float(self.estimator._penalty_of(alpha / split.fitted.size).strong_convexity())
            for split in self.splits
            for _ in range(self.n_models)
        ]
        self.together.fit(strengths, _SMOOTH.epochs, _ENOUGH)

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""
        of_splits = np.split(self.together.predictions(), len(self.splits))
        self.scores = np.concatenate(
            [each[:, split.judged].T for each, split in zip(of_splits, self.splits, strict=True)]
        )
        losses: Array = self.estimator._losses_of(self.scores, self.y)
        return losses

    def keep(self) -> None:
        """Keep what the last fit found, and the mean solution over the splits."""
        found = self.together.solutions()
        of_classes = [found[k :: self.n_models] for k in range(self.n_models)]
        means = [
            (np.mean([w for w, _ in each], axis=0), float(np.mean([b for _, b in each])))
            for each in of_classes
        ]
        self.kept = Kept(self.scores, means)
        self._best = self.together.copy()

    def go_back(self) -> None:
        """Continue from the best fit."""
        self.together.restore(self._best)

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        counts = [int(np.count_nonzero(w)) for w, _ in self.together.solutions()]
        size = self.n_models
        return max(sum(counts[k : k + size]) for k in range(0, len(counts), size))
