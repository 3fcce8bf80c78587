"""Blocks of sixteen classes: the progress and the cost of a step, by the number of classes.

Log-losses are exact, on the training rows, after 50 epochs at the automatic rate, and are
compared with the optimum that L-BFGS finds. Steps are timed on synthetic rows with 20 non-zeros of
500 features.
"""

import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets
from benchmarks.harness import markdown
from monro import SoftmaxClassifier

SETS = {"Bibtex": datasets.bibtex, "Delicious": datasets.delicious, "MNIST": datasets.mnist}
# As in the paper, except for how classes are drawn.
PAPER: dict[str, Any] = {"formulation": "difference", "epoch_decay": 0.9}
KINDS: dict[str, dict[str, Any]] = {
    "one class a step": {"sampling": "uniform", "classes_per_step": 1, **PAPER},
    "a block": {"sampling": "block", **PAPER},
    "a block by frequency": {"sampling": "frequency", **PAPER},
}
ITERATIONS = {"Bibtex": 200, "Delicious": 300, "MNIST": 150}  # of L-BFGS
CLASSES = [10**3, 10**4, 10**5, 10**6]


def rows(n: int, n_classes: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return unit rows with 20 non-zeros of 500 features, and random classes."""
    rng = np.random.default_rng(0)
    columns = np.argsort(rng.random((n, 500), np.float32), axis=1)[:, :20].astype(np.int32)
    data = np.full(20 * n, 20**-0.5, np.float32)
    X = sp.csr_matrix((data, np.sort(columns).ravel(), np.arange(0, 20 * n + 1, 20)), (n, 500))
    return X, rng.integers(n_classes, size=n)


def microseconds(X: Any, y: np.ndarray, n_classes: int, epochs: int, **settings: Any) -> float:
    """Return the median time of a step over some epochs, without the first."""
    model = SoftmaxClassifier(
        alpha=0.0,
        **settings,
        learning_rate=1.0,
        max_epochs=epochs,
        classes=np.arange(n_classes),
        random_state=0,
    ).fit(X, y)
    seconds = [record["seconds"] for record in model.history_]
    return 1e6 * statistics.median(np.diff(seconds)) / y.size


def million() -> None:
    """Fit and predict with a million classes; print the seconds and the peak memory."""
    X, y = rows(500_000, 10**6)
    begin = time.perf_counter()
    model = SoftmaxClassifier(
        alpha=0.0,
        **KINDS["a block by frequency"],
        learning_rate=1.0,
        max_epochs=3,
        classes=np.arange(10**6),
        random_state=0,
    ).fit(X, y)
    fitted = time.perf_counter() - begin
    begin = time.perf_counter()
    labels, _ = model.predict_top_k(X[:100], 5)
    predicted = time.perf_counter() - begin
    assert labels.shape == (100, 5)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(fitted, predicted, peak)


def run(*, quick: bool) -> dict[str, Any]:
    sets = {"Bibtex": datasets.bibtex} if quick else SETS
    losses = []
    for name, load in sets.items():
        data = load()
        for kind, settings in KINDS.items():
            for intercept in (False, True):
                model = SoftmaxClassifier(
                    alpha=0.0,
                    **settings,
                    fit_intercept=intercept,
                    max_epochs=3 if quick else 50,
                    random_state=0,
                )
                begin = time.perf_counter()
                model.fit(data.X, data.y)
                losses.append(
                    {
                        "set": name,
                        "kind": kind,
                        "intercept": intercept,
                        "rate": model.learning_rate_,
                        "seconds": time.perf_counter() - begin,
                        "log_loss": model.log_loss(data.X, data.y),
                    }
                )
        for intercept in (False, True):
            best = SoftmaxClassifier(
                solver="lbfgs",
                fit_intercept=intercept,
                alpha=0.0,
                max_epochs=5 if quick else ITERATIONS[name],
                dtype="float64",
            )
            begin = time.perf_counter()
            best.fit(data.X, data.y)
            losses.append(
                {
                    "set": name,
                    "kind": "L-BFGS",
                    "intercept": intercept,
                    "seconds": time.perf_counter() - begin,
                    "log_loss": best.log_loss(data.X, data.y),
                }
            )
    n = 20_000 if quick else 200_000
    epochs = 3 if quick else 8
    steps = []
    for n_classes in CLASSES[:2] if quick else CLASSES:
        X, y = rows(n, n_classes)
        for kind, settings in KINDS.items():
            cost = microseconds(X, y, n_classes, epochs, **settings)
            steps.append({"classes": n_classes, "kind": kind, "microseconds": cost})
    largest = None
    if not quick:
        command = "from benchmarks.blocks import million; million()"
        done = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
        fitted, predicted, peak = map(float, done.stdout.split())
        largest = {"fit_seconds": fitted, "predict_seconds": predicted, "gigabytes": peak}
    return {"losses": losses, "steps": steps, "million": largest}


def table(result: dict[str, Any]) -> str:
    names = list(dict.fromkeys(row["set"] for row in result["losses"]))
    kinds = list(dict.fromkeys(row["kind"] for row in result["losses"]))
    cells = []
    for intercept in (False, True):
        for kind in kinds:
            line = [f"{kind}{', intercept' if intercept else ''}"]
            for name in names:
                (row,) = (
                    row
                    for row in result["losses"]
                    if (row["set"], row["kind"], row["intercept"]) == (name, kind, intercept)
                )
                line += [f"{row['log_loss']:.4f}", f"{row['seconds']:.2f}"]
            cells.append(line)
    header = ["train log-loss, 50 epochs"] + [part for name in names for part in (name, "s")]
    parts = [markdown(header, cells)]
    counts = list(dict.fromkeys(row["classes"] for row in result["steps"]))
    cells = []
    for kind in KINDS:
        costs = [row["microseconds"] for row in result["steps"] if row["kind"] == kind]
        cells.append([kind, *(f"{cost:.2f}" for cost in costs), f"{costs[-1] / costs[0]:.2f}×"])
    one, block = (
        [row["microseconds"] for row in result["steps"] if row["kind"] == kind]
        for kind in ("one class a step", "a block")
    )
    ratios = [f"{b / a:.2f}×" for a, b in zip(one, block, strict=True)]
    cells.append(["a block over one class", *ratios, ""])
    parts.append(markdown(["µs a step, K =", *(f"{k:,}" for k in counts), "last/first"], cells))
    if result["million"]:
        found = result["million"]
        parts.append(
            "A million classes, 500 features, 500,000 rows: 3 epochs in "
            f"{found['fit_seconds']:.1f} s, the top 5 of 100 rows in "
            f"{found['predict_seconds']:.1f} s, at most {found['gigabytes']:.1f} GB."
        )
    return "\n\n".join(parts)
