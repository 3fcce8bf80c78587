"""The data sets of the studies, as the papers prepare them. Files are checked when read."""

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
    """Return both parts of a set; of several labels the lowest."""
    width = registry.find(name).features
    parts: list[Any] = []
    for part in ("train", "test"):
        data = read(registry.resolve(f"{name}/{part}"), n_features=width)
        parts += [data.X, data.y]
    return Data(*parts)


def _lengthened(data: Data) -> Data:
    """Return the same with rows of unit length."""
    return data._replace(X=normalize(data.X), test_X=normalize(data.test_X))


@cache
def rcv1() -> Data:
    """Return news by whether it is of corporate affairs."""
    return _rows("rcv1")


@cache
def bibtex(*, scaled: bool = True) -> Data:
    """Return entries of a bibliography by their first tag."""
    data = _rows("bibtex")
    return _lengthened(data) if scaled else data


@cache
def delicious() -> Data:
    """Return pages by their first tag."""
    return _lengthened(_rows("delicious"))


@cache
def rcv1_topics() -> Data:
    """Return news by its first topic."""
    return _lengthened(_rows("rcv1-topics"))


@cache
def covtype() -> Data:
    """Return forest by whether its cover is of class 2; features standardised."""
    data = read(registry.resolve("covtype"), target=registry.find("covtype").target)
    assert data.y is not None
    X = np.asarray(data.X, dtype=np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(data.y == 2, 1.0, -1.0)
    X, test_X, y, test_y = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    return Data(X, y, test_X, test_y)


@cache
def covtype_unit() -> Data:
    """Return the same with rows of unit length, as papers 003 and 004 have alpha and Delta."""
    return _lengthened(covtype())


def _file(name: str, extra: str) -> bytes:
    """Return the contents of a set's further file."""
    files = [*registry.find(name).parts.values(), *registry.find(name).extra]
    (file,) = (file for file in files if file.path.endswith(extra))
    return gzip.decompress(registry.fetch(file).read_bytes())


def _images(name: str, file: str, *, scaled: bool) -> Array:
    """Return rows of unit length, or pixels from 0 to 1."""
    pixels = np.frombuffer(_file(name, file), np.uint8, offset=16).reshape(-1, 784) / 255.0
    return normalize(pixels) if scaled else pixels


@cache
def mnist(*, scaled: bool = True) -> Data:
    """Return handwritten digits."""
    parts: list[Array] = []
    for part in ("train", "t10k"):
        labels = np.frombuffer(_file("mnist", f"{part}-labels-idx1-ubyte.gz"), np.uint8)[8:]
        parts += [_images("mnist", f"{part}-images-idx3-ubyte.gz", scaled=scaled), labels]
    return Data(*parts)


@cache
def omniglot(*, scaled: bool = True) -> Data:
    """Return handwritten characters of fifty alphabets."""
    parts: list[Array] = []
    for part in ("train", "test"):
        labels = _file("omniglot", f"{part}-labels.txt.gz").split()
        images = _images("omniglot", f"{part}-images-idx3-ubyte.gz", scaled=scaled)
        parts += [images, np.array(labels, np.int64)]
    return Data(*parts)


@cache
def next_word(name: str = "wikitext2", words: int = 4096) -> tuple[sp.csr_matrix, Array]:
    """Return one-hot rows for the previous word, rare ones together, and the next word.

    Lines end with a word of their own; words are numbered from frequent to rare.
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
    """Return sentences with their chunks, to train on and to test."""
    train, test = (read_conll(registry.resolve(f"conll2000/{part}")) for part in ("train", "test"))
    return train, test


LOADERS: dict[str, Callable[[], Data]] = {
    "mnist": mnist,
    "bibtex": bibtex,
    "delicious": delicious,
    "rcv1-topics": rcv1_topics,
}


def first(data: Data, n: int) -> Data:
    """Return the first n training rows, and as many test rows."""
    return Data(data.X[:n], data.y[:n], data.test_X[:n], data.test_y[:n])
