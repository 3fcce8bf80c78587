"""A step of a proximal Newton method for an elastic net, by coordinate descent.

It decreases ``F(w, b) = (1/N) Σ_i c_i ℓ(p_i, y_i) + λ₁‖w‖₁ + λ₂/2 ‖w‖²``, where the predictions p
are linear in w and b, for a loss without kinks (newGLMNET; Yuan, Ho & Lin, 2012):

1. The loss is replaced by its quadratic model at (w, b). With ``g_i = ℓ'(p_i, y_i)/N`` and
   ``h_i = ℓ''(p_i, y_i)/N``, the model at weights z and bias b + c has the slope
   ``r_i = g_i + h_i (x_i·(z - w) + c)`` in the prediction of example i.
2. A coordinate with ``w_j = 0`` and ``|∇_j| ≤ λ₁`` satisfies the condition of an optimum: it stays
   0 in this step. The other coordinates are *active*.
3. Active coordinates are minimised in turn, each exactly, together with the bias:
   ``z_j ← soft(z_j - s/q, λ₁/q)``, where ``s = Σ_i x_ij r_i + λ₂ z_j`` is the slope of the model in
   z_j, and ``q = Σ_i h_i x_ij² - (Σ_i h_i x_ij)²/Σ_i h_i + λ₂`` its curvature (without the second
   sum if there is no bias). Only the r_i are kept up to date, so that a coordinate costs the
   non-zeros of its column; or, of narrow data, the slopes s, by ``Σ_i h_i x_ij x_ik``, so that it
   costs the number of coordinates. Those that stay 0 are left out until the others have converged.
4. A line search from w towards z ends where F has fallen by a part of what the model promises.

There is no rate and no random order, F falls in every step, and weights that are 0 are exactly 0.
The rows are needed by columns, too, which is a second copy of them.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import generic, kernel, leaf
from monro.losses import Loss, curvature, derivative, value
from monro.penalties import soft_threshold
from monro.rows import (
    Array,
    Dense,
    Rows,
    add,
    add_outer,
    add_scaled,
    dot,
    read_only,
    weighted_moments,
)


class Strengths(NamedTuple):
    """Those of the penalty, and whether there is a bias."""

    l1: float
    l2: float
    has_bias: bool


class Model(NamedTuple):
    """The quadratic model of an epoch, and the point z that minimises it: scratch."""

    p: Array  # of each example: w·x_i + b
    r: Array  # of each example, without the part of c
    h: Array  # of each example
    change: Array  # of each prediction: x_i·(z - w) + c
    z: Array
    gradient: Array  # of F without ‖w‖₁, at w
    squares: Array  # of each active coordinate: Σ_i h_i x_ij² + λ₂
    sums: Array  # of each active coordinate: Σ_i h_i x_ij
    active: Array  # the numbers of the active coordinates come first


def new_model(n: int, d: int) -> Model:
    """Return scratch memory for n examples and d coordinates."""
    p, r, h, change = np.zeros((4, n))
    z, gradient, squares, sums = np.zeros((4, d))
    return Model(p, r, h, change, z, gradient, squares, sums, np.zeros(d, np.int64))


class ByResiduals(NamedTuple):
    """The slopes of the quadratic model, each computed from the r_i when it is asked for."""

    columns: Rows
    r: Array
    h: Array

    def slope(self, j):  # type: ignore[no-untyped-def]
        return dot(self.columns, j, self.r)

    def move(self, j, distance):  # type: ignore[no-untyped-def]
        add_scaled(self.columns, j, distance, self.h, self.r)


class ByGram(NamedTuple):
    """The slopes themselves, and what they change by: ``G = Σ_i h_i x_i x_iᵀ``."""

    gram: Dense
    slopes: Array

    def slope(self, j):  # type: ignore[no-untyped-def]
        return self.slopes[j]

    def move(self, j, distance):  # type: ignore[no-untyped-def]
        add(self.gram, j, distance, self.slopes)


Slopes = Any  # ByResiduals or ByGram; Numba resolves which, mypy cannot


@generic
def slope(slopes: Slopes, j: int) -> float:
    """``Σ_i x_ij r_i``: the slope of the model of the loss in z_j, at c = 0."""
    return float(slopes.slope(j))


@generic
def move(slopes: Slopes, j: int, distance: float) -> None:
    """Change the slopes as z_j moves by this distance."""
    slopes.move(j, distance)


# Columns that resemble each other take many sweeps. From PATIENCE on they are by G, if it takes no
# longer than the sweeps before and stays in a core's cache.
PATIENCE = 10
MOST_COLUMNS, MOST_ENTRIES = 512, 64  # of a row, on average
MOST_SWEEPS, MOST_OF_GRAM = 100, 1000
# Sweeps end when what violates the condition of an optimum is this part of the first: a smaller one
# with an L1 norm, which leaves few columns to sweep. Sweeps by G cost little, and steps that are
# more accurate are fewer.
ENOUGH, SPARSE_ENOUGH, ACCURATE = 0.3, 0.2, 0.01
LEAST_FALL = 0.01  # of F, as a part of what the model promises
MOST_HALVINGS = 100
FLATTEST = 1e-6  # the least q, as a part of that without the bias: constant columns have none
TINY = 1e-12  # added to curvatures: a loss may be flat


@leaf
def violation(w: float, slope: float, l1: float) -> float:
    """Return the distance of 0 from ``slope + λ₁ ∂|w|``, which is 0 at an optimum."""
    if w == 0.0:
        return max(abs(slope) - l1, 0.0)
    return abs(slope + (l1 if w > 0.0 else -l1))


@kernel
def expand(loss: Loss, y: Array, weight: Array, model: Model) -> float:
    """Write the quadratic model of each example's loss; return the sum of the losses."""
    n = y.size
    total = 0.0
    for i in range(n):
        p = model.p[i]
        model.r[i] = weight[i] * derivative(loss, p, y[i]) / n
        model.h[i] = weight[i] * curvature(loss, p, y[i]) / n
        total += weight[i] * value(loss, p, y[i])
    return total


@kernel
def activate(columns: Rows, strengths: Strengths, w: Array, model: Model) -> tuple[int, float]:
    """Find the active coordinates; return their number and the sum of their violations."""
    count = 0
    violated = 0.0
    for j in range(w.size):
        model.gradient[j] = dot(columns, j, model.r) + strengths.l2 * w[j]
        excess = violation(w[j], model.gradient[j], strengths.l1)
        model.z[j] = w[j]
        if excess > 0.0 or w[j] != 0.0:
            model.sums[j], squares = weighted_moments(columns, j, model.h)
            model.squares[j] = squares + strengths.l2
            model.active[count] = j
            count += 1
            violated += excess
    return count, violated


@kernel
def fill_gram(rows: Rows, h: Array, G: Array) -> None:
    """Write ``Σ_i h_i x_i x_iᵀ``."""
    G[:] = 0.0
    for i in range(h.size):
        add_outer(rows, i, h[i], G)
    for j in range(G.shape[0]):
        for k in range(j):
            both = G[j, k] + G[k, j]
            G[j, k] = both
            G[k, j] = both


@kernel
def fill_slopes(columns: Rows, r: Array, slopes: Array) -> None:
    """``slopes_j = Σ_i x_ij r_i``."""
    for j in range(slopes.size):
        slopes[j] = dot(columns, j, r)


def by_gram(rows: Rows, columns: Rows, model: Model) -> ByGram | None:
    """Return the slopes where the r_i are now, and G; None if it would be large or slow."""
    d = model.z.size
    if d > MOST_COLUMNS or rows.data.size > MOST_ENTRIES * model.r.size:
        return None
    slopes, G = np.empty(d), np.empty((d, d))
    fill_slopes(columns, model.r, slopes)
    fill_gram(rows, model.h, G)
    return ByGram(Dense(read_only(G, G.dtype)), slopes)


@kernel
def minimise(
    slopes: Slopes, strengths: Strengths, count: int, enough: float, most: int, model: Model
) -> tuple[float, bool]:
    """Sweep over the active coordinates and the bias; return c, and whether that was enough."""
    slope_b = 0.0  # of the model in the bias, at c = 0
    curvature_b = TINY
    for i in range(model.r.size):
        slope_b += model.r[i]
        curvature_b += model.h[i]
    inverse_b = 1.0 / curvature_b if strengths.has_bias else 0.0
    c = -slope_b * inverse_b
    size = count
    for _ in range(most):
        violated = 0.0
        kept = 0
        for k in range(size):
            j = model.active[k]
            z = model.z[j]
            s = slope(slopes, j) + c * model.sums[j] + strengths.l2 * z
            violated += violation(z, s, strengths.l1)
            q = model.squares[j]
            q = max(q - model.sums[j] * model.sums[j] * inverse_b, FLATTEST * q) + TINY
            new = soft_threshold(z - s / q, strengths.l1 / q)
            if new != z:
                model.z[j] = new
                move(slopes, j, new - z)
                slope_b += (new - z) * model.sums[j]
                c = -slope_b * inverse_b
            if new != 0.0 or z != 0.0:
                model.active[k] = model.active[kept]
                model.active[kept] = j
                kept += 1
        if violated > enough:
            size = kept
        elif size == count:
            return c, True
        else:
            size = count
    return c, False


@kernel
def promised_fall(
    columns: Rows, strengths: Strengths, count: int, c: float, w: Array, model: Model
) -> float:
    """Write the change of each prediction; return that of F, were it linear but for ‖w‖₁."""
    model.change[:] = c
    fall = 0.0
    for k in range(count):
        j = model.active[k]
        move = model.z[j] - w[j]
        if move != 0.0:
            add(columns, j, move, model.change)
            fall += model.gradient[j] * move + strengths.l1 * (abs(model.z[j]) - abs(w[j]))
    return fall


@kernel
def search(
    loss: Loss, y: Array, weight: Array, strengths: Strengths, count: int, fall: float,
    total: float, w: Array, model: Model,
) -> float:  # fmt: skip
    """Move w towards z; return how far, as a part of the distance. `total` is the loss at w."""
    t = 1.0
    for _ in range(MOST_HALVINGS):
        difference = -total
        for i in range(y.size):
            p = model.p[i] + t * model.change[i]
            difference += weight[i] * value(loss, p, y[i])
        difference /= y.size
        for k in range(count):
            j = model.active[k]
            new = w[j] + t * (model.z[j] - w[j])
            difference += strengths.l1 * (abs(new) - abs(w[j]))
            difference += 0.5 * strengths.l2 * (new * new - w[j] * w[j])
        if difference <= LEAST_FALL * t * fall:
            for k in range(count):
                j = model.active[k]
                w[j] = model.z[j] if t == 1.0 else w[j] + t * (model.z[j] - w[j])
            return t
        t *= 0.5
    return 0.0


def newton_step(
    loss: Loss, y: Array, weight: Array, rows: Rows, columns: Rows, strengths: Strengths,
    w: Array, model: Model,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Take a step from the predictions in ``model.p``; change w in place.

    Parameters
    ----------
    loss : Loss
    y, weight : arrays
        Targets, and weights of mean 1.
    rows, columns : Rows
        Column j of the data is row j of these.
    strengths : Strengths
    w : array
    model : Model
        The new predictions are ``model.p + t * model.change``.

    Returns
    -------
    total : float
        The sum of the losses before the step.
    fall : float
        What the model promises that F changes by.
    t : float
        The length of the step.
    c : float
        The bias moves by t times this.
    """
    total = expand(loss, y, weight, model)
    slope_b = float(model.r.sum())
    count, violated = activate(columns, strengths, w, model)
    violated += abs(slope_b) if strengths.has_bias else 0.0
    enough = (SPARSE_ENOUGH if strengths.l1 > 0.0 else ENOUGH) * violated
    slopes: Slopes = ByResiduals(columns, model.r, model.h)
    c, settled = minimise(slopes, strengths, count, enough, PATIENCE, model)
    if not settled:
        gram = by_gram(rows, columns, model)
        if gram is None:
            c, _ = minimise(slopes, strengths, count, enough, MOST_SWEEPS, model)
        else:
            c, _ = minimise(gram, strengths, count, ACCURATE * violated, MOST_OF_GRAM, model)
    fall = c * slope_b + promised_fall(columns, strengths, count, c, w, model)
    t = search(loss, y, weight, strengths, count, fall, total, w, model)
    return total, fall, t, c
