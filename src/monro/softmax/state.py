"""All that the update rules remember: the weights W and, for each example, its normaliser u.

Minimising over ``u_i ≥ 0``, with ``z_k = s_k - s_y``,

    ``f(u, W) = Σ_i [ u_i + e^{-u_i} + Σ_{k≠y_i} e^{z_k - u_i} ] + μ/2 ‖W‖²``    (paper 000, eq. 5)

gives the softmax negative log-likelihood plus N: the best u_i is ``log(1 + Σ_k e^{z_k})``, the
example's own loss. In Raman et al.'s double sum (eq. 8) the local variable is the log-normaliser
``log Σ_k e^{s_k}`` itself. Vanilla SGD, U-max, implicit SGD and stochastic composition are rules
that change this state; one-vs-each, NCE, importance sampling and exact SGD leave u alone.
"""

from typing import NamedTuple

import numpy as np

from monro.rows import Array
from monro.softmax.layout import LANES, new_weights

# The intercept of a slot no class fills, and the score of a class left out: no exponential of it
# counts, and no sum with it overflows.
NOWHERE = -1e30


class State(NamedTuple):
    """Weights ``w_k = scale_k r_k``, intercepts, and the examples' local variables."""

    W: Array  # r, laid out for sparse or for dense rows
    bias: Array  # (slots,); NOWHERE where no class is
    scale: Array  # (slots,): the ridge shrinks a class by one multiplication
    u: Array  # (examples,)


def new_state(
    sparse: bool, n_classes: int, blocks: int, n_features: int, n_examples: int, dtype: str
) -> State:
    """Return zero weights for the first `n_classes` slots, and zero local variables."""
    bias = np.full(blocks * LANES, NOWHERE, dtype)
    bias[:n_classes] = 0.0
    return State(
        new_weights(sparse, blocks, n_features, dtype),
        bias,
        np.ones(blocks * LANES, dtype),
        np.zeros(n_examples, dtype),
    )
