"""Implicit steps on mini-batches against Newton's method on all variables of the problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.softmax.kernel.sweep import DrawnClasses
from monro.softmax.rules.implicit import Implicit
from monro.softmax.training.minibatch_step import make_batches, ridge_of_batches, take_step
from tests.softmax.helpers import (
    Model,
    assert_models_agree,
    draws,
    proximal_step,
    random_model,
    take,
)


def after(model, batch, drawn, weight, eta, ridge, damping):
    new = Model(*(part.copy() for part in model))
    take_step(batch, drawn, new.W, new.b, new.u, weight, eta, ridge, damping)
    return new


def expected_step(model, X, y, rows, drawn, weight, eta, ridge, damping):
    """Solve for everything at once, only the rows of the batch having a local variable."""
    K = model.b.size
    labels = np.unique(y[rows])
    C = np.zeros((rows.size, K))
    C[:, labels] = 1.0
    C[np.arange(rows.size), y[rows]] = 0.0
    C[:, drawn] = (K - labels.size) / max(1, drawn.size)
    part = model._replace(u=model.u[rows])
    rates = eta * weight[rows] / rows.size
    new = proximal_step(part, X[rows], y[rows], C, rates, ridge=eta * ridge, damping=damping)
    touched = np.append(labels, drawn)
    W, u = model.W.copy(), model.u.copy()
    W[touched], u[rows] = new.W[touched], new.u
    return Model(W, new.b, u)


@given(
    seed=st.integers(0, 2**32 - 1),
    log_eta=st.floats(-2, 2),
    n=st.sampled_from([1, 3, 5]),
    m=st.sampled_from([1, 2]),
    ridge=st.sampled_from([0.0, 0.3]),
    damping=st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_step_on_a_batch_is_the_minimiser_over_all_variables(seed, log_eta, n, m, ridge, damping):
    rng = np.random.default_rng(seed)
    K, d, N = 7, 4, 10
    X = rng.standard_normal((N, d))
    y = rng.integers(3, size=N)  # so that labels repeat
    model = random_model(rng, K, d, N)
    weight = 0.5 + rng.random(N)
    batch = make_batches(X, y, n)[1]
    drawn = rng.choice(np.setdiff1d(np.arange(K), batch.labels), m, replace=False)
    arguments = (drawn, weight, 10.0**log_eta, ridge * rng.random(K), damping)
    actual = after(model, batch, *arguments)
    expected = expected_step(model, X, y, batch.rows, *arguments)
    assert_models_agree(actual, expected, 1e-6)


@pytest.mark.parametrize("eta", [0.01, 1.0, 100.0])
def test_a_batch_of_one_example_and_one_class_is_the_implicit_rule(eta):
    rng = np.random.default_rng(0)
    K, d = 6, 3
    model = random_model(rng, K, d, 1)
    x, y, drawn = rng.standard_normal((1, d)), np.array([2]), np.array([4])
    ridge = rng.random(K)
    batch = after(model, make_batches(x, y, 1)[0], drawn, np.array([1.3]), eta, ridge, 0.2)
    rule, _ = take(
        Implicit(1e-6), model, x, y, draws(DrawnClasses, [4], K - 1), eta=eta, ridge=ridge,
        damping=0.2, weight=[1.3],
    )  # fmt: skip
    assert_models_agree(batch, rule, 1e-6)


def test_a_batch_whose_scores_are_far_too_large_is_solved_from_a_safe_start():
    rng = np.random.default_rng(1)
    K, d = 5, 3
    X = rng.standard_normal((4, d))
    y = np.array([0, 1, 0, 2])
    model = random_model(rng, K, d, 4, spread=60.0)
    arguments = (np.array([3]), np.ones(4), 1.0, np.zeros(K), 0.0)
    actual = after(model, make_batches(X, y, 4)[0], *arguments)
    expected = expected_step(model, X, y, np.arange(4), *arguments)
    assert_models_agree(actual, expected, 1e-6)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_a_batch_may_hold_all_classes_and_empty_rows(damping):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4, 3))
    X[1] = 0.0
    y = np.array([0, 1, 2, 0])
    model = random_model(rng, 3, 3, 4)
    arguments = (np.array([], int), np.ones(4), 2.0, np.full(3, 0.1), damping)
    actual = after(model, make_batches(X, y, 4)[0], *arguments)
    expected = expected_step(model, X, y, np.arange(4), *arguments)
    assert_models_agree(actual, expected, 1e-6)


@pytest.mark.parametrize("sparse", [True, False])
def test_batches_split_the_rows_and_span_them(sparse):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((11, 6))
    X[2] = X[1]  # of rank 3 only
    y = rng.integers(4, size=11)
    batches = make_batches(sp.csr_matrix(X) if sparse else X, y, 4)
    assert [batch.rows.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    for batch in batches:
        rank = batch.basis.shape[1]
        assert rank == (4 if batch.rows[0] == 4 else 3)
        np.testing.assert_allclose(batch.basis.T @ batch.basis, np.eye(rank), atol=1e-12)
        np.testing.assert_allclose(batch.coordinates @ batch.basis.T, X[batch.rows], atol=1e-12)
        np.testing.assert_array_equal(batch.labels[batch.label_index], y[batch.rows])


def test_the_ridge_of_a_class_is_divided_by_its_chance_to_be_touched():
    y = np.array([0, 0, 1, 2, 2, 2])
    batches = make_batches(np.eye(6), y, 2)  # labels {0}, {1, 2}, {2}
    m, K = 2, 5
    touched = [
        (1 + 2 / 3 + 2 / 4) / 3,
        (2 / 4 + 1 + 2 / 4) / 3,
        (2 / 4 + 1 + 1) / 3,
        (2 / 4 + 2 / 3 + 2 / 4) / 3,
        (2 / 4 + 2 / 3 + 2 / 4) / 3,
    ]
    np.testing.assert_allclose(ridge_of_batches(batches, K, m, 0.3), 0.3 / np.array(touched))
