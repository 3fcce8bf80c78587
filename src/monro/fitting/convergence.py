"""A fit that has clearly not converged says so.

After the last epoch a single step of gradient descent is tried, and forgotten. Its gradient is
divided by the variance of each column, so that it is a good step whatever the units of the columns,
and its length is found by a search. If even such a step lowers the objective by much, the fit is
far from its minimum: because columns are in very different units, the learning rate does not suit,
or the epochs are too few. Of many rows, the step is computed on some and judged on others, so that
what it memorises does not count.
"""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from monro.coordinate import Strengths
from monro.fitting.conditioning import scales_columns
from monro.fitting.run import Run
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import load_rows
from monro.rows import Array

_MOST_ROWS, _MOST_ENTRIES = 1 << 11, 1 << 16  # to take a step on and to judge it, together
_FEWEST_OTHERS = 20  # rows that are not of the most frequent class
_CONSTANT = 1e-9  # share of a column's mean square below which its variance is rounding
_MOST_LENGTHS = 40  # to try; each is twice or half the one before
# A step that gains this part of the objective, and of the loss of a model without weights, is a
# sign of a fit that has not converged. (Losses near 0, of separable classes, fall by large parts of
# themselves for ever.) Fits that have gain less than 0.04, others usually far more than 0.1.
_CLEARLY = 0.1
_ROUNDING = 1e-9  # of objectives: a single row may be fitted exactly


class RowLoss(Protocol):
    """The loss of some rows, as a function of their scores."""

    def values(self, S: Array) -> Array:
        """Return the loss of each row."""

    def slopes(self, S: Array) -> Array:
        """Return the derivatives of each row's loss by its scores."""


class SampledRows:
    """Rows to take a step on, or to judge it.

    Parameters
    ----------
    X : CSR matrix or array of float64
    weight : array of shape (n_rows,)
    """

    def __init__(self, X: Any, weight: Array):
        self.X = X
        self.share = weight / weight.sum()

    @cached_property
    def mean(self) -> Array:
        """The mean of each column."""
        return np.asarray(self.share @ self.X)

    @cached_property
    def mean_square(self) -> Array:
        """The mean square of each column."""
        return np.asarray(self.share @ (self.X.power(2) if sp.issparse(self.X) else self.X**2))


class Sample(NamedTuple):
    """The rows of a trial: their numbers, those of the step first, and where the others begin."""

    numbers: Array
    cut: int

    def split(self, array: Any) -> tuple[Any, Any]:
        """Return the part of the step and that of the judgement."""
        return array[: self.cut], array[self.cut if self.cut < self.numbers.size else 0 :]


class Solution(NamedTuple):
    """Weights ``[score, feature]`` and intercepts."""

    W: Array
    bias: Array

    def scores(self, X: Any) -> Array:
        """Return the scores of rows."""
        return np.asarray(X @ self.W.T + self.bias)


class Trial(NamedTuple):
    """What came of a step; objectives are those above the least value that the loss can have."""

    objective: float  # before the step
    gain: float  # by which the step lowers it
    constant: float  # of the best model without weights

    @property
    def is_clear(self) -> bool:
        """Whether the step shows clearly that the fit has not converged."""
        return self.gain > max(_CLEARLY * max(self.objective, self.constant), _ROUNDING)


def tells_classes_apart(sample: Sample, codes: Array) -> bool:
    """Return whether so many rows are not of the most frequent class that they can be judged by.

    With hardly any, to learn nothing but the frequent class would look like a great gain.

    Examples
    --------
    >>> tells_classes_apart(Sample(np.arange(4), 4), np.array([0, 0, 0, 1]))  # all rows there are
    True
    >>> tells_classes_apart(Sample(np.arange(4), 2), np.array([0, 0, 0, 1]))
    False
    """
    if sample.cut == sample.numbers.size:
        return True
    others = (np.sum(part != np.bincount(codes).argmax()) for part in sample.split(codes))
    return bool(min(others) >= _FEWEST_OTHERS)


def choose_sample(n_rows: int, n_entries: int, most: int = _MOST_ROWS) -> Sample:
    """Choose rows: all if they are few, both to take the step on and to judge it.

    Parameters
    ----------
    n_rows, n_entries : int
        The numbers of rows, and of their entries that are stored.
    most : int
        The number of rows that may be chosen.
    """
    size = min(most, _MOST_ROWS, _MOST_ENTRIES * n_rows // max(1, n_entries))
    if n_rows <= size:
        return Sample(np.arange(n_rows), n_rows)
    half = max(1, size // 2)
    # The generators of the fit are left alone: checkpoints hold them.
    chosen = np.random.default_rng(0).choice(n_rows, min(n_rows, 2 * half), replace=False)
    return Sample(chosen, half)


def load_sample(X: Any, sample: Sample) -> tuple[Any, Array | slice]:
    """Return the rows of a sample in float64, and which columns they have.

    Sparse rows keep only the columns that occur: there may be millions of others.
    """
    X = load_rows(X, sample.numbers).astype(np.float64, copy=False)
    if not sp.issparse(X):
        return X, slice(None)
    used, indices = np.unique(X.indices, return_inverse=True)
    return sp.csr_matrix((X.data, indices, X.indptr), (X.shape[0], used.size)), used


def try_step(
    rows: tuple[SampledRows, SampledRows],
    losses: tuple[RowLoss, RowLoss],
    solution: Solution,
    strengths: Strengths,
) -> tuple[float, float]:
    """Return the objective before and after a step.

    The penalty is that of the columns of these rows: a step changes no other.

    Parameters
    ----------
    rows, losses : pairs
        Of the step, and of its judgement.
    solution : Solution
        Where the step begins.
    strengths : Strengths
        Of the penalty, and whether there are intercepts without one.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a step may be too long
        step = _direction(rows[0], losses[0], solution, strengths)
        taken, judged = (
            _along(part, loss, solution, step, strengths)
            for part, loss in zip(rows, losses, strict=True)
        )
        return judged(0.0), judged(_best_length(taken))


def _direction(
    rows: SampledRows, loss: RowLoss, solution: Solution, strengths: Strengths
) -> Solution:
    """Return minus the gradient, each column divided by its curvature but for a common factor."""
    slopes = rows.share[:, None] * loss.slopes(solution.scores(rows.X))
    total = slopes.sum(axis=0)
    # The intercept makes up for what a step changes on average: as if columns were centred.
    mean = rows.mean if strengths.has_bias else np.zeros(solution.W.shape[1])
    variance = rows.mean_square - mean**2
    gradient = np.asarray(rows.X.T @ slopes).T - np.outer(total, mean) + strengths.l2 * solution.W
    gradient = _with_l1_norm(gradient, solution.W, strengths.l1)
    varies = variance > _CONSTANT * rows.mean_square
    W = np.where(varies, -gradient / np.where(varies, variance + strengths.l2, 1.0), 0.0)
    bias = -total - W @ mean if strengths.has_bias else np.zeros_like(total)
    return Solution(W, bias)


def _with_l1_norm(gradient: Array, W: Array, strength: float) -> Array:
    """Return the gradient with an L1 norm's; at 0, the smallest of the subgradients."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - strength, 0.0)
    return np.where(W == 0.0, at_zero, gradient + strength * np.sign(W))


def _along(
    rows: SampledRows,
    loss: RowLoss,
    solution: Solution,
    step: Solution,
    strengths: Strengths,
) -> Callable[[float], float]:
    """Return the objective as a function of the length of the step."""
    S, change = solution.scores(rows.X), step.scores(rows.X)

    def objective(t: float) -> float:
        W = solution.W + t * step.W
        penalty = strengths.l1 * np.abs(W).sum() + 0.5 * strengths.l2 * np.vdot(W, W)
        return float(rows.share @ loss.values(S + t * change) + penalty)

    return objective


def _best_length(objective: Callable[[float], float]) -> float:
    """Return the power of two at which a convex function is least; 0 if it is less there."""
    best, value = 1.0, objective(1.0)
    for factor in (2.0, 0.5):
        for _ in range(_MOST_LENGTHS):
            other = objective(factor * best)
            # Lengths so large that the loss overflows are too long.
            if not (other < value or (factor < 1.0 and not np.isfinite(value))):
                break
            best, value = factor * best, other
    return best if value < objective(0.0) else 0.0


def warn_unless_converged(run: Run, trial: Trial | None) -> None:
    """Warn if a step has shown that the fit is far from its minimum."""
    if trial is None or not trial.is_clear:
        return
    estimator = run.estimator
    cures = ["a larger max_epochs"]
    if not scales_columns(estimator) and not is_mapped(run.rows.X):
        cures.insert(0, "scale=True if columns are in different units")
    if estimator.learning_rate != "auto":
        cures.append("learning_rate='auto'")
    percent = 100.0 * min(1.0, trial.gain / max(trial.objective, trial.gain))
    warnings.warn(
        f"max_epochs={estimator.max_epochs}: the fit has not converged (one step of gradient "
        f"descent lowers its objective by {percent:.0f} %); use {', or '.join(cures)}",
        ConvergenceWarning,
        stacklevel=6,  # who called `fit`, from `train`, `_fit`, `fit` and scikit-learn's decorator
    )
