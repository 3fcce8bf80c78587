"""Rows with a planted structure, of the shape of Amazon-670K.

Labels belong to topics, and each has words of its own. A row has a topic, a few of its labels, and
words of these labels, of the topic and of the language, which is what its labels are to be told by.
Topics, labels and words follow power laws, so that most labels have few rows, as in real data.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

OF_LABEL, OF_TOPIC = 12, 30  # words
SHARES = (0.3, 0.25)  # of a row's words: those of its labels, and of its topic; the rest is of all
LABELS_OF_TOPIC = 100


class Shape(NamedTuple):
    """How large the data is."""

    rows: int
    features: int
    labels: int
    words: int  # of a row, before equal ones are counted together
    labels_of_row: float  # on average


AMAZON = Shape(490_000, 136_000, 670_000, 88, 5.0)
SMALL = Shape(2_000, 3_000, 1_000, 40, 3.0)


def power_law(n: int, exponent: float) -> np.ndarray:
    """Return the cumulative probabilities of n things."""
    weight = np.arange(1.0, n + 1) ** -exponent
    total: np.ndarray = np.cumsum(weight / weight.sum())
    return total


def drawn(rng: np.random.Generator, cumulative: np.ndarray, shape: Any) -> np.ndarray:
    """Return numbers of things, drawn by their cumulative probabilities."""
    found = np.searchsorted(cumulative, rng.random(shape, dtype=np.float32))
    return np.minimum(found, cumulative.size - 1).astype(np.int32)


def planted(shape: Shape, seed: int, rows: int | None = None) -> tuple[sp.csr_matrix, Any]:
    """Return counts of words and an indicator matrix of labels; all seeds share the structure."""
    structure = np.random.default_rng(0)
    n_topics = max(1, shape.labels // LABELS_OF_TOPIC)
    flat = power_law(shape.features, 0.6)
    names = structure.permutation(shape.features).astype(np.int32)
    of_label = names[drawn(structure, flat, (shape.labels, OF_LABEL))]
    of_topic = names[drawn(structure, flat, (n_topics, OF_TOPIC))]
    language, topics = power_law(shape.features, 1.0), power_law(n_topics, 0.5)
    in_topic = power_law(LABELS_OF_TOPIC, 0.8)
    rng = np.random.default_rng([1, seed])
    n = shape.rows if rows is None else rows
    topic = drawn(rng, topics, n)
    sizes = 1 + rng.poisson(shape.labels_of_row - 1.0, n)
    row_of = np.repeat(np.arange(n), sizes)
    label = topic[row_of] * LABELS_OF_TOPIC + drawn(rng, in_topic, row_of.size)
    Y = sp.csr_matrix((np.ones(label.size, bool), (row_of, label)), (n, shape.labels))
    first = Y.indptr[:-1].astype(np.int64)
    kind = rng.random((n, shape.words), dtype=np.float32)
    which = first[:, None] + (rng.random((n, shape.words)) * np.diff(Y.indptr)[:, None]).astype(int)
    words = of_label[Y.indices[which], rng.integers(OF_LABEL, size=kind.shape, dtype=np.int32)]
    by_topic = (kind >= SHARES[0]) & (kind < sum(SHARES))
    by_all = kind >= sum(SHARES)
    rows_by_topic = np.nonzero(by_topic)[0]
    words[by_topic] = of_topic[
        topic[rows_by_topic], rng.integers(OF_TOPIC, size=rows_by_topic.size)
    ]
    words[by_all] = names[drawn(rng, language, int(by_all.sum()))]
    indptr = np.arange(n + 1, dtype=np.int64) * shape.words
    X = sp.csr_matrix((np.ones(words.size, np.float32), words.ravel(), indptr), (n, shape.features))
    X.sum_duplicates()
    return X, Y
