"""Tokens as users give them: tuples of columns, or lists and dicts of features."""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from monro.rows import Array


class Tokens(NamedTuple):
    """The tokens of several sentences."""

    content: Any  # columns: lists of texts; or (names, values, indptr) of given features
    starts: Array  # the first token of each sentence, and the end
    hashes: dict[int, Array]  # by column, as far as computed

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return int(self.starts[-1])


def columns_of(
    sentences: Sequence[Any], n_columns: int | None, numbers: Sequence[int] | None = None
) -> Tokens:
    """Return the columns of sentences whose tokens are tuples, or texts of one column.

    `numbers` are the sentences' numbers in error messages.
    """
    starts = _starts(sentences)
    flat = list(chain.from_iterable(sentences))
    if str in set(map(type, flat)):
        flat = [(token,) if isinstance(token, str) else token for token in flat]
    width = n_columns or (len(flat[0]) if flat else 1)
    if not (set(map(type, flat)) <= {tuple} and set(map(len, flat)) <= {width}):
        _check_columns(sentences, width, numbers)
    columns = [list(map(itemgetter(c), flat)) for c in range(width)]
    for column in columns:
        if not set(map(type, column)) <= {str}:
            _check_columns(sentences, width, numbers)
    return Tokens(columns, starts, {})


def _check_columns(sentences: Sequence[Any], width: int, numbers: Sequence[int] | None) -> None:
    """Raise for the first token that is not a tuple of that many texts."""
    for s, sentence in zip(numbers or range(len(sentences)), sentences, strict=True):
        for t, token in enumerate(sentence):
            token = (token,) if isinstance(token, str) else token
            if not isinstance(token, tuple):
                raise ValueError(
                    f"sentence {s}, token {t}: {_short(token)} is no tuple of columns, others are; "
                    "give all tokens as tuples, or all as lists or dicts of features"
                )
            if len(token) != width:
                raise ValueError(
                    f"sentence {s}, token {t}: {len(token)} columns where {width} are expected; "
                    "give every token the same columns"
                )
            if not all(isinstance(text, str) for text in token):
                raise ValueError(f"sentence {s}, token {t}: {_short(token)} holds no texts alone")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def given_features(sentences: Sequence[Any], numbers: Sequence[int] | None = None) -> Tokens:
    """Return the features of sentences whose tokens are lists or dicts of features.

    `numbers` are the sentences' numbers in error messages.
    """
    starts = _starts(sentences)
    tokens = list(chain.from_iterable(sentences))
    if set(map(type, tokens)) <= {list}:  # the most frequent case, made fast
        names = list(chain.from_iterable(tokens))
        values = np.ones(len(names), np.float32)
        lengths = list(map(len, tokens))
    else:
        names, lengths = [], []
        amounts: list[float] = []
        for token in tokens:
            before = len(names)
            try:
                if not isinstance(token, (dict, list, set, frozenset)):
                    raise TypeError
                _unfold(token if isinstance(token, dict) else {"": token}, "", names, amounts)
            except (TypeError, ValueError, OverflowError):
                names.append(None)  # reported below
                amounts += [1.0] * (len(names) - len(amounts))
            lengths.append(len(names) - before)
        with np.errstate(over="ignore"):  # reported below
            values = np.array(amounts, np.float32)
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    if not set(map(type, names)) <= {str}:
        invalid = next(k for k, name in enumerate(names) if not isinstance(name, str))
        where, token = _where(invalid, indptr, starts, numbers)
        raise ValueError(
            f"{where}: {_short(tokens[token])} is no list of texts and no dict of texts, numbers "
            "and dicts of them"
        )
    if not np.isfinite(values).all():
        where, _ = _where(int(np.flatnonzero(~np.isfinite(values))[0]), indptr, starts, numbers)
        raise ValueError(f"{where}: a value is no finite number")
    return Tokens((names, values, indptr), starts, {})


def _where(
    entry: int, indptr: Array, starts: Array, numbers: Sequence[int] | None
) -> tuple[str, int]:
    """Return in words which token an entry belongs to, and the token's index."""
    token = int(np.searchsorted(indptr, entry, "right")) - 1
    s = int(np.searchsorted(starts, token, "right")) - 1
    number = s if numbers is None else numbers[s]
    return f"sentence {number}, token {token - starts[s]}", token


def _unfold(features: dict[str, Any], prefix: str, names: list[Any], values: list[float]) -> None:
    """Append the names and values of features, named as CRFsuite names them.

    A text becomes part of the name; dicts and lists are flattened, their keys joined by colons.
    """
    for name, value in features.items():
        path = prefix + name
        if isinstance(value, str):
            names.append(f"{path}:{value}")
            values.append(1.0)
        elif isinstance(value, dict):
            _unfold(value, f"{path}:", names, values)
        elif isinstance(value, (list, set, frozenset)):
            given = value if isinstance(value, list) else sorted(value)
            names += [f"{path}:{text}" for text in given] if path else given
            values += [1.0] * len(given)
        else:
            values.append(float(value))
            names.append(path)


def _starts(sentences: Sequence[Any]) -> Array:
    starts = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=starts[1:])
    return starts
