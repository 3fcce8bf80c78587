"""CoNLL files."""

import gzip

import pytest

from monro.data.conll import read_conll
from monro.errors import DataError
from tests.data.helpers import data_folder


def write(folder, text):
    path = folder / "data.conll"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_sentences_tokens_and_tags(tmp_path):
    text = "\n\nHe PRP B-NP\r\nsaw\tVBD  B-VP\n \n\nIt PRP B-NP"
    for content in (text.encode(), gzip.compress(text.encode())):
        sentences = read_conll(write(tmp_path, content))
        assert sentences.tokens == [[("He", "PRP"), ("saw", "VBD")], [("It", "PRP")]]
        assert sentences.tags == [["B-NP", "B-VP"], ["B-NP"]]


def test_only_blanks_and_tabs_separate_columns(tmp_path):
    sentences = read_conll(write(tmp_path, "10\u00a0000 A\r\n\u3000\tB\n"))
    assert sentences.tokens == [[("10\u00a0000",), ("\u3000",)]]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a b c\nd e\n", "line 2: the line has 2 columns, those before it 3; give every token"),
        ("\na\n", "line 2: the line has one column; give each token a word and a tag"),
        ("", "the file has no sentences"),
        ("\n \n", "the file has no sentences"),
        (b"a b\nc \xff\n", "line 2: the text is not UTF-8; convert it"),
    ],
)
def test_bad_files(tmp_path, text, what):
    with pytest.raises(DataError) as caught:
        read_conll(write(tmp_path, text))
    assert what in str(caught.value)


def test_conll2000():
    sentences = read_conll(data_folder() / "conll2000/train.txt.gz")
    assert len(sentences.tokens) == 8936
    assert sum(map(len, sentences.tokens)) == 211_727
    assert len({tag for tags in sentences.tags for tag in tags}) == 22
