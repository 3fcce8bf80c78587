"""The data of a softmax fit, in the form that kernels take."""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel
from monro.mapped.chunked_arrays import count_codes, empty_alongside, take_from_table
from monro.mapped.matrices import as_dtype
from monro.rows import Array, Rows, as_rows, sqnorm
from monro.saving.checkpoint import fingerprint
from monro.softmax.kernel.layout import view_of
from monro.softmax.kernel.sweep import KernelRows


class SoftmaxProblem(NamedTuple):
    """Rows, the slots of their classes, and their weights."""

    X: Any  # of the plan's dtype
    y: Array  # (rows,): slots, int32
    weight: Array  # (rows,): of mean 1
    sqnorm: Array  # (rows,): ‖x_i‖²
    counts: Array  # (classes,): examples of each class, by slot
    slots: Array  # (classes,): slot of each class

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.slots.size)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.y.size)

    @property
    def mean_sqnorm(self) -> float:
        """The mean squared length of the rows."""
        return float(self.sqnorm.mean(dtype=np.float64))

    def codes(self) -> Array:
        """Return the class codes of the rows."""
        return np.asarray(np.argsort(self.slots)[self.y])

    def fingerprint(self) -> str:
        """Return a text that identifies the rows, their classes and their weights."""
        return fingerprint(self.X, (self.codes(),), self.weight)

    def kernel_rows(self, W: Array) -> KernelRows:
        """Return the examples as kernels read them, paired with weights."""
        return KernelRows(view_of(self.X, W), self.y, self.weight, self.sqnorm)


def in_precision(X: Any, codes: Array, dtype: str) -> tuple[Any, Array]:
    """Return rows of type `dtype` and their squared lengths; memory-mapped rows remain so."""
    with np.errstate(over="ignore"):  # raises below, naming the row
        X = as_dtype(X, dtype)
    lengths = empty_alongside(codes, dtype)
    squared_lengths(as_rows(X), lengths)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(
            f"X: the squared length of row {row} overflows {dtype}; scale the features"
        )
    return X, lengths


def make_problem(
    X: Any, sqnorm: Array, codes: Array, weight: Array, slots: Array
) -> SoftmaxProblem:
    """Return the problem; X and `sqnorm` as `in_precision` returns them."""
    y = take_from_table(slots.astype(np.int32), codes)
    weights = empty_alongside(y, X.dtype)
    weights[:] = weight
    return SoftmaxProblem(X, y, weights, sqnorm, count_codes(y, slots.size), slots)


@kernel
def squared_lengths(rows: Rows, out: Array) -> None:
    """``out_i = ‖x_i‖²``."""
    for i in range(out.size):
        out[i] = sqnorm(rows, i)
