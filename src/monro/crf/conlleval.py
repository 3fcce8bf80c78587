"""Precision, recall and F1 of chunks, as conlleval (the script of the CoNLL shared tasks) counts.

A chunk begins at B-X, at S-X, at I-X or E-X after O or another type, and after the end of a chunk;
it ends where the next token is outside, begins a chunk, or is of another type. A predicted chunk is
correct if its first token, its last token and its type are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from monro.rows import Array

_CHUNKED = ("B", "I", "E", "S")


class Spans(NamedTuple):
    """Chunks: their first tokens, their last tokens, and their types."""

    first: Array
    last: Array
    kind: Array


class Counts(NamedTuple):
    """Numbers of chunks."""

    correct: int
    found: int
    there: int  # in the true tags

    @property
    def precision(self) -> float:
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        total = self.found + self.there
        return 2.0 * self.correct / total if total else 0.0


class Evaluation(NamedTuple):
    """Chunks counted overall and by type, and the accuracy of tokens."""

    overall: Counts
    by_type: dict[str, Counts]
    tokens: int
    right: int  # tokens of correct tags

    @property
    def accuracy(self) -> float:
        return self.right / self.tokens if self.tokens else 0.0

    def table(self) -> str:
        """Return conlleval's table: percentages overall and by type, and how many were found."""
        overall = self.overall
        lines = [
            f"processed {self.tokens} tokens with {overall.there} phrases; "
            f"found: {overall.found} phrases; correct: {overall.correct}.",
            f"accuracy: {100 * self.accuracy:6.2f}%; {_percentages(overall)}",
        ]
        lines += [
            f"{kind:>17}: {_percentages(counts)}  {counts.found}"
            for kind, counts in self.by_type.items()
        ]
        return "\n".join(lines)


def _percentages(counts: Counts) -> str:
    return (
        f"precision: {100 * counts.precision:6.2f}%; recall: {100 * counts.recall:6.2f}%; "
        f"FB1: {100 * counts.f1:6.2f}"
    )


def _parts(tag: str, chunked: bool) -> tuple[str, str]:
    """Return a tag's prefix and type; if tags have no prefixes, every token is a chunk."""
    if tag == "O":
        return "O", ""
    if not chunked:
        return "S", tag
    prefix, dash, kind = tag.partition("-")
    return (prefix if prefix in _CHUNKED else "I", kind if dash else tag)


def spans(tags: Sequence[Sequence[str]], *, chunked: bool | None = None) -> Spans:
    """Return the chunks of sentences; tokens are numbered across sentences.

    Examples
    --------
    >>> found = spans([["B-NP", "I-NP", "O", "I-VP", "I-NP"]])
    >>> list(zip(found.first.tolist(), found.last.tolist(), found.kind.tolist()))
    [(0, 1, 'NP'), (3, 3, 'VP'), (4, 4, 'NP')]
    """
    flat = [tag for sentence in tags for tag in (*sentence, "O")]  # chunks end with sentences
    names, codes = np.unique(np.array(["O", *flat], dtype=object), return_inverse=True)
    chunked = uses_chunks(names.tolist()) if chunked is None else chunked
    prefixes, kinds = zip(*(_parts(name, chunked) for name in names.tolist()), strict=True)
    prefix, kind = np.array(prefixes)[codes], np.array(kinds, dtype=object)[codes]
    before, now = prefix[:-1], prefix[1:]
    changed = kind[:-1] != kind[1:]
    closed = np.isin(before, ("O", "E", "S")) | np.isin(now, ("O", "B", "S")) | changed
    first = np.flatnonzero(closed & (now != "O"))
    last = np.flatnonzero(closed & (before != "O")) - 1
    token = np.cumsum([True] * (len(flat) or 1)) - 1
    lengths = np.array([len(sentence) for sentence in tags], dtype=np.int64)
    token -= np.repeat(np.arange(lengths.size), lengths + 1) if flat else 0
    return Spans(token[first], token[last], kind[1:][first])


def uses_chunks(tags: Sequence[str]) -> bool:
    """Return whether any tag has the prefix of a chunk, as B-NP has."""
    return any(tag[:1] in _CHUNKED and tag[1:2] == "-" for tag in tags)


def evaluate(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Evaluation:
    """Count the chunks of true and predicted tags.

    Examples
    --------
    >>> true = [["B-NP", "I-NP", "O", "B-VP"]]
    >>> print(evaluate(true, [["B-NP", "I-NP", "O", "O"]]).table())
    processed 4 tokens with 2 phrases; found: 1 phrases; correct: 1.
    accuracy:  75.00%; precision: 100.00%; recall:  50.00%; FB1:  66.67
                   NP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
                   VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
    """
    if len(true) != len(predicted):
        raise ValueError(f"there are {len(true)} sentences of tags, and {len(predicted)} predicted")
    for s, (a, b) in enumerate(zip(true, predicted, strict=True)):
        if len(a) != len(b):
            raise ValueError(f"sentence {s}: it has {len(a)} tags, and {len(b)} are predicted")
    every = {tag for sentence in (*true, *predicted) for tag in sentence}
    chunked = uses_chunks(sorted(every))
    there, found = (spans(tags, chunked=chunked) for tags in (true, predicted))
    correct = set(zip(*(part.tolist() for part in there), strict=True)) & set(
        zip(*(part.tolist() for part in found), strict=True)
    )
    kinds = sorted(set(there.kind.tolist()) | set(found.kind.tolist()))
    right_kinds = [kind for _, _, kind in correct]
    by_type = {
        kind: Counts(
            right_kinds.count(kind),
            int((found.kind == kind).sum()),
            int((there.kind == kind).sum()),
        )
        for kind in kinds
    }
    tokens = sum(map(len, true))
    right = sum(
        x == y for a, b in zip(true, predicted, strict=True) for x, y in zip(a, b, strict=True)
    )
    overall = Counts(len(correct), found.first.size, there.first.size)
    return Evaluation(overall, by_type, tokens, right)
