"""A sentence's tags as a chain: probabilities, marginals, and slopes.

The score of tags y is ``Σ_t s_t(y_t) + Σ_t v_t(y_{t-1}, y_t)``. Sums over all sequences take place
in probability space, scaled at every token: with ``E_t = exp(s_t - max s_t)`` and
``M = exp(v - max v)``

    ``α_t = E_t ∘ (α_{t-1} M) / c_t``,   ``q_t = E_t ∘ β_t / c_t``,   ``β_{t-1} = M q_t``,

where c_t makes α_t sum to 1. Then ``α_t ∘ β_t`` are the marginals of tag t, those of a pair are
``α_{t-1}(i) M(i, j) q_t(j)``, and ``log Z = Σ_t (log c_t + max s_t + max v)``.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import LANES, kernel, lanes_dot, lanes_leaf, lanes_subtract, leaf
from monro._math import fast_exp, fast_log
from monro.crf.encoding import Encoded
from monro.crf.weights import Weights, n_lanes
from monro.rows import Array

# Exponents below these count as these: so α is never 0, and β never overflows.
_LOWEST = {np.dtype(np.float32): -40.0, np.dtype(np.float64): -300.0}


class Allowed(NamedTuple):
    """1 for tags that may begin or end a sentence, and for pairs; else 0. There are tags·16 lanes.

    Lanes that are no tag are 0.
    """

    first: Array
    last: Array
    pair: Array  # (blocks, tags, 16): of a tag before and a tag


class Room(NamedTuple):
    """Where a sentence is worked on.

    Neighbouring tokens with the same pair features are a *run*: they share a matrix M.
    """

    E: Array  # (tokens, lanes); q after the way back
    alpha: Array  # (tokens, lanes); after the way back the marginals
    norm: Array  # (tokens,): c
    beta: Array  # (lanes,)
    reach: Array  # (lanes,): the best scores, for Viterbi
    v: Array  # (tags, lanes): pair scores
    M: Array  # (blocks, tags, 16): of a tag before and a tag
    MT: Array  # the same with the two exchanged
    pairs: Array  # (runs, blocks, tags, 16): marginals of pairs, summed over a run
    tags: Array  # 0, 1, 2, …
    lowest: Array  # (1,)


def new_room(longest: int, runs: int, n_tags: int, dtype: Any) -> Room:
    """Return room for sentences of up to that many tokens and runs."""
    lanes = n_lanes(n_tags)
    matrix = (lanes // LANES, n_tags, LANES)
    return Room(
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


def everything(n_tags: int, dtype: Any) -> Allowed:
    """Return that all tags may follow each other."""
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
    stretch(out, out.dtype.type(scale))


@lanes_leaf
def copy(z: Array, out: Array) -> None:
    """``out = z``."""
    for d in range(z.size):
        out[d] = z[d]


@lanes_leaf
def stretch(z: Array, c: float) -> None:
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
def same_pairs(data: Encoded, t: int, other: int) -> bool:
    """Tell whether two tokens have the same pair features."""
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
    """Tell whether token t is the last of its run, in a sentence that ends before `stop`."""
    return t == stop - 1 or not same_pairs(data, t, t + 1)


@kernel
def most_runs(data: Encoded) -> int:
    """Return the most runs that a sentence has, at least 1."""
    most = 1
    for s in range(data.starts.size - 1):
        runs = 1
        for t in range(data.starts[s] + 2, data.starts[s + 1]):
            runs += not same_pairs(data, t, t - 1)
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
        stretch(v[i], v.dtype.type(scale))


@kernel
def prepare_pairs(
    data: Encoded, t: int, V: Array, scale: float, allowed: Allowed, room: Room
) -> float:
    """Make M and its transpose for token t; return ``max v``."""
    n = room.v.shape[0]
    score_pairs(data, t, V, scale, room.v)
    top = room.v[0, 0]
    for i in range(n):
        top = max(top, largest_of(room.v[i], n))
    for i in range(n):
        for b in range(room.M.shape[0]):
            row = room.M[b, i]
            copy(room.v[i, b * LANES : (b + 1) * LANES], row)
            exponentials(row, top, room.lowest[0])
            multiply(row, allowed.pair[b, i])
        for j in range(n):
            room.MT[i // LANES, j, i % LANES] = room.M[j // LANES, i, j % LANES]
    return float(top)


@leaf
def times(vector: Array, matrix: Array, room: Room, out: Array) -> None:
    """``out = vector · matrix``."""
    n = room.tags.size
    for b in range(matrix.shape[0]):
        lanes_dot(vector, room.tags, 0, n, matrix, b, out[b * LANES : (b + 1) * LANES])


@kernel
def forward(
    data: Encoded, s: int, y: Array, weights: Weights, scale: float, allowed: Allowed, room: Room
) -> tuple[float, float, int]:
    """Fill E, α and c of sentence s; return log Z, the score of the tags y, and the runs."""
    first, stop = data.starts[s], data.starts[s + 1]
    n = room.tags.size
    log_z = 0.0
    score = 0.0
    top = 0.0
    runs = 0
    for t in range(first, stop):
        E, alpha = room.E[t - first], room.alpha[t - first]
        score_token(data, t, weights.W, scale, E)
        score += E[y[t]]
        largest = largest_of(E, n)
        exponentials(E, largest, room.lowest[0])
        if t == first:
            copy(allowed.first, alpha)
        else:
            if runs == 0 or not same_pairs(data, t, t - 1):
                top = prepare_pairs(data, t, weights.V, scale, allowed, room)
                runs += 1
            times(room.alpha[t - 1 - first], room.M, room, alpha)
            log_z += top
            score += room.v[y[t - 1], y[t]]
        if t + 1 == stop:
            multiply(alpha, allowed.last)
        c = multiply(alpha, E)
        stretch(alpha, alpha.dtype.type(1.0) / c)
        room.norm[t - first] = c
        log_z += float(fast_log(c)) + float(largest)
    return log_z, score, runs


@kernel
def backward(
    data: Encoded, s: int, weights: Weights, scale: float, allowed: Allowed, runs: int, room: Room
) -> None:
    """Replace α by the marginals, and sum up those of pairs: the last run's come first."""
    first, stop = data.starts[s], data.starts[s + 1]
    beta = room.beta
    copy(allowed.last, beta)
    run = 0
    if runs > 0:
        room.pairs[0] = 0.0
    for t in range(stop - 1, first, -1):
        if t < stop - 1 and not same_pairs(data, t, t + 1):
            multiply_matrices(room.pairs[run], room.M)
            prepare_pairs(data, t, weights.V, scale, allowed, room)
            run += 1
            room.pairs[run] = 0.0
        q, alpha = room.E[t - first], room.alpha[t - first]
        multiply(alpha, beta)
        multiply(q, beta)
        stretch(q, -q.dtype.type(1.0) / room.norm[t - first])
        before = room.alpha[t - 1 - first]
        for b in range(room.M.shape[0]):
            lanes_subtract(
                before, room.tags, 0, room.tags.size, room.pairs[run], b,
                q[b * LANES : (b + 1) * LANES],
            )  # fmt: skip
        times(q, room.MT, room, beta)
        stretch(beta, -beta.dtype.type(1.0))
    if runs > 0:
        multiply_matrices(room.pairs[run], room.M)
    multiply(room.alpha[0], beta)


@leaf
def multiply_matrices(a: Array, b: Array) -> None:
    """Multiply a by b, element by element."""
    for k in range(a.shape[0]):
        for i in range(a.shape[1]):
            multiply(a[k, i], b[k, i])


@kernel
def gradient(
    data: Encoded, s: int, y: Array, weights: Weights, scale: float, allowed: Allowed, room: Room
) -> tuple[float, int]:
    """Leave the slopes of ``-log p(y)`` of sentence s in the room; return it, and the runs.

    The slope in the score of tag k at token t is ``room.alpha[t, k]``, that in the score of a pair
    ``room.pairs[run, …]``: the marginal, less 1 for what is true.
    """
    log_z, score, runs = forward(data, s, y, weights, scale, allowed, room)
    backward(data, s, weights, scale, allowed, runs, room)
    first, stop = data.starts[s], data.starts[s + 1]
    run = -1
    for t in range(stop - 1, first - 1, -1):
        room.alpha[t - first, y[t]] -= 1.0
        if t > first:
            run += ends_run(data, t, stop)
            room.pairs[run, y[t] // LANES, y[t - 1], y[t] % LANES] -= 1.0
    return log_z - score, runs


@kernel
def subtract_state(data: Encoded, s: int, step: float, W: Array, room: Room, steps: Array) -> None:
    """``W -= step·slope`` of sentence s."""
    first = data.starts[s]
    for t in range(first, data.starts[s + 1]):
        slope = room.alpha[t - first]
        for d in range(steps.size):
            steps[d] = step * slope[d]
        for b in range(W.shape[0]):
            lanes_subtract(
                data.values, data.features, data.indptr[t], data.indptr[t + 1], W, b,
                steps[b * LANES : (b + 1) * LANES],
            )  # fmt: skip


@kernel
def subtract_pairs(data: Encoded, s: int, step: float, V: Array, room: Room) -> None:
    """``V -= step·slope`` of sentence s."""
    first, stop = data.starts[s], data.starts[s + 1]
    blocks = room.M.shape[0]
    run = -1
    for t in range(stop - 1, first, -1):
        if not ends_run(data, t, stop):
            continue
        run += 1
        for p in range(data.pair_indptr[t], data.pair_indptr[t + 1]):
            for i in range(room.tags.size):
                for b in range(blocks):
                    row = V[i * blocks + b, data.pairs[p]]
                    slope = room.pairs[run, b, i]
                    for d in range(LANES):
                        row[d] -= step * slope[d]
