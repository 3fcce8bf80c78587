"""Conditioned columns: how they are measured, and the weights in both units."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from monro.fitting.conditioning import AS_GIVEN, Conditioning, choose_conditioning
from tests.messages import message


def conditioning(X, weight=None, *, keep_zeros=True, **parameters):
    given = {"scale": True, "alpha": 0.1, "fit_intercept": True, "penalty_factor": None}
    given |= parameters
    weight = np.ones(X.shape[0]) if weight is None else weight
    return choose_conditioning(SimpleNamespace(**given), X, weight, keep_zeros=keep_zeros)


def columns(seed=0, n=400):
    """A normal column, a skewed one, a rare indicator, one that is mostly zero, a constant one."""
    rng = np.random.default_rng(seed)
    rare, mostly_zero = np.arange(n) < 2, rng.random(n) < 0.3
    skewed = rng.exponential(size=n) ** 4
    return np.column_stack(
        [rng.normal(2959.0, 280.0, n), skewed, rare, mostly_zero * skewed, np.full(n, 0.1)]
    )


def test_numpy_gives_the_same_centres_and_scales():
    X = columns()
    weight = np.random.default_rng(1).integers(1, 4, X.shape[0])
    found = conditioning(X, weight.astype(float))

    repeated = np.repeat(X, weight, axis=0)  # a row of weight 2 counts as two
    scale = np.maximum(repeated.std(axis=0), np.ptp(X, axis=0) / 10)
    scale[4] = 1.0
    np.testing.assert_allclose(found.scale, scale, rtol=1e-12)
    assert scale[2] > repeated.std(axis=0)[2]  # the range decides
    mean = repeated.mean(axis=0)
    np.testing.assert_allclose(found.centre, mean, rtol=1e-12)
    np.testing.assert_allclose(found.apply(X), (X - mean) / scale, rtol=1e-9, atol=1e-12)


def test_rows_of_mostly_zeros_remain_so():
    X = columns()
    indicators = np.eye(20)[np.random.default_rng(1).integers(20, size=X.shape[0])]
    X = np.column_stack([X, indicators])
    everywhere, some = (conditioning(X, keep_zeros=keep) for keep in (False, True))
    np.testing.assert_allclose(everywhere.centre, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(some.scale, everywhere.scale)
    needed = X.mean(axis=0) > X.std(axis=0)
    assert np.flatnonzero(needed).tolist() == [0, 4]  # far from zero, and constant
    np.testing.assert_array_equal(some.centre, np.where(needed, everywhere.centre, 0.0))
    np.testing.assert_array_equal(some.apply(X)[:, 5:] == 0.0, indicators == 0.0)


def test_without_an_intercept_nothing_is_centred():
    X = columns()
    found = conditioning(X, fit_intercept=False)
    root_mean_square = np.sqrt((X**2).mean(axis=0))
    scale = np.maximum(root_mean_square, np.abs(X).max(axis=0) / 10)
    np.testing.assert_array_equal(found.centre, 0.0)
    np.testing.assert_allclose(found.scale, scale, rtol=1e-12)


@pytest.mark.parametrize("axes", [(), (3,)])
def test_scores_are_the_same_in_both_units(axes):
    rng = np.random.default_rng(0)
    X = columns()
    found = conditioning(X)
    v, c = rng.normal(size=(*axes, 5)), rng.normal(size=axes)
    w, b = found.fold(v, c)
    np.testing.assert_allclose(X @ w.T + b, found.apply(X) @ v.T + c, rtol=1e-9)
    for back, before in zip(found.unfold(w, b), (v, c), strict=True):
        np.testing.assert_allclose(back, before, rtol=1e-9)


def test_powers_of_two_and_nothing_else_keep_the_bits():
    X = columns()
    units = 2.0 ** np.array([10, -7, 3, 1, -2])
    for fit_intercept in (True, False):
        one = conditioning(X, fit_intercept=fit_intercept).apply(X)[:, :4]
        other = conditioning(units * X, fit_intercept=fit_intercept).apply(units * X)[:, :4]
        np.testing.assert_array_equal(other, one)


def test_single_precision_keeps_the_digits_of_columns_far_from_zero():
    X = columns()
    X[:, 0] += 1e9
    found = conditioning(X)
    exact = (X - found.centre) / found.scale
    np.testing.assert_allclose(found.apply(X, "float32"), exact, rtol=1e-6, atol=1e-6)


def test_a_column_that_is_constant_but_for_rounding_is_not_blown_up():
    X = np.column_stack([np.full(100, 1e6), np.arange(100.0)])
    X[::2, 0] += 1e-10
    found = conditioning(X)
    assert found.scale[0] == 1.0
    assert np.abs(found.apply(X)[:, 0]).max() < 1e-9


def test_of_sparse_rows_only_numbers_are_scaled():
    rng = np.random.default_rng(0)
    text = rng.random((200, 8)) * (rng.random((200, 8)) < 0.2)
    text[:, 0] = 0.05 * (np.arange(200) % 3 > 0)  # a common word
    numbers = rng.normal(50.0, 9.0, (200, 2))
    numbers[:100, 0] = 0.0
    numbers[:, 1] *= 1e-6
    X = sp.csr_matrix(np.column_stack([text, numbers]))
    weight = np.r_[np.full(100, 1.0), np.full(100, 1.5)]
    found = conditioning(X, weight)
    scale = np.r_[np.ones(8), np.sqrt(np.average(numbers**2, axis=0, weights=weight))]
    np.testing.assert_allclose(found.scale, scale, rtol=1e-12)
    np.testing.assert_array_equal(found.centre, 0.0)
    scaled = found.apply(X)
    assert sp.issparse(scaled)
    assert np.shares_memory(scaled.indices, X.indices)
    np.testing.assert_allclose(scaled.toarray(), X.toarray() / scale, rtol=1e-12)


def test_text_is_left_as_it_is():
    rng = np.random.default_rng(0)
    text = sp.random(200, 30, 0.2, format="csr", rng=rng)
    assert conditioning(text) is AS_GIVEN
    assert AS_GIVEN.apply(text) is text

    # A word in nearly all texts does not count as much as a text: the rows have unit length.
    common = text.toarray()
    common[:, 0] = 0.05
    common /= np.linalg.norm(common, axis=1, keepdims=True)
    assert conditioning(sp.csr_matrix(common)) is AS_GIVEN


def test_auto_follows_alpha():
    X = columns()
    assert conditioning(X, scale="auto", alpha=1.0) is AS_GIVEN
    assert conditioning(X, scale="auto", alpha="auto").changes
    assert conditioning(X, scale=False, alpha="auto") is AS_GIVEN
    assert conditioning(X, scale=True, alpha=0.0).changes


def test_nothing_is_changed_where_nothing_is_to_be():
    w, b = np.ones(3), 2.0
    assert AS_GIVEN.fold(w, b) == (w, b)
    assert AS_GIVEN.unfold(w, b) == (w, b)
    assert not Conditioning().changes


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_columns_that_overflow_are_named(form):
    X = np.ones((3, 2))
    X[:, 1] = [1.5e308, -1.5e308, 1.5e308]
    assert "column 1" in message(ValueError, conditioning, form(X))
