"""Stochastic gradient descent on sentences (paper 004, section 4.2), with averaging (paper 002).

Minimise ``λ/2 ‖w‖² + mean_i -log p(y_i | x_i)`` by ``w ← w - η_t (weight_i·slope + λ w)``, one
sentence at a time. ``w = s·r``, so that a step touches only the weights of its sentence. Learning
rates and scales depend only on t: they are computed for many steps in advance, and threads that
share the weights need no locks.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from monro._jit import kernel
from monro.blocks import n_lanes
from monro.crf.chain import (
    Allowed,
    ChainScratch,
    all_allowed,
    gradient,
    subtract_pairs,
    subtract_state,
)
from monro.crf.encoding import Encoded
from monro.crf.problem import ChainProblem, make_scratch
from monro.crf.weights import ChainWeights, new_weights, widen
from monro.mapped.chunked_arrays import chunks
from monro.rows import Array

_SMALLEST_SCALE = 1e-3  # of s: below it, r is multiplied by s, since float32 has seven digits


class SgdState(NamedTuple):
    """Weights, the sum of the iterates to average and their number, and the number of steps."""

    w: ChainWeights
    total: ChainWeights  # empty without averaging
    averaged: Array  # (1,)
    t: Array  # (1,)

    def solution(self) -> ChainWeights:
        """Return the mean of the iterates, or the last one if none were averaged."""
        if self.averaged[0] == 0.0:
            return self.w
        return ChainWeights(*(part * np.float32(1.0 / self.averaged[0]) for part in self.total))


class Steps(NamedTuple):
    """Coefficients of each step, for r and for the u of `linear.descent_state.Mean`."""

    scale: Array  # s before the step
    move: Array  # of r: η/s, with s after the step
    remember: Array  # of u: -move·Σ s over the steps before


@kernel
def sgd_sweep(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    steps: Steps,
    r: ChainWeights,
    u: ChainWeights,
    averages: bool,
    allowed: Allowed,
    scratch: ChainScratch,
    lanes: Array,
) -> float:
    """Take a step on each sentence of `order`; return the loss summed before each step."""
    total = 0.0
    for j in range(order.size):
        s = order[j]
        if data.starts[s] == data.starts[s + 1]:
            continue
        loss, _ = gradient(data, s, y, r, steps.scale[j], allowed, scratch)
        total += weight[s] * loss
        number = lanes.dtype.type
        move = number(weight[s] * steps.move[j])
        subtract_state(data, s, move, r.W, scratch, lanes)
        subtract_pairs(data, s, move, r.V, scratch)
        if averages:
            remember = number(weight[s] * steps.remember[j])
            subtract_state(data, s, remember, u.W, scratch, lanes)
            subtract_pairs(data, s, remember, u.V, scratch)
    return total


class Descent:
    """Stochastic gradient descent.

    Parameters
    ----------
    problem : ChainProblem
    name : str
        The solver's name, for messages.
    eta0 : float
        The first learning rate.
    power : float
        The learning rate is ``η0 / (1 + λ η0 t)**power``.
    averaged : bool
        Whether the solution is the mean of the iterates.
    n_jobs : int
        Threads that share the weights, without locks.
    """

    def __init__(
        self,
        problem: ChainProblem,
        name: str,
        eta0: float,
        *,
        power: float,
        averaged: bool,
        n_jobs: int = 1,
    ):
        self.problem = problem
        self.name = name
        self.eta0 = eta0
        self.power = power
        self.averaged = averaged
        self.n_jobs = n_jobs
        self._scratch = [
            make_scratch(problem.data, problem.n_tags, np.float32) for _ in range(n_jobs)
        ]
        self._allowed = all_allowed(problem.n_tags, np.float32)

    def start(self) -> SgdState:
        """Return the state of zero weights."""
        w = new_weights(*self.problem.sizes, np.float32)
        total = new_weights(*(self.problem.sizes if self.averaged else (0, 0, 0)), np.float32)
        return SgdState(w, total, np.zeros(1), np.zeros(1))

    def resume(self, state: SgdState, tags: Array) -> SgdState:
        """Return an earlier state with weights for all features and tags."""
        sizes = self.problem.sizes
        total = widen(state.total, tags, *sizes) if self.averaged else state.total
        return SgdState(widen(state.w, tags, *sizes), total, state.averaged.copy(), state.t.copy())

    def solution(self, state: SgdState) -> ChainWeights:
        """Return the weights."""
        return state.solution()

    def sweep(
        self, order: Array, state: SgdState, averages: bool, pool: ThreadPoolExecutor | None
    ) -> float:
        """Take a step on each sentence of `order`; return the loss summed before each step.

        The iterates are averaged if `averages`, and if the solver averages at all.
        """
        averages = averages and self.averaged
        loss = 0.0
        while order.size:
            steps, scale, scales = self._plan(order.size, state)
            part, order = order[: steps.scale.size], order[steps.scale.size :]
            if pool is None:
                loss += self._share(part, steps, state, averages, self._scratch[0])
            else:
                shares = [slice(k, None, self.n_jobs) for k in range(self.n_jobs)]
                futures = [
                    pool.submit(
                        self._share,
                        np.ascontiguousarray(part[share]),
                        Steps(*(np.ascontiguousarray(column[share]) for column in steps)),
                        state,
                        averages,
                        scratch,
                    )
                    for share, scratch in zip(shares, self._scratch, strict=True)
                ]
                loss += sum(future.result() for future in futures)
            # Apply the scale to r, and bring the sum of the iterates up to date (see
            # `linear.descent_state.Mean`).
            for w, total in zip(state.w, state.total, strict=True):
                if averages:
                    for part_w, part_total in zip(
                        chunks(w.reshape(-1)), chunks(total.reshape(-1)), strict=True
                    ):
                        part_total += part_w * np.float32(scales)
                w *= np.float32(scale)
            state.t[0] += part.size
            state.averaged[0] += part.size * averages
        return loss

    def _share(
        self, order: Array, steps: Steps, state: SgdState, averages: bool, scratch: ChainScratch
    ) -> float:
        """Take one thread's share of the steps."""
        data, y, weight, *_ = self.problem
        lanes = np.empty(n_lanes(self.problem.n_tags), np.float32)
        # `total` gathers -u: a step adds to it what it subtracts from r.
        return sgd_sweep(
            data, y, weight, order, steps, state.w, state.total, averages, self._allowed, scratch,
            lanes,
        )  # fmt: skip

    def _plan(self, n: int, state: SgdState) -> tuple[Steps, float, float]:
        """Return the coefficients of up to n steps, the scale after them, and the sum of scales."""
        lam = self.problem.penalty.strength
        t = state.t[0] + np.arange(n)
        eta = self.eta0 / (1.0 + lam * self.eta0 * t) ** self.power
        eta = np.minimum(eta, 0.5 / lam)
        after = np.cumprod(1.0 - eta * lam)
        n = max(1, int(np.searchsorted(-after, -_SMALLEST_SCALE)))
        eta, after = eta[:n], after[:n]
        sums = np.concatenate([[0.0], np.cumsum(after)])
        before = np.concatenate([[1.0], after[:-1]])
        move = eta / after
        steps = Steps(before, move, -move * sums[:-1])
        return steps, float(after[-1]), float(sums[-1])
