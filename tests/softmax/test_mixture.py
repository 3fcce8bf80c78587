"""Neighbours' labels and the mixture of proposals: every possible draw, and brute force."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import monro.softmax.sampling.neighbours
from monro.blocks import LANES
from monro.softmax.sampling.mixture import make_mixture
from monro.softmax.sampling.neighbours import Neighbours, make_neighbours
from monro.softmax.sampling.samplers import block_frequencies

BLOCKS = 5


def some_rows(seed, n=30, features=4, density=0.4):
    """Return sparse rows, some of them empty, and the slot of each row's class."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, features), density=density, rng=rng, data_sampler=rng.standard_normal)
    return sp.csr_matrix(X), rng.integers(BLOCKS * LANES, size=n).astype(np.int32)


def a_mixture(seed, head=0, a=2, b=1, **kw):
    X, y = some_rows(seed, **kw)
    rng = np.random.default_rng(seed)
    table = make_neighbours(X, y // LANES, BLOCKS, rng)
    counts = np.bincount(y, minlength=BLOCKS * LANES)
    return X, y, make_mixture(table, block_frequencies(counts), head, a, b, "float64")


class Points:
    """A random generator that returns what it was given."""

    def __init__(self, points):
        self.points = points

    def random(self, size):
        assert self.points.shape == size
        return self.points


def cells_of(table: Neighbours, i):
    """Return the cells of a row, and the probability that each is drawn."""
    part = slice(table.row_start[i], table.row_start[i + 1])
    cells = table.cell[part]
    weight = np.abs(table.value[part]) * table.information[cells]
    return (cells[weight > 0], weight[weight > 0] / weight.sum()) if weight.any() else ([], [])


def shares_of(table: Neighbours, cell):
    """Return the share of each block among a cell's examples."""
    part = slice(table.cell_start[cell], table.cell_start[cell + 1])
    shares = np.zeros(BLOCKS)
    shares[table.block[part]] = np.diff(
        table.cumulative_share[part].astype(np.float64), prepend=0.0
    )
    return shares


def intervals(probability):
    """Return what can be drawn, a point in the middle of its interval, and its length."""
    possible = np.flatnonzero(probability)
    return possible, (np.cumsum(probability) - probability / 2)[possible], probability[possible]


def every_draw(mixture, i):
    """Yield the points of each draw for row i, its probability, and the blocks it must give."""
    cells, chances = cells_of(mixture.neighbours, i)
    if len(cells) == 0:
        cells, chances = [None], [1.0]
    for cell, middle, chance in zip(
        cells,
        np.cumsum(chances) - chances / 2 if cells[0] is not None else [0.5],
        chances,
        strict=True,
    ):
        tail = np.zeros(BLOCKS) if cell is None else shares_of(mixture.neighbours, cell)
        tail[: mixture.head] = 0.0
        by_label = tail / tail.sum() if tail.sum() > 1e-6 else mixture.probability
        each = [intervals(by_label)] * mixture.a + [intervals(mixture.probability)] * mixture.b
        for picks in itertools.product(*(range(len(found[0])) for found in each)):
            drawn = [(e[0][k], e[1][k], e[2][k]) for e, k in zip(each, picks, strict=True)]
            points = [middle, *(point for _, point, _ in drawn)]
            yield points, chance * np.prod([p for *_, p in drawn]), [block for block, *_ in drawn]


def enumerate_draws(mixture, i):
    points, chances, blocks = map(np.array, zip(*every_draw(mixture, i), strict=True))
    assert chances.sum() == pytest.approx(1.0, abs=1e-6)
    rows = np.full(len(points), i)
    return mixture.draw(rows, rows * 0, Points(points)), chances, blocks


CASES = pytest.mark.parametrize(
    ("head", "a", "b"),
    [(0, 1, 1), (0, 2, 1), (1, 2, 2), (3, 1, 1), (0, 0, 2), (2, 0, 1), (4, 2, 1)],
)


@CASES
@pytest.mark.parametrize("seed", [0, 1])
def test_every_block_has_weight_one_on_average(head, a, b, seed):
    _, _, mixture = a_mixture(seed, head, a, b)
    for i in range(12):
        drawn, chances, blocks = enumerate_draws(mixture, i)
        weight = np.where(drawn.chosen >= 0, np.exp(drawn.log_weight), 0.0)
        mean = np.zeros(BLOCKS)
        np.add.at(mean, drawn.chosen, weight * chances[:, None])
        reachable = (mixture.probability > 0) | (np.arange(BLOCKS) < head)
        np.testing.assert_allclose(mean[reachable], 1.0, rtol=1e-5)
        # no block twice, and all that were drawn
        for found, expected in zip(drawn.chosen, blocks, strict=True):
            kept = found[found >= 0]
            assert sorted(kept) == sorted({*range(head), *expected})


@CASES
def test_no_weight_exceeds_what_either_proposal_would_give(head, a, b):
    _, _, mixture = a_mixture(3, head, a, b)
    for i in range(12):
        drawn, _, _ = enumerate_draws(mixture, i)
        for found, log_weight in zip(drawn.chosen, drawn.log_weight, strict=True):
            for block, weight in zip(found[head:], np.exp(log_weight[head:]), strict=True):
                if block >= 0:  # it may have been drawn every time
                    assert weight <= (a + b) / (b * mixture.probability[block]) * (1 + 1e-9)


@CASES
@pytest.mark.parametrize("seed", [0, 1])
def test_the_chance_to_be_touched_is_that_of_all_draws(head, a, b, seed):
    _, y, mixture = a_mixture(seed, head, a, b, n=12)
    touched = np.zeros(BLOCKS * LANES)
    for i in range(12):
        drawn, chances, _ = enumerate_draws(mixture, i)
        included = np.array([np.isin(np.arange(BLOCKS), found) for found in drawn.chosen])
        of_slots = np.repeat(chances @ included, LANES)
        of_slots[y[i]] = 1.0
        touched += of_slots / 12
    counts = np.bincount(y, minlength=BLOCKS * LANES)
    np.testing.assert_allclose(mixture.expected_updates(y, counts), touched, rtol=1e-5, atol=1e-7)


@given(seed=st.integers(0, 1000), density=st.floats(0.0, 1.0))
def test_the_table_counts_the_labels_of_the_rows_with_a_feature(seed, density):
    X, y = some_rows(seed, density=density)
    table = make_neighbours(X, y // LANES, BLOCKS, np.random.default_rng(0))
    for cell in range(X.shape[1]):
        with_feature = X.indices == cell
        rows = np.repeat(np.arange(30), np.diff(X.indptr))[with_feature]
        counts = np.bincount(y[rows] // LANES, minlength=BLOCKS)
        if rows.size:
            np.testing.assert_allclose(shares_of(table, cell), counts / rows.size, atol=1e-6)
            assert table.cumulative_share[table.cell_start[cell + 1] - 1] == 1.0
            assert table.information[cell] > 0.0
        else:
            assert table.cell_start[cell] == table.cell_start[cell + 1]
            assert table.information[cell] == 0.0


def test_cells_that_predict_the_class_have_more_information():
    # All rows have feature 0, only those of the classes of one block have feature 1.
    y = np.repeat(np.arange(BLOCKS, dtype=np.int32) * LANES, 40)
    X = sp.csr_matrix(np.column_stack([np.ones(y.size), y == 0]))
    table = make_neighbours(X, y // LANES, BLOCKS, np.random.default_rng(0))
    assert table.information[1] > 10 * table.information[0]
    assert table.information[1] == pytest.approx(np.log(1 / (40 * 2 / (y.size + 40))), rel=0.01)


def test_of_large_data_a_sample_is_counted(monkeypatch):
    X, y = some_rows(5, n=2000, density=0.5)
    everything = make_neighbours(X, y // LANES, BLOCKS, np.random.default_rng(0))
    monkeypatch.setattr(monro.softmax.sampling.neighbours, "_MOST_NONZEROS", X.nnz // 2)
    half = make_neighbours(X, y // LANES, BLOCKS, np.random.default_rng(0))
    assert half.row_start.size == X.shape[0] + 1  # but all rows have their cells
    for cell in range(X.shape[1]):
        a, b = shares_of(everything, cell), shares_of(half, cell)
        assert 0 < np.abs(a - b).max() < 0.1


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_that_share_many_features_have_the_neighbours_of_their_cluster(form):
    rng = np.random.default_rng(0)
    centres = 10 * rng.standard_normal((BLOCKS, 25))
    blocks = rng.integers(BLOCKS, size=600)
    X = (centres[blocks] + 0.1 * rng.standard_normal((600, 25))).astype(np.float32)
    table = make_neighbours(form(X), blocks.astype(np.int32), BLOCKS, rng)
    for i in range(0, 600, 50):
        (cell,), _ = cells_of(table, i)
        assert shares_of(table, cell)[blocks[i]] > 0.99


def test_rows_without_a_cell_draw_by_frequency():
    X, y, mixture = a_mixture(0, head=1, a=2, b=1)
    empty = int(np.flatnonzero(np.diff(X.indptr) == 0)[0])
    drawn = mixture.draw(np.full(20_000, empty), y, np.random.default_rng(0))
    weight = np.where(drawn.chosen >= 0, np.exp(drawn.log_weight), 0.0)
    mean = np.zeros(BLOCKS)
    np.add.at(mean, drawn.chosen, weight / 20_000)
    np.testing.assert_allclose(mean, 1.0, atol=0.05)
