"""Paper 002: averaged SGD without dense operations, and its centred form. It has no experiments.

The study verifies its claims instead: T steps on rows with k of n features cost O(n + Tk), where an
implementation with dense vectors takes O(Tn); the mean of the iterates is better than the last one;
and CASGD is invariant to translations of the data.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from monro.report.content import Curve, Plot, Section, Table
from monro.studies.cells import mean, spread
from monro.studies.finding import Finding, below, holds, measured
from monro.studies.sparse_averaging_runs import DENSE, FITTED, SPARSE, run
from monro.studies.study import (
    SEEDS,
    Outcome,
    Study,
    Trial,
    only,
    results,
    seconds_alone,
    seeds,
    where,
)

WIDTHS = [1_000, 10_000, 100_000, 1_000_000]
LENGTHS = [5, 50, 500]
FAR = 10.0
SHIFTS = [0.0, 1.0, FAR]
DRAWS = ("with replacement", "by permutations")
BUDGETS = [10_000, 100_000, 1_000_000, 5_000_000]
QUICK_BUDGETS = [1_000, 10_000, 15_000]
FLAT, STEEP, EXACT = 0.25, 0.75, 1e-6


def trials(quick: bool) -> list[Trial]:
    """Return the trials."""
    widths = WIDTHS[:3] if quick else WIDTHS
    steps = 2_000 if quick else 50_000
    sizes = [(n, 50) for n in widths] + [(100_000, k) for k in LENGTHS if k != 50]
    found = [
        Trial("cost", "", {"algorithm": title, "features": n, "nonzeros": k, "steps": steps,
                           "seed": seed})
        for title in (*SPARSE, *DENSE)
        for n, k in sizes
        for seed in seeds(quick)
    ]  # fmt: skip
    size = {"rows": 10_000 if quick else 0, "budgets": QUICK_BUDGETS if quick else BUDGETS}
    cases = [(title, shift, DRAWS[0]) for title in FITTED for shift in SHIFTS]
    cases += [(title, 0.0, DRAWS[1]) for title in SPARSE]
    found += [
        Trial("fit", "covtype", {"algorithm": title, "shift": shift, "draws": draws, "seed": seed}
              | size)
        for title, shift, draws in cases
        for seed in seeds(quick)
    ]  # fmt: skip
    return found


def timed(trial: Trial) -> bool:
    """Return whether the seconds of a trial are compared."""
    return trial.part == "cost"


# -------------------------------------------------------------------------------- tables and plots


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the costs of a step, and the losses of T steps on moved rows."""
    found = []
    if any(where(outcomes, "cost")):
        found.append(_costs(outcomes))
    if any(where(outcomes, "fit", draws=DRAWS[0])):
        found.append(_translation(outcomes))
    if any(where(outcomes, "fit", shift=0.0)):
        found.append(_draws(outcomes))
    return found


def _microseconds(outcomes: Sequence[Outcome], **wanted: Any) -> list[float]:
    """Return the microseconds a step of trials that ran alone, of all seeds."""
    found = [seconds_alone(each, "per_step") for each in where(outcomes, "cost", **wanted)]
    return [1e6 * seconds for seconds in found if seconds is not None]


def _grid(outcomes: Sequence[Outcome], name: str, **fixed: Any) -> list[int]:
    return sorted({each.trial.settings[name] for each in where(outcomes, "cost", **fixed)})


def _costs(outcomes: Sequence[Outcome]) -> Section:
    items: list[Table | Plot] = []
    for what, axis, fixed in (
        ("features n", "features", {"nonzeros": 50}),
        ("non-zeros k", "nonzeros", {"features": 100_000}),
    ):
        grid = _grid(outcomes, axis, **fixed)
        rows, curves = [], []
        for title in (*SPARSE, *DENSE):
            micro = [_microseconds(outcomes, algorithm=title, **{axis: v}, **fixed) for v in grid]
            rows.append([title, *(spread(each, ".3g") for each in micro)])
            curves.append(Curve(title, {what: grid}, [mean(each) for each in micro]))
        shared = ", ".join(f"{value:,} {name}" for name, value in fixed.items())
        heads = [f"{what} →", *(f"{v:,}" for v in grid)]
        items.append(Table(f"Microseconds a step, {shared}", heads, rows))
        items.append(Plot(f"A step, over {what}", "microseconds", curves, log_x=True, log_y=True))
    widths = _grid(outcomes, "features", nonzeros=50)
    ends = [[title, *(spread(_ends(outcomes, title, n), ".2f") for n in widths)]
            for title in SPARSE]  # fmt: skip
    heads = ["features n →", *(f"{n:,}" for n in widths)]
    items.append(Table("Milliseconds for the one dense pass at the end", heads, ends))
    text = (
        "Rows with k non-zeros among n features, steps 1/(λt). The dense variants do what the "
        "recursion asks for as it is written: ASGD shrinks and averages all n weights in each "
        "step, CASGD also subtracts the mean from the row. Seconds are of trials that ran alone."
    )
    return Section("O(n + Tk) against O(Tn)", text, items)


def _ends(outcomes: Sequence[Outcome], title: str, n: int) -> list[float]:
    chosen = where(outcomes, "cost", algorithm=title, features=n, nonzeros=50)
    found = [seconds_alone(each, "end") for each in chosen]
    return [1e3 * seconds for seconds in found if seconds is not None]


def _last(outcomes: Sequence[Outcome], name: str, **wanted: Any) -> list[float | None]:
    """Return the values of the largest budget, of all seeds."""
    return [result[name][-1] for result in results(outcomes, "fit", **wanted)]


def _translation(outcomes: Sequence[Outcome]) -> Section:
    items: list[Table | Plot] = []
    heads = ["moved by →", *(f"{shift:g}" for shift in SHIFTS)]
    for title, name, form in (
        ("Train log-loss after the largest budget of steps", "loss", ".4f"),
        ("Test error after the largest budget of steps", "error", ".4f"),
    ):
        rows = [
            [each, *(spread(_last(outcomes, name, algorithm=each, shift=shift, draws=DRAWS[0]),
                            form) for shift in SHIFTS)]
            for each in FITTED
        ]  # fmt: skip
        items.append(Table(title, heads, rows))
    for shift in SHIFTS:
        curves = []
        for title in FITTED:
            chosen = {"algorithm": title, "shift": shift, "draws": DRAWS[0]}
            if found := results(outcomes, "fit", **chosen):
                curves.append(Curve(title, {"steps T": found[0]["steps"]}, found[0]["loss"]))
        if curves:
            name = f"covtype, moved by {shift:g}" if shift else "covtype, as it is"
            items.append(Plot(name, "train log-loss", curves, log_x=True, log_y=True))
    text = (
        "Standardised features, the same constant added to all of them. As the paper states its "
        "algorithms: T steps, each on a row drawn with replacement, at the rate 1/(λt), and for "
        "each T a fit of its own. The dual solver has no rate. Centring of SGD, implicit SGD and "
        "the dual solver (`center=True`) is not in the paper. Curves are those of seed 0."
    )
    return Section("Moved data", text, items)


def _draws(outcomes: Sequence[Outcome]) -> Section:
    budgets = next(where(outcomes, "fit", shift=0.0)).result["steps"]
    rows = []
    for title in SPARSE:
        for draws in DRAWS:
            chosen = {"algorithm": title, "shift": 0.0, "draws": draws}
            found = results(outcomes, "fit", **chosen)
            cells = [spread([r["objective"][k] for r in found], ".5f") for k in range(len(budgets))]
            rows.append([f"{title}, {draws}", *cells])
    heads = ["steps T →", *(f"{budget:,}" for budget in budgets)]
    text = (
        "The objective with the ridge on the intercept, as in the paper, after T steps on rows "
        "drawn with replacement, as the paper draws them, and on permutations of the rows, which "
        "is monro's default."
    )
    return Section("T steps", text, [Table("Objective F after T steps", heads, rows)])


# ---------------------------------------------------------------------------------------- findings


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of log y over log x by least squares: the power that y grows with.

    Examples
    --------
    >>> round(slope([1, 10, 100], [3, 300, 30000]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _growth(outcomes: Sequence[Outcome], title: str, axis: str, **fixed: Any) -> float | None:
    grid = _grid(outcomes, axis, **fixed)
    means = [mean(_microseconds(outcomes, algorithm=title, **{axis: v}, **fixed)) for v in grid]
    pairs = [(v, mean) for v, mean in zip(grid, means, strict=True) if mean is not None]
    return slope(*zip(*pairs, strict=True)) if len(pairs) > 1 else None


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    return [*_cost_findings(outcomes), *_fit_findings(outcomes)]


def _cost_findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    found = []
    for title in (*SPARSE, *DENSE):
        power = _growth(outcomes, title, "features", nonzeros=50)
        if power is None:
            continue
        dense = title in DENSE
        asked = f"at least {STEEP}" if dense else f"at most {FLAT}"
        found.append(
            holds(
                f"{title}: a step's time grows with n to a power of {asked}",
                "O(n) a step" if dense else "O(k) a step",
                f"n^{power:.2f}",
                power >= STEEP if dense else power <= FLAT,
                ""
                if dense
                else "a larger array of weights does not stay in the processor's caches",
            )
        )
    for title in SPARSE:
        power = _growth(outcomes, title, "nonzeros", features=100_000)
        if power is not None:
            claim = f"{title}: a step's time grows with k to a power of at most 1.1"
            found.append(holds(claim, "O(k) a step", f"k^{power:.2f}", power <= 1.1))
    widest = max(_grid(outcomes, "features", nonzeros=50), default=0)
    for title in DENSE:
        size = {"features": widest, "nonzeros": 50}
        pair = title, title.removesuffix(", dense")
        times = [mean(_microseconds(outcomes, algorithm=each, **size)) for each in pair]
        if times[0] and times[1]:
            what = f"{pair[1]}, {widest:,} features, 50 non-zeros: a dense step over a sparse one"
            found.append(measured(what, "–", f"{times[0] / times[1]:,.0f}"))
    apart = [each["apart"] for each in results(outcomes, "cost") if "apart" in each]
    if apart:
        claim = "Both ways give the same weights (largest relative difference at most 1e-8)"
        found.append(holds(claim, "equal", f"{max(apart):.1e}", max(apart) <= 1e-8))
    return found


def _fit_findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    found = []
    for draws in DRAWS:
        mean, last = (
            _last(outcomes, "objective", algorithm=title, shift=0.0, draws=draws)
            for title in ("ASGD", "SGD")
        )
        if mean and last:
            claim = f"The mean iterate has a lower objective than the last, rows {draws}"
            why = "the mean includes the first iterates, after steps of up to 1/λ"
            found.append(below(claim, "“a better choice”", mean, last, form=".5f", because=why))
    for title in FITTED:
        changes = _changes(outcomes, title)
        if not changes:
            continue
        here = f"{max(changes):.1e}"
        claim = f"{title}: largest relative change of the train log-loss of rows moved by {FAR:g}"
        if title == "CASGD":
            true = max(changes) <= EXACT
            found.append(holds(f"{claim}, at most {EXACT:g}", "invariant", here, true))
        elif title in SPARSE:
            true = max(changes) > EXACT
            found.append(holds(f"{claim}, above {EXACT:g}", "sensitive", here, true))
        else:
            found.append(measured(claim, "not in the paper", here))
    return found


def _changes(outcomes: Sequence[Outcome], title: str) -> list[float]:
    """Return the relative changes of the loss of rows that are moved, of all budgets and seeds."""
    found = []
    for seed in SEEDS:
        wanted = {"algorithm": title, "draws": DRAWS[0], "seed": seed}
        here, moved = (only(outcomes, "fit", shift=shift, **wanted) for shift in (0.0, FAR))
        if here is not None and moved is not None:
            pairs = zip(here["loss"], moved["loss"], strict=True)
            found += [math.inf if None in pair else abs(pair[1] / pair[0] - 1.0) for pair in pairs]
    return found


STUDY = Study(
    "sparse-averaging",
    "Sparse averaging",
    "Efficient averaged and centered averaged SGD for sparse data (paper 002)",
    "SGD returns the weights of the last step; their mean over all steps varies less, but a naive "
    "implementation touches every weight in every step, even if a row has only a few non-zeros. "
    "The paper rearranges the sums so that only the non-zeros are touched (ASGD), and does the "
    "same for rows from which the mean is subtracted, without ever storing such a row (CASGD).",
    ("covtype",),
    trials,
    run,
    sections,
    findings,
    setup=(
        "The paper has no experiments: its claims are about costs and equalities. Costs are "
        "measured on random sparse rows, fits on covtype with standardised features, log loss, "
        "λ = 0.01 and the paper's rate 1/(λt).",
    ),
    timed=timed,
)
