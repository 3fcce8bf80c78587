"""Sentences to train on; small chains, and their sums by brute force."""

from itertools import product

import numpy as np

from monro.crf.encoding import Encoded
from monro.crf.weights import as_weights

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB"
WORDS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "barks": "V", "sleeps": "V", "big": "J"}


def corpus(n=60, seed=0, columns=1):
    """Return sentences of seven words, and the tags, which follow from the words."""
    rng = np.random.default_rng(seed)
    words = np.array(list(WORDS))
    sentences, tags = [], []
    for _ in range(n):
        chosen = rng.choice(words, rng.integers(1, 6)).tolist()
        sentences.append([(word, word[-1])[:columns] for word in chosen])
        tags.append([WORDS[word] for word in chosen])
    return sentences, tags


def random_chains(rng, lengths, n_tags, n_features=5, n_pairs=2, size=1.0):
    """Return sentences with random features, tags for them, and random tables of weights."""
    tokens = sum(lengths)
    counts = rng.integers(0, 4, tokens)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    counts_of_pairs = rng.integers(0, n_pairs + 1, tokens)
    counts_of_pairs[starts[:-1][np.asarray(lengths) > 0]] = 0  # these have no previous tag
    pair_indptr = np.concatenate([[0], np.cumsum(counts_of_pairs)])
    data = Encoded(
        rng.choice([1.0, 0.5, -2.0], indptr[-1]),
        rng.integers(0, n_features, indptr[-1]).astype(np.uint32),
        indptr,
        np.concatenate(
            [np.zeros(0), *(rng.permutation(n_pairs)[:count] for count in counts_of_pairs)]
        ).astype(np.uint32),
        pair_indptr,
        starts,
    )
    y = rng.integers(0, n_tags, tokens).astype(np.int32)
    state = size * rng.standard_normal((n_features, n_tags))
    pair = size * rng.standard_normal((n_pairs, n_tags, n_tags))
    return data, y, state, pair


def scores(data, s, state, pair):
    """Return the scores of tags and of pairs at each token of sentence s."""
    first, stop = data.starts[s], data.starts[s + 1]
    S = np.zeros((stop - first, state.shape[1]))
    V = np.zeros((stop - first, *pair.shape[1:]))
    for t in range(first, stop):
        for p in range(data.indptr[t], data.indptr[t + 1]):
            S[t - first] += data.values[p] * state[data.features[p]]
        for p in range(data.pair_indptr[t], data.pair_indptr[t + 1]):
            V[t - first] += pair[data.pairs[p]]
    return S, V


def all_sequences(S, V):
    """Return every sequence of tags with its score, the best first."""
    found = []
    for tags in product(range(S.shape[1]), repeat=len(S)):
        score = sum(S[t, k] for t, k in enumerate(tags))
        score += sum(V[t, tags[t - 1], tags[t]] for t in range(1, len(tags)))
        found.append((float(score), list(tags)))
    return sorted(found, key=lambda entry: -entry[0])


def log_partition(sequences):
    return float(np.logaddexp.reduce([score for score, _ in sequences]))


def loss(data, y, state, pair, weight=None):
    """Return the summed ``-log p(y)`` of all sentences."""
    total = 0.0
    for s in range(data.starts.size - 1):
        first, stop = data.starts[s], data.starts[s + 1]
        if first == stop:
            continue
        S, V = scores(data, s, state, pair)
        tags = y[first:stop].tolist()
        sequences = all_sequences(S, V)
        own = next(score for score, other in sequences if other == tags)
        total += (1.0 if weight is None else weight[s]) * (log_partition(sequences) - own)
    return total


def numeric_gradient(function, table, step=1e-5):
    """Return the slopes of a function in each entry of a table, which it reads."""
    slopes = np.zeros_like(table)
    for at in np.ndindex(table.shape):
        before = table[at]
        table[at] = before + step
        above = function()
        table[at] = before - step
        slopes[at] = (above - function()) / (2.0 * step)
        table[at] = before
    return slopes


def in_precision(data, state, pair, dtype):
    """Return chains and weights as kernels take them."""
    return data._replace(values=data.values.astype(dtype)), as_weights(
        state.astype(dtype), pair.astype(dtype)
    )
