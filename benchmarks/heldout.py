"""Log-loss on test rows: `SoftmaxClassifier(early_stopping=True)` against LogisticRegression.

scikit-learn's C is chosen by cross-validation with three folds and 100 iterations (two and 30 with
more than a thousand classes): from 1, by powers of ten, as long as the loss improves. The benchmark
is about losses: the seconds were measured while another benchmark ran. Classes without a training
row are left out.
"""

import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from benchmarks import datasets, harness
from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS
from benchmarks.untuned import MANY
from monro import SoftmaxClassifier

UNSEEN = 1e-12  # probability of a class without a row in the fold


def cross_validated(data: datasets.Data) -> dict[str, Any]:
    """Return the test log-loss of LogisticRegression at the C chosen by cross-validation."""
    begin = time.perf_counter()
    classes = np.unique(data.y)
    folds, iterations = (2, 30) if classes.size > MANY else (3, 100)

    def loss_of(C: float, X: Any, y: np.ndarray, test_X: Any, test_y: np.ndarray) -> float:
        model = LogisticRegression(C=C, max_iter=iterations).fit(X, y)
        P = np.full((test_y.size, classes.size), UNSEEN)
        P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(test_X)
        P /= P.sum(axis=1, keepdims=True)
        known = np.isin(test_y, classes)
        return float(log_loss(test_y[known], P[known], labels=classes))

    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    parts = list(split.split(data.X, data.y))
    means: dict[float, float] = {}

    def mean_loss(exponent: float) -> float:
        if exponent not in means:
            C = 10.0**exponent
            means[exponent] = float(
                np.mean([loss_of(C, data.X[a], data.y[a], data.X[b], data.y[b]) for a, b in parts])
            )
        return means[exponent]

    best = 0.0
    step = 1.0 if mean_loss(1.0) < mean_loss(0.0) else -1.0
    while mean_loss(best + step) < mean_loss(best):
        best += step
    loss = loss_of(10.0**best, *data)
    return {"C": 10.0**best, "log_loss": loss, "seconds": time.perf_counter() - begin}


def early_stopped(data: datasets.Data) -> dict[str, Any]:
    begin = time.perf_counter()
    model = SoftmaxClassifier(early_stopping=True, alpha=0.0, random_state=0).fit(data.X, data.y)
    seconds = time.perf_counter() - begin
    known = np.isin(data.test_y, model.classes_)
    loss = model.log_loss(data.test_X[known], data.test_y[known])
    return {"log_loss": loss, "seconds": seconds, "epochs": model.n_iter_}


def run(*, quick: bool) -> dict[str, Any]:
    results = []
    for name, load in SETS.items():
        if quick and name != "20news":
            continue
        data = load()
        if quick:
            data = datasets.Data(data.X[:500], data.y[:500], data.test_X, data.test_y)
        early = early_stopped(data)
        results.append({"set": name, "early": early, "cross_validated": cross_validated(data)})
        harness.save("heldout", {"results": results}, quick=quick)
    return {"results": results}


def table(result: dict[str, Any]) -> str:
    cells, rows = [], result["results"]
    for row in rows:
        early, other = row["early"], row["cross_validated"]
        line = [row["set"], f"{early['log_loss']:.4f}", str(early["epochs"])]
        line += [f"{early['seconds']:.1f}", f"{other['log_loss']:.4f}", f"{other['C']:g}"]
        cells.append([*line, f"{other['seconds']:.1f}"])
    header = ["test log-loss", "early stopping", "epochs", "s"]
    found = markdown([*header, "LogisticRegression, C by cross-validation", "C", "s"], cells)
    losses = [row["early"]["log_loss"] / row["cross_validated"]["log_loss"] for row in rows]
    times = [row["cross_validated"]["seconds"] / row["early"]["seconds"] for row in rows]
    return (
        f"{found}\n\nEarly stopping has the lower loss on {sum(r < 1.0 for r in losses)} of "
        f"{len(rows)} sets; the ratio of the losses is {min(losses):.3f} to {max(losses):.3f}, and "
        f"LogisticRegression takes {min(times):.0f} to {max(times):.0f} times as long."
    )
