"""What a row's scores are judged by: one softmax for all its labels, or each label for itself.

A class that no feature of the row has a weight for has the score b_k, and the slope of the loss in
it is ``m·o_k``: o depends on the intercepts only, m on the row only. So such classes cost a row
nothing: what they contribute is summed once for all rows, and their slopes are ``o·Σ_i m_i``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from monro._jit import lanes_generic
from monro._math import fast_exp
from monro.rows import Array


class Outside(NamedTuple):
    """What all classes would contribute if no feature of a row had weights for them."""

    unit: Array  # (classes,), float32: o
    total: float  # the sum of `amount(loss, o)`


@lanes_generic("amount")
def amount(loss: Any, unit: float) -> float:
    """Return what a class outside the lists contributes to a row's total, from its o."""
    return float(loss.amount(unit))


@lanes_generic("slopes")
def slopes(loss: Any, z: Array, n: int, rest: float, weight: float) -> tuple[float, float]:
    """Replace the scores z of n classes inside by slopes, as if none were a label of the row.

    `rest` is the total of the classes outside, `weight` that of the row's labels. Return the loss
    and m.
    """
    value, m = loss.slopes(z, n, rest, weight)
    return float(value), float(m)


@lanes_generic("of_label")
def of_label(loss: Any, score: float, slope: float, weight: float) -> tuple[float, float]:
    """Return what a label adds to the loss, and its slope, given that as if it were none."""
    value, own = loss.of_label(score, slope, weight)
    return float(value), float(own)


class JointSoftmax(NamedTuple):
    """``T log Σ_k e^{s_k} - Σ_k t_k s_k``, t_k the weights of the row's labels, T their sum."""

    largest: Any  # intercept b; o_k = e^{b_k - b}

    def amount(self, unit):  # type: ignore[no-untyped-def]
        return unit

    def slopes(self, z, n, rest, weight):  # type: ignore[no-untyped-def]
        top = self.largest
        for a in range(n):
            top = max(top, z[a])
        mass = z.dtype.type(0.0)
        for a in range(n):
            z[a] = fast_exp(z[a] - top)
            mass += z[a]
        outside = np.exp(np.float64(self.largest) - np.float64(top))
        total = np.float64(mass) + max(rest, 0.0) * outside
        factor = z.dtype.type(weight / total)
        for a in range(n):
            z[a] *= factor
        return weight * (np.log(total) + np.float64(top)), weight * outside / total

    def of_label(self, score, slope, weight):  # type: ignore[no-untyped-def]
        return -np.float64(weight) * np.float64(score), slope - weight


class IndependentLabels(NamedTuple):
    """``Σ_k (1 - y_k s_k)₊²``, with y_k = 1 for the row's labels and -1 for all other classes."""

    half: Any  # 1/2, in the precision of the weights

    def amount(self, unit):  # type: ignore[no-untyped-def]
        return (self.half * unit) * (self.half * unit)

    def slopes(self, z, n, rest, weight):  # type: ignore[no-untyped-def]
        value, zero = z.dtype.type(0.0), z.dtype.type(0.0)
        one, two = z.dtype.type(1.0), z.dtype.type(2.0)
        for a in range(n):
            margin = max(one + z[a], zero)
            value += margin * margin
            z[a] = two * margin
        return np.float64(value) + max(rest, 0.0), 1.0

    def of_label(self, score, slope, weight):  # type: ignore[no-untyped-def]
        right, wrong = max(1.0 - np.float64(score), 0.0), max(1.0 + np.float64(score), 0.0)
        return right * right - wrong * wrong, -2.0 * right


def joint_softmax(bias: Array) -> tuple[JointSoftmax, Outside]:
    """Return the loss and its classes outside, for these intercepts."""
    largest = bias.max()
    unit = np.exp(bias - largest)
    return JointSoftmax(largest), Outside(unit, float(unit.sum(dtype=np.float64)))


def independent_labels(bias: Array) -> tuple[IndependentLabels, Outside]:
    """Return the loss and its classes outside, for these intercepts."""
    one = bias.dtype.type(1.0)
    margin = np.maximum(one + bias, 0.0).astype(bias.dtype)
    total = float(np.square(margin, dtype=np.float64).sum())
    return IndependentLabels(one / 2), Outside(2 * margin, total)


MakeLoss = Callable[[Array], tuple[Any, Outside]]
