"""Sentences to train on, from Python or from a file."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.crf.corpus import (
    FeatureMap,
    as_list,
    as_sentences,
    brings_features,
    in_blocks,
    read_tokens,
    tag_codes,
)
from monro.crf.features import Tokens, columns_of, given_features
from monro.crf.template import Template, default_template, parse, read_template
from monro.data.conll import conll_blocks
from monro.data.files import is_stdin
from monro.errors import DataError
from monro.rows import Array


class Known(NamedTuple):
    """What a model knows that goes on."""

    features: FeatureMap
    classes: Array


class Corpus(NamedTuple):
    """Sentences that can be gone through more than once, some at a time."""

    blocks: Callable[[], Iterable[Tokens]]
    tags: Array  # the numbers of all tokens' tags
    weight: Array  # of each sentence
    classes: Array
    templates: list[Template] | None  # None: tokens bring their features
    n_columns: int


def from_sentences(
    sentences: Any, tags: Any, sample_weight: Any, template: str | Path | None, known: Known | None
) -> Corpus:
    """Return sentences given in Python; empty ones and those of weight 0 are left out."""
    sentences, tags = as_sentences(sentences), as_list("tags", tags)
    if len(sentences) != len(tags):
        raise ValueError(f"there are {len(sentences)} sentences and {len(tags)} lists of tags")
    for s, (tokens, names) in enumerate(zip(sentences, tags, strict=True)):
        if isinstance(names, str) or not hasattr(names, "__len__"):
            raise ValueError(f"sentence {s}: its tags are {names!r:.40}; give a list of them")
        if len(tokens) != len(names):
            raise ValueError(f"sentence {s}: it has {len(tokens)} tokens and {len(names)} tags")
    weight = _weights(sample_weight, len(sentences))
    kept = [k for k in range(len(sentences)) if len(sentences[k]) and weight[k] > 0.0]
    if not kept:
        raise ValueError("there is no token to learn from; give sentences of a weight above 0")
    if len(kept) < len(sentences):
        sentences, tags = [sentences[k] for k in kept], [tags[k] for k in kept]
        weight = weight[kept]
    for s, names in zip(kept, tags, strict=True):
        for name in names:
            if not isinstance(name, str):
                raise ValueError(f"sentence {s}: a tag is a text, here is {name!r:.40}")
    different = set(chain.from_iterable(tags))
    templates: list[Template] | None = None
    n_columns = 0
    if known is not None:
        templates, n_columns = _known_templates(template, known), known.features.n_columns
    elif not brings_features(sentences):
        first = sentences[0][0]
        n_columns = 1 if isinstance(first, str) else len(first)
        templates = _templates(template, n_columns)
    elif template is not None:
        raise ValueError("template: the tokens bring their features, so there is none")
    if known is not None:
        blocks = in_blocks(
            sentences, kept, lambda part, at: read_tokens(part, templates, n_columns, at)
        )
    elif templates is None:
        blocks = in_blocks(sentences, kept, given_features)
    else:
        blocks = in_blocks(sentences, kept, lambda part, at: columns_of(part, n_columns, at))
    classes = _classes(different, known)
    codes = tag_codes(tags, {name: k for k, name in enumerate(classes.tolist())})
    return Corpus(lambda: blocks, codes, weight, classes, templates, n_columns)


def _weights(given: Any, n: int) -> Array:
    if given is None:
        return np.ones(n)
    weight = np.asarray(given, np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}, there are {n} sentences")
    if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
        raise ValueError("sample_weight: give finite numbers of at least 0")
    return weight


def _templates(template: str | Path | None, n_columns: int) -> list[Template]:
    return parse(default_template(n_columns)) if template is None else read_template(template)


def _known_templates(template: str | Path | None, known: Known) -> list[Template] | None:
    """Return the templates that a model was fitted with, which are those asked for."""
    templates = known.features.templates
    if template is not None and read_template(template) != templates:
        raise ValueError("template: the model was fitted with another one; fit anew")
    return templates


def _classes(names: set[str], known: Known | None) -> Array:
    """Return the tags, with those known before."""
    if known is not None:
        names = names | set(known.classes.tolist())
    return np.array(sorted(names), dtype=object)


def from_file(
    path: str | Path, template: str | Path | None, known: Known | None, *, keep: bool
) -> Corpus:
    """Return the sentences of a file of columns: kept in memory, or read anew each time."""
    if is_stdin(path):
        raise DataError("standard input cannot be read twice", path, cure="give a file")
    index: dict[str, int] = {}
    codes: list[Array] = []
    read: list[Tokens] = []
    sentences = n_columns = 0
    for block in conll_blocks(path):
        n_columns = len(block.tokens[0][0])
        sentences += len(block.tokens)
        flat = list(chain.from_iterable(block.tags))
        for tag in flat:
            index.setdefault(tag, len(index))
        codes.append(tag_codes(block.tags, index))
        if keep:
            read.append(columns_of(block.tokens, n_columns))
    expected = n_columns if known is None else known.features.n_columns
    if n_columns != expected:
        raise DataError(
            f"its tokens have {n_columns} columns, the model was fitted on "
            + (f"{expected}" if expected else "lists or dicts of features"),
            path,
        )
    if known is None:
        templates: list[Template] | None = _templates(template, n_columns)
    else:
        templates = _known_templates(template, known)
    classes = _classes(set(index), known)
    place = np.searchsorted(classes, np.array(list(index), dtype=object)).astype(np.int32)

    def again() -> Iterator[Tokens]:
        for block in conll_blocks(path):
            yield columns_of(block.tokens, n_columns)

    tags = place[np.concatenate(codes)]
    blocks = (lambda: read) if keep else again
    return Corpus(blocks, tags, np.ones(sentences), classes, templates, n_columns)
