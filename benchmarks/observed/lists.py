"""The cost of a step by the number of classes, with lists of equal length."""

import statistics
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import markdown
from benchmarks.observed.models import make
from benchmarks.regularisation import judging
from benchmarks.regularisation.children import Result

CLASSES = {f"{n:,} classes": n for n in (10**3, 10**4, 10**5, 10**6)}
LIST, PER_ROW = 50, 20  # rows that have a feature, and features of a row, on average
LIST_ROWS = 200_000


def list_rows(n: int, n_classes: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return random rows and classes: the classes of a feature are about as many as its rows."""
    rng = np.random.default_rng(0)
    width = n * PER_ROW // LIST
    columns = np.sort(rng.integers(width, size=(n, PER_ROW)), axis=1).astype(np.int32)
    data, indptr = np.ones(columns.size, np.float32), np.arange(0, columns.size + 1, PER_ROW)
    X = sp.csr_matrix((data, columns.ravel(), indptr), shape=(n, width))
    X.sum_duplicates()
    return X, rng.integers(n_classes, size=n)


def cells(quick: bool) -> list[str]:
    return list(CLASSES)[:2] if quick else list(CLASSES)


def measure(name: str, *, quick: bool, limit: float) -> Result:
    n_classes = CLASSES[name]
    X, y = list_rows(4000 if quick else LIST_ROWS, n_classes)
    settings: dict[str, Any] = {"alpha": 1e-5, "max_epochs": 2, "classes": np.arange(n_classes)}
    costs = []
    for _ in range(1 if quick else judging.REPEATS):
        model = make(**settings).fit(X, y)
        first, second = (record["seconds"] for record in model.history_)
        costs.append(1e6 * (second - first) / y.size)
    pairs = model.plan_["pairs"]
    found = {
        "classes": n_classes,
        "rows": y.size,
        "pairs": pairs,
        "list": pairs / X.shape[1],
        "microseconds": statistics.median(costs),
    }
    print(name, found, flush=True)
    return found


def table(rows: list[Result]) -> str:
    least = min(rows, key=lambda row: row["classes"])
    lines = [
        [
            f"{row['classes']:,}",
            f"{row['list']:.1f}",
            f"{row['pairs']:,}",
            f"{row['microseconds']:.2f}",
            f"{row['microseconds'] / least['microseconds']:.2f}×",
        ]
        for row in rows
    ]
    header = ["classes", "classes of a feature", "observed pairs", "µs a row"]
    return markdown([*header, f"over that of {least['classes']:,}"], lines)
