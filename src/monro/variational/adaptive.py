"""The adaptive steps of paper 001 (section 4): each weight has its own learning rate.

The rate is ``ρ0 t^{-1/2}/(1 + √s)``, where ``s ← 0.1 g² + 0.9 s`` is a moving average of the
weight's squared gradients. Without a ridge, a weight whose gradient is 0 does not move, and its s
decays. Lazy steps keep ``s/0.9^t`` instead, which does not change then: a step costs O(non-zeros ·
classes drawn), however many classes there are.
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel, leaf, vector_kernel
from monro.rows import Array, Rows, add, update_each

_AVERAGE_DECAY = 0.9
_RATE_DECAY, _DECAY_EVERY = 0.9, 2000
RESCALE_EVERY = 256  # steps: 0.9^-256 does not overflow


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


class LazySteps(NamedTuple):
    """The steps of the weights of one class, each taken once, whichever rows touch it."""

    gradient: Array  # (features,): reset to 0
    squares: Array  # (features,): s/0.9^t
    stamp: Array  # (features,): `now` for weights that have taken their step
    now: int
    rate: float
    growth: float  # of the new square: 0.1/0.9^t
    decay: float  # 0.9^t

    def updated(self, j, value):  # type: ignore[no-untyped-def]
        if self.stamp[j] == self.now:
            return value
        number = self.squares.dtype.type
        self.stamp[j] = self.now
        g = self.gradient[j]
        self.gradient[j] = number(0.0)
        s = self.squares[j] + number(self.growth) * g * g
        self.squares[j] = s
        return value + number(self.rate) * g / (number(1.0) + np.sqrt(number(self.decay) * s))


def growth_and_decay(t: int) -> tuple[float, float]:
    """Return the factors of new squares and of all squares at step t, counted from 1."""
    decay = _AVERAGE_DECAY ** ((t - 1) % RESCALE_EVERY)
    return (1.0 if t == 1 else 1.0 - _AVERAGE_DECAY) / decay, decay


def rescale_squares(squares: Array, t: int) -> None:
    """Before step t, count powers of 0.9 from here on if it is time to."""
    if t > 1 and (t - 1) % RESCALE_EVERY == 0:
        squares *= _AVERAGE_DECAY**RESCALE_EVERY


class ClassSteps(NamedTuple):
    """The steps g of a batch by class: a list of (example, class) for each class, linked."""

    classes: Array  # those that the batch touches
    head: Array  # (classes of the model,): the first entry of each list; -1 where there is none
    following: Array  # (entries,): the next entry; -1 at the end


@kernel
def link_classes(y: Array, batch: Array, chosen: Array, lists: ClassSteps) -> int:
    """Put the entries of a batch into the lists of their classes; return how many classes occur.

    Entry ``p (m + 1) + d`` is that of draw d of the p-th example; d = m is the class of y.
    """
    count = 0
    m = chosen.shape[1]
    for p in range(batch.size):
        for d in range(m + 1):
            k = y[batch[p]] if d == m else chosen[p, d]
            if k < 0:
                continue
            entry = p * (m + 1) + d
            if lists.head[k] < 0:
                lists.classes[count] = k
                count += 1
            lists.following[entry] = lists.head[k]
            lists.head[k] = entry
    return count


@kernel
def move_classes(
    rows: Rows, batch: Array, g: Array, lists: ClassSteps, start: int, stop: int, W: Array,
    bias: Array, squares: Array, bias_squares: Array, gradient: Array, stamp: Array, rate: float,
    growth: float, decay: float,
) -> None:  # fmt: skip
    """Take the steps of some of the classes that a batch touches; `bias_squares` may be empty.

    g has a row per example, the step of y last. `gradient` and `stamp` are scratch buffers; the
    last entry of `stamp` counts.
    """
    number = W.dtype.type
    width = g.shape[1]
    for c in range(start, stop):
        k = lists.classes[c]
        total = number(0.0)
        entry = lists.head[k]
        while entry >= 0:
            step = g[entry // width, entry % width]
            add(rows, batch[entry // width], step, gradient)
            total += step
            entry = lists.following[entry]
        stamp[-1] += 1  # a number that was never used before
        steps = LazySteps(gradient, squares[k], stamp, stamp[-1], rate, growth, decay)
        entry = lists.head[k]
        while entry >= 0:
            update_each(rows, batch[entry // width], steps, W[k])
            entry = lists.following[entry]
        lists.head[k] = -1
        if bias_squares.size > 0:
            s = bias_squares[k] + number(growth) * total * total
            bias_squares[k] = s
            bias[k] += number(rate) * total / (number(1.0) + np.sqrt(number(decay) * s))
