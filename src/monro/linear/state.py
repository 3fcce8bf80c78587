"""What a pass over the data reads and remembers, whichever the solver."""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, leaf, prefetch_element
from monro.rows import Array, Rows, add, add_two, locate, prefetch, prefetch_weights

Average = Any  # Last | Mean; Numba resolves which


class Examples(NamedTuple):
    """Rows, targets (±1 for classes) and weights of mean 1."""

    rows: Rows
    y: Array
    weight: Array


@leaf
def look_ahead(examples: Examples, order: Array, j: int, w: Array) -> None:
    """Start loading the next rows: a random order defeats the hardware's own prefetching."""
    if j + 2 < order.size:
        prefetch_weights(examples.rows, order[j + 1], w)
        prefetch(examples.rows, order[j + 2])
    if j + 4 < order.size:
        locate(examples.rows, order[j + 4])
        prefetch_element(examples.y, order[j + 4])
        prefetch_element(examples.weight, order[j + 4])


@generic
def move(average: Average, rows: Rows, i: int, c: float, r: Array) -> None:
    """``r += c x_i``, and remember it."""
    average.move(rows, i, c, r)


@generic
def observe(average: Average, scale: float, bias: float) -> None:
    """Note that a step ended with weights ``scale·r`` and this bias."""
    average.observe(scale, bias)


@generic
def settle(average: Average, r: Array) -> None:
    """Take in all that is owed to the average, before r is multiplied out."""
    average.settle(r)


class Last(NamedTuple):
    """No average: the solution is the last iterate."""

    def move(self, rows, i, c, r):  # type: ignore[no-untyped-def]
        add(rows, i, c, r)

    def observe(self, scale, bias):  # type: ignore[no-untyped-def]
        pass

    def settle(self, r):  # type: ignore[no-untyped-def]
        pass


class Mean(NamedTuple):
    """The mean of the iterates ``w_j = s_j r_j``, in O(nnz) a step (paper 002, Algorithm 2).

    With ``r_j = Σ_{i≤j} c_i x_i`` the sum ``Σ_j s_j r_j`` is ``S r - u``, where ``S = Σ_j s_j`` and
    ``u = Σ_i S_{i-1} c_i x_i``. For the schedule ``1/(λt)``, S is the paper's h_t / λ.
    """

    u: Array
    scales: Array  # S
    biases: Array  # Σ_j b_j
    steps: Array

    def move(self, rows, i, c, r):  # type: ignore[no-untyped-def]
        add_two(rows, i, c, r, c * self.scales[0], self.u)

    def observe(self, scale, bias):  # type: ignore[no-untyped-def]
        self.scales[0] += scale
        self.biases[0] += bias
        self.steps[0] += 1.0

    def settle(self, r):  # type: ignore[no-untyped-def]
        for k in range(r.size):
            self.u[k] -= self.scales[0] * r[k]
        self.scales[0] = 0.0


class PerExample(NamedTuple):
    """A solver's memory of single examples. Threads share it: no two visit the same example."""

    g: Array  # the example's derivative ℓ'(p_i, y_i) when last visited
    idle: Array  # how many visits in a row left it as it was


class State(NamedTuple):
    """Weights ``w = scale·r``, the bias, the steps taken so far, and the average if one is kept."""

    r: Array
    scale: Array
    bias: Array
    t: Array
    average: Average
    centre: Array  # the mean row of casgd; empty for the others


# Below this scale it is time to multiply r out: the mean is a difference of numbers 1/scale times
# as large, and loses that many digits.
SMALLEST_SCALE = 1e-5


def new_state(size: int) -> State:
    """Return the state of zero weights."""
    return State(np.zeros(size), np.ones(1), np.zeros(1), np.zeros(1), Last(), np.zeros(0))


def start_averaging(state: State) -> State:
    """Return the state that averages all iterates from here on."""
    average = Mean(np.zeros_like(state.r), np.zeros(1), np.zeros(1), np.zeros(1))
    return state._replace(average=average)


def weights(state: State) -> tuple[Array, float]:
    """Multiply out the solution: the last iterate, or the mean where one is kept."""
    average = state.average
    if isinstance(average, Mean) and average.steps[0] > 0.0:
        mean = (average.scales[0] * state.r - average.u) / average.steps[0]
        return mean, float(average.biases[0] / average.steps[0])
    return state.scale[0] * state.r, float(state.bias[0])
