"""Steps on sentences: solvers and their states, and the rate to begin with."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from monro.crf.chain import Room, everything
from monro.crf.local import Local, new_local
from monro.crf.problem import Problem, make_room, visiting
from monro.crf.sgd import Steps, sgd_sweep
from monro.crf.sgdqn import (
    GainState,
    new_gain_state,
    settle,
    sgdqn_flawed_sweep,
    sgdqn_sweep,
)
from monro.crf.weights import Weights, as_tables, as_weights, n_lanes, new_weights
from monro.mapped import pieces
from monro.rows import Array

SOLVERS = ("asgd", "sgd", "sgdqn", "sgdqn-flawed")
_POWER = {"sgd": 1.0, "asgd": 0.75}  # of the rate's decay
_SMALLEST_SCALE = 1e-3
_SKIP = 16  # sentences between two measurements of the corrected SGD-QN
_SWEEPS = 20  # measurements an epoch of the flawed one, which moves all weights each time
_SAMPLE = 1000  # steps to try rates with
_PASSES = 10  # at most


class SgdState(NamedTuple):
    """Weights, the sum of those to be averaged and how many, and the steps so far."""

    w: Weights
    total: Weights
    averaged: Array  # (1,)
    t: Array  # (1,)


class Solver:
    """Takes steps on sentences.

    Parameters
    ----------
    problem : Problem
    name : {"asgd", "sgd", "sgdqn", "sgdqn-flawed"}
    eta0 : float
        The first rate.
    n_jobs : int
        Threads that share the weights; SGD-QN takes one.
    """

    def __init__(self, problem: Problem, name: str, eta0: float, n_jobs: int = 1):
        self.problem = problem
        self.name = name
        self.eta0 = eta0
        self.n_jobs = n_jobs if name in _POWER else 1
        self._rooms = [
            make_room(problem.data, problem.n_tags, np.float32) for _ in range(self.n_jobs)
        ]
        self._allowed = everything(problem.n_tags, np.float32)
        self._local: Local | None = None

    def start(self) -> SgdState | GainState:
        """Return the state of zero weights."""
        sizes = self.problem.n_features, self.problem.n_pairs, self.problem.n_tags
        if self.name in _POWER:
            w = new_weights(*sizes, np.float32)
            total = new_weights(*(sizes if self.name == "asgd" else (0, 0, 0)), np.float32)
            return SgdState(w, total, np.zeros(1), np.zeros(1))
        return new_gain_state(*sizes, gain=self.first_gain)

    @property
    def first_gain(self) -> float:
        """What the gains of a weight that was never met are made of."""
        return 1.0 / (self.eta0 if self.name == "sgdqn" else self.problem.lam)

    def sweep(
        self, order: Array, state: Any, averages: bool, pool: ThreadPoolExecutor | None
    ) -> float:
        """Take a step on each sentence of `order`; return the loss summed before each step."""
        if isinstance(state, SgdState):
            return self._descend(order, state, averages and self.name == "asgd", pool)
        data, y, weight, *_, lam = self.problem
        if self._local is None:
            sizes = self.problem.n_features, self.problem.n_pairs
            self._local = new_local(data, *sizes, self._rooms[0])
        rest = (state, self._allowed, self._rooms[0], self._local)
        n = self.problem.size
        if self.name == "sgdqn":
            skip = max(1, min(_SKIP, n // 4))
            return sgdqn_sweep(data, y, weight, order, lam, skip, *rest)
        skip = max(min(_SKIP, n), n // _SWEEPS)
        return sgdqn_flawed_sweep(data, y, weight, order, lam, skip, 1.0 / (lam * self.eta0), *rest)

    def _descend(
        self, order: Array, state: SgdState, averages: bool, pool: ThreadPoolExecutor | None
    ) -> float:
        loss = 0.0
        while order.size:
            steps, scale, scales = self._plan(order.size, state)
            part, order = order[: steps.scale.size], order[steps.scale.size :]
            if pool is None:
                loss += self._share(part, steps, state, averages, self._rooms[0])
            else:
                shares = [slice(k, None, self.n_jobs) for k in range(self.n_jobs)]
                futures = [
                    pool.submit(
                        self._share,
                        np.ascontiguousarray(part[share]),
                        Steps(*(np.ascontiguousarray(column[share]) for column in steps)),
                        state,
                        averages,
                        room,
                    )
                    for share, room in zip(shares, self._rooms, strict=True)
                ]
                loss += sum(future.result() for future in futures)
            # What s·r and S·r - u stand for (see `linear.state.Mean`) is multiplied out.
            for w, total in zip(state.w, state.total, strict=True):
                if averages:
                    for part_w, part_total in zip(
                        pieces(w.reshape(-1)), pieces(total.reshape(-1)), strict=True
                    ):
                        part_total += part_w * np.float32(scales)
                w *= np.float32(scale)
            state.t[0] += part.size
            state.averaged[0] += part.size * averages
        return loss

    def _share(
        self, order: Array, steps: Steps, state: SgdState, averages: bool, room: Room
    ) -> float:
        data, y, weight, *_ = self.problem
        scratch = np.empty(n_lanes(self.problem.n_tags), np.float32)
        # `total` gathers -u: a step adds to it what it takes from r.
        return sgd_sweep(
            data, y, weight, order, steps, state.w, state.total, averages, self._allowed, room,
            scratch,
        )  # fmt: skip

    def _plan(self, n: int, state: SgdState) -> tuple[Steps, float, float]:
        """Return the next steps, at most n, the scale after them, and the sum of scales."""
        lam = self.problem.lam
        t = state.t[0] + np.arange(n)
        eta = self.eta0 / (1.0 + lam * self.eta0 * t) ** _POWER[self.name]
        eta = np.minimum(eta, 0.5 / lam)
        after = np.cumprod(1.0 - eta * lam)
        n = max(1, int(np.searchsorted(-after, -_SMALLEST_SCALE)))
        eta, after = eta[:n], after[:n]
        sums = np.concatenate([[0.0], np.cumsum(after)])
        before = np.concatenate([[1.0], after[:-1]])
        move = eta / after
        steps = Steps(before, move, -move * sums[:-1])
        return steps, float(after[-1]), float(sums[-1])

    def solution(self, state: Any) -> Weights:
        """Return the weights, up to date."""
        if self.name == "sgdqn":
            settle(self.problem.lam, state)
        return solution_of(state)


def solution_of(state: Any) -> Weights:
    """Return the weights: the mean of the iterates where one is kept."""
    if isinstance(state, SgdState) and state.averaged[0] > 0.0:
        return Weights(*(part * np.float32(1.0 / state.averaged[0]) for part in state.total))
    weights: Weights = state.w
    return weights


def resize(
    state: Any, n_tags: int, kept: Array, n_features: int, n_pairs: int, new_tags: int, fill: float
) -> Any:
    """Return a copy with room for more features and tags; old tag k becomes tag ``kept[k]``.

    What gains are made of is `fill` where it is new, all else is 0.
    """

    def widen(weights: Weights, filled: float) -> Weights:
        if weights.W.shape[0] == 0:  # no average is kept
            return weights
        state, pair = as_tables(weights, n_tags)
        wide = np.full((n_features, new_tags), filled, np.float32)
        wide_pair = np.full((n_pairs, new_tags, new_tags), filled, np.float32)
        wide[: len(state), kept] = state
        wide_pair[: len(pair), kept[:, None], kept] = pair
        return as_weights(wide, wide_pair)

    t = state.t.copy()
    if isinstance(state, SgdState):
        total = widen(state.total, 0.0)
        return SgdState(widen(state.w, 0.0), total, state.averaged.copy(), t)
    times = np.full(n_features, t[0]), np.full(n_pairs, t[0])
    return GainState(
        widen(state.w, 0.0), widen(state.gains, fill), *times, t, state.measured.copy()
    )


def choose_rate(problem: Problem, name: str, rng: np.random.Generator) -> float:
    """Find η0 by doubling or halving on a sample of the sentences.

    A rate is judged by the loss of each sentence *before* the step on it: so the sample serves to
    train and to test at once, and a rate that merely memorises does not win. Few sentences are
    passed over several times, as the fit will do.
    """
    passes = min(_PASSES, -(-_SAMPLE // problem.size))
    order = np.concatenate([rng.permutation(problem.size) for _ in range(passes)])[:_SAMPLE]

    def trial(eta0: float) -> float:
        solver = Solver(problem, name, eta0)
        with visiting(problem, order):
            loss = solver.sweep(order, solver.start(), False, None)
        return loss if np.isfinite(loss) else np.inf

    largest = 1.0 / problem.lam  # the ridge alone would overshoot
    eta0 = min(0.1, largest)
    best = trial(eta0)
    for factor in (2.0, 0.5):
        if factor > 1.0 and best == np.inf:
            continue
        start = eta0
        for _ in range(60):
            if eta0 * factor > largest:
                break
            loss = trial(eta0 * factor)
            if not loss < best and best < np.inf:
                break
            eta0, best = eta0 * factor, loss
        if eta0 != start and best < np.inf:
            break
    return eta0
