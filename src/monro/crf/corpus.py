"""Sentences made ready for the kernels: which features there are, and where each token has them."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.crf.encoding import Counts, Encoded, Hashed, Table, encode
from monro.crf.features import Extractor
from monro.crf.template import Template
from monro.crf.tokens import Tokens, columns_of, given_features
from monro.rows import Array

_BLOCK = 4000  # sentences made ready together


class FeatureMap(NamedTuple):
    """What is known of features: how to make them, their numbers, and their names."""

    templates: list[Template] | None  # None: tokens bring their features
    n_columns: int
    single: Table | Hashed
    pairs: Table
    names: list[str]  # none where numbers are hashes
    pair_names: list[str]
    extractor: Extractor

    @property
    def template(self) -> str | None:
        """The text of the template."""
        if self.templates is None:
            return None
        return "\n".join(template.text for template in self.templates)

    @property
    def pair_templates(self) -> list[Template]:
        """What makes features of pairs."""
        return self.extractor.pairs

    def encode(self, sentences: Sequence[Any], start: int = 0) -> Encoded:
        """Return the sentences as rows of features; those that are not known are left out.

        Messages count them from `start`.
        """
        numbers = range(start, start + len(sentences))
        tokens = read_tokens(sentences, self.templates, self.n_columns, numbers)
        return encode(self.extractor.keys(tokens), self.single, self.pairs, tokens.starts)


def brings_features(sentences: Sequence[Any]) -> bool:
    """Tell whether tokens are lists or dicts of features, as CRFsuite takes them."""
    for sentence in sentences:
        for token in sentence:
            return isinstance(token, (list, dict, set, frozenset))
    return False


def read_tokens(
    sentences: Sequence[Any],
    templates: list[Template] | None,
    n_columns: int,
    numbers: Sequence[int],
) -> Tokens:
    """Return the tokens of sentences, which are of the same kind as those trained on."""
    if any(len(sentence) for sentence in sentences) and brings_features(sentences) != (
        templates is None
    ):
        kinds = ("tuples of columns", "lists or dicts of features")
        raise ValueError(
            f"the tokens are {kinds[templates is not None]}, the model was fitted on "
            f"{kinds[templates is None]}"
        )
    if templates is None:
        return given_features(sentences, numbers)
    return columns_of(sentences, n_columns, numbers)


def make_map(
    blocks: Callable[[], Iterable[Tokens]],
    templates: list[Template] | None,
    n_columns: int,
    *,
    cutoff: int,
    hash_bits: int | None,
    known: FeatureMap | None = None,
) -> FeatureMap:
    """Return the features that occur at least `cutoff` times, after those known before."""
    extractor = Extractor(templates)
    extractor.check(n_columns)
    single, pairs = Counts(), Counts()
    for tokens in blocks():
        keyed = extractor.keys(tokens)
        if hash_bits is None:
            single.add(keyed.keys)
        pairs.add(keyed.pair_keys[_after_first(tokens.starts)])
    before = (known.single, known.pairs) if known is not None else (None, None)
    new = [
        _unknown(*counts.frequent(cutoff), table)
        for counts, table in zip((single, pairs), before, strict=True)
    ]
    names, pair_names = _names(blocks, extractor, [first for _, first in new])
    keys, pair_keys = (keys for keys, _ in new)
    if known is not None:
        names, pair_names = known.names + names, known.pair_names + pair_names
        pair_keys = np.concatenate([known.pairs.keys, pair_keys])
        if isinstance(known.single, Table):
            keys = np.concatenate([known.single.keys, keys])
    numbers = Table(keys) if hash_bits is None else Hashed(int(hash_bits))
    return FeatureMap(templates, n_columns, numbers, Table(pair_keys), names, pair_names, extractor)


def _names(
    blocks: Callable[[], Iterable[Tokens]], extractor: Extractor, first: list[Array]
) -> list[list[str]]:
    """Return the names of features and of pair features, first seen at these places."""
    names: list[list[str]] = [[""] * places.size for places in first]
    seen = [0, 0]
    for tokens in blocks() if any(names) else ():
        keyed = extractor.keys(tokens)
        coupled = _after_first(tokens.starts)
        width = keyed.pair_keys.shape[1]
        for k, size in enumerate((keyed.keys.size, coupled.size * width)):
            places = first[k] - seen[k]
            mine = np.flatnonzero((places >= 0) & (places < size))
            at = places[mine]
            if k == 1:  # among all tokens, not only those that have one before them
                at = coupled[at // width] * width + at % width
            found = extractor.names(tokens, at, pairs=k == 1)
            for p, name in zip(mine.tolist(), found, strict=True):
                names[k][p] = name
            seen[k] += size
    return names


def _unknown(keys: Array, first: Array, table: Any) -> tuple[Array, Array]:
    if not isinstance(table, Table):
        return keys, first
    new = table.numbers(keys) < 0
    return keys[new], first[new]


def _after_first(starts: Array) -> Array:
    """Return the tokens that have one before them in their sentence."""
    first = np.zeros(starts[-1] + 1, bool)
    first[starts] = True
    return np.flatnonzero(~first[:-1])


def in_blocks(
    sentences: Sequence[Any],
    numbers: Sequence[int],
    read: Callable[[Sequence[Any], Sequence[int]], Tokens],
) -> list[Tokens]:
    """Return the tokens of many sentences, some sentences at a time."""
    parts = [slice(k, k + _BLOCK) for k in range(0, max(1, len(sentences)), _BLOCK)]
    return [read(sentences[part], numbers[part]) for part in parts]


# -------------------------------------------------------------------------------- large corpora


class Growing:
    """An array that grows at its end, in memory or in a file."""

    def __init__(self, dtype: Any, path: Path | None):
        self.dtype = np.dtype(dtype)
        self.size = 0
        self._parts: list[Array] = []
        self._path = path

    def add(self, part: Array) -> None:
        """Append."""
        part = np.ascontiguousarray(part, self.dtype)
        self.size += part.size
        if self._path is not None:
            with self._path.open("ab") as file:
                part.tofile(file)
        else:
            self._parts.append(part)

    def array(self) -> Array:
        """Return the whole."""
        if self._path is None:
            if len(self._parts) == 1:
                return self._parts[0]
            return np.concatenate([np.zeros(0, self.dtype), *self._parts])
        if self.size == 0:
            return np.zeros(0, self.dtype)
        # Writable, though nobody writes: kernels are compiled for writable arrays. To map a file
        # for private changes would take as much memory as the system has to promise.
        mapped: Array = np.memmap(self._path, self.dtype, "r+", shape=(self.size,))
        return mapped


def encode_all(
    blocks: Iterable[Tokens], features: FeatureMap, folder: Path | None = None
) -> Encoded:
    """Return all sentences as rows of features; with a folder, they lie in files there."""
    kinds = (np.float32, np.uint32, np.int64, np.uint32, np.int64, np.int64)
    growing = [
        Growing(kind, folder / f"{name}.bin" if folder is not None else None)
        for name, kind in zip(Encoded._fields, kinds, strict=True)
    ]
    values, numbers, indptr, pairs, pair_indptr, starts = growing
    for pointers in (indptr, pair_indptr, starts):
        pointers.add(np.zeros(1))
    for tokens in blocks:
        keyed = features.extractor.keys(tokens)
        part = encode(keyed, features.single, features.pairs, tokens.starts)
        starts.add(part.starts[1:] + (indptr.size - 1))
        indptr.add(part.indptr[1:] + numbers.size)
        pair_indptr.add(part.pair_indptr[1:] + pairs.size)
        values.add(part.values)
        numbers.add(part.features)
        pairs.add(part.pairs)
    return Encoded(*(each.array() for each in growing))


def tag_codes(tags: Sequence[Sequence[str]], index: dict[str, int]) -> Array:
    """Return the numbers of the tags of all tokens."""
    flat = chain.from_iterable(tags)
    try:
        return np.fromiter(map(index.__getitem__, flat), np.int32)
    except (KeyError, TypeError):
        for s, sentence in enumerate(tags):
            for t, tag in enumerate(sentence):
                if not isinstance(tag, str) or tag not in index:
                    raise ValueError(
                        f"sentence {s}, token {t}: the tag {tag!r} is none of the model's "
                        f"({', '.join(sorted(index)[:5])}, …)"
                    ) from None
        raise


def as_list(name: str, given: Any) -> list[Any]:
    """Return sentences or their tags as a list."""
    if isinstance(given, (str, dict)) or not isinstance(given, Iterable):
        raise ValueError(f"{name}: give a list with an entry for each sentence")
    return given if isinstance(given, list) else list(given)


def as_sentences(given: Any) -> list[Any]:
    """Return sentences as a list of lists of tokens."""
    sentences = as_list("sentences", given)
    for s, sentence in enumerate(sentences):
        if isinstance(sentence, (str, bytes, dict)) or not hasattr(sentence, "__len__"):
            raise ValueError(
                f"sentence {s}: a sentence is a list of tokens, here is {sentence!r:.40}"
            )
    return sentences
