"""Epochs per second: hinge loss, Zipf rows, shuffled every epoch."""

from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks import datasets
from benchmarks.harness import markdown, median_seconds
from monro import LinearClassifier

ALPHA = 1e-5


def run(*, quick: bool) -> dict[str, Any]:
    n, epochs, repeats = (20_000, 3, 1) if quick else (200_000, 10, 7)
    X = datasets.zipf_rows(n, 47_000, 75)
    y = datasets.sparse_rule(X)

    models: dict[str, Any] = {
        "SGDClassifier": SGDClassifier(alpha=ALPHA, tol=None, max_iter=epochs, random_state=0)
    }
    for solver in ("sgd", "asgd", "implicit", "dual"):
        for jobs in (1, 2):
            models[f"monro {solver}, {jobs} thread{'s' * (jobs > 1)}"] = LinearClassifier(
                solver=solver, alpha=ALPHA, max_epochs=epochs, n_jobs=jobs, random_state=0
            )
    seconds = median_seconds(
        {name: (lambda model=model: model.fit(X, y)) for name, model in models.items()}, repeats
    )
    rows = []
    for name, model in models.items():
        margin = y * (X @ model.coef_[0] + model.intercept_[0])
        rows.append(
            {
                "learner": name,
                "epochs_per_second": epochs / seconds[name],
                "ratio": seconds["SGDClassifier"] / seconds[name],
                "training_accuracy": np.mean(margin > 0),
                "objective": np.maximum(0, 1 - margin).mean() + ALPHA / 2 * np.sum(model.coef_**2),
            }
        )
    return {"rows": n, "nonzeros": X.nnz, "epochs": epochs, "results": rows}


def table(result: dict[str, Any]) -> str:
    caption = (
        f"{result['rows']:,} rows, {result['nonzeros']:,} non-zeros, hinge loss, "
        f"{result['epochs']} epochs, whole `fit` calls:\n\n"
    )
    return caption + markdown(
        ["learner", "epochs/s", "ratio", "training accuracy", "objective"],
        [
            [
                row["learner"],
                f"{row['epochs_per_second']:.1f}",
                f"{row['ratio']:.1f}×",
                f"{row['training_accuracy']:.4f}",
                f"{row['objective']:.4f}",
            ]
            for row in result["results"]
        ],
    )
