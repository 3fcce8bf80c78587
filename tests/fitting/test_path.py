"""The path of strengths that alpha="auto" compares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monro.fitting.path import (
    MOST_STRENGTHS,
    between_neighbours,
    follow_path,
    make_splits,
    ridge_strengths,
    standard_error,
)
from monro.fitting.run import LabelledRows
from tests.messages import message


def labelled_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return LabelledRows(np.arange(n)[:, None].astype(float), rng.integers(3, size=n), np.ones(n))


class Curve:
    """A model whose loss is a function of the strength, with noise that all strengths share."""

    n_rows = 50

    def __init__(self, curve, noise=0.0, weak_noise=0.0):
        self.curve = curve
        rng = np.random.default_rng(0)
        self.noise = noise * rng.normal(size=200)
        self.own_noise = weak_noise * rng.normal(size=200)
        self.asked = []

    def refit(self, alpha):
        self.asked.append(alpha)

    def losses(self):
        alpha = self.asked[-1]
        return self.curve(np.log10(alpha * self.n_rows)) + self.noise + self.own_noise / alpha

    def count_nonzeros(self):
        return len(self.asked)


def follow(*models, n_rows=100, unit=1.0):
    lines = []
    weights = [np.ones(200) for _ in models]
    return follow_path(models, weights, n_rows, ridge_strengths(unit), lines.append), lines


@pytest.mark.parametrize("few", [True, False])
def test_rows_are_held_out_or_fitted_never_both(few):
    rows = labelled_rows(100 if few else 5000)
    splits = make_splits(rows, rows.y, None, 0)
    for split in splits:
        both = np.concatenate([split.training.X, split.held_out.X]).ravel()
        assert sorted(both) == list(range(rows.y.size))
    if few:  # every row is judged once
        judged = np.concatenate([split.held_out.X for split in splits]).ravel()
        assert sorted(judged) == list(range(100))
    else:
        assert len(splits) == 1
        assert splits[0].held_out.y.size == 1000


def test_strata_have_their_share_in_every_fold():
    rows = labelled_rows(200)
    for split in make_splits(rows, rows.y, None, 0):
        counts = np.bincount(split.held_out.y, minlength=3)
        assert np.all(abs(5 * counts - np.bincount(rows.y)) <= 5)


def test_a_rare_class_does_not_enlarge_the_hold_out():
    rows = labelled_rows(5000)
    rows.y[:2] = 7
    assert make_splits(rows, rows.y, None, 0)[0].held_out.y.size == 1000


@pytest.mark.parametrize("n", [90, 4000])
def test_rows_of_a_group_stay_together(n):
    rows = labelled_rows(n)
    groups = np.arange(n) // 3
    for split in make_splits(rows, None, groups, 0):
        training, held_out = (groups[part.X.ravel().astype(int)] for part in split)
        assert not set(training) & set(held_out)


def test_rows_that_must_stay_together_are_not_split():
    assert make_splits(labelled_rows(1), None, None, 0) == []
    assert make_splits(labelled_rows(20), None, np.zeros(20), 0) == []


@given(st.floats(-2.5, 0.5))
def test_the_least_loss_is_found_between_the_strengths(where):
    path, _ = follow(Curve(lambda x: 1.0 + (x - where) ** 2))
    # The strengths are for 100 rows, the model has 50: alpha·N is the same.
    assert np.log10(path.alpha_ * 100) == pytest.approx(where, abs=1e-6)


def test_the_path_is_in_units_of_the_rows():
    one, hundred = (follow(Curve(lambda x: x**2), unit=unit)[0] for unit in (1.0, 100.0))
    assert hundred.alpha_path_[0]["alpha"] == pytest.approx(100 * one.alpha_path_[0]["alpha"])


def test_the_path_ends_when_the_loss_clearly_rises():
    path, said = follow(Curve(lambda x: (x - 1.0) ** 2, noise=1.0))
    # The noise is the same for all strengths: it does not hide the rise.
    assert [round(np.log10(100 * r["alpha"]), 1) for r in path.alpha_path_] == [2, 1.5, 1, 0.5, 0]
    assert [text.split()[:2] for text in said[:2]] == [["alpha", "1"], ["alpha", "0.316"]]


def test_the_path_goes_on_while_a_rise_may_be_chance():
    path, _ = follow(Curve(lambda x: 1e-3 * (x - 1.0) ** 2, weak_noise=1.0))
    assert len(path.alpha_path_) > 5


def test_the_path_ends_where_the_penalty_makes_no_difference():
    path, _ = follow(Curve(lambda x: 1.0 + np.maximum(x, 0.0)))
    assert [round(np.log10(100 * r["alpha"]), 1) for r in path.alpha_path_][-1] == -1.0


def test_a_penalty_that_leaves_no_weights_does_not_end_the_path():
    path, _ = follow(Curve(lambda x: 1.0 + np.minimum(x, 0.0) / 10))
    assert len(path.alpha_path_) == MOST_STRENGTHS


def test_a_loss_that_only_falls_takes_the_weakest_strength():
    path, _ = follow(Curve(lambda x: x))
    assert len(path.alpha_path_) == MOST_STRENGTHS
    assert path.alpha_ == path.alpha_path_[-1]["alpha"]


def test_splits_are_judged_together():
    # Neither split alone has its least loss at 1.
    models = [Curve(lambda x, shift=shift: (x - shift) ** 2) for shift in (-0.5, 0.5)]
    path, _ = follow(*models)
    assert path.alpha_ * 100 == pytest.approx(1.0)
    assert all(len(model.asked) == len(path.alpha_path_) for model in models)


def test_losses_that_are_not_finite_end_the_path():
    path, _ = follow(Curve(lambda x: np.inf if x < -0.1 else x))
    assert path.alpha_ == path.alpha_path_[-1]["alpha"]
    assert "alpha" in message(ValueError, follow, Curve(lambda x: np.nan))


@given(st.integers(2, 50))
def test_the_standard_error_is_that_of_a_mean(n):
    values = np.random.default_rng(n).normal(size=n)
    expected = values.std(ddof=1) / np.sqrt(n)
    assert standard_error(values, np.full(n, 1 / n)) == pytest.approx(expected)


def test_rows_without_weight_do_not_count_in_the_standard_error():
    values = np.random.default_rng(0).normal(size=30)
    share = np.r_[np.full(20, 1 / 20), np.zeros(10)]
    expected = standard_error(values[:20], share[:20])
    assert standard_error(values, share) == pytest.approx(expected)


def test_the_end_of_a_path_is_taken_as_it_is():
    path = [{"alpha": a, "mean": m} for a, m in ((1.0, 1.0), (0.1, 2.0), (0.01, 3.0))]
    assert between_neighbours(path) == 1.0
    assert between_neighbours(path[:1]) == 1.0
