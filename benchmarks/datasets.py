"""The data: real sets from $MONRO_DATA, and a generated one."""

import gzip
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_files
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from monro.data.read import read


class Data(NamedTuple):
    """Training and test rows."""

    X: Any
    y: np.ndarray
    test_X: Any  # noqa: N815
    test_y: np.ndarray


def folder() -> Path:
    path = os.environ.get("MONRO_DATA")
    if not path:
        raise SystemExit("set MONRO_DATA to the folder that holds rcv1, 20news, covtype, …")
    return Path(path)


def _svmlight(*names: str) -> list[Any]:
    loaded = list(load_svmlight_files([str(folder() / name) for name in names]))
    for X in loaded[::2]:  # several peers take 32-bit indices only
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return loaded


def _split(X: Any, y: np.ndarray) -> Data:
    X, test_X, y, test_y = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    return Data(X, y, test_X, test_y)


@cache
def rcv1() -> Data:
    return Data(*_svmlight("rcv1/rcv1_ccat_train.svm.gz", "rcv1/rcv1_ccat_test.svm.gz"))


@cache
def news20() -> Data:
    return Data(*_svmlight("20news/train.svm.gz", "20news/test.svm.gz"))


@cache
def news20_groups() -> Data:
    """Return the twenty groups, rows of unit length."""
    X, y, test_X, test_y = news20()
    return Data(normalize(X), y, normalize(test_X), test_y)


@cache
def a9a() -> Data:
    return Data(*_svmlight("a9a/a9a.svm.gz", "a9a/a9a.t.svm.gz"))


@cache
def w8a() -> Data:
    return _split(*_svmlight("w8a/w8a.svm.gz"))


@cache
def covtype() -> Data:
    """Class 2 against the rest; features standardised."""
    with gzip.open(folder() / "covtype/covtype.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    X = table[:, :-1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return _split(X, np.where(table[:, -1] == 2, 1.0, -1.0))


# ------------------------------------------------------------------------------- many classes


def _first_labels(train: str, test: str, *, scaled: bool = True) -> Data:
    """Rows of unit length, or as they are; of several labels the lowest."""
    X, y, test_X, test_y = (part for name in (train, test) for part in read(folder() / name)[:2])
    return (
        Data(normalize(X), y, normalize(test_X), test_y) if scaled else Data(X, y, test_X, test_y)
    )


def _images(name: str, *, scaled: bool) -> np.ndarray:
    """Rows of unit length, or pixels from 0 to 1."""
    data = gzip.decompress((folder() / name).read_bytes())
    pixels = np.frombuffer(data, np.uint8, offset=16).reshape(-1, 784) / 255.0
    return normalize(pixels) if scaled else pixels


@cache
def bibtex(*, scaled: bool = True) -> Data:
    return _first_labels("bibtex/train.xc.txt.gz", "bibtex/test.xc.txt.gz", scaled=scaled)


@cache
def delicious() -> Data:
    return _first_labels("delicious/train.xc.txt.gz", "delicious/test.xc.txt.gz")


@cache
def rcv1_topics() -> Data:
    return _first_labels("rcv1/rcv1_topics_train.xc.txt.gz", "rcv1/rcv1_topics_test.xc.txt.gz")


@cache
def mnist(*, scaled: bool = True) -> Data:
    parts: list[np.ndarray] = []
    for part in ("train", "t10k"):
        labels = gzip.decompress((folder() / f"mnist/{part}-labels-idx1-ubyte.gz").read_bytes())
        parts += [
            _images(f"mnist/{part}-images-idx3-ubyte.gz", scaled=scaled),
            np.frombuffer(labels, np.uint8)[8:],
        ]
    return Data(*parts)


@cache
def omniglot(*, scaled: bool = True) -> Data:
    parts: list[np.ndarray] = []
    for part in ("train", "test"):
        labels = gzip.decompress((folder() / f"omniglot/{part}-labels.txt.gz").read_bytes())
        images = _images(f"omniglot/{part}-images-idx3-ubyte.gz", scaled=scaled)
        parts += [images, np.array(labels.split(), np.int64)]
    return Data(*parts)


@cache
def next_word(name: str = "wikitext2", words: int = 4096) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return one-hot rows for the previous word, rare ones together, and the next word.

    Lines end with a word of their own; words are numbered from frequent to rare.
    """
    text = gzip.decompress((folder() / name / "train.txt.gz").read_bytes()).decode()
    _, ids, counts = np.unique(
        np.array(text.replace("\n", " <eos> ").split()), return_inverse=True, return_counts=True
    )
    rank = np.argsort(np.argsort(-counts, kind="stable"))[ids]
    previous = np.minimum(rank[:-1], words - 1).astype(np.int32)
    n = previous.size
    X = sp.csr_matrix((np.ones(n, np.float32), previous, np.arange(n + 1)), shape=(n, words))
    return X, rank[1:]


# ------------------------------------------------------------------------------------- generated


def zipf_rows(n: int, d: int, draws: int, seed: int = 0) -> sp.csr_matrix:
    """Text-like rows: `draws` words a row, word k with probability ∝ 1/(k + 10), tf-idf, norm 1."""
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(1.0 / (np.arange(d) + 10.0))
    words = np.searchsorted(cumulative, rng.random(n * draws) * cumulative[-1]).astype(np.int32)
    words = np.sort(np.minimum(words, d - 1).reshape(n, draws), axis=1)
    indptr = np.arange(0, n * draws + 1, draws)
    X = sp.csr_matrix((np.ones(n * draws), words.ravel(), indptr), shape=(n, d))
    X.sum_duplicates()
    idf = np.log(n / (1.0 + np.bincount(X.indices, minlength=d)))
    X.data = (1.0 + np.log(X.data)) * idf[X.indices]
    lengths = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X


@cache
def zipf(n: int = 200_000, d: int = 47_000, draws: int = 75) -> Data:
    """Zipf rows labelled by a sparse linear rule with noise."""
    X = zipf_rows(n, d, draws)
    rng = np.random.default_rng(1)
    scores = X @ (rng.standard_normal(d) * (rng.random(d) < 0.1))
    y = np.where(scores + 0.05 * rng.standard_normal(n) > np.median(scores), 1.0, -1.0)
    return _split(X, y)
