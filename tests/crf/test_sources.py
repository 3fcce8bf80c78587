"""Sentences from files, chunks and tables."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monro import CRFTagger
from monro.errors import CheckpointError, DataError
from tests.crf.helpers import corpus

# --------------------------------------------------------------------------------- files of columns


def write(path, sentences, tags):
    path.write_text(
        "\n\n".join(
            "\n".join(f"{' '.join(token)} {tag}" for token, tag in zip(s, t, strict=True))
            for s, t in zip(sentences, tags, strict=True)
        )
        + "\n"
    )
    return path


@pytest.mark.parametrize("in_files", [False, True])
def test_a_file_is_the_same_as_its_sentences(in_files, tmp_path, monkeypatch):
    monkeypatch.setattr("monro.data.files.BLOCK", 200)
    sentences, tags = corpus(columns=2)
    path = write(tmp_path / "train.txt", sentences, tags)
    tagger = CRFTagger(c=1.0, random_state=0).fit(sentences, tags)
    options = {"folder": tmp_path} if in_files else {}
    other = CRFTagger(c=1.0, random_state=0).fit_file(path, **options)
    assert other.classes_.tolist() == tagger.classes_.tolist()
    if not in_files:  # which are read in another order
        assert other.state_features_ == tagger.state_features_
    assert other.predict(sentences) == tags
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.txt"]


def test_odd_files(tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("a X\nb\n")
    with pytest.raises(DataError, match="line 2: the line has 1 columns, those before it 2"):
        CRFTagger(c=1.0).fit_file(path)
    path.write_text("\n\n")
    with pytest.raises(DataError, match="the file has no sentences"):
        CRFTagger(c=1.0).fit_file(path)
    path.write_text("a X\n")
    with pytest.raises(DataError, match="asks for column 1, the tokens have columns 0 to 0"):
        CRFTagger(c=1.0, template="U:%x[0,1]\nB").fit_file(path)
    with pytest.raises(DataError, match="standard input cannot be read twice"):
        CRFTagger(c=1.0).fit_file("-")
    with pytest.raises(ValueError, match="there is no such folder"):
        CRFTagger(c=1.0).fit_file(path, folder=tmp_path / "none")


# ------------------------------------------------------------------------------- larger than memory


def weights_of(tagger):
    return [*tagger.state_features_.items(), *tagger.transition_features_.items()]


def in_chunks(sentences, tags, size=17):
    return ((sentences[k : k + size], tags[k : k + size]) for k in range(0, len(tags), size))


def as_table(sentences, tags):
    columns = {
        f"column{c}": [[token[c] for token in sentence] for sentence in sentences]
        for c in range(len(sentences[0][0]))
    }
    return pa.table(columns | {"tags": tags})


@pytest.mark.parametrize("known", [False, True])
def test_chunks_arrow_and_parquet_give_the_bits_of_lists(tmp_path, monkeypatch, known):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sentences, tags = corpus(columns=2)
    table = as_table(sentences, tags)
    folder = tmp_path / "parquet"
    folder.mkdir()
    pq.write_table(table.slice(0, 40), folder / "a.parquet")
    pq.write_table(table.slice(40), folder / "b.parquet")

    def fitted(*arguments):
        tagger = CRFTagger(c=1.0, random_state=0, max_epochs=4, warm_start=known)
        if known:  # with other tags and features
            tagger.fit([[("it", "t"), ("rains", "s")]], [["P", "V"]])
        return weights_of(tagger.fit(*arguments))

    expected = fitted(sentences, tags)
    assert fitted(in_chunks(sentences, tags)) == expected
    assert fitted(iter([([], []), (sentences, tags), ([[]], [[]])])) == expected
    for source in (table, table.to_reader(max_chunksize=9), folder, folder / "a.parquet"):
        found = fitted(source) if source != folder else fitted(str(folder), "tags")
        assert (found == expected) == (source != folder / "a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["parquet"]


def test_chunks_of_features():
    sentences, tags = corpus()
    lists = [[list(token) for token in sentence] for sentence in sentences]
    chunked = CRFTagger(c=1.0, random_state=0, max_epochs=3).fit(in_chunks(lists, tags))
    assert weights_of(chunked) == weights_of(
        CRFTagger(c=1.0, random_state=0, max_epochs=3).fit(lists, tags)
    )


def test_chunks_go_on_from_a_checkpoint(tmp_path):
    sentences, tags = corpus()
    path = tmp_path / "checkpoint"

    def fitted(epochs, checkpoint=None):
        tagger = CRFTagger(c=1.0, random_state=0, max_epochs=epochs)
        return weights_of(tagger.fit(in_chunks(sentences, tags), checkpoint=checkpoint))

    fitted(2, path)
    assert fitted(5, path) == fitted(5)
    with pytest.raises(CheckpointError, match="the data differs"):
        CRFTagger(c=1.0, random_state=0).fit(in_chunks(sentences[1:], tags[1:]), checkpoint=path)


@pytest.mark.parametrize(
    ("chunks", "what"),
    [
        ([], "there is no token to learn from"),
        ([([[]], [[]])], "there is no token to learn from"),
        ([[1]], r"chunk 0: a chunk is a pair \(sentences, tags\), here is list"),
        (
            [([["a"]], [["X"]]), ([["a"]], [["X", "Y"]])],
            "chunk 1: sentence 0: it has 1 tokens and 2",
        ),
        ([([["a"]], [["X"]]), ([[("a", "b")]], [["X"]])], "chunk 1: its tokens have 2 columns"),
        ([([["a"]], [["X"]]), ([[["a"]]], [["X"]])], "chunk 1: its tokens have features, those"),
        ([([["a"]], [[3]])], "chunk 0: sentence 0: a tag is a text"),
    ],
)
def test_odd_chunks(chunks, what):
    with pytest.raises(ValueError, match=what):
        CRFTagger(c=1.0).fit(iter(chunks))


def test_odd_tables(tmp_path):
    def failure(table, tags=None, **options):
        with pytest.raises(ValueError, match=r".") as caught:
            CRFTagger(c=1.0).fit(table, tags, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    table = pa.table({"word": [["a"], ["b", "c"]], "tags": [["X"], ["X"]]})
    assert "row 2, column 'word': there are 2 texts for 1 tags" in failure(table)
    assert "there is no column 'pos'; choose tags= from 'word', 'tags'" in failure(table, "pos")
    assert "no column besides the tags" in failure(table.select(["tags"]))
    table = pa.table({"word": [["a"], None], "tags": [["X"], ["X"]]})
    assert "row 2, column 'word': None is no list of texts" in failure(table)
    assert "there is no such file" in failure(tmp_path / "none.parquet")
    assert "with a list of sentences" in failure(table, sample_weight=[1.0])
