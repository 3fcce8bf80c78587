"""Data sets: those of the studies, more from $MONRO_DATA, and a synthetic one."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_files
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from monro.studies.data import (
    Data,
    bibtex,
    covtype,
    delicious,
    mnist,
    next_word,
    omniglot,
    rcv1,
    rcv1_topics,
)

__all__ = [
    "Data",
    "a9a",
    "bibtex",
    "covtype",
    "delicious",
    "ijcnn1",
    "mnist",
    "news20",
    "news20_groups",
    "next_word",
    "omniglot",
    "rcv1",
    "rcv1_topics",
    "reuters_moneyfx",
    "sparse_rule",
    "w8a",
    "zipf",
    "zipf_rows",
]


def folder() -> Path:
    path = os.environ.get("MONRO_DATA")
    if not path:
        raise SystemExit("set MONRO_DATA to the folder that holds rcv1, 20news, covtype, …")
    return Path(path)


def _svmlight(*names: str) -> list[Any]:
    loaded = list(load_svmlight_files([str(folder() / name) for name in names]))
    for X in loaded[::2]:  # several peers accept 32-bit indices only
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return loaded


def _split(X: Any, y: np.ndarray) -> Data:
    X, test_X, y, test_y = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    return Data(X, y, test_X, test_y)


@cache
def news20() -> Data:
    return Data(*_svmlight("20news/train.svm.gz", "20news/test.svm.gz"))


@cache
def news20_groups() -> Data:
    """Return 20 newsgroups with rows of unit length."""
    X, y, test_X, test_y = news20()
    return Data(normalize(X), y, normalize(test_X), test_y)


@cache
def a9a() -> Data:
    return Data(*_svmlight("a9a/a9a.svm.gz", "a9a/a9a.t.svm.gz"))


@cache
def w8a() -> Data:
    return _split(*_svmlight("w8a/w8a.svm.gz"))


@cache
def ijcnn1() -> Data:
    return Data(*_svmlight("ijcnn1/ijcnn1.svm.gz", "ijcnn1/ijcnn1.t.svm.gz"))


@cache
def reuters_moneyfx() -> Data:
    return Data(*_svmlight("reuters_moneyfx/train.svm.gz", "reuters_moneyfx/test.svm.gz"))


# ------------------------------------------------------------------------------------- synthetic


def zipf_counts(n: int, d: int, draws: int, rng: np.random.Generator) -> sp.csr_matrix:
    """Return counts of words: `draws` words a row, word k with probability ∝ 1/(k + 10)."""
    cumulative = np.cumsum(1.0 / (np.arange(d) + 10.0))
    words = np.searchsorted(cumulative, rng.random(n * draws) * cumulative[-1]).astype(np.int32)
    words = np.sort(np.minimum(words, d - 1).reshape(n, draws), axis=1)
    indptr = np.arange(0, n * draws + 1, draws)
    X = sp.csr_matrix((np.ones(n * draws), words.ravel(), indptr), shape=(n, d))
    X.sum_duplicates()
    return X


def zipf_rows(n: int, d: int, draws: int, seed: int = 0) -> sp.csr_matrix:
    """Return tf-idf rows of norm 1, of such counts."""
    X = zipf_counts(n, d, draws, np.random.default_rng(seed))
    idf = np.log(n / (1.0 + np.bincount(X.indices, minlength=d)))
    X.data = (1.0 + np.log(X.data)) * idf[X.indices]
    lengths = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X


def sparse_rule(X: Any) -> np.ndarray:
    """Return labels by a linear rule that uses a tenth of the features, with noise."""
    n, d = X.shape
    rng = np.random.default_rng(1)
    scores = X @ (rng.standard_normal(d) * (rng.random(d) < 0.1))
    return np.where(scores + 0.05 * rng.standard_normal(n) > np.median(scores), 1.0, -1.0)


@cache
def zipf(n: int = 200_000, d: int = 47_000, draws: int = 75) -> Data:
    """Return Zipf rows labelled by a sparse linear rule with noise."""
    X = zipf_rows(n, d, draws)
    return _split(X, sparse_rule(X))
