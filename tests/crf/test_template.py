"""Templates, and the features they make."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.crf.encoding import Counts, Hashed, KeyTable
from monro.crf.feature_map import encode_all, in_blocks, make_map
from monro.crf.features import Extractor
from monro.crf.template import default_template, parse, read_template
from monro.crf.tokens import columns_of, given_features
from monro.data.conll import read_conll
from monro.errors import DataError
from tests.data.helpers import data_folder

CHUNKING = "\n".join(
    [
        *(f"U0{k}:%x[{row},0]" for k, row in enumerate(range(-2, 3))),
        "U05:%x[-1,0]/%x[0,0]",
        "U06:%x[0,0]/%x[1,0]",
        *(f"U1{k}:%x[{row},1]" for k, row in enumerate(range(-2, 3))),
        *(f"U1{k + 5}:%x[{row},1]/%x[{row + 1},1]" for k, row in enumerate(range(-2, 2))),
        *(
            f"U2{k}:%x[{row},1]/%x[{row + 1},1]/%x[{row + 2},1]"
            for k, row in enumerate(range(-2, 1))
        ),
        "B",
    ]
)
words = st.text("ab/_", min_size=1, max_size=2)
texts = st.lists(st.lists(st.tuples(words, words), max_size=5), min_size=1, max_size=4).filter(any)


def expansions(sentences, templates, of_pairs):
    """Return each token's features as texts, one template after the other."""
    rows = []
    for sentence in sentences:
        for t in range(len(sentence)):
            row = []
            for template in templates:
                if template.of_pairs != of_pairs:
                    continue
                text = template.texts[0]
                for (step, column), after in zip(template.places, template.texts[1:], strict=True):
                    at = t + step
                    if at < 0:
                        text += f"_B{at}"
                    elif at >= len(sentence):
                        text += f"_B+{at - len(sentence) + 1}"
                    else:
                        text += sentence[at][column]
                    text += after
                row.append(text)
            rows.append(row if not of_pairs or t > 0 else [])
    return rows


def features_of(sentences, templates, cutoff=1, **options):
    numbers = range(len(sentences))
    blocks = in_blocks(sentences, numbers, lambda part, at: columns_of(part, 2, at))
    options = {"cutoff": cutoff, "hash_bits": None} | options
    features = make_map(lambda: blocks, templates, 2, **options)
    return features, encode_all(blocks, features)


@given(sentences=texts, cutoff=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_features_are_the_texts_that_occur_often_enough(sentences, cutoff):
    templates = parse("U0:%x[-2,0]\nU1:%x[0,0]|%x[3,1]\nU2:const\nU3:%x[1,1]\nB\nB1:%x[-1,0]")
    features, data = features_of(sentences, templates, cutoff)
    for of_pairs, names, numbers, indptr in (
        (False, features.names, data.features, data.indptr),
        (True, features.pair_names, data.pairs, data.pair_indptr),
    ):
        rows = expansions(sentences, templates, of_pairs)
        counts = Counter(text for row in rows for text in row)
        kept = {text for text, count in counts.items() if count >= cutoff}
        assert sorted(names) == sorted(kept)
        for t, row in enumerate(rows):
            found = [names[k] for k in numbers[indptr[t] : indptr[t + 1]]]
            assert found == [text for text in row if text in kept]
    assert data.values.tolist() == [1.0] * data.features.size


def test_the_same_text_from_two_places_is_one_feature():
    templates = parse("U:%x[-1,0]\nU:%x[1,0]\nB")
    sentences = [[("a", "x"), ("b", "x"), ("a", "x")]]
    features, data = features_of(sentences, templates)
    assert sorted(features.names) == ["U:_B+1", "U:_B-1", "U:a", "U:b"]
    middle = data.features[data.indptr[1] : data.indptr[2]]
    assert [features.names[k] for k in middle] == ["U:a", "U:a"]


def test_blocks_make_the_same_features(monkeypatch):
    rng = np.random.default_rng(0)
    sentences = [
        [(f"w{rng.integers(30)}", f"p{rng.integers(4)}") for _ in range(rng.integers(6))]
        for _ in range(100)
    ]
    templates = parse(CHUNKING)
    whole = features_of(sentences, templates, cutoff=2)
    monkeypatch.setattr("monro.crf.feature_map._BLOCK", 7)
    parts = features_of(sentences, templates, cutoff=2)
    assert whole[0].names == parts[0].names
    assert whole[0].pair_names == parts[0].pair_names
    for a, b in zip(whole[1], parts[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_known_keeps_its_number():
    templates = parse("U:%x[0,0]\nB")
    first, _ = features_of([[("a", "x"), ("b", "x")]], templates)
    second, data = features_of([[("c", "x"), ("a", "x"), ("c", "x")]], templates, known=first)
    assert second.names == [*first.names, "U:c"]
    assert second.pair_names == ["B"]
    assert [second.names[k] for k in data.features] == ["U:c", "U:a", "U:c"]


def test_hashed_features_need_no_table():
    templates = parse("U:%x[0,0]\nB")
    sentences = [[(f"w{k}", "x") for k in range(1000)]]
    features, data = features_of(sentences, templates, hash_bits=6)
    assert features.single.size == 64
    assert isinstance(features.single, Hashed)
    assert features.names == []
    assert data.features.size == 1000
    assert np.bincount(data.features, minlength=64).min() > 0


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_tables_number_keys(n):
    keys = np.random.default_rng(0).integers(0, 2**64, n, dtype=np.uint64)
    if n:
        keys[0] = 0  # the mark of an empty place
    table = KeyTable(keys)
    assert table.numbers(keys).tolist() == list(range(n))
    assert table.numbers(keys + np.uint64(2)).tolist() == [-1] * n


def test_counts_grow_and_tell_where_a_key_was_first():
    rng = np.random.default_rng(0)
    keys = rng.integers(1, 30_000, 100_000).astype(np.uint64)
    counts = Counts()
    for part in np.array_split(keys, 7):
        counts.add(part)
    found, first = counts.frequent(4)
    expected = Counter(keys.tolist())
    assert {k: expected[k] for k in found.tolist()} == {k: v for k, v in expected.items() if v >= 4}
    numbers = [expected[k] for k in found.tolist()]
    assert numbers == sorted(numbers, reverse=True)
    where = {key: k for k, key in reversed(list(enumerate(keys.tolist())))}
    assert first.tolist() == [where[k] for k in found.tolist()]


def test_crfsuites_dicts_and_lists():
    token = {"w": "x", "n": 2.5, "b": True, "f": False, "in": {"a": "b", "c": 1.5}, "l": ["u", "v"]}
    names, values, indptr = given_features([[token, ["a", "b=c"]], [], [{"z"}]]).content
    assert names == ["w:x", "n", "b", "f", "in:a:b", "in:c", "l:u", "l:v", "a", "b=c", "z"]
    assert values.tolist() == [1.0, 2.5, 1.0, 0.0, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert indptr.tolist() == [0, 8, 10, 11]


def test_the_names_are_those_of_crfsuite():
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    token = {"w": "x", "n": 2.5, "b": True, "in": {"a": "b", "c": 1.5}, "l": ["u", "v"]}
    names, values, _ = given_features([[token]]).content
    (expected,) = pycrfsuite.ItemSequence([token]).items()
    assert dict(zip(names, values.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("sentences", "what"),
    [
        ([[("a", "b"), ("c",)]], "sentence 0, token 1: 1 columns where 2 are expected"),
        ([[("a", "b")], [["f"]]], r"sentence 1, token 0: \['f'\] is no tuple of columns"),
        ([[("a", 3)]], r"sentence 0, token 0: \('a', 3\) holds no texts alone"),
    ],
)
def test_odd_columns(sentences, what):
    with pytest.raises(ValueError, match=what):
        columns_of(sentences, None)


@pytest.mark.parametrize(
    ("token", "what"),
    [
        (("a",), "sentence 1, token 0: .* is no list of texts and no dict"),
        ("a", "sentence 1, token 0: .* is no list of texts and no dict"),
        ({"a": 10**400}, "sentence 1, token 0: .* is no list of texts and no dict"),
        ({"a": 1e300}, "sentence 1, token 0: a value is no finite number"),
        ({"a": None}, "sentence 1, token 0: .* is no list of texts and no dict"),
        ([1], "sentence 1, token 0: .* is no list of texts and no dict"),
        ({"a": float("nan")}, "sentence 1, token 0: a value is no finite number"),
    ],
)
def test_odd_features(token, what):
    with pytest.raises(ValueError, match=what):
        given_features([[["a"]], [token]])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("U0:%x[0,0]\nU1:%y[0,0]", r"template, line 2: 'U1:%y\[0,0\]' has an unknown macro"),
        ("U0:%x[0,0", r"line 1: 'U0:%x\[0,0' has an unknown macro; write %x\[row,column\]"),
        ("U0:%x[0,-1]", "line 1: .* has an unknown macro"),
        ("U0:%x[99999999999,0]", "line 1: .* has an unknown macro"),
        ("X0:%x[0,0]", "line 1: a template begins with U or B, this line with 'X'"),
        ("U:%x[0,0]\nU:%x[0,0]", "line 2: the line .* stands here twice"),
        ("# nothing\n", "the template has no lines"),
    ],
)
def test_odd_templates(text, what):
    with pytest.raises(DataError, match=what):
        parse(text)


def test_percent_signs_and_comments():
    (template, _) = parse("# a comment\n  \n  U:100%%x%x[ 0 , 0 ]  \nB")
    assert parse("U:%%x[0,0]")[0] == (("U:%x[0,0]",), ())
    assert template.texts == ("U:100%x", "")
    assert template.places == ((0, 0),)
    assert template.text == "U:100%%x%x[0,0]"
    assert parse(template.text) == [template]


def test_templates_are_files_or_texts(tmp_path):
    path = tmp_path / "template"
    path.write_text("U:%x[0,0]\nB\n")
    assert read_template(path) == read_template(str(path)) == read_template("U:%x[0,0]\nB")
    with pytest.raises(DataError, match="nowhere: there is no such file"):
        read_template("nowhere")
    path.write_text("U:%z[0,0]")
    with pytest.raises(DataError, match="template, line 1: "):
        read_template(path)


def test_a_column_that_is_not_there():
    with pytest.raises(
        DataError, match=r"U1:%x\[0,2\] asks for column 2, the tokens have columns 0"
    ):
        features_of([[("a", "b")]], parse("U0:%x[0,0]\nU1:%x[0,2]"))


def test_places_far_away_are_borders():
    features, _ = features_of([[("a", "b"), ("c", "d")]], parse("U:%x[-1000,0]\nU:%x[7,0]"))
    assert sorted(features.names) == ["U:_B+6", "U:_B+7", "U:_B-1000", "U:_B-999"]


def test_texts_among_tuples_are_columns():
    assert columns_of([[("the",), "dog"], ["a"]], None).content == [["the", "dog", "a"]]


def test_the_default_template_is_one():
    assert len(parse(default_template(3))) == 22


def test_conll_2000_has_as_many_features_as_crf_plus_plus_finds():
    sentences = read_conll(data_folder() / "conll2000/train.txt.gz").tokens
    features, data = features_of(sentences, parse(CHUNKING), cutoff=3)
    assert (features.single.size, features.pairs.size) == (76_328, 1)
    assert data.starts[-1] == 211_727


def test_no_two_of_its_features_have_the_same_hash():
    sentences = read_conll(data_folder() / "conll2000/test.txt.gz").tokens
    templates = parse(CHUNKING)
    keys = Extractor(templates).keys(columns_of(sentences, 2)).keys
    rows = expansions(sentences, templates, of_pairs=False)
    assert np.unique(keys).size == len({text for row in rows for text in row})
