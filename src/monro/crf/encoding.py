"""Feature indices: 64-bit keys are counted and numbered, and tokens become sparse rows.

A hash table maps the keys that occur often enough to 0, 1, 2, …; with feature hashing the number of
a key is its highest bits.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel, leaf
from monro.crf.features import Keyed
from monro.rows import Array

_EMPTY = np.uint64(0)
_LOAD_FACTOR = 0.5  # the largest, of a hash table


@leaf
def _place(key: Any, table: Array) -> Any:
    """Return the position of a key in the table, or the empty one to put it at (linear probing)."""
    mask = np.uint64(table.size - 1)
    at = key & mask
    while table[at] != key and table[at] != _EMPTY:
        at = (at + np.uint64(1)) & mask
    return at


@kernel
def _count_keys(
    keys: Array, table: Array, counts: Array, first: Array, begin: int, capacity: int
) -> int:
    """Count keys, and record the first position of each; return the number of new keys.

    If there are more than `capacity` new keys, stops before the first one too many and returns
    ``-1 - n``, where n is the number of keys counted.
    """
    new = 0
    for k in range(keys.size):
        key = keys[k] | np.uint64(keys[k] == _EMPTY)
        at = _place(key, table)
        if table[at] == _EMPTY:
            if new == capacity:
                return -1 - k
            table[at] = key
            first[at] = begin + k
            new += 1
        counts[at] += 1
    return new


@kernel
def _look_up(keys: Array, table: Array, numbers: Array, out: Array) -> None:
    """Write the numbers of keys, -1 for a key that is not in the table."""
    for k in range(keys.size):
        key = keys[k] | np.uint64(keys[k] == _EMPTY)
        at = _place(key, table)
        out[k] = numbers[at] if table[at] == key else -1


class Counts:
    """Counts the keys of a corpus, a part at a time."""

    def __init__(self) -> None:
        self._allocate(1 << 12)
        self.n = 0
        self.seen = 0

    def _allocate(self, size: int) -> None:
        self.table = np.zeros(size, np.uint64)
        self.counts = np.zeros(size, np.int64)
        self.first = np.zeros(size, np.int64)

    def add(self, keys: Array) -> None:
        """Count the keys of one more part."""
        keys = keys.reshape(-1)
        while keys.size:
            capacity = int(_LOAD_FACTOR * self.table.size) - self.n
            new = _count_keys(keys, self.table, self.counts, self.first, self.seen, capacity)
            done = keys.size if new >= 0 else -1 - new
            self.n += new if new >= 0 else capacity
            self.seen += done
            keys = keys[done:]
            if keys.size:
                self._grow()

    def _grow(self) -> None:
        used = np.flatnonzero(self.table)
        keys, counts, first = self.table[used], self.counts[used], self.first[used]
        self._allocate(4 * self.table.size)
        _count_keys(keys, self.table, self.counts, self.first, 0, keys.size)
        at = _places(keys, self.table)
        self.counts[at], self.first[at] = counts, first

    def frequent(self, cutoff: int) -> tuple[Array, Array]:
        """Return the keys that occur at least `cutoff` times, and their first positions.

        The most frequent keys come first.
        """
        found = np.flatnonzero(self.counts >= cutoff)
        # The weights of frequent features are adjacent, so that they fit into the cache.
        order = found[np.lexsort((self.first[found], -self.counts[found]))]
        return self.table[order], self.first[order]


def _places(keys: Array, table: Array) -> Array:
    out = np.empty(keys.size, np.int64)
    _look_up(keys, table, np.arange(table.size), out)
    return out


class KeyTable:
    """Maps its keys to 0, 1, 2, …, and any other key to -1."""

    def __init__(self, keys: Array):
        self.keys = keys
        size = 16
        while _LOAD_FACTOR * size < keys.size:
            size *= 2
        self._table = np.zeros(size, np.uint64)
        unused = np.zeros(size, np.int64)
        _count_keys(keys, self._table, unused, unused.copy(), 0, keys.size)
        self._numbers = np.full(size, -1, np.int32)
        self._numbers[_places(keys, self._table)] = np.arange(keys.size)

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.keys.size)

    def numbers(self, keys: Array) -> Array:
        """Return the numbers of keys."""
        out = np.empty(keys.size, np.int32)
        _look_up(keys.reshape(-1), self._table, self._numbers, out)
        return out


class Hashed:
    """Maps any key to its highest bits (feature hashing)."""

    def __init__(self, bits: int):
        self.bits = bits

    @property
    def size(self) -> int:
        """The number of features."""
        return 1 << self.bits

    def numbers(self, keys: Array) -> Array:
        """Return the numbers of keys."""
        return (keys.reshape(-1) >> np.uint64(64 - self.bits)).astype(np.int32)


class Encoded(NamedTuple):
    """Tokens as sparse rows of features and of pair features, whose values are 1."""

    values: Array
    features: Array
    indptr: Array  # of each token
    pairs: Array
    pair_indptr: Array  # of each token
    starts: Array  # the first token of each sentence, and the end


@kernel
def _drop_unnumbered(numbers: Array, values: Array, indptr: Array, out_indptr: Array) -> int:
    """Remove features without a number, in place; return how many are left."""
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
    kept = _drop_unnumbered(numbers, values, indptr, packed)
    return values[:kept], numbers[:kept].view(np.uint32), packed


def encode(keyed: Keyed, single: KeyTable | Hashed, pairs: KeyTable, starts: Array) -> Encoded:
    """Return the sparse rows of the features that have a number."""
    n = keyed.keys.size
    values = np.ones(n, np.float32) if keyed.values is None else keyed.values.copy()
    values, features, indptr = _rows(single.numbers(keyed.keys), values, keyed.indptr)
    tokens, width = keyed.pair_keys.shape
    numbers = pairs.numbers(keyed.pair_keys)
    numbers.reshape(tokens, width)[starts[:-1][np.diff(starts) > 0]] = -1  # have no previous tag
    unused = np.empty(numbers.size, np.float32)
    _, pair_features, pair_indptr = _rows(
        numbers, unused, np.arange(tokens + 1, dtype=np.int64) * width
    )
    return Encoded(values, features, indptr, pair_features, pair_indptr, starts)
