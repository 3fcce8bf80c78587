"""What paper 001 compares augment and reduce with: one-vs-each and the exact softmax.

They have no local variable; batches, initial weights and adaptive steps are the same. `local_step`
replaces ``z_k = s_k - s_y`` of the classes drawn by the gradient, as in `augment_reduce`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from monro._jit import lanes_leaf
from monro._math import fast_exp, fast_log
from monro.blocks import MASKED_SCORE
from monro.rows import Array
from monro.variational.augment_reduce import multiply, scaled_exponentials

# The share of examples whose bound is computed: its logarithms take as long as a step, which does
# not need them.
_MEASURED = 0.125


@lanes_leaf
def _scaled_sigmoids(z: Array, log_c: Array) -> None:
    """Replace z by ``c σ(z)``, 0 for a masked class."""
    one = z.dtype.type(1.0)
    masked = z.dtype.type(0.5 * MASKED_SCORE)
    for d in range(z.size):
        drawn = one if z[d] > masked else one - one
        z[d] = drawn * fast_exp(log_c[d]) / (one + fast_exp(-z[d]))


@lanes_leaf
def _one_vs_each(z: Array, log_c: Array) -> Any:
    """Return ``Σ c log σ(-z)`` over the classes that are not masked."""
    one = z.dtype.type(1.0)
    zero = one - one
    masked = z.dtype.type(0.5 * MASKED_SCORE)
    bound = zero
    for d in range(z.size):
        drawn = one if z[d] > masked else zero
        softplus = max(z[d], zero) + fast_log(one + fast_exp(-abs(z[d])))
        bound -= drawn * fast_exp(log_c[d]) * softplus
    return bound


class OneVsEachModel(NamedTuple):
    """The one-vs-each bound (eq. 10): ``Σ_k log σ(s_y - s_k)``."""

    def initial(self, n_classes: int) -> tuple[float, float]:
        return 1.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return rng.random((n, 2))

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        bound = _one_vs_each(z, log_c) / _MEASURED if first < _MEASURED else 0.0
        _scaled_sigmoids(z, log_c)
        return bound


class ExactModel(NamedTuple):
    """The likelihood of the softmax: ``-log(1 + Σ_k e^{z_k})``, with all classes drawn."""

    def initial(self, n_classes: int) -> tuple[float, float]:
        return 1.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, 2))

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        total = 1.0 + scaled_exponentials(z, log_c)
        multiply(z, z.dtype.type(1.0 / total))
        return -math.log(total)
