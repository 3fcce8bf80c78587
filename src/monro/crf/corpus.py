"""Reading a corpus to train on: from lists, files, tables or chunks."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.crf.feature_map import (
    GrowableArray,
    Vocabulary,
    are_feature_lists,
    as_list,
    as_sentences,
    in_blocks,
    read_tokens,
    tag_codes,
)
from monro.crf.template import Template, default_template, parse, read_template
from monro.crf.tokens import Tokens, columns_of, given_features
from monro.data.arrow import sentences_of_batch
from monro.data.conll import conll_blocks
from monro.data.files import display_name, is_stdin
from monro.data.parquet import batches_of, is_arrow, open_parquet
from monro.data.sources import is_chunks
from monro.data.tables import RowLocator
from monro.errors import DataError
from monro.mapped.chunked_arrays import chunks
from monro.rows import Array

_ROWS = 1 << 12  # sentences of a table to read at a time


class Corpus(NamedTuple):
    """Sentences with their tags, to be read more than once, a block at a time."""

    blocks: Callable[[], Iterable[Tokens]]
    tags: Array  # of each token: an index into `classes`
    weight: Array  # of each sentence
    classes: Array  # the tags, sorted
    templates: list[Template] | None  # None: tokens are lists of features
    n_columns: int


def from_sentences(
    sentences: Any,
    tags: Any,
    sample_weight: Any,
    template: str | Path | None,
    earlier: Vocabulary | None,
) -> Corpus:
    """Return the corpus of a list of sentences, without empty ones and those of weight 0."""
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
    if earlier is not None:
        templates, n_columns = _earlier_templates(template, earlier), earlier.features.n_columns
    elif not are_feature_lists(sentences):
        first = sentences[0][0]
        n_columns = 1 if isinstance(first, str) else len(first)
        templates = _templates(template, n_columns)
    elif template is not None:
        raise ValueError("template: the tokens bring their features, so there is none")
    if earlier is not None:
        blocks = in_blocks(
            sentences, kept, lambda part, at: read_tokens(part, templates, n_columns, at)
        )
    elif templates is None:
        blocks = in_blocks(sentences, kept, given_features)
    else:
        blocks = in_blocks(sentences, kept, lambda part, at: columns_of(part, n_columns, at))
    classes = _classes(different, earlier)
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


def _earlier_templates(template: str | Path | None, earlier: Vocabulary) -> list[Template] | None:
    """Return the templates of an earlier fit; raise if another template is given."""
    templates = earlier.features.templates
    if template is not None and read_template(template) != templates:
        raise ValueError("template: the model was fitted with another one; fit anew")
    return templates


def _classes(names: set[str], earlier: Vocabulary | None) -> Array:
    """Return the tags, sorted, with those of an earlier fit."""
    if earlier is not None:
        names = names | set(earlier.classes.tolist())
    return np.array(sorted(names), dtype=object)


class _TagCodes:
    """Encodes the tags of a corpus that is read in parts, in memory or in a file."""

    def __init__(self, path: Path | None):
        self._index: dict[str, int] = {}
        self._codes = GrowableArray(np.int32, path)

    def add(self, tags: Iterable[str]) -> None:
        """Append the tags of some tokens."""
        index = self._index
        self._codes.add(np.fromiter((index.setdefault(tag, len(index)) for tag in tags), np.int32))

    def finish(self, earlier: Vocabulary | None) -> tuple[Array, Array]:
        """Return the code of each token's tag, and the tags, with those of an earlier fit."""
        classes = _classes(set(self._index), earlier)
        place = np.searchsorted(classes, np.array(list(self._index), dtype=object))
        codes = self._codes.array()
        for part in chunks(codes):
            part[:] = place[part]
        return codes, classes


def from_file(
    path: str | Path, template: str | Path | None, earlier: Vocabulary | None, folder: Path | None
) -> Corpus:
    """Return the corpus of a file of columns, whose tokens are kept in memory.

    With a folder for temporary files, the file is instead read again on each pass.
    """
    if is_stdin(path):
        raise DataError("standard input cannot be read twice", path, cure="give a file")
    tags = _TagCodes(None if folder is None else folder / "tags.bin")
    read: list[Tokens] = []
    sentences = n_columns = 0
    for block in conll_blocks(path):
        n_columns = len(block.tokens[0][0])
        sentences += len(block.tokens)
        tags.add(chain.from_iterable(block.tags))
        if folder is None:
            read.append(columns_of(block.tokens, n_columns))
    expected = n_columns if earlier is None else earlier.features.n_columns
    if n_columns != expected:
        raise DataError(
            f"its tokens have {n_columns} columns, the model was fitted on "
            + (f"{expected}" if expected else "lists or dicts of features"),
            path,
        )
    if earlier is None:
        templates: list[Template] | None = _templates(template, n_columns)
    else:
        templates = _earlier_templates(template, earlier)

    def read_again() -> Iterator[Tokens]:
        for block in conll_blocks(path):
            yield columns_of(block.tokens, n_columns)

    codes, classes = tags.finish(earlier)
    blocks = (lambda: read) if folder is None else read_again
    return Corpus(blocks, codes, np.ones(sentences), classes, templates, n_columns)


# ------------------------------------------------------------------------------------------- chunks

Chunks = Iterator[tuple[Any, Any]]


def sentence_chunks(data: Any, tags: Any) -> Chunks | None:
    """Return data larger than memory as chunks ``(sentences, tags)``; None for a list."""
    if tags is not None and not isinstance(tags, str):
        return None
    a_path = isinstance(data, (str, Path))
    if not a_path and not is_arrow(data):
        return _pairs(data) if tags is None and is_chunks(data) else None
    name = display_name(data) if a_path else "the table"
    source = open_parquet(data) if a_path else data
    return (
        sentences_of_batch(batch, tags or "tags", RowLocator(name, start=start))
        for start, batch in batches_of(source, name, _ROWS)
    )


def _pairs(chunks: Iterable[Any]) -> Chunks:
    for k, chunk in enumerate(chunks):
        if not isinstance(chunk, tuple) or len(chunk) != 2:
            kind = type(chunk).__name__
            raise ValueError(f"chunk {k}: a chunk is a pair (sentences, tags), here is {kind}")
        yield chunk


def from_chunks(
    chunks: Chunks, template: str | Path | None, earlier: Vocabulary | None, folder: Path
) -> Corpus:
    """Return the corpus of chunks, which are iterated once: tokens are kept in the folder."""
    path = folder / "tokens.bin"
    tags = _TagCodes(folder / "tags.bin")
    first: Corpus | None = None
    sentences = 0
    with path.open("wb") as file:
        for k, (tokens, names) in enumerate(chunks):
            tokens = as_sentences(tokens)
            if not any(map(len, tokens)):
                continue
            try:
                part = from_sentences(tokens, names, None, template, earlier)
            except ValueError as error:
                raise ValueError(f"chunk {k}: {error}") from None
            first = first or part._replace(blocks=lambda: ())
            if part.n_columns != first.n_columns:
                kinds = [f"{n} columns" if n else "features" for n in (part[-1], first[-1])]
                raise ValueError(f"chunk {k}: its tokens have {kinds[0]}, those before {kinds[1]}")
            for block in part.blocks():
                pickle.dump(tuple(block), file, pickle.HIGHEST_PROTOCOL)
            tags.add(part.classes[part.tags].tolist())
            sentences += part.weight.size
    if first is None:
        raise ValueError("there is no token to learn from; give sentences")

    def read_again() -> Iterator[Tokens]:
        with path.open("rb") as file:
            size = path.stat().st_size
            while file.tell() < size:
                yield Tokens(*pickle.load(file))

    codes, classes = tags.finish(earlier)
    return first._replace(blocks=read_again, tags=codes, weight=np.ones(sentences), classes=classes)
