"""Going on from an earlier fit: its pairs and those of new rows."""

from typing import Any

import numpy as np

from monro.fitting.conditioning import Conditioning
from monro.rows import Array
from monro.softmax.observed.kernel import ObservedState
from monro.softmax.observed.pairs import Pairs
from monro.softmax.training.continuation import SoftmaxFit


def merged(earlier: Pairs, new: Pairs) -> tuple[Pairs, Array, Array]:
    """Return the union of pairs, and the places of both in it.

    Examples
    --------
    >>> one = Pairs(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.ones(2, np.float32))
    >>> two = Pairs(np.array([0, 1, 1]), np.array([0], np.int32), np.ones(2, np.float32))
    >>> pairs, first, second = merged(one, two)
    >>> pairs.indptr.tolist(), pairs.classes.tolist(), pairs.rows.tolist()
    ([0, 2, 3], [0, 1, 0], [2.0, 2.0])
    >>> first.tolist(), second.tolist()
    ([1, 2], [0])
    """
    n_features = earlier.indptr.size - 1
    width = np.int64(max(earlier.classes.max(initial=0), new.classes.max(initial=0))) + 1

    def keys(pairs: Pairs) -> Array:
        feature = np.repeat(np.arange(n_features), np.diff(pairs.indptr))
        return np.asarray(feature * width + pairs.classes)

    both = keys(earlier), keys(new)
    union = np.union1d(*both)
    features = np.bincount(union // width, minlength=n_features)
    indptr = np.concatenate([[0], np.cumsum(features)])
    pairs = Pairs(indptr, (union % width).astype(np.int32), earlier.rows + new.rows)
    first, second = (np.searchsorted(union, each) for each in both)
    return pairs, first, second


def continued(
    earlier: SoftmaxFit,
    conditioning: Conditioning,
    pairs: Pairs,
    state: ObservedState,
    codes: Array,
) -> tuple[Pairs, ObservedState]:
    """Return the pairs of an earlier fit and of new rows, and the state to continue from.

    `state` is that of a fit on the new rows alone; `codes` are the earlier classes' new codes.
    """
    weights, kept = earlier.weights, earlier.pairs
    assert kept is not None
    W: Any = weights.W
    old = Pairs(W.indptr.astype(np.int64), codes[W.indices].astype(np.int32), kept.rows)
    union, of_old, of_new = merged(old, pairs)
    dtype = state.w.dtype
    w, gain = np.zeros(union.size, dtype), np.empty(union.size, dtype)
    gain[of_new] = state.gain
    w[of_old], gain[of_old] = W.data, kept.gain
    bias, bias_gain = state.bias.copy(), state.bias_gain.copy()
    bias[codes], bias_gain[codes] = weights.bias, kept.bias_gain
    if conditioning.changes:
        w *= np.repeat(conditioning.scale, np.diff(union.indptr))
        bias[codes] += W @ conditioning.centre
    return union, ObservedState(w, gain, bias, bias_gain)
