"""Newton steps on many ridge problems with the same rows, eight side by side.

The folds of a path of strengths and the classes of one-vs-rest differ in their targets and in the
weights of the rows only: a row that a fold leaves out has weight 0. So the eight are fitted in one
pass over the columns, which costs little more than one of them does. A step is that of
`monro.coordinate`, for problems without an L1 norm, in single precision: enough to compare
strengths by, and to begin a fit with.

With ``g_i`` and ``h_i`` the derivative and the curvature of the loss of example i, times its share
of all weights, and ``q_i = x_i·(z - w)`` what its prediction changes by, the slope in z_j is
``Σ_i x_ij (g_i + h_i q_i) + λ z_j``. The first sum is computed once a step. The q_i of rows with
weight 0 are kept up to date with the others, so the rows held out need no pass of their own.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from monro._jit import kernel, lanes_leaf
from monro.blocks import aligned_zeros
from monro.coordinate import LEAST_FALL
from monro.linear.lanes import LANES, PAIR, lanes_moments, lanes_move, lanes_slopes
from monro.losses import Loss, curvature, derivative, value
from monro.rows import Array, Sparse, read_only

_FLATTEST, _TINY = np.float32(1e-6), np.float32(1e-12)  # as in `monro.coordinate`
# A problem that would gain less than this part of its objective stands still: it is rounding.
_ROUNDING = 1e-9
_MOST_HALVINGS = 30
_SWEEPS = 2  # of a step: more make steps fewer, but not the time less


class Variant(NamedTuple):
    """What one of the problems differs from the others by."""

    y: Array
    share: Array  # of each example in the loss; 0: it is held out


class _Scratch(NamedTuple):
    """Memory for a step, with eight lanes."""

    G: Array  # of each example: g
    HQ: Array  # of each example: h and q
    z: Array
    gradient: Array  # of the loss at w
    sums: Array  # Σ_i h_i x_ij
    squares: Array  # Σ_i h_i x_ij²
    moments: Array
    move: Array
    c: Array  # the change of the bias
    slope_b: Array
    inverse_b: Array


@lanes_leaf
def _descend(j: int, strength: Array, s: _Scratch) -> None:
    """Minimise the models in coordinate j, given ``Σ x (g + h q)``."""
    for lane in range(LANES):
        sums, z = s.sums[j, lane], s.z[j, lane]
        slope = s.moments[3, lane] + s.c[lane] * sums + strength[lane] * z
        square = s.squares[j, lane] + strength[lane]
        square = max(square - sums * sums * s.inverse_b[lane], _FLATTEST * square) + _TINY
        move = -slope / square
        s.move[lane] = move
        s.z[j, lane] = z + move
        s.slope_b[lane] += move * sums
        s.c[lane] = -s.slope_b[lane] * s.inverse_b[lane]


@kernel
def minimise(columns: Sparse, strength: Array, s: _Scratch) -> None:
    """Sweep over the coordinates and the bias; q must be 0."""
    for sweep in range(_SWEEPS):
        for j in range(s.z.shape[0]):
            start, stop = columns.indptr[j], columns.indptr[j + 1]
            if sweep == 0:
                lanes_moments(columns.data, columns.indices, start, stop, s.G, s.HQ, s.moments)
                for lane in range(LANES):
                    s.gradient[j, lane] = s.moments[0, lane]
                    s.sums[j, lane] = s.moments[1, lane]
                    s.squares[j, lane] = s.moments[2, lane]
            else:
                lanes_slopes(columns.data, columns.indices, start, stop, s.HQ, s.moments[3])
            for lane in range(LANES):
                s.moments[3, lane] += s.gradient[j, lane]
            _descend(j, strength, s)
            lanes_move(columns.data, columns.indices, start, stop, s.move, s.HQ)


@kernel
def expand(
    loss: Loss, y: Array, share: Array, p: Array, lane: int, s: _Scratch
) -> tuple[float, float]:
    """Write the quadratic model of each example's loss; return the sums of g and h."""
    slope_b = 0.0
    curvature_b = 0.0
    for i in range(y.size):
        g = share[i] * derivative(loss, p[i], y[i]) if share[i] > 0.0 else 0.0
        h = share[i] * curvature(loss, p[i], y[i]) if share[i] > 0.0 else 0.0
        s.G[i, lane] = g
        s.HQ[i, lane] = h
        s.HQ[i, LANES + lane] = 0.0
        slope_b += g
        curvature_b += h
    return slope_b, curvature_b


@kernel
def loss_at(
    loss: Loss, y: Array, share: Array, p: Array, lane: int, t: float, s: _Scratch
) -> float:
    """Return the loss after t times the step."""
    total = 0.0
    for i in range(y.size):
        if share[i] > 0.0:
            moved = p[i] + t * (s.HQ[i, LANES + lane] + s.c[lane])
            total += share[i] * value(loss, moved, y[i])
    return total


@kernel
def advance(p: Array, lane: int, t: float, s: _Scratch) -> None:
    """Take t times the step."""
    for i in range(p.size):
        p[i] += t * (s.HQ[i, LANES + lane] + s.c[lane])


@kernel
def move_weights(w: Array, t: Array, s: _Scratch) -> None:
    """Move the weights by t of the distance to z; unused lanes of both are 0."""
    for j in range(w.shape[0]):
        for lane in range(LANES):
            w[j, lane] += t[lane] * (s.z[j, lane] - w[j, lane])


@kernel
def products(w: Array, s: _Scratch, out: Array) -> None:
    """Write ``Σ ∇_j (z - w)_j``, ``‖w‖²``, ``w·(z - w)`` and ``‖z - w‖²`` of each lane."""
    out[:] = 0.0
    for j in range(w.shape[0]):
        for lane in range(LANES):
            before = np.float64(w[j, lane])
            move = np.float64(s.z[j, lane]) - before
            out[0, lane] += s.gradient[j, lane] * move
            out[1, lane] += before * before
            out[2, lane] += before * move
            out[3, lane] += move * move


@kernel
def sum_up(columns: Sparse, w: Array, s: _Scratch) -> None:
    """Add up ``x_i·w`` in q."""
    for j in range(w.shape[0]):
        start, stop = columns.indptr[j], columns.indptr[j + 1]
        lanes_move(columns.data, columns.indices, start, stop, w[j], s.HQ)


def _new_scratch(n: int, d: int) -> _Scratch:
    """Return scratch memory for n examples and d coordinates."""
    single = np.float32
    z, gradient, sums, squares = np.zeros((4, d, LANES), single)
    move, c, slope_b, inverse_b = np.zeros((4, LANES), single)
    return _Scratch(
        np.zeros((n, LANES), single), aligned_zeros((n, PAIR), single), z, gradient, sums, squares,
        np.zeros((4, LANES), single), move, c, slope_b, inverse_b,
    )  # fmt: skip


class _Group:
    """Up to eight problems: their weights and biases, and the predictions of all examples."""

    def __init__(self, variants: Sequence[Variant], start: Sequence[tuple[Array, float]]):
        self.variants = variants
        self.w = np.zeros((start[0][0].size, LANES), np.float32)
        for lane, (w, _) in enumerate(start):
            self.w[:, lane] = w
        self.bias = np.array([b for _, b in start])
        self.p = np.empty((len(variants), variants[0].y.size))


class SideBySide:
    """Ridge problems with the same loss and rows.

    Parameters
    ----------
    loss : Loss
        Without kinks.
    columns : Sparse
        Column j of the data is row j of these.
    variants : sequence of Variant
        What the problems differ by.
    start : sequence of (weights, intercept)
        Where each begins.
    has_bias : bool
    n_jobs : int
        Threads; each takes groups of eight problems.
    """

    def __init__(
        self,
        loss: Loss,
        columns: Sparse,
        variants: Sequence[Variant],
        start: Sequence[tuple[Array, float]],
        *,
        has_bias: bool,
        n_jobs: int = 1,
    ):
        self.loss = loss
        self.has_bias = has_bias
        # Of length 1 on average, rows neither overflow nor vanish in single precision.
        n, squares = variants[0].y.size, np.square(columns.data, dtype=np.float64).sum()
        self.unit = float(np.sqrt(squares / n)) or 1.0
        data = (columns.data / self.unit).astype(np.float32)
        self.columns = columns._replace(data=read_only(data, np.float32))
        start = [(w * self.unit, b) for w, b in start]
        parts = [slice(k, k + LANES) for k in range(0, len(variants), LANES)]
        self.groups = [_Group(variants[part], start[part]) for part in parts]
        d = self.groups[0].w.shape[0]
        self._scratch = [_new_scratch(n, d) for _ in range(min(n_jobs, len(parts)))]
        for group in self.groups:
            self._predict(group)

    def _predict(self, group: _Group) -> None:
        """Compute the predictions from the weights."""
        group.p[:] = group.bias[:, None]
        if group.w.any():
            s = self._scratch[0]
            s.HQ[:] = 0.0
            sum_up(self.columns, group.w, s)
            group.p += s.HQ[:, LANES : LANES + len(group.variants)].T

    def fit(self, strengths: Sequence[float], steps: int, enough: float) -> None:
        """Take steps, until one has promised to gain less than this part of the objective.

        Parameters
        ----------
        strengths : sequence of float
            That of each problem's ridge.
        steps : int
            At most so many.
        enough : float
        """
        of_rows = np.asarray(strengths) / self.unit**2
        tasks = [
            (group, of_rows[k * LANES : (k + 1) * LANES]) for k, group in enumerate(self.groups)
        ]

        def work(first: int) -> None:
            for group, strength in tasks[first :: len(self._scratch)]:
                self._fit(group, strength, steps, enough, self._scratch[first])

        if len(self._scratch) == 1:
            work(0)
        else:
            with ThreadPoolExecutor(len(self._scratch)) as pool:
                list(pool.map(work, range(len(self._scratch))))

    def _fit(self, group: _Group, strength: Array, steps: int, enough: float, s: _Scratch) -> None:
        losses = np.array(
            [
                loss_at(self.loss, *variant, p, lane, 0.0, s)
                for lane, (variant, p) in enumerate(zip(group.variants, group.p, strict=True))
            ]
        )
        # Lanes without a problem stay 0.
        s.G[:] = s.HQ[:] = 0.0
        for _ in range(steps):
            losses, gain = self._step(group, strength, losses, s)
            if not gain >= enough:
                break

    def _step(
        self, group: _Group, strength: Array, losses: Array, s: _Scratch
    ) -> tuple[Array, float]:
        """Take a step of each problem; return the losses, and what was promised as a part of all.

        Problems that have converged take part in it, which costs nothing.
        """
        known = len(group.variants)
        used = slice(known)
        s.slope_b[:] = s.inverse_b[:] = 0.0
        for lane, (variant, p) in enumerate(zip(group.variants, group.p, strict=True)):
            slope, curved = expand(self.loss, *variant, p, lane, s)
            s.slope_b[lane] = slope
            s.inverse_b[lane] = 1.0 / (curved + float(_TINY)) if self.has_bias else 0.0
        slopes = s.slope_b[used].astype(np.float64)
        s.c[:] = -s.slope_b * s.inverse_b
        s.z[:] = group.w
        each = np.zeros(LANES, np.float32)
        each[used] = strength
        minimise(self.columns, each, s)
        found = np.empty((4, LANES))
        products(group.w, s, found)
        of_loss, ww, wd, dd = found[:, used]
        fall = of_loss + strength * wd + slopes * s.c[used]
        before = losses + 0.5 * strength * ww
        t, after = np.where(fall < -_ROUNDING * before, 1.0, 0.0), losses.copy()
        for lane in np.flatnonzero(t).tolist():
            variant, p = group.variants[lane], group.p[lane]
            for _ in range(_MOST_HALVINGS):
                after[lane] = loss_at(self.loss, *variant, p, lane, t[lane], s)
                ridge = strength[lane] * (t[lane] * wd[lane] + 0.5 * t[lane] ** 2 * dd[lane])
                if after[lane] - losses[lane] + ridge <= LEAST_FALL * t[lane] * fall[lane]:
                    break
                t[lane] *= 0.5
            else:
                t[lane], after[lane] = 0.0, losses[lane]
            advance(p, lane, t[lane], s)
        group.bias += t * s.c[used]
        each[used] = t
        move_weights(group.w, each, s)
        return after, float(-fall.sum() / max(before.sum(), float(_TINY)))

    def copy(self) -> list[tuple[Array, Array, Array]]:
        """Return a copy of what was found."""
        return [(group.w.copy(), group.bias.copy(), group.p.copy()) for group in self.groups]

    def restore(self, found: list[tuple[Array, Array, Array]]) -> None:
        """Continue from such a copy, which may be restored again."""
        for group, copies in zip(self.groups, found, strict=True):
            group.w, group.bias, group.p = (each.copy() for each in copies)

    def predictions(self) -> Array:
        """Return the predictions of each problem for all examples."""
        return np.concatenate([group.p for group in self.groups])

    def solutions(self) -> list[tuple[Array, float]]:
        """Return the weights and the intercept of each problem."""
        return [
            (group.w[:, lane].astype(np.float64) / self.unit, float(group.bias[lane]))
            for group in self.groups
            for lane in range(len(group.variants))
        ]
