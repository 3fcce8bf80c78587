"""The models of the path of strengths that alpha="auto" compares (`monro.fitting.path`)."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.utils.extmath import safe_sparse_dot

from monro.fitting.path import Split
from monro.fitting.run import LabelledRows
from monro.linear.algorithms.dual import derivatives
from monro.linear.examples import add_all
from monro.linear.objective import mean_loss
from monro.linear.problem import Problem
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import load_rows
from monro.rows import Array

_MOST_ENTRIES = 1 << 23  # of the rows that strengths are compared on
# A whole fit with alpha="auto" uses columns, too, which are a second copy of the rows.
_MOST_BY_COLUMNS = 1 << 24


class Fits(NamedTuple):
    """How the fits of a path are made: from warm starts, in few epochs."""

    solver: str
    epochs: int


# Of losses without kinks; with a ridge; with an L1 norm.
_SMOOTH, _KINKED, _SPARSE = Fits("coordinate", 2), Fits("dual", 3), Fits("implicit", 5)


def fits_of(problem: Problem) -> Fits:
    """Return how to make the fits of a path, whatever solver the whole fit has."""
    if not problem.loss.traits.has_kink:
        return _SMOOTH
    return _SPARSE if problem.penalty.has_kink else _KINKED


def few_enough_for_columns(problem: Problem) -> bool:
    """Return whether the rows are so few that a second copy of them, by columns, may be made."""
    return bool(problem.examples.rows.data.size <= _MOST_BY_COLUMNS)


def sample_rows(rows: LabelledRows, seed: int) -> tuple[LabelledRows, Array | None]:
    """Return as many rows as strengths are compared on, in memory, and their numbers if not all."""
    n = rows.y.size
    entries = rows.X.size if isinstance(rows.X, np.ndarray) else rows.X.data.size
    most = max(1, n * _MOST_ENTRIES // max(1, entries))
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


class LinearPathModel:
    """A linear estimator that is fitted with one strength after the other.

    Parameters
    ----------
    estimator : LinearClassifier or LinearRegressor
        Its loss and penalty are used.
    split : Split
    fits : Fits
    seed : int
    """

    def __init__(self, estimator: Any, split: Split, fits: Fits, seed: int):
        self.n_rows = split.training.y.size
        self.training = split.training
        self.held_out = split.held_out
        self.model = clone(estimator).set_params(
            solver=fits.solver,
            max_epochs=fits.epochs,
            schedule="bottou",
            learning_rate="auto",
            decay=1.0,
            skip=None,
            center=False,
            scale=False,
            max_steps=None,
            tol=None,
            early_stopping=False,
            warm_start=True,
            n_jobs=None,
            random_state=seed,
            verbose=0,
        )
        self.model.set_callbacks()
        self.model.n_features_in_ = estimator.n_features_in_
        if hasattr(estimator, "classes_"):
            self.model.classes_ = estimator.classes_
        self.scores: Array = np.zeros(0)
        self.kept: Array = self.scores

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        self.model.alpha = alpha
        self.model._fit(self.training)

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""
        model = self.model
        coef = np.atleast_2d(model.coef_)
        scores = safe_sparse_dot(self.held_out.X, coef.T, dense_output=True)
        self.scores = np.asarray(scores + model.intercept_, dtype=np.float64)
        losses: Array = model._losses_of(self.scores, self.held_out.y)
        return losses

    def keep(self) -> None:
        """Keep the scores of the rows held out: they are those of the best fit so far."""
        self.kept = self.scores

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        return int(np.count_nonzero(self.model.coef_))
