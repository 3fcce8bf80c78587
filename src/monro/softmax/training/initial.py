"""The initial state of a fit: intercepts and local variables at their known optimum."""

import numpy as np

from monro.blocks import LANES, MASKED_SCORE, n_blocks
from monro.mapped.chunked_arrays import chunks
from monro.mapped.matrices import slice_rows
from monro.rows import Array
from monro.softmax.kernel.state import State, new_state
from monro.softmax.kernel.sweep import label_scores
from monro.softmax.metrics import losses
from monro.softmax.model import Weights, scores
from monro.softmax.plan import Plan
from monro.softmax.training.problem import SoftmaxProblem

_CHUNK_ROWS = 4096
_EXACT = 512  # classes up to which local variables are computed exactly; a sample of more


def first_intercepts(counts: Array, learnt: bool) -> tuple[Array, float]:
    """Return the optimal intercepts of zero weights, log frequencies, and their log-normaliser.

    A class without examples counts as half an example. If intercepts are not learnt, they are 0.
    """
    if not learnt:
        return np.zeros(counts.size), float(np.log(counts.size))
    log_share = np.log(np.maximum(counts, 0.5) / max(counts.sum(), 1.0))
    return log_share, float(np.log(np.exp(log_share).sum()))


def set_intercept_optimum(plan: Plan, problem: SoftmaxProblem, state: State) -> None:
    """Set intercepts to their optimum for zero weights, and the local variables accordingly."""
    size = problem.counts.size
    counts = np.zeros(size)
    for y, weight in zip(chunks(problem.y), chunks(problem.weight), strict=True):
        counts += np.bincount(y, weight, minlength=size)
    bias, normaliser = first_intercepts(counts, plan.damping > 0.0)
    state.bias[:size] = bias
    if plan.is_raman:
        state.u[:] = normaliser
        return
    excess = (normaliser - bias).astype(state.u.dtype)
    for u, y in zip(chunks(state.u), chunks(problem.y), strict=True):
        u[:] = excess[y]


def local_variables(
    plan: Plan, problem: SoftmaxProblem, state: State, rng: np.random.Generator
) -> Array:
    """Return the best u for given weights: exact for few classes, else from a sample of blocks."""
    slots = problem.slots
    s_y = np.zeros(problem.y.size, plan.dtype)
    label_scores(problem.kernel_rows(state.W), state, s_y)
    if slots.size <= _EXACT:
        weights = Weights(state.W, state.bias, state.scale, slots)
        u = losses(weights, problem.X, problem.codes())
    else:
        blocks = rng.choice(state.bias.size // LANES, _EXACT // LANES, replace=False)
        lanes = (LANES * blocks[:, None] + np.arange(LANES)).ravel()
        real = int((lanes < slots.size).sum())
        W = state.W[blocks] if state.W.ndim == 3 else state.W[lanes]
        sample = Weights(W, state.bias[lanes], state.scale[lanes], np.arange(lanes.size))
        u = np.empty(problem.y.size)
        for a in range(0, u.size, _CHUNK_ROWS):
            rows = slice(a, a + _CHUNK_ROWS)
            X = slice_rows(problem.X, a, min(a + _CHUNK_ROWS, u.size))
            z = scores(sample, X) - s_y[rows, None]
            z[lanes == problem.y[rows, None]] = -np.inf
            u[rows] = np.logaddexp(0.0, np.log(slots.size / real) + _log_sum_exp(z))
    return np.asarray(u + s_y if plan.is_raman else u, plan.dtype)


def _log_sum_exp(z: Array) -> Array:
    top = np.maximum(z.max(axis=1), MASKED_SCORE)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1) + 1e-300))


def new_softmax_state(plan: Plan, problem: SoftmaxProblem, *, sparse: bool) -> State:
    """Return a state of zeros, in the layout for sparse or for dense rows."""
    k = problem.n_classes
    return new_state(sparse, k, n_blocks(k), problem.X.shape[1], problem.size, plan.dtype)


def reset(init: str, plan: Plan, problem: SoftmaxProblem, state: State) -> None:
    """Reset a state in place to the initial state of a fit."""
    state.W[:] = 0.0
    state.scale[:] = 1.0
    state.bias[:] = MASKED_SCORE
    state.bias[: problem.n_classes] = 0.0
    # Algorithm 1 of 000 says log K, the best u of zero weights; its authors' code starts at 0.
    state.u[:] = np.log(problem.n_classes) if init == "paper" else 0.0
    if init == "auto":
        set_intercept_optimum(plan, problem, state)
