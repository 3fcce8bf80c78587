"""Peak memory of a fit, a prediction and a reader, in addition to their input.

NumPy reports every array to `tracemalloc`, so that peaks are the same on every machine. The memory
of a whole process, including cached files, is measured by ``python -m benchmarks larger``.
"""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from monro import CRFTagger, LinearClassifier, LinearRegressor, SoftmaxClassifier, load
from monro.data.read import read
from tests.marks import thorough

MB = 1e6


def peak(work):
    """Return the additional megabytes that a function takes at its peak, in its second call."""
    work()  # compiles
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / MB
    finally:
        tracemalloc.stop()


def sparse_rows(n, width, per_row):
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(width, size=(n, per_row), dtype=np.int32), axis=1)
    columns += np.arange(per_row, dtype=np.int32)  # distinct
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    shape = (n, width + per_row)
    return sp.csr_matrix((np.ones(n * per_row, np.float32), columns.ravel(), indptr), shape=shape)


def size(X):
    return (
        (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / MB
        if sp.issparse(X)
        else X.nbytes / MB
    )


@pytest.fixture(scope="module")
def wide():
    """80 MB of rows, 100,000 features."""
    X = sparse_rows(100_000, 100_000 - 100, 100)
    return X, X.indices[X.indptr[:-1]] % 2


@pytest.mark.parametrize("solver", ["dual", "aisgd", pytest.param("sgd", marks=thorough)])
def test_linear_models_do_not_copy_sparse_rows(wide, solver):
    X, y = wide
    assert size(X) > 80
    model = LinearClassifier(solver=solver, alpha=1e-5, max_epochs=2, random_state=0)
    # A few arrays of weights (8 bytes per feature) and of numbers (8 bytes per row).
    assert peak(lambda: model.fit(X, y)) < 12


@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=thorough), np.float64])
def test_linear_models_do_not_copy_dense_rows(dtype):
    X = np.random.default_rng(0).random((200_000, 20)).astype(dtype)
    model = LinearRegressor(alpha=1e-5, max_epochs=2, random_state=0)
    assert peak(lambda: model.fit(X, X[:, 0])) < 0.9 * size(X)


def test_softmax_needs_at_most_two_copies_of_its_weights():
    X = sparse_rows(20_000, 980, 20)
    y = np.random.default_rng(0).integers(10_000, size=20_000)
    model = SoftmaxClassifier(classes=range(10_000), alpha=0.0, max_epochs=2, random_state=0)
    weights = 4 * 10_000 * 1_000 / MB
    # The weights, and the table of labels by feature from which neighbours are drawn.
    assert peak(lambda: model.fit(X, y)) < 2 * weights + 40


def test_early_stopping_needs_one_more_copy_of_the_weights():
    X = sparse_rows(20_000, 980, 20)
    y = X.indices[X.indptr[:-1]]
    model = SoftmaxClassifier(
        classes=range(10_000),
        alpha=0.0,
        learning_rate=0.01,
        early_stopping=True,
        max_epochs=4,
        random_state=0,
    )
    weights = 4 * 10_000 * 1_000 / MB
    taken = peak(lambda: model.fit(X, y))
    losses = [record["validation_loss"] for record in model.history_]
    assert losses[1] < losses[0]  # the best epoch was kept more than once
    assert taken < 2 * weights + 40


@pytest.fixture(scope="module")
def many_classes():
    X = sparse_rows(20_000, 90, 10)
    y = np.random.default_rng(0).integers(5_000, size=20_000)
    model = SoftmaxClassifier(classes=range(5_000), alpha=0.0, max_epochs=1, random_state=0)
    return model.fit(X, y), X, y


@thorough
def test_evaluation_never_holds_rows_times_classes(many_classes):
    model, X, y = many_classes
    all_scores = 8 * X.shape[0] * 5_000 / MB
    assert all_scores == 800
    assert peak(lambda: model.log_loss(X, y)) < all_scores / 4
    assert peak(lambda: model.predict_top_k(X, 5)) < all_scores / 3
    assert peak(lambda: model.predict(X)) < all_scores / 4


def test_saving_and_loading_need_few_copies_of_the_weights(many_classes, tmp_path):
    model, _, _ = many_classes
    weights = 4 * 5_000 * 100 / MB
    path = tmp_path / "model.monro"
    assert peak(lambda: model.save(path)) < 2 * weights + 5
    assert peak(lambda: load(path)) < 3 * weights + 5


@pytest.mark.parametrize("c", [1.0, "auto"])
def test_tagging_needs_few_copies_of_its_weights(c):
    rng = np.random.default_rng(0)
    sentences = [[(f"word{k}",) for k in rng.integers(3_000, size=20)] for _ in range(500)]
    tags = [[f"tag{len(word[0]) % 4}" for word in sentence] for sentence in sentences]
    template = "U00:%x[0,0]\nB\n"
    model = CRFTagger(template=template, c=c, max_epochs=2, random_state=0)
    taken = peak(lambda: model.fit(sentences, tags))
    weights = 4 * 16 * model.n_features_ / MB
    assert taken < 4 * weights + 5


def test_reading_text_needs_few_copies_of_the_matrix(tmp_path):
    path = tmp_path / "rows.svm"
    with path.open("w") as file:
        for i in range(40_000):
            file.write(f"{i % 3} " + " ".join(f"{1 + j * 7 + i % 7}:0.5" for j in range(30)) + "\n")
    taken = peak(lambda: read(path))
    assert taken < 5 * size(read(path).X)


def test_predictions_keep_no_scores():
    n, classes = 500, 20_000
    X = sp.csr_matrix(np.ones((n, 2), np.float32))
    model = SoftmaxClassifier(classes=range(classes), max_epochs=1, alpha=0.0, learning_rate=1.0)
    model.fit(X, np.arange(n))
    scores = 8 * n * classes / MB
    assert scores == 80
    assert peak(lambda: model.predict(X)) < 3
    assert peak(lambda: model.predict_top_k(X, 5)) < 3
    assert peak(lambda: model.evaluate(X, np.arange(n))) < 3
