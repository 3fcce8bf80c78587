"""Time to within 1 % of the optimal objective: RCV1-CCAT, alpha = 1e-5, no intercept.

Each learner runs from scratch with growing budgets of epochs. Its time is that of the first budget
whose objective is within 1 %: the median of repeated `fit` calls. Preparation of data for a peer
(VW's cache file) is not counted.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.vw import VW
from monro import LinearClassifier

ALPHA = 1e-5
OPTIMA = {"log": 0.13570, "hinge": 0.039774}
BUDGETS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300]
LONGEST = 3.0  # seconds; a learner slower than this to 1 % is reported as such

Fit = Callable[[int], tuple[float, np.ndarray]]


def _timed(model: Any, data: datasets.Data) -> tuple[float, np.ndarray]:
    begin = time.perf_counter()
    model.fit(data.X, data.y)
    return time.perf_counter() - begin, model.coef_[0]


def learners(loss: str, data: datasets.Data) -> dict[str, Fit]:
    """Return for each learner a function from a budget to seconds and weights."""
    C = 1.0 / (ALPHA * data.y.size)
    made: dict[str, Callable[[int], Any]] = {}
    for solver in ("auto", "sgd", "asgd", "implicit", "aisgd", "sgdqn"):
        made[f"monro {solver}"] = partial(_monro, loss, solver)
    skl_loss = {"log": "log_loss", "hinge": "hinge"}[loss]
    made["SGDClassifier"] = lambda k: SGDClassifier(
        loss=skl_loss, alpha=ALPHA, fit_intercept=False, tol=None, max_iter=k, random_state=0
    )
    made["SGDClassifier, averaged"] = lambda k: SGDClassifier(
        loss=skl_loss,
        alpha=ALPHA,
        fit_intercept=False,
        tol=None,
        max_iter=k,
        average=data.y.size,
        random_state=0,
    )
    if loss == "log":
        made["LIBLINEAR, dual"] = lambda k: LogisticRegression(
            C=C, solver="liblinear", dual=True, fit_intercept=False, tol=1e-9, max_iter=k
        )
        made["LIBLINEAR, primal"] = lambda k: LogisticRegression(
            C=C, solver="liblinear", fit_intercept=False, tol=1e-9, max_iter=k
        )
        made["saga"] = lambda k: LogisticRegression(
            C=C, solver="saga", fit_intercept=False, tol=1e-9, max_iter=k
        )
        made["lbfgs"] = lambda k: LogisticRegression(
            C=C, solver="lbfgs", fit_intercept=False, tol=1e-9, max_iter=k
        )
    else:
        made["LinearSVC (LIBLINEAR)"] = lambda k: LinearSVC(
            loss="hinge", C=C, fit_intercept=False, tol=1e-9, max_iter=k
        )
    fits: dict[str, Fit] = {
        name: lambda k, make=make: _timed(make(k), data) for name, make in made.items()
    }
    vw = VW(data, loss, ALPHA, intercept=False)
    fits["VW"] = lambda k: vw.fit(k)[:2]
    if loss == "log":
        bfgs = VW(data, loss, ALPHA, intercept=False, bfgs=True)
        fits["VW, bfgs"] = lambda k: bfgs.fit(k)[:2]
    return fits


def _monro(loss: str, solver: str, k: int) -> LinearClassifier:
    return LinearClassifier(
        loss=loss, solver=solver, alpha=ALPHA, fit_intercept=False, max_epochs=k, random_state=0
    )


def _within(loss: str, w: np.ndarray, data: datasets.Data) -> float:
    margin = data.y * (data.X @ w)
    losses = np.maximum(0, 1 - margin) if loss == "hinge" else np.logaddexp(0, -margin)
    return float((losses.mean() + ALPHA / 2 * (w @ w)) / OPTIMA[loss] - 1)


def run(*, quick: bool) -> dict[str, Any]:
    data = datasets.rcv1()
    data = data._replace(X=data.X.tocsr(), y=np.where(data.y > 0, 1.0, -1.0))
    repeats = 1 if quick else 7
    budgets = BUDGETS[:3] if quick else BUDGETS
    results = []
    for loss in OPTIMA:
        fits = learners(loss, data)
        needed: dict[str, int] = {}
        for name, fit in fits.items():
            fit(1)  # compiles
            gap = np.inf
            for k in budgets:
                seconds, w = fit(k)
                gap = min(gap, _within(loss, w, data))
                if gap <= 0.01:
                    needed[name] = k
                    break
                if seconds > LONGEST:
                    break
            results.append({"loss": loss, "learner": name, "epochs": needed.get(name), "gap": gap})
        times: dict[str, list[float]] = {name: [] for name in needed}
        for _ in range(repeats):
            for name, k in needed.items():
                times[name].append(fits[name](k)[0])
        for row in results:
            if row["loss"] == loss and row["learner"] in times:
                row["seconds"] = float(np.median(times[row["learner"]]))
    return {"results": results, "optima": OPTIMA, "alpha": ALPHA}


def table(result: dict[str, Any]) -> str:
    parts = []
    for loss, best in result["optima"].items():
        rows = [row for row in result["results"] if row["loss"] == loss]
        rows.sort(key=lambda row: row.get("seconds", np.inf))
        cells = [
            [row["learner"], str(row["epochs"]), f"{1000 * row['seconds']:.1f}"]
            if "seconds" in row
            else [row["learner"], "–", f"not reached ({row['gap']:.1%} off)"]
            for row in rows
        ]
        parts.append(
            f"{loss} loss (optimum {best:g}):\n\n" + markdown(["learner", "epochs", "ms"], cells)
        )
    return "\n\n".join(parts)
