"""Several labels a row: soft targets, precision and nDCG at k."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import ndcg_score

import monro
from monro import SoftmaxClassifier
from monro.softmax import scan as scan_module
from monro.softmax.metrics import evaluate_labels
from monro.softmax.model import Weights
from monro.softmax.multilabel import expand, is_indicator, read_indicator
from tests.softmax.data import FRUIT, SOLVERS, assert_same_bits, best

FEW = {"alpha": 0.0, "max_epochs": 3, "random_state": 0}


def tagged_rows(n=80, d=5, n_labels=4, seed=0):
    """Rows of none to all labels; every label occurs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, n_labels)) + rng.gumbel(size=(n, n_labels))
    Y = (scores > 0.7).astype(int)
    Y[0], Y[1], Y[2:6] = 1, 0, np.eye(4, n_labels)
    return X, Y


def by_hand(X, Y, weight=None):
    """Rows, labels and weights of one label each, by a loop."""
    weight = np.ones(len(Y)) if weight is None else weight
    triples = [
        (i, k, weight[i] * (1 / Y[i].sum())) for i in range(len(Y)) for k in np.flatnonzero(Y[i])
    ]
    rows, labels, weights = zip(*triples, strict=True)
    return X[list(rows)], np.array(labels), np.array(weights)


# ---------------------------------------------------------------------------------------- fitting


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_row_of_n_labels_is_n_examples_of_weight_one_nth(solver):
    X, Y = tagged_rows()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(Y))
    rows, y, weights = by_hand(X, Y, weight)
    assert len(y) > len(Y)
    settings = FEW | {"solver": solver, "class_weight": {0: 2.0, 1: 1.0, 2: 0.5, 3: 1.0}}
    model = SoftmaxClassifier(**settings).fit(X, Y, weight)
    assert_same_bits(model, SoftmaxClassifier(**settings).fit(rows, y, weights))


def test_balanced_classes_are_those_of_the_labels():
    X, Y = tagged_rows()
    rows, y, weights = by_hand(X, Y)
    model = SoftmaxClassifier(class_weight="balanced", **FEW)
    expected = SoftmaxClassifier(class_weight="balanced", **FEW).fit(rows, y, weights)
    assert_same_bits(model.fit(X, Y), expected)


@pytest.mark.parametrize(
    "kind",
    [
        lambda Y: Y.astype(bool),
        lambda Y: Y.astype(float),
        lambda Y: Y.tolist(),
        pd.DataFrame,
        sp.csr_matrix,
        sp.coo_array,
        sp.csc_array,
        lambda Y: sp.lil_matrix(Y.astype(bool)),
    ],
    ids=["bool", "float", "list", "frame", "csr", "coo", "csc", "lil"],
)
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
def test_all_kinds_of_matrices_give_the_same_bits(kind, rows):
    X, Y = tagged_rows()
    expected = SoftmaxClassifier(**FEW).fit(rows(X), Y)
    assert_same_bits(SoftmaxClassifier(**FEW).fit(rows(X), kind(Y)), expected)


def test_a_stored_zero_is_no_label_and_the_matrix_stays_as_it_was():
    Y = sp.csr_matrix(([1.0, 0.0, 1.0], [1, 0, 0], [0, 1, 3]), shape=(2, 2))
    assert expand(read_indicator(Y, 2))[0].tolist() == [0, 1]
    assert Y.nnz == 3
    assert Y.indices.tolist() == [1, 0, 0]


def test_the_gradient_is_that_of_soft_targets():
    X, Y = tagged_rows()
    model = best(X, Y, alpha=0.01, max_epochs=2000)
    labelled = Y.any(axis=1)
    X, targets = X[labelled], Y[labelled] / Y[labelled].sum(axis=1, keepdims=True)
    # Weights sum to the rows, not to the examples: the mean is over rows.
    gap = (model.predict_proba(X) - targets) / len(X)
    np.testing.assert_allclose(gap.T @ X, -0.01 * model.coef_, atol=2e-5)
    np.testing.assert_allclose(gap.sum(axis=0), 0.0, atol=2e-5)


def test_columns_are_numbered_or_named():
    X, Y = tagged_rows()
    numbered = SoftmaxClassifier(**FEW).fit(X, Y)
    assert numbered.classes_.tolist() == [0, 1, 2, 3]
    named = SoftmaxClassifier(classes=["pear", "fig", "kiwi", "plum"], **FEW).fit(X, Y)
    assert named.classes_.tolist() == ["fig", "kiwi", "pear", "plum"]
    np.testing.assert_array_equal(named.coef_, numbered.coef_)
    assert named.evaluate(X, Y) == numbered.evaluate(X, Y)


def test_a_column_without_a_label_is_a_class_never_seen():
    X, Y = tagged_rows()
    Y[:, 2] = 0
    rows, y, weights = by_hand(X, Y)
    model = SoftmaxClassifier(**FEW).fit(X, Y)
    expected = SoftmaxClassifier(classes=np.arange(4), **FEW).fit(rows, y, weights)
    assert_same_bits(model, expected)
    assert np.isfinite(model.coef_).all()


def test_one_column_is_a_vector():
    X, Y = tagged_rows()
    y = Y.argmax(axis=1)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = SoftmaxClassifier(**FEW).fit(X, y[:, None])
    assert_same_bits(model, SoftmaxClassifier(**FEW).fit(X, y))


def test_one_label_a_row_is_the_plain_problem():
    X, Y = tagged_rows()
    y = Y.argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SoftmaxClassifier(**FEW).fit(X, np.eye(4)[y])
    plain = SoftmaxClassifier(**FEW).fit(X, y)
    assert_same_bits(model, plain)
    assert model.log_loss(X, np.eye(4)[y]) == pytest.approx(plain.log_loss(X, y), rel=1e-14)


def test_a_saved_model_continues_its_training(tmp_path):
    X, Y = tagged_rows()
    model = SoftmaxClassifier(warm_start=True, **FEW).fit(X, Y)
    model.save(tmp_path / "model")
    assert_same_bits(monro.load(tmp_path / "model").fit(X, Y), model.fit(X, Y))


# ---------------------------------------------------------------------------------------- streams


def test_batches_of_several_labels():
    X, Y = tagged_rows()
    model, expected = SoftmaxClassifier(**FEW), SoftmaxClassifier(**FEW)
    for part in (slice(0, 40), slice(40, 80)):
        weight = np.linspace(1, 2, 40)
        rows, y, weights = by_hand(X[part], Y[part], weight)
        model.partial_fit(X[part], sp.csr_array(Y[part]), sample_weight=weight)
        expected.partial_fit(rows, y, classes=np.arange(4), sample_weight=weights)
    assert_same_bits(model, expected)


def test_more_columns_are_new_classes():
    X, Y = tagged_rows()
    model = SoftmaxClassifier(**FEW).partial_fit(X, Y[:, :3]).partial_fit(X, Y)
    assert model.classes_.tolist() == [0, 1, 2, 3]


def test_later_batches_have_the_columns_of_the_first():
    X, Y = tagged_rows()
    model = SoftmaxClassifier(**FEW).partial_fit(X, Y, classes=FRUIT[:4]).partial_fit(X, Y)
    assert model.classes_.tolist() == FRUIT[:4].tolist()
    with pytest.raises(ValueError, match="y: it has 3 columns for 4 classes"):
        model.partial_fit(X, Y[:, :3])


def test_rows_of_several_labels_have_no_sample_id():
    X, Y = tagged_rows()
    with pytest.raises(ValueError, match="sample_id: with a matrix of labels a row is several"):
        SoftmaxClassifier(**FEW).partial_fit(X, Y, sample_id=np.arange(80))


# ----------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("method", ["fit", "partial_fit", "evaluate", "log_loss"])
@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda Y: Y[:-1], "y: it has 79 rows, X has 80; give a row for each"),
        (lambda Y: 0 * Y, "y: no row has a label"),
        (lambda Y: Y + np.eye(80, 4, -7), "y: row 7 holds 2.0; a matrix of labels holds 1 where"),
        (lambda Y: Y - np.eye(80, 4), "y: row 1 holds -1.0; a matrix of labels"),
        (lambda Y: np.where(np.eye(80, 4, -7) > 0, np.nan, Y), "y: row 7 holds nan"),
    ],
    ids=["rows", "none", "two", "negative", "nan"],
)
def test_an_invalid_matrix_of_labels_is_refused(kind, method, spoil, complaint):
    X, Y = tagged_rows()
    Y[7, 0] = 1
    model = SoftmaxClassifier(**FEW).fit(X, Y)
    with pytest.raises(ValueError, match=complaint) as caught:
        getattr(model, method)(X, kind(spoil(Y)))
    assert "\n" not in str(caught.value)


def test_words_are_no_matrix_of_labels():
    X, _ = tagged_rows(n=6)
    with pytest.raises(ValueError, match="y: row 0 holds 'apple'"):
        SoftmaxClassifier(alpha=0.0).fit(X, np.column_stack([FRUIT, FRUIT]))


def test_a_sparse_column_is_too_few():
    X, Y = tagged_rows()
    with pytest.raises(ValueError, match="y: it has one column"):
        SoftmaxClassifier(alpha=0.0).fit(X, sp.csr_array(Y[:, :1]))


def test_columns_and_classes_must_be_as_many():
    X, Y = tagged_rows()
    with pytest.raises(ValueError, match="y: it has 4 columns for 6 classes; give one for each"):
        SoftmaxClassifier(classes=FRUIT, alpha=0.0).fit(X, Y)
    with pytest.raises(ValueError, match="y: it has 3 columns for 4 classes"):
        SoftmaxClassifier(**FEW).fit(X, Y).evaluate(X, Y[:, :3])


def test_a_weight_is_needed_where_there_is_a_label():
    X, Y = tagged_rows()
    weight = np.eye(80)[1]  # of the row without a label
    model = SoftmaxClassifier(**FEW)
    with pytest.raises(ValueError, match="leave no row a weight"):
        model.fit(X, Y, weight)
    with pytest.raises(ValueError, match="no row with a label has a weight"):
        model.fit(X, Y).evaluate(X, Y, weight)


@pytest.mark.parametrize("y", [[0, 1], [[0], [1]], ["a", "b"], sp.coo_array([0, 1]), None, 3])
def test_vectors_are_no_matrix_of_labels(y):
    assert not is_indicator(y)


# ------------------------------------------------------------------------------------- evaluation


def brute_force(S, Y, weight):
    """All measures, row by row and rank by rank."""
    rows = [i for i in range(len(Y)) if Y[i].any()]
    total = sum(weight[i] for i in rows)
    found = {"log_loss": 0.0}
    found |= {f"{name}_at_{k}": 0.0 for name in ("precision", "ndcg") for k in (1, 3, 5)}
    for i in rows:
        share = weight[i] / total
        found["log_loss"] -= share * log_softmax(S[i])[Y[i]].mean()
        ranked = sorted(range(S.shape[1]), key=lambda label, i=i: (-S[i, label], label))
        for k in (1, 3, 5):
            hits = [rank for rank, label in enumerate(ranked[:k], 1) if Y[i, label]]
            gained = sum(1 / np.log2(1 + rank) for rank in hits)
            most = sum(1 / np.log2(1 + rank) for rank in range(1, min(k, Y[i].sum()) + 1))
            found[f"precision_at_{k}"] += share * len(hits) / k
            found[f"ndcg_at_{k}"] += share * gained / most
    return found


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    n_classes=st.integers(2, 9),
    density=st.floats(0.05, 1.0),
    ties=st.booleans(),
)
def test_the_measures_are_those_of_a_loop(seed, n, n_classes, density, ties):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((n, 4)), rng.standard_normal((n_classes, 4))
    if ties:
        X, W = np.round(X), np.round(W)
    b = np.zeros(n_classes)
    Y = rng.random((n, n_classes)) < density
    Y[np.arange(n), rng.integers(n_classes, size=n)] = True
    weight = rng.uniform(0.1, 2.0, n)
    weights = Weights(W, b, np.ones(n_classes), np.arange(n_classes))
    found = evaluate_labels(weights, X, read_indicator(Y, n), weight)
    expected = brute_force(X @ W.T, Y, weight)
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("n_labels", [4, 12])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_model_is_measured_on_the_rows_with_a_label(n_labels, weighted, kind):
    X, Y = tagged_rows(n_labels=n_labels)
    assert not Y[1].any()
    weight = np.random.default_rng(2).uniform(0, 2, len(Y)) if weighted else None
    model = SoftmaxClassifier(**FEW).fit(kind(X), Y)
    found = model.evaluate(kind(X), kind(Y), weight)
    each = np.ones(len(Y)) if weight is None else weight
    expected = brute_force(model.decision_function(X), Y.astype(bool), each)
    assert found == pytest.approx(expected, rel=1e-9)
    assert model.log_loss(kind(X), kind(Y), weight) == found["log_loss"]


def test_ndcg_is_scikit_learns():
    rng = np.random.default_rng(3)
    X, Y = tagged_rows(n_labels=9)
    labelled = Y.any(axis=1)
    X, Y, weight = X[labelled], Y[labelled], rng.uniform(0.5, 2.0, labelled.sum())
    model = SoftmaxClassifier(**FEW).fit(X, Y)
    found = model.evaluate(X, Y, weight)
    for k in (1, 3, 5):
        expected = ndcg_score(Y, model.decision_function(X), k=k, sample_weight=weight)
        assert found[f"ndcg_at_{k}"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_chunks_and_threads_change_nothing(monkeypatch, n_jobs):
    X, Y = tagged_rows()
    model = SoftmaxClassifier(**FEW).fit(X, Y)
    whole = model.evaluate(X, Y)
    monkeypatch.setattr(scan_module, "_BATCH_ROWS", 7)
    monkeypatch.setattr(scan_module, "_BATCH_SCORES", 1)
    model.set_params(n_jobs=n_jobs)
    assert model.evaluate(X, Y) == pytest.approx(whole, rel=1e-13)


def test_precision_divides_by_k_where_there_are_fewer_classes():
    X, _ = tagged_rows()
    Y = np.ones((80, 2), int)
    found = SoftmaxClassifier(**FEW).fit(X, Y).evaluate(X, Y)
    assert found["precision_at_5"] == pytest.approx(2 / 5)
    assert found["ndcg_at_5"] == pytest.approx(1.0)
