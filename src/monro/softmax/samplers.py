"""Which classes an example meets, and with what weight: ``c_k·[k drawn]`` is on average 1.

A sampler draws for many examples at once, ahead of the sweep: so the sweep knows which weights to
fetch, and the rules know nothing of sampling. y itself may be drawn: the sweep leaves it out.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from monro._jit import vector_kernel
from monro.rows import Array
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.sweep import Blocks, Slots


class Sampler(Protocol):
    """Draws classes for examples."""

    @property
    def per_step(self) -> int:
        """How many classes are drawn for an example."""

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Blocks | Slots:
        """Draw for these rows, whose classes are in these slots."""

    def touched(self, y: Array, counts: Array) -> Array:
        """Return, for each slot, the chance that a step on one of the rows changes its class.

        `counts` are the examples of each class, by slot.
        """


_FEW = 1024


def _float(array: Any, dtype: str) -> Array:
    return np.ascontiguousarray(array, dtype)


class UniformClasses(NamedTuple):
    """m classes other than y, all sets of m alike: ``c = (K - 1)/m``."""

    n_classes: int
    m: int
    slots: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Slots:
        others = self.n_classes - 1
        chosen = rng.integers(others, size=(y.size, self.m), dtype=np.int32)
        if self.m > 1:
            _make_distinct(chosen, others, rng)
        chosen += chosen >= y[:, None]
        weight = np.full(chosen.shape, np.log(others / self.m))
        return Slots(chosen, _float(weight, self.dtype))

    def touched(self, y: Array, counts: Array) -> Array:
        return _touched(counts, self.chances())

    def chances(self) -> Array:
        """Return, for each slot, the chance to be drawn for an example of another class."""
        return np.full(self.slots, self.m / (self.n_classes - 1))


def _make_distinct(chosen: Array, n: int, rng: np.random.Generator) -> None:
    """Redraw the rows of `chosen` in which a number from 0…n-1 occurs twice."""
    m = chosen.shape[1]
    if 2 * m > n:  # redrawing would take long
        chosen[:] = np.argsort(rng.random((chosen.shape[0], n)), axis=1)[:, :m]
        return
    again = np.arange(chosen.shape[0])
    while again.size:
        ordered = np.sort(chosen[again], axis=1)
        again = again[(np.diff(ordered, axis=1) == 0).any(axis=1)]
        chosen[again] = rng.integers(n, size=(again.size, m), dtype=np.int32)


class StratifiedClasses(UniformClasses):
    """One class of each of m equal parts of those other than y: ``c`` is the size of the part.

    Every class is as likely as with `UniformClasses`, on the mean over y; but none is drawn twice,
    so that there is nothing to sort; and the sums vary less.
    """

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Slots:
        borders = np.linspace(0, self.n_classes - 1, self.m + 1).astype(np.int32)
        size = np.diff(borders)
        # Of 2^24 numbers a part of a thousand gets equal shares, to a ten-thousandth.
        single = size.max() <= _FEW
        points = rng.random((y.size, self.m), dtype=np.float32 if single else np.float64)
        chosen = np.empty(points.shape, np.int32)
        _pick(points, borders, size.astype(points.dtype), y, chosen)
        return Slots(chosen, np.broadcast_to(_float(np.log(size), self.dtype), chosen.shape))


@vector_kernel
def _pick(points: Array, borders: Array, size: Array, y: Array, chosen: Array) -> None:
    """Take of each part the class at its point from 0 to 1; y is not among the classes."""
    for p in range(y.size):
        own = y[p]
        for d in range(size.size):
            k = borders[d] + np.int32(points[p, d] * size[d])
            chosen[p, d] = k + np.int32(k >= own)


class FrequencyClasses(NamedTuple):
    """m draws of a class with probability q_k; a class drawn again counts once.

    The chance that class k is among them is ``1 - (1 - q_k)^m``, and c is its inverse.
    """

    probability: Array  # (slots,), of sum 1
    m: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Slots:
        chosen = _draw_from(self.probability, (y.size, self.m), rng)
        weight = -np.log(self.chances()[chosen])
        _drop_repeats(chosen)
        return Slots(chosen, _float(weight, self.dtype))

    def touched(self, y: Array, counts: Array) -> Array:
        return _touched(counts, self.chances())

    def chances(self) -> Array:
        """Return, for each slot, the chance to be drawn for an example of another class."""
        return _inclusion(self.probability, self.m)


class UniformBlocks(NamedTuple):
    """m different blocks of B, all sets alike: ``c = B/m``."""

    blocks: int
    m: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Blocks:
        chosen = rng.integers(self.blocks, size=(y.size, self.m), dtype=np.int32)
        if self.m > 1:
            _make_distinct(chosen, self.blocks, rng)
        weight = np.full(chosen.shape, np.log(self.blocks / self.m))
        return Blocks(chosen, _float(weight, self.dtype))

    def touched(self, y: Array, counts: Array) -> Array:
        return _touched(counts, self.chances())

    def chances(self) -> Array:
        """Return, for each slot, the chance to be drawn for an example of another class."""
        return np.full(self.blocks * LANES, self.m / self.blocks)


class FrequencyBlocks(NamedTuple):
    """m draws of a block with probability q_b; a block drawn again counts once."""

    probability: Array  # (blocks,), of sum 1
    m: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Blocks:
        chosen = _draw_from(self.probability, (y.size, self.m), rng)
        weight = -np.log(_inclusion(self.probability, self.m)[chosen])
        _drop_repeats(chosen)
        return Blocks(chosen, _float(weight, self.dtype))

    def touched(self, y: Array, counts: Array) -> Array:
        return _touched(counts, self.chances())

    def chances(self) -> Array:
        """Return, for each slot, the chance to be drawn for an example of another class."""
        return np.repeat(_inclusion(self.probability, self.m), LANES)


class AllBlocks(NamedTuple):
    """Every class, always."""

    blocks: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.blocks * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Blocks:
        chosen = np.arange(self.blocks, dtype=np.int32)[None]
        return Blocks(chosen, np.zeros(chosen.shape, self.dtype))

    def touched(self, y: Array, counts: Array) -> Array:
        return _touched(counts, self.chances())

    def chances(self) -> Array:
        """Return, for each slot, the chance to be drawn for an example of another class."""
        return np.ones(self.blocks * LANES)


def _touched(counts: Array, chances: Array) -> Array:
    """Return the chance that a class is drawn or is y, where all rows draw alike."""
    share = np.zeros(chances.size)
    share[: counts.size] = counts / counts.sum()
    return np.asarray(share + (1.0 - share) * chances)


def _inclusion(probability: Array, m: int) -> Array:
    return np.asarray(-np.expm1(m * np.log1p(-np.minimum(probability, 1.0 - 1e-15))))


def _draw_from(probability: Array, size: tuple[int, int], rng: np.random.Generator) -> Array:
    cumulative = np.cumsum(probability)
    points = rng.random(size) * cumulative[-1]
    found = np.searchsorted(cumulative, points, side="right")
    return np.asarray(np.minimum(found, probability.size - 1), np.int32)


def _drop_repeats(chosen: Array) -> None:
    """Put -1 where a number occurred before in its row."""
    for d in range(1, chosen.shape[1]):
        repeated = (chosen[:, :d] == chosen[:, d : d + 1]).any(axis=1)
        chosen[repeated, d] = -1


def block_frequencies(counts_by_slot: Array, mix: float = 0.5) -> Array:
    """Return block probabilities: a share by frequency, the rest uniform."""
    blocks = n_blocks(counts_by_slot.size)
    if not counts_by_slot.any():
        return np.full(blocks, 1.0 / blocks)
    padded = np.zeros(blocks * LANES)
    padded[: counts_by_slot.size] = counts_by_slot
    share = padded.reshape(blocks, LANES).sum(axis=1)
    return np.asarray((1.0 - mix) * share / share.sum() + mix / blocks)
