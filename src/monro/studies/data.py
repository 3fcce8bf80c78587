"""The data sets of the studies, prepared as in the papers. Reading verifies the checksums."""

import gzip
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from monro.data import registry
from monro.data.conll import Sentences, read_conll
from monro.data.read import read
from monro.rows import Array


class Data(NamedTuple):
    """Training and test rows."""

    X: Any
    y: Array
    test_X: Any  # noqa: N815
    test_y: Array


def _rows(name: str) -> Data:
    """Return both parts of a data set; of several labels the lowest."""
    width = registry.find(name).features
    parts: list[Any] = []
    for part in ("train", "test"):
        data = read(registry.resolve(f"{name}/{part}"), n_features=width)
        parts += [data.X, data.y]
    return Data(*parts)


def _unit_rows(data: Data) -> Data:
    """Return the data with rows scaled to unit length."""
    return data._replace(X=normalize(data.X), test_X=normalize(data.test_X))


@cache
def rcv1() -> Data:
    """Return RCV1: news, labelled by whether they are about corporate affairs (CCAT)."""
    return _rows("rcv1")


@cache
def bibtex(*, scaled: bool = True) -> Data:
    """Return Bibtex: bibliography entries, labelled by their first tag."""
    data = _rows("bibtex")
    return _unit_rows(data) if scaled else data


@cache
def delicious() -> Data:
    """Return Delicious: web pages, labelled by their first tag."""
    return _unit_rows(_rows("delicious"))


@cache
def rcv1_topics() -> Data:
    """Return RCV1 topics: news, labelled by their first topic."""
    return _unit_rows(_rows("rcv1-topics"))


_MOST_ROWS, _MOST_FEATURES = 100_000, 10_000  # of paper 000


@cache
def truncated(name: str) -> tuple[sp.csr_matrix, Array]:
    """Return training rows, truncated as in paper 000, and their first labels.

    The first 100,000 rows and 10,000 features; rows without features are left out.
    """
    data = read(registry.resolve(name), n_features=registry.find(name).features)
    assert data.y is not None
    X = data.X[:_MOST_ROWS, :_MOST_FEATURES]
    X.eliminate_zeros()
    kept = np.flatnonzero(np.diff(X.indptr))
    return normalize(X[kept]), data.y[kept]


@cache
def covtype() -> Data:
    """Return covtype: forest cover, class 2 against the others; features standardised."""
    data = read(registry.resolve("covtype"), target=registry.find("covtype").target)
    assert data.y is not None
    X = np.asarray(data.X, dtype=np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(data.y == 2, 1.0, -1.0)
    X, test_X, y, test_y = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    return Data(X, y, test_X, test_y)


@cache
def covtype_unit() -> Data:
    """Return covtype with unit rows, as papers 003 and 004 prepare alpha and Delta."""
    return _unit_rows(covtype())


def _file(name: str, extra: str) -> bytes:
    """Return the decompressed contents of one file of a data set."""
    files = [*registry.find(name).parts.values(), *registry.find(name).extra]
    (file,) = (file for file in files if file.path.endswith(extra))
    return gzip.decompress(registry.fetch(file).read_bytes())


def _images(name: str, file: str, *, scaled: bool) -> Array:
    """Return images as rows: scaled to unit length, or pixels from 0 to 1."""
    pixels = np.frombuffer(_file(name, file), np.uint8, offset=16).reshape(-1, 784) / 255.0
    return normalize(pixels) if scaled else pixels


@cache
def mnist(*, scaled: bool = True) -> Data:
    """Return MNIST: handwritten digits."""
    parts: list[Array] = []
    for part in ("train", "t10k"):
        labels = np.frombuffer(_file("mnist", f"{part}-labels-idx1-ubyte.gz"), np.uint8)[8:]
        parts += [_images("mnist", f"{part}-images-idx3-ubyte.gz", scaled=scaled), labels]
    return Data(*parts)


@cache
def omniglot(*, scaled: bool = True) -> Data:
    """Return Omniglot: handwritten characters of fifty alphabets."""
    parts: list[Array] = []
    for part in ("train", "test"):
        labels = _file("omniglot", f"{part}-labels.txt.gz").split()
        images = _images("omniglot", f"{part}-images-idx3-ubyte.gz", scaled=scaled)
        parts += [images, np.array(labels, np.int64)]
    return Data(*parts)


@cache
def next_word(name: str = "wikitext2", words: int = 4096) -> tuple[sp.csr_matrix, Array]:
    """Return one-hot rows of the previous word, with rare words merged, and the next word.

    Each line ends with a special word. Words are numbered from frequent to rare.
    """
    text = _file(name, "train.txt.gz").decode()
    _, ids, counts = np.unique(
        np.array(text.replace("\n", " <eos> ").split()), return_inverse=True, return_counts=True
    )
    rank = np.argsort(np.argsort(-counts, kind="stable"))[ids]
    previous = np.minimum(rank[:-1], words - 1).astype(np.int32)
    n = previous.size
    X = sp.csr_matrix((np.ones(n, np.float32), previous, np.arange(n + 1)), shape=(n, words))
    return X, rank[1:]


@cache
def conll2000() -> tuple[Sentences, Sentences]:
    """Return the training and test sentences of CoNLL-2000, with their chunk tags."""
    train, test = (read_conll(registry.resolve(f"conll2000/{part}")) for part in ("train", "test"))
    return train, test


LOADERS: dict[str, Callable[[], Data]] = {
    "mnist": mnist,
    "bibtex": bibtex,
    "delicious": delicious,
    "rcv1-topics": rcv1_topics,
}


def first(data: Data, n: int) -> Data:
    """Return the first n training rows and the first n test rows."""
    return Data(data.X[:n], data.y[:n], data.test_X[:n], data.test_y[:n])
