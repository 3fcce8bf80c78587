"""Paper 003: implicit SGD in Bottou's package, and what it is robust against.

The paper compares SGD, averaged SGD and implicit SGD on RCV1-CCAT and alpha, by hinge and log loss,
and then varies λ, η0 and the decay. Here alpha is replaced by covtype.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from monro.linear.solvers import SOLVERS
from monro.report.content import Curve, Plot, Section, Table
from monro.studies.cells import MISSING, number, spread
from monro.studies.finding import Finding, alike, below, holds, measured, near
from monro.studies.implicit_sgd_runs import GRIDS, PAPER, PAPER_ROWS, PRINTED, run
from monro.studies.study import Outcome, Study, Trial, results, seconds_alone, seeds, where

COMPARED = ("sgd", "asgd", "implicit", "aisgd", PRINTED)
TUNED = ("sgd", "implicit")
OTHERS = ("sgdqn", "sgdqn-flawed", "casgd")
LOSSES = ("hinge", "log")
TITLES = {"rcv1": "RCV1-CCAT", "covtype": "covtype"}
NAMES = {
    "sgd": "SGD",
    "asgd": "ASGD",
    "implicit": "Implicit, exact",
    "aisgd": "Implicit, averaged",
    PRINTED: "Implicit, as printed",
}


def trials(quick: bool) -> list[Trial]:
    """Return the trials; a trial of robustness fits a model for each value of a grid."""
    size = {"rows": 2_000 if quick else 0, "epochs": 2 if quick else 10}
    shown = [(solver, False) for solver in COMPARED] + [(solver, True) for solver in TUNED]
    found = [
        Trial("table", name, {"loss": loss, "solver": solver, "tuned": tuned, "seed": seed} | size)
        for name, loss in PAPER
        for solver, tuned in shown
        for seed in seeds(quick)
    ]
    for loss in LOSSES:
        for solver in COMPARED[:1] + COMPARED[-1:] if quick else (*COMPARED, *OTHERS):
            for settings in _varied(loss, solver, quick):
                found += [
                    Trial("robustness", "rcv1", settings | {"seed": seed} | size)
                    for seed in seeds(quick)
                ]
    return found


def _varied(loss: str, solver: str, quick: bool) -> list[dict[str, Any]]:
    """Return what is varied for a solver, without an intercept and, for the rate, with one."""
    traits = SOLVERS["implicit" if solver == PRINTED else solver]
    have = {"loss": loss, "solver": solver}
    found = []
    if not traits.centred:  # the centre goes into the intercept
        found += [
            have | {"vary": vary, "intercept": False}
            for vary in GRIDS
            if vary != "decay" or traits.takes_decay
        ]
    if solver != PRINTED and not quick:
        found.append(have | {"vary": "rate", "intercept": True})
    return found


def timed(trial: Trial) -> bool:
    """Return whether the seconds of a trial are compared."""
    return trial.part == "table"


# -------------------------------------------------------------------------------- tables and plots


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the tables and plots of the paper, and a summary of robustness."""
    found = []
    for name, title in TITLES.items():
        items = [_table(outcomes, name, loss) for loss in LOSSES]
        if not any(table.rows for table in items):
            continue
        text = (
            "Test error and cost (mean loss on the test rows plus the ridge). η0 is automatic, "
            "the paper's choice for the printed step, or, where it says so, tuned: the one of "
            "twelve rates with the lowest error on a fifth of the training rows. Seconds are of "
            "the epochs of a fit that ran alone, without the choice of η0; rows and values "
            "(non-zeros) per second count every visit. Beside the paper's seconds are its rows "
            "per second for one visit to "
            "each row: it does not say how many there were, nor how many non-zeros."
        )
        if name == "covtype":
            text = (
                "The paper's figures are those of alpha, 250,000 rows of 500 features; covtype has "
                "464,809 of 54. Its seconds, errors and costs say nothing about covtype's: only "
                "the order of the algorithms can be compared."
            )
        found.append(Section(f"{title}: time, error and cost", text, items))
    if any(where(outcomes, "robustness")):
        found += [_robustness(outcomes), _wrong_rates(outcomes)]
    return found


def _cells(outcomes: Sequence[Outcome], name: str, **wanted: Any) -> list[float | None]:
    """Return a measurement of the table's fits, of all seeds; seconds only if they ran alone."""
    chosen = where(outcomes, "table", **wanted)
    if name == "seconds":
        found = [seconds_alone(each) for each in chosen]
        return [seconds for seconds in found if seconds is not None]
    values = [each.result[name] for each in chosen]
    return _percents(values) if name == "error" else values


def _percents(shares: Sequence[float | None]) -> list[float | None]:
    return [None if share is None else 100.0 * share for share in shares]


def _table(outcomes: Sequence[Outcome], name: str, loss: str) -> Table:
    rows = []
    for solver, tuned in [(each, False) for each in COMPARED] + [(each, True) for each in TUNED]:
        wanted = {"data": name, "loss": loss, "solver": solver, "tuned": tuned}
        found = list(where(outcomes, "table", **wanted))
        if not found:
            continue
        published = PAPER[name, loss].get(solver, (None, None, None)) if not tuned else (None,) * 3
        seconds = _cells(outcomes, "seconds", **wanted)
        per_second = [_per_second(found[0], each) for each in seconds if each]
        theirs = PAPER_ROWS.get(name)
        rows.append(
            [
                NAMES[solver] + (", tuned" if tuned else ""),
                spread(_cells(outcomes, "rate", **wanted), ".3g"),
                spread(seconds, ".3f"),
                number(published[0], ".2f"),
                spread([rate for rate, _ in per_second], ",.3g"),
                number(theirs / published[0] / 1e6, ".2f") if theirs and published[0] else MISSING,
                spread([values for _, values in per_second], ",.3g"),
                spread(_cells(outcomes, "error", **wanted), ".2f"),
                number(published[1], ".2f"),
                spread(_cells(outcomes, "cost", **wanted), ".3f"),
                number(published[2], ".3f"),
            ]
        )  # fmt: skip
    columns = ["algorithm", "η0", "s", "paper", "10⁶ rows/s", "paper, one visit", "10⁶ values/s"]
    columns += ["test error, %", "paper", "cost", "paper"]
    return Table(f"{TITLES[name]}, {loss} loss", columns, rows)


def _per_second(outcome: Outcome, seconds: float) -> tuple[float, float]:
    """Return millions of rows and of values that a fit visited in a second."""
    epochs = outcome.trial.settings["epochs"]
    rows, values = outcome.result["train_rows"], outcome.result["values"]
    return 1e-6 * epochs * rows / seconds, 1e-6 * epochs * values / seconds


_VARIED_PARAMETERS = {
    "alpha": ("the ridge λ", "Regularisation"),
    "rate": ("the initial rate η0", "Learning rate"),
    "decay": ("the decay β", "Decay of the rate"),
}


def _robustness(outcomes: Sequence[Outcome]) -> Section:
    items: list[Table | Plot] = []
    for vary, (what, title) in _VARIED_PARAMETERS.items():
        for loss in LOSSES:
            chosen = where(outcomes, "robustness", vary=vary, loss=loss, intercept=False, seed=0)
            curves = [
                Curve(
                    NAMES.get(o.trial.settings["solver"], o.trial.settings["solver"]),
                    {what: o.result["grid"]},
                    [100.0 * error for error in o.result["error"]],
                )
                for o in chosen
            ]
            if curves:
                items.append(
                    Plot(f"{title}, {loss} loss", "test error, %", curves, log_x=True, log_y=True)
                )
    text = (
        "Test error on RCV1-CCAT after ten epochs with one parameter varied and the others at "
        "their right values (η0 automatic), of seed 0; a fit that diverges counts as 50 %. The "
        "paper's three plots are of the hinge loss after one second of training."
    )
    return Section("Robustness (three plots)", text, items)


def worst_over_best(
    grid: Sequence[float], errors: Sequence[float], low: float, high: float
) -> float:
    """Return the worst error at rates from `low` to `high` times the best one, over the best error.

    Examples
    --------
    >>> grid, errors = [1e-3, 1.0, 10.0, 1e6], [0.3, 0.1, 0.2, 0.5]
    >>> [round(worst_over_best(grid, errors, *ends), 6) for ends in [(1, 1e4), (1e-4, 1)]]
    [2.0, 3.0]
    """
    best = int(np.argmin(errors))
    near_best = [
        error
        for error, rate in zip(errors, grid, strict=True)
        if 0.99 * low <= rate / grid[best] <= 1.01 * high
    ]
    return float(max(near_best) / errors[best])


def _robust(
    outcomes: Sequence[Outcome], loss: str, solver: str, vary: str, intercept: bool = False
) -> list[dict[str, Any]]:
    wanted = {"loss": loss, "solver": solver, "vary": vary, "intercept": intercept}
    return results(outcomes, "robustness", **wanted)


def _worsts(found: Sequence[dict[str, Any]], low: float, high: float) -> list[float | None]:
    return [worst_over_best(each["grid"], each["error"], low, high) for each in found]


def _wrong_rates(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for loss in LOSSES:
        for solver in (*COMPARED, *OTHERS):
            for intercept in (False, True):
                found = _robust(outcomes, loss, solver, "rate", intercept)
                if not found:
                    continue
                best = [min(each["error"]) for each in found]
                at = [each["grid"][int(np.argmin(each["error"]))] for each in found]
                auto = [each["auto"] for each in found]
                rows.append(
                    [
                        f"{solver}, {loss}, {'with' if intercept else 'no'} bias",
                        spread(at, ".2g"),
                        spread([100.0 * each for each in best], ".2f"),
                        spread(_percents(auto), ".2f"),
                        spread(_worsts(found, 1e-4, 1.0), ".2f"),
                        spread(_worsts(found, 1e-2, 1.0), ".2f"),
                        spread(_worsts(found, 1.0, 1e2), ".2f"),
                        spread(_worsts(found, 1.0, 1e4), ".2f"),
                    ]
                )
    columns = ["solver", "best η0", "error, %", "automatic, %"]
    columns += ["down to 10⁻⁴", "down to 10⁻²", "up to 10²", "up to 10⁴"]
    text = (
        "Test error at the best rate of the grid from 10⁻⁴ to 10⁷ and at the automatic rate; then "
        "the worst error at rates down to 10⁻⁴ or up to 10⁴ times the best (as far as the grid "
        "goes), over the best error."
    )
    return Section("A wrong learning rate, in figures", text, [Table("RCV1-CCAT", columns, rows)])


# ---------------------------------------------------------------------------------------- findings

_SMALLER = "RCV1 has 14,401 training rows here, not 781,265"
_OTHER = "covtype replaces alpha"
_ALIKE = {"seconds": 0.1, "error": 0.05}  # what counts as "on par"


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    found = []
    for (name, loss), published in PAPER.items():
        found += _table_findings(outcomes, name, loss, published)
    return [*found, *_robustness_findings(outcomes)]


def _table_findings(
    outcomes: Sequence[Outcome], name: str, loss: str, published: dict[str, Any]
) -> list[Finding]:
    place = f"{TITLES[name]}, {loss} loss"
    found = []
    for column, what, form in ((0, "seconds", ".3f"), (1, "error", ".2f"), (2, "cost", ".3f")):
        have = {
            solver: _cells(outcomes, what, data=name, loss=loss, solver=solver, tuned=False)
            for solver in published
        }
        for other in ("sgd", "asgd"):
            if not (have[PRINTED] and have[other]):
                continue
            low, high = PRINTED, other
            if published[low][column] > published[high][column]:
                low, high = other, PRINTED
            paper = f"{published[low][column]:g} and {published[high][column]:g}"
            claim = f"{place}, {what}: {NAMES[low]} is {{}} {NAMES[high]}"
            given: dict[str, Any] = {"form": form, "because": _OTHER if name == "covtype" else ""}
            # The paper says so of alpha: as fast as ASGD, and its error on par.
            if name == "covtype" and other == "asgd" and what in _ALIKE:
                claim, within = claim.format("like"), _ALIKE[what]
                found.append(alike(claim, paper, have[low], have[high], within=within, **given))
            else:
                found.append(
                    below(claim.format("lower than"), paper, have[low], have[high], **given)
                )
        for tuned in (False, True):
            wanted = {"data": name, "loss": loss, "tuned": tuned}
            pair = [_cells(outcomes, what, solver=solver, **wanted) for solver in TUNED]
            if all(pair):
                rates = "tuned rates" if tuned else "automatic rates"
                claim = f"{place}, {what}: SGD and implicit (exact), {rates}"
                here = f"{spread(pair[0], form)} and {spread(pair[1], form)}"
                found.append(measured(claim, "not in the paper", here))
        if name == "rcv1" and what != "seconds":
            found += [
                near(f"{place}, {what} of {NAMES[solver]}", published[solver][column],
                     have[solver], within=0.1, form=form, because=_SMALLER)
                for solver in published
                if have[solver]
            ]  # fmt: skip
    return found


def _robustness_findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    found = []
    for loss in LOSSES:
        of_hinge = "" if loss == "hinge" else ", for the hinge"
        for solver in (PRINTED, "implicit"):
            for other, degree in (("sgd", "dramatically lower"), ("asgd", "slightly lower")):
                pair = [
                    [_mean_of_weak(each) for each in _robust(outcomes, loss, name, "alpha")]
                    for name in (solver, other)
                ]
                if all(pair):
                    claim = (
                        f"{loss}: mean error over λ ≤ 10⁻⁴, {NAMES[solver]} below {NAMES[other]}"
                    )
                    found.append(below(claim, degree + of_hinge, *pair))
            for first, second in ((solver, "sgd"), ("asgd", solver)):
                worst = [
                    _worsts(_robust(outcomes, loss, name, "decay"), 0.0, np.inf)
                    for name in (first, second)
                ]
                if all(worst):
                    claim = f"{loss}: worst over best error while the decay varies, {NAMES[first]} "
                    claim += f"below {NAMES[second]}"
                    found.append(below(claim, "more robust" + of_hinge, *worst, form=".3f"))
        found += _rate_findings(outcomes, loss, of_hinge)
    return found


def _mean_of_weak(result: dict[str, Any]) -> float:
    """Return the mean error over the ridges that the paper calls close to the recommended one."""
    pairs = zip(result["grid"], result["error"], strict=True)
    return float(np.mean([error for alpha, error in pairs if alpha <= 1.01e-4]))


def _rate_findings(outcomes: Sequence[Outcome], loss: str, of_hinge: str) -> list[Finding]:
    found = []
    three = [_robust(outcomes, loss, solver, "rate") for solver in ("sgd", "asgd", PRINTED)]
    if all(three):
        worst = [_worsts(each, 0.1, 10.0) for each in three]
        largest = max(value for each in worst for value in each if value is not None)
        claim = (
            f"{loss}: at a tenth to ten times their best η0, SGD, ASGD and Implicit (as printed) "
        )
        claim += f"lose at most {100 * _ALIKE['error']:g} % of their best error"
        here = ", ".join(spread(each, ".3f") for each in worst)
        paper = f"no significant differences: 5.22 to 5.29 %{of_hinge}"
        found.append(holds(claim, paper, here, largest <= 1.0 + _ALIKE["error"]))
    for solver in COMPARED:
        if have := _robust(outcomes, loss, solver, "rate"):
            what = f"{loss}: worst error at 10⁻⁴ to 10⁴ times the best η0 over the best, "
            here = spread(_worsts(have, 1e-4, 1e4), ".2f")
            found.append(measured(what + NAMES[solver], MISSING, here))
    return found


STUDY = Study(
    "implicit-sgd",
    "Implicit SGD",
    "Petcher, Sim, Liu, Sclar and Ramani, Statistics 221 final project (C++ team), 2013",
    "An ordinary step follows the gradient at the point where it starts, and overshoots if the "
    "rate is too large. An implicit step uses the gradient at the point where it ends, and cannot "
    "overshoot. The paper adds such steps to Bottou's package and compares time, error and "
    "robustness with SGD and averaged SGD.",
    tuple(TITLES),
    trials,
    run,
    sections,
    findings,
    setup=(
        "RCV1-CCAT has 14,401 training rows here and 781,265 in the paper. The paper does not say "
        "how many epochs it took; here there are ten.",
        "covtype (464,809 rows of 54 features) replaces alpha (250,000 rows of 500).",
        "“As printed” is the paper's own step: for the hinge no step is taken if it would cross "
        "the kink, and for log loss there is no ridge. “Exact” is the solution of the implicit "
        "equation, ridge included. No model of the tables has a bias, as in the paper.",
        "The paper's plots of robustness are of the hinge loss after one second of training; here "
        "they are after ten epochs.",
    ),
    timed=timed,
)
