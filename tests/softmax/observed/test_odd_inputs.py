"""Inputs at the edge of what is allowed."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from monro.data.convert import write_store
from tests.softmax.observed.helpers import (
    assert_same_bits,
    label_matrix,
    mask_of,
    objective_of,
    observed,
    one_hot,
    parts_of,
    sparse_rows,
)

QUICK = {"max_epochs": 3}


@pytest.mark.parametrize("several", [False, True])
def test_one_row_for_each_of_many_classes(several):
    """Each row has a feature of its own and one that 40 rows share."""
    K = 2_000
    rows, features = np.tile(np.arange(K), 2), np.append(np.arange(K), K + np.arange(K) // 40)
    X = sp.csr_matrix((np.ones(2 * K), (rows, features)), shape=(K, K + K // 40))
    y = sp.identity(K, format="csr") if several else np.arange(K)
    model = observed(max_epochs=20, alpha=1e-5).fit(X, y)
    assert (model.predict(X) == np.arange(K)).mean() > 0.95
    assert model.plan_["pairs"] == 2 * K


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_an_empty_row_has_the_scores_of_the_intercepts(kind):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(sparse_rows(rng, 30, 6).multiply((np.arange(30) % 5 > 0)[:, None]))
    Y = label_matrix(rng, 30, 4)
    model = observed(**QUICK).fit(X, Y.argmax(axis=1) if kind == "single" else Y)
    _, b = parts_of(model)
    np.testing.assert_allclose(model.decision_function(X)[0], b, rtol=1e-6)
    assert model.predict(X)[0] == b.argmax()
    assert model.predict_proba(sp.csr_matrix((3, 6))).shape == (3, 4)


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_rows_without_any_feature_learn_the_frequencies(kind):
    X, y = sp.csr_matrix((60, 5)), np.repeat([0, 1, 2], [30, 20, 10])
    model = observed(max_epochs=200).fit(X, y if kind == "single" else one_hot(y, 3))
    assert model.coef_.nnz == model.plan_["pairs"] == 0
    np.testing.assert_allclose(model.predict_proba(X)[0], [1 / 2, 1 / 3, 1 / 6], atol=0.05)


@pytest.mark.parametrize("kind", ["single", "share", "independent"])
def test_a_declared_class_without_rows(kind):
    rng = np.random.default_rng(1)
    X, Y = sparse_rows(rng, 40, 6), label_matrix(rng, 40, 4)
    labels = np.array(["fig", "kiwi", "lime", "plum"])
    if kind == "single":
        y = labels[Y.argmax(axis=1)]
        model = observed(classes=[*labels, "apple"], **QUICK).fit(X, y)
    else:
        Y = np.column_stack([np.zeros(40, int), Y])
        model = observed(classes=[*labels, "apple"], label_weight=kind, **QUICK).fit(X, Y)
    W, b = parts_of(model)
    assert model.classes_.tolist() == ["apple", *labels]
    assert not W[0].any()
    assert b[0] < b[1:].min()
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert (model.predict_proba(X)[:, 0] < 0.2).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_features_in_all_rows(dtype):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((80, 7)), np.arange(80) % 5
    model = observed(dtype=dtype, **QUICK).fit(X, y)
    assert model.plan_["pairs"] == 35
    assert model.coef_.dtype == dtype
    assert_same_bits(observed(dtype=dtype, **QUICK).fit(sp.csr_matrix(X), y), model)


def test_dense_rows_and_data_frames_are_as_sparse_ones():
    rng = np.random.default_rng(3)
    X, Y = sparse_rows(rng, 50, 6), label_matrix(rng, 50, 4)
    model = observed(**QUICK).fit(X, Y)
    assert_same_bits(observed(**QUICK).fit(X.toarray(), Y), model)
    assert_same_bits(observed(**QUICK).fit(sp.csc_matrix(X), sp.csr_matrix(Y)), model)
    frame = pd.DataFrame(X.toarray(), columns=list("abcdef"))
    named = observed(**QUICK).fit(frame, Y)
    assert_same_bits(named, model)
    np.testing.assert_array_equal(named.predict(frame), model.predict(X.toarray()))


def test_no_intercept_is_0():
    rng = np.random.default_rng(4)
    X, y = sparse_rows(rng, 50, 6), np.arange(50) % 4
    for labels in (y, one_hot(y, 4)):
        model = observed(fit_intercept=False, **QUICK).fit(X, labels)
        assert not parts_of(model)[1].any()
        model.partial_fit(X, labels)
        assert not parts_of(model)[1].any()


def test_two_classes():
    rng = np.random.default_rng(5)
    X, y = sparse_rows(rng, 60, 6), np.array(["no", "yes"])[np.arange(60) % 2]
    model = observed(**QUICK).fit(X, y)
    assert model.coef_.shape == (1, 6)
    S = np.asarray(X @ model.coef_.T.toarray()).ravel() + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), S, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), np.where(S > 0, "yes", "no"))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-S)), atol=1e-5)


def test_two_labels_of_their_own():
    rng = np.random.default_rng(6)
    X, Y = sparse_rows(rng, 60, 6), label_matrix(rng, 60, 2, 0.5)
    model = observed(**QUICK).fit(X, Y)
    assert model.predict_proba(X).shape == (60, 2)
    assert np.isfinite(model.evaluate(X, Y)["log_loss"])


def test_every_row_has_every_label():
    X, Y = sparse_rows(np.random.default_rng(7), 30, 5), np.ones((30, 4), int)
    for kind in ("share", "one", "independent"):
        model = observed(label_weight=kind, **QUICK).fit(X, Y)
        assert np.isfinite(model.predict_proba(X)).all()
    assert (model.predict_proba(X) > 0.5).all()


def test_a_single_row():
    X = sp.csr_matrix([[1.0, 0.0, 2.0]])
    model = observed(classes=range(3), **QUICK).fit(X, [1])
    assert model.predict(X).tolist() == [1]
    model = observed(**QUICK).fit(X, [[0, 1, 1]])
    assert model.predict(X)[0] in (1, 2)
    assert np.isfinite(model.evaluate(X, [[0, 1, 1]])["log_loss"])


def test_values_far_apart():
    rng = np.random.default_rng(8)
    X = sparse_rows(rng, 100, 8) @ sp.diags(10.0 ** np.arange(-6, 2))
    y = np.arange(100) % 3
    model = observed(max_epochs=10).fit(X, y)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert model.log_loss(X, y) < 1.1 * np.log(3)


def test_min_count_that_leaves_no_pair():
    rng = np.random.default_rng(9)
    X, y = sparse_rows(rng, 30, 6), np.arange(30) % 3
    model = observed(min_pair_count=1000, max_epochs=20).fit(X, y)
    assert model.coef_.nnz == 0
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=0.05)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_store_is_fitted_without_reading_it_into_memory(tmp_path, early_stopping):
    rng = np.random.default_rng(10)
    X, y = sparse_rows(rng, 300, 10).astype(np.float32), rng.integers(4, size=300)
    y[X.toarray()[:, 0] > 0] = 1
    store = tmp_path / "store"
    data = write_store([(X, y)], store)
    model = observed(early_stopping=early_stopping, alpha=0.01, max_epochs=50).fit(store)
    assert model.plan_["weights"] == "observed"
    mask = mask_of(X, one_hot(y, 4))
    assert ((parts_of(model)[0] != 0) <= mask).all()
    if not early_stopping:
        in_memory = observed(alpha=0.01, max_epochs=50).fit(X, y)
        one, two = (objective_of(m, X, one_hot(y, 4), "share") for m in (model, in_memory))
        np.testing.assert_allclose(one, two, rtol=0.01)
    assert np.isfinite(model.log_loss(data.X, np.asarray(data.y)))


def test_a_fit_does_not_change_its_arguments():
    rng = np.random.default_rng(11)
    X, Y = sparse_rows(rng, 50, 6), sp.csr_matrix(label_matrix(rng, 50, 4))
    weight = rng.random(50)
    before = X.copy(), Y.copy(), weight.copy()
    observed(scale=True, **QUICK).fit(X, Y, sample_weight=weight).partial_fit(X, Y)
    assert abs(X - before[0]).nnz == 0
    assert abs(Y - before[1]).nnz == 0
    np.testing.assert_array_equal(weight, before[2])


@pytest.mark.parametrize("several", [False, True])
def test_values_that_overflow_are_named(several):
    """As with other weights: the message says which row, and what to do."""
    rng = np.random.default_rng(12)
    X, y = rng.standard_normal((60, 5)), np.arange(60) % 3
    X[7, 2] = 1e25
    with pytest.raises(ValueError, match=r"row 7.*float32"):
        observed(alpha=1e-3).fit(sp.csr_matrix(X), one_hot(y, 3) if several else y)
