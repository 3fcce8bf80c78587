"""A sweep over examples: the part that all update rules share.

For an example i and the classes C drawn for it, the *rule* takes their scores and returns the steps
g_k of each ``w_k`` against x, the step G of ``w_y`` along x, and the new local variable u_i:

    ``w_k ← ρ_k (w_k - g_k x)``,  ``b_k ← b_k - δ g_k``    (k drawn)
    ``w_y ← ρ_y (w_y + G x)``,  ``b_y ← b_y + δ G``

where ``ρ_k = 1/(1 + η μβ_k/N)`` is the shrinkage by the ridge, ``1/β_k`` the probability that a
step touches class k, and δ the relative learning rate of intercepts. With n examples a step, all
scores are computed before any weight moves, and each example's learning rate is η/n.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, kernel, lanes_leaf, leaf, prefetch_element, vector_kernel
from monro.blocks import LANES, MASKED_SCORE
from monro.penalties import Penalty, class_shrinkage, lanes_class_shrinkage
from monro.rows import Array, locate, prefetch
from monro.softmax.kernel.layout import (
    View,
    add,
    block_scores,
    block_subtract,
    prefetch_slot,
    rescale,
    score,
)
from monro.softmax.kernel.state import State

Rule = Any  # Vanilla, UMax, Implicit, …; Numba resolves which
Drawn = Any  # DrawnBlocks | DrawnClasses | WithRemoteMass


class KernelRows(NamedTuple):
    """The examples as kernels read them."""

    rows_and_weights: View
    y: Array  # (examples,): slot of the class; -1 where another shard of classes holds it
    weight: Array  # (examples,): of mean 1
    sqnorm: Array  # (examples,): ‖x_i‖²


class Scratch(NamedTuple):
    """Buffers for one step of n examples; each thread has its own."""

    z: Array  # (n, classes drawn): scores, then steps g
    q: Array  # (classes drawn,): decrease of a class's score for g = 1
    log_weight: Array  # (classes drawn,): log c, the importance weight of a class
    omega: Array  # (classes drawn,): ω of implicit steps
    steps: Array  # (LANES,): g/scale of a block
    G: Array  # (n,): steps of the examples' own classes
    own_draws: Array  # (1,): how often y itself was drawn


# Entries of padding on either side of each buffer. LLVM compiles two versions of loops that read
# one buffer and write another: if the buffers are less than a few vectors apart, the scalar version
# runs, which sums in another order.
_PADDING = 64


def _padded_zeros(shape: tuple[int, ...], dtype: str) -> Array:
    size = int(np.prod(shape))
    zeros: Array = np.zeros(size + 2 * _PADDING, dtype)[_PADDING : _PADDING + size].reshape(shape)
    return zeros


def new_scratch(n: int, classes: int, dtype: str) -> Scratch:
    """Return the scratch buffers for steps of n examples and `classes` drawn classes."""
    shapes = ((n, classes), (classes,), (classes,), (classes,), (LANES,), (n,), (1,))
    return Scratch(*(_padded_zeros(shape, dtype) for shape in shapes))


@generic
def input_score(rule: Rule, p: float, rho: float, bias: float) -> float:
    """Return the score that a rule steps from, given ``p = x·w``.

    Explicit rules take ``p + b``, implicit rules that of the shrunk weights, ``ρ p + b``.
    """
    return float(rule.input_score(p, rho, bias))


@generic
def step(
    rule: Rule, eta: float, z: Array, s: float, q_y: float, y: int, u: float, scratch: Any
) -> tuple[float, float, float]:
    """Replace the scores z by the steps g; return u⁺, G and the loss before the step.

    The loss is estimated from the classes drawn: for rules with a local variable it is
    ``log(1 + c Σ e^{z_k})``, whose expectation is a little below the example's true loss.
    """
    result: tuple[float, float, float] = rule.step(eta, z, s, q_y, y, u, scratch)
    return result


@generic
def gather(
    drawn: Drawn, rule: Rule, view: View, i: int, y: int, j: int, x2: float, state: State,
    settings: Any, z: Array, scratch: Any,
) -> float:  # fmt: skip
    """Fill z, q and log_weight for the classes in row j of the draws, y masked, and own_draws.

    Return the score of y.
    """
    return float(drawn.gather(rule, view, i, y, j, x2, state, settings, z, scratch))


@generic
def scatter(
    drawn: Drawn, view: View, i: int, y: int, j: int, x2: float, state: State, settings: Any,
    g: Array, G: float, steps: Array,
) -> None:  # fmt: skip
    """Move the classes in row j of the draws by g against x, and y by G along x."""
    drawn.scatter(view, i, y, j, x2, state, settings, g, G, steps)


@generic
def look_ahead(drawn: Drawn, view: View, i: int, j: int) -> None:
    """Prefetch the weights of the classes in row j of the draws."""
    drawn.look_ahead(view, i, j)


class Settings(NamedTuple):
    """The constants of a sweep."""

    eta: float  # learning rate of one example: η/n
    damping: float  # δ, the relative learning rate of intercepts; 0 without intercepts
    penalty: Penalty  # on the weights of each class
    bounds: Any  # Unbounded | Ball: the constraint on the weights of each class


# Below this scale the weights of a class are multiplied by it, and it is reset to 1.
SMALLEST_SCALE = 1e-10
# The smallest q: rows may be empty, and rules divide by q.
SMALLEST_Q = 1e-16


@generic
def update_norm(bounds: Any, view: View, i: int, k: int, g: float, x2: float, state: State) -> None:
    """Update the stored norm of w_k; called before ``w_k -= g x_i``."""
    bounds.update_norm(view, i, k, g, x2, state)


@generic
def project(bounds: Any, k: int, rho: float, state: State) -> None:
    """Project w_k, which has just been multiplied by ρ, onto the ball, if there is one."""
    bounds.project(k, rho, state)


class Unbounded(NamedTuple):
    """No bound on the weights."""

    def update_norm(self, view, i, k, g, x2, state):  # type: ignore[no-untyped-def]
        pass

    def project(self, k, rho, state):  # type: ignore[no-untyped-def]
        pass


class Ball(NamedTuple):
    """The bound ``‖w_k‖ ≤ B_W`` of each class; norms are updated in O(nnz) a step."""

    radius: float
    sqnorm: Array  # (slots,): ‖w_k‖²

    def update_norm(self, view, i, k, g, x2, state):  # type: ignore[no-untyped-def]
        p = np.float64(state.scale[k] * score(view, i, k))
        self.sqnorm[k] = max(0.0, self.sqnorm[k] + g * (g * np.float64(x2) - 2.0 * p))

    def project(self, k, rho, state):  # type: ignore[no-untyped-def]
        self.sqnorm[k] *= rho * rho
        if self.sqnorm[k] > self.radius * self.radius:
            state.scale[k] *= self.radius / np.sqrt(self.sqnorm[k])
            self.sqnorm[k] = self.radius * self.radius


@leaf
def multiply_out_if_small(k: int, view: View, state: State) -> None:
    """Multiply the weights of class k by its scale, if that has become too small."""
    if state.scale[k] < SMALLEST_SCALE:
        rescale(view, k, state.scale[k])
        state.scale[k] = 1.0


@leaf
def shrink(k: int, view: View, settings: Settings, state: State) -> None:
    """Apply the ridge and the bounds to class k."""
    rho = class_shrinkage(settings.penalty, settings.eta, k)
    state.scale[k] *= rho
    project(settings.bounds, k, rho, state)
    multiply_out_if_small(k, view, state)


@lanes_leaf
def shrink_block(first: int, view: View, settings: Settings, state: State) -> None:
    """Apply the ridge and the bounds to the sixteen classes of a block."""
    one = state.scale.dtype.type(1.0)
    smallest = one
    # All classes shrink, or none.
    if lanes_class_shrinkage(settings.penalty, settings.eta, first) < one:
        for k in range(first, first + LANES):
            state.scale[k] *= lanes_class_shrinkage(settings.penalty, settings.eta, k)
    for k in range(first, first + LANES):
        project(settings.bounds, k, lanes_class_shrinkage(settings.penalty, settings.eta, k), state)
    for k in range(first, first + LANES):
        smallest = min(smallest, state.scale[k])
    if smallest < SMALLEST_SCALE:
        for k in range(first, first + LANES):
            multiply_out_if_small(k, view, state)


@leaf
def class_input_score(rule: Rule, view: View, i: int, y: int, state: State, settings: Any) -> float:
    """Return the `input_score` of one class."""
    rho = class_shrinkage(settings.penalty, settings.eta, y)
    return input_score(rule, state.scale[y] * score(view, i, y), rho, state.bias[y])


@leaf
def move_class(
    view: View, i: int, k: int, g: float, x2: float, state: State, settings: Any
) -> None:
    """Move one class by g against x, and shrink it."""
    update_norm(settings.bounds, view, i, k, g, x2, state)
    add(view, i, k, -g / state.scale[k])
    state.bias[k] -= settings.damping * g
    shrink(k, view, settings, state)


class DrawnBlocks(NamedTuple):
    """Whole blocks of classes. Where the block of y is among them, y needs no extra work."""

    chosen: Array  # (draws, blocks a draw); -1 for a repeated draw that does not count
    log_weight: Array  # of the same shape

    def gather(self, rule, view, i, y, j, x2, state, settings, z, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        smallest_q = z.dtype.type(SMALLEST_Q)
        own_draws = z.dtype.type(0.0)
        s = one
        for d in range(self.chosen.shape[1]):
            start = d * LANES
            z_block = z[start : start + LANES]
            q = scratch.q[start : start + LANES]
            log_weight = scratch.log_weight[start : start + LANES]
            block = self.chosen[j, d]
            if block < 0:
                for lane in range(LANES):
                    z_block[lane] = MASKED_SCORE
                    q[lane] = one
                    log_weight[lane] = self.log_weight[j, d]
                continue
            block_scores(view, i, block, z_block)
            first = block * LANES
            for lane in range(LANES):
                rho = class_shrinkage(settings.penalty, settings.eta, first + lane)
                p = state.scale[first + lane] * z_block[lane]
                z_block[lane] = input_score(rule, p, rho, state.bias[first + lane])
                q[lane] = max(rho * x2 + settings.damping, smallest_q)
                log_weight[lane] = self.log_weight[j, d]
            if y // LANES == block:
                own_draws += one
                s = z_block[y % LANES]
                z_block[y % LANES] = MASKED_SCORE
        scratch.own_draws[0] = own_draws
        return s if own_draws > 0 or y < 0 else class_input_score(rule, view, i, y, state, settings)

    def scatter(self, view, i, y, j, x2, state, settings, g, G, steps):  # type: ignore[no-untyped-def]
        y_is_done = y < 0  # y belongs to another shard
        for d in range(self.chosen.shape[1]):
            block = self.chosen[j, d]
            if block < 0:
                continue
            g_block = g[d * LANES : (d + 1) * LANES]
            first = block * LANES
            if y // LANES == block and not y_is_done:
                y_is_done = True
                g_block[y % LANES] = -G
            for lane in range(LANES):
                update_norm(settings.bounds, view, i, first + lane, g_block[lane], x2, state)
            for lane in range(LANES):
                steps[lane] = g_block[lane] / state.scale[first + lane]
                state.bias[first + lane] -= settings.damping * g_block[lane]
            block_subtract(view, i, block, steps)
            shrink_block(first, view, settings, state)
        if not y_is_done:
            move_class(view, i, y, -G, x2, state, settings)

    def look_ahead(self, view, i, j):  # type: ignore[no-untyped-def]
        for d in range(self.chosen.shape[1]):
            if self.chosen[j, d] >= 0:
                prefetch_slot(view, i, self.chosen[j, d] * LANES)


class DrawnClasses(NamedTuple):
    """Single classes."""

    chosen: Array  # (draws, classes a draw); -1 for a repeated draw that does not count
    log_weight: Array  # of the same shape

    def gather(self, rule, view, i, y, j, x2, state, settings, z, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        smallest_q = z.dtype.type(SMALLEST_Q)
        scratch.own_draws[0] = z.dtype.type(0.0)
        for d in range(self.chosen.shape[1]):
            k = self.chosen[j, d]
            scratch.log_weight[d] = self.log_weight[j, d]
            if k == y:
                scratch.own_draws[0] += one
            if k < 0 or k == y:
                z[d] = MASKED_SCORE
                scratch.q[d] = one
                continue
            rho = class_shrinkage(settings.penalty, settings.eta, k)
            z[d] = class_input_score(rule, view, i, k, state, settings)
            scratch.q[d] = max(rho * x2 + settings.damping, smallest_q)
        return class_input_score(rule, view, i, y, state, settings)

    def scatter(self, view, i, y, j, x2, state, settings, g, G, steps):  # type: ignore[no-untyped-def]
        for d in range(self.chosen.shape[1]):
            k = self.chosen[j, d]
            if k >= 0 and k != y:
                move_class(view, i, k, g[d], x2, state, settings)
        move_class(view, i, y, -G, x2, state, settings)

    def look_ahead(self, view, i, j):  # type: ignore[no-untyped-def]
        for d in range(self.chosen.shape[1]):
            if self.chosen[j, d] >= 0:
                prefetch_slot(view, i, self.chosen[j, d])


@vector_kernel
def sweep(
    rule: Rule,
    examples: KernelRows,
    order: Array,
    drawn: Drawn,
    examples_per_draw: int,
    settings: Settings,
    state: State,
    scratch: Scratch,
) -> float:
    """Step on the examples of `order`, n at a time; return the sum of the losses before each step.

    Example ``order[j]`` uses row ``j // examples_per_draw`` of the draws.
    """
    view = examples.rows_and_weights
    smallest_q = state.u.dtype.type(SMALLEST_Q)
    n = scratch.G.size
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
                look_ahead(drawn, view, order[j + 1], (j + 1) // examples_per_draw)
                prefetch_slot(view, order[j + 1], max(examples.y[order[j + 1]], 0))
            i = order[j]
            y = examples.y[i]
            x2 = examples.sqnorm[i]
            row = j // examples_per_draw
            z = scratch.z[j - start]
            s = gather(drawn, rule, view, i, y, row, x2, state, settings, z, scratch)
            q_y = smallest_q  # a class of another shard does not move
            if y >= 0:
                rho = lanes_class_shrinkage(settings.penalty, settings.eta, y)
                q_y = max(rho * x2 + settings.damping, smallest_q)
            eta = settings.eta * examples.weight[i]
            u, G, loss = step(rule, eta, z, s, q_y, y, state.u[i], scratch)
            state.u[i] = u
            scratch.G[j - start] = G
            if y >= 0:
                total += examples.weight[i] * loss
        for j in range(start, stop):
            i = order[j]
            y = examples.y[i]
            x2 = examples.sqnorm[i]
            G = scratch.G[j - start]
            g = scratch.z[j - start]
            row = j // examples_per_draw
            scatter(drawn, view, i, y, row, x2, state, settings, g, G, scratch.steps)
    return total


@kernel
def label_scores(examples: KernelRows, state: State, out: Array) -> None:
    """``out_i = x_i · w_{y_i} + b_{y_i}``."""
    for i in range(out.size):
        y = examples.y[i]
        out[i] = state.scale[y] * score(examples.rows_and_weights, i, y) + state.bias[y]
