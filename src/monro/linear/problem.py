"""The problem that a linear solver minimises."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.linear.examples import Examples
from monro.losses import Loss
from monro.penalties import Penalty
from monro.rows import Array, Dense, Rows, Sparse, as_rows


class Problem(NamedTuple):
    """Minimise ``penalty(w) + mean_i weight_i·loss(w·x_i + b, y_i)`` over w and b."""

    loss: Loss
    penalty: Penalty
    examples: Examples
    fit_intercept: bool
    n_features: int
    centre: Array = np.zeros(0)  # subtracted from all rows; empty: nothing is
    columns: Rows = None  # of models that share a copy of the rows by columns


def columns_of(problem: Problem) -> Rows:
    """Return the columns, copied unless the problem has them: column j is row j of ``Xᵀ``."""
    if problem.columns is not None:
        return problem.columns
    rows = problem.examples.rows
    if isinstance(rows, Dense):
        return as_rows(np.ascontiguousarray(rows.data.T))
    shape = (problem.examples.y.size, problem.n_features)
    indices, indptr = rows.indices.view(np.int32), rows.indptr.view(np.int64)
    if rows.data.size <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # SciPy would copy the indices to the wider type
    matrix = sp.csr_array((rows.data, indices, indptr), shape)
    return as_rows(matrix.T.tocsr())


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
