"""What a fitted SoftmaxClassifier shows, predicts and measures."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss, top_k_accuracy_score

from monro import SoftmaxClassifier
from tests.marks import thorough
from tests.softmax.data import (
    FORMS,
    SOLVERS,
    STREAMING,
    assert_same_bits,
    fitted,
    log_softmax,
    make_data,
)

# ------------------------------------------------------------------------------- shapes, predicting


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n_classes", "rows"), [(2, 1), (3, 3), (20, 20)])
def test_shapes(solver, n_classes, rows):
    X, y = make_data(n_classes=n_classes)
    model = fitted(X, y, solver=solver, max_epochs=2)

    assert model.coef_.shape == (rows, X.shape[1])
    assert model.intercept_.shape == (rows,)
    assert model.decision_function(X).shape == ((y.size,) if rows == 1 else (y.size, rows))
    assert model.predict_proba(X).shape == (y.size, n_classes)
    assert model.predict(X).shape == (y.size,)
    np.testing.assert_array_equal(model.classes_, np.arange(n_classes))


@pytest.mark.parametrize("n_classes", [2, 4, 20])
@pytest.mark.parametrize("trained_on", FORMS)
@pytest.mark.parametrize("asked_on", [*FORMS, sp.csr_array])
def test_predictions_follow_from_the_coefficients(n_classes, trained_on, asked_on):
    X, y = make_data(n_classes=n_classes)
    labels = np.array([f"class {k:02}" for k in range(n_classes)])
    model = fitted(trained_on(X), labels[y])
    scores = X @ model.coef_.astype(np.float64).T + model.intercept_
    log_proba = log_softmax(model, X)
    rows = asked_on(X)

    decision = model.decision_function(rows)
    np.testing.assert_allclose(decision, scores[:, 0] if n_classes == 2 else scores, atol=1e-5)
    np.testing.assert_allclose(model.predict_log_proba(rows), log_proba, atol=1e-5)
    proba = model.predict_proba(rows)
    np.testing.assert_allclose(proba, np.exp(log_proba), atol=1e-5)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), labels[proba.argmax(axis=1)])
    np.testing.assert_array_equal(model.predict(rows), labels[log_proba.argmax(axis=1)])


@pytest.mark.parametrize("n_classes", [2, 4, 20])
def test_measures_agree_with_their_definitions(n_classes):
    X, y = make_data(n_classes=n_classes)
    weight = np.random.default_rng(1).random(y.size)
    model = fitted(X, y)
    proba = model.predict_proba(X)
    found = model.evaluate(X, y, weight)

    assert model.log_loss(X, y, weight) == found["log_loss"]
    np.testing.assert_allclose(found["log_loss"], log_loss(y, proba, sample_weight=weight))
    np.testing.assert_allclose(1 - found["error"], model.score(X, y, weight))
    if n_classes > 5:
        accuracy = top_k_accuracy_score(y, proba, k=5, sample_weight=weight)
        np.testing.assert_allclose(1 - found["top_5_error"], accuracy)
    else:
        assert found["top_5_error"] == 0
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == y
    gaps = [
        abs(weight[inside] @ (right - confidence)[inside])
        for inside in (np.minimum((15 * confidence).astype(int), 14) == k for k in range(15))
    ]
    np.testing.assert_allclose(found["calibration_error"], np.sum(gaps) / weight.sum())


@pytest.mark.parametrize("k", [1, 3, 20, 50])
def test_the_k_likeliest_labels_come_best_first(k):
    X, y = make_data(n_classes=20)
    labels = np.array([f"class {k:02}" for k in range(20)])
    model = fitted(X, labels[y])
    top, log_proba = model.predict_top_k(X, k)
    every = model.predict_log_proba(X)
    order = np.argsort(-every, axis=1, kind="stable")[:, :k]

    assert top.shape == log_proba.shape == (y.size, min(k, 20))
    np.testing.assert_array_equal(top, labels[order])
    np.testing.assert_allclose(log_proba, np.take_along_axis(every, order, 1), rtol=1e-12)
    np.testing.assert_array_equal(top[:, 0], model.predict(X))


@pytest.mark.parametrize("form", FORMS)
def test_of_equal_scores_the_first_class_wins(form):
    X, y = make_data()
    nothing = form(np.zeros((3, X.shape[1])))
    model = fitted(form(X), y, fit_intercept=False)

    np.testing.assert_array_equal(model.predict(nothing), [0, 0, 0])
    np.testing.assert_array_equal(model.predict_top_k(nothing, 3)[0], [[0, 1, 2]] * 3)
    np.testing.assert_allclose(model.predict_proba(nothing), 0.25)


@pytest.mark.parametrize("unknown", [-1, 17, 2.5])
def test_a_label_the_model_does_not_know_is_named_with_its_row(unknown):
    X, y = make_data()
    model = fitted(X, y)
    targets = y.astype(np.asarray(unknown).dtype)
    targets[7] = unknown
    for measure in (model.log_loss, model.evaluate):
        with pytest.raises(ValueError, match=rf"^y: row 7 has the label {unknown}, which the mode"):
            measure(X, targets)


@pytest.mark.parametrize("solver", STREAMING)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_without_intercept_it_is_zero(solver, n_classes):
    X, y = make_data(n_classes=n_classes)
    model = fitted(X, y, solver=solver, fit_intercept=False, max_epochs=2)

    np.testing.assert_array_equal(model.intercept_, np.zeros(1 if n_classes == 2 else 4))
    assert model.log_loss(X, y) < np.log(n_classes)


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [-1, 1], [False, True], [2.0, 3.0], ["a", "bb", "ccc"], [30, 20, 10]],
)
def test_labels_are_only_names(labels):
    X, y = make_data(n_classes=len(labels))
    order = np.argsort(labels)
    plain = fitted(X, y)
    model = fitted(X, np.array(labels)[order][y])

    assert_same_bits(model, plain)
    np.testing.assert_array_equal(model.classes_, np.sort(labels))
    np.testing.assert_array_equal(model.predict(X), np.sort(labels)[plain.predict(X)])


def test_a_model_without_a_fit_has_no_coefficients():
    for name in ("coef_", "intercept_"):
        assert not hasattr(SoftmaxClassifier(alpha=0.0), name)


# -------------------------------------------------------------------------------- sparse weights


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("form", FORMS)
def test_sparse_weights_predict_the_same(n_classes, form):
    X, y = make_data(n_classes=n_classes)
    model = fitted(form(X), y)
    coef, expected = model.coef_, model.predict_log_proba(X)

    assert model.sparsify() is model
    assert sp.issparse(model.coef_)
    np.testing.assert_array_equal(model.coef_.toarray(), coef)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(model.predict_log_proba(rows), expected, atol=1e-6)
    assert model.sparsify().densify() is model
    np.testing.assert_array_equal(model.densify().coef_, coef)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, atol=1e-6)


@thorough
def test_sparse_weights_predict_in_double_precision_too():
    X, y = make_data()
    model = fitted(X.astype(np.float32), y)
    expected = model.predict_log_proba(X.astype(np.float32))
    found = model.sparsify().predict_log_proba(X.astype(np.float32))

    np.testing.assert_allclose(found, expected, rtol=1e-12)
