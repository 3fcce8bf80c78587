"""Real data that comes with Python: no download.

Python's own reference (`pydoc_data.topics`) is some 64,000 words of English. `capitals` is a binary
problem: was a word capitalised? Its features are the word, its neighbours, its ending and the kind
of token before it, all in lower case. `cased_sentences` is the same question as tags of sentences.
`next_words` is a problem of many classes: which of some 3,000 words comes next?
"""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.rows import Array

_TOKEN = re.compile(r"[A-Za-z]+|[.!?:]|[^\sA-Za-z]")


def tokens() -> list[str]:
    """Return the words and punctuation marks of Python's reference, in order.

    Examples
    --------
    >>> len(tokens()) > 50_000
    True
    """
    from pydoc_data.topics import topics

    return [token for name in sorted(topics) for token in _TOKEN.findall(topics[name])]


def capitals() -> tuple[Any, Array, list[str]]:
    """Return X (one row per word), y (1 if it is capitalised, else 0) and the features' names.

    Examples
    --------
    >>> X, y, names = capitals()
    >>> X.shape[0] == y.size and X.shape[1] == len(names)
    True
    """
    text = tokens()
    lower = [token.lower() for token in text]
    numbers: dict[str, int] = {}
    columns: list[int] = []
    targets: list[int] = []
    for i, token in enumerate(text):
        if not token.isalpha():
            continue
        previous = lower[i - 1] if i > 0 else "."
        following = lower[i + 1] if i + 1 < len(text) else "."
        word = lower[i]
        features = (
            f"word={word}",
            f"previous={previous}",
            f"next={following}",
            f"pair={previous} {word}",
            f"ends={word[-3:]}",
            f"before={'.' if previous in '.!?:' else 'a' if previous.isalpha() else '-'}",
        )
        columns += [numbers.setdefault(feature, len(numbers)) for feature in features]
        targets.append(int(token[0].isupper()))
    y = np.array(targets)
    width = len(columns) // y.size
    X = sp.csr_matrix(
        (
            np.full(len(columns), width**-0.5),
            np.array(columns, dtype=np.int32),
            np.arange(0, len(columns) + 1, width, dtype=np.int32),
        ),
        shape=(y.size, len(numbers)),
    )
    X.sort_indices()
    return X, y, list(numbers)


def cased_sentences() -> tuple[list[list[tuple[str, str]]], list[list[str]]]:
    """Return sentences in lower case, and the case of each word as its tag.

    A token is a word and its last three letters. A tag is ``lower``, ``Capital``, ``UPPER``, or
    ``-`` for a punctuation mark.

    Examples
    --------
    >>> sentences, tags = cased_sentences()
    >>> sentences[0][:3], tags[0][:3]
    ([('the', 'the'), ('"', '"'), ('assert', 'ert')], ['Capital', '-', 'lower'])
    """
    sentences: list[list[tuple[str, str]]] = [[]]
    tags: list[list[str]] = [[]]
    for token in _prose():
        word = token.lower()
        sentences[-1].append((word, word[-3:]))
        tags[-1].append(_case(token))
        if token in ".!?":
            sentences.append([])
            tags.append([])
    kept = [k for k, sentence in enumerate(sentences) if len(sentence) > 2]
    return [sentences[k] for k in kept], [tags[k] for k in kept]


def next_words(context: int = 3) -> tuple[Any, Array, list[str]]:
    """Return X (the preceding words, one-hot), y (the index of the next word) and the words.

    With V words, feature ``k·V + j`` means that word j is k + 1 positions before.

    Examples
    --------
    >>> X, y, words = next_words()
    >>> X.shape[1] == 3 * len(words), words[y[1]]
    (True, 'statement')
    """
    words, ids = np.unique([token.lower() for token in _prose()], return_inverse=True)
    n = ids.size - context
    before = [ids[context - 1 - k : context - 1 - k + n] + k * words.size for k in range(context)]
    X = sp.csr_matrix(
        (
            np.full(n * context, context**-0.5),
            np.stack(before, axis=1).ravel().astype(np.int32),
            np.arange(0, n * context + 1, context, dtype=np.int32),
        ),
        shape=(n, context * words.size),
    )
    return X, ids[context:], words.tolist()


def _prose() -> list[str]:
    """Return the tokens with runs of the same mark (horizontal rules) reduced to one."""
    text = tokens()
    return [b for a, b in pairwise(["", *text]) if a != b or b.isalpha()]


def _case(token: str) -> str:
    if not token.isalpha():
        return "-"
    if token.islower():
        return "lower"
    return "UPPER" if token.isupper() and len(token) > 1 else "Capital"
