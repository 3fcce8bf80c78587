"""The forward-backward algorithm and decoding, against sums over all sequences of tags."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.blocks import n_lanes
from monro.crf.chain import all_allowed
from monro.crf.decode import (
    additive_mask,
    best_sequences,
    chunk_rules,
    marginals,
    sentence_scores,
    viterbi,
)
from monro.crf.problem import make_scratch, sentence_parts, total_loss
from monro.crf.sgd import Steps, sgd_sweep
from monro.crf.weights import as_tables, as_weights
from tests.crf.helpers import (
    all_sequences,
    in_precision,
    log_partition,
    loss,
    numeric_gradient,
    random_chains,
    scores,
)
from tests.marks import thorough

TOLERANCE = {"float64": 1e-10, "float32": 2e-5}
cases = st.tuples(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    st.integers(1, 4),
    st.sampled_from([0.1, 1.0, 5.0]),
)


def best_of(data, weights, n_tags, allowed=None):
    scratch = make_scratch(data, n_tags, "float64")
    y = np.zeros(data.starts[-1], np.int32)
    back = np.zeros(scratch.E.shape, np.int32)
    mask = additive_mask(allowed or all_allowed(n_tags, "float64"))
    viterbi(data, weights, mask, scratch, back, y)
    return y


def marginals_of(data, weights, n_tags, allowed=None, dtype="float64"):
    scratch = make_scratch(data, n_tags, dtype)
    n = int(data.starts[-1])
    out = np.zeros((n, n_tags))
    allowed = allowed or all_allowed(n_tags, dtype)
    marginals(data, np.zeros(n, np.int32), weights, allowed, scratch, out)
    return out


def total(data, y, weights, n_tags, dtype):
    n = data.starts.size - 1
    scratch = make_scratch(data, n_tags, dtype)
    arguments = (np.ones(n), np.arange(n), weights, all_allowed(n_tags, dtype), scratch)
    return total_loss(data, y, *arguments)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(case=cases)
@settings(max_examples=40, deadline=None)
def test_the_loss_is_that_of_all_sequences(dtype, case):
    seed, lengths, n_tags, size = case
    data, y, state, pair = random_chains(np.random.default_rng(seed), lengths, n_tags, size=size)
    chains, weights = in_precision(data, state, pair, dtype)
    found = total(chains, y, weights, n_tags, dtype)
    expected = loss(data, y, state, pair)
    assert found == pytest.approx(expected, abs=TOLERANCE[dtype] * 100 * size)


@given(case=cases)
@settings(max_examples=40, deadline=None)
def test_marginals_and_the_best_sequence(case):
    seed, lengths, n_tags, size = case
    data, _, state, pair = random_chains(np.random.default_rng(seed), lengths, n_tags, size=size)
    data, weights = in_precision(data, state, pair, "float64")
    p = marginals_of(data, weights, n_tags)
    best = best_of(data, weights, n_tags)
    for s in range(len(lengths)):
        first, stop = data.starts[s], data.starts[s + 1]
        if first == stop:
            continue
        sequences = all_sequences(*scores(data, s, state, pair))
        log_z = log_partition(sequences)
        expected = np.zeros((stop - first, n_tags))
        for score, tags in sequences:
            expected[np.arange(stop - first), tags] += np.exp(score - log_z)
        np.testing.assert_allclose(p[first:stop], expected, atol=1e-9)
        by_tags = {tuple(tags): score for score, tags in sequences}
        found = by_tags[tuple(best[first:stop].tolist())]
        assert found == pytest.approx(sequences[0][0], abs=1e-9)


@given(case=cases, n=st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_the_n_best(case, n):
    seed, lengths, n_tags, size = case
    data, _, state, pair = random_chains(np.random.default_rng(seed), lengths, n_tags, size=size)
    data, weights = in_precision(data, state, pair, "float64")
    scratch = make_scratch(data, n_tags, "float64")
    s = int(np.argmax(lengths))
    S, V = np.zeros((lengths[s], n_tags)), np.zeros((lengths[s], n_tags, n_tags))
    sentence_scores(data, s, weights, scratch, S, V)
    for found, expected in zip((S, V), scores(data, s, state, pair), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    sequences = all_sequences(S, V)
    best = best_sequences(S, V, n)
    assert len(best) == min(n, len(sequences))
    assert len({tuple(tags) for _, tags in best}) == len(best)
    np.testing.assert_allclose(
        [score for score, _ in best], [score for score, _ in sequences[:n]], atol=1e-9
    )


@thorough
@given(case=cases)
@settings(max_examples=25, deadline=None)
def test_a_step_goes_along_the_gradient(case):
    seed, lengths, n_tags, size = case
    rng = np.random.default_rng(seed)
    data, y, state, pair = random_chains(rng, lengths, n_tags, size=size)
    weight = rng.random(len(lengths)) + 0.5
    s = int(np.argmax(lengths))
    alone = np.where(np.arange(len(lengths)) == s, weight, 0.0)
    slopes = [
        numeric_gradient(lambda: loss(data, y, state, pair, alone), table)
        for table in (state, pair)
    ]
    double, weights = in_precision(data, state, pair, "float64")
    sums = as_weights(np.zeros_like(state), np.zeros_like(pair))
    scratch = make_scratch(double, n_tags, "float64")
    steps = Steps(np.ones(1), np.full(1, 0.25), np.full(1, 3.0))
    arguments = (all_allowed(n_tags, "float64"), scratch, np.zeros(n_lanes(n_tags)))
    sgd_sweep(double, y, weight, np.array([s]), steps, weights, sums, True, *arguments)
    for moved, added, before, slope in zip(
        as_tables(weights, n_tags), as_tables(sums, n_tags), (state, pair), slopes, strict=True
    ):
        np.testing.assert_allclose((before - moved) / 0.25, slope, atol=1e-6)
        np.testing.assert_allclose(-added / 3.0, slope, atol=1e-6)


@pytest.mark.parametrize("n_tags", [15, 16, 17, 33])
def test_more_tags_than_lanes(n_tags):
    data, y, state, pair = random_chains(np.random.default_rng(0), [2, 2], n_tags)
    data, weights = in_precision(data, state, pair, "float64")
    assert total(data, y, weights, n_tags, "float64") == pytest.approx(loss(data, y, state, pair))
    assert marginals_of(data, weights, n_tags).sum(axis=1) == pytest.approx(np.ones(4))
    for s in (0, 1):
        best = all_sequences(*scores(data, s, state, pair))[0][1]
        assert best_of(data, weights, n_tags)[2 * s : 2 * s + 2].tolist() == best


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scores_of_hundreds_are_no_trouble(dtype):
    rng = np.random.default_rng(1)
    data, y, state, pair = random_chains(rng, [40], 5, size=100.0)
    data, weights = in_precision(data, state, pair, dtype)
    p = marginals_of(data, weights, 5, dtype=dtype)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-4)
    assert np.isfinite(total(data, y, weights, 5, dtype))


def test_tables_and_weights_are_the_same():
    rng = np.random.default_rng(0)
    for n_tags in (1, 16, 20):
        state, pair = rng.random((7, n_tags)), rng.random((3, n_tags, n_tags))
        for given_table, table in zip(
            (state, pair), as_tables(as_weights(state, pair), n_tags), strict=True
        ):
            np.testing.assert_array_equal(given_table, table)


def test_parts_of_a_corpus_are_the_corpus(monkeypatch):
    monkeypatch.setattr("monro.crf.problem._PART_TOKENS", 5)
    data, y, state, pair = random_chains(np.random.default_rng(0), [3, 0, 4, 9, 1, 1, 0], 3)
    weights = as_weights(state, pair)
    found, seen = 0.0, 0
    for sentences, tokens, part in sentence_parts(data):
        assert sentences.start == seen
        seen = sentences.stop
        found += total(part, y[tokens], weights, 3, "float64")
    assert seen == 7
    assert found == pytest.approx(total(data, y, weights, 3, "float64"))


# ------------------------------------------------------------------------------------- constraints


def valid(tags, scheme):
    """Return whether a sequence of tags is a sequence of chunks."""
    open_kind = None
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        if prefix in "IE" and open_kind != kind:
            return False
        if prefix not in "IE" and open_kind is not None and scheme == "BIOES":
            return False
        open_kind = kind if prefix in "BI" else None
    return open_kind is None or scheme == "BIO"


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("BIO", ["O", "B-A", "I-A", "B-B", "I-B"]),
        ("BIOES", ["O", "B-A", "I-A", "E-A", "S-A"]),
        ("BIO", ["B-A", "I-A"]),
    ],
)
def test_only_valid_sequences_are_found(scheme, tags):
    rng = np.random.default_rng(0)
    for _ in range(20):
        data, _, state, pair = random_chains(rng, [4, 1], len(tags), size=3.0)
        data, weights = in_precision(data, state, pair, "float64")
        allowed = chunk_rules(tags, scheme, "float64")
        best = best_of(data, weights, len(tags), allowed)
        p = marginals_of(data, weights, len(tags), allowed)
        for s in (0, 1):
            sequences = [
                (score, sequence)
                for score, sequence in all_sequences(*scores(data, s, state, pair))
                if valid([tags[k] for k in sequence], scheme)
            ]
            tokens = slice(data.starts[s], data.starts[s + 1])
            assert best[tokens].tolist() == sequences[0][1]
            expected = np.zeros((len(sequences[0][1]), len(tags)))
            for score, sequence in sequences:
                weight = np.exp(score - log_partition(sequences))
                expected[np.arange(len(sequence)), sequence] += weight
            np.testing.assert_allclose(p[tokens], expected, atol=1e-9)


def test_tags_of_another_scheme_are_refused():
    with pytest.raises(ValueError, match="a tag 'E-A', which is none of B-…, I-…, O"):
        chunk_rules(["O", "B-A", "E-A"], "BIO", "float64")
    with pytest.raises(ValueError, match="no sequence of the tags I-A is valid"):
        chunk_rules(["I-A"], "BIO", "float64")
