"""The trials of paper 002: steps with and without dense vectors, and fits on moved rows."""

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro import LinearClassifier
from monro._jit import kernel
from monro.errors import DivergenceError
from monro.linear.examples import Examples
from monro.linear.objective import mean_loss
from monro.linear.problem import Problem
from monro.linear.solvers import make_solver
from monro.losses import Log, derivative
from monro.penalties import Ridge
from monro.rows import Array, Sparse, as_rows
from monro.studies import data
from monro.studies.study import Tick, Trial

LAM = 1e-2
SPARSE = {"SGD": "sgd", "ASGD": "asgd", "CASGD": "casgd"}
DENSE = {"ASGD, dense": "asgd", "CASGD, dense": "casgd"}
_INVERSE_T = {"schedule": "inverse-t"}
FITTED: dict[str, dict[str, Any]] = {
    "SGD": {"solver": "sgd"} | _INVERSE_T,
    "ASGD": {"solver": "asgd"} | _INVERSE_T,
    "CASGD": {"solver": "casgd"} | _INVERSE_T,
    "SGD, centred": {"solver": "sgd", "center": True} | _INVERSE_T,
    "implicit SGD": {"solver": "implicit"} | _INVERSE_T,
    "implicit SGD, centred": {"solver": "implicit", "center": True} | _INVERSE_T,
    "dual": {"solver": "dual"},
    "dual, centred": {"solver": "dual", "center": True},
}


# ------------------------------------------------------------------------------- with dense vectors


@kernel
def dense_averaged_epoch(
    rows: Sparse, y: Array, order: Array, lam: float, w: Array, average: Array
) -> None:
    """ASGD without rearrangement: ``w ← (1 - 1/t) w - g x/(λt)``, and the mean of all w.

    The row stays sparse, but shrinkage and averaging touch all n weights in every step. The last of
    `w` is the intercept, with a ridge as in the paper.
    """
    n = w.size - 1
    for j in range(order.size):
        i = order[j]
        score = w[n]
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            score += w[rows.indices[p]] * rows.data[p]
        t = j + 1.0
        step = derivative(Log(), score, y[i]) / (lam * t)
        for k in range(n + 1):
            w[k] *= 1.0 - 1.0 / t
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            w[rows.indices[p]] -= step * rows.data[p]
        w[n] -= step
        for k in range(n + 1):
            average[k] += (w[k] - average[k]) / t


@kernel
def dense_centred_epoch(
    rows: Sparse,
    y: Array,
    order: Array,
    lam: float,
    mean: Array,
    x: Array,
    w: Array,
    average: Array,
) -> None:
    """CASGD without rearrangement: the same on rows ``x - x̄``, which are dense.

    `x` is a scratch buffer.
    """
    n = mean.size
    for j in range(order.size):
        i = order[j]
        for k in range(n):
            x[k] = -mean[k]
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            x[rows.indices[p]] += rows.data[p]
        score = w[n]
        for k in range(n):
            score += w[k] * x[k]
        t = j + 1.0
        keep = 1.0 - 1.0 / t
        step = derivative(Log(), score, y[i]) / (lam * t)
        for k in range(n):
            w[k] = keep * w[k] - step * x[k]
            average[k] += (w[k] - average[k]) / t
        w[n] = keep * w[n] - step
        average[n] += (w[n] - average[n]) / t


def synthetic_rows(m: int, n: int, k: int, seed: int = 0) -> tuple[sp.csr_matrix, Array]:
    """Return m random rows with k of n features each, labelled by a linear rule."""
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.integers(n - k + 1, size=(m, k)), axis=1) + np.arange(k)
    X = sp.csr_matrix(
        (rng.standard_normal(m * k) + 1.0, indices.ravel().astype(np.int32), np.arange(m + 1) * k),
        shape=(m, n),
    )
    scores = X @ rng.standard_normal(n)
    return X, np.where(scores > np.median(scores), 1.0, -1.0)


def cost(algorithm: str, n: int, k: int, steps: int, seed: int) -> dict[str, Any]:
    """Return the seconds of a step and of the final pass; of dense ones, the error of weights."""
    X, y = synthetic_rows(steps, n, k, seed)
    problem = Problem(Log(), Ridge(LAM), Examples(as_rows(X), y, np.ones(steps)), True, n)
    if algorithm in SPARSE:
        return _sparse_cost(problem, SPARSE[algorithm])
    return _dense_cost(problem, DENSE[algorithm], np.asarray(X.mean(axis=0)).ravel())


def _sparse_cost(problem: Problem, name: str) -> dict[str, Any]:
    steps = problem.examples.y.size
    found = []
    for _ in range(6):  # each takes milliseconds: the fastest counts, and the first one compiles
        solver = make_solver(problem, name, "inverse-t")
        state = solver.start()
        begin = time.perf_counter()
        solver.sweep(np.arange(steps), state)
        middle = time.perf_counter()
        solver.solution(state)
        found.append(((middle - begin) / steps, time.perf_counter() - middle))
    per_step, end = map(min, zip(*found, strict=True))
    return {"per_step": per_step, "end": end, "steps": steps}


def _dense_cost(problem: Problem, name: str, mean: Array) -> dict[str, Any]:
    rows, y, _ = problem.examples
    n, steps = problem.n_features, y.size
    few = int(np.clip(2e9 / n, 50, steps) if steps > 10_000 else np.clip(1e8 / n, 50, steps))
    for count in (2, few):  # the first one compiles; `few` steps take seconds, not hours
        w, average = np.zeros(n + 1), np.zeros(n + 1)
        given = (rows, y, np.arange(count), LAM)
        begin = time.perf_counter()
        if name == "casgd":
            dense_centred_epoch(*given, mean, np.empty(n), w, average)
        else:
            dense_averaged_epoch(*given, w, average)
        seconds = time.perf_counter() - begin
    solver = make_solver(problem, name, "inverse-t")
    state = solver.start()
    solver.sweep(np.arange(few), state)
    coef, intercept = solver.solution(state)
    other = average[n] - (mean @ average[:n] if name == "casgd" else 0.0)
    apart = max(abs(coef - average[:n]).max(), abs(intercept - other))
    return {"per_step": seconds / few, "steps": few, "apart": float(apart / abs(average).max())}


# ------------------------------------------------------------------------------------- moved rows


def fits(have: dict[str, Any], tick: Tick) -> dict[str, Any]:
    """Fit covtype, moved, once for each budget of steps; return losses, objectives and errors."""
    full = data.covtype()
    rows = data.first(full, have["rows"]) if have["rows"] else full
    X, test_X = (each + have["shift"] for each in (rows.X, rows.test_X))
    examples = Examples(as_rows(X), np.where(rows.y > 0, 1.0, -1.0), np.ones(rows.y.size))
    problem = Problem(Log(), Ridge(LAM), examples, True, X.shape[1])
    found: dict[str, Any] = {"steps": have["budgets"], "loss": [], "objective": [], "error": []}
    for k, budget in enumerate(have["budgets"]):
        model = LinearClassifier(
            loss="log",
            alpha=LAM,
            shuffle="replacement" if have["draws"] == "with replacement" else True,
            max_steps=budget,
            random_state=have["seed"],
            **FITTED[have["algorithm"]],
        )
        try:
            w, b = model.fit(X, rows.y).coef_[0], float(model.intercept_[0])
        except DivergenceError:
            values: dict[str, float | None] = dict.fromkeys(("loss", "objective", "error"))
        else:
            loss = mean_loss(problem, w, b)
            centred = model.center or model.solver == "casgd"
            bias = b + float(w @ X.mean(axis=0)) if centred else b  # the one with a ridge
            values = {
                "loss": loss,
                "objective": loss + 0.5 * LAM * (float(w @ w) + bias**2),
                "error": float(np.mean((test_X @ w + b > 0) != (rows.test_y > 0))),
            }
        for name, value in values.items():
            found[name].append(value)
        tick((k + 1) / len(have["budgets"]))
    return found


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Time an algorithm, or fit it with several budgets of steps."""
    have = trial.settings
    if trial.part == "cost":
        size = have["features"], have["nonzeros"], have["steps"], have["seed"]
        return cost(have["algorithm"], *size)
    return fits(have, tick)
