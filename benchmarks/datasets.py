"""Data sets: those of the studies, more from $MONRO_DATA, and a synthetic one."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import datasets as bundled
from sklearn.datasets import load_svmlight_files
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from monro.data import registry
from monro.data.read import read
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
    "counts",
    "covtype",
    "covtype_raw",
    "delicious",
    "higgs7k",
    "houses",
    "ijcnn1",
    "mnist",
    "news20",
    "news20_groups",
    "next_word",
    "omniglot",
    "rcv1",
    "rcv1_topics",
    "reuters_moneyfx",
    "small",
    "sparse_rule",
    "two_words",
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


@cache
def covtype_raw() -> Data:
    """Return covtype, class 2 against the others, with columns as they come."""
    data = read(registry.resolve("covtype"), target=registry.find("covtype").target)
    assert data.y is not None
    return _split(np.asarray(data.X, np.float64), np.where(data.y == 2, 1.0, -1.0))


@cache
def higgs7k() -> Data:
    """Return a small sample of HIGGS, with columns as they come."""
    target = registry.find("higgs7k").target
    parts: list[Any] = []
    for part in ("train", "test"):
        data = read(registry.resolve(f"higgs7k/{part}"), target=target)
        parts += [np.asarray(data.X, np.float64), data.y]
    return Data(*parts)


@cache
def small(name: str) -> Data:
    """Return a set that comes with scikit-learn: a fifth of the rows for testing."""
    X, y = getattr(bundled, f"load_{name}")(return_X_y=True)
    stratify = None if name == "diabetes" else y
    X, test_X, y, test_y = train_test_split(X, y, test_size=0.2, random_state=0, stratify=stratify)
    return Data(X, y, test_X, test_y)


@cache
def two_words(tokens: int | None = None) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return WikiText-2's next words, with one-hot features for each of the two words before."""
    X, y = next_word(words=10**6)
    previous = X.indices[1:tokens]
    n, words = previous.size, int(max(y.max(), X.indices.max())) + 1
    columns = np.column_stack([X.indices[:n], words + previous]).astype(np.int32)
    indptr = np.arange(0, 2 * n + 1, 2)
    shape = (n, 2 * words)
    return sp.csr_matrix((np.ones(2 * n, np.float32), columns.ravel(), indptr), shape), y[1 : n + 1]


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


@cache
def houses(n: int = 20_640) -> Data:
    """Return house prices like the Californian ones: eight columns in very different units.

    Prices rise with income and fall with the distance to the nearer of two cities; they are cut off
    at 5, as the Californian ones are.
    """
    rng = np.random.default_rng(0)
    income = rng.lognormal(1.2, 0.45, n)
    age = rng.integers(1, 53, n).astype(float)
    rooms = rng.lognormal(1.65, 0.3, n) + 0.3 * income
    bedrooms = 0.2 * rooms * rng.lognormal(0.0, 0.1, n)
    population = rng.lognormal(7.0, 0.75, n)
    occupants = rng.lognormal(1.05, 0.3, n)
    cities = np.array([[34.0, -118.2], [37.7, -122.3]])
    place = cities[rng.integers(2, size=n)] + rng.normal(0.0, 0.8, (n, 2))
    distance = np.linalg.norm(place[:, None] - cities, axis=2).min(axis=1)
    X = np.column_stack([income, age, rooms, bedrooms, population, occupants, place])
    y = 0.45 * income + 0.008 * age - 0.1 * rooms + 0.5 * bedrooms - 0.2 * np.log(occupants)
    y = np.clip(y - 0.35 * distance + rng.normal(0.0, 0.5, n) + 0.6, 0.15, 5.0)
    return _first_rows(X, y)


@cache
def counts(n: int = 20_000, d: int = 50) -> Data:
    """Return counts by Poisson's law, whose means depend on a fifth of the columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1.0, 1.0, d)
    w = rng.standard_normal(d) * (rng.random(d) < 0.2) / X.std(axis=0)
    scores = X @ (w / np.linalg.norm(w * X.std(axis=0)))
    return _first_rows(X, rng.poisson(np.exp(0.7 * scores)).astype(float))


def _first_rows(X: np.ndarray, y: np.ndarray) -> Data:
    """Return generated rows, the first four fifths for training."""
    first = 4 * y.size // 5
    return Data(X[:first], y[:first], X[first:], y[first:])
