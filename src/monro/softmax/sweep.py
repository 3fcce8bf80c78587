"""A pass over examples: the part all update rules share.

For an example i and the classes C drawn for it the *rule* is told their scores, and answers how far
each ``w_k`` moves against x, how far ``w_y`` moves along it, and what becomes of u_i:

    ``w_k ← ρ_k (w_k - g_k x)``,  ``b_k ← b_k - δ g_k``    (k drawn)
    ``w_y ← ρ_y (w_y + G x)``,  ``b_y ← b_y + δ G``

where ``ρ_k = 1/(1 + η μβ_k/N)`` is the ridge's share, ``1/β_k`` the chance that class k is touched,
and δ says how fast intercepts learn. With n examples a step all scores are taken before any weight
moves, and each example's rate is η/n.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, kernel, lanes_leaf, leaf, prefetch_element, vector_kernel
from monro.rows import Array, locate, prefetch
from monro.softmax.layout import (
    LANES,
    View,
    add,
    block_scores,
    block_subtract,
    prefetch_slot,
    rescale,
    score,
)
from monro.softmax.state import NOWHERE, State

Rule = Any  # Vanilla, UMax, Implicit, …; Numba resolves which
Drawn = Any  # Blocks | Slots


class Examples(NamedTuple):
    """Rows against weights; of each row its class's slot, its weight, and its squared length."""

    pairs: View
    y: Array
    weight: Array
    sqnorm: Array


class Scratch(NamedTuple):
    """Room for the examples of one step; each thread has its own."""

    z: Array  # (n, classes drawn): scores, then steps
    q: Array  # (classes drawn,): how far a class's score falls for g = 1
    log_weight: Array  # (classes drawn,): the log of the weight c of a class
    work: Array  # (classes drawn,): for the rule to use
    steps: Array  # (LANES,)
    pull: Array  # (n,)


# Numbers between the arrays of a scratch. Loops that read one and write another are compiled twice:
# for arrays less than a few vectors apart they run one class at a time, and sum in another order.
_APART = 64


def _zeros_apart(shape: tuple[int, ...], dtype: str) -> Array:
    size = int(np.prod(shape))
    zeros: Array = np.zeros(size + 2 * _APART, dtype)[_APART : _APART + size].reshape(shape)
    return zeros


def new_scratch(n: int, classes: int, dtype: str) -> Scratch:
    """Return room for n examples and that many drawn classes."""
    shapes = ((n, classes), (classes,), (classes,), (classes,), (LANES,), (n,))
    return Scratch(*(_zeros_apart(shape, dtype) for shape in shapes))


@generic
def seen(rule: Rule, p: float, rho: float, bias: float) -> float:
    """Return the score a rule wants to see: before the ridge's share, or after."""
    return float(rule.seen(p, rho, bias))


@generic
def step(
    rule: Rule, eta: float, z: Array, s: float, q_y: float, y: int, u: float, scratch: Any
) -> tuple[float, float, float]:
    """Replace the scores z by the steps g; return u⁺, G and the loss before the step.

    The loss is that of the classes drawn: for rules with a local variable ``log(1 + c Σ e^{z_k})``,
    on average a little below the example's true one.
    """
    result: tuple[float, float, float] = rule.step(eta, z, s, q_y, y, u, scratch)
    return result


@generic
def gather(
    drawn: Drawn, rule: Rule, view: View, i: int, y: int, j: int, x2: float, state: State,
    settings: Any, z: Array, scratch: Any,
) -> float:  # fmt: skip
    """Fill z with the scores of the classes drawn in row j, y left out; q and log_weight, too.

    Return the score of y.
    """
    return float(drawn.gather(rule, view, i, y, j, x2, state, settings, z, scratch))


@generic
def scatter(
    drawn: Drawn, view: View, i: int, y: int, j: int, x2: float, state: State, settings: Any,
    g: Array, pull: float, steps: Array,
) -> None:  # fmt: skip
    """Move the classes drawn in row j by g against x, and y by the pull along it."""
    drawn.scatter(view, i, y, j, x2, state, settings, g, pull, steps)


@generic
def look_ahead(drawn: Drawn, view: View, i: int, j: int) -> None:
    """Start loading the weights of the classes drawn in row j."""
    drawn.look_ahead(view, i, j)


class Settings(NamedTuple):
    """What stays the same for a sweep."""

    eta: float  # of one example: η/n
    damping: float  # δ; 0 where there are no intercepts
    ridge: Array  # (slots,): μβ_k/N
    bounds: Any  # Unbounded | Ball


# Below this scale it is time to multiply a class out.
SMALLEST_SCALE = 1e-10
# How far a score moves at least, for g = 1: rows may be empty, and q is divided by.
SMALLEST_Q = 1e-16


@generic
def move(bounds: Any, view: View, i: int, k: int, g: float, x2: float, state: State) -> None:
    """Note that ``w_k -= g x_i`` is about to happen."""
    bounds.move(view, i, k, g, x2, state)


@generic
def confine(bounds: Any, k: int, rho: float, state: State) -> None:
    """Note that w_k has been multiplied by ρ; bring it back where it may be."""
    bounds.confine(k, rho, state)


class Unbounded(NamedTuple):
    """Weights may lie anywhere."""

    def move(self, view, i, k, g, x2, state):  # type: ignore[no-untyped-def]
        pass

    def confine(self, k, rho, state):  # type: ignore[no-untyped-def]
        pass


class Ball(NamedTuple):
    """Weights of a class lie within ``‖w_k‖ ≤ B_W``; the norms are kept in O(nnz) a step."""

    radius: float
    sqnorm: Array  # (slots,): ‖w_k‖²

    def move(self, view, i, k, g, x2, state):  # type: ignore[no-untyped-def]
        p = np.float64(state.scale[k] * score(view, i, k))
        self.sqnorm[k] = max(0.0, self.sqnorm[k] + g * (g * np.float64(x2) - 2.0 * p))

    def confine(self, k, rho, state):  # type: ignore[no-untyped-def]
        self.sqnorm[k] *= rho * rho
        if self.sqnorm[k] > self.radius * self.radius:
            state.scale[k] *= self.radius / np.sqrt(self.sqnorm[k])
            self.sqnorm[k] = self.radius * self.radius


@leaf
def keep_in_range(k: int, view: View, state: State) -> None:
    """Multiply class k out where its scale has become too small."""
    if state.scale[k] < SMALLEST_SCALE:
        rescale(view, k, state.scale[k])
        state.scale[k] = 1.0


@leaf
def shrink(k: int, view: View, settings: Settings, state: State) -> None:
    """Let the ridge pull at class k, and the ball that holds it."""
    one = state.scale.dtype.type(1.0)
    rho = one / (one + settings.eta * settings.ridge[k])
    state.scale[k] *= rho
    confine(settings.bounds, k, rho, state)
    keep_in_range(k, view, state)


@lanes_leaf
def shrink_block(first: int, view: View, settings: Settings, state: State) -> None:
    """Do so for the sixteen classes of a block."""
    one = state.scale.dtype.type(1.0)
    smallest = one
    if settings.ridge[first] > 0.0:  # all classes have one, or none
        for k in range(first, first + LANES):
            state.scale[k] *= one / (one + settings.eta * settings.ridge[k])
    for k in range(first, first + LANES):
        confine(settings.bounds, k, one / (one + settings.eta * settings.ridge[k]), state)
    for k in range(first, first + LANES):
        smallest = min(smallest, state.scale[k])
    if smallest < SMALLEST_SCALE:
        for k in range(first, first + LANES):
            keep_in_range(k, view, state)


@leaf
def score_of(rule: Rule, view: View, i: int, y: int, state: State, settings: Any) -> float:
    """Return the score of one class, as the rule wants to see it."""
    one = state.scale.dtype.type(1.0)
    rho = one / (one + settings.eta * settings.ridge[y])
    return seen(rule, state.scale[y] * score(view, i, y), rho, state.bias[y])


@leaf
def move_one(view: View, i: int, k: int, g: float, x2: float, state: State, settings: Any) -> None:
    """Move one class by g against x, and shrink it."""
    move(settings.bounds, view, i, k, g, x2, state)
    add(view, i, k, -g / state.scale[k])
    state.bias[k] -= settings.damping * g
    shrink(k, view, settings, state)


class Blocks(NamedTuple):
    """Whole blocks were drawn. Where y's is among them, y costs nothing more."""

    chosen: Array  # (draws, blocks a draw); -1 where one was drawn again
    log_weight: Array  # of the same shape

    def gather(self, rule, view, i, y, j, x2, state, settings, z, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        smallest_q = z.dtype.type(SMALLEST_Q)
        among = False
        s = one
        for d in range(self.chosen.shape[1]):
            at = d * LANES
            part = z[at : at + LANES]
            q = scratch.q[at : at + LANES]
            log_weight = scratch.log_weight[at : at + LANES]
            block = self.chosen[j, d]
            if block < 0:
                for lane in range(LANES):
                    part[lane] = NOWHERE
                    q[lane] = one
                    log_weight[lane] = self.log_weight[j, d]
                continue
            block_scores(view, i, block, part)
            first = block * LANES
            for lane in range(LANES):
                rho = one / (one + settings.eta * settings.ridge[first + lane])
                p = state.scale[first + lane] * part[lane]
                part[lane] = seen(rule, p, rho, state.bias[first + lane])
                q[lane] = max(rho * x2 + settings.damping, smallest_q)
                log_weight[lane] = self.log_weight[j, d]
            if y // LANES == block:
                among = True
                s = part[y % LANES]
                part[y % LANES] = NOWHERE
        return s if among or y < 0 else score_of(rule, view, i, y, state, settings)

    def scatter(self, view, i, y, j, x2, state, settings, g, pull, steps):  # type: ignore[no-untyped-def]
        among = y < 0
        for d in range(self.chosen.shape[1]):
            block = self.chosen[j, d]
            if block < 0:
                continue
            part = g[d * LANES : (d + 1) * LANES]
            first = block * LANES
            if y // LANES == block:
                among = True
                part[y % LANES] = -pull
            for lane in range(LANES):
                move(settings.bounds, view, i, first + lane, part[lane], x2, state)
            for lane in range(LANES):
                steps[lane] = part[lane] / state.scale[first + lane]
                state.bias[first + lane] -= settings.damping * part[lane]
            block_subtract(view, i, block, steps)
            shrink_block(first, view, settings, state)
        if not among:
            move_one(view, i, y, -pull, x2, state, settings)

    def look_ahead(self, view, i, j):  # type: ignore[no-untyped-def]
        for d in range(self.chosen.shape[1]):
            if self.chosen[j, d] >= 0:
                prefetch_slot(view, i, self.chosen[j, d] * LANES)


class Slots(NamedTuple):
    """Single classes were drawn."""

    chosen: Array  # (draws, classes a draw); -1 where one was drawn again
    log_weight: Array  # of the same shape

    def gather(self, rule, view, i, y, j, x2, state, settings, z, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        smallest_q = z.dtype.type(SMALLEST_Q)
        for d in range(self.chosen.shape[1]):
            k = self.chosen[j, d]
            scratch.log_weight[d] = self.log_weight[j, d]
            if k < 0 or k == y:
                z[d] = NOWHERE
                scratch.q[d] = one
                continue
            rho = one / (one + settings.eta * settings.ridge[k])
            z[d] = score_of(rule, view, i, k, state, settings)
            scratch.q[d] = max(rho * x2 + settings.damping, smallest_q)
        return score_of(rule, view, i, y, state, settings)

    def scatter(self, view, i, y, j, x2, state, settings, g, pull, steps):  # type: ignore[no-untyped-def]
        for d in range(self.chosen.shape[1]):
            k = self.chosen[j, d]
            if k >= 0 and k != y:
                move_one(view, i, k, g[d], x2, state, settings)
        move_one(view, i, y, -pull, x2, state, settings)

    def look_ahead(self, view, i, j):  # type: ignore[no-untyped-def]
        for d in range(self.chosen.shape[1]):
            if self.chosen[j, d] >= 0:
                prefetch_slot(view, i, self.chosen[j, d])


@vector_kernel
def sweep(
    rule: Rule,
    examples: Examples,
    order: Array,
    drawn: Drawn,
    shared: int,
    settings: Settings,
    state: State,
    scratch: Scratch,
) -> float:
    """Step on the examples of `order`, some at a time; return the rule's loss before each step.

    Row ``j // shared`` of the draws belongs to example ``order[j]``.
    """
    view = examples.pairs
    one = state.u.dtype.type(1.0)
    smallest_q = state.u.dtype.type(SMALLEST_Q)
    n = scratch.pull.size
    total = 0.0
    for start in range(0, order.size, n):
        stop = min(start + n, order.size)
        for j in range(start, stop):
            if j + 4 < order.size:
                ahead = order[j + 4]
                locate(view.rows, ahead)
                prefetch_element(examples.y, ahead)
                prefetch_element(state.u, ahead)
            if j + 2 < order.size:
                prefetch(view.rows, order[j + 2])
            if j + 1 < order.size:
                look_ahead(drawn, view, order[j + 1], (j + 1) // shared)
                prefetch_slot(view, order[j + 1], max(examples.y[order[j + 1]], 0))
            i = order[j]
            y = examples.y[i]
            x2 = examples.sqnorm[i]
            row = j // shared
            z = scratch.z[j - start]
            s = gather(drawn, rule, view, i, y, row, x2, state, settings, z, scratch)
            q_y = smallest_q  # a class that is not here does not move
            if y >= 0:
                rho = one / (one + settings.eta * settings.ridge[y])
                q_y = max(rho * x2 + settings.damping, smallest_q)
            u, pull, loss = step(
                rule,
                settings.eta * examples.weight[i],
                z,
                s,
                q_y,
                y,
                state.u[i],
                scratch,
            )
            state.u[i] = u
            scratch.pull[j - start] = pull
            if y >= 0:
                total += examples.weight[i] * loss
        for j in range(start, stop):
            i = order[j]
            y = examples.y[i]
            x2 = examples.sqnorm[i]
            pull = scratch.pull[j - start]
            g = scratch.z[j - start]
            scatter(drawn, view, i, y, j // shared, x2, state, settings, g, pull, scratch.steps)
    return total


@kernel
def own_scores(examples: Examples, state: State, out: Array) -> None:
    """``out_i = x_i · w_{y_i} + b_{y_i}``."""
    for i in range(out.size):
        y = examples.y[i]
        out[i] = state.scale[y] * score(examples.pairs, i, y) + state.bias[y]
