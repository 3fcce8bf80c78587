"""An L1 norm in stochastic fits: proximal steps, each after the steps on some rows.

Steps on rows leave the L1 norm out. After n of them, at the rate η, all weights are moved towards 0
by ``n η λ₁``, and no further: the proximal step of length ``n η`` on ``λ₁‖W‖₁`` (mini-batch and
reshuffled proximal steps; Mishchenko, Khaled & Richtárik, 2022). After every row this would cost
K·D each, or notes of what each weight owes. And the noise of single rows, which is much larger than
λ₁, would keep weights from 0 that are 0 at the optimum: over n rows it grows with √n only.

So n is large: ``n η ‖x‖²`` is 10, or more where proximal steps would otherwise take more time than
the others. A larger n costs accuracy, as all weights move far without the penalty in between. As
the rate falls, n grows to a whole epoch (docs/decisions/0026).
"""

from monro._jit import vector_kernel
from monro.blocks import LANES
from monro.penalties import soft_threshold
from monro.rows import Array
from monro.softmax.kernel.state import State

_LENGTH = 10.0  # n η ‖x‖²
_FEWEST_UPDATES = 1 << 15  # of weights, between two proximal steps


def rows_per_proximal_step(
    rate: float, mean_sqnorm: float, weights: int, updates: float, n_rows: int
) -> int:
    """Return n, for a number of weights of which a row's step changes `updates`.

    Examples
    --------
    >>> rows_per_proximal_step(0.001, 2.0, weights=1000, updates=100.0, n_rows=20_000)
    5000
    >>> rows_per_proximal_step(10.0, 2.0, weights=1_000_000, updates=100.0, n_rows=20_000)
    10000
    """
    long = _LENGTH / max(rate * mean_sqnorm, 1e-30)
    cheap = max(weights, _FEWEST_UPDATES) / updates
    return int(min(max(long, cheap, 1.0), n_rows))


@vector_kernel
def soften_blocks(W: Array, thresholds: Array) -> None:
    """Move block-major weights of each class towards 0 by its threshold, and no further."""
    for block in range(W.shape[0]):
        own = thresholds[block * LANES : (block + 1) * LANES]
        for feature in range(W.shape[1]):
            lanes = W[block, feature]
            for lane in range(LANES):
                lanes[lane] = soft_threshold(lanes[lane], own[lane])


@vector_kernel
def soften_classes(W: Array, thresholds: Array) -> None:
    """Move class-major weights of each class towards 0 by its threshold, and no further."""
    for slot in range(W.shape[0]):
        threshold = thresholds[slot]
        own = W[slot]
        for feature in range(W.shape[1]):
            own[feature] = soft_threshold(own[feature], threshold)


def take_proximal_step(state: State, threshold: float) -> None:
    """Move all weights towards 0 by a threshold, and no further."""
    W = state.W
    thresholds = (threshold / state.scale).astype(W.dtype)  # W holds the weights divided by these
    if W.ndim == 3:
        soften_blocks(W, thresholds)
    else:
        soften_classes(W, thresholds)
