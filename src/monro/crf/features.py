"""From tokens to numbered features.

A feature is known by a 64-bit hash of its text: texts are hashed once, and what a template makes of
them is arithmetic on whole columns. A table gives the hashes that were seen often enough their
numbers; without one, the number is part of the hash itself (feature hashing).
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel
from monro.crf.template import Template, check_columns
from monro.rows import Array

TRANSITION = "B"  # the feature that every pair of neighbours has
_MOST_TEXTS = 1 << 18

# ------------------------------------------------------------------------------------------ hashes


class _Hashes(dict[str, int]):
    """Texts and their hashes, each computed once (unless there are very many)."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self[text] = value = int.from_bytes(digest, "little")
        return value

    def __reduce__(self) -> Any:  # nobody needs a copy of what can be computed
        return _Hashes, ()


_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)


def _mix(key: Array, part: Array) -> None:
    """Stir a part into the keys; the order of parts counts."""
    key ^= part
    for factor in (_ODD, _OTHER):
        key *= factor
        key ^= key >> _HALF


# ------------------------------------------------------------------------------------------ tokens


class Keyed(NamedTuple):
    """The features of some tokens by hash: those of tag t, then those of a pair of tags."""

    keys: Array
    values: Array | None  # None: all 1
    indptr: Array
    pair_keys: Array  # (tokens, features)


class Tokens(NamedTuple):
    """Tokens, one sentence after the other."""

    content: Any  # columns: lists of texts; or (names, values, indptr) of given features
    starts: Array  # of each sentence, and the end
    hashes: dict[int, Array]  # of columns that were hashed before

    @property
    def size(self) -> int:
        return int(self.starts[-1])


def columns_of(
    sentences: Sequence[Any], n_columns: int | None, numbers: Sequence[int] | None = None
) -> Tokens:
    """Return the columns of sentences whose tokens are tuples, or texts of one column.

    `numbers` are those of the sentences in messages.
    """
    starts = _starts(sentences)
    flat = list(chain.from_iterable(sentences))
    if str in set(map(type, flat)):
        flat = [(token,) if isinstance(token, str) else token for token in flat]
    width = n_columns or (len(flat[0]) if flat else 1)
    if not (set(map(type, flat)) <= {tuple} and set(map(len, flat)) <= {width}):
        _complain(sentences, width, numbers)
    columns = [list(map(itemgetter(c), flat)) for c in range(width)]
    for column in columns:
        if not set(map(type, column)) <= {str}:
            _complain(sentences, width, numbers)
    return Tokens(columns, starts, {})


def _complain(sentences: Sequence[Any], width: int, numbers: Sequence[int] | None) -> None:
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

    `numbers` are those of the sentences in messages.
    """
    starts = _starts(sentences)
    tokens = list(chain.from_iterable(sentences))
    if set(map(type, tokens)) <= {list}:  # the most frequent case, and the fastest
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
                names.append(None)  # found below
                amounts += [1.0] * (len(names) - len(amounts))
            lengths.append(len(names) - before)
        with np.errstate(over="ignore"):  # found below, too
            values = np.array(amounts, np.float32)
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    if not set(map(type, names)) <= {str}:
        odd = next(k for k, name in enumerate(names) if not isinstance(name, str))
        where, token = _where(odd, indptr, starts, numbers)
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
    """Tell which sentence and token a feature belongs to, and the token's number in all."""
    token = int(np.searchsorted(indptr, entry, "right")) - 1
    s = int(np.searchsorted(starts, token, "right")) - 1
    number = s if numbers is None else numbers[s]
    return f"sentence {number}, token {token - starts[s]}", token


def _unfold(features: dict[str, Any], prefix: str, names: list[Any], values: list[float]) -> None:
    """Name features as CRFsuite does: a text is part of the name, dicts and lists are joined."""
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


# ------------------------------------------------------------------------------ what templates make


class Extractor:
    """Makes the features of tokens: by templates, or as they are given.

    Parameters
    ----------
    templates : list of Template, or None
        None: tokens bring their features, and neighbours have the one feature "B".
    """

    def __init__(self, templates: list[Template] | None):
        self.templates = templates
        self.single = [template for template in templates or [] if not template.couples]
        self.pairs = [template for template in templates or [] if template.couples]
        if templates is None:
            self.pairs = [Template((TRANSITION,), ())]
        self._known = _Hashes()

    @property
    def has_single(self) -> bool:
        """Tell whether there are features of one tag."""
        return self.templates is None or bool(self.single)

    def check(self, n_columns: int) -> None:
        """Raise if a template asks for a column that there is not."""
        check_columns(self.templates or [], n_columns)

    def keys(self, tokens: Tokens) -> Keyed:
        """Return the features of tokens, by hash."""
        pairs = self._of_templates(self.pairs, tokens)
        if self.templates is None:
            _, values, indptr = tokens.content
            return Keyed(self._column(tokens, 0), values, indptr, pairs)
        keys = self._of_templates(self.single, tokens)
        indptr = np.arange(tokens.size + 1, dtype=np.int64) * keys.shape[1]
        return Keyed(keys.reshape(-1), None, indptr, pairs)

    def _of_templates(self, templates: list[Template], tokens: Tokens) -> Array:
        n = tokens.size
        keys = np.empty((n, len(templates)), np.uint64)
        atoms: dict[Any, Array] = {}
        for k, template in enumerate(templates):
            key = np.full(n, self._known["\0".join(template.texts)], np.uint64)
            for place in template.places:
                if place not in atoms:
                    column = self._column(tokens, place.column)
                    atoms[place] = self._atom(column, tokens.starts, place.row)
                _mix(key, atoms[place])
            keys[:, k] = key
        return keys

    def _column(self, tokens: Tokens, k: int) -> Array:
        """Return the hashes of column k; of given features, the names are column 0."""
        if k not in tokens.hashes:
            texts = tokens.content[k]
            tokens.hashes[k] = np.fromiter(
                map(self._known.__getitem__, texts), np.uint64, len(texts)
            )
        return tokens.hashes[k]

    def _atom(self, column: Array, starts: Array, row: int) -> Array:
        """Return the column's hashes `row` further on; beyond a sentence, of CRF++'s symbols."""
        if row == 0:
            return column
        shifted = np.roll(column, -row)
        lengths = np.diff(starts)
        longest = int(lengths.max(initial=0))
        for k in range(max(1, abs(row) + 1 - longest), abs(row) + 1):
            # Of the tokens near a border, the one whose place lies k outside.
            inside = abs(row) - k
            there = lengths > inside
            at = starts[:-1][there] + inside if row < 0 else starts[1:][there] - 1 - inside
            shifted[at] = self._known[f"_B{'-' if row < 0 else '+'}{k}"]
        return shifted

    def names(self, tokens: Tokens, at: Array, *, pairs: bool) -> list[str]:
        """Return the texts of the features at these places among the keys of the tokens."""
        if self.templates is None and not pairs:
            return [tokens.content[0][k] for k in at.tolist()]
        templates = self.pairs if pairs else self.single
        token, which = np.divmod(at, max(1, len(templates)))
        sentence = np.searchsorted(tokens.starts, token, "right") - 1
        borders = tokens.starts[sentence].tolist(), tokens.starts[sentence + 1].tolist()
        return [
            _name(templates[k], tokens.content, t, first, stop)
            for k, t, first, stop in zip(which.tolist(), token.tolist(), *borders, strict=True)
        ]


def _name(template: Template, columns: Any, token: int, first: int, stop: int) -> str:
    """Return what a template makes of a token of the sentence from `first` to `stop`."""
    text = template.texts[0]
    for place, after in zip(template.places, template.texts[1:], strict=True):
        there = token + place.row
        if there < first:
            text += f"_B-{first - there}"
        elif there >= stop:
            text += f"_B+{there - stop + 1}"
        else:
            text += columns[place.column][there]
        text += after
    return text


# ----------------------------------------------------------------------------------------- numbers


_EMPTY = np.uint64(0)
_FULL = 0.5  # share of the table's places


@kernel
def _enter(keys: Array, table: Array, counts: Array, first: Array, begin: int, room: int) -> int:
    """Count keys in the table, and note where each was first seen; return how many are new.

    Stops, and returns minus one minus the number of keys done, where the table has no room.
    """
    mask = np.uint64(table.size - 1)
    new = 0
    for k in range(keys.size):
        key = keys[k] | np.uint64(keys[k] == _EMPTY)
        at = key & mask
        while table[at] != key and table[at] != _EMPTY:
            at = (at + np.uint64(1)) & mask
        if table[at] == _EMPTY:
            if new == room:
                return -1 - k
            table[at] = key
            first[at] = begin + k
            new += 1
        counts[at] += 1
    return new


@kernel
def _number_of_keys(keys: Array, table: Array, numbers: Array, out: Array) -> None:
    """Look up the numbers of keys; -1 for a key that is not in the table."""
    mask = np.uint64(table.size - 1)
    for k in range(keys.size):
        key = keys[k] | np.uint64(keys[k] == _EMPTY)
        at = key & mask
        while table[at] != key and table[at] != _EMPTY:
            at = (at + np.uint64(1)) & mask
        out[k] = numbers[at] if table[at] == key else -1


class Counts:
    """Counts the keys of a corpus, some at a time."""

    def __init__(self) -> None:
        self._allocate(1 << 12)
        self.n = 0
        self.seen = 0

    def _allocate(self, size: int) -> None:
        self.table = np.zeros(size, np.uint64)
        self.counts = np.zeros(size, np.int64)
        self.first = np.zeros(size, np.int64)

    def add(self, keys: Array) -> None:
        """Count some keys."""
        keys = keys.reshape(-1)
        while keys.size:
            room = int(_FULL * self.table.size) - self.n
            new = _enter(keys, self.table, self.counts, self.first, self.seen, room)
            done = keys.size if new >= 0 else -1 - new
            self.n += new if new >= 0 else room
            self.seen += done
            keys = keys[done:]
            if keys.size:
                self._grow()

    def _grow(self) -> None:
        there = np.flatnonzero(self.table)
        keys, counts, first = self.table[there], self.counts[there], self.first[there]
        self._allocate(4 * self.table.size)
        _enter(keys, self.table, self.counts, self.first, 0, keys.size)
        at = _places(keys, self.table)
        self.counts[at], self.first[at] = counts, first

    def frequent(self, cutoff: int) -> tuple[Array, Array]:
        """Return the keys seen that often, the most frequent first, and where first."""
        there = np.flatnonzero(self.counts >= cutoff)
        # What is used together lies together: the weights of frequent features fit into the cache.
        order = there[np.lexsort((self.first[there], -self.counts[there]))]
        return self.table[order], self.first[order]


def _places(keys: Array, table: Array) -> Array:
    out = np.empty(keys.size, np.int64)
    _number_of_keys(keys, table, np.arange(table.size), out)
    return out


class Table:
    """Numbers keys 0, 1, 2, …: all others have no number."""

    def __init__(self, keys: Array):
        self.keys = keys
        size = 16
        while _FULL * size < keys.size:
            size *= 2
        self._table = np.zeros(size, np.uint64)
        unused = np.zeros(size, np.int64)
        _enter(keys, self._table, unused, unused.copy(), 0, keys.size)
        self._numbers = np.full(size, -1, np.int32)
        self._numbers[_places(keys, self._table)] = np.arange(keys.size)

    @property
    def size(self) -> int:
        """How many keys have a number."""
        return int(self.keys.size)

    def numbers(self, keys: Array) -> Array:
        """Return the numbers of keys, -1 for none."""
        out = np.empty(keys.size, np.int32)
        _number_of_keys(keys.reshape(-1), self._table, self._numbers, out)
        return out


class Hashed:
    """Numbers every key: by its highest bits."""

    def __init__(self, bits: int):
        self.bits = bits

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return 1 << self.bits

    def numbers(self, keys: Array) -> Array:
        """Return the numbers of keys."""
        return (keys.reshape(-1) >> np.uint64(64 - self.bits)).astype(np.int32)


class Encoded(NamedTuple):
    """Tokens as rows of numbered features, and pairs of neighbours likewise."""

    values: Array
    features: Array
    indptr: Array
    pairs: Array
    pair_indptr: Array
    starts: Array  # of each sentence, and the end


@kernel
def _pack(numbers: Array, values: Array, indptr: Array, out_indptr: Array) -> int:
    """Leave out features without a number, in place; return how many are left."""
    kept = 0
    out_indptr[0] = 0
    for t in range(indptr.size - 1):
        for k in range(indptr[t], indptr[t + 1]):
            if numbers[k] >= 0:
                numbers[kept] = numbers[k]
                values[kept] = values[k]
                kept += 1
        out_indptr[t + 1] = kept
    return kept


def _rows(numbers: Array, values: Array, indptr: Array) -> tuple[Array, Array, Array]:
    packed = np.empty_like(indptr)
    kept = _pack(numbers, values, indptr, packed)
    return values[:kept], numbers[:kept].view(np.uint32), packed


def encode(keyed: Keyed, single: Table | Hashed, pairs: Table, starts: Array) -> Encoded:
    """Return the rows of features that have a number."""
    n = keyed.keys.size
    values = np.ones(n, np.float32) if keyed.values is None else keyed.values.copy()
    values, features, indptr = _rows(single.numbers(keyed.keys), values, keyed.indptr)
    tokens, width = keyed.pair_keys.shape
    couples = pairs.numbers(keyed.pair_keys)
    couples.reshape(tokens, width)[starts[:-1][np.diff(starts) > 0]] = -1  # no tag before these
    unused = np.empty(couples.size, np.float32)
    _, pair_features, pair_indptr = _rows(
        couples, unused, np.arange(tokens + 1, dtype=np.int64) * width
    )
    return Encoded(values, features, indptr, pair_features, pair_indptr, starts)
