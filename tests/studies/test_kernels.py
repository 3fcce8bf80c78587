"""Kernels and helpers of the studies, against the papers' equations in NumPy."""

from collections import Counter
from itertools import pairwise
from math import log

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

from monro import SoftmaxClassifier
from monro.fitting.order import visiting_order
from monro.linear.descent_state import new_state, weights
from monro.linear.examples import Examples
from monro.linear.problem import Problem
from monro.linear.solvers import make_solver
from monro.losses import Hinge, Log
from monro.penalties import Ridge
from monro.rows import as_rows
from monro.schedules import Bottou
from monro.studies import data, implicit_sgd_runs, nextword
from monro.studies.sgd_qn_runs import Straightforward, every_tenth
from monro.studies.sparse_averaging_runs import (
    cost,
    dense_averaged_epoch,
    dense_centred_epoch,
    synthetic_rows,
)
from tests.marks import thorough
from tests.softmax.data import log_softmax

often = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def make_problem(loss, seed, lam, sparse, fit_intercept=False, n=40, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return Problem(loss, Ridge(lam), Examples(rows, y, np.ones(n)), fit_intercept, d), X, y, rng


def two_epochs(n):
    """Return the order in which a fit of two epochs visits rows."""
    rng = np.random.default_rng(0)
    return np.concatenate([visiting_order(n, rng), visiting_order(n, rng)])


# --------------------------------------------------------------------------- paper 003, as printed


def printed_hinge(X, y, order, eta0, lam, decay):
    """Eq. 13; or eq. 12 if its assumption 1 - y x·θ ≥ 0 turns out to be wrong."""
    theta = np.zeros(X.shape[1])
    for t, i in enumerate(order):
        eta = eta0 / (1 + decay * lam * eta0 * t)
        moved = (theta + eta * y[i] * X[i]) / (1 + lam * eta)
        theta = moved if 1 - y[i] * (X[i] @ moved) >= 0 else theta / (1 + lam * eta)
    return theta


@given(
    seed=seeds,
    sparse=st.booleans(),
    eta0=st.sampled_from([0.01, 0.3, 1.0, 30.0]),
    lam=st.sampled_from([1e-5, 0.01, 0.9]),  # the last makes the scale tiny
    decay=st.sampled_from([0.0, 1.0, 10.0]),
)
@often
def test_the_hinge_step_as_printed(seed, sparse, eta0, lam, decay):
    problem, X, y, rng = make_problem(Hinge(), seed, lam, sparse)
    order = np.concatenate([rng.permutation(40) for _ in range(5)])
    state = new_state(6)
    for part in np.array_split(order, 3):
        implicit_sgd_runs.hinge_as_printed_epoch(
            problem.examples, part, Bottou(eta0, decay * lam), lam, state
        )
    expected = printed_hinge(X, y, order, eta0, lam, decay)
    np.testing.assert_allclose(weights(state)[0], expected, rtol=0, atol=1e-9 * (1 + eta0))
    assert state.t[0] == 200


def printed_log(X, y, order, eta0, lam, decay):
    """Eqs. 5 and 6, by bisection: no ridge, and η0/(1 + βλη0 t/2)."""
    theta = np.zeros(X.shape[1])
    for t, i in enumerate(order):
        alpha = eta0 / (1 + decay * lam * eta0 * t / 2)
        p, length, target = X[i] @ theta, X[i] @ X[i], (y[i] + 1) / 2

        def miss(xi, p=p, length=length, target=target, alpha=alpha):
            return xi - alpha * (target - expit(p + xi * length))

        theta = theta + brentq(miss, -2 * alpha, 2 * alpha, xtol=1e-14) * X[i]
    return theta


@given(
    seed=seeds,
    eta0=st.sampled_from([0.01, 1.0, 30.0]),
    lam=st.sampled_from([1e-5, 0.01]),
    decay=st.sampled_from([0.0, 1.0, 10.0]),
)
@often
def test_both_losses_as_printed(seed, eta0, lam, decay):
    order = two_epochs(40)
    for name, loss, reference in (("log", Log(), printed_log), ("hinge", Hinge(), printed_hinge)):
        problem, X, y, _ = make_problem(loss, seed, lam, sparse=True)
        found = implicit_sgd_runs._printed(problem, name, eta0, decay, 2)
        expected = reference(X, y, order, eta0, lam, decay)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * (1 + eta0))


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_a_fit_is_evaluated_on_the_test_rows(loss):
    """Error and cost of the weights of the printed step are as defined."""
    problem, X, y, rng = make_problem(Hinge(), 1, 1e-3, sparse=True)
    test_X, test_y = rng.standard_normal((30, 6)), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    rows = data.Data(sp.csr_matrix(X), y, sp.csr_matrix(test_X), test_y)
    found = implicit_sgd_runs.fit(rows, loss, implicit_sgd_runs.PRINTED, 2, rate=0.5, alpha=1e-3)

    reference = {"hinge": printed_hinge, "log": printed_log}[loss]
    w = reference(X, y, two_epochs(40), 0.5, 1e-3, 1.0)
    margin = test_y * (test_X @ w)
    losses = np.maximum(0, 1 - margin) if loss == "hinge" else np.logaddexp(0, -margin)
    assert found["error"] == np.mean(margin <= 0)
    assert found["cost"] == pytest.approx(losses.mean() + 0.5e-3 * w @ w, rel=1e-8)
    assert found["rate"] == 0.5
    assert problem.penalty.strength == 1e-3


# ------------------------------------------------------------------ paper 004's straightforward fix


def straightforward(X, y, order, lam, eta0, skip):
    """Figure 4's flawed algorithm, but v and w are compared on the next example (section 5.1)."""
    t0 = 1 / (lam * eta0)
    B = np.full(X.shape[1], 1 / lam)
    w, v = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    count, r, update = skip, 2, False
    total = 0.0
    for t, i in enumerate(order):
        total += np.logaddexp(0, -y[i] * (X[i] @ w))
        slope = -y[i] * expit(-y[i] * (X[i] @ w))
        if update:
            change = slope + y[i] * expit(-y[i] * (X[i] @ v))
            ratios = np.full(X.shape[1], lam)
            for k in np.flatnonzero(X[i]):
                moved = w[k] - v[k]
                ratios[k] = lam + change * X[i, k] / moved if moved else 100 * lam
            B = B + 2 / r * (1 / np.minimum(ratios, 100 * lam) - B)
            r, update = r + 1, False
        count -= 1
        if count <= 0:
            count, update = skip, True
            v = w
            w = w - skip * lam / (t + t0) * B * w
        w = w - slope / (t + t0) * B * X[i]
    return w, B, total


@thorough
@given(seed=seeds, sparse=st.booleans(), skip=st.integers(1, 9))
@often
def test_the_straightforward_fix_measures_on_the_next_example(seed, sparse, skip):
    problem, X, y, rng = make_problem(Log(), seed, 0.01, sparse)
    order = np.concatenate([rng.permutation(40), rng.permutation(40)])
    solver = Straightforward(problem, 0.3)
    solver.skip = float(skip)
    state = solver.start()
    total = sum(solver.sweep(part, state) for part in np.array_split(order, 3))
    w, B, expected = straightforward(X, y, order, 0.01, 0.3, skip)
    assume(np.abs(B).max() < 1e4)  # gains that jump that far leave no digit in common

    np.testing.assert_allclose(solver.solution(state)[0], w, rtol=0, atol=1e-6 * (1 + abs(w).max()))
    np.testing.assert_allclose(state.gains, B, rtol=1e-6)
    assert total == pytest.approx(expected, rel=1e-6)


def test_the_straightforward_fix_lets_gains_jump():
    """The middle of Figure 5: far beyond 1/λ, where a bound of curvatures from below would end."""
    problem, _, _, rng = make_problem(Log(), 3, 0.01, sparse=False)
    solver = Straightforward(problem, 0.3)
    solver.skip = 1.0
    state = solver.start()
    largest = 0.0
    for _ in range(100):
        solver.sweep(rng.permutation(40)[:4], state)
        largest = max(largest, state.gains.max())
    assert largest > 2 / 0.01


def test_every_tenth_feature_counts_from_one():
    assert np.flatnonzero(every_tenth(54)).tolist() == [9, 19, 29, 39, 49]


# ---------------------------------------------------------------------- paper 002, dense and sparse


@thorough
@given(seed=seeds, lam=st.sampled_from([1e-3, 0.01, 1.0]), centred=st.booleans())
@often
def test_dense_vectors_give_the_weights_of_the_sparse_solvers(seed, lam, centred):
    problem, X, y, rng = make_problem(Log(), seed, lam, sparse=True, fit_intercept=True)
    order = rng.permutation(40)
    mean = X.mean(axis=0) if centred else np.zeros(6)
    x, w, average = np.empty(6), np.zeros(7), np.zeros(7)
    if centred:
        dense_centred_epoch(problem.examples.rows, y, order, lam, mean, x, w, average)
    else:
        dense_averaged_epoch(problem.examples.rows, y, order, lam, w, average)

    solver = make_solver(problem, "casgd" if centred else "asgd", "inverse-t")
    state = solver.start()
    solver.sweep(order, state)
    coef, intercept = solver.solution(state)
    scale = 1e-9 * (1 + abs(average).max())
    np.testing.assert_allclose(average[:6], coef, rtol=0, atol=scale)
    assert average[6] - mean @ average[:6] == pytest.approx(intercept, abs=10 * scale)

    last, total = np.zeros(7), np.zeros(7)
    Z = np.column_stack([X - mean, np.ones(40)])
    for t, i in enumerate(order, start=1):
        slope = -y[i] * expit(-y[i] * (Z[i] @ last))
        last = (1 - 1 / t) * last - slope / (lam * t) * Z[i]
        total += last
    np.testing.assert_allclose(average, total / 40, rtol=0, atol=scale)
    np.testing.assert_allclose(w, last, rtol=0, atol=1e-9 * (1 + abs(last).max()))


@pytest.mark.parametrize("algorithm", ["ASGD, dense", "CASGD, dense"])
def test_the_study_records_the_difference_of_weights(algorithm):
    found = cost(algorithm, 200, 5, 300, 0)
    assert found["steps"] == 300
    assert 0 <= found["apart"] < 1e-9
    assert found["per_step"] > 0


def test_synthetic_rows_have_the_given_number_of_features():
    X, y = synthetic_rows(50, 30, 7)
    assert X.shape == (50, 30)
    for i in range(50):
        assert np.unique(X[i].indices).size == 7
    assert (y == 1).sum() == 25


# ------------------------------------------------------------------------------------ the next word

TEXT = "the cat saw the dog\nthe dog saw a cat\na dog and the cat and the dog saw the sun\n"


def counted():
    """Return the words, pairs of consecutive words, and counts of pairs, first and second words."""
    words = TEXT.replace("\n", " <eos> ").split()
    pairs = list(pairwise(words))
    return words, pairs, Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)


@pytest.fixture
def made_text(monkeypatch):
    monkeypatch.setattr(data, "_file", lambda name, extra: TEXT.encode())
    return data.next_word.__wrapped__  # without the cache


def test_words_are_numbered_by_how_often_they_occur(made_text):
    words, pairs, *_ = counted()
    X, y = made_text("made-up", 4)
    number = dict(zip((b for _, b in pairs), y.tolist(), strict=True)) | {"the": 0}
    often = Counter(words)
    ranked = sorted(number, key=number.__getitem__)
    assert ranked[0] == "the"
    assert all(often[a] >= often[b] for a, b in pairwise(ranked))
    assert [number[b] for _, b in pairs] == y.tolist()
    np.testing.assert_array_equal(X.indices, [min(number[a], 3) for a, _ in pairs])
    np.testing.assert_array_equal(X.toarray().sum(axis=1), 1)
    assert X.shape == (len(pairs), 4)


def test_bounds_are_the_entropies_of_words_and_of_pairs(made_text):
    _, pairs, together, first, second = counted()
    n = len(pairs)
    unigram, best = nextword.bounds(*made_text("made-up", 50))
    assert unigram == pytest.approx(-sum(k / n * log(k / n) for k in second.values()))
    assert best == pytest.approx(-sum(k / n * log(k / first[a]) for (a, _), k in together.items()))


@thorough
def test_the_log_loss_of_distinct_rows_is_that_of_all_rows(made_text):
    X, y = made_text("made-up", 50)
    X = X[:, :12].astype(np.float64).tocsr()
    model = SoftmaxClassifier(alpha=0.0, max_epochs=2, random_state=0).fit(X, y)
    codes = np.searchsorted(model.classes_, y)
    found = nextword.log_loss(model._fitted.weights, X, codes)
    assert found == pytest.approx(model.log_loss(X, y), rel=1e-6)
    expected = -log_softmax(model, X.toarray())[np.arange(y.size), codes].mean()
    assert found == pytest.approx(expected, rel=1e-5)
    assert found > nextword.bounds(X, y)[1]
