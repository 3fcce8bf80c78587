"""From hashed features to numbers: counted, numbered, and written as rows for the kernels.

A table gives the hashes that were seen often enough their numbers; without one, the number is part
of the hash itself (feature hashing).
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel, leaf
from monro.crf.features import Keyed
from monro.rows import Array

_EMPTY = np.uint64(0)
_FULL = 0.5  # share of the table's places


@leaf
def _place(key: Any, table: Array) -> Any:
    """Return where a key is in the table, or the empty place where it would be."""
    mask = np.uint64(table.size - 1)
    at = key & mask
    while table[at] != key and table[at] != _EMPTY:
        at = (at + np.uint64(1)) & mask
    return at


@kernel
def _enter(keys: Array, table: Array, counts: Array, first: Array, begin: int, room: int) -> int:
    """Count keys in the table, and note where each was first seen; return how many are new.

    Stops, and returns minus one minus the number of keys done, where the table has no room.
    """
    new = 0
    for k in range(keys.size):
        key = keys[k] | np.uint64(keys[k] == _EMPTY)
        at = _place(key, table)
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
    for k in range(keys.size):
        key = keys[k] | np.uint64(keys[k] == _EMPTY)
        at = _place(key, table)
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
