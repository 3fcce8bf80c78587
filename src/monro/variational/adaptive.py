"""The adaptive steps of paper 001 (section 4): each weight has its own learning rate.

The rate is ``ρ0 t^{-1/2}/(1 + √s)``, where ``s ← 0.1 g² + 0.9 s`` is a moving average of the
weight's squared gradients.
"""

import numpy as np

from monro._jit import leaf, vector_kernel
from monro.rows import Array

_AVERAGE_DECAY = 0.9
_RATE_DECAY, _DECAY_EVERY = 0.9, 2000


def rate_of_step(rho: float, t: int) -> float:
    """Return ``ρ0 t^{-1/2}``, where ρ0 decays by 0.9 every 2,000 steps."""
    return float(rho * _RATE_DECAY ** (t // _DECAY_EVERY) / np.sqrt(t))


@leaf
def adapt(g: float, squares: Array, j: int, rate: float, first: bool) -> float:
    """Return the adaptive step of weight j with gradient g, and update its average of squares."""
    number = squares.dtype.type
    keep = number(0.0 if first else _AVERAGE_DECAY)
    take = number(1.0 if first else 1.0 - _AVERAGE_DECAY)
    s = take * g * g + keep * squares[j]
    squares[j] = s
    step: float = number(rate) * g / (number(1.0) + np.sqrt(s))
    return step


@vector_kernel
def move_all(
    w: Array, gradient: Array, squares: Array, rate: float, first: bool, ridge: float
) -> None:
    """Take a step of every weight along its gradient, and reset the gradient to 0."""
    number = w.dtype.type
    for j in range(w.size):
        w[j] += adapt(gradient[j] - number(ridge) * w[j], squares, j, rate, first)
        gradient[j] = number(0.0)
