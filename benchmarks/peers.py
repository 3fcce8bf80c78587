"""Six data sets, common learners: seconds of `fit`, objective, test error.

Log and hinge loss, alpha = 1e-5, intercept. monro, SGDClassifier and VW take 10 epochs, the others
run to their default tolerance, LinearSVC for at most 200 iterations. More than two classes are
one-vs-rest; VW, liblinear and saga have other multi-class forms and are left out there.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.vw import VW
from monro import LinearClassifier

ALPHA = 1e-5
SETS: dict[str, Callable[[], datasets.Data]] = {
    "rcv1": datasets.rcv1,
    "20news": datasets.news20,
    "covtype": datasets.covtype,
    "a9a": datasets.a9a,
    "w8a": datasets.w8a,
    "zipf": datasets.zipf,
}


def learners(n: int) -> dict[str, Any]:
    C = 1.0 / (ALPHA * n)
    common = {"alpha": ALPHA, "random_state": 0}
    return {
        "monro, hinge": LinearClassifier(**common),
        "SGDClassifier, hinge": SGDClassifier(**common, tol=None, max_iter=10),
        "LinearSVC, hinge": LinearSVC(loss="hinge", C=C, random_state=0, max_iter=200),
        "monro, log": LinearClassifier(loss="log", **common),
        "SGDClassifier, log": SGDClassifier(loss="log_loss", **common, tol=None, max_iter=10),
        "liblinear, log": LogisticRegression(solver="liblinear", C=C),
        "saga, log": LogisticRegression(solver="saga", C=C, random_state=0),
    }


def _objective(loss: str, w: np.ndarray, b: float, X: Any, y: np.ndarray) -> float:
    margin = y * (X @ w + b)
    losses = np.maximum(0, 1 - margin) if loss == "hinge" else np.logaddexp(0, -margin)
    return float(losses.mean() + ALPHA / 2 * (w @ w))


def run(*, quick: bool) -> dict[str, Any]:
    results = []
    for set_name in ["a9a"] if quick else SETS:
        data = SETS[set_name]()
        classes = np.unique(data.y)
        for name, model in learners(data.y.size).items():
            peer, loss = name.split(", ")
            if classes.size > 2 and peer in ("liblinear", "saga"):
                continue
            model.fit(data.X[:50], np.resize(classes, 50))  # compiles
            times = []
            for _ in range(1 if quick or peer in ("saga", "LinearSVC", "liblinear") else 3):
                begin = time.perf_counter()
                model.fit(data.X, data.y)
                times.append(time.perf_counter() - begin)
            coef, intercept = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
            positives = classes if classes.size > 2 else classes[1:]
            objectives = [
                _objective(loss, w, b, data.X, np.where(data.y == c, 1.0, -1.0))
                for w, b, c in zip(coef, intercept, positives, strict=True)
            ]
            results.append(
                {
                    "set": set_name,
                    "learner": peer,
                    "loss": loss,
                    "seconds": float(np.median(times)),
                    "objective": float(np.mean(objectives)),
                    "test_error": 1 - model.score(data.test_X, data.test_y),
                }
            )
            print(results[-1], flush=True)
        if classes.size == 2:
            for loss in ("hinge", "log"):
                vw = VW(data, loss, ALPHA, intercept=True)
                seconds, w, b = vw.fit(10)
                error = np.mean((data.test_X @ w + b > 0) != (data.test_y > 0))
                results.append(
                    {
                        "set": set_name,
                        "learner": "VW",
                        "loss": loss,
                        "seconds": seconds,
                        "objective": _objective(loss, w, b, data.X, np.sign(data.y)),
                        "test_error": float(error),
                    }
                )
    return {"results": results, "alpha": ALPHA}


def table(result: dict[str, Any]) -> str:
    parts = []
    for loss in ("hinge", "log"):
        rows = [row for row in result["results"] if row["loss"] == loss]
        names = list(dict.fromkeys(row["learner"] for row in rows))
        found = {(row["set"], row["learner"]): row for row in rows}
        sets = list(dict.fromkeys(row["set"] for row in rows))
        cells = [
            [name, *(_cell(found[name, peer]) if (name, peer) in found else "–" for peer in names)]
            for name in sets
        ]
        parts.append(
            f"{loss} loss: seconds / objective / test error\n\n" + markdown(["set", *names], cells)
        )
        parts.append(_where_peers_are_ahead(rows, "seconds", "faster"))
        parts.append(_where_peers_are_ahead(rows, "objective", "lower in objective"))
        parts.append(_where_peers_are_ahead(rows, "test_error", "lower in test error"))
    return "\n\n".join(parts)


def _where_peers_are_ahead(rows: list[dict[str, Any]], measure: str, ahead: str) -> str:
    """Return a sentence that lists the peers that are ahead of monro, and on which sets."""
    ours = {row["set"]: row[measure] for row in rows if row["learner"] == "monro"}
    found: dict[str, list[str]] = {}
    for row in rows:
        ratio = row[measure] / ours[row["set"]]
        if ratio < 0.9995:
            found.setdefault(row["learner"], []).append(f"{row['set']} ({ratio:.3f}×)")
    places = [f"{peer} on {', '.join(sets)}" for peer, sets in found.items()]
    return f"Peers that are {ahead}: {'; '.join(places) or 'none'}."


def _cell(row: dict[str, Any]) -> str:
    return f"{row['seconds']:.3g} s / {row['objective']:.4f} / {row['test_error']:.2%}"
