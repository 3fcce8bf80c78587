"""ONNX graphs, run by onnxruntime, against the models they were made from."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from monro import ChoiceModel, LinearClassifier, LinearRegressor, SoftmaxClassifier
from monro.softmax.model import Weights
from monro.softmax.training.continuation import SoftmaxFit
from tests.marks import thorough, thorough_unless

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install '.[onnx]'")
skl2onnx = pytest.importorskip("skl2onnx", reason="pip install '.[onnx]'")
from monro.onnx import to_onnx  # noqa: E402

X, y = load_digits(return_X_y=True)
X = np.ascontiguousarray(X / 16, np.float32)
NAMES = np.array([f"Ziffer {k} – ½" for k in range(10)])
by_link = pytest.mark.parametrize("link", ["probit", pytest.param("logistic", marks=thorough)])


def run(graph, X):
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: X})


def check_classifier(model, X, expected, *, double=False, tolerance=1e-5):
    X = X.astype(np.float64 if double else np.float32)
    label, values = run(to_onnx(model, double=double), X)
    assert values.dtype == X.dtype
    np.testing.assert_allclose(values, expected, atol=tolerance, rtol=tolerance)
    # In float32 the scores of two classes may be equal up to rounding.
    unequal = np.ptp(np.sort(expected, axis=1)[:, -2:], axis=1) > 1e-4
    assert unequal.mean() > 0.99
    assert label[unequal].tolist() == model.predict(X)[unequal].tolist()


def softmax(**parameters):
    usual = {"alpha": 0.0, "random_state": 0, "max_epochs": 3}
    return SoftmaxClassifier(**usual | parameters)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("labels", [y, y - 5, NAMES[y], NAMES.astype(object)[y], y > 4])
def test_softmax(labels, double):
    model = softmax(alpha=1e-3).fit(X, labels)
    check_classifier(model, X, model.predict_proba(X), double=double)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("labels", [y, pytest.param(y > 4, marks=thorough)])
@by_link
def test_the_other_links_by_quadrature(link, labels, double):
    model = softmax(
        solver="augment-reduce", link=link, examples_per_step=50, learning_rate=0.1
    ).fit(X, labels)
    assert model.predict_proba(X).max(axis=1).min() < 0.9
    tolerance = 1e-8 if double else 1e-5
    check_classifier(model, X, model.predict_proba(X), double=double, tolerance=tolerance)


def with_scores(link, n_classes):
    """Return a model whose scores equal its input."""
    model = softmax(solver="augment-reduce", link=link)
    model.fit(np.eye(n_classes, dtype=np.float32), np.arange(n_classes))
    weights = np.eye(n_classes, dtype=np.float32)
    zeros = np.zeros(n_classes)
    weights = Weights(weights, zeros, zeros + 1.0, np.arange(n_classes))
    model._fitted = SoftmaxFit(weights)
    return model


@cache
def five_classes(link):
    """Return a model of five classes whose scores are its input, and its graph."""
    model = with_scores(link, 5)
    return model, to_onnx(model, double=True)


@by_link
@given(st.lists(st.floats(-1000, 1000), min_size=5, max_size=5))
@settings(max_examples=50, deadline=None)
def test_quadrature_for_any_scores(link, scores):
    scores = np.array([scores])
    model, graph = five_classes(link)
    _, p = run(graph, scores)
    np.testing.assert_allclose(p, model.predict_proba(scores), atol=1e-7)


@by_link
def test_quadrature_with_many_alternatives(link):
    rng = np.random.default_rng(0)
    n_classes = 3000
    model = with_scores(link, n_classes)
    scores = rng.normal(size=(3, n_classes))
    scores[1] = 0.0  # all equal
    scores[2, 7] = 4.0
    _, p = run(to_onnx(model, double=True), scores)
    np.testing.assert_allclose(p, model.predict_proba(scores), atol=1e-10, rtol=1e-5)
    np.testing.assert_allclose(p[1], 1 / n_classes, rtol=1e-6)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("labels", [y, NAMES[y], y > 4])
def test_linear_classifier_with_probabilities(labels, double):
    model = LinearClassifier(loss="log", alpha=1e-5, random_state=0).fit(X, labels)
    check_classifier(model, X, model.predict_proba(X), double=double)


@pytest.mark.parametrize("loss", ["hinge", pytest.param("squared_hinge", marks=thorough)])
def test_linear_classifier_with_scores(loss):
    model = LinearClassifier(loss=loss, alpha=1e-5, random_state=0).fit(X, y)
    check_classifier(model, X, model.decision_function(X))
    model = LinearClassifier(loss=loss, alpha=1e-5, random_state=0).fit(X, y > 4)
    scores = model.decision_function(X)
    check_classifier(model, X, np.column_stack([-scores, scores]))


@pytest.mark.parametrize("double", [False, True])
def test_no_row_is_nan_if_all_classes_have_tiny_probabilities(double):
    model = LinearClassifier(loss="log", alpha=1e-5, random_state=0, max_epochs=1).fit(X, y)
    model.intercept_ = model.intercept_ - 2000.0
    rows = X[:20].astype(np.float64 if double else np.float32)
    _, p = run(to_onnx(model, double=double), rows)
    np.testing.assert_allclose(p, model.predict_proba(rows), atol=1e-8 if double else 1e-3)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(
    "loss",
    thorough_unless(
        lambda loss: loss in ("squared", "poisson"), ["squared", "absolute", "huber", "poisson"]
    ),
)
def test_regressor(loss, double):
    model = LinearRegressor(loss=loss, alpha=1e-5, random_state=0).fit(X, y)
    (value,) = run(to_onnx(model, double=double), X.astype(np.float64 if double else np.float32))
    assert value.shape == (len(X), 1)
    np.testing.assert_allclose(value[:, 0], model.predict(X), rtol=1e-5, atol=1e-5)


def test_a_sparsified_model():
    model = softmax().fit(sp.csr_matrix(X), y).sparsify()
    check_classifier(model, X, model.predict_proba(X))


def test_whole_numbers_as_input():
    whole = np.round(X * 16).astype(np.int64)
    model = softmax(alpha=1.0).fit(whole.astype(np.float32), y)
    graph = skl2onnx.to_onnx(model, whole[:1], options={"zipmap": False})
    _, p = run(graph, whole)
    np.testing.assert_allclose(p, model.predict_proba(whole), atol=1e-5)


def test_the_end_of_a_pipeline():
    model = make_pipeline(StandardScaler(), softmax(alpha=1e-2)).fit(X, y)
    graph = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    label, p = run(graph, X)
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-5)
    assert (label == model.predict(X)).mean() > 0.999


def test_from_text_to_probabilities():
    texts = np.array(["red apple", "green pear", "yellow banana", "green apple"] * 5)
    fruit = np.array([text.split()[1] for text in texts])
    words = TfidfVectorizer(lowercase=False)  # lower-casing would need a locale
    model = make_pipeline(words, softmax()).fit(texts, fruit)
    kind = skl2onnx.common.data_types.StringTensorType([None])
    graph = skl2onnx.to_onnx(
        model, initial_types=[("text", kind)], options={SoftmaxClassifier: {"zipmap": False}}
    )
    label, p = run(graph, texts)
    assert label.tolist() == fruit.tolist()
    np.testing.assert_allclose(p, model.predict_proba(texts), atol=1e-5)


def test_options_of_skl2onnx():
    model = softmax().fit(X, NAMES[y])
    graph = skl2onnx.to_onnx(model, X[:1])
    _, maps = run(graph, X[:2])
    assert set(maps[0]) == set(NAMES)
    graph = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False, "raw_scores": True})
    _, scores = run(graph, X)
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-4)
    graph = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False, "nocl": True})
    label, _ = run(graph, X)
    assert (NAMES[label] == model.predict(X)).mean() > 0.999


def test_messages():
    posterior = softmax(solver="augment-reduce", posterior="gaussian", alpha=1e-3).fit(X, y)
    with pytest.raises(ValueError, match="raw_scores"):
        to_onnx(posterior)
    label, _ = run(
        skl2onnx.to_onnx(posterior, X[:1], options={"zipmap": False, "raw_scores": True}), X
    )
    assert (label == posterior.decision_function(X).argmax(axis=1)).mean() > 0.999
    with pytest.raises(TypeError, match="ChoiceModel: only linear and softmax"):
        to_onnx(ChoiceModel())
    model = LinearClassifier(alpha=1e-5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="target_opset=15"):
        skl2onnx.to_onnx(model, X[:1], target_opset=15)
    model.classes_, model.n_features_in_ = np.arange(50_000), 64_000
    with pytest.raises(ValueError, match=r"64,000 features take 12\.8 GB: an ONNX file"):
        to_onnx(model)
