"""The default `LinearClassifier(loss="log")`: test log-loss, time, calibration error.

More than two classes are one-vs-rest, of monro as of its peers. Columns are as they come; for
LogisticRegressionCV also scaled, if rows are dense.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.regularisation import comparison, judging, sentences
from benchmarks.regularisation.children import Result, in_child
from monro import LinearClassifier

LARGE: dict[str, Callable[[], datasets.Data]] = {
    "RCV1-CCAT": datasets.rcv1,
    "20news": datasets.news20,
    "covtype": datasets.covtype_raw,
    "a9a": datasets.a9a,
    "w8a": datasets.w8a,
    "higgs7k": datasets.higgs7k,
}
SMALL = ("iris", "wine", "breast_cancer", "digits")
SETS = LARGE | {name: partial(datasets.small, name) for name in SMALL}
AS_THEY_COME, SCALED = (f"{judging.CROSS_VALIDATED}, {way}" for way in ("as they come", "scaled"))
SGD = "SGDClassifier(loss='log_loss')"
EPOCHS = 20  # of the fit of SGDClassifier whose time is the bar


def cells(quick: bool) -> list[str]:
    return ["iris", "a9a"] if quick else list(SETS)


def _load(name: str, quick: bool) -> datasets.Data:
    return judging.few(SETS[name](), 300) if quick else SETS[name]()


def make(**parameters: Any) -> LinearClassifier:
    return LinearClassifier(loss="log", random_state=0, **parameters)


def measure(name: str, *, quick: bool, limit: float) -> Result:
    data = _load(name, quick)
    model, times = judging.fitted(make, data.X, data.y, repeats=1 if quick else judging.REPEATS)
    ours = times | judging.judged(model, data)
    twenty = SGDClassifier(loss="log_loss", max_iter=EPOCHS, tol=None, random_state=0)
    ours["sgd_seconds"] = judging.seconds_of(lambda: twenty.fit(data.X, data.y))
    print(name, ours, flush=True)
    peers = {}
    ways = [AS_THEY_COME] if sp.issparse(data.X) else [AS_THEY_COME, SCALED]
    for peer in [*ways, comparison.DEFAULT, SGD]:
        peers[peer] = in_child(_peer, name, peer, quick, limit=limit)
        print(name, peer, peers[peer], flush=True)
    return {"rows": data.y.size, "ours": ours, "peers": peers}


def _peer(name: str, peer: str, quick: bool) -> Result:
    data = _load(name, quick)
    model: Any = LogisticRegressionCV(**(judging.QUICK_CV if quick else judging.CV))
    if peer == comparison.DEFAULT:
        model = LogisticRegression()
    elif peer == SGD:
        model = SGDClassifier(loss="log_loss", random_state=0)
    if np.unique(data.y).size > 2 and peer != SGD:  # that is one-vs-rest by itself
        model = OneVsRestClassifier(model)
    if peer == SCALED:
        scaler = StandardScaler().fit(data.X)
        X, test_X = scaler.transform(data.X), scaler.transform(data.test_X)
        data = data._replace(X=X, test_X=test_X)
    return judging.peer_result(model, data)


def table(rows: list[Result]) -> str:
    header = ["log loss, test log-loss", *comparison.HEADER, f"SGDClassifier, {EPOCHS} epochs, s"]
    lines = comparison.lines(rows)
    for line, row in zip(lines, rows, strict=True):
        line.append(f"{row['ours']['sgd_seconds']:.3g}")
    large: dict[str, float | None] = {
        row["set"]: row["ours"]["seconds"] / row["ours"]["sgd_seconds"]
        for row in rows
        if row["set"] in LARGE
    }
    claims = comparison.loss_and_calibration(rows)
    if large:
        about = f"Time, on large sets, at most that of {EPOCHS} epochs of SGDClassifier"
        claims.append(sentences.at_most(about, large, 1.0, ".1f"))
    claims.append(comparison.stopped_peers(rows))
    claims.append(sentences.defaults_ahead(rows, (comparison.DEFAULT, SGD), "log_loss"))
    return "\n\n".join([markdown(header, lines), *claims])
