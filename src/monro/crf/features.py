"""From tokens to features, identified by 64-bit hashes of their texts.

Texts are hashed once; templates combine the hashes of whole columns by arithmetic.
"""

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from monro.crf.template import Template, check_columns
from monro.crf.tokens import Tokens
from monro.rows import Array

TRANSITION = "B"  # the feature that every pair of neighbouring tags has
_MOST_TEXTS = 1 << 18

# ------------------------------------------------------------------------------------------ hashes


class _HashCache(dict[str, int]):
    """Hashes of texts, cached up to a maximal number."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self[text] = value = int.from_bytes(digest, "little")
        return value

    def __reduce__(self) -> Any:  # the cache is not copied or pickled
        return _HashCache, ()


_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)


def _mix(key: Array, part: Array) -> None:
    """Combine keys with a further part, in place; the order of parts matters."""
    key ^= part
    for factor in (_ODD, _OTHER):
        key *= factor
        key ^= key >> _HALF


# ----------------------------------------------------------------------------------- extraction


class Keyed(NamedTuple):
    """The features of some tokens, by their hashes, and those of pairs of tags."""

    keys: Array
    values: Array | None  # None: all 1
    indptr: Array
    pair_keys: Array  # (tokens, features)


class Extractor:
    """Computes the features of tokens from templates, or takes those given.

    Parameters
    ----------
    templates : list of Template, or None
        None: tokens are lists of features, and pairs of tags have the one feature "B".
    """

    def __init__(self, templates: list[Template] | None):
        self.templates = templates
        self.single = [template for template in templates or [] if not template.of_pairs]
        self.pairs = [template for template in templates or [] if template.of_pairs]
        if templates is None:
            self.pairs = [Template((TRANSITION,), ())]
        self._hash = _HashCache()

    @property
    def has_single(self) -> bool:
        """Whether there are features of single tags."""
        return self.templates is None or bool(self.single)

    def check(self, n_columns: int) -> None:
        """Raise if a template refers to a column that tokens do not have."""
        check_columns(self.templates or [], n_columns)

    def keys(self, tokens: Tokens) -> Keyed:
        """Return the features of tokens."""
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
            key = np.full(n, self._hash["\0".join(template.texts)], np.uint64)
            for place in template.places:
                if place not in atoms:
                    column = self._column(tokens, place.column)
                    atoms[place] = self._shifted_hashes(column, tokens.starts, place.row)
                _mix(key, atoms[place])
            keys[:, k] = key
        return keys

    def _column(self, tokens: Tokens, k: int) -> Array:
        """Return the hashes of column k; the names of given features are column 0."""
        if k not in tokens.hashes:
            texts = tokens.content[k]
            tokens.hashes[k] = np.fromiter(
                map(self._hash.__getitem__, texts), np.uint64, len(texts)
            )
        return tokens.hashes[k]

    def _shifted_hashes(self, column: Array, starts: Array, row: int) -> Array:
        """Return the hash at offset `row` from each token; beyond its sentence, a `_B` symbol's."""
        if row == 0:
            return column
        shifted = np.roll(column, -row)
        lengths = np.diff(starts)
        longest = int(lengths.max(initial=0))
        for k in range(max(1, abs(row) + 1 - longest), abs(row) + 1):
            # Tokens whose neighbour is k beyond the border have `inside` tokens up to the border.
            inside = abs(row) - k
            long = lengths > inside
            at = starts[:-1][long] + inside if row < 0 else starts[1:][long] - 1 - inside
            shifted[at] = self._hash[f"_B{'-' if row < 0 else '+'}{k}"]
        return shifted

    def names(self, tokens: Tokens, at: Array, *, pairs: bool) -> list[str]:
        """Return the texts of features, given their positions among the keys of the tokens."""
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
    """Return the text of a template's feature at a token of the sentence from `first` to `stop`."""
    text = template.texts[0]
    for place, after in zip(template.places, template.texts[1:], strict=True):
        other = token + place.row
        if other < first:
            text += f"_B-{first - other}"
        elif other >= stop:
            text += f"_B+{other - stop + 1}"
        else:
            text += columns[place.column][other]
        text += after
    return text
