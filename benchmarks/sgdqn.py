"""SGD-QN on covtype, standardised and deconditioned (Figures 5 and 6 of paper 004).

Deconditioned: every tenth feature twelve times as large. Log loss, because on a plain hinge one
example says nothing of the curvature unless its margin crosses 1. Each learner at its best rate.
"""

from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.harness import markdown
from monro.fitting import visiting_order
from monro.linear.solvers import Problem, make_solver
from monro.linear.state import Examples
from monro.linear.train import objective
from monro.losses import Log
from monro.rows import as_rows

LAM = 1e-3
NUMERIC = 10  # the first columns; the others are indicators, most of them rare
NAMES = {"sgd": "SVMSGD2", "sgdqn-flawed": "SGD-QN, flawed", "sgdqn": "SGD-QN, corrected"}
RATES = [2.0**k for k in range(-16, 1)]


def run(*, quick: bool) -> dict[str, Any]:
    data = datasets.covtype()
    n = 20_000 if quick else data.y.size
    epochs = 2 if quick else 10
    X = data.X[:n]
    scale = np.where(_tenth(X.shape[1]), 12.0, 1.0)
    results = []
    for version, factor in (("standardised", np.ones_like(scale)), ("deconditioned", scale)):
        rows = np.ascontiguousarray(X * factor)
        problem = Problem(
            Log(), Examples(as_rows(rows), data.y[:n], np.ones(n)), LAM, True, X.shape[1]
        )
        for name, title in NAMES.items():
            candidates = [
                _curve(problem, name, rate, epochs, data.test_X * factor, data.test_y)
                for rate in RATES
            ]
            best = min(candidates, key=lambda curve: min(curve["cost"]))
            results.append({"version": version, "learner": title, **best})
            print(version, title, best["rate"], best["cost"], flush=True)
    return {"lambda": LAM, "results": results}


def _tenth(d: int) -> np.ndarray:
    return np.arange(1, d + 1) % 10 == 0


def _curve(
    problem: Problem, name: str, rate: float, epochs: int, test_X: Any, test_y: np.ndarray
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    solver: Any = make_solver(problem, name, "bottou", rate)
    state = solver.start()
    cost, error, gains = [], [], []
    for _ in range(epochs):
        solver.sweep(visiting_order(problem.examples.y.size, rng), state)
        w, b = solver.solution(state)
        value = objective(problem, w, b)
        cost.append(value if np.isfinite(value) else 1e300)
        error.append(np.mean((test_X @ w + b > 0) != (test_y > 0)))
        if name != "sgd":
            gain = state.gains / (state.t[0] + solver.t0) if solver.flawed else state.gains
            gains.append(gain[: problem.n_features].tolist())
    return {"rate": rate, "cost": cost, "test_error": error, "gains": gains}


def table(result: dict[str, Any]) -> str:
    parts = []
    for version in ("standardised", "deconditioned"):
        rows = [row for row in result["results"] if row["version"] == version]
        target = min(rows[0]["cost"])
        cells = []
        for row in rows:
            reached = [k for k, cost in enumerate(row["cost"], 1) if cost <= target]
            gains = (
                np.array(row["gains"][-1][:NUMERIC]) if row["gains"] else np.full(NUMERIC, np.nan)
            )
            tenth = _tenth(NUMERIC)
            ratio = np.median(gains[~tenth]) / np.median(gains[tenth])
            cells.append(
                [
                    row["learner"],
                    *(f"{row['cost'][k]:.5f}" for k in (0, 1, 4, -1) if k < len(row["cost"])),
                    str(reached[0]) if reached else "–",
                    f"{100 * min(row['test_error']):.2f}",
                    f"{ratio:.2f}" if row["gains"] else "–",
                ]
            )
        header = ["covtype, " + version, "cost, epoch 1", "2", "5", "10"]
        parts.append(
            markdown(
                [*header, "epochs to SVMSGD2's best", "test error %", "gain, others / tenth"], cells
            )
        )
    return "\n\n".join(parts)
