"""Epochs of a CRF: at which rate, on how many threads; its objective; and its weights as tables."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from monro._jit import LANES
from monro.crf.chain import (
    Room,
    Weights,
    everything,
    most_runs,
    n_lanes,
    new_room,
    new_weights,
)
from monro.crf.features import Encoded
from monro.crf.sgd import Steps, sgd_sweep, total_loss
from monro.crf.sgdqn import (
    GainState,
    Local,
    new_gain_state,
    new_local,
    settle,
    sgdqn_flawed_sweep,
    sgdqn_sweep,
)
from monro.fitting import Record, Report, SingleTask, blocks_near, visiting_order
from monro.mapped import ask_for, no_read_ahead, pieces, runs_of
from monro.rows import Array

SOLVERS = ("asgd", "sgd", "sgdqn", "sgdqn-flawed")
_POWER = {"sgd": 1.0, "asgd": 0.75}  # of the rate's decay
_SMALLEST_SCALE = 1e-3
_SKIP = 16  # sentences between two measurements of the corrected SGD-QN
_SWEEPS = 20  # measurements an epoch of the flawed one, which moves all weights each time
_SAMPLE = 1000  # steps to try rates with
_PASSES = 10  # at most
_PART_TOKENS = 1 << 16  # evaluated together
_PARTS = 20  # of an epoch, to report on
_MAPPED_TOKENS = 1 << 19  # of files to ask the system for together


class Problem(NamedTuple):
    """Sentences, their tags and weights (of mean 1), and λ."""

    data: Encoded
    y: Array  # of each token
    weight: Array  # of each sentence
    n_features: int
    n_pairs: int
    n_tags: int
    lam: float

    @property
    def size(self) -> int:
        return int(self.weight.size)


def ridge_strength(c: float, sentences: float) -> float:
    """Return λ, which is never 0."""
    return max(1.0 / (float(c) * float(sentences)), 1e-30)


def is_mapped(data: Encoded) -> bool:
    """Tell whether sentences lie in files."""
    return isinstance(data.features, np.memmap)


@contextmanager
def visiting(problem: Problem, sentences: Array) -> Iterator[None]:
    """Read these sentences, and no others meanwhile, where they lie in files."""
    data, y = problem.data, problem.y
    if not is_mapped(data):
        yield
        return
    with no_read_ahead(*data, y):
        starts, stops = runs_of(sentences)
        ask_for(data.starts, starts, stops + 1)
        starts, stops = data.starts[starts], data.starts[stops]
        ask_for(y, starts, stops)
        for pointers, parts in (
            (data.indptr, (data.values, data.features)),
            (data.pair_indptr, (data.pairs,)),
        ):
            ask_for(pointers, starts, stops + 1)
            for part in parts:
                ask_for(part, pointers[starts], pointers[stops])
        yield


# ------------------------------------------------------------------------------- weights as tables


def as_tables(weights: Weights, n_tags: int) -> tuple[Array, Array]:
    """Return the weights by feature and tag, and by pair feature, tag before and tag."""
    lanes = n_lanes(n_tags)
    W = np.moveaxis(weights.W, 1, 0).reshape(-1, lanes)[:, :n_tags]
    V = weights.V.reshape(n_tags, lanes // LANES, -1, LANES)
    V = np.moveaxis(V, 2, 0).reshape(-1, n_tags, lanes)[:, :, :n_tags]
    return np.ascontiguousarray(W), np.ascontiguousarray(V)


def as_weights(state: Array, pair: Array) -> Weights:
    """Return tables as kernels take them."""
    n_features, n_tags = state.shape
    lanes = n_lanes(n_tags)
    W = np.zeros((n_features, lanes), state.dtype)
    W[:, :n_tags] = state
    V = np.zeros((pair.shape[0], n_tags, lanes), pair.dtype)
    V[:, :, :n_tags] = pair
    V = np.moveaxis(V.reshape(-1, n_tags * lanes // LANES, LANES), 0, 1)
    return Weights(
        np.ascontiguousarray(np.moveaxis(W.reshape(-1, lanes // LANES, LANES), 0, 1)),
        np.ascontiguousarray(V),
    )


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


# --------------------------------------------------------------------------------------- evaluation


def make_room(data: Encoded, n_tags: int, dtype: Any) -> Room:
    """Return room for the sentences."""
    longest = int(np.diff(data.starts).max(initial=1))
    return new_room(longest, most_runs(data), n_tags, dtype)


def sentence_parts(data: Encoded) -> Iterator[tuple[slice, slice, Encoded]]:
    """Yield some sentences at a time, in double precision: which, their tokens, and they."""
    begin = 0
    n = data.starts.size - 1
    while begin < n:
        stop = int(np.searchsorted(data.starts, data.starts[begin] + _PART_TOKENS, "right")) - 1
        stop = min(n, max(stop, begin + 1))
        first, last = int(data.starts[begin]), int(data.starts[stop])
        indptr = data.indptr[first : last + 1]
        pair_indptr = data.pair_indptr[first : last + 1]
        part = Encoded(
            data.values[indptr[0] : indptr[-1]].astype(np.float64),
            np.ascontiguousarray(data.features[indptr[0] : indptr[-1]]),
            indptr - indptr[0],
            np.ascontiguousarray(data.pairs[pair_indptr[0] : pair_indptr[-1]]),
            pair_indptr - pair_indptr[0],
            data.starts[begin : stop + 1] - first,
        )
        yield slice(begin, stop), slice(first, last), part
        begin = stop


def mean_loss(problem: Problem, weights: Weights) -> float:
    """Return the weighted mean of ``-log p(tags)`` over the sentences, in double precision."""
    allowed = everything(problem.n_tags, np.float64)
    total = 0.0
    for sentences, tokens, part in sentence_parts(problem.data):
        room = make_room(part, problem.n_tags, np.float64)
        weight = problem.weight[sentences]
        total += total_loss(
            part, problem.y[tokens], weight, np.arange(weight.size), weights, allowed, room
        )
    return float(total / problem.weight.sum())


def ridge_of(problem: Problem, weights: Weights) -> float:
    """Return ``λ/2 ‖w‖²``."""
    return 0.5 * problem.lam * sum(float(np.vdot(part, part)) for part in weights)


def objective(problem: Problem, weights: Weights) -> float:
    """Return ``λ/2 ‖w‖²`` and the mean loss."""
    return ridge_of(problem, weights) + mean_loss(problem, weights)


# ------------------------------------------------------------------------------------------ solvers


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
            self._local = new_local(data, state, self._rooms[0])
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
            steps, scale, scales = self._plan(order.size, state, averages)
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

    def _plan(self, n: int, state: SgdState, averages: bool) -> tuple[Steps, float, float]:
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


# ------------------------------------------------------------------------------------------- epochs


class Trainer(SingleTask):
    """Takes epochs. Use it in a ``with`` block, which ends the threads.

    Parameters
    ----------
    solver : Solver
    state : SgdState or GainState
        Where to begin.
    shuffle : bool
        Whether each epoch visits the sentences in an order of its own.
    rng : Generator
        Makes the orders.
    epochs : int
        Of earlier fits: averaging begins after the first.
    known : dict
        What else the estimator knows, for `solution`.
    """

    def __init__(
        self,
        solver: Solver,
        state: Any,
        *,
        shuffle: bool,
        rng: np.random.Generator,
        epochs: int = 0,
        known: dict[str, Any] | None = None,
    ):
        super().__init__(rng, solver.n_jobs)
        self.solver = solver
        self.state = state
        self.shuffle = shuffle
        self._before = epochs
        self._known = known or {}
        data = solver.problem.data
        self._mapped = is_mapped(data)

    def weights(self) -> Weights:
        """Return the solution."""
        return self.solver.solution(self.state)

    def solution(self) -> dict[str, Any]:
        """Return the estimator's attributes if it ended here."""
        return {"_weights": self.weights(), "_state": self.state} | self._known

    def _order(self, n: int) -> Array:
        if not self.shuffle:
            return np.arange(n)
        if not self._mapped:  # a sentence is read in one go: neighbours need not stay together
            return self.rng.permutation(n)
        bytes_each = 2.0 * self.solver.problem.data.features.nbytes / n
        return visiting_order(n, self.rng, blocks_near(bytes_each))

    def epoch(self, report: Report = lambda rows: None) -> Record:
        """Take an epoch, reporting sentences as they are done; return its record."""
        begin = time.perf_counter()
        n = self.solver.problem.size
        order = self._order(n)
        averages = self.epochs + self._before > 0
        total = 0.0
        parts = _PARTS if n > 1000 * _PARTS else 1
        if self._mapped:
            tokens = self.solver.problem.y.size
            parts = max(parts, -(-tokens // _MAPPED_TOKENS))
        for part in np.array_split(order, parts):
            with visiting(self.solver.problem, part):
                total += self.solver.sweep(part, self.state, averages, self._pool)
            report(part.size)
        self.epochs += 1
        self.seconds += time.perf_counter() - begin
        return {"epoch": self.epochs, "seconds": self.seconds, "loss": total / n}
