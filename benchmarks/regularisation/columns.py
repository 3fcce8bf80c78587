"""Columns as they come and scaled: log-loss of the defaults by five folds.

Beside LogisticRegression() with scaled columns. A scaler sees the training rows of a fold only.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.regularisation import judging, linear, sentences, softmax
from benchmarks.regularisation.children import Result

BAR = 1.05
SETS = (*linear.SMALL, "covtype")
MAKE: dict[str, Callable[..., Any]] = {"softmax": softmax.make, "linear": linear.make}
WAYS = ("as they come", "scaled")


def cells(quick: bool) -> list[str]:
    if quick:
        return ["softmax on iris", "softmax on wine"]
    return [f"{kind} on {name}" for kind in MAKE for name in SETS]


def _rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a small set, 20,000 of covtype."""
    if name == "covtype":
        data = judging.few(datasets.covtype_raw(), 20_000)
        return data.X, data.y
    data = datasets.small(name)
    return np.concatenate([data.X, data.test_X]), np.concatenate([data.y, data.test_y])


def cross_validated_loss(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log-loss of all rows, each judged by the fold that it is not in."""
    parts = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    folds = [datasets.Data(X[a], y[a], X[b], y[b]) for a, b in parts]
    losses = [judging.judged(model.fit(fold.X, fold.y), fold)["log_loss"] for fold in folds]
    return float(np.average(losses, weights=[fold.test_y.size for fold in folds]))


def measure(name: str, *, quick: bool, limit: float) -> Result:
    kind, _, data = name.partition(" on ")
    X, y = _rows(data)
    models = {
        "as they come": MAKE[kind](alpha="auto"),
        "scaled": make_pipeline(StandardScaler(), MAKE[kind](alpha="auto")),
        "peer": make_pipeline(StandardScaler(), LogisticRegression()),
    }
    found = {way: cross_validated_loss(model, X, y) for way, model in models.items()}
    print(name, found, flush=True)
    return found


def table(rows: list[Result]) -> str:
    lines, ratios = [], {}
    for row in rows:
        line = [row["set"]]
        for way in WAYS:
            ratio = row[way] / row["peer"]
            ratios[f"{row['set']}, {way}"] = ratio
            line += [f"{row[way]:.4f}", f"{ratio:.3f}"]
        lines.append([*line, f"{row['peer']:.4f}"])
    header = ["log-loss by five folds", "as they come", "over LogisticRegression()'s", "scaled"]
    header += ["over LogisticRegression()'s", "LogisticRegression(), scaled"]
    claim = f"At most {BAR} times that of LogisticRegression() with scaled columns"
    return "\n\n".join([markdown(header, lines), sentences.at_most(claim, ratios, BAR)])
