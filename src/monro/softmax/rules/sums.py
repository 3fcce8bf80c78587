"""Sums over the classes drawn, as loops that vectorise."""

from typing import Any

from monro._jit import lanes_leaf
from monro._math import fast_exp, fast_log
from monro.rows import Array


@lanes_leaf
def weighted_exponentials(z: Array, log_weight: Array, offset: float, scale: float) -> Any:
    """Replace z by ``scale·c e^{z - offset}``; return ``Σ c e^{z - offset}``."""
    total = z.dtype.type(0.0)
    for lane in range(z.size):
        e = fast_exp(z[lane] + log_weight[lane] - offset)
        total += e
        z[lane] = scale * e
    return total


@lanes_leaf
def log_sum_exp(z: Array, first: float) -> Any:
    """Return ``log(e^first + Σ e^z)``."""
    top = first
    for lane in range(z.size):
        top = max(top, z[lane])
    total = fast_exp(first - top)
    for lane in range(z.size):
        total += fast_exp(z[lane] - top)
    return top + fast_log(total)


@lanes_leaf
def softmax_steps(z: Array, normaliser: float, eta: float) -> Any:
    """Replace z by ``η e^{z - normaliser}``; return its sum."""
    total = z.dtype.type(0.0)
    for lane in range(z.size):
        g = eta * fast_exp(z[lane] - normaliser)
        z[lane] = g
        total += g
    return total
