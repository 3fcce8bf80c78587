"""The path of strengths that alpha="auto" compares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import PredefinedSplit

from monro.fitting.path import (
    PathModel,
    choose_strength,
    follow_path,
    ridge_strengths,
    standard_error,
)
from monro.fitting.run import LabelledRows
from monro.fitting.splits import (
    make_splits,
    pairs_of,
)
from tests.messages import message


def labelled_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return LabelledRows(np.arange(n)[:, None].astype(float), rng.integers(3, size=n), np.ones(n))


class Curve(PathModel):
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


@pytest.mark.parametrize(("n", "folds", "times"), [(100, 5, 8), (600, 5, 1), (5000, 3, 1)])
def test_few_rows_are_all_judged(n, folds, times):
    rows = labelled_rows(n)
    splits = make_splits(rows, rows.y, None, 0)
    assert len(splits) == folds * times
    for split in splits:
        both = np.concatenate([split.training.X, split.held_out.X]).ravel()
        assert sorted(both) == list(range(n))
    judged = np.concatenate([split.held_out.X for split in splits]).ravel()
    assert sorted(judged) == sorted(list(range(n)) * times)
    assert len({tuple(split.held_out.y) for split in splits}) == folds * times  # other folds


def test_many_rows_of_few_features_may_be_folded():
    rows = labelled_rows(12_000)
    assert len(make_splits(rows, rows.y, None, 0)) == 1
    assert len(make_splits(rows, rows.y, None, 0, folds_many=True)) == 3
    assert len(make_splits(rows, rows.y, None, 0, may_fold=False, folds_many=True)) == 1


@pytest.mark.parametrize(
    ("n", "may_fold", "judged"),
    [(40_000, True, 20_000), (4000, False, 1000), (12_000, False, 6000)],
)
def test_one_hold_out_of_many_rows_or_for_large_models(n, may_fold, judged):
    rows = labelled_rows(n)
    (split,) = make_splits(rows, rows.y, None, 0, may_fold=may_fold)
    assert split.held_out.y.size == judged
    both = np.concatenate([split.training.X, split.held_out.X]).ravel()
    assert sorted(both) == list(range(n))


def test_strata_have_their_share_in_every_fold():
    rows = labelled_rows(200)
    for split in make_splits(rows, rows.y, None, 0):
        counts = np.bincount(split.held_out.y, minlength=3)
        assert np.all(abs(5 * counts - np.bincount(rows.y)) <= 5)


def test_a_rare_class_does_not_enlarge_the_hold_out():
    rows = labelled_rows(40_000)
    rows.y[:2] = 7
    assert make_splits(rows, rows.y, None, 0)[0].held_out.y.size == 20_000


@pytest.mark.parametrize("n", [90, 4000])
def test_rows_of_a_group_stay_together(n):
    rows = labelled_rows(n)
    groups = np.arange(n) // 3
    for split in make_splits(rows, None, groups, 0):
        training, held_out = (
            groups[part.X.ravel().astype(int)] for part in (split.training, split.held_out)
        )
        assert not set(training) & set(held_out)


def test_rows_that_must_stay_together_are_not_split():
    assert make_splits(labelled_rows(1), None, None, 0) == []
    assert make_splits(labelled_rows(20), None, np.zeros(20), 0) == []


@given(st.floats(-3.0, 3.0))
def test_the_least_loss_is_found_between_the_strengths(where):
    path, _ = follow(Curve(lambda x: 1.0 + (x - where) ** 2))
    # The strengths are for 100 rows, the model has 50: alpha·N is the same. Of strengths with about
    # the same loss the strongest is chosen.
    assert where - 0.005 < np.log10(path.alpha_ * 100) < where + 0.025


def test_strong_penalties_are_tried_only_if_the_first_one_is_the_best():
    weak, _ = follow(Curve(lambda x: 1.0 + (x + 1.0) ** 2))
    strong, _ = follow(Curve(lambda x: 1.0 + (x - 2.0) ** 2))
    assert weak.alpha_path_[0]["alpha"] * 100 == pytest.approx(1.0)
    assert strong.alpha_path_[0]["alpha"] * 100 == pytest.approx(10**2.5)
    alphas = [record["alpha"] for record in strong.alpha_path_]
    assert alphas == sorted(alphas, reverse=True)


def test_the_strongest_of_equally_good_strengths_is_chosen():
    means = {1.0: 1.2, 0.1: 1.0001, 0.01: 1.0, 0.001: 1.0001, 0.0001: 1.0}
    path = [{"alpha": alpha, "mean": mean} for alpha, mean in means.items()]
    assert 0.03 < choose_strength(path) < 0.15
    assert choose_strength(path[:1]) == 1.0


def test_the_path_is_in_units_of_the_rows():
    one, hundred = (follow(Curve(lambda x: (x + 1) ** 2), unit=unit)[0] for unit in (1.0, 100.0))
    assert hundred.alpha_path_[0]["alpha"] == pytest.approx(100 * one.alpha_path_[0]["alpha"])


def test_the_path_ends_when_the_loss_clearly_rises():
    path, said = follow(Curve(lambda x: (x + 1.0) ** 2, noise=1.0))
    # The noise is the same for all strengths: it does not hide the rise.
    assert [round(np.log10(100 * r["alpha"]), 1) for r in path.alpha_path_] == [0, -0.5, -1, -1.5]
    assert [text.split()[:2] for text in said[:2]] == [["alpha", "0.01"], ["alpha", "0.00316"]]


def test_the_path_goes_on_while_a_rise_may_be_chance():
    path, _ = follow(Curve(lambda x: 1e-3 * (x - 1.0) ** 2, weak_noise=1.0))
    assert len(path.alpha_path_) > 5


def test_the_path_ends_where_the_penalty_makes_no_difference():
    path, _ = follow(Curve(lambda x: 1.0 + np.maximum(x, -2.0)))
    assert [round(np.log10(100 * r["alpha"]), 1) for r in path.alpha_path_][-1] == -3.0


def test_the_path_ends_where_the_losses_of_all_rows_fade():
    class Rows(Curve):
        """Rows whose losses differ from those without a penalty in proportion to a power of it."""

        def __init__(self, power):
            super().__init__(lambda x: 1.0 + 1e-3 * 10.0 ** (power * x))
            self.power = power
            self.slopes = np.random.default_rng(1).normal(size=200)

        def losses(self):
            of_rows = 0.1 * (self.asked[-1] * self.n_rows) ** self.power * self.slopes
            return super().losses() + of_rows - of_rows.mean()

    fading, growing = (follow(Rows(power))[0].alpha_path_ for power in (1.0, -0.1))
    # The mean changes by 7e-4, 2e-4, 7e-5; the rows' losses by 7e-2, 2e-2, 7e-3.
    assert [round(np.log10(100 * r["alpha"]), 1) for r in fading] == [0, -0.5, -1, -1.5]
    assert growing[-1]["alpha"] * 100 == pytest.approx(1e-4)


def test_a_penalty_that_leaves_no_weights_does_not_end_the_path():
    path, _ = follow(Curve(lambda x: 1.0 + np.minimum(x, 0.0) / 10))
    assert path.alpha_path_[-1]["alpha"] * 100 == pytest.approx(1e-4)


def test_a_loss_that_only_falls_takes_the_weakest_strength():
    path, _ = follow(Curve(lambda x: 10.0 + x))
    assert path.alpha_path_[-1]["alpha"] * 100 == pytest.approx(1e-4)
    assert path.alpha_ == pytest.approx(path.alpha_path_[-1]["alpha"], rel=0.01)


def test_splits_are_judged_together():
    # Neither split alone has its least loss at 1.
    models = [Curve(lambda x, shift=shift: (x - shift) ** 2) for shift in (-1.5, -0.5)]
    path, _ = follow(*models)
    assert path.alpha_ * 100 == pytest.approx(0.1, rel=0.05)
    assert all(len(model.asked) == len(path.alpha_path_) for model in models)


def test_losses_that_are_not_finite_end_the_path():
    path, _ = follow(Curve(lambda x: np.inf if x < -1.1 else 10.0 + x))
    assert path.alpha_ == pytest.approx(path.alpha_path_[-1]["alpha"], rel=0.01)
    assert "alpha" in message(ValueError, follow, Curve(lambda x: np.nan))


def test_a_first_strength_that_diverges_is_followed_by_stronger_ones():
    path, _ = follow(Curve(lambda x: np.inf if x < 0.7 else 1.0 + (x - 2.0) ** 2))
    assert path.alpha_ * 100 == pytest.approx(100.0, rel=0.1)


def test_a_splitter_sees_all_rows():
    y = np.arange(6)
    pairs = pairs_of(PredefinedSplit([0, 0, 1, 1, 2, 2]), y)
    # Rows 1, 4 and 5 are left, because the others have no weight or were not drawn.
    rows = LabelledRows(np.array([[1.0], [4.0], [5.0]]), y[[1, 4, 5]], np.ones(3))
    splits = make_splits(rows, None, np.array([1, 4, 5]), 0, [pairs[0], pairs[2]])
    assert [split.held_out.X.ravel().tolist() for split in splits] == [[1.0], [4.0, 5.0]]
    assert pairs_of(5, y) == 5


def test_values_of_the_same_row_count_once_in_the_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    once = standard_error(values, np.full(40, 1 / 40))
    thrice = standard_error(np.tile(values, 3), np.full(120, 1 / 120), 3.0)
    assert thrice == pytest.approx(once)


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
