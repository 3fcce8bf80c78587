"""Chunks, against the rules of the CoNLL script applied token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monro.crf.conlleval import evaluate, spans

TAGS = ["O", "B-A", "I-A", "B-B", "I-B", "E-A", "E-B", "S-A", "S-B"]
sentences = st.lists(st.lists(st.sampled_from(TAGS), max_size=8), max_size=4)
pairs = sentences.flatmap(
    lambda true: st.tuples(
        st.just(true),
        st.tuples(
            *(st.lists(st.sampled_from(TAGS), min_size=len(s), max_size=len(s)) for s in true)
        ).map(list),
    )
)


def walk(tags):
    """Return the chunks of a sentence: (first, last, type)."""
    found, begin, before, sort = [], None, "O", ""
    for t, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        ends = before != "O" and (before in "ES" or prefix in "OBS" or kind != sort)
        if ends:
            found.append((begin, t - 1, sort))
            begin = None
        if prefix != "O" and begin is None:
            begin = t
        before, sort = prefix, kind
    return found


def count(true, predicted):
    """Count chunks as the script does, in one walk along both columns."""
    correct = there = found = 0
    for a, b in zip(true, predicted, strict=True):
        chunks, others = walk(a), walk(b)
        there += len(chunks)
        found += len(others)
        correct += sum(chunk in chunks for chunk in others)
    return correct, found, there


@given(sentences)
def test_chunks_are_those_of_a_walk(tags):
    found = spans(tags, chunked=True)
    expected, begin = [], 0
    for sentence in tags:
        expected += [(begin + a, begin + b, kind) for a, b, kind in walk(sentence)]
        begin += len(sentence)
    parts = (part.tolist() for part in found)
    assert list(zip(*parts, strict=True)) == expected


@given(pairs)
def test_counts_are_those_of_a_walk(case):
    true, predicted = case
    result = evaluate(true, predicted)
    if any(tag != "O" for sentence in (*true, *predicted) for tag in sentence):
        assert result.overall == count(true, predicted)
    assert sum(counts.correct for counts in result.by_type.values()) == result.overall.correct
    assert sum(counts.found for counts in result.by_type.values()) == result.overall.found
    assert sum(counts.there for counts in result.by_type.values()) == result.overall.there


@pytest.mark.parametrize(
    ("tags", "chunks"),
    [
        (["I-A", "I-A"], [(0, 1, "A")]),  # inside after outside begins a chunk
        (["O", "I-A"], [(1, 1, "A")]),
        (["B-A", "I-B"], [(0, 0, "A"), (1, 1, "B")]),  # another type begins one, too
        (["B-A", "B-A"], [(0, 0, "A"), (1, 1, "A")]),
        (["B-A", "I-A", "E-A", "I-A"], [(0, 2, "A"), (3, 3, "A")]),
        (["S-A", "I-A"], [(0, 0, "A"), (1, 1, "A")]),
        (["B-A-X", "I-A-X"], [(0, 1, "A-X")]),  # a type may hold a dash
        (["B", "B-A"], [(0, 0, "B"), (1, 1, "A")]),
    ],
)
def test_adversarial_sequences(tags, chunks):
    parts = (part.tolist() for part in spans([tags]))
    assert list(zip(*parts, strict=True)) == chunks


def test_a_chunk_does_not_cross_a_border():
    assert spans([["B-A"], ["I-A"]]).first.tolist() == [0, 1]


def test_without_chunks_every_token_counts():
    result = evaluate([["N", "V", "O"]], [["N", "N", "O"]])
    assert result.overall == (1, 2, 2)
    assert result.accuracy == pytest.approx(2 / 3)


def test_nothing_found_and_nothing_there():
    result = evaluate([["O", "O"]], [["O", "O"]])
    assert (result.overall.f1, result.overall.precision, result.accuracy) == (0.0, 0.0, 1.0)
    assert evaluate([], []).overall.f1 == 0.0


def test_the_table():
    table = evaluate([["B-NP", "O", "B-VP"]], [["B-NP", "B-PP", "B-VP"]]).table()
    assert table.splitlines() == [
        "processed 3 tokens with 2 phrases; found: 3 phrases; correct: 2.",
        "accuracy:  66.67%; precision:  66.67%; recall: 100.00%; FB1:  80.00",
        "               NP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
        "               PP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1",
        "               VP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
    ]


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="there are 1 sentences of tags, and 2 predicted"):
        evaluate([["O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="sentence 0: it has 1 tags, and 2 are predicted"):
        evaluate([["O"]], [["O", "O"]])
