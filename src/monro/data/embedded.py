"""Real data that lies wherever Python and scikit-learn run: no download.

`capitals` restores capital letters: Python's own reference (`pydoc_data.topics`) is some 64,000
words of English. Each word is a row, told by itself, its neighbours, its ending and what stands
before it, all in lower case; the question is whether it was written with a capital.
"""

import re
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.rows import Array

_TOKEN = re.compile(r"[A-Za-z]+|[.!?:]|[^\sA-Za-z]")


def tokens() -> list[str]:
    """Return the words and marks of Python's reference, in order.

    Examples
    --------
    >>> len(tokens()) > 50_000
    True
    """
    from pydoc_data.topics import topics

    return [token for name in sorted(topics) for token in _TOKEN.findall(topics[name])]


def capitals() -> tuple[Any, Array, list[str]]:
    """Return X (one row a word), y (1 if it has a capital, else 0) and the features' names.

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
