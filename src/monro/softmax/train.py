"""Epochs of a softmax: draws, rates, threads."""

import time
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import kernel, vector_kernel
from monro.fitting import Order, Report, SingleTask, blocks_near
from monro.mapped import as_dtype, count, is_mapped, pieces, room_beside, visiting
from monro.rows import Array, Rows, as_rows, sqnorm
from monro.softmax.evaluate import Weights, losses, scores
from monro.softmax.layout import LANES, class_major, n_blocks, view_of
from monro.softmax.minibatch import make_batches, ridge_of_batches, take_step
from monro.softmax.samplers import AllBlocks, Sampler
from monro.softmax.solvers import SOLVERS, Plan, make_bounds, make_rule, rate_at
from monro.softmax.state import State
from monro.softmax.stretch import (
    Judged,
    best_multiple,
    costs_too_much,
    is_due,
    stretch_bias,
    stretched_local,
)
from monro.softmax.sweep import Examples, Scratch, Settings, new_scratch, own_scores, sweep

_CHUNK = 1 << 16  # examples to draw for at a time
_FALLS = 50  # times in a fit that the rate falls, at least
# Weights of so many bytes stay in a core's own cache: threads are then better off with copies.
_SMALL = 1 << 22
_OFTEN = 12.0  # how often each of these is to be written between two merges, at least
_WORTH_IT = 1 << 27  # and how many writes there are to be in all, about 20 ms


class Problem(NamedTuple):
    """What to fit: rows, their classes by slot, their weights of mean 1."""

    X: Any  # of the plan's dtype
    y: Array  # slots, int32
    weight: Array
    sqnorm: Array
    counts: Array  # (classes,): examples of each, by slot


def make_problem(X: Any, y: Array, weight: Array, n_classes: int, dtype: str) -> Problem:
    """Return a problem of checked data; y are the slots of the classes, int32."""
    with np.errstate(over="ignore"):  # told below, with the row
        X = as_dtype(X, dtype)
    lengths = room_beside(y, dtype)
    squared_lengths(as_rows(X), lengths)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(
            f"X: the squared length of row {row} overflows {dtype}; scale the features"
        )
    weights = room_beside(y, dtype)
    weights[:] = weight
    return Problem(X, y, weights, lengths, count(y, n_classes))


@kernel
def squared_lengths(rows: Rows, out: Array) -> None:
    """``out_i = ‖x_i‖²``."""
    for i in range(out.size):
        out[i] = sqnorm(rows, i)


def multiply_out(state: State) -> None:
    """Let all scales be 1."""
    W, scale = state.W, state.scale
    W *= scale.reshape(-1, 1, LANES) if W.ndim == 3 else scale[:, None]
    scale[:] = 1.0


def ridge_of(state: State, alpha: float) -> float:
    """Return ``alpha/2 ‖W‖²``."""
    if alpha == 0.0:
        return 0.0
    W, scale = state.W, state.scale.astype(np.float64)
    sums = "bfl,bfl->bl" if W.ndim == 3 else "kf,kf->k"
    squares = np.einsum(sums, W, W).astype(np.float64).ravel()
    return float(alpha / 2 * (scale**2 @ squares))


@vector_kernel
def note_moves(copy: Array, before: Array, total: Array, count: Array) -> None:
    """Add up how far a thread moved each weight, and count it where it did."""
    one = before.dtype.type(1.0)
    zero = before.dtype.type(0.0)
    for k in range(before.size):
        move = copy[k] - before[k]
        total[k] += move
        count[k] += one if move != zero else zero


@vector_kernel
def apply_moves(before: Array, total: Array, count: Array) -> None:
    """Move each weight by the mean."""
    one = before.dtype.type(1.0)
    for k in range(before.size):
        before[k] += total[k] / (count[k] if count[k] > one else one)


def merge(before: Array, copies: list[Array]) -> None:
    """Move each weight by the mean move of those threads that moved it; all copies agree then.

    The mean over all threads would halve what only one of them has learnt.
    """
    total, count = np.zeros((2, before.size), before.dtype)
    for copy in copies:
        note_moves(copy, before, total, count)
    apply_moves(before, total, count)
    for copy in copies:
        copy[:] = before


class Task(NamedTuple):
    """What a fit is given; plan and sampler hold until its exact epochs, if it has any."""

    problem: Problem
    plan: Plan
    slots: Array  # of each class
    sampler: Sampler
    judged: Judged


class Trainer(SingleTask):
    """Takes epochs on one task. Use it in a ``with`` block, which ends the threads."""

    def __init__(
        self,
        task: Task,
        state: State,
        *,
        shuffle: bool,
        rng: np.random.Generator,
        n_jobs: int = 1,
        schedule_start: int = 0,
    ):
        super().__init__(rng, n_jobs)
        self.problem, plan, self.slots, sampler, self.judged = task
        self.state: State = state
        self.shuffle = shuffle
        self.schedule_start = schedule_start  # epochs taken before this fit
        X = self.problem.X
        self.near = 1
        if is_mapped(X):
            self.near = blocks_near((X.dtype.itemsize + 4) * X.data.size / X.shape[0])
        self._follow(plan, sampler)

    def _follow(self, plan: Plan, sampler: Sampler) -> None:
        """Train by this plan from now on."""
        self.plan, self.sampler = plan, sampler
        self._ridge = np.zeros(self.state.bias.size, plan.dtype)
        if plan.alpha > 0.0:
            touched = sampler.touched(self.problem.y, self.problem.counts)
            self._ridge[:] = plan.alpha / np.maximum(touched, 1e-30)
        self._scratches = [
            new_scratch(plan.examples, sampler.per_step, plan.dtype) for _ in range(self.n_jobs)
        ]

    def epoch(self, report: Report = lambda rows: None) -> dict[str, float]:
        """Take an epoch; the record's loss is the rule's own, estimated from the classes drawn."""
        begin = time.perf_counter()
        plan, n = self.plan, self.problem.y.size
        if plan.sampling != "all" and plan.epochs - self.epochs <= plan.exact_epochs:
            exact = plan._replace(sampling="all", stiffness=0.0)
            self._follow(exact, AllBlocks(n_blocks(self.slots.size), plan.dtype))
        order = Order(n, self.rng, self.near) if self.shuffle else np.arange(n)
        start = self.schedule_start
        rate = rate_at(self.plan, start + self.epochs, start)
        loss = 0.0
        for a, b in pairwise(self._borders(n)):
            middle = self.epochs + 0.5 * (a + min(b, n)) / n
            rate_now = rate_at(self.plan, start + middle, start)
            loss += self.visit(order[a:b], rate_now, report)
        self.epochs += 1
        self._stretch()
        self.seconds += time.perf_counter() - begin
        return {"epoch": self.epochs, "seconds": self.seconds, "loss": loss / n, "rate": rate}

    def _borders(self, n: int) -> list[int]:
        """Return where in an epoch the rate falls."""
        steps = -(-n // self.plan.examples)
        falls = 1 if self.plan.decay is not None else -(-_FALLS // self.plan.epochs)
        parts = min(steps, max(-(-n // _CHUNK), falls))
        return [self.plan.examples * (steps * k // parts) for k in range(parts + 1)]

    def _stretch(self) -> None:
        """Now and then let the weights be the best multiple of themselves."""
        costly = costs_too_much(self.judged, self.slots.size)
        if costly or not is_due(self.plan, self.epochs):
            return
        c = best_multiple(scores(self.weights(), self.judged.X), self.judged, self.ridge())
        if c == 1.0:
            return
        state = self.state
        own = np.zeros_like(state.u)
        if self.plan.formulation == "raman":
            own_scores(self._examples(state), state, own)
        for u, score in zip(pieces(state.u), pieces(own), strict=True):
            u[:] = stretched_local(u, score, c)
        stretch_bias(state.bias, c)
        state.scale[:] *= c
        multiply_out(state)

    def visit(self, order: Array, rate: float, report: Report = lambda rows: None) -> float:
        """Step on the examples of `order` at a rate; return the sum of the rule's loss."""
        plan, problem = self.plan, self.problem
        number = np.dtype(plan.dtype).type
        eta = number(rate / plan.examples)
        bounds = make_bounds(plan, self._sqnorms())
        settings = Settings(eta, number(plan.damping), self._ridge, bounds)
        epoch = self.schedule_start + self.epochs
        rule = make_rule(plan, self.sampler, epoch, self._longest)
        shared = plan.examples if SOLVERS[plan.solver].shares else 1
        everything = plan.sampling == "all"
        states, size = self._states_of_threads(order.size)

        def work(part: Array, seed: int, state: State, scratch: Scratch) -> float:
            drawn = self.sampler.draw(
                part[::shared], problem.y[part[::shared]], np.random.default_rng(seed)
            )
            row = part.size if everything else shared
            return sweep(rule, self._examples(state), part, drawn, row, settings, state, scratch)

        run = map if self._pool is None else self._pool.map
        total = 0.0
        for start in range(0, order.size, size):
            part = order[start : start + size]
            parts = self._split(part, len(states))
            seeds = self.rng.integers(2**63, size=len(parts))
            with visiting(problem.X, part, problem.y, problem.weight, problem.sqnorm):
                total += sum(run(work, parts, seeds, states, self._scratches))
            if states[0].W is not self.state.W:
                self._merge(states)
            report(part.size)
        return float(total)

    def _examples(self, state: State) -> Examples:
        X, y, weight, sqnorm, _ = self.problem
        return Examples(view_of(X, state.W), y, weight, sqnorm)

    def _states_of_threads(self, n: int) -> tuple[list[State], int]:
        """Return a state for each thread, and how many examples to visit before they are merged.

        Weights that one thread alone would keep in its core's cache must not be shared: their cache
        lines would travel between the cores at every step, and two threads would be slower than
        one. Each thread then has a copy, and the copies are merged as often as costs little; where
        an epoch takes but milliseconds, that is never, and one thread does it. More weights than
        that come from further away anyhow: they are shared, without locks.
        """
        plan, problem, state = self.plan, self.problem, self.state
        size = max(1, _CHUNK // plan.examples) * plan.examples
        if self.n_jobs == 1 or state.W.nbytes > _SMALL or plan.radius is not None:
            return [state] * self.n_jobs, size
        nonzeros = problem.X.nnz if sp.issparse(problem.X) else problem.X.size
        drawn = 1 + self.sampler.per_step // LANES  # blocks a step
        work = drawn * LANES * nonzeros * (n / problem.y.size)  # weights read and written
        merges = int(min(work / state.W.size / _OFTEN, work / _WORTH_IT))
        if merges == 0:
            return [state], size
        steps = -(-n // (merges * plan.examples))
        if self.plan.alpha > 0.0:
            multiply_out(state)
        for mine, theirs in zip(state[:2], self._copies, strict=True):
            theirs[:] = mine.reshape(-1)
        copies = [
            State(W.reshape(state.W.shape), bias, np.ones_like(bias), state.u)
            for W, bias in zip(*self._copies, strict=True)
        ]
        return copies, min(size, steps * plan.examples)

    def _merge(self, states: list[State]) -> None:
        """Bring the threads' weights together."""
        assert self._pool is not None
        if self.plan.alpha > 0.0:
            for state in states:
                multiply_out(state)
        whole = self.state.W.reshape(-1), [state.W.reshape(-1) for state in states]
        borders = np.linspace(0, whole[0].size, self.n_jobs + 1).astype(int)

        def work(start: int, stop: int) -> None:
            merge(whole[0][start:stop], [copy[start:stop] for copy in whole[1]])

        list(self._pool.map(work, borders[:-1], borders[1:]))
        merge(self.state.bias, [state.bias for state in states])

    @cached_property
    def _longest(self) -> float:
        return float(np.sqrt(self.problem.sqnorm.max()))

    @cached_property
    def _copies(self) -> tuple[Array, Array]:
        """Weights and intercepts for each thread."""
        W, bias = self.state[:2]
        n = self.n_jobs
        return np.empty((n, W.size), W.dtype), np.empty((n, bias.size), bias.dtype)

    def _split(self, part: Array, shares: int) -> list[Array]:
        """Share out examples among the threads, whole steps to each."""
        steps = -(-part.size // self.plan.examples)
        borders = np.linspace(0, steps, shares + 1).astype(int) * self.plan.examples
        return [part[a:b] for a, b in pairwise(borders)]

    def _sqnorms(self) -> Array:
        if self.plan.radius is None:
            return np.zeros(0)
        W = class_major(self.state.W).astype(np.float64) * self.state.scale[:, None]
        return np.asarray(np.einsum("kf,kf->k", W, W))

    def ridge(self) -> float:
        """Return ``alpha/2 ‖W‖²``."""
        return ridge_of(self.state, self.plan.alpha)

    def judged_loss(self) -> float:
        """Return the exact objective of the rows that decide."""
        each = losses(self.weights(), self.judged.X, self.judged.codes)
        return float(self.judged.weight @ each + self.ridge())

    @property
    def size(self) -> int:
        """Rows."""
        return int(self.problem.y.size)

    @property
    def mean_sqnorm(self) -> float:
        """Of the rows."""
        return float(self.problem.sqnorm.mean(dtype=np.float64))

    def solution(self) -> dict[str, Any]:
        """Return what the estimator would have if it ended here."""
        return {"_weights": self.weights()}

    def weights(self) -> Weights:
        """Return the model as it is now, for the evaluator."""
        return Weights(self.state.W, self.state.scale, self.state.bias, self.slots)


class BatchTrainer(Trainer):
    """Takes implicit steps on mini-batches that stay the same (paper 000, appendix F.3)."""

    def _borders(self, n: int) -> list[int]:
        return [0, n]

    def visit(self, order: Array, rate: float, report: Report = lambda rows: None) -> float:
        """Step on the batches of `order`; return the sum of the examples' local variables."""
        problem, plan, state = self.problem, self.plan, self.state
        n_classes = self.slots.size
        if not hasattr(self, "_batches"):
            self._batches = make_batches(problem.X, problem.y, plan.examples)
            self._ridge_of_batch = ridge_of_batches(
                self._batches, n_classes, plan.classes, plan.alpha
            )
        bias = state.bias[:n_classes]
        visited = np.unique(order // plan.examples)
        for k in self.rng.permutation(visited) if self.shuffle else visited:
            batch = self._batches[k]
            others = np.setdiff1d(np.arange(n_classes), batch.labels)
            drawn = self.rng.choice(others, min(plan.classes, others.size), replace=False)
            take_step(
                batch,
                drawn,
                state.W,
                bias,
                state.u,
                problem.weight,
                rate,
                self._ridge_of_batch,
                plan.damping,
            )
            report(batch.rows.size)
        return float(state.u[order].sum(dtype=np.float64))
