"""The steps of paper 001 (section 4): each weight has its own rate.

``ρ0 t^{-1/2}/(1 + √s)``, where ``s ← 0.1 g² + 0.9 s`` remembers the weight's gradients.
"""

import numpy as np

from monro._jit import leaf, vector_kernel
from monro.rows import Array

_FORGET = 0.9
_SLOWER, _SLOWER_EVERY = 0.9, 2000


def rate_of_step(rho: float, t: int) -> float:
    """Return ``ρ0 t^{-1/2}``, ρ0 slower every 2,000 steps."""
    return float(rho * _SLOWER ** (t // _SLOWER_EVERY) / np.sqrt(t))


@leaf
def adapt(g: float, squares: Array, j: int, rate: float, first: bool) -> float:
    """Return the adaptive step for the gradient g, and remember its square."""
    number = squares.dtype.type
    keep = number(0.0 if first else _FORGET)
    take = number(1.0 if first else 1.0 - _FORGET)
    s = take * g * g + keep * squares[j]
    squares[j] = s
    step: float = number(rate) * g / (number(1.0) + np.sqrt(s))
    return step


@vector_kernel
def move_all(
    w: Array, moves: Array, squares: Array, rate: float, first: bool, ridge: float
) -> None:
    """Move every weight along its gradient, which is forgotten then."""
    number = w.dtype.type
    for j in range(w.size):
        w[j] += adapt(moves[j] - number(ridge) * w[j], squares, j, rate, first)
        moves[j] = number(0.0)
