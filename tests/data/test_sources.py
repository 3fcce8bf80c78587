"""Sources of rows besides arrays: fits have the same bits as with arrays."""

import signal
import time

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from monro import LinearClassifier, LinearRegressor, SoftmaxClassifier
from monro.data.convert import write_store
from monro.data.store import open_store
from monro.errors import DataError
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import as_dtype, load_rows, row_chunks, select_rows, slice_mapped_rows
from monro.mapped.matrices import in_memory as loaded
from monro.mapped.page_requests import reading_rows
from tests import processes
from tests.marks import thorough, thorough_unless

MODELS = [
    LinearClassifier(loss="log", alpha=1e-5, random_state=0, max_epochs=3),
    LinearRegressor(alpha=1e-5, random_state=0, max_epochs=3),
    SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=3),
]
each_model = pytest.mark.parametrize(
    "model",
    thorough_unless(lambda model: not isinstance(model, LinearRegressor), MODELS),
    ids=lambda model: type(model).__name__,
)


def make_rows(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X, (X @ rng.normal(size=(d, 3))).argmax(axis=1)


def chunks_of(X, y, size=70):
    return ((X[k : k + size], y[k : k + size]) for k in range(0, y.size, size))


def coef_of(model):
    return np.concatenate([model.coef_.ravel(), model.intercept_])


def in_memory(model, chunks, folder, dtype=None):
    """Fit to the rows of a store in its order, given as arrays."""
    dtype = dtype or getattr(model, "dtype", "float64")
    data = write_store(chunks, folder / f"reference{dtype}", dtype=dtype)
    return coef_of(model.fit(loaded(data.X), data.y))


@each_model
def test_chunks_and_stores_give_the_bits_of_arrays(model, tmp_path):
    X, y = make_rows()
    expected = in_memory(model, chunks_of(X, y), tmp_path)
    np.testing.assert_array_equal(coef_of(model.fit(chunks_of(X, y))), expected)
    for dtype in ("float32", "float64"):  # for some models not the type of their weights
        expected = in_memory(model, chunks_of(X, y), tmp_path / "stores", dtype)
        store = tmp_path / "stores" / f"reference{dtype}"
        np.testing.assert_array_equal(coef_of(model.fit(store)), expected)
        np.testing.assert_array_equal(coef_of(model.fit(str(store))), expected)


@each_model
def test_arrow_and_parquet_give_the_bits_of_arrays(model, tmp_path):
    X, y = make_rows()
    names = list("abcdef")
    table = pa.table(dict(zip(names, X.T, strict=True)) | {"label": y})
    expected = in_memory(model, [(X, y)], tmp_path)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        pq.write_table(table.slice(100 * k, 100), folder / f"part{k}.parquet", row_group_size=40)
    for source in (table, reader, pyarrow.dataset.dataset(table)):
        np.testing.assert_array_equal(coef_of(model.fit(source, "label")), expected)
        assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 6
    split = in_memory(
        model,
        [(X[a : a + 100], y[a : a + 100]) for a in (0, 100, 200)],
        folder,
    )
    expected = {True: expected, False: split}
    for source in (folder, str(folder), pyarrow.dataset.dataset(sorted(folder.glob("*.parquet")))):
        found = coef_of(model.fit(source))
        assert any((found == each).all() for each in expected.values())


def test_a_table_with_separate_labels_is_treated_as_an_array():
    X, y = make_rows()
    table = pa.table(dict(zip("abcdef", X.T, strict=True)))
    model = LinearClassifier(alpha=1e-5, random_state=0).fit(table, y)
    np.testing.assert_array_equal(
        model.coef_, LinearClassifier(alpha=1e-5, random_state=0).fit(X, y).coef_
    )


def test_sparse_rows_and_words_from_arrow(tmp_path):
    X, y = make_rows()
    rows = sp.csr_matrix(X.astype(np.float32))
    words = np.array(["pear", "fig", "kiwi"])[y]
    table = pa.table(
        {
            "columns": np.split(rows.indices, rows.indptr[1:-1]),
            "values": np.split(rows.data, rows.indptr[1:-1]),
            "fruit": words,
        }
    )
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=3)
    expected = in_memory(model, [(rows, words)], tmp_path)
    np.testing.assert_array_equal(coef_of(model.fit(table, "fruit")), expected)
    assert model.classes_.tolist() == ["fig", "kiwi", "pear"]
    assert model.predict(rows[:2]).dtype.kind == "U"
    linear = LinearClassifier(alpha=1e-5, random_state=0, max_epochs=3, class_weight={"fig": 2.0})
    assert linear.fit(table, "fruit").classes_.tolist() == ["fig", "kiwi", "pear"]
    declared = SoftmaxClassifier(classes=["fig", "kiwi", "lime", "pear"], alpha=0.0, max_epochs=2)
    assert declared.fit(table, "fruit").coef_.shape == (4, 6)
    with pytest.raises(ValueError, match="has the label 'kiwi', which is not among classes"):
        SoftmaxClassifier(classes=["fig", "pear"], alpha=0.0).fit(table, "fruit")


def test_weights_of_a_store_are_in_its_order(tmp_path):
    X, y = make_rows()
    data = write_store([(X, y)], tmp_path / "store", dtype="float64")
    weight = np.random.default_rng(0).integers(3, size=y.size)
    rows = loaded(data.X)
    for model in MODELS:
        expected = coef_of(model.fit(rows, data.y, weight))
        np.testing.assert_array_equal(
            coef_of(model.fit(tmp_path / "store", None, weight)), expected
        )
    for source in (chunks_of(X, y), pa.table({"x": X[:, 0], "label": y})):
        with pytest.raises(ValueError, match="sample_weight: the rows are shuffled"):
            LinearClassifier(alpha=1e-5).fit(source, None, weight)


def test_early_stopping_holds_out_the_last_rows(tmp_path):
    X, y = make_rows()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=4, early_stopping=True)
    data = write_store([(X, y)], tmp_path / "store")
    model.fit(tmp_path / "store")
    # Before score scaling, the loss of these rows is the validation loss of the history.
    scores = model.decision_function(data.X[270:]) / model.history_[-1]["multiple"]
    own = scores[np.arange(30), np.searchsorted(model.classes_, data.y[270:])]
    held_out = (logsumexp(scores, axis=1) - own).mean()
    assert min(record["validation_loss"] for record in model.history_) == pytest.approx(held_out)


def test_temporary_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    X, y = make_rows()
    LinearClassifier(alpha=1e-5, random_state=0).fit(chunks_of(X, y))
    with pytest.raises(ValueError, match="part 1: X: row 3 holds NaN"):
        LinearClassifier(alpha=1e-5).fit(iter([(X, y), (np.where(X[3, 0] == X, np.nan, X), y)]))
    assert list(tmp_path.iterdir()) == []


def test_values_have_the_precision_of_the_first_chunk(monkeypatch):
    seen = []
    X, y = make_rows()

    def fit(self, rows, *rest):
        seen.append(rows.X.dtype)
        return self

    monkeypatch.setattr(LinearClassifier, "_fit", fit)
    for kind in (np.float32, np.float64, np.int8):
        LinearClassifier(alpha=1e-5).fit(chunks_of(X.astype(kind), y))
    assert seen == [np.float32, np.float64, np.float64]


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "lbfgs"},
        {"solver": "augment-reduce"},
        pytest.param({"examples_per_step": 5, "classes_per_step": 2}, marks=thorough),
    ],
    ids=lambda parameters: next(iter(parameters.values())),
)
def test_solvers_that_need_the_rows_in_memory_load_them(parameters, tmp_path):
    model = SoftmaxClassifier(alpha=0.0, **parameters, max_epochs=2, random_state=0)
    expected = in_memory(model, [make_rows()], tmp_path)
    found = coef_of(model.fit(tmp_path / "referencefloat32"))
    np.testing.assert_array_equal(found, expected)


def test_rows_are_selected_from_mapped_files(tmp_path):
    X, y = make_rows()
    kept = write_store([(X, y)], tmp_path / "store").X
    rows = np.array([7, 3, 299, 0, 7])
    for take in (select_rows, load_rows):
        np.testing.assert_array_equal(take(kept, rows).toarray(), kept.toarray()[rows])
    assert is_mapped(select_rows(kept, rows))
    single = as_dtype(kept, "float64")
    assert is_mapped(single)
    np.testing.assert_array_equal(single.toarray(), kept.toarray())
    parts = list(row_chunks(kept, 100))
    assert len(parts) > 5
    np.testing.assert_array_equal(sp.vstack(parts).toarray(), kept.toarray())
    part = slice_mapped_rows(kept, 100, 200)
    with reading_rows(part, np.array([5, 6, 99])):  # requests pages within the files only
        np.testing.assert_array_equal(part.toarray(), kept.toarray()[100:200])


# ------------------------------------------------------------------------------------------ kill -9


def long_fit(kind, checkpoint=None):
    rng = np.random.default_rng(0)
    X = sp.random_array((4_000, 300), density=0.05, rng=rng, format="csr")
    y = np.argmax(X @ rng.normal(size=(300, 20)), axis=1)
    source = chunks_of(X, y, 1000)
    if kind is SoftmaxClassifier:  # from Arrow, for variety
        lists = [np.split(part, X.indptr[1:-1]) for part in (X.indices, X.data)]
        source = pa.table({"columns": lists[0], "values": lists[1], "label": y})
    alpha = 1e-5 if kind is LinearClassifier else 0.0
    model = kind(alpha=alpha, random_state=0, max_epochs=60)
    return coef_of(model.fit(source, checkpoint=checkpoint))


@pytest.mark.parametrize(
    "kind", [pytest.param(LinearClassifier, marks=thorough), SoftmaxClassifier]
)
def test_a_killed_fit_resumes_and_ends_with_the_same_bits(kind, tmp_path):
    path = tmp_path / "checkpoint"
    process = processes.start(long_fit, kind, path)
    while process.is_alive() and not path.exists():
        time.sleep(0.01)
    process.kill()
    assert processes.status(process) in (0, -signal.SIGKILL)
    np.testing.assert_array_equal(long_fit(kind, path), long_fit(kind))


def test_messages(tmp_path):
    X, y = make_rows()

    def failure(*arguments):
        with pytest.raises(ValueError, match=r".") as caught:
            LinearClassifier(alpha=1e-5).fit(*arguments)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "there is no such file" in failure(tmp_path / "nowhere")
    assert "this is neither a store nor Parquet" in failure(tmp_path)
    write_store([(X, y)], tmp_path / "store")
    assert "a store has its own labels" in failure(tmp_path / "store", y)
    assert "there are no chunks" in failure(iter([]))
    assert "part 0: a chunk is a pair (X, y), here is ndarray" in failure(iter([X]))
    assert "leave y None" in failure(chunks_of(X, y), y)
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "t.parquet")
    assert "no column is named label" in failure(tmp_path / "t.parquet")
    assert "there is no column 'c'" in failure(tmp_path / "t.parquet", "c")
    assert "give the name of the column of labels" in failure(tmp_path / "t.parquet", y)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    assert "bad.parquet: the Parquet file is damaged" in failure(tmp_path / "bad.parquet")
    pq.write_table(pa.table({"a": [1.0, None], "y": [2, 3]}), tmp_path / "null.parquet")
    assert "null.parquet: row 2, column 'a': the value is missing" in failure(
        tmp_path / "null.parquet"
    )
    assert "requires y to be passed" in failure(X)
    store = write_store([(X, X[:, 0])], tmp_path / "numbers")
    assert store.y.dtype == np.float64
    assert "Unknown label type" in failure(tmp_path / "numbers")


def test_label_codes_outside_the_list_of_classes_are_detected(tmp_path):
    X, y = make_rows()
    write_store([(X, np.array(["a", "b", "c"])[y])], tmp_path / "store")
    labels = np.fromfile(tmp_path / "store" / "labels.bin")
    labels[7] = 3.0
    labels.tofile(tmp_path / "store" / "labels.bin")
    for action in (open_store, LinearClassifier(alpha=1e-5).fit):
        with pytest.raises(DataError, match="the store is damaged"):
            action(tmp_path / "store")
