"""svmlight and extreme-classification text, against scikit-learn's loader and their definitions."""

import gzip
import os
import threading
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from monro.data import files
from monro.data.read import Layout, read
from monro.errors import DataError
from tests.data.helpers import data_folder

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


def write(folder, text, name="data.svm"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def failure(folder, text, name="data.svm", **options):
    """Return the error message of reading a text, without the folder; it must be one line."""
    with pytest.raises(DataError) as caught:
        read(write(folder, text, name), **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(folder))
    return message.removeprefix(f"{folder}/")


# ---------------------------------------------------------------------------------------- svmlight


@given(
    rows=st.lists(
        st.tuples(finite, st.dictionaries(st.integers(0, 300), finite, max_size=8)),
        min_size=1,
        max_size=12,
    ),
    base=st.sampled_from([0, 1]),
    block=st.integers(1, 200),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_what_was_written_is_read(tmp_path_factory, rows, base, block):
    folder = tmp_path_factory.mktemp("svmlight")
    rows = [(float(base == 0), {0: 1.5}), *rows]  # so that the lowest feature reveals the base
    lines = [
        " ".join([repr(y), *(f"{k + base}:{v!r}" for k, v in sorted(x.items()))]) for y, x in rows
    ]
    path = write(folder, "\n".join(lines))
    size, files.BLOCK = files.BLOCK, block
    try:
        data = read(path)
    finally:
        files.BLOCK = size

    width = max(max(x, default=0) for _, x in rows) + 1
    dense = np.zeros((len(rows), width))
    for k, (_, x) in enumerate(rows):
        for column, value in x.items():
            dense[k, column] = value
    np.testing.assert_array_equal(data.X.toarray(), dense)
    np.testing.assert_array_equal(data.y, [y for y, _ in rows])
    assert data.layout == Layout(width, base)
    assert data.notes == (f"features are numbered from {base}",)


@pytest.mark.parametrize("zero_based", [True, False])
def test_the_same_as_scikit_learn(tmp_path, zero_based):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 80)) * (rng.random((500, 80)) < 0.1)
    X[0, 0] = 1.0
    X = sp.csr_matrix(X)
    y = rng.normal(size=500)
    path = tmp_path / "data.svm"
    dump_svmlight_file(
        X, y, str(path), zero_based=zero_based, query_id=np.arange(500), comment="hello"
    )
    peer_X, peer_y = load_svmlight_file(str(path), zero_based=zero_based)
    data = read(path)

    assert (peer_X != data.X).nnz == 0
    np.testing.assert_array_equal(data.y, peer_y)


@pytest.mark.parametrize(
    "name",
    ["rcv1/rcv1_ccat_train.svm.gz", "w8a/w8a.svm.gz", "ijcnn1/ijcnn1.svm.gz", "20news/test.svm.gz"],
)
def test_real_files_read_as_scikit_learn_reads_them(name):
    path = data_folder() / name
    peer_X, peer_y = load_svmlight_file(str(path), zero_based=False)
    data = read(path)

    np.testing.assert_array_equal(data.X.data, peer_X.data)
    np.testing.assert_array_equal(data.X.indices, peer_X.indices)
    np.testing.assert_array_equal(data.X.indptr, peer_X.indptr)
    np.testing.assert_array_equal(data.y, peer_y)


def test_comments_blank_lines_query_ids_and_white_space(tmp_path):
    text = "# a comment\n\n  \n+1 qid:7 1:2\t3:4   # more: 5:6\r\n"
    text += "-1\t2:.5#x\n1# nothing\n0 qid:8\n   \n"
    data = read(write(tmp_path, text))

    np.testing.assert_array_equal(data.X.toarray(), [[2, 0, 4], [0, 0.5, 0], [0] * 3, [0] * 3])
    assert data.y.tolist() == [1, -1, 1, 0]


def test_a_byte_order_mark_is_not_a_label(tmp_path):
    assert read(write(tmp_path, b"\xef\xbb\xbf1 1:2\n")).y.tolist() == [1]


def test_of_several_labels_the_lowest_counts(tmp_path):
    assert read(write(tmp_path, "7,3,9 1:1\n5 1:1\n")).y.tolist() == [3, 5]


def test_labels_that_are_not_whole_stay_floats(tmp_path):
    data = read(write(tmp_path, "1.5 1:1\n2 1:1\n"))
    assert data.y.tolist() == [1.5, 2.0]


def test_without_labels(tmp_path):
    data = read(write(tmp_path, "1:1 2:3\n 2:1\n"), labelled=False)
    assert data.y is None
    assert data.X.toarray().tolist() == [[1, 3], [0, 1]]


def test_the_layout_of_the_training_data_decides(tmp_path):
    path = write(tmp_path, "1 1:5 2:6\n")
    data = read(path, layout=Layout(4, 0))
    assert data.X.toarray().tolist() == [[0, 5, 6, 0]]
    assert "the feature 2 is none of the 2 numbered from 0" in failure(
        tmp_path, "1 1:5 2:6\n", layout=Layout(2, 0)
    )
    assert "the feature 0 is none of the 2 numbered from 1" in failure(
        tmp_path, "1 0:5\n", layout=Layout(2, 1)
    )


def test_the_number_of_features_can_be_given(tmp_path):
    assert read(write(tmp_path, "1 1:5\n"), n_features=10).X.shape == (1, 10)
    text = failure(tmp_path, "1 1:5\n1 11:1\n", n_features=10)
    assert text.startswith("data.svm, line 2: the feature 11 is none of the 10 numbered from 1")
    assert "give a higher number of features" in text


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("x 1:2", "the label 'x' is not a number; begin each line with a number"),
        ("1x 1:2", "the label '1x' is not a number"),
        ("1, 1:2", "the label '' is not a number"),
        ("3,1:2", "the label '1:2' is not a number"),
        ("1:2", "the line has no label; begin it with a number"),
        ("1 1", "'1' is no feature:value; write a whole number, a colon and a number"),
        ("1 a:2", "'a:2' is no feature:value"),
        ("1 1.5:2", "'1.5:2' is no feature:value"),
        ("1 -1:2", "'-1:2' has a negative feature number; number features from 0 or 1"),
        ("1 2147483647:2", "'2147483647:2' has a feature number above 2,147,483,646"),
        ("1 99999999999999999999:2", "has a feature number above 2,147,483,646"),
        (
            "1 1:",
            "the value of '1:' is not a number; give a finite number, or leave the feature out",
        ),
        ("1 1:x", "the value of '1:x' is not a number"),
        ("1 1:nan", "the value of '1:nan' is not a number"),
        ("1 1:inf", "the value of '1:inf' is not a number"),
        ("1 1:1e", "the value of '1:1e' is not a number"),
        ("1 1:2x", "'1:2x' follows a number without a blank; separate features by blanks"),
        ("1 1:2:3", "'1:2:3' follows a number without a blank"),
        ("1 1:1e999", "'1e999' is beyond the range of numbers; give values below 1e308"),
        ("1e999 1:1", "'1e999' is beyond the range of numbers"),
        ("1 2:1 1:1", "the feature '1:1' is repeated, or out of order; sort the features"),
        ("1 2:1 2:1", "the feature '2:1' is repeated, or out of order"),
        ("1 1:\xff", "is not a number"),
        ("1 1:1 \x00", "'\\x00' is no feature:value"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, what):
    text = failure(tmp_path, f"1 1:2\n\n# fine\n{line}\n1 1:2\n".encode("latin-1"))
    assert text.startswith("data.svm, line 4: ")
    assert what in text


def test_the_line_number_is_right_in_a_later_block_of_a_compressed_file(tmp_path):
    lines = [b"1 1:2 3:4\n"] * 2_000_000
    lines[1_700_000] = b"1 1:2 oops\n"
    path = tmp_path / "data.svm.gz"
    path.write_bytes(gzip.compress(b"".join(lines), 1))
    with pytest.raises(DataError, match=r"line 1700001: 'oops' is no feature:value"):
        read(path)


def test_a_malformed_line_in_the_middle_of_a_gigabyte(tmp_path):
    line = b"1 1:2 3:4 # " + b"a long comment " * 12 + b"\n"
    block = line * 50_000
    blocks = 10**9 // len(block) + 1
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write():
        with path.open("wb") as pipe, suppress(BrokenPipeError):
            for k in range(blocks):
                pipe.write(block if k != blocks // 2 else line * 7 + b"1 1:2 3;4\n" + block)

    threading.Thread(target=write, daemon=True).start()
    with pytest.raises(DataError, match="'3;4' is no feature:value") as caught:
        read(path)
    assert f"line {blocks // 2 * 50_000 + 8}:" in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_file_without_rows(tmp_path, text):
    assert failure(tmp_path, text) in (
        "data.svm: the file is empty",
        "data.svm: the file has no rows",
    )


def test_a_long_word_is_abbreviated(tmp_path):
    text = failure(tmp_path, "1 " + "x" * 10_000 + "\n")
    assert len(text) < 200


# ---------------------------------------------------------------------- extreme-classification text


def test_extreme_classification_text(tmp_path):
    data = read(write(tmp_path, "4 5 3\n2,0 0:1 4:2\n 1:3\n1:4 2:5\n1 3:6\n"))

    assert data.format == "extreme-classification text"
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 0, 0, 2], [0, 0, 0, 6, 0]])
    assert data.y.tolist() == [0, 1]
    assert data.layout == Layout(5, 0)
    assert "2 rows without a label were left out" in data.notes


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2 5 3\n0 0:1\n", "data.svm: the header says 2 rows, the file has 1"),
        ("1 5 3\n0 0:1\n1 0:1\n", "data.svm, line 3: the header says 1 rows, here is another"),
        ("1 5 3\n0 5:1\n", "data.svm, line 2: the feature 5 is none of 0…4"),
        ("1 5 3\n0,3 4:1\n", "data.svm, line 2: the label 3 is none of 0…2"),
        ("1 5 3\n0.5 4:1\n", "data.svm, line 2: the label 0.5 is none of 0…2"),
        ("1 5 3\n-1 4:1\n", "data.svm, line 2: the label -1 is none of 0…2"),
        ("1 5 3\n 4:1\n", "data.svm: no row has a label"),
        ("0 5 3\n", "data.svm: the file has no rows"),
    ],
)
def test_extreme_classification_text_that_contradicts_its_header(tmp_path, text, what):
    assert failure(tmp_path, text).startswith(what)


@pytest.mark.parametrize(
    ("name", "rows", "width", "unlabelled"),
    [
        ("bibtex/train", 4880, 1836, 0),
        ("delicious/train", 12920, 500, 10),
        ("delicious/test", 3185, 500, 4),
    ],
)
def test_real_extreme_classification_files(name, rows, width, unlabelled):
    data = read(data_folder() / f"{name}.xc.txt.gz")
    assert data.X.shape == (rows - unlabelled, width)
    assert data.y.dtype == np.int64
