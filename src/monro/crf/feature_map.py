"""A corpus as kernels read it: its tokens as sparse rows of numbered features."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.crf.encoding import Counts, Encoded, Hashed, KeyTable, encode
from monro.crf.features import Extractor
from monro.crf.template import Template
from monro.crf.tokens import Tokens, columns_of, given_features
from monro.rows import Array

_BLOCK = 4000  # sentences to process at a time


class FeatureMap(NamedTuple):
    """The features of a model: how to compute them, their numbers, and their names."""

    templates: list[Template] | None  # None: tokens are lists of features
    n_columns: int
    single: KeyTable | Hashed
    pairs: KeyTable
    names: list[str]  # empty if the features are hashed
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
        """The templates of pair features."""
        return self.extractor.pairs

    def encode(self, sentences: Sequence[Any], start: int = 0) -> Encoded:
        """Return the sentences as sparse rows, without features that the model does not have.

        In error messages the first sentence has the number `start`.
        """
        numbers = range(start, start + len(sentences))
        tokens = read_tokens(sentences, self.templates, self.n_columns, numbers)
        return encode(self.extractor.keys(tokens), self.single, self.pairs, tokens.starts)


class Vocabulary(NamedTuple):
    """The features and the tags that a model has weights for."""

    features: FeatureMap
    classes: Array


def are_feature_lists(sentences: Sequence[Any]) -> bool:
    """Return whether tokens are lists or dicts of features, as CRFsuite takes them."""
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
    """Return the tokens of sentences; raise unless they are of the kind trained on."""
    if any(len(sentence) for sentence in sentences) and are_feature_lists(sentences) != (
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
    """Return a map of the features of `known`, then of those that occur at least `cutoff` times."""
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
        _without_known(*counts.frequent(cutoff), table)
        for counts, table in zip((single, pairs), before, strict=True)
    ]
    names, pair_names = _names(blocks, extractor, [first for _, first in new])
    keys, pair_keys = (keys for keys, _ in new)
    if known is not None:
        names, pair_names = known.names + names, known.pair_names + pair_names
        pair_keys = np.concatenate([known.pairs.keys, pair_keys])
        if isinstance(known.single, KeyTable):
            keys = np.concatenate([known.single.keys, keys])
    numbers = KeyTable(keys) if hash_bits is None else Hashed(int(hash_bits))
    return FeatureMap(
        templates, n_columns, numbers, KeyTable(pair_keys), names, pair_names, extractor
    )


def _names(
    blocks: Callable[[], Iterable[Tokens]], extractor: Extractor, first: list[Array]
) -> list[list[str]]:
    """Return the names of features and of pair features that first occur at these positions."""
    names: list[list[str]] = [[""] * places.size for places in first]
    seen = [0, 0]
    for tokens in blocks() if any(names) else ():
        keyed = extractor.keys(tokens)
        followers = _after_first(tokens.starts)
        width = keyed.pair_keys.shape[1]
        for k, size in enumerate((keyed.keys.size, followers.size * width)):
            places = first[k] - seen[k]
            here = np.flatnonzero((places >= 0) & (places < size))
            at = places[here]
            if k == 1:  # positions among all tokens, not only those that have a previous one
                at = followers[at // width] * width + at % width
            found = extractor.names(tokens, at, pairs=k == 1)
            for p, name in zip(here.tolist(), found, strict=True):
                names[k][p] = name
            seen[k] += size
    return names


def _without_known(keys: Array, first: Array, table: Any) -> tuple[Array, Array]:
    """Return the keys, and their first positions, that are not in a table."""
    if not isinstance(table, KeyTable):
        return keys, first
    new = table.numbers(keys) < 0
    return keys[new], first[new]


def _after_first(starts: Array) -> Array:
    """Return the tokens that are not the first of their sentence."""
    first = np.zeros(starts[-1] + 1, bool)
    first[starts] = True
    return np.flatnonzero(~first[:-1])


def in_blocks(
    sentences: Sequence[Any],
    numbers: Sequence[int],
    read: Callable[[Sequence[Any], Sequence[int]], Tokens],
) -> list[Tokens]:
    """Return the tokens of many sentences, in blocks of sentences."""
    parts = [slice(k, k + _BLOCK) for k in range(0, max(1, len(sentences)), _BLOCK)]
    return [read(sentences[part], numbers[part]) for part in parts]


# -------------------------------------------------------------------------------- large corpora


class GrowableArray:
    """An array to append to, in memory or in a file."""

    def __init__(self, dtype: Any, path: Path | None):
        self.dtype = np.dtype(dtype)
        self.size = 0
        self._parts: list[Array] = []
        self._path = path

    def add(self, part: Array) -> None:
        """Append a part."""
        part = np.ascontiguousarray(part, self.dtype)
        self.size += part.size
        if self._path is not None:
            with self._path.open("ab") as file:
                part.tofile(file)
        else:
            self._parts.append(part)

    def array(self) -> Array:
        """Return the whole array; that of a file is memory-mapped."""
        if self._path is None:
            if len(self._parts) == 1:
                return self._parts[0]
            return np.concatenate([np.zeros(0, self.dtype), *self._parts])
        if self.size == 0:
            return np.zeros(0, self.dtype)
        # Kernels are compiled for writable arrays. A private (copy-on-write) mapping would count
        # against the memory that the system may commit.
        mapped: Array = np.memmap(self._path, self.dtype, "r+", shape=(self.size,))
        return mapped


def encode_all(
    blocks: Iterable[Tokens], features: FeatureMap, folder: Path | None = None
) -> Encoded:
    """Return all sentences as sparse rows, in files of the folder if one is given."""
    kinds = (np.float32, np.uint32, np.int64, np.uint32, np.int64, np.int64)
    arrays = [
        GrowableArray(kind, folder / f"{name}.bin" if folder is not None else None)
        for name, kind in zip(Encoded._fields, kinds, strict=True)
    ]
    values, numbers, indptr, pairs, pair_indptr, starts = arrays
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
    return Encoded(*(each.array() for each in arrays))


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
