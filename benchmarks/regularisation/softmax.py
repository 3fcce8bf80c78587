"""The default `SoftmaxClassifier()` on six sets: test log-loss, time, calibration error."""

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS
from benchmarks.regularisation import comparison, judging, sentences
from benchmarks.regularisation.children import Result, in_child
from monro import SoftmaxClassifier

SHARE_BAR, FIT_BAR = 1 / 20, 4.0
PEERS = [f"{judging.CROSS_VALIDATED}, {solver}" for solver in ("lbfgs", "saga")]


def cells(quick: bool) -> list[str]:
    return ["Bibtex"] if quick else list(SETS)


def _load(name: str, quick: bool) -> datasets.Data:
    return judging.few(SETS[name](), 300) if quick else SETS[name]()


def make(**parameters: Any) -> SoftmaxClassifier:
    return SoftmaxClassifier(random_state=0, **parameters)


def measure(name: str, *, quick: bool, limit: float) -> Result:
    data = _load(name, quick)
    model, times = judging.fitted(make, data.X, data.y, repeats=1 if quick else judging.REPEATS)
    ours = times | judging.judged(model, data)
    print(name, ours, flush=True)
    peers = {}
    for peer in [*PEERS, comparison.DEFAULT]:
        peers[peer] = in_child(_peer, name, peer, quick, limit=limit)
        print(name, peer, peers[peer], flush=True)
    rows, classes = data.y.size, np.unique(data.y).size
    return {"rows": rows, "classes": classes, "ours": ours, "peers": peers}


def _peer(name: str, peer: str, quick: bool) -> Result:
    model: Any = LogisticRegression(max_iter=5 if quick else 100)
    if peer != comparison.DEFAULT:
        settings = judging.QUICK_CV if quick else judging.CV
        model = LogisticRegressionCV(solver=peer.partition(", ")[2], **settings)
    return judging.peer_result(model, _load(name, quick))


def table(rows: list[Result]) -> str:
    claims = comparison.loss_and_calibration(rows)
    claims.append(
        sentences.at_most(
            f"Time at most a twentieth of {judging.CROSS_VALIDATED}'s, or of its limit",
            comparison.time_ratios(rows),
            SHARE_BAR,
        )
    )
    claims.append(
        sentences.at_most(
            f"Time at most {FIT_BAR:g} times that of a fit of the strength chosen",
            comparison.fit_ratios(rows),
            FIT_BAR,
            ".1f",
        )
    )
    claims.append(comparison.stopped_peers(rows))
    claims.append(sentences.defaults_ahead(rows, (comparison.DEFAULT,), "log_loss"))
    header = ["softmax, test log-loss", *comparison.HEADER]
    return "\n\n".join([markdown(header, comparison.lines(rows)), *claims])
