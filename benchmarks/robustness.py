"""Robustness (paper 003): test error on RCV1-CCAT after 10 epochs against η0, alpha and decay."""

from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.harness import markdown
from monro import LinearClassifier
from monro.errors import DivergenceError

SOLVERS = ("sgd", "asgd", "implicit", "aisgd", "sgdqn", "sgdqn-flawed", "casgd")
ALPHA = 1e-5
RATES = [4.0**k for k in range(-5, 11)]  # 0.001 … 10⁶
ALPHAS = [10.0**k for k in range(-8, -1)]
DECAYS = [10.0**k for k in range(-3, 4)]


def run(*, quick: bool) -> dict[str, Any]:
    data = datasets.rcv1()

    def error(loss: str, solver: str, intercept: bool, **parameters: Any) -> float:
        model = LinearClassifier(
            loss=loss,
            solver=solver,
            fit_intercept=intercept,
            random_state=0,
            **{"alpha": ALPHA, "max_epochs": 1 if quick else 10, **parameters},
        )
        try:
            model.fit(data.X, data.y)
        except DivergenceError:
            return 0.5
        return float(1 - model.score(data.test_X, data.test_y))

    results = []
    for loss in ("hinge", "log"):
        for intercept in (False, True):
            for solver in SOLVERS:
                rates = [error(loss, solver, intercept, learning_rate=r) for r in RATES]
                row = {
                    "loss": loss,
                    "intercept": intercept,
                    "solver": solver,
                    "errors_by_rate": rates,
                    "auto": error(loss, solver, intercept),
                }
                if not intercept:
                    row["errors_by_alpha"] = [
                        error(loss, solver, intercept, alpha=a) for a in ALPHAS
                    ]
                    if not solver.startswith("sgdqn"):
                        row["errors_by_decay"] = [
                            error(loss, solver, intercept, decay=b) for b in DECAYS
                        ]
                results.append(row)
                print(row, flush=True)
    return {"rates": RATES, "alphas": ALPHAS, "decays": DECAYS, "results": results}


def table(result: dict[str, Any]) -> str:
    parts = []
    for loss in ("hinge", "log"):
        for key, values, title in (
            ("errors_by_rate", result["rates"], "η0"),
            ("errors_by_alpha", result["alphas"], "alpha (η0 automatic)"),
            ("errors_by_decay", result["decays"], "decay β (η0 automatic)"),
        ):
            rows = [
                row
                for row in result["results"]
                if row["loss"] == loss and not row["intercept"] and key in row
            ]
            cells = [
                [row["solver"], *(f"{100 * e:.2f}" for e in row[key])]
                + ([f"{100 * row['auto']:.2f}"] if key == "errors_by_rate" else [])
                for row in rows
            ]
            header = ["solver", *(f"{v:.0e}" for v in values)]
            if key == "errors_by_rate":
                header.append("auto")
            parts.append(
                f"{loss} loss, test error in % against {title}:\n\n{markdown(header, cells)}"
            )
    return "\n\n".join(parts)


def worst_above_best(row: dict[str, Any], decades: float = 4.0) -> float:
    """Return the worst error at rates from the best to 10^decades times it, over the best error."""
    errors = np.array(row["errors_by_rate"])
    best = int(errors.argmin())
    reach = np.array(RATES) <= RATES[best] * 10**decades * 1.001
    return float(errors[best:][reach[best:]].max() / errors[best])
