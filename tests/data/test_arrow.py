"""Arrow tables as rows and labels."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from monro.data.arrow import rows_of_batch
from monro.data.tables import RowLocator


def failure(table, *arguments, **options):
    with pytest.raises(ValueError, match=r".") as caught:
        rows_of_batch(table, *arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_columns_of_numbers():
    table = pa.table({"a": [1, 2], "label": ["x", "y"], "b": [0.5, None], "c": [True, False]})
    assert "row 2, column 'b': the value is missing" in failure(table, "label")
    X, y = rows_of_batch(table, "label", ["c", "a"])
    np.testing.assert_array_equal(X, [[1, 1], [0, 2]])
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert y.tolist() == ["x", "y"]
    assert rows_of_batch(table, None, ["a"])[1] is None
    assert "it has 2 features, not 3" in failure(table, "label", ["c", "a"], 3)


def test_single_precision_stays_and_integers_stay_labels():
    table = pa.table({"y": pa.array([3, 1], pa.int8()), "a": pa.array([1, 2], pa.float32())})
    X, y = rows_of_batch(table, "y")
    assert X.dtype == np.float32
    assert y.dtype == np.int64


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), 3])
def test_vectors(kind):
    kind = pa.list_(pa.float64(), kind) if isinstance(kind, int) else kind
    vectors = np.arange(12.0).reshape(4, 3)
    column = pa.array(vectors.tolist(), kind)
    for batch in (
        pa.record_batch({"x": column, "y": [0, 1, 2, 3]}).slice(1),
        pa.table({"x": pa.chunked_array([column[1:2], column[2:]]), "y": [1, 2, 3]}),
    ):
        X, y = rows_of_batch(batch, "y")
        np.testing.assert_array_equal(X, vectors[1:])
        assert X.flags.c_contiguous
        assert y.tolist() == [1, 2, 3]


def test_tensors_are_vectors():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    table = pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(array)})
    np.testing.assert_array_equal(rows_of_batch(table, None)[0], array)


def test_vectors_must_have_equal_lengths_and_no_missing_values():
    table = pa.table({"x": [[1.0, 2.0], [3.0]]})
    assert "row 2, column 'x': the vector has 1 numbers, the first one 2" in failure(table, None)
    table = pa.table({"x": [[1.0, 2.0], None]})
    assert "row 2, column 'x': the list is missing" in failure(table, None)
    table = pa.table({"x": [[1.0], [2.0], [None]]})
    assert "row 3, column 'x': a value is missing" in failure(table, None)
    table = pa.table({"x": [[1.0], [float("nan")]]})
    assert "row 2, column 'x': a value is nan" in failure(table, None)
    table = pa.table({"x": [["word"]]})
    assert "row 1, column 'x': 'word' is not a number" in failure(table, None)


def test_sparse_rows_are_made_canonical():
    table = pa.table(
        {
            "value": [[1.0, 2.0, 4.0], [], [8.0]],
            "y": ["a", "b", "a"],
            "index": pa.array([[5, 0, 5], [], [1]], pa.list_(pa.uint16())),
        }
    )
    X, _ = rows_of_batch(table, "y")
    expected = [[2, 0, 0, 0, 0, 5], [0] * 6, [0, 8, 0, 0, 0, 0]]
    np.testing.assert_array_equal(X.toarray(), expected)
    assert sp.issparse(X)
    assert X.has_canonical_format
    assert X.indices.dtype == np.int32
    assert rows_of_batch(table, "y", n_features=9)[0].shape == (3, 9)
    X, _ = rows_of_batch(table, "y", ["index", "value"], 6)
    np.testing.assert_array_equal(X.toarray(), expected)
    message = failure(table, "y", n_features=5)
    assert "row 1, column 'index': the feature 5 is none of the 5 numbered from 0" in message


def test_indices_and_values_of_sparse_rows_must_match():
    table = pa.table({"i": [[0], [1, 2]], "v": [[1.0], [2.0]]})
    assert "row 2, column 'v': it has 1 values for 2 features of 'i'" in failure(table, None)
    table = pa.table({"i": [[0], [1]], "v": [[1], [2]]})
    assert "both hold integers" in failure(table, None)
    np.testing.assert_array_equal(rows_of_batch(table, None, ["v", "i"])[0].toarray()[0], [0, 0, 0])
    table = pa.table({"i": [[-1]], "v": [[1.0]]})
    assert "the feature -1 is none" in failure(table, None)
    table = pa.table({"i": [[0]], "v": [[1.0]], "w": [3]})
    assert "choose numbers, one column of vectors, or two" in failure(table, None)


def test_columns_must_exist():
    table = pa.table({"a": [1], "b": ["word"]})
    assert "there is no column 'c'" in failure(table, "c")
    assert "no column besides the labels" in failure(table.select(["a"]), "a")
    assert "row 1, column 'b': 'word' is not a number" in failure(table, "a")


def test_errors_locate_rows_within_the_whole_data_set():
    table = pa.table({"a": [1.0, float("inf")]})
    message = failure(table, None, locator=RowLocator("part.parquet", start=100))
    assert message.startswith("part.parquet: row 102, column 'a': the value is inf")
