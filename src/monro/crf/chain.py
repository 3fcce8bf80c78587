"""The forward-backward algorithm: probabilities, marginals and slopes of a sentence's tags.

The score of tags y is ``Σ_t s_t(y_t) + Σ_t v_t(y_{t-1}, y_t)``. Sums over all sequences are taken
in probability space, rescaled at every token: with ``E_t = exp(s_t - max s_t)`` and
``M = exp(v - max v)``

    ``α_t = E_t ∘ (α_{t-1} M) / c_t``,   ``q_t = E_t ∘ β_t / c_t``,   ``β_{t-1} = M q_t``,

where c_t makes α_t sum to 1. Then ``α_t ∘ β_t`` are the marginals of tag t, those of a pair are
``α_{t-1}(i) M(i, j) q_t(j)``, and ``log Z = Σ_t (log c_t + max s_t + max v)``.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel, lanes_leaf, leaf
from monro._math import fast_exp, fast_log
from monro.blocks import LANES, lanes_dot, lanes_subtract, n_lanes
from monro.crf.encoding import Encoded
from monro.crf.weights import ChainWeights
from monro.rows import Array

# The smallest exponents: with them α is never 0, and β never overflows.
_LOWEST = {np.dtype(np.float32): -40.0, np.dtype(np.float64): -300.0}


class Allowed(NamedTuple):
    """Which tags may begin or end a sentence, and which may follow which: 1 if so, else 0.

    Lanes without a tag are 0.
    """

    first: Array  # (lanes,)
    last: Array  # (lanes,)
    pair: Array  # (blocks, tags, 16): of the previous tag and the tag


class ChainScratch(NamedTuple):
    """Scratch buffers for one sentence.

    Neighbouring tokens with the same pair features are a *run*: they share a matrix M.
    """

    E: Array  # (tokens, lanes); -q after `backward`
    alpha: Array  # (tokens, lanes); the marginals after `backward`
    norm: Array  # (tokens,): c
    beta: Array  # (lanes,)
    reach: Array  # (lanes,): the best score of a sequence that ends in each tag, for Viterbi
    v: Array  # (tags, lanes): pair scores
    M: Array  # (blocks, tags, 16): of the previous tag and the tag
    MT: Array  # (blocks, tags, 16): the transpose of M
    pairs: Array  # (runs, blocks, tags, 16): marginals of pairs, summed over a run
    tags: Array  # 0, 1, 2, …: the indices of a vector over tags, for `lanes_dot`
    lowest: Array  # (1,): the smallest exponent


def new_chain_scratch(longest: int, runs: int, n_tags: int, dtype: Any) -> ChainScratch:
    """Return scratch buffers for sentences of up to that many tokens and runs."""
    lanes = n_lanes(n_tags)
    matrix = (lanes // LANES, n_tags, LANES)
    return ChainScratch(
        np.zeros((longest, lanes), dtype),
        np.zeros((longest, lanes), dtype),
        np.zeros(longest, dtype),
        np.zeros(lanes, dtype),
        np.zeros(lanes, dtype),
        np.zeros((n_tags, lanes), dtype),
        np.zeros(matrix, dtype),
        np.zeros(matrix, dtype),
        np.zeros((runs, *matrix), dtype),
        np.arange(n_tags, dtype=np.uint32),
        np.full(1, _LOWEST[np.dtype(dtype)], dtype),
    )


def all_allowed(n_tags: int, dtype: Any) -> Allowed:
    """Return no constraints: any tag may begin or end a sentence, and follow any other."""
    real = (np.arange(n_lanes(n_tags)) < n_tags).astype(dtype)
    pair = np.repeat(real.reshape(-1, 1, LANES), n_tags, axis=1)
    return Allowed(real, real.copy(), pair)


# ------------------------------------------------------------------------------------------ scores


@leaf
def score_token(data: Encoded, t: int, W: Array, scale: float, out: Array) -> None:
    """``out = scale·Σ_p values[p] W[·, features[p], ·]``, p the features of token t."""
    start, stop = data.indptr[t], data.indptr[t + 1]
    for b in range(W.shape[0]):
        lanes_dot(data.values, data.features, start, stop, W, b, out[b * LANES : (b + 1) * LANES])
    rescale(out, out.dtype.type(scale))


@lanes_leaf
def copy(z: Array, out: Array) -> None:
    """``out = z``."""
    for d in range(z.size):
        out[d] = z[d]


@lanes_leaf
def rescale(z: Array, c: float) -> None:
    """``z *= c``."""
    for d in range(z.size):
        z[d] *= c


@lanes_leaf
def largest_of(z: Array, n: int) -> Any:
    """Return the largest of the first n numbers."""
    top = z[0]
    for d in range(n):
        top = z[d] if z[d] > top else top
    return top


@lanes_leaf
def exponentials(z: Array, top: float, lowest: float) -> None:
    """Replace z by ``exp(z - top)``, never below ``exp(lowest)``."""
    for d in range(z.size):
        t = z[d] - top
        z[d] = fast_exp(t if t > lowest else lowest)


@lanes_leaf
def multiply(z: Array, by: Array) -> Any:
    """``z *= by``; return the sum."""
    total = z.dtype.type(0.0)
    for d in range(z.size):
        z[d] *= by[d]
        total += z[d]
    return total


@leaf
def same_pair_features(data: Encoded, t: int, other: int) -> bool:
    """Return whether two tokens have the same pair features."""
    start, begin = data.pair_indptr[t], data.pair_indptr[other]
    n = data.pair_indptr[t + 1] - start
    if data.pair_indptr[other + 1] - begin != n:
        return False
    same = True
    for k in range(n):
        same &= data.pairs[start + k] == data.pairs[begin + k]
    return same


@leaf
def ends_run(data: Encoded, t: int, stop: int) -> bool:
    """Return whether token t is the last of its run, in a sentence that ends before `stop`."""
    return t == stop - 1 or not same_pair_features(data, t, t + 1)


@kernel
def most_runs(data: Encoded) -> int:
    """Return the largest number of runs in a sentence, at least 1."""
    most = 1
    for s in range(data.starts.size - 1):
        runs = 1
        for t in range(data.starts[s] + 2, data.starts[s + 1]):
            runs += not same_pair_features(data, t, t - 1)
        most = max(most, runs)
    return most


@leaf
def score_pairs(data: Encoded, t: int, V: Array, scale: float, v: Array) -> None:
    """Write the pair scores at token t."""
    blocks = v.shape[1] // LANES
    for i in range(v.shape[0]):
        for d in range(v.shape[1]):
            v[i, d] = 0.0
        for p in range(data.pair_indptr[t], data.pair_indptr[t + 1]):
            for b in range(blocks):
                row = V[i * blocks + b, data.pairs[p]]
                for d in range(LANES):
                    v[i, b * LANES + d] += row[d]
        rescale(v[i], v.dtype.type(scale))


@kernel
def fill_transitions(
    data: Encoded, t: int, V: Array, scale: float, allowed: Allowed, scratch: ChainScratch
) -> float:
    """Write M and its transpose for token t to the scratch; return ``max v``."""
    n = scratch.v.shape[0]
    score_pairs(data, t, V, scale, scratch.v)
    top = scratch.v[0, 0]
    for i in range(n):
        top = max(top, largest_of(scratch.v[i], n))
    for i in range(n):
        for b in range(scratch.M.shape[0]):
            row = scratch.M[b, i]
            copy(scratch.v[i, b * LANES : (b + 1) * LANES], row)
            exponentials(row, top, scratch.lowest[0])
            multiply(row, allowed.pair[b, i])
        for j in range(n):
            scratch.MT[i // LANES, j, i % LANES] = scratch.M[j // LANES, i, j % LANES]
    return float(top)


@leaf
def multiply_vector(vector: Array, matrix: Array, scratch: ChainScratch, out: Array) -> None:
    """``out = vector · matrix``."""
    n = scratch.tags.size
    for b in range(matrix.shape[0]):
        lanes_dot(vector, scratch.tags, 0, n, matrix, b, out[b * LANES : (b + 1) * LANES])


@kernel
def forward(
    data: Encoded,
    s: int,
    y: Array,
    weights: ChainWeights,
    scale: float,
    allowed: Allowed,
    scratch: ChainScratch,
) -> tuple[float, float, int]:
    """Compute E, α and c of sentence s; return log Z, the score of y, and the number of runs."""
    first, stop = data.starts[s], data.starts[s + 1]
    n = scratch.tags.size
    log_z = 0.0
    score = 0.0
    top = 0.0
    runs = 0
    for t in range(first, stop):
        E, alpha = scratch.E[t - first], scratch.alpha[t - first]
        score_token(data, t, weights.W, scale, E)
        score += E[y[t]]
        largest = largest_of(E, n)
        exponentials(E, largest, scratch.lowest[0])
        if t == first:
            copy(allowed.first, alpha)
        else:
            if runs == 0 or not same_pair_features(data, t, t - 1):
                top = fill_transitions(data, t, weights.V, scale, allowed, scratch)
                runs += 1
            multiply_vector(scratch.alpha[t - 1 - first], scratch.M, scratch, alpha)
            log_z += top
            score += scratch.v[y[t - 1], y[t]]
        if t + 1 == stop:
            multiply(alpha, allowed.last)
        c = multiply(alpha, E)
        rescale(alpha, alpha.dtype.type(1.0) / c)
        scratch.norm[t - first] = c
        log_z += float(fast_log(c)) + float(largest)
    return log_z, score, runs


@kernel
def backward(
    data: Encoded,
    s: int,
    weights: ChainWeights,
    scale: float,
    allowed: Allowed,
    runs: int,
    scratch: ChainScratch,
) -> None:
    """Replace α by the marginals, and sum those of pairs over each run, the last run first."""
    first, stop = data.starts[s], data.starts[s + 1]
    beta = scratch.beta
    copy(allowed.last, beta)
    run = 0
    if runs > 0:
        scratch.pairs[0] = 0.0
    for t in range(stop - 1, first, -1):
        if t < stop - 1 and not same_pair_features(data, t, t + 1):
            multiply_elements(scratch.pairs[run], scratch.M)
            fill_transitions(data, t, weights.V, scale, allowed, scratch)
            run += 1
            scratch.pairs[run] = 0.0
        q, alpha = scratch.E[t - first], scratch.alpha[t - first]
        multiply(alpha, beta)
        multiply(q, beta)
        rescale(q, -q.dtype.type(1.0) / scratch.norm[t - first])
        before = scratch.alpha[t - 1 - first]
        for b in range(scratch.M.shape[0]):
            lanes_subtract(
                before, scratch.tags, 0, scratch.tags.size, scratch.pairs[run], b,
                q[b * LANES : (b + 1) * LANES],
            )  # fmt: skip
        multiply_vector(q, scratch.MT, scratch, beta)
        rescale(beta, -beta.dtype.type(1.0))
    if runs > 0:
        multiply_elements(scratch.pairs[run], scratch.M)
    multiply(scratch.alpha[0], beta)


@leaf
def multiply_elements(a: Array, b: Array) -> None:
    """Multiply a by b, element by element."""
    for k in range(a.shape[0]):
        for i in range(a.shape[1]):
            multiply(a[k, i], b[k, i])


@kernel
def gradient(
    data: Encoded,
    s: int,
    y: Array,
    weights: ChainWeights,
    scale: float,
    allowed: Allowed,
    scratch: ChainScratch,
) -> tuple[float, int]:
    """Compute ``-log p(y)`` of sentence s and its slopes; return it, and the number of runs.

    The slope in the score of tag k at token t is ``scratch.alpha[t, k]``, that in the score of a
    pair ``scratch.pairs[run, …]``: the marginal, minus 1 for the true tag or pair.
    """
    log_z, score, runs = forward(data, s, y, weights, scale, allowed, scratch)
    backward(data, s, weights, scale, allowed, runs, scratch)
    first, stop = data.starts[s], data.starts[s + 1]
    run = -1
    for t in range(stop - 1, first - 1, -1):
        scratch.alpha[t - first, y[t]] -= 1.0
        if t > first:
            run += ends_run(data, t, stop)
            scratch.pairs[run, y[t] // LANES, y[t - 1], y[t] % LANES] -= 1.0
    return log_z - score, runs


@kernel
def subtract_state(
    data: Encoded, s: int, step: float, W: Array, scratch: ChainScratch, steps: Array
) -> None:
    """``W -= step·slope`` of sentence s."""
    first = data.starts[s]
    for t in range(first, data.starts[s + 1]):
        slope = scratch.alpha[t - first]
        for d in range(steps.size):
            steps[d] = step * slope[d]
        for b in range(W.shape[0]):
            lanes_subtract(
                data.values, data.features, data.indptr[t], data.indptr[t + 1], W, b,
                steps[b * LANES : (b + 1) * LANES],
            )  # fmt: skip


@kernel
def subtract_pairs(data: Encoded, s: int, step: float, V: Array, scratch: ChainScratch) -> None:
    """``V -= step·slope`` of sentence s."""
    first, stop = data.starts[s], data.starts[s + 1]
    blocks = scratch.M.shape[0]
    run = -1
    for t in range(stop - 1, first, -1):
        if not ends_run(data, t, stop):
            continue
        run += 1
        for p in range(data.pair_indptr[t], data.pair_indptr[t + 1]):
            for i in range(scratch.tags.size):
                for b in range(blocks):
                    row = V[i * blocks + b, data.pairs[p]]
                    slope = scratch.pairs[run, b, i]
                    for d in range(LANES):
                        row[d] -= step * slope[d]
