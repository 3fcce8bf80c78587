"""Sets with many labels a row."""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from benchmarks import datasets, planted
from monro.data.read import read
from monro.data.xc import parse_header

QUICK_ROWS = 200
PLANTED = "Amazon-670K's shape"


class Labelled(NamedTuple):
    """Training and test rows, and indicator matrices of their labels."""

    X: Any
    Y: Any
    test_X: Any  # noqa: N815
    test_Y: Any  # noqa: N815


def _read(path: Path) -> tuple[Any, Any]:
    """Return the rows of extreme-classification text and all their labels."""
    with gzip.open(path) as file:
        header = parse_header(file.readline())
    assert header is not None
    data = read(path, labelled=False, all_labels=True)
    return data.X.astype(np.float32), data.indicator(np.arange(header.labels))[0]


def _parts(name: str) -> Labelled:
    """Return a set with its own parts."""
    folder = datasets.folder() / name
    return Labelled(*_read(folder / "train.xc.txt.gz"), *_read(folder / "test.xc.txt.gz"))


def _unit_rows(name: str) -> Labelled:
    data = _parts(name)
    return data._replace(X=normalize(data.X), test_X=normalize(data.test_X))


def _tf_idf(data: Labelled) -> Labelled:
    """Return counts as tf-idf, in rows of unit length; training rows give the weights of terms."""
    terms = TfidfTransformer(sublinear_tf=True).fit(data.X)
    return data._replace(X=terms.transform(data.X), test_X=terms.transform(data.test_X))


def _gowalla() -> Labelled:
    """Return Gowalla: places that a user went to, from other places; each fifth user for tests."""
    X, Y = _read(datasets.folder() / "gowalla" / "gowalla.xc.txt.gz")
    tests = np.arange(X.shape[0]) % 5 == 4
    return _tf_idf(Labelled(X[~tests], Y[~tests], X[tests], Y[tests]))


def _planted() -> Labelled:
    rows, tests = planted.planted(planted.AMAZON, 0), planted.planted(planted.AMAZON, 1, 5_000)
    return _tf_idf(Labelled(*rows, *tests))


EXTREME: dict[str, Callable[[], Labelled]] = {
    "Bibtex": partial(_unit_rows, "bibtex"),
    "Delicious": partial(_unit_rows, "delicious"),
    "CiteULike-t": lambda: _tf_idf(_parts("citeulike_t")),
    "Gowalla": _gowalla,
    PLANTED: _planted,
}


def load_set(name: str, quick: bool) -> Labelled:
    data = EXTREME[name]()
    kept = np.flatnonzero((np.diff(data.X.indptr) > 0) & (np.diff(data.Y.indptr) > 0))
    judged = np.flatnonzero(np.diff(data.test_Y.indptr))
    if quick:
        kept, judged = kept[:QUICK_ROWS], judged[:QUICK_ROWS]
    return Labelled(data.X[kept], data.Y[kept], data.test_X[judged], data.test_Y[judged])
