"""Which classes share a block: they are drawn together, and weighted together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import leaves_list, linkage
from sklearn.random_projection import SparseRandomProjection

from monro.mapped import part_borders, rows_between
from monro.rows import Array
from monro.softmax.layout import LANES
from monro.softmax.solvers import Plan

_MOST_COMPARED = 4096  # classes: the time to compare them grows with the square
_DIRECTIONS = 64  # in which they are compared


def place_classes(
    plan: Plan, counts: Array, rng: np.random.Generator, sums: Callable[[], Array]
) -> Array:
    """Return a slot for each class.

    Drawn all alike, classes of a kind had better not lie in one block: they lie in random order. By
    frequency, blocks hold classes that deserve to be drawn equally often, equals in random order.
    Neighbours' labels find the block of what a row is mistaken for, and all that is mistaken for
    one another had better lie there: classes half as frequent or less come later, and those
    between lie with the similar, by their mean rows.
    """
    n_classes = counts.size
    order = rng.permutation(n_classes)
    if plan.sampling == "neighbour" and LANES < n_classes <= _MOST_COMPARED:
        octave = np.floor(np.log2(np.maximum(counts, 1)))
        place = np.argsort(similar_side_by_side(sums() / np.maximum(counts, 1)[:, None]))
        order = np.lexsort((place, -octave))
    elif plan.sampling in ("frequency", "neighbour"):
        order = order[np.argsort(-counts[order], kind="stable")]
    slots = np.empty(n_classes, np.int64)
    slots[order] = np.arange(n_classes)
    return slots


def sums_by_class(X: Any, y: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """Return the sum of each class's rows, wide rows seen from a few random directions."""
    projection = None
    if X.shape[1] > _DIRECTIONS:
        seed = int(rng.integers(2**31))
        projection = SparseRandomProjection(_DIRECTIONS, random_state=seed)
        projection.fit(sp.csr_matrix((1, X.shape[1])))
    total = np.zeros((n_classes, min(X.shape[1], _DIRECTIONS)))
    for start, stop in part_borders(X):
        # Projected row by row: all sums of wide rows would be larger than the model.
        part, own = rows_between(X, start, stop), y[start:stop]
        if projection is not None:
            part = part @ projection.components_.T
        ones, rows = np.ones(own.size), np.arange(own.size)
        sums = sp.csr_matrix((ones, (own, rows)), shape=(n_classes, own.size)) @ part
        total += sums.toarray() if sp.issparse(sums) else sums
    return total


def similar_side_by_side(means: Array) -> Array:
    """Return classes of these mean rows in the order of the leaves of a tree."""
    means = means / (np.abs(means).max() or 1.0)  # no square overflows
    return np.asarray(leaves_list(linkage(means, "ward")))
