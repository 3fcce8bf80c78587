"""SGD-QN on sentences, which learns a gain for each weight (paper 004, sections 4.2 and 5.4).

See `monro.linear.algorithms.sgdqn` for the algorithms. Here the slopes of a sentence at an earlier
point v and at w give the curvatures

    ``r = λ + [slope(w) - slope(v)] / (w - v)``, clipped to [λ, 100λ],

of the features of the sentence; all others have λ. Every `skip` steps (Figure 4) all weights take a
step of the ridge, and the next sentence is measured. With T the steps of the cycles completed so
far, the inverse gains are ``1/B = a + λT``, where `a` changes only for the features of measured
sentences, and the ridge of the cycles from T to T' multiplies a weight by

    ``Π (1 - skip·λB) = (a + λ(T - skip)) / (a + λ(T' - skip))``.

That is applied when a feature occurs again, so a step touches only the weights of its sentence.
The flawed algorithm (`sgdqn_flawed`) changes every gain at every measurement.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel, lanes_leaf, leaf
from monro.blocks import LANES
from monro.crf.chain import Allowed, ChainScratch, all_allowed, ends_run, gradient
from monro.crf.encoding import Encoded
from monro.crf.problem import ChainProblem, make_scratch
from monro.crf.sentence_copy import (
    ZERO,
    SentenceWeights,
    as_corpus,
    clear_changes,
    copy_sentence,
    copy_slopes,
    new_sentence_weights,
    subtract_slopes,
)
from monro.crf.weights import ChainWeights, PerPairFeature, new_weights, widen
from monro.penalties import Penalty, strong_convexity
from monro.rows import Array
from monro.saving.states import PerFeature

_LARGEST = 100.0  # times λ: the largest curvature
_SKIP = 16  # sentences between two measurements of curvature, unless given


class GainState(NamedTuple):
    """Weights, their gains, and for each feature the T up to which the ridge was applied."""

    w: ChainWeights
    gains: ChainWeights  # corrected: a; flawed: B
    last: PerFeature
    pair_last: PerPairFeature
    t: Array  # (1,): steps
    measured: Array  # (1,): measurements of curvature

    def solution(self) -> ChainWeights:
        """Return the weights."""
        return self.w


@leaf
def curvature(lam: float, change: float, moved: float) -> float:
    """Return r for a feature of the sentence."""
    if moved == 0.0:
        return _LARGEST * lam
    return min(max(lam + change / moved, lam), _LARGEST * lam)


# LLVM vectorises these loops over sixteen lanes only if their length is not known at compile time
# (else it unrolls them first) and if their arrays do not overlap.
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
    """``row *= (a + before)/(a + now)``; a ridge step that would overshoot ends at 0."""
    zero = row.dtype.type(0.0)
    for d in range(row.size):
        left = a[d] + before
        row[d] *= (left if left > zero else zero) / (a[d] + now)


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
    data: Encoded, s: int, factor: float, shift: float, inverse: bool, w: ChainWeights,
    gains: ChainWeights, scratch: ChainScratch,
) -> None:  # fmt: skip
    """``w -= factor·B·slope``, where B is the gain, or ``1/(gain + shift)`` if `inverse`."""
    number = scratch.E.dtype.type
    add = number(shift)
    first, stop = data.starts[s], data.starts[s + 1]
    blocks = w.W.shape[0]
    for t in range(first, stop):
        slope = scratch.alpha[t - first]
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
                slope = scratch.pairs[run, k % blocks, k // blocks]
                subtract_row(row, gain, slope, number(factor), add, inverse)


# ------------------------------------------------------------------------------------- corrected


@leaf
def completed(t: float, skip: int) -> float:
    """Return T: the steps, of t, that belong to completed cycles."""
    return float(t - t % skip)


@leaf
def shrink(W: Array, A: Array, f: int, lam: float, skip: int, since: float, T: float) -> None:
    """Apply the ridge of the cycles from `since` to T to a feature's weights."""
    number = W.dtype.type
    before, now = number(lam * (since - skip)), number(lam * (T - skip))
    for b in range(W.shape[0]):
        shrink_row(W[b, f], A[b, f], before, now)


@kernel
def catch_up(data: Encoded, s: int, lam: float, skip: int, T: float, state: GainState) -> None:
    """Apply the ridge of the cycles up to T to the weights of sentence s."""
    first, stop = data.starts[s], data.starts[s + 1]
    for p in range(data.indptr[first], data.indptr[stop]):
        f = data.features[p]
        if state.last[f] < T:
            shrink(state.w.W, state.gains.W, f, lam, skip, state.last[f], T)
            state.last[f] = T
    for p in range(data.pair_indptr[first], data.pair_indptr[stop]):
        f = data.pairs[p]
        if state.pair_last[f] < T:
            shrink(state.w.V, state.gains.V, f, lam, skip, state.pair_last[f], T)
            state.pair_last[f] = T


@kernel
def catch_up_all(penalty: Penalty, skip: int, state: GainState) -> None:
    """Apply the ridge of all completed cycles to all weights."""
    lam = strong_convexity(penalty)
    T = completed(state.t[0], skip)
    for f in range(state.last.size):
        if state.last[f] < T:
            shrink(state.w.W, state.gains.W, f, lam, skip, state.last[f], T)
            state.last[f] = T
    for f in range(state.pair_last.size):
        if state.pair_last[f] < T:
            shrink(state.w.V, state.gains.V, f, lam, skip, state.pair_last[f], T)
            state.pair_last[f] = T


@kernel
def grow_inverse_gains(
    W: Array, A: Array, v: Array, change: Array, feature: Array, n: int, lam: float, skip: float
) -> None:
    """Add ``skip·(r - λ)`` to the inverse gains of the n features of a sentence."""
    for b in range(W.shape[0]):
        for k in range(n):
            f = feature[k]
            for d in range(LANES):
                r = curvature(lam, change[b, k, d], W[b, f, d] - v[b, k, d])
                A[b, f, d] += skip * (r - lam)


@kernel
def measure_curvature(
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
    scratch: ChainScratch,
    local: SentenceWeights,
) -> None:
    """Update the gains by the curvatures between v and w; the slopes at w stay in the scratch."""
    n, m = features
    first, stop = data.starts[s], data.starts[s + 1]
    sentence = as_corpus(data, s, local)
    clear_changes(local, n, m)
    subtract_slopes(data, s, -weight, scratch, local)
    copy_slopes(scratch.alpha, scratch.pairs, stop - first, runs, local.alpha, local.slopes)
    gradient(sentence, ZERO, y[first:stop], local.v, 1.0, allowed, scratch)
    subtract_slopes(data, s, weight, scratch, local)
    v, change = local.v, local.change
    grow_inverse_gains(state.w.W, state.gains.W, v.W, change.W, local.feature, n, lam, skip)
    grow_inverse_gains(state.w.V, state.gains.V, v.V, change.V, local.pair_feature, m, lam, skip)
    state.measured[0] += 1.0
    copy_slopes(local.alpha, local.slopes, stop - first, runs, scratch.alpha, scratch.pairs)


@kernel
def sgdqn_sweep(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    penalty: Penalty,
    skip: int,
    state: GainState,
    allowed: Allowed,
    scratch: ChainScratch,
    local: SentenceWeights,
) -> float:
    """Take a step on each sentence; return the loss summed before each step.

    v is kept for the features of the following sentence only. If a cycle ends with the last one of
    `order`, nothing is measured: all curvatures of that cycle count as λ.
    """
    lam = strong_convexity(penalty)
    total = 0.0
    measures = False
    features = (ZERO, ZERO)
    for j in range(order.size):
        s = order[j]
        t = state.t[0]
        T = completed(t, skip)
        catch_up(data, s, lam, skip, T, state)
        loss, runs = gradient(data, s, y, state.w, 1.0, allowed, scratch)
        total += weight[s] * loss
        if measures:
            measure_curvature(
                data, s, y, weight[s], runs, features, lam, skip, state, allowed, scratch, local
            )
            measures = False
        if completed(t + 1.0, skip) > T:
            if j + 1 < order.size:
                measures = True
                catch_up(data, order[j + 1], lam, skip, T, state)
                features = copy_sentence(data, order[j + 1], state.w, local)
            catch_up(data, s, lam, skip, T + skip, state)
        subtract_gained(data, s, weight[s], lam * T, True, state.w, state.gains, scratch)
        state.t[0] = t + 1.0
    return total


class QuasiNewton:
    """Corrected SGD-QN, on one thread and without averaging.

    Parameters
    ----------
    problem, name, eta0
        As in `monro.crf.sgd.Descent`.
    skip : int, optional
        Steps between two steps of the ridge, each followed by a measurement of curvature.
    """

    n_jobs = 1
    dtype: Any = np.float32

    def __init__(self, problem: ChainProblem, name: str, eta0: float, skip: int | None = None):
        self.problem = problem
        self.name = name
        self.eta0 = eta0
        self.skip = self.usual_skip if skip is None else skip
        scratch = make_scratch(problem.data, problem.n_tags, self.dtype)
        local = new_sentence_weights(problem.data, problem.n_features, problem.n_pairs, scratch)
        self._buffers = all_allowed(problem.n_tags, self.dtype), scratch, local

    @property
    def usual_skip(self) -> int:
        """The skip of a solver that is given none."""
        return max(1, min(_SKIP, self.problem.size // 4))

    @property
    def first_gain(self) -> float:
        """The initial value of `GainState.gains`."""
        return 1.0 / self.eta0

    def start(self) -> GainState:
        """Return the state of zero weights."""
        w, gains = (new_weights(*self.problem.sizes, self.dtype) for _ in range(2))
        for part in gains:
            part[:] = self.first_gain
        steps = np.zeros(self.problem.n_features), np.zeros(self.problem.n_pairs)
        return GainState(w, gains, *steps, np.zeros(1), np.zeros(1))

    def resume(self, state: GainState, tags: Array) -> GainState:
        """Return an earlier state, after a call of `solution`, widened to all features and tags."""
        sizes, T = self.problem.sizes, state.t[0] - state.t[0] % self.skip
        w = widen(state.w, tags, *sizes)
        gains = widen(state.gains, tags, *sizes, fill=self.first_gain)
        steps = np.full(self.problem.n_features, T), np.full(self.problem.n_pairs, T)
        return GainState(w, gains, *steps, state.t.copy(), state.measured.copy())

    def sweep(
        self, order: Array, state: GainState, averages: bool, pool: ThreadPoolExecutor | None
    ) -> float:
        """Take a step on each sentence of `order`; return the loss summed before each step."""
        data, y, weight, *_, penalty = self.problem
        return sgdqn_sweep(data, y, weight, order, penalty, self.skip, state, *self._buffers)

    def solution(self, state: GainState) -> ChainWeights:
        """Return the weights after the ridge of all completed cycles."""
        catch_up_all(self.problem.penalty, self.skip, state)
        return state.solution()
