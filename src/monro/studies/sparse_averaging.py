"""Paper 002: averaged SGD without dense operations, and its centred form. It has no experiments.

The study verifies its claims instead: T steps on rows with k of n features cost O(n + Tk), where an
implementation with dense vectors takes O(Tn); and CASGD is invariant to translations of the data.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro._jit import kernel
from monro.linear.examples import Examples
from monro.linear.objective import mean_loss
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS, make_solver
from monro.losses import Log, derivative
from monro.penalties import Ridge
from monro.report.content import Curve, Plot, Section, Table
from monro.rows import Array, Sparse, as_rows
from monro.studies import data
from monro.studies.cells import number, ratio
from monro.studies.finding import Finding, measured
from monro.studies.monitoring import sweep_monitored
from monro.studies.study import Outcome, Study, Tick, Trial, only, where

LAM = 1e-2
ALGORITHMS = {"sgd": "SGD", "asgd": "ASGD", "casgd": "CASGD"}
DENSE = {"asgd": "ASGD, dense", "casgd": "CASGD, dense"}
WIDTHS = [1_000, 10_000, 100_000, 1_000_000]
LENGTHS = [5, 50, 500]
SHIFTS = [0.0, 1.0, 10.0]


def trials(quick: bool) -> list[Trial]:
    """Return the trials."""
    widths = WIDTHS[:3] if quick else WIDTHS
    steps = 2_000 if quick else 50_000
    sizes = [(n, 50) for n in widths] + [(100_000, k) for k in LENGTHS if k != 50]
    found = [
        Trial("cost", "", {"algorithm": title, "features": n, "nonzeros": k, "steps": steps})
        for title in (*ALGORITHMS.values(), *DENSE.values())
        for n, k in sizes
    ]
    size = {"rows": 10_000 if quick else 0, "epochs": 2 if quick else 10, "points": 4}
    found += [
        Trial("translation", "covtype", {"algorithm": title, "shift": shift} | size)
        for title in ALGORITHMS.values()
        for shift in SHIFTS
    ]
    return found


# ------------------------------------------------------------------------------- with dense vectors


@kernel
def dense_epoch(
    rows: Sparse,
    y: Array,
    order: Array,
    lam: float,
    mean: Array,
    x: Array,
    w: Array,
    average: Array,
) -> None:
    """Averaged SGD without rearrangement: ``w ← w - (λw + g(x - x̄))/(λt)``, all n weights per step.

    The last of `w` is the intercept, with a ridge as in the paper. `x` is a scratch buffer.
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
        g = derivative(Log(), score, y[i])
        t = j + 1.0
        keep = 1.0 - 1.0 / t
        step = g / (lam * t)
        for k in range(n):
            w[k] = keep * w[k] - step * x[k]
            average[k] += (w[k] - average[k]) / t
        w[n] = keep * w[n] - step
        average[n] += (w[n] - average[n]) / t


def synthetic_rows(m: int, n: int, k: int) -> tuple[sp.csr_matrix, Array]:
    """Return m random rows with k of n features each, labelled by a linear rule."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(n - k + 1, size=(m, k)), axis=1) + np.arange(k)
    X = sp.csr_matrix(
        (rng.standard_normal(m * k) + 1.0, indices.ravel().astype(np.int32), np.arange(m + 1) * k),
        shape=(m, n),
    )
    scores = X @ rng.standard_normal(n)
    return X, np.where(scores > np.median(scores), 1.0, -1.0)


def _cost(algorithm: str, n: int, k: int, steps: int) -> dict[str, Any]:
    """Return the seconds of a step and of the final pass; of dense ones, the error of weights."""
    X, y = synthetic_rows(steps, n, k)
    problem = Problem(Log(), Ridge(LAM), Examples(as_rows(X), y, np.ones(steps)), True, n)
    if algorithm in ALGORITHMS.values():
        (name,) = (name for name, title in ALGORITHMS.items() if title == algorithm)
        small = np.arange(2)
        for order in (small, np.arange(steps)):  # the first one compiles
            solver = make_solver(problem, name, "inverse-t")
            state = solver.start()
            begin = time.perf_counter()
            solver.sweep(order, state)
            middle = time.perf_counter()
            solver.solution(state)
            end = time.perf_counter()
        return {"per_step": (middle - begin) / steps, "end": end - middle, "steps": steps}
    (name,) = (name for name, title in DENSE.items() if title == algorithm)
    mean = np.asarray(X.mean(axis=0)).ravel() if SOLVERS[name].centred else np.zeros(n)
    few = int(np.clip(2e9 / n, 50, steps) if steps > 10_000 else np.clip(1e8 / n, 50, steps))
    for count in (2, few):  # the first one compiles; `few` steps take seconds, not hours
        x, w, average = np.empty(n), np.zeros(n + 1), np.zeros(n + 1)
        begin = time.perf_counter()
        dense_epoch(problem.examples.rows, y, np.arange(count), LAM, mean, x, w, average)
        seconds = time.perf_counter() - begin
    solver = make_solver(problem, name, "inverse-t")
    state = solver.start()
    solver.sweep(np.arange(few), state)
    coef, intercept = solver.solution(state)
    other = average[n] - mean @ average[:n]
    apart = max(abs(coef - average[:n]).max(), abs(intercept - other))
    return {
        "per_step": seconds / few,
        "end": 0.0,
        "steps": few,
        "apart": float(apart / abs(average).max()),
    }


def _translated(
    algorithm: str, shift: float, n: int, epochs: int, points: int, tick: Tick
) -> dict[str, Any]:
    full = data.covtype()
    rows = data.first(full, n) if n else full
    X = rows.X + shift
    d = X.shape[1]
    examples = Examples(as_rows(X), rows.y, np.ones(rows.y.size))
    problem = Problem(Log(), Ridge(LAM), examples, True, d)
    (name,) = (name for name, title in ALGORITHMS.items() if title == algorithm)
    solver = make_solver(problem, name, "inverse-t")

    def measure(state: Any) -> dict[str, float]:
        w, b = solver.solution(state)
        error = np.mean(((rows.test_X + shift) @ w + b > 0) != (rows.test_y > 0))
        return {"loss": mean_loss(problem, w, b), "error": float(error)}

    return sweep_monitored(problem, solver, measure, tick, epochs=epochs, points=points)


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Time an algorithm, or measure its loss on translated rows during the epochs."""
    have = trial.settings
    if trial.part == "cost":
        return _cost(have["algorithm"], have["features"], have["nonzeros"], have["steps"])
    size = have["rows"], have["epochs"], have["points"]
    return _translated(have["algorithm"], have["shift"], *size, tick)


# -------------------------------------------------------------------------------- tables and plots


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the costs of a step, and the losses on translated rows."""
    found = []
    if any(where(outcomes, "cost")):
        found.append(_costs(outcomes))
    if any(where(outcomes, "translation")):
        found.append(_translation(outcomes))
    return found


def _costs(outcomes: Sequence[Outcome]) -> Section:
    titles = (*ALGORITHMS.values(), *DENSE.values())
    items: list[Table | Plot] = []
    for what, axis, fixed in (
        ("features n", "features", {"nonzeros": 50}),
        ("non-zeros k", "nonzeros", {"features": 100_000}),
    ):
        grid = sorted({o.trial.settings[axis] for o in where(outcomes, "cost", **fixed)})
        rows, curves = [], []
        for title in titles:
            results = [only(outcomes, "cost", algorithm=title, **{axis: v}, **fixed) for v in grid]
            micro = [None if r is None else 1e6 * r["per_step"] for r in results]
            rows.append([title, *(number(m, ".3g") for m in micro)])
            curves.append(Curve(title, {what: grid}, micro))
        shared = ", ".join(f"{value:,} {name}" for name, value in fixed.items())
        items.append(
            Table(
                f"Microseconds a step, {shared}",
                [f"{what} →", *(f"{v:,}" for v in grid)],
                rows,
            )
        )
        items.append(Plot(f"A step, over {what}", "microseconds", curves, log_x=True, log_y=True))
    ends = []
    widths = sorted({_width(o) for o in where(outcomes, "cost", nonzeros=50)})
    for title in ALGORITHMS.values():
        found = {_width(o): o.result for o in where(outcomes, "cost", algorithm=title, nonzeros=50)}
        ends.append(
            [title, *(number(1e3 * found[n]["end"] if n in found else None, ".2f") for n in widths)]
        )
    items.append(
        Table("Milliseconds for the one dense pass at the end", ["features n →",
              *(f"{n:,}" for n in widths)], ends)
    )  # fmt: skip
    apart = [o.result["apart"] for o in where(outcomes, "cost") if "apart" in o.result]
    largest = f"{max(apart):.1e}" if apart else "–"
    text = (
        "Rows with k non-zeros among n features, steps 1/(λt). Without dense operations the cost "
        "of a step is proportional to its non-zeros, plus the cache misses of a larger array of "
        "weights; with dense vectors it is proportional to all features. Both give the same "
        f"weights: the largest relative difference here is {largest}."
    )
    return Section("O(n + Tk) against O(Tn)", text, items)


def _width(outcome: Outcome) -> int:
    return int(outcome.trial.settings["features"])


def _translation(outcomes: Sequence[Outcome]) -> Section:
    rows, items = [], []
    for title in ALGORITHMS.values():
        cells = [title]
        for shift in SHIFTS:
            result = only(outcomes, "translation", algorithm=title, shift=shift)
            cells.append(number(result["loss"][-1] if result else None))
        rows.append(cells)
    for shift in SHIFTS:
        curves = [
            Curve(title, {"epochs": result["epochs"]}, result["loss"])
            for title in ALGORITHMS.values()
            if (result := only(outcomes, "translation", algorithm=title, shift=shift))
        ]
        title = f"covtype, moved by {shift:g}" if shift else "covtype, centred"
        items.append(Plot(title, "train log-loss", curves, log_y=True))
    table = Table(
        "Train log-loss after the last epoch",
        ["moved by →", *(f"{shift:g}" for shift in SHIFTS)],
        rows,
        "Standardised features, the same constant added to all.",
    )
    text = (
        "The same data set with its features moved away from the origin. Far from it all features "
        "act like one more intercept, in whose direction SGD and ASGD oscillate; CASGD centres the "
        "rows without storing them, and its curve does not change."
    )
    return Section("Moved data", text, [table, *items])


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    rows = []
    sparse = {_width(o): o.result for o in where(outcomes, "cost", algorithm="ASGD", nonzeros=50)}
    dense = {
        _width(o): o.result for o in where(outcomes, "cost", algorithm="ASGD, dense", nonzeros=50)
    }
    both = sorted(set(sparse) & set(dense))
    if both:
        n = both[-1]
        times = ratio(dense[n]["per_step"], sparse[n]["per_step"], ",.0f")
        what = f"{n:,} features, 50 non-zeros: a step with dense vectors over one without"
        rows.append(measured(what, "n / k, in order", times))
    ends = [
        only(outcomes, "translation", algorithm="CASGD", shift=shift) for shift in (0.0, SHIFTS[-1])
    ]
    if all(ends):
        losses = ", ".join(f"{result['loss'][-1]:.6f}" for result in ends if result)
        what = f"CASGD's train log-loss, centred and moved by {SHIFTS[-1]:g}"
        rows.append(measured(what, "equal", losses))
    return rows


STUDY = Study(
    "sparse-averaging",
    "Sparse averaging",
    "Efficient averaged and centered averaged SGD for sparse data (paper 002)",
    "Averaging the weights of all steps makes SGD much better, but a naive implementation touches "
    "every weight in every step, even if a row has only a few non-zeros. The paper rearranges the "
    "sums so that only the non-zeros are touched (ASGD), and does the same for rows from which the "
    "mean is subtracted, without ever storing such a row (CASGD).",
    ("covtype",),
    trials,
    run,
    sections,
    findings,
)
