"""Where a fit begins: intercepts and local variables whose best value is known beforehand."""

import numpy as np

from monro.mapped import pieces, rows_between
from monro.rows import Array
from monro.softmax.evaluate import Weights, losses, scores
from monro.softmax.layout import LANES, view_of
from monro.softmax.solvers import Plan
from monro.softmax.state import State
from monro.softmax.sweep import Examples, own_scores
from monro.softmax.train import Problem

_EXACT = 512  # classes up to which new local variables are computed exactly, and sampled beyond


def first_intercepts(counts: Array, learnt: bool) -> tuple[Array, float]:
    """Return the optimum of intercepts alone, log frequencies, and the log-normaliser under them.

    A class without examples gets what half an example would give it. Where intercepts are not
    learnt, all classes are alike.
    """
    if not learnt:
        return np.zeros(counts.size), float(np.log(counts.size))
    log_share = np.log(np.maximum(counts, 0.5) / max(counts.sum(), 1.0))
    return log_share, float(np.log(np.exp(log_share).sum()))


def warm(plan: Plan, problem: Problem, state: State) -> None:
    """Set the optimum of intercepts alone, and each example's local variable under them."""
    size = problem.counts.size
    counts = np.zeros(size)
    for y, weight in zip(pieces(problem.y), pieces(problem.weight), strict=True):
        counts += np.bincount(y, weight, minlength=size)
    bias, normaliser = first_intercepts(counts, plan.damping > 0.0)
    state.bias[:size] = bias
    if plan.formulation == "raman":
        state.u[:] = normaliser
        return
    excess = (normaliser - bias).astype(state.u.dtype)
    for u, y in zip(pieces(state.u), pieces(problem.y), strict=True):
        u[:] = excess[y]


def local_variables(
    plan: Plan, problem: Problem, state: State, slots: Array, rng: np.random.Generator
) -> Array:
    """Return the best u for given weights: exact for few classes, from a sample of blocks else."""
    examples = Examples(view_of(problem.X, state.W), problem.y, problem.weight, problem.sqnorm)
    own = np.zeros(problem.y.size, plan.dtype)
    own_scores(examples, state, own)
    if slots.size <= _EXACT:
        codes = np.argsort(slots)[problem.y]
        u = losses(Weights(state.W, state.scale, state.bias, slots), problem.X, codes)
    else:
        blocks = rng.choice(state.bias.size // LANES, _EXACT // LANES, replace=False)
        lanes = (LANES * blocks[:, None] + np.arange(LANES)).ravel()
        real = int((lanes < slots.size).sum())
        W = state.W[blocks] if state.W.ndim == 3 else state.W[lanes]
        inside = np.arange(lanes.size)
        sample = Weights(W, state.scale[lanes], state.bias[lanes], inside)
        u = np.empty(problem.y.size)
        for a in range(0, u.size, 4096):
            rows = slice(a, a + 4096)
            part = rows_between(problem.X, a, min(a + 4096, u.size))
            z = scores(sample, part) - own[rows, None]
            z[lanes == problem.y[rows, None]] = -np.inf
            u[rows] = np.logaddexp(0.0, np.log(slots.size / real) + _log_sum(z))
    return np.asarray(u + own if plan.formulation == "raman" else u, plan.dtype)


def _log_sum(z: Array) -> Array:
    top = np.maximum(z.max(axis=1), -1e30)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1) + 1e-300))
