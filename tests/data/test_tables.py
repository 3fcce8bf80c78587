"""CSV, TSV and Parquet."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monro.data.read import Layout, read
from monro.errors import DataError
from tests.data.helpers import data_folder
from tests.marks import thorough


def write(folder, text, name="data.csv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def failure(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_a_table_with_a_header(tmp_path):
    data = read(write(tmp_path, "a,Label,b\n1,0,2.5\n-3,1,4e2\n"))

    np.testing.assert_array_equal(data.X, [[1, 2.5], [-3, 400]])
    assert data.y.tolist() == [0, 1]
    assert data.layout == Layout(2, 0, ("a", "b"), "Label")
    assert data.format == "CSV"
    assert data.notes == ("labels are in the column 'Label'",)


@pytest.mark.parametrize("name", ["data.tsv", "data.tsv.gz"])
def test_tabs_string_labels_and_compression(tmp_path, name):
    text = b"1\t0.5\tyes\n0\t1.5\tno\n"
    assert "'f2'" not in failure(write(tmp_path, b"x\ty\tlabel\n", "empty.tsv"))
    path = write(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    header = b"p\tq\tanswer\n"
    path.write_bytes(gzip.compress(header + text) if name.endswith("gz") else header + text)
    data = read(path, target="answer")
    assert data.y.tolist() == ["yes", "no"]


def test_a_first_line_of_numbers_is_a_row(tmp_path):
    data = read(write(tmp_path, "1,2\n3,4\n"), target="f1")
    np.testing.assert_array_equal(data.X, [[1], [3]])
    assert data.y.tolist() == [2, 4]


def test_a_model_s_columns_are_found_by_name(tmp_path):
    layout = Layout(2, 0, ("a", "b"), "label")
    data = read(write(tmp_path, "b,c,a\n1,2,3\n"), layout=layout, labelled=False)
    np.testing.assert_array_equal(data.X, [[3, 1]])
    assert data.y is None
    text = failure(write(tmp_path, "b,label\n1,2\n"), layout=layout)
    assert "the table has no column 'a', which the model was fitted on" in text


def test_parquet_of_both_precisions(tmp_path):
    path = tmp_path / "data.parquet"
    columns = {"x": np.array([1, 2], np.float32), "y": ["a", "b"]}
    pq.write_table(pa.table(columns), path)
    data = read(path)
    assert data.X.dtype == np.float32
    assert data.y.tolist() == ["a", "b"]
    assert data.format == "Parquet"
    pq.write_table(pa.table(columns | {"z": [1, 2], "flag": [True, False]}), path)
    data = read(path)
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, [[1, 1, 1], [2, 2, 0]])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,label\n1,0\n2\n", "line 3: the line has 1 columns, the first one 2"),
        ("a,label\n1,0\n2,1,3\n", "line 3: the line has 3 columns, the first one 2"),
        ("a,label\n1,0\nx,1\n", "line 3: column 'a': 'x' is not a number; encode it as numbers"),
        ("a,label\n1,0\n,1\n", "line 3: column 'a': the value is missing; fill it in"),
        ("a,label\n1,0\nnan,1\n", "line 3: column 'a': the value is"),
        ("a,label\n1,0\n2,\n", "line 3: column 'label': the label is missing; drop the row"),
        (
            "a,b\n1,2\n",
            "no column is named label, target, class or y; choose the labels with --target from a",
        ),
        ("y,label\n1,2\n", "more than one column is named"),
        ("a,a,label\n1,2,3\n", "line 1: two columns are named 'a'"),
        ("label\n1\n", "no column besides the labels"),
        ("a,label\n", "the table has no rows"),
        ("", "the file is empty"),
        ("a,label\n1,0\n\n\nx,1\n", "line 5: column 'a': 'x' is not a number"),
        ("a,label\n1,u\n2,\n3,v\n", "line 3: column 'label': the label is missing"),
        (b"a,label\n1,0\n2,\xff\n", "line 3: the text is not UTF-8; convert it"),
    ],
)
def test_bad_tables(tmp_path, text, what):
    assert what in failure(write(tmp_path, text))


def test_a_model_without_names_takes_columns_by_their_order(tmp_path):
    path = write(tmp_path, "p,q,label\n1,2,0\n")
    data = read(path, layout=Layout(2, 1), labelled=False)
    np.testing.assert_array_equal(data.X, [[1, 2]])
    assert "has 2 columns of features, the model 3" in failure(path, layout=Layout(3, 1))
    path = write(tmp_path, "p,q\n1,2\n")
    np.testing.assert_array_equal(read(path, layout=Layout(2, 1), labelled=False).X, [[1, 2]])


def test_a_byte_order_mark_and_blank_lines_in_front(tmp_path):
    data = read(write(tmp_path, b"\xef\xbb\xbf\n1\t2\n3\t4\n", "data.tsv"), target="f0")
    assert data.y.tolist() == [1, 3]


def test_options_that_are_not_for_tables(tmp_path):
    path = write(tmp_path, "a,label\n1,0\n")
    assert "a table's columns are its features" in failure(path, n_features=7)
    rows = write(tmp_path, "1 1:2\n", "rows.svm")
    assert "no table with a column to choose" in failure(rows, target="a")
    assert "this looks like a table" in failure(write(tmp_path, "a,b,label\n1,2,0\n", "rows.txt"))


def test_a_target_that_does_not_exist(tmp_path):
    text = failure(write(tmp_path, "a,b\n1,2\n"), target="c")
    assert "there is no column 'c'; choose from a, b" in text


def test_a_damaged_parquet_file(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": [1.0], "y": [1]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert "the Parquet file is damaged" in failure(path)


def test_a_missing_value_in_parquet_names_the_row(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": [1.0, None], "y": [1, 2]}), path)
    assert "row 2, column 'x': the value is missing" in failure(path)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'monro\[data\]'"):
        read(write(tmp_path, "a,label\n1,0\n"))


@thorough
def test_covtype():
    data = read(data_folder() / "covtype/covtype.csv.gz", target="Cover_Type")
    assert data.X.shape == (581_012, 54)
    assert np.bincount(data.y).tolist() == [0, 211840, 283301, 35754, 2747, 9493, 17367, 20510]
