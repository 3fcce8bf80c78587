"""Stores: the same rows in another order, on disk, and training from them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from monro import LinearClassifier
from monro.data.convert import convert, write_store
from monro.data.read import Data, Layout, read
from monro.data.store import map_store, open_store
from monro.errors import DataError
from tests.marks import thorough, thorough_unless


def make_file(folder, n=3000, d=50, name="data.svm"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.1)
    X[0, 0] = 1.0
    y = np.where(X @ rng.normal(size=d) > 0, 1, -1)
    path = folder / name
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


def sorted_rows(data):
    dense = np.column_stack([data.y, data.X.toarray()])
    return dense[np.lexsort(dense.T)]


@pytest.mark.parametrize("buckets", [1, 7])
def test_a_store_holds_the_same_rows_in_another_order(tmp_path, monkeypatch, buckets):
    monkeypatch.setattr("monro.data.convert.bucket_count", lambda _: buckets)
    path = make_file(tmp_path)
    data = read(path)
    kept = convert(path, tmp_path / "store", dtype="float64")

    assert kept.layout == data.layout
    np.testing.assert_array_equal(sorted_rows(kept), sorted_rows(data))
    assert (kept.y != data.y).any()
    assert isinstance(kept.X.data, np.memmap)
    assert sorted(p.name for p in (tmp_path / "store").iterdir()) == [
        "columns.bin",
        "ends.bin",
        "header.json",
        "labels.bin",
        "values.bin",
    ]
    reopened = read(tmp_path / "store")
    assert (reopened.X != kept.X).nnz == 0


@thorough
def test_every_position_is_equally_likely(tmp_path, monkeypatch):
    """In 600 shuffles of 6 rows by 3 buckets, row 0 gets each position about 100 times."""
    monkeypatch.setattr("monro.data.convert.bucket_count", lambda _: 3)
    path = tmp_path / "data.svm"
    path.write_text("".join(f"{k} 1:1\n" for k in range(6)))
    counts = np.zeros(6)
    for seed in range(600):
        kept = convert(path, tmp_path / f"store{seed}", seed=seed)
        counts[int(np.flatnonzero(kept.y == 0)[0])] += 1
    # χ² with 5 degrees of freedom: above 20.5 once in a thousand.
    assert np.sum((counts - 100) ** 2 / 100) < 20.5


def test_single_precision_is_the_default(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:0.1\n0 1:0.3\n")
    assert convert(path, tmp_path / "store").X.dtype == np.float32


def test_tables_with_words_for_labels(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b,label\n1,0,cat\n0,2,dog\n3,3,cat\n")
    kept = convert(path, tmp_path / "store")
    assert sorted(kept.y.tolist()) == ["cat", "cat", "dog"]
    assert kept.layout == Layout(2, 0, ("a", "b"), "label")
    by_row = dict(zip(map(tuple, kept.X.toarray().tolist()), kept.y.tolist(), strict=True))
    assert by_row == {(1.0, 0.0): "cat", (0.0, 2.0): "dog", (3.0, 3.0): "cat"}


def test_rows_without_labels_are_left_out(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("3 4 2\n1 0:1 2:2\n 1:3\n0 3:4\n")
    kept = convert(path, tmp_path / "store")
    assert sorted(map(tuple, kept.X.toarray().tolist())) == [(0, 0, 0, 4), (1, 0, 2, 0)]


def test_a_store_is_written_from_several_parts(tmp_path):
    rng = np.random.default_rng(0)
    parts = [
        (sp.csr_matrix(rng.integers(0, 3, size=(50, 4))), rng.normal(size=50)) for _ in range(3)
    ]
    kept = write_store(iter(parts), tmp_path / "store", dtype="float64")
    X = sp.vstack([X for X, _ in parts])
    whole = Data(X, np.concatenate([y for _, y in parts]), Layout(4), "")
    np.testing.assert_array_equal(sorted_rows(kept), sorted_rows(whole))
    with pytest.raises(ValueError, match=r"part 1: X has 4 columns, not 3"):
        write_store([(np.ones((2, 3)), [0, 1]), parts[0]], tmp_path / "other")
    with pytest.raises(ValueError, match=r"part 0: X has the shape \(2, 3\), y the shape \(1,\)"):
        write_store([(np.ones((2, 3)), [0])], tmp_path / "other")
    with pytest.raises(ValueError, match=r"part 1: X: row 1 holds NaN"):
        write_store([(np.eye(2), [0, 1]), ([[1, 2], [3, np.nan]], [0, 1])], tmp_path / "other")
    with pytest.raises(DataError, match="there are no rows"):
        write_store([], tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    "solver",
    thorough_unless(lambda solver: solver in ("auto", "dual"), ["auto", "sgd", "aisgd", "dual"]),
)
@pytest.mark.parametrize("early_stopping", [False, True])
def test_training_from_a_store_reaches_the_same_objective(tmp_path, solver, early_stopping):
    kept = convert(make_file(tmp_path), tmp_path / "store")
    X = sp.csr_matrix(kept.X.toarray())

    def objective(model):
        margin = kept.y * (X @ model.coef_[0] + model.intercept_[0])
        return np.maximum(0, 1 - margin).mean() + 1e-3 / 2 * np.sum(model.coef_**2)

    parameters = {"solver": solver, "alpha": 1e-3, "random_state": 0, "max_epochs": 20}
    on_disk = LinearClassifier(**parameters, early_stopping=early_stopping).fit(kept.X, kept.y)
    in_memory = LinearClassifier(**parameters).fit(X, kept.y)

    assert objective(on_disk) == pytest.approx(
        objective(in_memory), rel=0.2 if early_stopping else 0.01
    )
    np.testing.assert_array_equal(on_disk.predict(kept.X), on_disk.predict(X))


@thorough
def test_training_copies_neither_values_nor_columns(tmp_path):
    """A process with some 400 MB left to allocate trains on a store of 800 MB."""
    rows, per_row = 1_000_000, 100
    folder = tmp_path / "store"
    folder.mkdir()
    rng = np.random.default_rng(0)
    block = np.sort(
        rng.integers(0, 1000, size=(10_000, per_row)).astype(np.int32) * 100
        + np.arange(per_row, dtype=np.int32),
        axis=1,
    )
    with (
        (folder / "columns.bin").open("wb") as columns,
        (folder / "values.bin").open("wb") as values,
    ):
        for _ in range(rows // 10_000):
            block.tofile(columns)
            np.ones(block.size, np.float32).tofile(values)
    (np.arange(rows + 1) * per_row).tofile(folder / "ends.bin")
    (np.arange(rows) % 2).astype(float).tofile(folder / "labels.bin")
    header = {
        "monro": "store",
        "version": 1,
        "rows": rows,
        "nonzeros": rows * per_row,
        "dtype": "float32",
        "classes": None,
        "layout": Layout(100_100)._asdict(),
    }
    (folder / "header.json").write_text(json.dumps(header))
    script = f"""
import resource
from monro import LinearClassifier
from monro.data.store import map_store, open_store
data = open_store({str(folder)!r})
LinearClassifier(solver="dual", max_epochs=1, random_state=0).fit(data.X[:20], data.y[:20])
limit = 700 << 20  # Python, its libraries and thread stacks take some 300 of it
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
LinearClassifier(solver="dual", max_epochs=1, random_state=0).fit(data.X, data.y)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


# --------------------------------------------------------------------------------------- bad stores


def failure(action, *args, **options):
    with pytest.raises(DataError) as caught:
        action(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_old_store_is_not_overwritten(tmp_path):
    path = make_file(tmp_path)
    convert(path, tmp_path / "store")
    assert "it exists already; remove it" in failure(convert, path, tmp_path / "store")


def test_a_bad_file_leaves_nothing_behind(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:2\noops\n")
    assert "data.svm, line 2" in failure(convert, path, tmp_path / "store")
    assert [p.name for p in tmp_path.iterdir()] == ["data.svm"]


@pytest.mark.parametrize("name", ["values", "columns", "ends", "labels"])
def test_a_damaged_store_says_so(tmp_path, name):
    convert(make_file(tmp_path), tmp_path / "store")
    part = tmp_path / "store" / f"{name}.bin"
    part.write_bytes(part.read_bytes()[:-8])
    assert "the store is damaged; convert the data again" in failure(open_store, tmp_path / "store")
    part.unlink()
    assert "damaged" in failure(open_store, tmp_path / "store")


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"monro": "store", "version": 1}'])
def test_a_damaged_header_says_so(tmp_path, text):
    convert(make_file(tmp_path), tmp_path / "store")
    (tmp_path / "store" / "header.json").write_text(text)
    assert "damaged" in failure(open_store, tmp_path / "store")


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": 10**30},
        {"nonzeros": "x"},
        {"dtype": "object"},
        {"dtype": "float16"},
        {"classes": [1]},
        {"layout": {}},
        {"layout": []},
        {"layout": Layout(10**30)._asdict()},
        {"layout": Layout(0)._asdict()},
        {"layout": Layout(50, names=3)._asdict()},
    ],
    ids=str,
)
def test_a_header_that_makes_no_sense_says_so(tmp_path, change):
    convert(make_file(tmp_path), tmp_path / "store")
    path = tmp_path / "store" / "header.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert "damaged" in failure(open_store, tmp_path / "store")


def test_a_plain_folder_and_a_newer_store_are_errors(tmp_path):
    assert "not a store; make one with `monro data convert`" in failure(open_store, tmp_path)
    convert(make_file(tmp_path), tmp_path / "store")
    path = tmp_path / "store" / "header.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 9}))
    assert "version 9, this monro reads up to 1" in failure(open_store, tmp_path / "store")


def test_columns_out_of_bounds_are_found_before_a_kernel_uses_them(tmp_path):
    kept = convert(make_file(tmp_path), tmp_path / "store")
    columns = np.fromfile(tmp_path / "store" / "columns.bin", np.int32)
    columns[1234] = 10**9
    columns.tofile(tmp_path / "store" / "columns.bin")
    kept = open_store(tmp_path / "store")
    with pytest.raises(ValueError, match="column index 1000000000, outside 0…49"):
        LinearClassifier(alpha=1e-5).fit(kept.X, kept.y)


def test_a_store_that_does_not_fit_the_model(tmp_path):
    convert(make_file(tmp_path), tmp_path / "store")
    for layout, what in (
        (Layout(49, 1), "the store has 50 features, not 49"),
        (Layout(50, 0), "features are numbered from 1, the model's are not"),
        (Layout(50, 1, ("a",) * 50), "columns are not those the model was fitted on"),
    ):
        assert what in failure(open_store, tmp_path / "store", layout)
    assert "not 51" in failure(read, tmp_path / "store", n_features=51)


def test_the_first_feature_can_be_given(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:5\n0 2:6\n")
    kept = convert(path, tmp_path / "store", first_feature=0)
    assert sorted(kept.X.toarray().tolist()) == [[0, 0, 6], [0, 5, 0]]
    path.write_text("1 0:5\n")
    assert "numbered 0, below 1" in failure(convert, path, tmp_path / "other", first_feature=1)


def test_notes_say_what_was_decided(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("2 4 2\n1 0:1\n 1:3\n")
    assert convert(path, tmp_path / "store").notes == (
        "features are numbered from 0",
        "1 rows without a label were left out",
    )


def test_values_beyond_the_range_of_the_dtype_are_errors(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1e39\n")
    with pytest.raises(ValueError, match=r"dtype='float32': the value 1e\+39 is beyond its range"):
        convert(path, tmp_path / "store")
    assert convert(path, tmp_path / "store", dtype="float64").X.max() == 1e39
    with pytest.raises(ValueError, match="dtype='float16': choose"):
        convert(path, tmp_path / "other", dtype="float16")


@pytest.mark.parametrize("parts", [["ab", [0, 1]], [[0, 1], "ab"]])
def test_labels_of_strings_and_numbers_do_not_mix(tmp_path, parts):
    X = np.eye(2)
    with pytest.raises(ValueError, match=r"part 1: y: its labels are .*, those before it were"):
        write_store(((X, list(y)) for y in parts), tmp_path / "store")
    with pytest.raises(ValueError, match="part 0: y: give labels that are all texts, or all num"):
        write_store([(X, np.array(["a", 1], object))], tmp_path / "store")


def test_string_labels_and_widths_that_grow_over_several_parts(tmp_path):
    parts = [
        (sp.csr_matrix([[1.0]]), ["pear"]),
        (sp.csr_matrix((0, 7)), []),
        (sp.csr_matrix(([2.0, 3.0, 4.0], [2, 0, 2], [0, 3, 3]), shape=(2, 3)), ["fig", "kiwi"]),
        (sp.csr_matrix([[0.0, 5.0]]), np.array(["fig"], object)),
    ]
    kept = write_store(parts, tmp_path / "store")
    assert kept.X.shape == (4, 3)
    rows = zip(kept.y.tolist(), map(tuple, kept.X.toarray().tolist()), strict=True)
    assert sorted(rows) == [
        ("fig", (0, 5, 0)),
        ("fig", (3, 0, 6)),
        ("kiwi", (0, 0, 0)),
        ("pear", (1, 0, 0)),
    ]
    X, labels, _ = map_store(tmp_path / "store")
    classes, codes = labels.encode()
    assert classes.tolist() == ["fig", "kiwi", "pear"]
    np.testing.assert_array_equal(classes[codes], kept.y)
    assert codes.dtype == np.int32
    assert isinstance(X.indptr, np.memmap)


def test_buckets_that_grow_too_large_are_split(tmp_path, monkeypatch):
    monkeypatch.setattr("monro.data.buckets._BUCKET_BYTES", 100)
    monkeypatch.setattr("monro.data.buckets._DEFAULT_BUCKETS", 3)
    X = np.arange(1, 1001.0)[:, None]
    kept = write_store([(X[:500], X[:500, 0]), (X[500:], X[500:, 0])], tmp_path / "store")
    np.testing.assert_array_equal(np.sort(kept.y), X[:, 0])
    np.testing.assert_array_equal(kept.X.toarray()[:, 0], kept.y)
    assert np.abs(np.corrcoef(kept.y, np.arange(1000))[0, 1]) < 0.15


def test_labels_that_a_store_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match="below 2⁵³"):
        write_store([(np.eye(2), [0, 2**53 + 1])], tmp_path / "store")
    with pytest.raises(DataError, match="3,000,000,000 features are too many"):
        convert(make_file(tmp_path), tmp_path / "store", n_features=3_000_000_000)
