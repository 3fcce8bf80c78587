"""A sentence by itself, its features numbered anew: where SGD-QN compares slopes at two points."""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import LANES, kernel, leaf
from monro.crf.chain import Room, subtract_pairs, subtract_state
from monro.crf.encoding import Encoded
from monro.crf.weights import Weights, n_lanes, new_weights
from monro.rows import Array

# Not the literal 0: functions that are given one are compiled once more, for it alone.
ZERO: Any = np.int64(0)


class Local(NamedTuple):
    """A sentence by itself, its features numbered anew, and the weights it had at the point v."""

    number: Array  # (features,): the new number, or -1
    pair_number: Array
    feature: Array  # by new number
    pair_feature: Array
    features: Array  # of each non-zero
    pairs: Array
    indptr: Array
    pair_indptr: Array
    starts: Array
    v: Weights
    change: Weights  # of the slopes
    alpha: Array  # slopes at w
    slopes: Array  # of pairs
    steps: Array  # room for one token's


def new_local(data: Encoded, n_features: int, n_pairs: int, room: Room) -> Local:
    """Return room for any sentence."""
    tokens = room.E.shape[0]
    nonzeros = int(np.diff(data.indptr[data.starts]).max(initial=1))
    pairs = int(np.diff(data.pair_indptr[data.starts]).max(initial=1))
    n_tags = room.tags.size
    v, change = (new_weights(nonzeros, pairs, n_tags, np.float32) for _ in range(2))
    return Local(
        np.full(n_features, -1, np.int32),
        np.full(n_pairs, -1, np.int32),
        np.zeros(nonzeros, np.uint32),
        np.zeros(pairs, np.uint32),
        np.zeros(nonzeros, np.uint32),
        np.zeros(pairs, np.uint32),
        np.zeros(tokens + 1, np.int64),
        np.zeros(tokens + 1, np.int64),
        np.zeros(2, np.int64),
        v,
        change,
        np.zeros((tokens, n_lanes(n_tags)), np.float32),
        np.zeros_like(room.pairs),
        np.zeros(n_lanes(n_tags), np.float32),
    )


@leaf
def renumber(
    start: int, stop: int, given: Array, number: Array, numbered: Array, feature: Array
) -> int:
    """Give what occurs the numbers 0, 1, 2, …; return how many."""
    n = 0
    for p in range(start, stop):
        f = given[p]
        if number[f] < 0:
            number[f] = n
            feature[n] = f
            n += 1
        numbered[p - start] = number[f]
    for k in range(n):
        number[feature[k]] = -1
    return n


@leaf
def copy_rows(W: Array, feature: Array, n: int, out: Array) -> None:
    """Copy the weights of features."""
    for b in range(W.shape[0]):
        for k in range(n):
            source, target = W[b, feature[k]], out[b, k]
            for d in range(LANES):
                target[d] = source[d]


@kernel
def take_apart(data: Encoded, s: int, w: Weights, local: Local) -> tuple[int, int]:
    """Renumber sentence s, and remember its weights as v; return how many features it has."""
    first, stop = data.starts[s], data.starts[s + 1]
    start, pair_start = data.indptr[first], data.pair_indptr[first]
    for t in range(first, stop + 1):
        local.indptr[t - first] = data.indptr[t] - start
        local.pair_indptr[t - first] = data.pair_indptr[t] - pair_start
    local.starts[1] = stop - first
    n = renumber(
        start, data.indptr[stop], data.features, local.number, local.features, local.feature
    )
    m = renumber(
        pair_start, data.pair_indptr[stop], data.pairs, local.pair_number, local.pairs,
        local.pair_feature,
    )  # fmt: skip
    copy_rows(w.W, local.feature, n, local.v.W)
    copy_rows(w.V, local.pair_feature, m, local.v.V)
    return n, m


@leaf
def alone(data: Encoded, s: int, local: Local) -> Encoded:
    """Return sentence s, taken apart before, as the only one."""
    start, stop = data.indptr[data.starts[s]], data.indptr[data.starts[s + 1]]
    return Encoded(
        data.values[start:stop],
        local.features,
        local.indptr,
        local.pairs,
        local.pair_indptr,
        local.starts,
    )


@kernel
def subtract_slopes(data: Encoded, s: int, factor: float, room: Room, local: Local) -> None:
    """Subtract the slopes of sentence s, taken apart before, from the change of its features."""
    sentence = alone(data, s, local)
    step = room.E.dtype.type(factor)
    subtract_state(sentence, ZERO, step, local.change.W, room, local.steps)
    subtract_pairs(sentence, ZERO, step, local.change.V, room)


@leaf
def clear_rows(W: Array, n: int) -> None:
    """Set the weights of the first n features to 0."""
    for b in range(W.shape[0]):
        for k in range(n):
            for d in range(LANES):
                W[b, k, d] = 0.0


@leaf
def forget_change(local: Local, n: int, m: int) -> None:
    """Set the change of n features and m pair features to 0."""
    clear_rows(local.change.W, n)
    clear_rows(local.change.V, m)
