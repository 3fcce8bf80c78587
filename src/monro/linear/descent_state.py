"""The state of gradient descent: scaled weights, their mean, and the memory of each example."""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic
from monro.rows import Array, Rows, add, add_scaled, add_two
from monro.saving.states import PerExample, PerFeature

Average = Any  # Last | Mean; Numba resolves which


@generic
def add_row(average: Average, rows: Rows, i: int, c: float, r: Array) -> None:
    """``r += c x_i``; also update the sum of the iterates."""
    average.add_row(rows, i, c, r)


@generic
def add_gained_row(average: Average, rows: Rows, i: int, c: float, gains: Array, w: Array) -> None:
    """``w += c·gains∘x_i``; also update the sum of the iterates."""
    average.add_gained_row(rows, i, c, gains, w)


@generic
def multiply(average: Average, k: int, factor: float, w: Array) -> None:
    """``w_k *= factor``; also update the sum of the iterates."""
    average.multiply(k, factor, w)


@generic
def add_iterate(average: Average, scale: float, bias: float) -> None:
    """Add the iterate after a step, ``scale·r`` and the bias, to the sum of the iterates."""
    average.add_iterate(scale, bias)


@generic
def flush(average: Average, r: Array) -> None:
    """Bring the sum of the iterates up to date, before r is multiplied by its scale."""
    average.flush(r)


class Last(NamedTuple):
    """No average: the solution is the last iterate."""

    def add_row(self, rows, i, c, r):  # type: ignore[no-untyped-def]
        add(rows, i, c, r)

    def add_gained_row(self, rows, i, c, gains, w):  # type: ignore[no-untyped-def]
        add_scaled(rows, i, c, gains, w)

    def multiply(self, k, factor, w):  # type: ignore[no-untyped-def]
        w[k] *= factor

    def add_iterate(self, scale, bias):  # type: ignore[no-untyped-def]
        pass

    def flush(self, r):  # type: ignore[no-untyped-def]
        pass


class Mean(NamedTuple):
    """The mean of the iterates ``w_j = s_j r_j``, in O(nnz) a step (paper 002, Algorithm 2).

    With ``r_j = Σ_{i≤j} c_i x_i`` the sum ``Σ_j s_j r_j`` is ``S r - u``, where ``S = Σ_j s_j`` and
    ``u = Σ_i S_{i-1} c_i x_i``. For the schedule ``1/(λt)``, S is the paper's h_t / λ.
    """

    u: PerFeature
    scales: Array  # S
    biases: Array  # Σ_j b_j
    steps: Array

    def add_row(self, rows, i, c, r):  # type: ignore[no-untyped-def]
        add_two(rows, i, c, r, c * self.scales[0], self.u)

    def add_gained_row(self, rows, i, c, gains, w):  # type: ignore[no-untyped-def]
        add_scaled(rows, i, c, gains, w)
        add_scaled(rows, i, c * self.scales[0], gains, self.u)

    def multiply(self, k, factor, w):  # type: ignore[no-untyped-def]
        self.u[k] += self.scales[0] * (factor - 1.0) * w[k]
        w[k] *= factor

    def add_iterate(self, scale, bias):  # type: ignore[no-untyped-def]
        self.scales[0] += scale
        self.biases[0] += bias
        self.steps[0] += 1.0

    def flush(self, r):  # type: ignore[no-untyped-def]
        for k in range(r.size):
            self.u[k] -= self.scales[0] * r[k]
        self.scales[0] = 0.0


class ExampleMemory(NamedTuple):
    """What a solver keeps of each example. Threads share it: no two visit the same example."""

    g: PerExample  # the derivative ℓ'(p_i, y_i) when last visited
    idle: PerExample  # how many visits in a row did not change it


class DescentState(NamedTuple):
    """Weights ``w = scale·r``, the bias, the steps taken so far, and the average if one is kept."""

    r: PerFeature
    scale: Array
    bias: Array
    t: Array
    average: Average
    centre: PerFeature  # of the rows; empty if none is subtracted
    seen: Array = np.zeros(1)  # the rows whose mean the centre is


# Below this scale, r is multiplied by it and the scale reset to 1: the mean is a difference of
# numbers 1/scale times as large, and loses that many digits.
SMALLEST_SCALE = 1e-5


def new_state(size: int) -> DescentState:
    """Return the state of zero weights."""
    zero = np.zeros(1)
    return DescentState(
        np.zeros(size), np.ones(1), zero, zero.copy(), Last(), np.zeros(0), zero.copy()
    )


def new_mean(size: int) -> Mean:
    """Return the average of no iterates."""
    return Mean(np.zeros(size), np.zeros(1), np.zeros(1), np.zeros(1))


def start_averaging(state: DescentState) -> DescentState:
    """Return the state with an average of all iterates from now on."""
    return state._replace(average=new_mean(state.r.size))


def weights(state: DescentState) -> tuple[Array, float]:
    """Return weights and bias of the solution: the last iterate, or the mean if one is kept."""
    average = state.average
    if isinstance(average, Mean) and average.steps[0] > 0.0:
        return mean_iterate(average, state.r), float(average.biases[0] / average.steps[0])
    return state.scale[0] * state.r, float(state.bias[0])


def mean_iterate(average: Mean, r: Array) -> Array:
    """Return the mean of the iterates; r is that of the last one."""
    mean: Array = (average.scales[0] * r - average.u) / average.steps[0]
    return mean
