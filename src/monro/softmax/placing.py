"""Which classes share a block: they are drawn together, and weighted together."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import leaves_list, linkage
from sklearn.random_projection import SparseRandomProjection

from monro.mapped import count, part_borders, rows_between
from monro.rows import Array
from monro.softmax.layout import LANES
from monro.softmax.solvers import Plan

_MOST_COMPARED = 4096  # classes: the time to compare them grows with the square
_DIRECTIONS = 64  # in which they are compared


def place_classes(plan: Plan, X: Any, y: Array, counts: Array, rng: np.random.Generator) -> Array:
    """Return a slot for each class.

    Drawn all alike, classes of a kind had better not lie in one block: they lie in random order. By
    frequency, blocks hold classes that deserve to be drawn equally often, equals in random order.
    Neighbours' labels find the block of what a row is mistaken for, and all that is mistaken for
    one another had better lie there: classes half as frequent or less come later, and those
    between lie with the similar.
    """
    n_classes = counts.size
    order = rng.permutation(n_classes)
    if plan.sampling == "neighbour" and LANES < n_classes <= _MOST_COMPARED:
        octave = np.floor(np.log2(np.maximum(counts, 1)))
        place = np.argsort(similar_side_by_side(X, y, n_classes, rng))
        order = np.lexsort((place, -octave))
    elif plan.sampling in ("frequency", "neighbour"):
        order = order[np.argsort(-counts[order], kind="stable")]
    slots = np.empty(n_classes, np.int64)
    slots[order] = np.arange(n_classes)
    return slots


def similar_side_by_side(X: Any, y: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """Return the classes in the order of the leaves of a tree, by their mean rows."""
    projection = None
    if X.shape[1] > _DIRECTIONS:
        seed = int(rng.integers(2**31))
        projection = SparseRandomProjection(_DIRECTIONS, random_state=seed)
        projection.fit(sp.csr_matrix((1, X.shape[1])))
    means = np.zeros((n_classes, min(X.shape[1], _DIRECTIONS)))
    for start, stop in part_borders(X):
        # Projected row by row: all means of wide rows would be larger than the model.
        part, own = rows_between(X, start, stop), y[start:stop]
        if projection is not None:
            part = part @ projection.components_.T
        ones, rows = np.ones(own.size), np.arange(own.size)
        sums = sp.csr_matrix((ones, (own, rows)), shape=(n_classes, own.size)) @ part
        means += sums.toarray() if sp.issparse(sums) else sums
    means /= np.maximum(count(y, n_classes), 1)[:, None]
    means /= np.abs(means).max() or 1.0  # no square overflows
    return np.asarray(leaves_list(linkage(means, "ward")))
