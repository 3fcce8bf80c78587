"""Which classes share a block: they are drawn together, and weighted together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import leaves_list, linkage
from sklearn.random_projection import SparseRandomProjection

from monro.rows import Array
from monro.softmax.layout import LANES
from monro.softmax.solvers import Plan

_MOST_COMPARED = 4096  # classes: the time to compare them grows with the square
_DIRECTIONS = 64  # in which they are compared


def place_classes(
    plan: Plan, counts: Array, rng: np.random.Generator, means: Callable[[], Any]
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
        place = np.argsort(similar_side_by_side(means(), rng))
        order = np.lexsort((place, -octave))
    elif plan.sampling in ("frequency", "neighbour"):
        order = order[np.argsort(-counts[order], kind="stable")]
    slots = np.empty(n_classes, np.int64)
    slots[order] = np.arange(n_classes)
    return slots


def mean_rows(X: Any, y: Array, counts: Array) -> Any:
    """Return the mean row of each class, of which there are so many; of some rows, their share."""
    share = 1.0 / np.maximum(counts, 1)[y]
    return sp.csr_matrix((share, (y, np.arange(y.size))), shape=(counts.size, y.size)) @ X


def in_few_directions(means: Any, seed: int) -> Any:
    """Return rows as seen from a few random directions: enough to compare them."""
    if means.shape[1] <= _DIRECTIONS:
        return means
    return SparseRandomProjection(_DIRECTIONS, random_state=seed).fit_transform(means)


def similar_side_by_side(means: Any, rng: np.random.Generator) -> Array:
    """Return classes of these mean rows in the order of the leaves of a tree."""
    if means.shape[1] > _DIRECTIONS:
        means = in_few_directions(means, int(rng.integers(2**31)))
    means = means.toarray() if sp.issparse(means) else means
    means /= np.abs(means).max() or 1.0  # no square overflows
    return np.asarray(leaves_list(linkage(means, "ward")))
