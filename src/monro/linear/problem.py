"""The problem that a linear solver minimises."""

from typing import NamedTuple

import numpy as np

from monro.linear.examples import Examples
from monro.losses import Loss
from monro.penalties import Penalty
from monro.rows import Array, Sparse


class Problem(NamedTuple):
    """Minimise ``penalty(w) + mean_i weight_i·loss(w·x_i + b, y_i)`` over w and b."""

    loss: Loss
    penalty: Penalty
    examples: Examples
    fit_intercept: bool
    n_features: int
    centre: Array = np.zeros(0)  # subtracted from all rows; empty: nothing is


def bias_damping(problem: Problem) -> float:
    """Return the factor of the bias's learning rate.

    The bias is a feature that is always 1. Next to sparse features, which are small or rare, full
    steps would make it oscillate with every example.
    """
    if not problem.fit_intercept:
        return 0.0
    return 0.01 if sparsity(problem) >= 4 else 1.0


def sparsity(problem: Problem) -> int:
    """Return the number of features divided by the mean number of non-zeros in a row."""
    rows = problem.examples.rows
    if isinstance(rows, Sparse):
        return max(1, problem.n_features * problem.examples.y.size // max(1, rows.data.size))
    return 1
