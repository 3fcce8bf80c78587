"""`SoftmaxClassifier()` as it is, beside every solver of the papers tuned by hand, on six sets.

Train log-losses are exact, after 50 epochs; the hand tries each solver in several forms at several
rates. Then the default over four decades of η0; and the log-loss on test rows, the default with
early stopping beside scikit-learn's LogisticRegression with C chosen by cross-validation.
"""

import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS
from monro import SoftmaxClassifier
from monro.errors import DivergenceError

Settings = dict[str, Any]
RATES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
PLAIN: Settings = {"epoch_decay": 0.9}  # the papers' schedule
CS = [0.1, 1.0, 10.0, 100.0, 1000.0]
SLOW = {"MNIST", "Omniglot"}  # for which cross-validation takes hours


def hand(n_classes: int) -> list[tuple[Settings, list[float]]]:
    """Return what the hand tries, and at which rates."""
    every = min(16 * -(-n_classes // 16), 352)
    tries: list[tuple[Settings, list[float]]] = []
    for form in ("difference", "raman"):
        for m in sorted({16, min(64, every), every}):
            sampling = "frequency" if m < n_classes else "block"
            implicit = {"solver": "implicit", "formulation": form, "sampling": sampling}
            rates = [10.0, 100.0, 1000.0] if m <= 64 else [30.0, 100.0, 300.0, 1000.0]
            tries.append((implicit | {"classes_per_step": m}, rates))
    tries.append(({"solver": "exact"}, [10.0, 30.0, 100.0, 300.0]))
    if n_classes > 1000:  # minutes each: only what has a chance
        return [(settings, rates[-1:]) for settings, rates in tries[:-1]] + tries[-1:]
    tries.append(({"solver": "sco"}, [0.3, 1.0, 3.0, 10.0]))
    tries.append(({"solver": "umax"}, [0.03, 0.1, 0.3, 1.0]))
    tries.append(({"solver": "ove"}, [3.0, 10.0, 30.0, 100.0]))
    shared = {"solver": "importance", "classes_per_step": min(n_classes - 1, 200)}
    tries.append((shared | {"examples_per_step": 10}, [100.0, 1000.0]))
    return tries


def fit(data: datasets.Data, **settings: Any) -> dict[str, Any]:
    model = SoftmaxClassifier(**{"random_state": 0} | settings)
    begin = time.perf_counter()
    try:
        model.fit(data.X, data.y)
    except DivergenceError:
        return {"log_loss": None, "seconds": None, "rate": settings.get("learning_rate")}
    seconds = time.perf_counter() - begin
    loss = model.log_loss(data.X, data.y)
    return {"log_loss": loss, "seconds": seconds, "rate": model.learning_rate_, "_model": model}


def tuned(data: datasets.Data, quick: bool) -> list[dict[str, Any]]:
    """Return all that the hand tried, the best first."""
    found = []
    n_classes = np.unique(data.y).size
    for settings, rates in hand(n_classes)[-2:] if quick else hand(n_classes):
        for rate in rates[:1] if quick else rates:
            epochs = {"max_epochs": 2} if quick else {}
            run = fit(data, **PLAIN | settings | epochs, learning_rate=rate)
            run.pop("_model", None)
            found.append({"settings": settings} | run)
    if n_classes < 1000 and not quick:  # 50 iterations; with more classes, many minutes
        run = fit(data, solver="lbfgs")
        run.pop("_model")
        found.append({"settings": {"solver": "lbfgs"}} | run)
    return sorted(found, key=lambda run: run["log_loss"] or np.inf)


def cross_validated(data: datasets.Data) -> dict[str, Any]:
    """Return LogisticRegression's test log-loss at the C that 3-fold cross-validation likes."""
    begin = time.perf_counter()
    classes = np.unique(data.y)

    def loss_of(C: float, X: Any, y: np.ndarray, test_X: Any, test_y: np.ndarray) -> float:
        model = LogisticRegression(C=C, max_iter=200).fit(X, y)
        P = np.full((test_y.size, classes.size), 1e-15)
        P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(test_X)
        known = np.isin(test_y, classes)
        return float(log_loss(test_y[known], P[known], labels=classes))

    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(data.X, data.y))
    means = {
        C: np.mean([loss_of(C, data.X[a], data.y[a], data.X[b], data.y[b]) for a, b in folds])
        for C in CS
    }
    C = min(means, key=means.__getitem__)
    loss = loss_of(C, *data)
    return {"C": C, "log_loss": loss, "seconds": time.perf_counter() - begin}


def early_stopped(data: datasets.Data) -> dict[str, Any]:
    begin = time.perf_counter()
    model = SoftmaxClassifier(early_stopping=True, random_state=0).fit(data.X, data.y)
    seconds = time.perf_counter() - begin
    known = np.isin(data.test_y, model.classes_)
    loss = model.log_loss(data.test_X[known], data.test_y[known])
    return {"log_loss": loss, "seconds": seconds, "epochs": model.n_iter_}


def run(*, quick: bool) -> dict[str, Any]:
    results = []
    for name, load in SETS.items():
        if quick and name != "Bibtex":
            continue
        data = load()
        fit(data, max_epochs=1)  # compiles
        default = fit(data, **({"max_epochs": 2} if quick else {}))
        model = default.pop("_model")
        row: dict[str, Any] = {
            "set": name,
            "default": default,
            "chosen": model.history_[0]["chosen"],
        }
        row["hand"] = tuned(data, quick)
        row["sensitivity"] = {}
        for rate in [1.0] if quick else RATES:
            one = fit(data, learning_rate=rate, **({"max_epochs": 2} if quick else {}))
            row["sensitivity"][f"{rate:g}"] = one["log_loss"]
        row["early"] = early_stopped(data)
        slow = quick or name in SLOW
        row["cross_validated"] = None if slow else cross_validated(data)
        results.append(row)
    return {"results": results}


def table(result: dict[str, Any]) -> str:
    cells = []
    for row in result["results"]:
        best = row["hand"][0]
        settings = ", ".join(str(v) for v in best["settings"].values())
        ours = row["default"]
        cells.append(
            [
                row["set"],
                f"{ours['log_loss']:.5f}",
                f"{ours['rate']:.3g}",
                f"{ours['seconds']:.1f}",
                f"{best['log_loss']:.5f}",
                f"{settings} at {best['rate']:g}" if best["rate"] else settings,
                f"{best['seconds']:.1f}",
                f"{ours['log_loss'] / best['log_loss']:.3f}",
            ]
        )
    header = [
        "train log-loss, 50 epochs",
        "default",
        "η0",
        "s",
        "best by hand",
        "which",
        "s",
        "ratio",
    ]
    parts = [markdown(header, cells)]
    rates = list(result["results"][0]["sensitivity"])
    cells = [
        [row["set"], *(f"{row['sensitivity'][rate]:.4g}" for rate in rates)]
        for row in result["results"]
    ]
    parts.append(markdown(["train log-loss, default, η0 →", *rates], cells))
    cells = []
    for row in result["results"]:
        early, other = row["early"], row["cross_validated"]
        line = [row["set"], f"{early['log_loss']:.4f}", str(early["epochs"])]
        line.append(f"{early['seconds']:.1f}")
        if other is None:
            line += ["–", "–", "–"]
        else:
            line += [f"{other['log_loss']:.4f}", f"{other['C']:g}", f"{other['seconds']:.1f}"]
        cells.append(line)
    header = [
        "test log-loss",
        "early stopping",
        "epochs",
        "s",
        "LogisticRegression, C by 3-fold",
        "C",
        "s",
    ]
    parts.append(markdown(header, cells))
    return "\n\n".join(parts)
