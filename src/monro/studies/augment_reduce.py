"""Paper 001: augment and reduce. Its synthetic classes (§4.1), its Tables 1 to 3 and its Figure 2.

Settings and steps are the paper's for every method. Likelihoods are exact, for probit and logistic
by quadrature.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from monro.report.content import Curve, Plot, Section, Table
from monro.studies.augment_reduce_paper import (
    METRICS,
    OTHER_DATA,
    OTHER_STEPS,
    PAPER_BOUND,
    PAPER_EPOCH,
    PAPER_ERROR,
    name_of,
    published_figure,
)
from monro.studies.augment_reduce_runs import (
    EXACT,
    METHODS,
    PRINTED,
    SETTINGS,
    TITLES,
    is_timed,
    methods,
    run,
    trials,
)
from monro.studies.cells import mean, number, ratio, spread
from monro.studies.finding import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNCLEAR,
    Finding,
    Values,
    alike,
    below,
    holds,
    measured,
    near,
)
from monro.studies.study import Outcome, Study, only, results, seconds_alone, where

WITHIN = 0.05  # of a published figure
SYNTHETIC = "no features (section 4.1)"


def _values(
    outcomes: Sequence[Outcome], what: str, *, times: float = 1.0, **wanted: Any
) -> list[float | None]:
    """Return a multiple of a figure of Table 3 for each seed; None for one that diverged."""
    found = [result[what] for result in results(outcomes, "table 3", **wanted)]
    return _scaled(found, times)


def _scaled(values: Values, times: float) -> list[float | None]:
    return [None if value is None else times * value for value in values]


# -------------------------------------------------------------------------------- tables and plots


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the tables and the figure of the paper."""
    makers = {
        "section 4.1": _synthetic,
        "table 1": _sizes,
        "table 2": _times,
        "table 3": _predictive,
    }
    found = [make(outcomes) for part, make in makers.items() if any(where(outcomes, part))]
    return found + ([_bounds(outcomes)] if any(where(outcomes, "table 3")) else [])


def _synthetic(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for method in METHODS[:2]:
        found = results(outcomes, "section 4.1", method=method)
        if not found:
            continue
        rows.append(
            [
                name_of(method),
                spread([one["rows"] * one["final_bound"] for one in found], ".4g"),
                f"{PAPER_BOUND[method]:.3g}",
                spread([one["log_likelihood"] for one in found], ".6g"),
                f"{found[0]['maximum']:.6g}",
                spread([one["mean_error"] for one in found], ".2e"),
                f"{PAPER_ERROR[method]:.2e}",
            ]
        )
    columns = ["method", "bound", "paper", "log-likelihood", "its maximum", "error of p", "paper"]
    text = (
        "300,000 draws from 10,000 classes, of which those that occur are kept. There are no "
        "features: only the probabilities of classes are learnt. Bounds and likelihoods are sums "
        "over all draws, after 500,000 steps."
    )
    return Section(
        "Ten thousand classes (section 4.1)", text, [Table("No features", columns, rows)]
    )


def _sizes(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for outcome in where(outcomes, "table 1"):
        name, ours = outcome.trial.data, outcome.result
        *sizes, batch, drawn, iterations = SETTINGS[name]
        cells = [TITLES[name]]
        for what, paper in zip(("train", "test", "features", "classes"), sizes, strict=True):
            cells.append(f"{ours[what]:,}" + (f" ({paper:,})" if ours[what] != paper else ""))
        rows.append([*cells, f"{batch}", f"{drawn}", f"{iterations:,}"])
    columns = ["data", "train", "test", "features", "classes", "|B|", "|S|", "iterations"]
    text = "The paper's number is in brackets where it differs."
    return Section("Data and settings (Table 1)", text, [Table("Data", columns, rows)])


def _epoch_seconds(outcomes: Sequence[Outcome], name: str, method: str) -> list[float]:
    """Return the seconds an epoch of each seed; none if other trials ran at the same time."""
    found = where(outcomes, "table 2", data=name, method=method)
    seconds = [seconds_alone(outcome, "seconds_per_epoch") for outcome in found]
    return [one for one in seconds if one is not None]


def _times(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for name, title in ({"": SYNTHETIC} | TITLES).items():
        cells = [title]
        for method, paper in zip(METHODS, PAPER_EPOCH[name], strict=True):
            ours = _epoch_seconds(outcomes, name, method)
            cells += [spread(ours, ".3f"), number(paper, ".3g"), ratio(paper, mean(ours), ".1f")]
        if any(where(outcomes, "table 2", data=name)):
            rows.append(cells)
    columns = ["seconds an epoch"]
    for method in METHODS:
        columns += [name_of(method), "paper", "paper / ours"]
    text = (
        "The median of seven epochs, on one thread, of a fit that ran alone. The paper does not "
        "name its machine: read its ratios to ours as orders of magnitude."
    )
    return Section("Time (Table 2)", text, [Table("Median seconds an epoch", columns, rows)])


def _predictive(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for name, title in TITLES.items():
        for method in methods(name):
            wanted: dict[str, Any] = {"data": name, "method": method}
            found = results(outcomes, "table 3", **wanted)
            if not found:
                continue
            errors = [one["sampling_error"] for one in found if "sampling_error" in one]
            accuracy = published_figure(name, method, "accuracy")
            rows.append(
                [
                    f"{title}, {name_of(method)}",
                    spread(_values(outcomes, "log_likelihood", **wanted), ".3f"),
                    number(published_figure(name, method, "log_likelihood"), ".3f"),
                    spread(_values(outcomes, "accuracy", times=100.0, **wanted), ".1f"),
                    number(None if accuracy is None else 100.0 * accuracy, ".1f"),
                    spread(errors, ".3f"),
                ]
            )
    columns = ["data, method", "test log-lik.", "paper", "accuracy, %", "paper", "by 1,000 draws"]
    note = (
        "“As printed” takes the paper's local steps of size 0.01 (1 + t)^-0.9, the other rows of "
        "probit and logistic natural-gradient steps. Log-likelihoods are exact; “by 1,000 draws” "
        "is the error that the paper's importance sampler of probit and logistic noise makes on "
        "the first 500 test rows, with draws of its own for each row."
    )
    text = "All methods take as many steps as in the paper, on batches of the same size."
    return Section("Prediction (Table 3)", text, [Table("Test rows", columns, rows, note)])


def _bounds(outcomes: Sequence[Outcome]) -> Section:
    plots = []
    for name, title in TITLES.items():
        curves = []
        for method in ("OVE", "softmax"):
            result = only(outcomes, "table 3", data=name, method=method)
            if result is None:
                continue
            x = {"epochs": result["epochs"]}
            seconds = mean(_epoch_seconds(outcomes, name, method))
            if seconds is not None:
                x["seconds"] = [seconds * epoch for epoch in result["epochs"]]
            curves.append(Curve(name_of(method), x, result["bound"]))
        exact = only(outcomes, "table 3", data=name, method=EXACT)
        if exact is not None and curves:
            ends = {axis: [0.0, max(values)] for axis, values in curves[0].x.items()}
            curves.append(Curve(f"likelihood of {EXACT}", ends, [exact["final_bound"]] * 2))
        if curves:
            plots.append(Plot(f"{title}: bound on the training likelihood", "nats a row", curves))
    text = (
        "The bound that each method maximises, on the training rows: unbiased estimates from the "
        "steps of the first seed. Seconds are epochs times the seconds an epoch of Table 2. The "
        "likelihood of the exact softmax is that after its fit."
    )
    return Section("Bounds (Figure 2)", text, plots)


# ----------------------------------------------------------------------------------------- findings


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    found = _about_synthetic(outcomes)
    for name in TITLES:
        found += _about_bounds(outcomes, name)
        found += _about_prediction(outcomes, name)
    return found + _about_times(outcomes)


def _about_synthetic(outcomes: Sequence[Outcome]) -> list[Finding]:
    found = {method: results(outcomes, "section 4.1", method=method) for method in METHODS[:2]}
    if not all(found.values()):
        return []
    bounds = {m: [one["rows"] * one["final_bound"] for one in f] for m, f in found.items()}
    errors = {m: [one["mean_error"] for one in f] for m, f in found.items()}
    rows = []
    for method in METHODS[:2]:
        what, paper = f"10,000 classes, {name_of(method)}", PAPER_BOUND[method]
        rows.append(near(f"{what}: bound", paper, bounds[method], within=WITHIN, form=".3g"))
        paper, why = PAPER_ERROR[method], "the labels are other random draws"
        values = errors[method]
        claim = f"{what}: mean absolute error of p"
        rows.append(near(claim, paper, values, within=0.1, form=".2e", because=why))
    times = min(o / s for o in bounds["OVE"] for s in bounds["softmax"])
    rows.append(
        holds(
            "10,000 classes: A&R's bound is tighter by orders of magnitude (at least 100 times)",
            f"{PAPER_BOUND['OVE'] / PAPER_BOUND['softmax']:.0f} times",
            f"{times:.0f} times",
            times >= 100.0,
        )
    )
    claim = "10,000 classes: A&R and OVE estimate similar probabilities: mean errors"
    pair = errors["softmax"], errors["OVE"]
    rows.append(alike(claim, "3.00e-06 and 3.65e-06", *pair, within=0.25, form=".2e"))
    return rows


def _about_bounds(outcomes: Sequence[Outcome], name: str) -> list[Finding]:
    """Return the claims about Figure 2, of the bounds at the end of the fits."""
    title = TITLES[name]
    losses = {
        method: _values(outcomes, "final_bound", times=-1.0, data=name, method=method)
        for method in ("OVE", "softmax", EXACT)
    }
    rows = []
    reduce, ove, exact = losses["softmax"], losses["OVE"], losses[EXACT]
    rises = [
        one["final_bound"] - one["bound"][0]
        for one in results(outcomes, "table 3", data=name, method="softmax")
        if one["final_bound"] is not None
    ]
    if reduce and ove and name == "bibtex":
        claim = f"{title}: A&R's bound is close to that of OVE"
        rows.append(_close(claim, "close", reduce, ove, rises))
    elif reduce and ove:
        claim = f"{title}: A&R's bound is tighter than that of OVE: negative bounds"
        rows.append(below(claim, "tighter", reduce, ove))
    if reduce and exact:
        claim = f"{title}: A&R's bound nearly reaches the likelihood of exact softmax"
        rows.append(_close(claim, "nearly", reduce, exact, rises))
    return rows


def _close(
    claim: str, paper: str, losses: Values, others: Values, rises: Sequence[float]
) -> Finding:
    """Compare the ends of two curves on the scale of their figure."""
    both = [one for one in (*losses, *others) if one is not None]
    complete = len(both) == len(losses) + len(others)
    apart = max(both) - min(both) if complete else math.inf
    return holds(
        f"{claim}: negative bounds (apart by {100 * WITHIN:g} % of the rise of A&R's at most)",
        paper,
        f"{spread(losses)} and {spread(others)}",
        apart <= WITHIN * min(rises, default=0.0),
    )


def _about_prediction(outcomes: Sequence[Outcome], name: str) -> list[Finding]:
    """Return the published figures of Table 3 and the claims about them."""
    title, rows = TITLES[name], []
    for what, label in METRICS.items():
        values = {
            method: _values(outcomes, what, data=name, method=method) for method in methods(name)
        }
        published = {
            method: paper
            for method in methods(name)
            if values[method] and (paper := published_figure(name, method, what)) is not None
        }
        for method, paper in published.items():
            claim = f"{title}, {name_of(method)}: {label}"
            why = OTHER_STEPS if method.endswith(PRINTED) else OTHER_DATA[name]
            rows.append(near(claim, paper, values[method], within=WITHIN, form=".3f", because=why))
        if {"softmax", "OVE"} <= set(published):
            claim = f"{title}: A&R has a higher {label} than OVE"
            paper_text = f"{published['softmax']:.3f} and {published['OVE']:.3f}"
            rows.append(_above(claim, paper_text, values["softmax"], values["OVE"]))
        if len(published) > 2:
            rows.append(_order(f"{title}: order of the methods by {label}", published, values))
    return rows


def _above(claim: str, paper: str, higher: Values, lower: Values) -> Finding:
    found = below(claim, paper, _scaled(higher, -1.0), _scaled(lower, -1.0))
    return found._replace(here=f"{spread(higher, '.3f')} and {spread(lower, '.3f')}")


def _order(
    claim: str, published: dict[str, float], values: Mapping[str, Sequence[float | None]]
) -> Finding:
    """Compare the order of the methods, best first, in the paper and for each seed."""

    def ordered(figures: Mapping[str, float | None]) -> str:
        def worse(method: str) -> float:
            figure = figures[method]
            return math.inf if figure is None else -figure

        return " > ".join(map(name_of, sorted(figures, key=worse)))

    paper = ordered(published)
    n = min(len(values[method]) for method in published)
    ours = [ordered({method: values[method][seed] for method in published}) for seed in range(n)]
    same = sum(one == paper for one in ours)
    verdict = {0: NOT_REPRODUCED, n: REPRODUCED}.get(same, UNCLEAR)
    return Finding(claim, paper, "; or ".join(dict.fromkeys(ours)), verdict)


def _about_times(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims about Table 2, and its seconds as they were measured."""
    rows = []
    for name, title in ({"": SYNTHETIC} | TITLES).items():
        seconds = {method: _epoch_seconds(outcomes, name, method) for method in METHODS}
        paper = dict(zip(METHODS, PAPER_EPOCH[name], strict=True))
        for method, ours in seconds.items():
            if ours:
                what = f"{title}, {name_of(method)}: seconds an epoch"
                rows.append(measured(what, number(paper[method], ".3g"), spread(ours, ".3f")))
        if seconds["softmax"] and seconds["OVE"]:
            reduce, ove = seconds["softmax"], seconds["OVE"]
            rows.append(
                holds(
                    f"{title}: A&R is nearly as fast as OVE (10 % slower at most): seconds",
                    f"{paper['softmax']:.3g} and {paper['OVE']:.3g}",
                    f"{spread(reduce, '.3f')} and {spread(ove, '.3f')}",
                    max(reduce) <= 1.1 * min(ove),
                )
            )
        for method in METHODS[2:]:
            if seconds["softmax"] and seconds[method]:
                claim = f"{title}: A&R takes longer for {method} than for softmax: seconds"
                pair = f"{paper['softmax']:.3g} and {paper[method]:.3g}"
                times = seconds["softmax"], seconds[method]
                rows.append(below(claim, pair, *times, form=".3f"))
    return rows


STUDY = Study(
    "augment-reduce",
    "Augment and reduce",
    "Ruiz, Titsias, Dieng and Blei, Augment and reduce: stochastic inference for large categorical "
    "distributions, 2018",
    "The class whose score plus a random error is largest is chosen: Gumbel errors give a softmax, "
    "Gaussian errors a multinomial probit, logistic errors a multinomial logistic model. The paper "
    "keeps the error of the chosen class as a variable (augment); given it, the classes are "
    "independent, and a few of them are enough for a step (reduce). One-vs-each (OVE) and the "
    "exact softmax start from the same random weights and take the same adaptive steps.",
    tuple(TITLES),
    trials,
    run,
    sections,
    findings,
    (
        "EURLex-4K and AmazonCat-13K were not run: their files were not available.",
        "Bibtex is split into other training and test rows than in the paper; test rows whose "
        "label no training row has are left out. It has more parameters than training rows.",
        "The images of Omniglot were resized to 28 x 28 pixels by area averaging; of the twenty "
        "drawings of a character the first sixteen are training rows. The paper does not say how.",
        "The labels of section 4.1 are other random draws, so that another number of classes "
        "occurs.",
        "A step draws one class from each of |S| equal strata of the classes, where the paper "
        "draws |S| of all. In the sizes of local steps t counts the epochs. Seeds change the "
        "initial weights, the batches and the classes drawn.",
    ),
    is_timed,
)
