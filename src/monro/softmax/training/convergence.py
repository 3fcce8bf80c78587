"""A trial step on the exact loss, which shows whether a fit has clearly not converged."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import entr

from monro.coordinate import Strengths
from monro.fitting.convergence import (
    SampledRows,
    Solution,
    Trial,
    choose_sample,
    load_sample,
    tells_classes_apart,
    try_step,
)
from monro.rows import Array
from monro.softmax.model import (
    Weights,
    class_weights,
    label_log_probability,
    log_probabilities,
)
from monro.softmax.training.problem import SoftmaxProblem

# A trial computes the scores of its rows about twenty times, and gradients of all weights.
_MOST_SCORES, _MOST_WEIGHTS = 1 << 18, 1 << 21
_FEWEST_ROWS = 1000  # of more rows, to judge by


class _RowLoss(NamedTuple):
    """The log-loss of rows, given the codes of their classes."""

    codes: Array

    def values(self, S: Array) -> Array:
        return -label_log_probability(S, self.codes)

    def slopes(self, S: Array) -> Array:
        slopes = np.exp(log_probabilities(S, "softmax"))
        slopes[np.arange(self.codes.size), self.codes] -= 1.0
        return slopes


def try_softmax_step(
    problem: SoftmaxProblem, weights: Weights, strengths: Strengths
) -> Trial | None:
    """Try a step; None if that would not be cheap, because there are many classes and features."""
    X, n_classes = problem.X, problem.n_classes
    most_rows = _MOST_SCORES // n_classes
    if weights.W.size > _MOST_WEIGHTS or most_rows < min(problem.size, _FEWEST_ROWS):
        return None
    sample = choose_sample(problem.size, X.data.size if sp.issparse(X) else X.size, most_rows)
    sampled, used = load_sample(X, sample)
    weight = np.asarray(problem.weight[sample.numbers], np.float64)
    if not tells_classes_apart(sample, problem.y[sample.numbers]):
        return None
    codes = np.argsort(problem.slots)[problem.y[sample.numbers]]
    taken, judged = (
        SampledRows(part, share)
        for part, share in zip(sample.split(sampled), sample.split(weight), strict=True)
    )
    first, second = (_RowLoss(part) for part in sample.split(codes))
    W = class_weights(weights)[:, used].astype(np.float64)
    solution = Solution(W, weights.bias[weights.slots].astype(np.float64))
    before, after = try_step((taken, judged), (first, second), solution, strengths)
    constant = np.log(n_classes)
    if strengths.has_bias:
        constant = entr(np.bincount(second.codes, judged.share, n_classes)).sum()
    return Trial(before, before - after, float(constant))
