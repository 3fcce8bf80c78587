"""NCE and importance sampling: how far from the maximum likelihood, as draws grow.

Rows belong to four groups, and a model has weights for each: the maximum-likelihood probabilities
are the shares of the classes within a group, and the least log-loss is known exactly. Each fit is
made at two rates, and the better is shown.
"""

from typing import Any

import numpy as np

from benchmarks.harness import markdown
from monro import SoftmaxClassifier

SOLVERS = {"nce": "NCE", "importance": "importance sampling"}
_GROUPS = 4


def _grouped(n_classes: int, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return one-hot rows of groups, labels, and the least log-loss."""
    rng = np.random.default_rng(0)
    group = rng.integers(_GROUPS, size=n)
    y = np.empty(n, np.int64)
    for g in range(_GROUPS):
        p = np.exp(rng.standard_normal(n_classes))
        y[group == g] = rng.choice(n_classes, (group == g).sum(), p=p / p.sum())
    y[:n_classes] = np.arange(n_classes)  # every class occurs
    counts = np.zeros((_GROUPS, n_classes))
    np.add.at(counts, (group, y), 1.0)
    share = counts / counts.sum(axis=1, keepdims=True)
    return np.eye(_GROUPS)[group], y, float(-np.log(share[group, y]).mean())


def _excess(solver: str, n_classes: int, batch: int, draws: int, quick: bool) -> float:
    """Return the smallest relative excess of the log-loss over its minimum."""
    n = 2_000 if quick else max(4_000, 20 * n_classes)
    X, y, least = _grouped(n_classes, n)
    losses = []
    for rate in (0.3, 0.15):
        model = SoftmaxClassifier(
            solver=solver, sampling="frequency", examples_per_step=batch, classes_per_step=draws,
            alpha=0.0, learning_rate=rate * batch**0.8, epoch_decay=0.9,
            max_epochs=3 if quick else 60, random_state=0,
        )  # fmt: skip
        losses.append(model.fit(X, y).log_loss(X, y))
    return min(losses) / least - 1.0


def run(*, quick: bool) -> dict[str, Any]:
    found = []
    for n_classes in (3, 30) if quick else (3, 30, 1_000):
        for solver in SOLVERS:
            for batch in (1, 100):
                for draws in (2, 20, max(60, n_classes)):
                    excess = _excess(solver, n_classes, batch, draws, quick)
                    found.append(
                        {
                            "classes": n_classes, "solver": solver, "batch": batch,
                            "draws": draws, "excess": excess,
                        }
                    )  # fmt: skip
    return {"results": found}


def table(result: dict[str, Any]) -> str:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in result["results"]:
        found.setdefault((row["classes"], row["solver"], row["batch"]), []).append(row)
    rows = [
        [f"{SOLVERS[solver]}, {classes:,} classes, {batch} examples a step",
         *(f"{100.0 * row['excess']:.2f} ({row['draws']:,})" for row in group)]
        for (classes, solver, batch), group in found.items()
    ]  # fmt: skip
    last = [group[-1]["excess"] for group in found.values()]
    return (
        markdown(["log-loss above its minimum, % (draws)", "few", "more", "most"], rows)
        + f"\n\nWith most draws the excess is below 1 % in {sum(e < 0.01 for e in last)} of "
        f"{len(last)} cases, and at most {100.0 * max(last):.2f} %."
    )
