"""A trial step of linear models, which shows whether they have clearly not converged."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from monro.coordinate import Strengths
from monro.fitting.convergence import (
    Sample,
    SampledRows,
    Solution,
    Trial,
    choose_sample,
    load_sample,
    tells_classes_apart,
    try_step,
)
from monro.linear.columns import Columns
from monro.linear.objective import losses_of, slopes_of
from monro.linear.problem import Problem
from monro.losses import LOG, Loss
from monro.rows import Array


class _RowLoss(NamedTuple):
    """The loss of one model's rows, whose scores are a single column."""

    loss: Loss
    y: Array

    def values(self, S: Array) -> Array:
        out = np.empty(self.y.size)
        losses_of(self.loss, S[:, 0].copy(), self.y, out)
        return out

    def slopes(self, S: Array) -> Array:
        out = np.empty(self.y.size)
        slopes_of(self.loss, S[:, 0].copy(), self.y, out)
        return out[:, None]

    def least(self) -> Array:
        """Return the least loss that each row can have."""
        if self.loss.traits.link != LOG:
            return np.zeros(self.y.size)
        smallest = np.finfo(np.float64).tiny  # a count may be 0
        return self.values(np.log(np.maximum(self.y, smallest))[:, None])

    def of_constant(self, share: Array, *, has_intercept: bool) -> float:
        """Return the mean loss of the best model without weights."""

        def loss(b: float) -> float:
            return float(share @ self.values(np.full((self.y.size, 1), b)))

        if not has_intercept:
            return loss(0.0)
        start = self.loss.traits.starting_intercept(self.y, share)
        with np.errstate(over="ignore", invalid="ignore"):  # a constant may be too large
            return float(minimize_scalar(loss, (start, start + 1.0)).fun)


def strengths_of(problem: Problem) -> Strengths | None:
    """Return the strengths of a problem's penalty; None if it is not of an L1 norm and a ridge."""
    penalty = problem.penalty
    if penalty.has_kink and not hasattr(penalty, "l1_strength"):
        return None
    l1 = float(penalty.l1_strength()) if penalty.has_kink else 0.0
    return Strengths(l1, float(penalty.strong_convexity()), problem.fit_intercept)


def try_steps(
    X: Any,
    columns: Columns,
    strengths: Strengths,
    fitted: Iterable[tuple[Problem, tuple[Array, float]]],
) -> Trial | None:
    """Try a step of each model; return the means over the models, None if none can be judged.

    Parameters
    ----------
    X : CSR matrix or array
        The rows, which all models share.
    columns : Columns
        Those that the models have weights for.
    strengths : Strengths
    fitted : iterable of (Problem, (weights, intercept))
    """
    fitted = list(fitted)
    examples = fitted[0][0].examples
    sample = choose_sample(examples.y.size, X.data.size if sp.issparse(X) else X.size)
    sampled, used = load_sample(X, sample)
    if columns.number is not None:
        used = columns.number[used]
    parts = zip(sample.split(sampled), sample.split(examples.weight[sample.numbers]), strict=True)
    taken, judged = (SampledRows(part, weight) for part, weight in parts)

    def can_be_judged(y: Array) -> bool:
        labels, codes = np.unique(y, return_inverse=True)
        return labels.size > 2 or tells_classes_apart(sample, codes)

    def trial(problem: Problem, weights: Array, intercept: float) -> tuple[float, float, float]:
        y = _targets(problem, sample)
        first, second = (_RowLoss(problem.loss, part) for part in sample.split(y))
        solution = Solution(weights[None, used], np.array([intercept]))
        before, after = try_step((taken, judged), (first, second), solution, strengths)
        least = float(judged.share @ second.least())
        constant = second.of_constant(judged.share, has_intercept=problem.fit_intercept)
        return before - least, before - after, constant - least

    trials = [
        trial(problem, *found)
        for problem, found in fitted
        if can_be_judged(_targets(problem, sample))
    ]
    return Trial(*np.mean(trials, axis=0)) if trials else None


def _targets(problem: Problem, sample: Sample) -> Array:
    return np.asarray(problem.examples.y[sample.numbers], np.float64)
