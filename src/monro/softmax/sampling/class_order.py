"""The order of the classes: which classes share a block, and are therefore drawn together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import leaves_list, linkage
from sklearn.random_projection import SparseRandomProjection

from monro.blocks import LANES
from monro.mapped.matrices import chunk_bounds, slice_rows
from monro.rows import Array
from monro.softmax.sampling.registry import ClassOrder

_MOST_COMPARED = 4096  # classes ordered by similarity: the time grows with the square
_DIRECTIONS = 64  # dimension in which they are compared


def assign_slots(
    wanted: ClassOrder, counts: Array, rng: np.random.Generator, sums: Callable[[], Array]
) -> Array:
    """Return a slot for each class; sixteen slots make a block.

    Where all blocks are equally likely, similar classes should not share a block: the order is
    random. Where blocks are drawn by frequency, classes of similar frequency share a block, in
    random order. Where blocks are drawn by neighbours' labels, classes that are easily confused
    should share a block: the order is by frequency, in powers of two, and within these by the
    similarity of the classes' mean rows.

    Parameters
    ----------
    wanted : ClassOrder
        Which of the three orders.
    counts : array of shape (n_classes,)
        The number of examples of each class.
    rng : Generator
    sums : function
        Returns the sum of the rows of each class, as `sums_by_class` does.
    """
    n_classes = counts.size
    order = rng.permutation(n_classes)
    if wanted is ClassOrder.SIMILARITY and LANES < n_classes <= _MOST_COMPARED:
        magnitude = np.floor(np.log2(np.maximum(counts, 1)))
        rank = np.argsort(order_by_similarity(sums() / np.maximum(counts, 1)[:, None]))
        order = np.lexsort((rank, -magnitude))
    elif wanted is not ClassOrder.RANDOM:
        order = order[np.argsort(-counts[order], kind="stable")]
    slots = np.empty(n_classes, np.int64)
    slots[order] = np.arange(n_classes)
    return slots


def sums_by_class(X: Any, y: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """Return the sum of each class's rows; wide rows are projected to 64 random directions."""
    projection = None
    if X.shape[1] > _DIRECTIONS:
        seed = int(rng.integers(2**31))
        projection = SparseRandomProjection(_DIRECTIONS, random_state=seed)
        projection.fit(sp.csr_matrix((1, X.shape[1])))
    total = np.zeros((n_classes, min(X.shape[1], _DIRECTIONS)))
    for start, stop in chunk_bounds(X):
        # Projected before they are summed: sums of wide rows would be larger than the model.
        part, codes = slice_rows(X, start, stop), y[start:stop]
        if projection is not None:
            part = part @ projection.components_.T
        ones, rows = np.ones(codes.size), np.arange(codes.size)
        sums = sp.csr_matrix((ones, (codes, rows)), shape=(n_classes, codes.size)) @ part
        total += sums.toarray() if sp.issparse(sums) else sums
    return total


def order_by_similarity(means: Array) -> Array:
    """Return the classes with these mean rows in the order of the leaves of a Ward tree."""
    means = means / (np.abs(means).max() or 1.0)  # so that no square overflows
    return np.asarray(leaves_list(linkage(means, "ward")))
