"""The observed pairs, against a loop over rows."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.data.convert import write_store
from monro.softmax.observed import pairs as pairs_module
from monro.softmax.observed.pairs import LabelSets, observed_pairs
from tests.softmax.observed.helpers import label_matrix, one_hot, sparse_rows

OFTEN = settings(max_examples=60, deadline=None, derandomize=True)


def by_hand(X, Y, min_count):
    """The classes of each feature, and the rows that have it, by a loop."""
    counts, rows = np.zeros((X.shape[1], Y.shape[1]), int), np.zeros(X.shape[1], int)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if X[i, j] != 0:
                rows[j] += 1
                counts[j] += Y[i]
    return [np.flatnonzero(each >= min_count).tolist() for each in counts], rows


def lists_of(pairs):
    return [each.tolist() for each in np.split(pairs.classes, pairs.indptr[1:-1])]


def with_stored_zeros(rng, X):
    """The same matrix with some of its zeros stored."""
    stored = (X != 0) | (rng.random(X.shape) < 0.2)
    rows, columns = np.nonzero(stored)
    return sp.csr_matrix((X[rows, columns], (rows, columns)), shape=X.shape)


@OFTEN
@given(
    seed=st.integers(0, 2**32),
    several=st.booleans(),
    min_count=st.integers(1, 3),
    products=st.sampled_from([1, 7, 1 << 26]),
)
def test_pairs_are_those_of_a_loop(seed, several, min_count, products):
    rng = np.random.default_rng(seed)
    n, d, K = rng.integers(1, 12, 3)
    X = sparse_rows(rng, n, d).toarray()
    if several:
        Y = label_matrix(rng, n, K)
        targets, sets = np.arange(n), LabelSets.of_rows(sp.csr_array(Y))
    else:
        targets, sets = rng.integers(K, size=n), LabelSets.single(K)
        Y = one_hot(targets, K)
    before, pairs_module._MOST_PRODUCTS = pairs_module._MOST_PRODUCTS, products
    try:
        found = observed_pairs(with_stored_zeros(rng, X), targets, sets, K, min_count)
    finally:
        pairs_module._MOST_PRODUCTS = before
    lists, rows = by_hand(X, Y, min_count)
    assert lists_of(found) == lists
    assert found.size == sum(map(len, lists))
    np.testing.assert_array_equal(found.rows, rows)


def test_targets_choose_among_the_label_sets():
    """Rows held out leave the others with the numbers of their label sets."""
    rng = np.random.default_rng(0)
    X, Y = sparse_rows(rng, 20, 6), label_matrix(rng, 20, 5)
    rows = np.array([3, 17, 8, 9])
    found = observed_pairs(X[rows], rows, LabelSets.of_rows(sp.csr_array(Y)), 5)
    assert lists_of(found) == by_hand(X[rows].toarray(), Y[rows], 1)[0]


def test_pairs_of_a_store_are_those_of_its_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    X = sparse_rows(rng, 40, 9, 0.3).astype(np.float32)
    y = np.append(np.arange(4), rng.integers(4, size=36))
    data = write_store([(X, y)], tmp_path / "store")
    monkeypatch.setattr(pairs_module, "_MOST_PRODUCTS", 11)
    found = observed_pairs(data.X, np.asarray(data.y), LabelSets.single(4), 4)
    # The rows of a store are in another order.
    assert lists_of(found) == by_hand(X.toarray(), one_hot(y, 4), 1)[0]
