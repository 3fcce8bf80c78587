"""Samplers: unbiased gradients and exact inclusion probabilities over all possible draws."""

import itertools

import numpy as np
import pytest

from monro.blocks import LANES
from monro.softmax.kernel.sweep import DrawnBlocks
from monro.softmax.rules.vanilla import RamanVanilla, Vanilla
from monro.softmax.sampling.samplers import (
    AllBlocks,
    FrequencyBlocks,
    FrequencyClasses,
    UniformBlocks,
    UniformClasses,
    block_frequencies,
)
from tests.marks import thorough
from tests.softmax.helpers import random_model, take


class Script:
    """A random generator that returns what it was given."""

    def __init__(self, integers=None, points=None):
        self.answers = {"integers": integers, "random": points}

    def integers(self, high, size, dtype):
        answer = self.answers.pop("integers", None)
        if answer is None:  # to be overwritten, or none to be drawn again
            assert size[0] == 0 or self.answers["random"] is not None
            return np.zeros(size, dtype)
        assert answer.shape == size
        assert answer.max() < high
        return answer.astype(dtype)

    def random(self, size):
        answer = self.answers.pop("random")
        assert answer.shape == size
        return answer


def distinct(n, m):
    """Enumerate ordered draws of m of n: as the integers drawn, or for large m as shuffles."""
    if 2 * m > n and m > 1:
        points = np.argsort(list(itertools.permutations(range(n))), axis=1) / n
        return Script(None, points), np.full(len(points), 1 / len(points))
    tuples = np.array(list(itertools.permutations(range(n), m)))
    return Script(tuples), np.full(len(tuples), 1 / len(tuples))


def repeated(probability, m):
    """Enumerate all sequences of m draws, each by a point in the middle of its interval."""
    possible = np.flatnonzero(probability)
    middles = np.cumsum(probability) - probability / 2
    sequences = np.array(list(itertools.product(possible, repeat=m)))
    return Script(points=middles[sequences]), probability[sequences].prod(axis=1)


def some_probabilities(n, size):
    p = np.zeros(size)
    p[:n] = np.random.default_rng(n).uniform(0.2, 1.0, n)
    return p / p.sum()


def uniform_classes(K, m):
    return K, UniformClasses(K, m, 16 * -(-K // 16), "float64"), distinct(K - 1, m)


def frequency_classes(K, m):
    p = some_probabilities(K, 16 * -(-K // 16))
    return K, FrequencyClasses(p, m, "float64"), repeated(p, m)


def uniform_blocks(K, m):
    blocks = -(-K // 16)
    return K, UniformBlocks(blocks, m, "float64"), distinct(blocks, m)


def frequency_blocks(K, m):
    p = some_probabilities(-(-K // 16), -(-K // 16))
    return K, FrequencyBlocks(p, m, "float64"), repeated(p, m)


CASES = {
    "one class": lambda: uniform_classes(6, 1),
    "two classes": lambda: uniform_classes(6, 2),
    "nearly all classes": lambda: uniform_classes(6, 4),
    "all other classes": lambda: uniform_classes(6, 5),
    "a class by frequency": lambda: frequency_classes(6, 1),
    "three classes by frequency": lambda: frequency_classes(6, 3),
    "as many classes as slots": lambda: frequency_classes(16, 2),
    "one block": lambda: uniform_blocks(40, 1),
    "two of three blocks": lambda: uniform_blocks(40, 2),
    "two of five blocks": lambda: uniform_blocks(70, 2),
    "a block by frequency": lambda: frequency_blocks(40, 1),
    "two blocks by frequency": lambda: frequency_blocks(40, 2),
    "three blocks by frequency": lambda: frequency_blocks(40, 3),
    "all": lambda: (40, AllBlocks(3, "float64"), (Script(), np.ones(1))),
}
by_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def every_draw(case, y):
    K, sampler, (script, chance) = case()
    assert chance.sum() == pytest.approx(1, abs=1e-12)
    return K, sampler, sampler.draw(np.arange(chance.size), np.full(chance.size, y), script), chance


def touched(drawn, slots):
    """Return, for each draw, which slots are in it; none may be drawn twice."""
    each = LANES if isinstance(drawn, DrawnBlocks) else 1
    counts = np.zeros((len(drawn.chosen), slots // each), int)
    for d in range(drawn.chosen.shape[1]):
        rows = np.flatnonzero(drawn.chosen[:, d] >= 0)
        counts[rows, drawn.chosen[rows, d]] += 1
    assert counts.max() == 1
    return np.repeat(counts.astype(bool), each, axis=1)


@by_case
@pytest.mark.parametrize("y", [0, 5])
@pytest.mark.parametrize("formulation", ["difference", pytest.param("separable", marks=thorough)])
def test_the_expected_gradient_is_the_full_gradient(case, y, formulation):
    # One step on as many copies of an example as there are draws, each weighted by its chance:
    # all gradients are taken at the old weights, so their mean is what the weights move by.
    K, _, drawn, chance = every_draw(case, y)
    rng = np.random.default_rng(0)
    copies = chance.size
    model = random_model(rng, K, 3, copies)
    model.u[:] = 5.0
    x = rng.standard_normal(3)
    rule = Vanilla() if formulation == "difference" else RamanVanilla()
    X, ys = np.tile(x, (copies, 1)), np.full(copies, y)
    new, _ = take(rule, model, X, ys, drawn, eta=1.0, damping=1.0, weight=chance, n=copies)

    s = model.W @ x + model.b
    e = np.exp(s - 5.0 - (s[y] if formulation == "difference" else 0.0))
    others = np.arange(K) != y
    slope = np.where(others, e, 0.0)  # of the full double sum in each score, and in u
    slope[y] = -e[others].sum() if formulation == "difference" else e[y] - 1
    slope_u = 1 - e[others].sum() - (np.exp(-5.0) if formulation == "difference" else e[y])
    np.testing.assert_allclose(model.b - new.b, slope, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.W - new.W, slope[:, None] * x, rtol=0, atol=1e-10)
    assert (model.u - new.u).sum() == pytest.approx(slope_u, abs=1e-10)


@by_case
@pytest.mark.parametrize("y", [0, 5])
def test_the_inclusion_probabilities_are_those_of_all_draws(case, y):
    K, sampler, drawn, chance = every_draw(case, y)
    slots = sampler.expected_draws().size
    expected = chance @ touched(drawn, slots)
    others = np.delete(np.arange(K), y)
    np.testing.assert_allclose(sampler.expected_draws()[others], expected[others], rtol=1e-12)
    assert np.isfinite(drawn.log_weight).all()
    kept = np.exp(-drawn.log_weight[drawn.chosen >= 0])
    each = LANES if isinstance(drawn, DrawnBlocks) else 1
    firsts = each * drawn.chosen[drawn.chosen >= 0]
    np.testing.assert_allclose(kept, sampler.expected_draws()[firsts], rtol=1e-12)


@by_case
def test_classes_are_drawn_with_their_inclusion_probabilities(case):
    K, sampler, _ = case()
    rng = np.random.default_rng(1)
    n = 40_000
    y = rng.integers(K, size=n)
    drawn = sampler.draw(np.arange(y.size), y, rng)
    hits = np.broadcast_to(
        touched(drawn, sampler.expected_draws().size), (n, sampler.expected_draws().size)
    )
    for k in range(K):
        chance = sampler.expected_draws()[k]
        drawn_k = hits[y != k, k]
        sigma = np.sqrt(chance * (1 - chance) / drawn_k.size)
        assert abs(drawn_k.mean() - chance) <= 5 * sigma + 1e-12
    assert sampler.per_step == drawn.chosen.shape[1] * (
        LANES if isinstance(drawn, DrawnBlocks) else 1
    )


@pytest.mark.parametrize(("K", "m"), [(6, 1), (6, 2), (6, 5), (1000, 30), (20, 15)])
def test_uniform_classes_are_distinct_and_never_y(K, m):
    rng = np.random.default_rng(2)
    y = rng.integers(K, size=3000)
    chosen = UniformClasses(K, m, 1008, "float32").draw(np.arange(y.size), y, rng).chosen
    assert chosen.dtype == np.int32
    assert chosen.min() >= 0
    assert chosen.max() == K - 1
    assert (chosen != y[:, None]).all()
    assert (np.diff(np.sort(chosen, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize(("blocks", "m"), [(3, 1), (3, 2), (3, 3), (70, 4)])
def test_uniform_blocks_are_distinct(blocks, m):
    rng = np.random.default_rng(2)
    chosen = (
        UniformBlocks(blocks, m, "float32").draw(np.arange(3000), np.zeros(3000, int), rng).chosen
    )
    assert set(chosen.ravel()) == set(range(blocks))
    assert (np.diff(np.sort(chosen, axis=1), axis=1) > 0).all()


def test_pairs_of_uniform_classes_are_equally_likely():
    rng = np.random.default_rng(3)
    n = 30_000
    drawn = UniformClasses(9, 2, 16, "float32").draw(np.arange(n), np.full(n, 4), rng)
    chosen = np.sort(drawn.chosen, axis=1)
    _, counts = np.unique(chosen, axis=0, return_counts=True)
    assert counts.size == 8 * 7 / 2
    chi_square = ((counts - n / 28) ** 2 / (n / 28)).sum()
    assert chi_square < 27 + 5 * np.sqrt(2 * 27)


def test_draws_have_the_dtype_of_the_weights():
    rng = np.random.default_rng(0)
    for case in CASES.values():
        _, sampler, _ = case()
        single = sampler._replace(dtype="float32").draw(np.arange(4), np.arange(4), rng)
        assert single.log_weight.dtype == np.float32
        assert single.log_weight.shape == single.chosen.shape
        assert single.log_weight.flags.c_contiguous


def test_block_frequencies_mix_the_share_of_a_block_with_the_uniform():
    counts = np.arange(40, 0, -1.0)
    p = block_frequencies(counts, 0.25)
    share = np.array([counts[:16].sum(), counts[16:32].sum(), counts[32:].sum()]) / counts.sum()
    np.testing.assert_allclose(p, 0.75 * share + 0.25 / 3, rtol=1e-12)
    assert p.sum() == pytest.approx(1)
