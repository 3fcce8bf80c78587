"""Samplers: the classes that a step draws, with importance weights c: ``E c_k·[k drawn] = 1``.

A sampler draws for many examples at once, ahead of the sweep, so that the sweep can prefetch the
weights, and the rules are independent of the sampling. y itself may be drawn: the sweep masks it.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from monro._jit import vector_kernel
from monro.blocks import LANES, n_blocks
from monro.rows import Array
from monro.softmax.kernel.sweep import DrawnBlocks, DrawnClasses


class Sampler(Protocol):
    """Draws classes for examples."""

    @property
    def per_step(self) -> int:
        """The number of classes drawn for an example."""

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnBlocks | DrawnClasses:
        """Draw classes for the rows with indices `rows`; y are the slots of their own classes."""

    def expected_updates(self, y: Array, counts: Array) -> Array:
        """Return, for each slot, how often a step on a random row changes its class, on average.

        `counts` are the numbers of examples of each class, by slot.
        """


_FEW = 1024  # classes of a stratum, up to which float32 points are fine enough


def _float(array: Any, dtype: str) -> Array:
    return np.ascontiguousarray(array, dtype)


class UniformClasses(NamedTuple):
    """m distinct classes other than y, all sets equally likely: ``c = (K - 1)/m``."""

    n_classes: int
    m: int
    slots: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnClasses:
        others = self.n_classes - 1
        chosen = rng.integers(others, size=(y.size, self.m), dtype=np.int32)
        if self.m > 1:
            _make_distinct(chosen, others, rng)
        chosen += chosen >= y[:, None]
        weight = np.full(chosen.shape, np.log(others / self.m))
        return DrawnClasses(chosen, _float(weight, self.dtype))

    def expected_updates(self, y: Array, counts: Array) -> Array:
        return _expected_updates(counts, self.expected_draws())

    def expected_draws(self) -> Array:
        """Return, for each slot, the expected number of draws for an example of another class."""
        return np.full(self.slots, self.m / (self.n_classes - 1))


class UniformOfAll(NamedTuple):
    """m distinct classes of all K, y among them or not, all sets equally likely: ``c = K/m``.

    For draws that several examples share: none of them can leave out the class of one example.
    """

    n_classes: int
    m: int
    slots: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnClasses:
        chosen = rng.integers(self.n_classes, size=(y.size, self.m), dtype=np.int32)
        if self.m > 1:
            _make_distinct(chosen, self.n_classes, rng)
        weight = np.full(chosen.shape, np.log(self.n_classes / self.m))
        return DrawnClasses(chosen, _float(weight, self.dtype))

    def expected_updates(self, y: Array, counts: Array) -> Array:
        return _expected_updates(counts, self.expected_draws())

    def expected_draws(self) -> Array:
        """Return, for each slot, the expected number of draws."""
        return np.full(self.slots, self.m / self.n_classes)


def _make_distinct(chosen: Array, n: int, rng: np.random.Generator) -> None:
    """Redraw the rows of `chosen`, numbers from 0…n-1, in which a number occurs twice."""
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
    """One class of each of m equal strata of the classes other than y: ``c`` is the stratum's size.

    Averaged over y every class is as likely as with `UniformClasses`. No class is drawn twice, so
    there is nothing to sort, and sums have less variance.
    """

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnClasses:
        borders = np.linspace(0, self.n_classes - 1, self.m + 1).astype(np.int32)
        size = np.diff(borders)
        # The 2^24 points of float32 give 1,024 classes equal shares, to a ten-thousandth.
        single = size.max() <= _FEW
        points = rng.random((y.size, self.m), dtype=np.float32 if single else np.float64)
        chosen = np.empty(points.shape, np.int32)
        _pick(points, borders, size.astype(points.dtype), y, chosen)
        return DrawnClasses(chosen, np.broadcast_to(_float(np.log(size), self.dtype), chosen.shape))


@vector_kernel
def _pick(points: Array, borders: Array, size: Array, y: Array, chosen: Array) -> None:
    """Choose from each stratum the class at its point from [0, 1), skipping y."""
    for p in range(y.size):
        y_p = y[p]
        for d in range(size.size):
            k = borders[d] + np.int32(points[p, d] * size[d])
            chosen[p, d] = k + np.int32(k >= y_p)


class FrequencyClasses(NamedTuple):
    """m independent draws of a class with probability q_k; y may be among them.

    A repeated draw counts once: class k is drawn with probability ``1 - (1 - q_k)^m``, and c is the
    inverse. Or all draws count: ``m q_k`` of them are expected, and c is the inverse of that.
    """

    probability: Array  # (slots,): q, with sum 1
    m: int
    dtype: str
    with_repetition: bool = False  # whether all draws count

    @property
    def per_step(self) -> int:
        return self.m

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnClasses:
        chosen = _draw_from(self.probability, (y.size, self.m), rng)
        weight = -np.log(self.expected_draws()[chosen])
        if not self.with_repetition:
            _drop_repeats(chosen)
        return DrawnClasses(chosen, _float(weight, self.dtype))

    def expected_updates(self, y: Array, counts: Array) -> Array:
        return _expected_updates(counts, self.expected_draws())

    def expected_draws(self) -> Array:
        """Return, for each slot, the expected number of draws for an example of another class."""
        return _expected_draws(self.probability, self.m, self.with_repetition)


class UniformBlocks(NamedTuple):
    """m distinct blocks of B, all sets equally likely: ``c = B/m``."""

    blocks: int
    m: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.m * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnBlocks:
        chosen = rng.integers(self.blocks, size=(y.size, self.m), dtype=np.int32)
        if self.m > 1:
            _make_distinct(chosen, self.blocks, rng)
        weight = np.full(chosen.shape, np.log(self.blocks / self.m))
        return DrawnBlocks(chosen, _float(weight, self.dtype))

    def expected_updates(self, y: Array, counts: Array) -> Array:
        return _expected_updates(counts, self.expected_draws())

    def expected_draws(self) -> Array:
        """Return, for each slot, the expected number of draws for an example of another class."""
        return np.full(self.blocks * LANES, self.m / self.blocks)


class FrequencyBlocks(NamedTuple):
    """m independent draws of a block with probability q_b; see `FrequencyClasses`."""

    probability: Array  # (blocks,): q, with sum 1
    m: int
    dtype: str
    with_repetition: bool = False

    @property
    def per_step(self) -> int:
        return self.m * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnBlocks:
        chosen = _draw_from(self.probability, (y.size, self.m), rng)
        expected = _expected_draws(self.probability, self.m, self.with_repetition)
        weight = -np.log(expected[chosen])
        if not self.with_repetition:
            _drop_repeats(chosen)
        return DrawnBlocks(chosen, _float(weight, self.dtype))

    def expected_updates(self, y: Array, counts: Array) -> Array:
        return _expected_updates(counts, self.expected_draws())

    def expected_draws(self) -> Array:
        """Return, for each slot, the expected number of draws for an example of another class."""
        return np.repeat(_expected_draws(self.probability, self.m, self.with_repetition), LANES)


class AllBlocks(NamedTuple):
    """All classes, at every step."""

    blocks: int
    dtype: str

    @property
    def per_step(self) -> int:
        return self.blocks * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnBlocks:
        chosen = np.arange(self.blocks, dtype=np.int32)[None]
        return DrawnBlocks(chosen, np.zeros(chosen.shape, self.dtype))

    def expected_updates(self, y: Array, counts: Array) -> Array:
        return _expected_updates(counts, self.expected_draws())

    def expected_draws(self) -> Array:
        """Return, for each slot, the expected number of draws for an example of another class."""
        return np.ones(self.blocks * LANES)


def _expected_updates(counts: Array, inclusion: Array) -> Array:
    """Return the probability that a class is drawn or is y, for draws independent of the row."""
    share = np.zeros(inclusion.size)
    share[: counts.size] = counts / counts.sum()
    return np.asarray(share + (1.0 - share) * inclusion)


def _expected_draws(probability: Array, m: int, with_repetition: bool) -> Array:
    if with_repetition:
        return m * probability
    return np.asarray(-np.expm1(m * np.log1p(-np.minimum(probability, 1.0 - 1e-15))))


def _draw_from(probability: Array, size: tuple[int, int], rng: np.random.Generator) -> Array:
    cumulative = np.cumsum(probability)
    points = rng.random(size) * cumulative[-1]
    found = np.searchsorted(cumulative, points, side="right")
    return np.asarray(np.minimum(found, probability.size - 1), np.int32)


def _drop_repeats(chosen: Array) -> None:
    """Replace by -1 every number that occurred before in its row."""
    for d in range(1, chosen.shape[1]):
        repeated = (chosen[:, :d] == chosen[:, d : d + 1]).any(axis=1)
        chosen[repeated, d] = -1


def block_frequencies(counts_by_slot: Array, mix: float = 0.5) -> Array:
    """Return block probabilities: uniform with weight `mix`, else proportional to frequency."""
    blocks = n_blocks(counts_by_slot.size)
    if not counts_by_slot.any():
        return np.full(blocks, 1.0 / blocks)
    padded = np.zeros(blocks * LANES)
    padded[: counts_by_slot.size] = counts_by_slot
    share = padded.reshape(blocks, LANES).sum(axis=1)
    return np.asarray((1.0 - mix) * share / share.sum() + mix / blocks)
