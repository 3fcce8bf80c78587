"""Epochs of coordinate descent, one class after the other: for sparse weights.

With the weights of the other classes fixed, the loss of an example as a function of those of class
k is that of logistic regression, but for a constant:

    ``log Σ_l e^{s_l} - s_y = log(1 + e^{∓p}) + constant``,    ``p = s_k - log Σ_{l≠k} e^{s_l}``,

with the upper sign where y = k. An epoch takes one proximal Newton step (`monro.coordinate`) for
each class in turn, at the newest weights of the others. So the objective falls at every step, there
is no learning rate, and weights that are 0 are exactly 0.

Adding a number to a feature's weights of all classes changes no probability. No step for one class
can do that, so after each pass it is done for each feature, by the number for which the penalty is
least (`best_shifts`), as in glmnet (Friedman, Hastie & Tibshirani, 2010).

``log Σ_l e^{s_l}`` is kept for each example, and scores are computed again when they are needed:
memory does not grow with rows times classes. Everything is in float64 until the epoch ends.
"""

import numpy as np
import scipy.sparse as sp

from monro._jit import kernel
from monro._math import softplus
from monro.blocks import LANES
from monro.coordinate import Model, Strengths, new_model, newton_step
from monro.fitting.trainer import Report
from monro.losses import Log
from monro.rows import Array, Rows, as_rows, dot
from monro.softmax.kernel.layout import class_major
from monro.softmax.kernel.state import State, multiply_out
from monro.softmax.training.problem import SoftmaxProblem

# A class's share of the sum up to which that of the others is what is left: the rest of a larger
# share is too inaccurate.
_LARGEST_SHARE = 0.9999


@kernel
def log_sums(rows: Rows, first: int, W: Array, b: Array, skipped: int, out: Array) -> None:
    """``out_i = log Σ_k e^{s_k}`` of the rows from `first` on, over all classes but one."""
    for i in range(out.size):
        top = -np.inf
        total = 0.0
        for k in range(b.size):
            if k != skipped:
                s = dot(rows, first + i, W[k]) + b[k]
                if s > top:
                    total *= np.exp(top - s)
                    top = s
                total += np.exp(s - top)
        out[i] = top + np.log(total)


@kernel
def isolate(
    rows: Rows, W: Array, b: Array, k: int, log_sum: Array, others: Array, p: Array
) -> None:
    """Write ``log Σ_{l≠k} e^{s_l}`` of each row to `others`, and the predictions for class k."""
    for i in range(p.size):
        s = dot(rows, i, W[k]) + b[k]
        share = np.exp(s - log_sum[i])
        if share < _LARGEST_SHARE:
            others[i] = log_sum[i] + np.log1p(-share)
        else:
            log_sums(rows, i, W, b, k, others[i : i + 1])
        p[i] = s - others[i]


@kernel
def combine(others: Array, t: float, model: Model, log_sum: Array) -> None:
    """Write ``log Σ_k e^{s_k}`` of each row after a step of length t for one class."""
    for i in range(log_sum.size):
        log_sum[i] = others[i] + softplus(model.p[i] + t * model.change[i])


@kernel
def sum_of_losses(rows: Rows, y: Array, weight: Array, W: Array, b: Array, log_sum: Array) -> float:
    """Return ``Σ_i weight_i (log Σ_k e^{s_k} - s_y)``."""
    total = 0.0
    for i in range(y.size):
        total += weight[i] * (log_sum[i] - dot(rows, i, W[y[i]]) - b[y[i]])
    return total


def best_shifts(W: Array, l1: float, l2: float) -> Array:
    """Return for each feature the c that minimises ``Σ_k l1 |w_k - c| + l2/2 (w_k - c)²``.

    W is ``[class, feature]``. Of several c it is one that is 0, if possible.

    Examples
    --------
    >>> W = np.array([[1.0, 0.0], [2.0, 5.0], [6.0, 0.0]])
    >>> best_shifts(W, 1.0, 0.0), best_shifts(W, 0.0, 1.0)[0]  # medians, a mean
    (array([2., 0.]), np.float64(3.0))
    """
    n_classes = W.shape[0]
    slope = l1 * np.sign(W).sum(axis=0) + l2 * W.sum(axis=0)
    moves = np.abs(slope) > l1 * (W == 0.0).sum(axis=0)
    shifts = np.zeros(W.shape[1])
    V = np.sort(W[:, moves], axis=0)
    if V.size == 0:
        return shifts
    # The slopes in c on both sides of each w_k, where i others are smaller.
    i = np.arange(n_classes)[:, None]
    left = l1 * (2.0 * i - n_classes) + l2 * (n_classes * V - V.sum(axis=0))
    first = np.argmax(left + 2.0 * l1 >= 0.0, axis=0)
    column = np.arange(V.shape[1])
    c = V[first, column]
    beyond = left[first, column] > 0.0  # then the slope is 0 between two of the w_k
    if l2 > 0.0:
        c -= np.where(beyond, left[first, column] / (l2 * n_classes), 0.0)
    shifts[moves] = c
    return shifts


class CoordinateDescent:
    """Takes epochs on a problem whose rows are in memory; copies these by columns."""

    def __init__(self, problem: SoftmaxProblem, strengths: Strengths):
        X = problem.X
        self.problem = problem
        self.strengths = strengths
        self.rows = as_rows(X)
        self.columns = as_rows(X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T))
        self.weight = problem.weight.astype(np.float64)
        self.model = new_model(problem.size, X.shape[1])

    def epoch(self, state: State, report: Report) -> float:
        """Take a step for each class, in place; return the sum of the losses before."""
        problem, strengths, model = self.problem, self.strengths, self.model
        rows, n_classes = self.rows, problem.n_classes
        multiply_out(state)
        W = class_major(state.W)[:n_classes].astype(np.float64)
        b = state.bias[:n_classes].astype(np.float64)
        log_sum, others = np.zeros((2, problem.size))
        log_sums(rows, 0, W, b, -1, log_sum)
        loss = sum_of_losses(rows, problem.y, self.weight, W, b, log_sum)
        visited = 0
        for k in range(n_classes):
            isolate(rows, W, b, k, log_sum, others, model.p)
            signs = np.where(problem.y == k, 1.0, -1.0)
            _, _, t, c = newton_step(
                Log(), signs, self.weight, rows, self.columns, strengths, W[k], model
            )
            b[k] += t * c
            combine(others, t, model, log_sum)
            now = problem.size * (k + 1) // n_classes
            report(now - visited)
            visited = now
        W -= best_shifts(W, strengths.l1, strengths.l2)
        write_weights(W, b, state)
        return loss


def write_weights(W: Array, b: Array, state: State) -> None:
    """Copy weights ``[class, feature]`` and intercepts to a state whose scales are 1."""
    state.bias[: b.size] = b
    if state.W.ndim == 2:
        state.W[: b.size] = W
        return
    for k in range(b.size):
        state.W[k // LANES, :, k % LANES] = W[k]
