"""Time per epoch by the number of non-zeros, of features, and of threads."""

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.datasets import zipf_rows
from benchmarks.harness import markdown, median_seconds
from monro import LinearClassifier

SOLVERS = ("sgd", "asgd", "implicit", "dual")


def _epoch_seconds(X: Any, y: np.ndarray, solver: str, jobs: int, repeats: int) -> float:
    """Return the seconds of an epoch: the difference of fits of 6 and 2 epochs, over 4."""

    def fit(epochs: int) -> Any:
        rate: Any = "auto" if solver == "dual" else 1.0
        return LinearClassifier(
            solver=solver,
            alpha=1e-5,
            learning_rate=rate,
            max_epochs=epochs,
            n_jobs=jobs,
            random_state=0,
        ).fit(X, y)

    seconds = median_seconds({"6": lambda: fit(6), "2": lambda: fit(2)}, repeats)
    return max((seconds["6"] - seconds["2"]) / 4, 1e-9)


def _spread(X: sp.csr_matrix, d: int) -> sp.csr_matrix:
    """Return X with its columns scattered over d columns: the same work at other addresses."""
    columns = np.sort(np.random.default_rng(0).choice(d, X.shape[1], replace=False))
    indices = columns.astype(np.int32)[X.indices]
    return sp.csr_matrix((X.data, indices, X.indptr), shape=(X.shape[0], d))


def run(*, quick: bool) -> dict[str, Any]:
    n, repeats = (4_000, 1) if quick else (100_000, 3)
    X = zipf_rows(n, 9_000, 75)
    y = np.where(np.random.default_rng(0).random(n) < 0.5, 1.0, -1.0)
    by_width = []
    for d in (10_000, 100_000, 1_000_000, 10_000_000):
        wide = _spread(X, d)
        by_width.append({s: _epoch_seconds(wide, y, s, 1, repeats) for s in SOLVERS} | {"width": d})
        print(by_width[-1], flush=True)
    by_size = []
    for share in (0.125, 0.25, 0.5, 1.0):
        m = int(n * share)
        part = X[:m]
        row = {s: _epoch_seconds(part, y[:m], s, 1, repeats) / part.nnz * 1e9 for s in SOLVERS}
        by_size.append(row | {"nonzeros": part.nnz})
        print(by_size[-1], flush=True)
    by_threads = []
    threads = [k for k in (1, 2, 4, 8, 16) if k <= (os.cpu_count() or 1)]
    for jobs in threads:
        by_threads.append(
            {s: _epoch_seconds(X, y, s, jobs, repeats) for s in SOLVERS} | {"threads": jobs}
        )
        print(by_threads[-1], flush=True)
    return {"nonzeros": X.nnz, "by_width": by_width, "by_size": by_size, "by_threads": by_threads}


def table(result: dict[str, Any]) -> str:
    width = markdown(
        ["features", *(f"{s}, ms" for s in SOLVERS)],
        [
            [f"{row['width']:,}", *(f"{1000 * row[s]:.1f}" for s in SOLVERS)]
            for row in result["by_width"]
        ],
    )
    size = markdown(
        ["non-zeros", *(f"{s}, ns each" for s in SOLVERS)],
        [
            [f"{row['nonzeros']:,}", *(f"{row[s]:.2f}" for s in SOLVERS)]
            for row in result["by_size"]
        ],
    )
    threads = markdown(
        ["threads", *(f"{s}, ms" for s in SOLVERS)],
        [
            [str(row["threads"]), *(f"{1000 * row[s]:.1f}" for s in SOLVERS)]
            for row in result["by_threads"]
        ],
    )
    ranges = []
    for key, what in (("by_width", "numbers of features"), ("by_size", "numbers of non-zeros")):
        ratios = [max(r[s] for r in result[key]) / min(r[s] for r in result[key]) for s in SOLVERS]
        pairs = ", ".join(f"{s} {r:.2f}×" for s, r in zip(SOLVERS, ratios, strict=True))
        ranges.append(f"The largest over the smallest time per non-zero among {what}: {pairs}.")
    return "\n\n".join(
        [f"One epoch on {result['nonzeros']:,} non-zeros:", width, size, *ranges, threads]
    )
