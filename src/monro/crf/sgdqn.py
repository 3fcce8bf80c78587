"""SGD-QN on sentences: a gain for each weight, learnt on the way (paper 004, sections 4.2 and 5.4).

See `monro.linear.sgdqn` for the algorithms. Here a sentence's slopes at a past v and at w give

    ``r = λ + [slope(w) - slope(v)] / (w - v)``, kept between λ and 100λ,

for the features of the sentence; for all others it is λ. So the corrected algorithm's inverse gains
are ``1/B = a + λt`` with an `a` that changes for features seen alone, and between two sights of a
feature the ridge takes ``Π (1 - λB)``, which is ``(a + λt)/(a + λt')``: a step touches the weights
of its sentence, not all. The flawed algorithm moves every gain whenever it measures; it is kept to
redraw the erratum's figures.
"""

from typing import NamedTuple

import numpy as np

from monro._jit import LANES, kernel, lanes_leaf, leaf
from monro.crf.chain import Allowed, Room, copy, ends_run, gradient
from monro.crf.encoding import Encoded
from monro.crf.local import ZERO, Local, alone, forget_change, subtract_slopes, take_apart
from monro.crf.weights import Weights, new_weights
from monro.rows import Array

_LARGEST = 100.0  # times λ: the largest curvature


class GainState(NamedTuple):
    """Weights w, what their gains are made of, and when the ridge was last taken from each."""

    w: Weights
    gains: Weights  # corrected: a; flawed: B
    last: Array  # (features,)
    pair_last: Array
    t: Array  # (1,): steps
    measured: Array  # (1,): how often


def new_gain_state(n_features: int, n_pairs: int, n_tags: int, gain: float) -> GainState:
    """Return the state of zero weights."""
    w, gains = (new_weights(n_features, n_pairs, n_tags, np.float32) for _ in range(2))
    for part in gains:
        part[:] = gain
    zeros = np.zeros(n_features), np.zeros(n_pairs), np.zeros(1), np.zeros(1)
    return GainState(w, gains, *zeros)


@leaf
def curvature(lam: float, change: float, moved: float) -> float:
    """``r`` for a feature of the sentence."""
    if moved == 0.0:
        return _LARGEST * lam
    return min(max(lam + change / moved, lam), _LARGEST * lam)


# What these loops do is to be done sixteen lanes at a time: for that their length must not be known
# beforehand (else LLVM unrolls them first), and their arrays must not overlap.


@lanes_leaf
def subtract_divided(row: Array, gain: Array, slope: Array, c: float, add: float) -> None:
    """``row -= c·slope/(gain + add)``."""
    for d in range(row.size):
        row[d] -= c * slope[d] / (gain[d] + add)


@lanes_leaf
def subtract_multiplied(row: Array, gain: Array, slope: Array, c: float) -> None:
    """``row -= c·slope·gain``."""
    for d in range(row.size):
        row[d] -= c * slope[d] * gain[d]


@lanes_leaf
def shrink_row(row: Array, a: Array, before: float, now: float) -> None:
    """``row *= (a + before)/(a + now)``."""
    for d in range(row.size):
        row[d] *= (a[d] + before) / (a[d] + now)


@leaf
def subtract_row(
    row: Array, gain: Array, slope: Array, c: float, add: float, inverse: bool
) -> None:
    """``row -= c·B·slope``: see `subtract_gained`."""
    if inverse:
        subtract_divided(row, gain, slope, c, add)
    else:
        subtract_multiplied(row, gain, slope, c)


@kernel
def subtract_gained(
    data: Encoded, s: int, factor: float, shift: float, inverse: bool, w: Weights, gains: Weights,
    room: Room,
) -> None:  # fmt: skip
    """``w -= factor·B·slope``, where B is the gain, or 1/(gain + shift) if `inverse`."""
    number = room.E.dtype.type
    add = number(shift)
    first, stop = data.starts[s], data.starts[s + 1]
    blocks = w.W.shape[0]
    for t in range(first, stop):
        slope = room.alpha[t - first]
        for p in range(data.indptr[t], data.indptr[t + 1]):
            c = number(factor * data.values[p])
            for b in range(blocks):
                part = slope[b * LANES : (b + 1) * LANES]
                row, gain = w.W[b, data.features[p]], gains.W[b, data.features[p]]
                subtract_row(row, gain, part, c, add, inverse)
    run = -1
    for t in range(stop - 1, first, -1):
        if not ends_run(data, t, stop):
            continue
        run += 1
        for p in range(data.pair_indptr[t], data.pair_indptr[t + 1]):
            for k in range(w.V.shape[0]):
                row, gain = w.V[k, data.pairs[p]], gains.V[k, data.pairs[p]]
                slope = room.pairs[run, k % blocks, k // blocks]
                subtract_row(row, gain, slope, number(factor), add, inverse)


# -------------------------------------------------------------------------------- the corrected one


@leaf
def shrink(W: Array, A: Array, f: int, lam: float, since: float, t: float) -> None:
    """Take the ridge of the steps from `since` to t from a feature's weights."""
    number = W.dtype.type
    before, now = number(lam * since), number(lam * t)
    for b in range(W.shape[0]):
        shrink_row(W[b, f], A[b, f], before, now)


@kernel
def catch_up(data: Encoded, s: int, lam: float, t: float, state: GainState) -> None:
    """Bring the weights of sentence s to the present."""
    first, stop = data.starts[s], data.starts[s + 1]
    for p in range(data.indptr[first], data.indptr[stop]):
        f = data.features[p]
        if state.last[f] < t:
            shrink(state.w.W, state.gains.W, f, lam, state.last[f], t)
            state.last[f] = t
    for p in range(data.pair_indptr[first], data.pair_indptr[stop]):
        f = data.pairs[p]
        if state.pair_last[f] < t:
            shrink(state.w.V, state.gains.V, f, lam, state.pair_last[f], t)
            state.pair_last[f] = t


@kernel
def settle(lam: float, state: GainState) -> None:
    """Bring all weights to the present."""
    t = state.t[0]
    for f in range(state.last.size):
        shrink(state.w.W, state.gains.W, f, lam, state.last[f], t)
        state.last[f] = t
    for f in range(state.pair_last.size):
        shrink(state.w.V, state.gains.V, f, lam, state.pair_last[f], t)
        state.pair_last[f] = t


@kernel
def tighten(
    W: Array, A: Array, v: Array, change: Array, feature: Array, n: int, lam: float, skip: float
) -> None:
    """Let the inverse gains of n features grow by their curvature, for `skip` steps."""
    for b in range(W.shape[0]):
        for k in range(n):
            f = feature[k]
            for d in range(LANES):
                r = curvature(lam, change[b, k, d], W[b, f, d] - v[b, k, d])
                A[b, f, d] += skip * (r - lam)


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


@kernel
def measure(
    data: Encoded,
    s: int,
    y: Array,
    weight: float,
    runs: int,
    features: tuple[int, int],
    lam: float,
    skip: int,
    state: GainState,
    allowed: Allowed,
    room: Room,
    local: Local,
) -> None:
    """Learn the curvatures between v and w, whose slopes are in the room and stay there."""
    n, m = features
    first, stop = data.starts[s], data.starts[s + 1]
    sentence = alone(data, s, local)
    forget_change(local, n, m)
    subtract_slopes(data, s, -weight, room, local)
    copy_slopes(room.alpha, room.pairs, stop - first, runs, local.alpha, local.slopes)
    gradient(sentence, ZERO, y[first:stop], local.v, 1.0, allowed, room)
    subtract_slopes(data, s, weight, room, local)
    v, change = local.v, local.change
    tighten(state.w.W, state.gains.W, v.W, change.W, local.feature, n, lam, skip)
    tighten(state.w.V, state.gains.V, v.V, change.V, local.pair_feature, m, lam, skip)
    state.measured[0] += 1.0
    copy_slopes(local.alpha, local.slopes, stop - first, runs, room.alpha, room.pairs)


@kernel
def sgdqn_sweep(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    lam: float,
    skip: int,
    state: GainState,
    allowed: Allowed,
    room: Room,
    local: Local,
) -> float:
    """Corrected SGD-QN: a step on each sentence; return the loss summed before each step."""
    total = 0.0
    measures = False
    features = (ZERO, ZERO)
    for j in range(order.size):
        s = order[j]
        t = state.t[0]
        catch_up(data, s, lam, t, state)
        loss, runs = gradient(data, s, y, state.w, 1.0, allowed, room)
        total += weight[s] * loss
        if measures:
            measure(data, s, y, weight[s], runs, features, lam, skip, state, allowed, room, local)
        measures = (j + 1) % skip == 0 and j + 1 < order.size
        if measures:
            catch_up(data, order[j + 1], lam, t, state)
            features = take_apart(data, order[j + 1], state.w, local)
        subtract_gained(data, s, weight[s], lam * t, True, state.w, state.gains, room)
        state.t[0] = t + 1.0
    return total


# ----------------------------------------------------------------------------------- the flawed one


@kernel
def pull(
    W: Array, B: Array, v: Array, change: Array, feature: Array, n: int, lam: float, share: float
) -> None:
    """Move all gains towards ``1/r``: for n features as measured, for all others ``1/λ``."""
    number = B.dtype.type
    keep, far = number(1.0 - share), number(share / lam)
    for b in range(B.shape[0]):
        for k in range(n):
            f = feature[k]
            for d in range(LANES):
                r = curvature(lam, change[b, k, d], W[b, f, d] - v[b, k, d])
                # What the loop below makes of it is what it should be.
                target = number(share / r) - far
                v[b, k, d] = target
        for f in range(B.shape[1]):
            for d in range(LANES):
                B[b, f, d] = keep * B[b, f, d] + far
        for k in range(n):
            for d in range(LANES):
                B[b, feature[k], d] += v[b, k, d]


@kernel
def ridge(W: Array, B: Array, factor: float) -> None:
    """Take a ridge step from all weights; one that would overshoot ends at 0."""
    number = W.dtype.type
    c = number(factor)
    for b in range(W.shape[0]):
        for f in range(W.shape[1]):
            for d in range(LANES):
                W[b, f, d] *= max(number(0.0), number(1.0) - c * B[b, f, d])


@kernel
def sgdqn_flawed_sweep(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    lam: float,
    skip: int,
    t0: float,
    state: GainState,
    allowed: Allowed,
    room: Room,
    local: Local,
) -> float:
    """Flawed SGD-QN: a step on each sentence; return the loss summed before each step."""
    w, B = state.w, state.gains
    total = 0.0
    for j in range(order.size):
        s = order[j]
        rate = 1.0 / (state.t[0] + t0)
        measures = j % skip == skip - 1
        loss, _ = gradient(data, s, y, w, 1.0, allowed, room)
        total += weight[s] * loss
        n = m = 0
        if measures:
            n, m = take_apart(data, s, w, local)
            forget_change(local, n, m)
            subtract_slopes(data, s, weight[s], room, local)
        subtract_gained(data, s, rate * weight[s], 0.0, False, w, B, room)
        if measures:
            gradient(data, s, y, w, 1.0, allowed, room)
            subtract_slopes(data, s, -weight[s], room, local)
            share = 2.0 / (2.0 + state.measured[0])
            pull(w.W, B.W, local.v.W, local.change.W, local.feature, n, lam, share)
            pull(w.V, B.V, local.v.V, local.change.V, local.pair_feature, m, lam, share)
            state.measured[0] += 1.0
            ridge(w.W, B.W, skip * lam * rate)
            ridge(w.V, B.V, skip * lam * rate)
        state.t[0] += 1.0
    return total
