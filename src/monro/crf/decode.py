"""Decoding: marginals, the best tags (Viterbi), the n best, and constraints on the tags."""

import heapq
from typing import Any

import numpy as np

from monro._jit import kernel, lanes_leaf, leaf
from monro.blocks import LANES, MASKED_SCORE
from monro.crf.chain import (
    Allowed,
    ChainScratch,
    all_allowed,
    backward,
    forward,
    same_pair_features,
    score_pairs,
    score_token,
)
from monro.crf.encoding import Encoded
from monro.crf.weights import ChainWeights
from monro.rows import Array

SCHEMES = ("BIO", "BIOES")

# ---------------------------------------------------------------------------------------- marginals


@kernel
def marginals(
    data: Encoded,
    y: Array,
    weights: ChainWeights,
    allowed: Allowed,
    scratch: ChainScratch,
    out: Array,
) -> None:
    """Write the probability of each tag at each token; y is any sequence of tags."""
    for s in range(data.starts.size - 1):
        first, stop = data.starts[s], data.starts[s + 1]
        if first == stop:
            continue
        _, _, runs = forward(data, s, y, weights, 1.0, allowed, scratch)
        backward(data, s, weights, 1.0, allowed, runs, scratch)
        for t in range(first, stop):
            for k in range(out.shape[1]):
                out[t, k] = scratch.alpha[t - first, k]


# ----------------------------------------------------------------------------------------- the best


@lanes_leaf
def _follow(best: Array, i: int, v: Array, mask: Array, reach: Array, back: Array) -> None:
    """Extend the best sequence that ends in tag i by each tag, where that is the best so far."""
    before = best[i]
    tag = np.int32(i)
    for d in range(reach.size):
        score = before + v[d] + mask[d]
        better = score > reach[d]
        reach[d] = score if better else reach[d]
        back[d] = tag if better else back[d]


@leaf
def _best_tags(
    data: Encoded,
    s: int,
    weights: ChainWeights,
    mask: Allowed,
    scratch: ChainScratch,
    back: Array,
    y: Array,
) -> bool:
    """Write the best tags of a sentence; return whether they are allowed and of finite score."""
    first, stop = data.starts[s], data.starts[s + 1]
    n, lanes = scratch.v.shape
    best, reach = scratch.beta, scratch.reach
    for t in range(first, stop):
        E = scratch.E[t - first]
        score_token(data, t, weights.W, 1.0, E)
        if t == first:
            for d in range(lanes):
                reach[d] = mask.first[d]
        else:
            if t == first + 1 or not same_pair_features(data, t, t - 1):
                score_pairs(data, t, weights.V, 1.0, scratch.v)
            for d in range(lanes):
                reach[d] = -np.inf
                back[t - first, d] = 0
            for i in range(n):
                _follow(best, i, scratch.v[i], mask.pair[0, i], reach, back[t - first])
        for d in range(lanes):
            best[d] = reach[d] + E[d]
            if t + 1 == stop:
                best[d] += mask.last[d]
    tag = 0
    for d in range(n):
        if best[d] > best[tag]:
            tag = d
    valid = bool(best[tag] > 0.5 * MASKED_SCORE) and bool(best[tag] < np.inf)
    for t in range(stop - 1, first - 1, -1):
        y[t] = tag
        if t > first:
            tag = back[t - first, tag]
    return valid


@kernel
def viterbi(
    data: Encoded,
    weights: ChainWeights,
    mask: Allowed,
    scratch: ChainScratch,
    back: Array,
    y: Array,
) -> int:
    """Write the best tags of all sentences; return the first sentence that has none, or -1.

    `mask` is that of `additive_mask`.
    """
    for s in range(data.starts.size - 1):
        if data.starts[s] < data.starts[s + 1] and not _best_tags(
            data, s, weights, mask, scratch, back, y
        ):
            return s
    return -1


def additive_mask(allowed: Allowed) -> Allowed:
    """Return what to add to scores: 0 where allowed, else `MASKED_SCORE`.

    The mask of pairs is ``[0, previous tag, tag]``.
    """
    pair = np.concatenate(list(allowed.pair), axis=1)[None]
    parts = allowed.first, allowed.last, pair
    return Allowed(*(np.where(part > 0.0, 0.0, MASKED_SCORE).astype(part.dtype) for part in parts))


# --------------------------------------------------------------------------------------- the n best


@kernel
def sentence_scores(
    data: Encoded, s: int, weights: ChainWeights, scratch: ChainScratch, state: Array, pair: Array
) -> None:
    """Write the scores of sentence s: of tags, and of pairs at each token but the first."""
    first = data.starts[s]
    n = scratch.tags.size
    for t in range(first, data.starts[s + 1]):
        score_token(data, t, weights.W, 1.0, scratch.E[0])
        for k in range(n):
            state[t - first, k] = scratch.E[0, k]
        if t > first:
            score_pairs(data, t, weights.V, 1.0, scratch.v)
            for i in range(n):
                for k in range(n):
                    pair[t - first, i, k] = scratch.v[i, k]


def best_sequences(state: Array, pair: Array, n: int) -> list[tuple[float, list[int]]]:
    """Return the n best sequences of tags with their scores, the best first.

    Viterbi scores bound the best sequence that ends in each tag of each token, exactly: so an A*
    search from the last token to the first finds the sequences in order.

    Examples
    --------
    >>> state, pair = np.array([[0.0, 1.0], [0.0, 3.0]]), np.zeros((2, 2, 2))
    >>> [(float(score), tags) for score, tags in best_sequences(state, pair, 3)]
    [(4.0, [1, 1]), (3.0, [0, 1]), (1.0, [1, 0])]
    """
    left = [state[0]]
    for t in range(1, len(state)):
        left.append((left[-1][:, None] + pair[t]).max(axis=0) + state[t])
    last = len(state) - 1
    # Entries: minus the score of the best sequence with this suffix, a number to break ties, the
    # first token of the suffix, the score of what follows it, and the suffix as a linked list.
    heap: list[Any] = [(-best, k, last, 0.0, (k, None)) for k, best in enumerate(left[-1])]
    heapq.heapify(heap)
    entries = len(heap)
    found: list[tuple[float, list[int]]] = []
    while heap and len(found) < n:
        bound, _, t, beyond, end = heapq.heappop(heap)
        if -bound < 0.5 * MASKED_SCORE:
            break
        if t == 0:
            found.append((-bound, _as_list(end)))
            continue
        beyond += state[t, end[0]]
        for k, best in enumerate(left[t - 1]):
            after = beyond + pair[t, k, end[0]]
            entries += 1
            heapq.heappush(heap, (-(best + after), entries, t - 1, after, (k, end)))
    return found


def _as_list(end: Any) -> list[int]:
    tags = []
    while end is not None:
        tag, end = end
        tags.append(tag)
    return tags


# --------------------------------------------------------------------------------- constraints


def _split(tag: str) -> tuple[str, str]:
    prefix, dash, kind = tag.partition("-")
    return (prefix, kind) if dash else (tag, "")


def chunk_rules(tags: list[str], scheme: str, dtype: Any) -> Allowed:
    """Return which tags may begin, follow and end in a scheme of chunks.

    "BIO": I-X follows B-X or I-X. "BIOES": in addition, a chunk ends in E-X, or is a single S-X.
    """
    allowed = all_allowed(len(tags), dtype)
    known = set(scheme)
    for tag in tags:
        prefix, _ = _split(tag)
        if prefix not in known or (prefix == "O") != (tag == "O"):
            choices = ", ".join("O" if letter == "O" else f"{letter}-…" for letter in scheme)
            raise ValueError(
                f"constraints={scheme!r}: there is a tag {tag!r}, which is none of {choices}; use "
                "constraints=None"
            )
    opens = "BI"  # after these a chunk continues (BIOES) or may continue (BIO)
    for k, tag in enumerate(tags):
        prefix, kind = _split(tag)
        inside = prefix in "IE"
        if inside:
            allowed.first[k] = 0.0
        if scheme == "BIOES" and prefix in opens:
            allowed.last[k] = 0.0
        for i, before in enumerate(tags):
            start, its_kind = _split(before)
            continues = start in opens and its_kind == kind
            valid = continues if inside else scheme == "BIO" or start not in opens
            allowed.pair[k // LANES, i, k % LANES] = float(valid)
    _prune(allowed, len(tags))
    if not (allowed.first.any() and allowed.last.any()):
        raise ValueError(
            f"constraints={scheme!r}: no sequence of the tags {', '.join(tags)} is valid; use "
            "constraints=None"
        )
    return allowed


def _prune(allowed: Allowed, n: int) -> None:
    """Forbid tags that are in no valid sequence: no start leads to them, or they lead to no end."""
    first, last = allowed.first[:n], allowed.last[:n]
    pair = np.concatenate(list(allowed.pair), axis=1)[:, :n]
    reached, ends = first > 0.0, last > 0.0
    for _ in range(n):
        reached = reached | (pair[reached] > 0.0).any(axis=0)
        ends = ends | (pair[:, ends] > 0.0).any(axis=1)
    for k in np.flatnonzero(~(reached & ends)):
        first[k] = last[k] = 0.0
        allowed.pair[:, k] = 0.0
        allowed.pair[k // LANES, :, k % LANES] = 0.0
