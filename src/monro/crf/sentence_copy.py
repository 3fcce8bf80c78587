"""Copies of the weights of one sentence's features: SGD-QN compares slopes at two points.

The features of the sentence are renumbered 0, 1, 2, …, so that the copies are small.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel, leaf
from monro.blocks import LANES, n_lanes
from monro.crf.chain import ChainScratch, copy, subtract_pairs, subtract_state
from monro.crf.encoding import Encoded
from monro.crf.weights import ChainWeights, new_weights
from monro.rows import Array

# Not the literal 0: functions would be compiled a second time for its type.
ZERO: Any = np.int64(0)


class SentenceWeights(NamedTuple):
    """A sentence with its features renumbered, its weights at a point v, and scratch buffers."""

    number: Array  # (features,): scratch of `renumber`, -1 between its calls
    pair_number: Array
    feature: Array  # the feature of each new number
    pair_feature: Array
    features: Array  # the new number of each non-zero
    pairs: Array
    indptr: Array
    pair_indptr: Array
    starts: Array
    v: ChainWeights  # the weights of the sentence at v
    change: ChainWeights  # of the slopes, from v to w
    alpha: Array  # copies of the slopes in the scores of tags
    slopes: Array  # and of pairs
    steps: Array  # (lanes,)


def new_sentence_weights(
    data: Encoded, n_features: int, n_pairs: int, scratch: ChainScratch
) -> SentenceWeights:
    """Return buffers for any sentence of a corpus."""
    tokens = scratch.E.shape[0]
    nonzeros = int(np.diff(data.indptr[data.starts]).max(initial=1))
    pairs = int(np.diff(data.pair_indptr[data.starts]).max(initial=1))
    n_tags = scratch.tags.size
    v, change = (new_weights(nonzeros, pairs, n_tags, scratch.E.dtype) for _ in range(2))
    return SentenceWeights(
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
        np.zeros_like(scratch.alpha),
        np.zeros_like(scratch.pairs),
        np.zeros(n_lanes(n_tags), scratch.E.dtype),
    )


@leaf
def renumber(
    start: int, stop: int, given: Array, number: Array, numbered: Array, feature: Array
) -> int:
    """Renumber the features that occur 0, 1, 2, …; return how many there are."""
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
def copy_sentence(
    data: Encoded, s: int, w: ChainWeights, local: SentenceWeights
) -> tuple[int, int]:
    """Renumber the features of sentence s and copy their weights to v; return how many there are.

    Features and pair features are counted separately.
    """
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
def as_corpus(data: Encoded, s: int, local: SentenceWeights) -> Encoded:
    """Return sentence s, with the renumbered features, as a corpus of its own."""
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
def subtract_slopes(
    data: Encoded, s: int, factor: float, scratch: ChainScratch, local: SentenceWeights
) -> None:
    """``change -= factor·slope`` of sentence s, for its renumbered features."""
    sentence = as_corpus(data, s, local)
    step = scratch.E.dtype.type(factor)
    subtract_state(sentence, ZERO, step, local.change.W, scratch, local.steps)
    subtract_pairs(sentence, ZERO, step, local.change.V, scratch)


@leaf
def clear_rows(W: Array, n: int) -> None:
    """Set the weights of the first n features to 0."""
    for b in range(W.shape[0]):
        for k in range(n):
            for d in range(LANES):
                W[b, k, d] = 0.0


@leaf
def clear_changes(local: SentenceWeights, n: int, m: int) -> None:
    """Set the changes of n features and m pair features to 0."""
    clear_rows(local.change.W, n)
    clear_rows(local.change.V, m)


@kernel
def copy_slopes(
    alpha: Array, pairs: Array, length: int, runs: int, out: Array, pairs_out: Array
) -> None:
    """Copy the slopes of a sentence."""
    for k in range(length):
        copy(alpha[k], out[k])
    for k in range(runs):
        for b in range(pairs.shape[1]):
            for i in range(pairs.shape[2]):
                copy(pairs[k, b, i], pairs_out[k, b, i])
