"""The pairs of a feature and a class that occur in a training row, and the labels of the rows.

Weights of all other pairs are 0 and are not stored, so memory is O(pairs), not O(classes·features).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.mapped.matrices import chunk_bounds, slice_rows
from monro.rows import Array

_MOST_PRODUCTS = 1 << 26  # pairs of an entry and a label of a row, counted at a time


class LabelSets(NamedTuple):
    """The labels of each row: ``codes[indptr[y]:indptr[y + 1]]`` for a row of target y.

    With one label a row a target is the class code itself, with several it is the row's number.
    """

    indptr: Array  # (sets + 1,), int64
    codes: Array  # (labels,), int32

    @classmethod
    def single(cls, n_classes: int) -> "LabelSets":
        """Return the sets of rows with one label each.

        Examples
        --------
        >>> LabelSets.single(3).of(np.array([2, 0])).toarray().astype(int).tolist()
        [[0, 0, 1], [1, 0, 0]]
        """
        return cls(np.arange(n_classes + 1), np.arange(n_classes, dtype=np.int32))

    @classmethod
    def of_rows(cls, Y: Any) -> "LabelSets":
        """Return the label sets of the rows of an indicator matrix (CSR)."""
        return cls(Y.indptr.astype(np.int64), Y.indices.astype(np.int32))

    def of(self, targets: Array, n_classes: int | None = None) -> Any:
        """Return an indicator matrix (CSR) with a row for each target."""
        sizes = np.diff(self.indptr)
        width = int(self.codes.max(initial=-1)) + 1 if n_classes is None else n_classes
        ones = np.ones(self.codes.size, np.float32)
        sets = sp.csr_matrix((ones, self.codes, self.indptr), shape=(sizes.size, width))
        return sets[targets]


class Pairs(NamedTuple):
    """The observed pairs, by feature: a CSR matrix [feature, class] without values."""

    indptr: Array  # (features + 1,), int64
    classes: Array  # (pairs,), int32, sorted within a feature
    rows: Array  # (features,), float32: training rows that have the feature

    @property
    def size(self) -> int:
        """The number of pairs."""
        return int(self.classes.size)


def observed_pairs(
    X: Any, targets: Array, sets: LabelSets, n_classes: int, min_count: int = 1
) -> Pairs:
    """Return the pairs that occur in at least `min_count` rows; X is CSR, perhaps in files.

    Examples
    --------
    >>> X = sp.csr_matrix([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    >>> pairs = observed_pairs(X, np.array([0, 1, 1]), LabelSets.single(2), 2)
    >>> pairs.indptr.tolist(), pairs.classes.tolist(), pairs.rows.tolist()
    ([0, 2, 3], [0, 1, 1], [2.0, 2.0])
    """
    width = X.shape[1]
    rows = np.zeros(width, np.int64)
    counts: Any = sp.csr_matrix((width, n_classes), dtype=np.float32)
    labels_of_row = np.diff(sets.indptr)[targets].mean()
    for start, stop in chunk_bounds(X, max(1, int(_MOST_PRODUCTS / max(labels_of_row, 1.0)))):
        part = slice_rows(X, start, stop)
        ones = np.ones(part.nnz, np.float32)
        present = sp.csr_matrix((ones, part.indices, part.indptr), shape=part.shape)
        # Zeros that are stored are no features of a row.
        if not np.all(part.data):
            present.data[:] = part.data != 0
            present.eliminate_zeros()
        rows += np.bincount(present.indices, minlength=width)
        found = present.T.tocsr() @ sets.of(targets[start:stop], n_classes)
        counts = found if start == 0 else counts + found
    if min_count > 1:
        counts.data *= counts.data >= min_count
        counts.eliminate_zeros()
    counts.sort_indices()
    indptr = counts.indptr.astype(np.int64, copy=False)
    classes = counts.indices.astype(np.int32, copy=False)
    return Pairs(indptr, classes, rows.astype(np.float32))
