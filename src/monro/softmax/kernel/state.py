"""The state that update rules change: the weights W and, for each example, a local variable u.

Minimising over ``u_i ≥ 0``, with ``z_k = s_k - s_y``,

    ``f(u, W) = Σ_i [ u_i + e^{-u_i} + Σ_{k≠y_i} e^{z_k - u_i} ] + μ/2 ‖W‖²``    (paper 000, eq. 5)

gives the softmax negative log-likelihood plus N: the best u_i is ``log(1 + Σ_k e^{z_k})``, the
example's own loss. In Raman et al.'s double sum (eq. 8) the local variable is the log-normaliser
``log Σ_k e^{s_k}`` itself. Vanilla SGD, U-max, implicit SGD and stochastic composition are rules
that change this state; one-vs-each, NCE, importance sampling and exact SGD do not use u.
"""

from typing import NamedTuple

import numpy as np

from monro.blocks import LANES, MASKED_SCORE
from monro.saving.states import PerClass, PerClassAndFeature, PerExample
from monro.softmax.kernel.layout import new_weights


class State(NamedTuple):
    """Weights ``w_k = scale_k r_k``, intercepts, and the examples' local variables."""

    W: PerClassAndFeature  # r, laid out for sparse or for dense rows
    bias: PerClass  # (slots,): MASKED_SCORE in slots without a class
    scale: PerClass  # (slots,): lets the ridge shrink a class by one multiplication
    u: PerExample  # local variables


def new_state(
    sparse: bool, n_classes: int, blocks: int, n_features: int, n_examples: int, dtype: str
) -> State:
    """Return zero weights for the first `n_classes` slots, and zero local variables."""
    bias = np.full(blocks * LANES, MASKED_SCORE, dtype)
    bias[:n_classes] = 0.0
    return State(
        new_weights(sparse, blocks, n_features, dtype),
        bias,
        np.ones(blocks * LANES, dtype),
        np.zeros(n_examples, dtype),
    )


def multiply_out(state: State) -> None:
    """Multiply the weights by their scales, and set these to 1."""
    W, scale = state.W, state.scale
    W *= scale.reshape(-1, 1, LANES) if W.ndim == 3 else scale[:, None]
    scale[:] = 1.0


def l1_norm_of(state: State, strength: float) -> float:
    """Return ``strength ‖W‖₁``."""
    if strength == 0.0:
        return 0.0
    sums = np.abs(state.W).sum(axis=1, dtype=np.float64).ravel()  # over features: one for a slot
    return float(strength * (state.scale.astype(np.float64) @ sums))


def ridge_of(state: State, alpha: float) -> float:
    """Return ``alpha/2 ‖W‖²``."""
    if alpha == 0.0:
        return 0.0
    W, scale = state.W, state.scale.astype(np.float64)
    sums = "bfl,bfl->bl" if W.ndim == 3 else "kf,kf->k"
    squares = np.einsum(sums, W, W).astype(np.float64).ravel()
    return float(alpha / 2 * (scale**2 @ squares))
