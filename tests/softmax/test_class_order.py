"""The order of the classes: which ones share a block."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from monro import SoftmaxClassifier
from monro.blocks import LANES
from monro.softmax.sampling.class_order import assign_slots, sums_by_class
from monro.softmax.sampling.registry import class_order
from monro.softmax.training.planning import make_plan


def kinds_of_classes(kinds=10, d=30, rows_each=6, seed=0):
    """Return rows of classes of several kinds, sixteen of each in random order, and their kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(np.arange(kinds), LANES))
    centres = rng.standard_normal((kinds, d))[kind] + 0.1 * rng.standard_normal((kind.size, d))
    y = rng.permutation(np.repeat(np.arange(kind.size), rows_each))
    return centres[y] + 0.1 * rng.standard_normal((y.size, d)), y, kind


def slots_for(sampling, X, y, n_classes, seed=0):
    plan = make_plan(SoftmaxClassifier(sampling=sampling, alpha=0.0), n_classes, 1.0)
    counts = np.bincount(y, minlength=n_classes)
    rng = np.random.default_rng(seed)
    return assign_slots(
        class_order(plan), counts, rng, partial(sums_by_class, X, y, n_classes, rng)
    )


@pytest.mark.parametrize("sampling", ["block", "frequency", "neighbour"])
@pytest.mark.parametrize("n_classes", [1, 2, 16, 17, 160])
def test_every_class_has_a_slot(sampling, n_classes):
    X, y, _ = kinds_of_classes()
    keep = y < n_classes - (n_classes > 2)  # one without rows
    slots = slots_for(sampling, X[keep], y[keep], n_classes)
    assert sorted(slots) == list(range(n_classes))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("d", [30, 3000])
def test_similar_classes_share_a_block(form, d):
    X, y, kind = kinds_of_classes(d=d)
    slots = slots_for("neighbour", form(X), y, kind.size)
    for block in range(kind.size // LANES):
        assert np.unique(kind[slots // LANES == block]).size == 1


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("unit", [0.0, 1e-200, 1e200])
def test_no_unit_of_the_features_is_too_large_or_too_small(form, unit):
    X, y, kind = kinds_of_classes()
    slots = slots_for("neighbour", form(unit * X), y, kind.size)
    assert sorted(slots) == list(range(kind.size))
    if unit:
        assert np.unique(kind[slots < LANES]).size == 1


def test_frequent_classes_come_first():
    X, y, kind = kinds_of_classes()
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.flatnonzero(y == k)[: rng.integers(1, 7)] for k in range(kind.size)])
    counts = np.bincount(y[rows], minlength=kind.size)
    by_slot = counts[np.argsort(slots_for("frequency", X[rows], y[rows], kind.size))]
    assert (np.diff(by_slot) <= 0).all()
    by_slot = counts[np.argsort(slots_for("neighbour", X[rows], y[rows], kind.size))]
    assert (np.diff(np.floor(np.log2(by_slot))) <= 0).all()
    assert not (np.diff(by_slot) <= 0).all()


def test_too_many_classes_to_compare_are_ordered_by_frequency():
    y = np.repeat(np.arange(5000), 1 + np.arange(5000) % 3)
    slots = slots_for("neighbour", np.ones((y.size, 1)), y, 5000)
    assert (np.diff(np.bincount(y)[np.argsort(slots)]) <= 0).all()


def test_equally_likely_blocks_have_classes_in_random_order():
    X, y, kind = kinds_of_classes()
    slots = slots_for("block", X, y, kind.size)
    assert not np.array_equal(slots, slots_for("block", X, y, kind.size, seed=1))
    assert min(np.unique(kind[slots // LANES == block]).size for block in range(10)) > 3
