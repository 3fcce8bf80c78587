"""The data of a fit on observed pairs, the form of its results, and the losses of rows."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.fitting.run import LabelledRows
from monro.mapped.chunked_arrays import empty_alongside
from monro.mapped.matrices import as_dtype
from monro.rows import Array, Sparse, as_rows
from monro.softmax.model import Weights
from monro.softmax.observed.kernel import (
    Inside,
    ObservedState,
    Strengths,
    Targets,
    new_inside,
    visit,
)
from monro.softmax.observed.losses import MakeLoss
from monro.softmax.observed.pairs import LabelSets, Pairs


class ObservedProblem(NamedTuple):
    """Rows and their labels, the pairs that have weights, and the loss."""

    rows: LabelledRows  # CSR in the precision of the weights; targets are numbers of label sets
    sets: LabelSets
    pairs: Pairs
    n_classes: int
    share: bool  # whether the labels of a row share the weight 1
    make_loss: MakeLoss

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.rows.y.size)


def as_sparse(X: Any, dtype: str) -> Any:
    """Return rows as CSR of this precision; mapped rows remain in their files."""
    if not sp.issparse(X):
        X = sp.csr_matrix(X)
    with np.errstate(over="ignore"):
        return as_dtype(X, dtype)


def targets_of(problem: ObservedProblem, rows: LabelledRows) -> Targets:
    """Return the labels of some rows, as kernels read them."""
    weight = empty_alongside(rows.y, rows.X.dtype)
    weight[:] = rows.weight
    return Targets(rows.y, problem.sets, problem.share, weight)


def scratch_of(problem: ObservedProblem) -> Inside:
    """Return scratch memory for a thread."""
    most = int(np.diff(problem.sets.indptr).max(initial=1))
    return new_inside(problem.n_classes, most, problem.rows.X.dtype.name)


def row_losses(problem: ObservedProblem, state: ObservedState, rows: LabelledRows) -> Array:
    """Return the loss of each row, without its weight."""
    loss, outside = problem.make_loss(state.bias)
    zero = state.w.dtype.type(0.0)
    out = np.empty(rows.y.size)
    visit(
        Sparse(*as_rows(rows.X)),
        np.arange(rows.y.size),
        problem.pairs,
        targets_of(problem, rows),
        loss,
        outside,
        Strengths(zero, zero, zero),
        state,
        scratch_of(problem),
        out,
    )
    return out


def weights_of(pairs: Pairs, state: ObservedState) -> Weights:
    """Return the weights as predictions take them; the arrays are shared."""
    n_classes = state.bias.size
    W = sp.csc_matrix((n_classes, pairs.indptr.size - 1), dtype=state.w.dtype)
    # The constructor would copy the indices if the pointers are wider.
    kind = np.int32 if pairs.size <= np.iinfo(np.int32).max else np.int64
    W.data, W.indices, W.indptr = state.w, pairs.classes, pairs.indptr.astype(kind)
    W.has_canonical_format = True
    one = np.ones(n_classes, state.w.dtype)
    return Weights(W, state.bias, one, np.arange(n_classes))


def visits_per_row(problem: ObservedProblem) -> float:
    """Return the mean number of pairs that a step of the problem's rows visits."""
    pairs = problem.pairs
    return float(np.diff(pairs.indptr) @ pairs.rows.astype(np.float64)) / max(problem.size, 1)
