"""Coordinate descent on one label after the other, against NumPy and enumeration."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import planted
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from monro.fitting.run import LabelledRows
from monro.softmax.observed.label_trainer import LabelTrainer, sample_of
from monro.softmax.observed.losses import independent_labels
from monro.softmax.observed.pairs import LabelSets, observed_pairs
from monro.softmax.observed.problem import ObservedProblem, row_losses
from monro.softmax.observed.trainer import FIRST_SLOPE, ObservedPlan, first_state, mean_square
from monro.softmax.scan import scan
from tests.softmax.observed.helpers import (
    assert_same_bits,
    label_matrix,
    mask_of,
    objective_of,
    observed,
    parts_of,
    sparse_rows,
)


def problem_of(X, Y, weight=None):
    X = sp.csr_matrix(X, dtype=np.float64)
    n, K = Y.shape
    sets = LabelSets.of_rows(sp.csr_matrix(Y))
    pairs = observed_pairs(X, np.arange(n), sets, K)
    weight = np.ones(n) if weight is None else weight
    rows = LabelledRows(X, np.arange(n), weight)
    return ObservedProblem(rows, sets, pairs, K, False, independent_labels)


def trainer_of(problem, alpha=0.01, l1_ratio=0.0, *, near_times=100, fit_intercept=True, **more):
    plan = ObservedPlan(
        "", "observed", "", problem.pairs.size, "independent", alpha, l1_ratio, 1.0, 1,
        fit_intercept, "float64", by_label=True, strongest=0.0,
    )  # fmt: skip
    state = first_state(problem, plan)
    trainer = LabelTrainer(problem, plan, state, rng=np.random.default_rng(0), **more)
    trainer.near_times = near_times
    return trainer


def draw(trainer, rows):
    """Make the trainer draw these rows."""
    sample = sample_of(trainer.problem.rows.X, np.array(rows))
    trainer._draw = lambda: sample


def near_of(X, Y, k, times):
    """The rows of a label, and rows of its rarest features until there are enough."""
    X = np.asarray(X.todense()) != 0
    entries = X.sum(axis=1)
    own = np.flatnonzero(Y[:, k])
    members, room = list(own), times * entries[own].sum()
    features = np.flatnonzero(X[own].any(axis=0))
    for j in sorted(features, key=lambda j: (X[:, j].sum(), j)):
        for i in np.flatnonzero(X[:, j]):
            if i not in members:
                room -= entries[i]
                if room < 0:
                    return members
                members.append(i)
    return members


def weights_of_rows(X, Y, k, times, sample, weight):
    """How much each row counts in the sum of a label."""
    c = np.zeros(len(Y))
    c[sample] = weight[sample] * len(Y) / len(sample)
    members = near_of(X, Y, k, times)
    c[members] = weight[members]
    return c


def swept(X, y, c, w, b, mask, order, l1, ridge, sweeps, settled, intercept):
    """Sweeps of coordinate descent on ``Σ c (1 - y s)₊² + l1 ‖w‖₁ + ridge/2 ‖w‖²``, in NumPy."""
    most = 0.0
    for _ in range(sweeps):
        change = 0.0
        for j in [j for j in order if mask[j]]:
            v = 1 - y * (X @ w + b)
            g, active = -(c * np.maximum(v, 0) * y * X[:, j]).sum(), c * X[:, j] ** 2 * (v > 0)
            m = (active.sum() + (c * X[:, j] ** 2).sum()) / 2
            moved = m * w[j] - g
            new = (moved - np.clip(moved, -l1 / 2, l1 / 2)) / (m + ridge / 2)
            change += m * (new - w[j]) ** 2
            w[j] = new
        if intercept:
            v = 1 - y * (X @ w + b)
            m = ((c * (v > 0)).sum() + c.sum()) / 2
            b += (c * np.maximum(v, 0) * y).sum() / m
        most = max(most, change)
        if change <= settled * most:
            break
    return w, b


@pytest.mark.parametrize("times", [0, 2, 1000])
@pytest.mark.parametrize(("l1_ratio", "intercept"), [(0.0, True), (0.6, True), (0.3, False)])
def test_a_pass_is_that_of_numpy(times, l1_ratio, intercept):
    rng = np.random.default_rng(0)
    X, Y = sparse_rows(rng, 40, 12, 0.2), label_matrix(rng, 40, 4, 0.1)
    weight, alpha = rng.uniform(0.5, 1.5, 40), 0.02
    problem = problem_of(X, Y, weight)
    trainer = trainer_of(problem, alpha, l1_ratio, near_times=times, fit_intercept=intercept)
    sample = [3, 8, 20, 21, 33]
    draw(trainer, sample)
    trainer.sweeps, trainer.settled = sweeps, settled = 6, 0.2
    start = rng.standard_normal(problem.pairs.size)
    trainer.state.w[:] = start
    first, _ = parts(trainer)
    b = trainer.state.bias.copy()
    trainer.epoch()
    found, bias = parts(trainer)
    order = np.argsort(problem.pairs.rows, kind="stable")
    mask = mask_of(X, Y)
    for k in range(4):
        c = weights_of_rows(X, Y, k, times, sample, weight)
        y, dense = 2.0 * Y[:, k] - 1, np.asarray(X.todense())
        l1, ridge = 40 * alpha * l1_ratio, 40 * alpha * (1 - l1_ratio)
        w, one = swept(
            dense, y, c, first[k], b[k], mask[k], order, l1, ridge, sweeps, settled, intercept
        )
        np.testing.assert_allclose(found[k], w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(bias[k], one, rtol=1e-9, atol=1e-12)
    assert trainer.state.gain.min() >= FIRST_SLOPE * mean_square(problem.rows.X)


def parts(trainer):
    return trainer.weights().W.toarray(), trainer.state.bias.copy()


@pytest.mark.parametrize("times", [0, 1])
def test_the_sum_over_rows_is_unbiased(times):
    """The mean over all samples of the loss, for any weights, is the loss; so is that of slopes."""
    rng = np.random.default_rng(1)
    X, Y = sparse_rows(rng, 9, 6, 0.4), label_matrix(rng, 9, 3, 0.1)
    weight = rng.uniform(0.5, 1.5, 9)
    problem = problem_of(X, Y, weight)
    trainer = trainer_of(problem, alpha=0.0, near_times=times)
    trainer.state.w[:] = rng.standard_normal(problem.pairs.size)
    trainer.state.bias[:] = rng.standard_normal(3)
    expected = weight @ row_losses(problem, trainer.state, problem.rows)
    assert min(len(near_of(X, Y, k, times)) for k in range(3)) < 8  # others are left to sample
    w, bias = trainer.state.w.copy(), trainer.state.bias.copy()
    found = []
    for sample in combinations(range(9), 3):
        draw(trainer, list(sample))
        trainer.sweeps = 0
        found.append(9 * trainer.epoch()["loss"])
        np.testing.assert_array_equal(trainer.state.w, w)
        np.testing.assert_array_equal(trainer.state.bias, bias)
    assert np.ptp(found) > 0.1
    np.testing.assert_allclose(np.mean(found), expected, rtol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 1.0]), st.floats(1e-6, 1.0))
def test_no_pass_over_all_rows_increases_the_objective(seed, l1_ratio, alpha):
    rng = np.random.default_rng(seed)
    X = sparse_rows(rng, 30, 8) * 10.0 ** rng.integers(-2, 3)
    Y = label_matrix(rng, 30, 3, 0.2)
    problem = problem_of(X, Y, rng.uniform(0.1, 2.0, 30))
    trainer = trainer_of(problem, alpha, l1_ratio)
    trainer.state.w[:] = rng.standard_normal(problem.pairs.size) * 10.0 ** rng.integers(-2, 3)

    def objective():
        w, n = trainer.state.w, 30
        penalty = l1_ratio * np.abs(w).sum() + (1 - l1_ratio) / 2 * (w**2).sum()
        loss = problem.rows.weight @ row_losses(problem, trainer.state, problem.rows)
        return loss + n * alpha * penalty

    before = objective()
    for _ in range(4):
        trainer.epoch()
        after = objective()
        assert after <= before * (1 + 1e-9)
        before = after


def test_threads_change_no_bit():
    rng = np.random.default_rng(2)
    X, Y = sparse_rows(rng, 600, 40, 0.1), label_matrix(rng, 600, 100, 0.01)
    one, two = (observed(label_weight="independent", n_jobs=n).fit(X, Y) for n in (1, 3))
    assert one.plan_["by_label"]
    assert_same_bits(one, two)


def test_near_rows_and_a_sample_rank_labels_as_all_rows_do():
    """Of 6,000 rows a label looks at a ninth; precision at 1 is that of fits to all of them."""
    shape = planted.SMALL._replace(rows=6_000)
    X, Y = planted.planted(shape, 0)
    new_X, new_Y = planted.planted(shape, 1, rows=2_000)
    problem, found = problem_of(normalize(X), Y.toarray()), []
    for times in (20, X.shape[0]):
        trainer = trainer_of(problem, 0.5 / X.shape[0], near_times=times)
        trainer.epoch()
        best = scan(trainer.weights(), normalize(new_X)).codes[:, 0]
        found.append(new_Y[np.arange(2_000), best].mean())
        looked_at = trainer._n_sampled + (1 + times) * Y.nnz / Y.shape[1]
        assert (looked_at < X.shape[0] / 9) == (times == 20)
    assert found[1] > 0.3
    assert found[0] > found[1] - 0.02


def test_a_number_for_the_rate_asks_for_steps_on_rows():
    rng = np.random.default_rng(4)
    X, Y = sparse_rows(rng, 100, 12), label_matrix(rng, 100, 5)
    by_label = observed(label_weight="independent").fit(X, Y)
    by_rows = observed(label_weight="independent", learning_rate=0.3, max_epochs=300).fit(X, Y)
    assert by_label.plan_["by_label"]
    assert not by_rows.plan_["by_label"]
    one, two = (objective_of(model, X, Y, "independent") for model in (by_label, by_rows))
    assert one <= two * 1.001
    assert two <= one * 1.02


@pytest.mark.parametrize("n", [1, 2, 5])
def test_very_few_rows(n):
    rng = np.random.default_rng(5)
    X, Y = sparse_rows(rng, n, 6, 0.8), np.eye(max(n, 3), dtype=int)[:n]
    model = observed(label_weight="independent", alpha=1e-6)
    W, b = parts_of(model.fit(X, Y))
    assert np.isfinite(W).all()
    assert np.isfinite(b).all()
    has_features = np.diff(X.indptr) > 0
    own = (X @ W.T + b)[np.arange(n), np.arange(n)]
    assert (own[has_features] > 0).all()


@pytest.mark.parametrize("unit", [1e-15, 1e15])
def test_features_of_any_size_are_fitted(unit):
    rng = np.random.default_rng(6)
    X, Y = sparse_rows(rng, 60, 8, 0.5), label_matrix(rng, 60, 4)
    one = observed(label_weight="independent", alpha=1e-3).fit(X, Y)
    two = observed(label_weight="independent", alpha=1e-3 * unit**2).fit(X * unit, Y)
    np.testing.assert_allclose(parts_of(two)[0] * unit, parts_of(one)[0], atol=1e-4)
