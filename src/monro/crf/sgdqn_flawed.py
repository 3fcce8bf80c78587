"""The flawed SGD-QN of 2009 on sentences (paper 004, section 5.1), for the erratum's figures.

Its curvature is that of the sentence that just changed the weights, in the step after each step of
the ridge (Figure 4, left). Curvatures are at least λ, as the paper's are by themselves: those of
its linear models grow with the convexity of the loss. See `sgdqn` for the corrected form.
"""

from concurrent.futures import ThreadPoolExecutor

from monro._jit import kernel
from monro.blocks import LANES
from monro.crf.chain import Allowed, ChainScratch, gradient
from monro.crf.encoding import Encoded
from monro.crf.sentence_copy import (
    SentenceWeights,
    clear_changes,
    copy_sentence,
    subtract_slopes,
)
from monro.crf.sgdqn import GainState, QuasiNewton, curvature, subtract_gained
from monro.crf.weights import ChainWeights
from monro.penalties import Penalty, strong_convexity
from monro.rows import Array

_SKIP = 16  # sentences between two measurements, at least, unless given
_FLAWED_MEASUREMENTS = 20  # an epoch: the flawed algorithm moves all weights each time


@kernel
def average_gains(
    W: Array, B: Array, v: Array, change: Array, feature: Array, n: int, lam: float, share: float
) -> None:
    """``B += share·(1/r - B)``, with r as measured for n features, and λ for all others."""
    number = B.dtype.type
    keep, far = number(1.0 - share), number(share / lam)
    for b in range(B.shape[0]):
        for k in range(n):
            f = feature[k]
            for d in range(LANES):
                r = curvature(lam, change[b, k, d], W[b, f, d] - v[b, k, d])
                v[b, k, d] = number(share / r) - far  # the next loop adds `far`
        for f in range(B.shape[1]):
            for d in range(LANES):
                B[b, f, d] = keep * B[b, f, d] + far
        for k in range(n):
            for d in range(LANES):
                B[b, feature[k], d] += v[b, k, d]


@kernel
def shrink_by_gains(W: Array, B: Array, factor: float) -> None:
    """Apply a step of the ridge to all weights, which end at 0 where it would overshoot."""
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
    penalty: Penalty,
    skip: int,
    t0: float,
    state: GainState,
    allowed: Allowed,
    scratch: ChainScratch,
    local: SentenceWeights,
) -> float:
    """Take a step on each sentence; return the loss summed before each step."""
    w, B = state.w, state.gains
    lam = strong_convexity(penalty)
    total = 0.0
    for j in range(order.size):
        s = order[j]
        t = state.t[0]
        rate = 1.0 / (t + t0)
        measures = t > 0.0 and t % skip == 0.0
        loss, _ = gradient(data, s, y, w, 1.0, allowed, scratch)
        total += weight[s] * loss
        n = m = 0
        if measures:
            n, m = copy_sentence(data, s, w, local)
            clear_changes(local, n, m)
            subtract_slopes(data, s, weight[s], scratch, local)
        subtract_gained(data, s, rate * weight[s], 0.0, False, w, B, scratch)
        if measures:
            gradient(data, s, y, w, 1.0, allowed, scratch)
            subtract_slopes(data, s, -weight[s], scratch, local)
            share = 2.0 / (2.0 + state.measured[0])
            average_gains(w.W, B.W, local.v.W, local.change.W, local.feature, n, lam, share)
            average_gains(w.V, B.V, local.v.V, local.change.V, local.pair_feature, m, lam, share)
            state.measured[0] += 1.0
        if (t + 1.0) % skip == 0.0:
            shrink_by_gains(w.W, B.W, skip * lam * rate)
            shrink_by_gains(w.V, B.V, skip * lam * rate)
        state.t[0] = t + 1.0
    return total


class FlawedQuasiNewton(QuasiNewton):
    """Flawed SGD-QN."""

    @property
    def usual_skip(self) -> int:
        n = self.problem.size
        return max(min(_SKIP, n), n // _FLAWED_MEASUREMENTS)

    @property
    def first_gain(self) -> float:
        return 1.0 / self.problem.penalty.strength

    def sweep(
        self, order: Array, state: GainState, averages: bool, pool: ThreadPoolExecutor | None
    ) -> float:
        data, y, weight, *_, penalty = self.problem
        t0 = 1.0 / (penalty.strength * self.eta0)
        return sgdqn_flawed_sweep(
            data, y, weight, order, penalty, self.skip, t0, state, *self._buffers
        )

    def solution(self, state: GainState) -> ChainWeights:
        return state.solution()
