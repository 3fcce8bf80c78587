"""A language model: the next word from the last one to four."""

import gzip
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.observed.models import THREADS, make
from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result

TEXTS = {"PTB": "ptb", "WikiText-2": "wikitext2"}
WORDS_BEFORE = 4
# Test perplexity on the same text (Mikolov and others, Interspeech 2011).
PUBLISHED = {
    "Good-Turing, 3-gram": 165.2,
    "maximum entropy, 5-gram": 142.1,
    "Kneser-Ney, 5-gram": 141.2,
}


class Text(NamedTuple):
    """Next words: their contexts as indicators, and their codes (-1 for words not in training)."""

    X: Any
    y: np.ndarray
    test_X: Any  # noqa: N815
    test_y: np.ndarray


def tokens(name: str, part: str) -> np.ndarray:
    """Return the words of a text; each line ends with a word of its own."""
    with gzip.open(datasets.folder() / TEXTS[name] / f"{part}.txt.gz", "rt") as file:
        return np.array(file.read().replace("\n", " <eos> ").split())


def _numbered(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the place of each value among the known ones, which are sorted; -1 for all others."""
    place = np.minimum(np.searchsorted(known, values), known.size - 1)
    return np.where(known[place] == values, place, -1)


def contexts(train: np.ndarray, test: np.ndarray, most: int = WORDS_BEFORE) -> Text:
    """Return next words with a column for each context of up to `most` words seen in training.

    A context of one more word is a pair: a context, and the word before it. They cross the ends of
    lines. At the beginning of a text there are fewer words before.
    """
    words, y = np.unique(train, return_inverse=True)
    test_y = _numbered(words, test)
    codes = y, test_y
    of_rows = [np.zeros(each.size, np.int64) for each in codes]  # the empty context
    columns: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    width = 0
    for order in range(1, most + 1):
        keys = []
        for context, each in zip(of_rows, codes, strict=True):
            word = np.full(each.size, -1, np.int64)
            word[order:] = each[:-order]
            keys.append(np.where((context < 0) | (word < 0), -1, context * words.size + word))
        known = np.unique(keys[0][order:])
        of_rows = [_numbered(known, each) for each in keys]
        for mine, context in zip(columns, of_rows, strict=True):
            mine.append(np.where(context < 0, -1, width + context))
        width += known.size
    X, test_X = (_indicators(np.stack(mine, axis=1), width) for mine in columns)
    return Text(X, y, test_X, test_y)


def _indicators(columns: np.ndarray, width: int) -> sp.csr_matrix:
    """Return rows with a one in each of their columns; -1 is none."""
    there = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    ones = np.ones(indptr[-1], np.float32)
    entries = ones, columns[there].astype(np.int32), indptr.astype(np.int32)
    return sp.csr_matrix(entries, shape=(columns.shape[0], width))


def cells(quick: bool) -> list[str]:
    return ["PTB"] if quick else list(TEXTS)


def measure(name: str, *, quick: bool, limit: float) -> Result:
    train, test = tokens(name, "train"), tokens(name, "test")
    text = contexts(train[:20_000], test[:2000]) if quick else contexts(train, test)
    make(n_jobs=THREADS).fit(text.X[:500], text.y[:500])  # compiles
    model = make(n_jobs=THREADS)
    seconds = judging.seconds_of(lambda: model.fit(text.X, text.y))
    ends = [0.0, *(record["seconds"] for record in model.history_)]
    known = np.flatnonzero(text.test_y >= 0)
    loss = model.log_loss(text.test_X[known], text.test_y[known])
    found = {
        "rows": text.y.size,
        "words": model.classes_.size,
        "contexts": text.X.shape[1],
        "pairs": model.plan_["pairs"],
        "alpha": model.plan_["alpha"],
        "seconds": seconds,
        "epochs": model.n_iter_,
        "epoch_seconds": float(np.median(np.diff(ends))),
        "tests": known.size,
        "left_out": text.test_y.size - known.size,
        "perplexity": float(np.exp(loss)),
    }
    print(name, found, flush=True)
    return found


def table(rows: list[Result]) -> str:
    lines = [
        [
            row["set"],
            *(f"{row[key]:,}" for key in ("rows", "words", "contexts", "pairs")),
            f"{row['alpha'] * row['rows']:.3g}",
            f"{row['seconds']:.1f}",
            str(row["epochs"]),
            f"{row['epoch_seconds']:.2f}",
            f"{row['tests']:,}",
            f"{row['perplexity']:.1f}",
        ]
        for row in rows
    ]
    header = ["next word", "training words", "distinct", "contexts", "observed pairs", "alpha·N"]
    header += ["s", "epochs", "s an epoch", "test words", "test perplexity"]
    left_out = [f"{row['set']} {row['left_out']:,}" for row in rows if row["left_out"]]
    parts = [
        markdown(header, lines),
        f"Test words left out, as no training word is equal: {', '.join(left_out) or 'none'}.",
    ]
    for row in rows:
        if row["set"] == "PTB":
            ratios = {model: row["perplexity"] / theirs for model, theirs in PUBLISHED.items()}
            lines = [[m, f"{PUBLISHED[m]:.1f}", f"{ratio:.3f}"] for m, ratio in ratios.items()]
            header = ["PTB, test perplexity", "as published", "monro's over it"]
            claim = "Perplexity on PTB at most that published"
            parts += [markdown(header, lines), sentences.at_most(claim, ratios, 1.0)]
    return "\n\n".join(parts)
