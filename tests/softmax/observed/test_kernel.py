"""A pass over rows, against dense NumPy steps on the scores of all classes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.rows import Sparse, as_rows
from monro.softmax.observed.kernel import (
    NOT_INSIDE,
    SCORE,
    ObservedState,
    Strengths,
    Targets,
    new_inside,
    visit,
)
from monro.softmax.observed.losses import independent_labels, joint_softmax
from monro.softmax.observed.pairs import LabelSets, observed_pairs
from tests.softmax.observed.helpers import label_matrix, loss_and_slopes, sparse_rows

OFTEN = settings(max_examples=60, deadline=None, derandomize=True)
KINDS = ["share", "one", "independent"]


def dense_pass(X, Y, mask, n_rows, order, weight, kind, model, l1, ridge, rate):
    """Steps on all weights of the mask; return losses, the model and slopes of the intercepts."""
    W, G, b = (part.copy() for part in model)
    losses, bias_slope = [], np.zeros(b.size)
    for i in order:
        loss, slopes = loss_and_slopes((X[i] @ W.T + b)[None], Y[i : i + 1], kind)
        g = weight[i] * slopes[0]
        losses.append(loss[0])
        bias_slope += g
        here = mask & (X[i] != 0)
        G[here] += np.outer(g, X[i])[here] ** 2
        h = rate / np.sqrt(G)
        moved = W - h * np.outer(g, X[i])
        threshold = h * l1 / n_rows
        soft = np.sign(moved) * np.maximum(np.abs(moved) - threshold, 0.0)
        W = np.where(here, soft / (1 + h * ridge / n_rows), W)
    return np.array(losses), (W, G), bias_slope


class Case:
    """A random problem on which lists lack some pairs, as those of an earlier batch do."""

    def __init__(self, seed, kind, spread=1.0):
        rng = np.random.default_rng(seed)
        self.kind, self.n, self.d, self.K = kind, *(int(rng.integers(2, m)) for m in (9, 7, 12))
        n, d, K = self.n, self.d, self.K
        self.X = sp.csr_matrix(sparse_rows(rng, n, d).multiply(np.arange(d) > 0))  # none has 0
        self.Y = label_matrix(rng, n, K, rng.choice([0.0, 0.3]))
        self.weight = rng.uniform(0.2, 2.0, n)
        known = rng.random(n) < 0.6  # the pairs of all other rows are missing
        known[0] = True
        rows = np.flatnonzero(known)
        self.sets = LabelSets.of_rows(sp.csr_array(self.Y))
        self.pairs = observed_pairs(self.X[rows], rows, self.sets, K)
        self.pairs = self.pairs._replace(
            rows=np.maximum(self.pairs.rows, 1) + rng.integers(3, size=d).astype(np.float32)
        )
        features = np.repeat(np.arange(d), np.diff(self.pairs.indptr))
        self.at = self.pairs.classes, features
        self.mask = np.zeros((K, d), bool)
        self.mask[self.at] = True
        self.W = spread * rng.standard_normal((K, d)) * self.mask
        self.G = rng.uniform(0.05, 1.0, (K, d))
        self.b = spread * rng.standard_normal(K)
        self.order = rng.permutation(n)

    def state(self, dtype):
        return ObservedState(
            self.W[self.at].astype(dtype),
            self.G[self.at].astype(dtype),
            self.b.astype(dtype),
            np.ones(self.K, dtype),
        )

    def run(self, l1, ridge, rate, *, dtype="float64", measure=False):
        number = np.dtype(dtype).type
        state, inside = self.state(dtype), new_inside(self.K, self.K, dtype)
        loss, outside = (independent_labels if self.kind == "independent" else joint_softmax)(
            state.bias
        )
        out = np.empty(self.n if measure else 0)
        y, weight = np.arange(self.n), self.weight.astype(dtype)
        total, m = visit(
            Sparse(*as_rows(self.X.astype(dtype))),
            self.order,
            self.pairs,
            Targets(y, self.sets, self.kind == "share", weight),
            loss,
            outside,
            Strengths(number(l1), number(ridge), number(rate)),
            state,
            inside,
            out,
        )
        assert (inside.of_class[:, SCORE] == NOT_INSIDE).all()
        return total, state, inside.bias_slope + m * outside.unit, out

    def expected(self, l1, ridge, rate):
        model = self.W, self.G, self.b
        n_rows, X = self.pairs.rows.astype(float), self.X.toarray()
        return dense_pass(
            X, self.Y, self.mask, n_rows, self.order, self.weight, self.kind, model, l1, ridge, rate
        )


def assert_close(found, expected, tolerance):
    bound = tolerance * (1 + np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=bound)


def check(case, strengths, dtype="float64", tolerance=1e-5):
    total, state, bias_slope, _ = case.run(*strengths, dtype=dtype)
    losses, (W, G), expected_slope = case.expected(*strengths)
    assert_close(total, case.weight[case.order] @ losses, tolerance)
    assert_close(state.w, W[case.at], tolerance)
    assert_close(state.gain, G[case.at], tolerance)
    assert_close(bias_slope, expected_slope, tolerance)
    np.testing.assert_array_equal(state.bias, case.b.astype(dtype))


@pytest.mark.parametrize("kind", KINDS)
@OFTEN
@given(
    seed=st.integers(0, 2**32),
    l1=st.sampled_from([0.0, 0.3, 5.0]),
    ridge=st.sampled_from([0.0, 0.2, 10.0]),
    rate=st.sampled_from([0.05, 0.5]),
)
def test_a_pass_takes_the_steps_of_all_classes(kind, seed, l1, ridge, rate):
    check(Case(seed, kind), (l1, ridge, rate))


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_in_single_precision(kind):
    for seed in range(20):
        check(Case(seed, kind), (0.1, 0.1, 0.2), "float32", 1e-3)


@pytest.mark.parametrize("kind", KINDS)
@OFTEN
@given(seed=st.integers(0, 2**32), spread=st.sampled_from([0.0, 1.0, 6.0, 30.0]))
def test_losses_are_those_of_all_classes_and_nothing_moves(kind, seed, spread):
    case = Case(seed, kind, spread)
    _, state, _, out = case.run(0.3, 0.3, 0.5, measure=True)
    S = case.X @ case.W.T + case.b
    losses, _ = loss_and_slopes(S, case.Y, kind)
    assert_close(out, losses[case.order], 1e-5)
    for part, before in zip(state, case.state("float64"), strict=True):
        np.testing.assert_array_equal(part, before)


# cancel.
def test_losses_where_the_largest_intercept_is_of_a_class_inside():
    """Feature 0 takes a class of a high intercept down to the others."""
    case = Case(0, "one")
    case.n, case.d, case.K, case.kind = 1, 1, 3, "one"
    case.X, case.Y = sp.csr_matrix([[1.0]]), np.array([[0, 1, 0]])
    case.weight, case.order = np.ones(1), np.arange(1)
    case.sets = LabelSets.of_rows(sp.csr_array(case.Y))
    case.pairs = observed_pairs(
        case.X, np.arange(1), LabelSets.of_rows(sp.csr_array([[1, 0, 0]])), 3
    )
    case.at = np.array([0]), np.array([0])
    case.W, case.G = np.array([[-60.0], [0.0], [0.0]]), np.ones((3, 1))
    case.b = np.array([0.0, -50.0, -50.0])
    *_, out = case.run(0.0, 0.0, 0.5, measure=True)
    np.testing.assert_allclose(out, np.log(2.0), rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_infinite_scores_write_nothing_beyond_the_classes(kind):
    n_features, K = 30, 2
    X = sp.csr_matrix(np.ones((1, n_features)))
    sets = LabelSets.of_rows(sp.csr_array(np.ones((1, K), int)))
    pairs = observed_pairs(X, np.arange(1), sets, K)
    bias = np.zeros(K)
    state = ObservedState(np.full(pairs.size, 1e308), np.ones(pairs.size), bias, np.ones(K))
    inside = new_inside(K, K, "float64")._replace(codes=np.full(1000, -7, np.int32))
    loss, outside = (independent_labels if kind == "independent" else joint_softmax)(bias)
    visit(
        Sparse(*as_rows(X)),
        np.arange(1),
        pairs,
        Targets(np.arange(1), sets, kind == "share", np.ones(1)),
        loss,
        outside,
        Strengths(np.float64(0), np.float64(0), np.float64(0)),
        state,
        inside._replace(z=np.zeros(1000)),
        np.empty(1),
    )
    assert (inside.codes[K + 1 :] == -7).all()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_known_feature_cost_what_the_intercepts_say(kind):
    case = Case(4, kind)
    case.X = sp.csr_matrix(case.X.shape)
    total, state, slope, _ = case.run(0.1, 0.1, 0.5)
    losses, slopes = loss_and_slopes(np.tile(case.b, (case.n, 1)), case.Y, kind)
    assert_close(total, case.weight @ losses, 1e-6)
    assert_close(slope, case.weight @ slopes, 1e-6)
    np.testing.assert_array_equal(state.w, case.W[case.at])


def test_long_lists_of_classes_are_gathered_in_parts():
    """A feature with more classes than are gathered at a time."""
    rng = np.random.default_rng(5)
    case = Case(0, "share")
    case.n, case.d, case.K = 3, 2, 1300
    case.X = sp.csr_matrix(rng.standard_normal((3, 2)))
    case.Y = (rng.random((3, case.K)) < 0.7).astype(int)
    case.weight, case.order = np.ones(3), np.arange(3)
    case.sets = LabelSets.of_rows(sp.csr_array(case.Y))
    case.pairs = observed_pairs(case.X, np.arange(3), case.sets, case.K)
    case.at = case.pairs.classes, np.repeat(np.arange(2), np.diff(case.pairs.indptr))
    case.mask = np.zeros((case.K, 2), bool)
    case.mask[case.at] = True
    case.W = rng.standard_normal(case.mask.shape) * case.mask
    case.G, case.b = np.full(case.mask.shape, 0.5), rng.standard_normal(case.K)
    assert np.diff(case.pairs.indptr).min() > 1024
    check(case, (0.1, 0.2, 0.3))
