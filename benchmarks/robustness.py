"""Robustness (paper 003): test error on RCV1-CCAT after 10 epochs against η0, alpha and decay."""

from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.harness import markdown
from monro import LinearClassifier
from monro.errors import DivergenceError

SOLVERS = ("sgd", "asgd", "implicit", "aisgd", "sgdqn", "sgdqn-flawed", "casgd")
ALPHA = 1e-5
RATES = [10.0 ** (k / 2) for k in range(-8, 15)]  # 10⁻⁴ … 10⁷
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
                if solver == "casgd" and not intercept:
                    continue  # its centre goes into the intercept
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
    offsets = [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    for loss in ("hinge", "log"):
        for intercept in (False, True):
            cells = []
            for row in result["results"]:
                if (row["loss"], row["intercept"]) == (loss, intercept):
                    near = [_at(result, row, offset) for offset in offsets]
                    best = min(row["errors_by_rate"])
                    cells.append(
                        [
                            row["solver"],
                            f"{result['rates'][_best(row)]:.2g}",
                            *(f"{100 * e:.2f}" if e is not None else "" for e in near),
                            f"{worst_above_best(result, row):.2f}×",
                            f"{100 * row['auto']:.2f} ({row['auto'] / best:.2f}×)",
                        ]
                    )
            header = ["solver", "best η0", *(f"×10^{o:.0f}" for o in offsets)]
            title = f"{loss} loss, {'with' if intercept else 'no'} intercept, test error in %"
            parts.append(f"{title}:\n\n" + markdown([*header, "worst above best", "auto"], cells))
    for key, grid, title in (
        ("errors_by_alpha", result["alphas"], "alpha"),
        ("errors_by_decay", result["decays"], "decay"),
    ):
        rows = [row for row in result["results"] if key in row]
        cells = [
            [f"{row['solver']}, {row['loss']}", *(f"{100 * e:.2f}" for e in row[key])]
            for row in rows
        ]
        header = [f"{title} →", *(f"{value:.0e}" for value in grid)]
        parts.append(f"No intercept, η0 automatic, test error in %:\n\n{markdown(header, cells)}")
    return "\n\n".join(parts)


def _best(row: dict[str, Any]) -> int:
    return int(np.argmin(row["errors_by_rate"]))


def _at(result: dict[str, Any], row: dict[str, Any], decades: float) -> float | None:
    """Return the error at the best rate times 10^decades, if it was tried."""
    wanted = np.log10(result["rates"][_best(row)]) + decades
    distance = np.abs(np.log10(result["rates"]) - wanted)
    return row["errors_by_rate"][int(distance.argmin())] if distance.min() < 0.1 else None


def worst_above_best(result: dict[str, Any], row: dict[str, Any]) -> float:
    """Return the worst error at rates from the best to 10⁴ times it, over the best error."""
    best = _best(row)
    top = result["rates"][best] * 1e4 * 1.01
    reach = [
        error
        for error, rate in zip(row["errors_by_rate"], result["rates"], strict=True)
        if result["rates"][best] <= rate <= top
    ]
    return float(max(reach) / row["errors_by_rate"][best])
