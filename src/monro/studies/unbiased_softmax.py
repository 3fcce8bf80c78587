"""Paper 000: unbiased softmax by double sums. Its methods and settings, with exact evaluation.

Settings of section 4.1: rows of unit length, first label, no intercept, initial weights zero, 50
epochs in the order of the file, η0 of Table 2, × 0.9 after each epoch; one class per step for
Implicit, five for U-max and vanilla SGD (as in the authors' code), 100 examples and 5 classes for
the biased methods. Every loss is the exact log-loss of the full softmax in float64, on the training
rows.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from monro import SoftmaxClassifier
from monro.report.content import Curve, Plot, Section, Table
from monro.studies import data, nextword
from monro.studies.cells import MISSING, last, number, percent, ratio
from monro.studies.finding import Finding, measured
from monro.studies.monitoring import fit_monitored
from monro.studies.study import Outcome, Study, Tick, Trial, only, where

TITLES = {
    "mnist": "MNIST",
    "bibtex": "Bibtex",
    "delicious": "Delicious",
    "rcv1-topics": "RCV1 topics",
    "wikitext2": "WikiText-2, next word",
}
METHODS: dict[str, dict[str, Any]] = {
    "OVE": {"solver": "ove"},
    "NCE": {"solver": "nce", "sampling": "uniform"},
    "IS": {"solver": "importance", "sampling": "uniform"},
    "vanilla": {"solver": "vanilla", "sampling": "uniform", "classes_per_step": 5},
    "SCO": {"solver": "sco", "sampling": "uniform", "classes_per_step": 5},
    "U-max": {"solver": "umax", "sampling": "uniform", "classes_per_step": 5},
    "Implicit": {"solver": "implicit", "sampling": "uniform", "classes_per_step": 1},
}
TUNED = [method for method in METHODS if method != "SCO"]  # SCO takes vanilla's rates
STEPS_3 = "Implicit, 3 steps"  # per example and epoch, as in the paper's Table 3
OURS = "monro"
DIFFERENCE, RAMAN = "eq. 6", "Raman et al."
PAPER_SETTINGS = {
    "init": "zero",
    "formulation": "auto",
    "epoch_decay": 0.9,
    "fit_intercept": False,
    "shuffle": False,
    "random_state": 0,
}
GRID = [10.0**k for k in range(-3, 4)]

# ------------------------------------------------------------------------------- published figures

TABLE_1 = {  # classes, features, examples
    "mnist": (10, 780, 60_000),
    "bibtex": (147, 1_836, 4_880),
    "delicious": (350, 500, 12_920),
}
TABLE_2 = {  # in the order of METHODS without SCO
    "mnist": [10, 10, 10, 0.01, 10, 0.1],
    "bibtex": [100, 100, 100, 0.01, 0.1, 10],
    "delicious": [10, 1000, 1000, 0.001, 0.01, 0.01],
}
TABLE_3 = {  # log-loss over Implicit's
    "mnist": {"OVE": 5.73, "NCE": 6.05, "IS": 5.74, "vanilla": 1.43, "U-max": 1.56},
    "bibtex": {"OVE": 29.03, "NCE": 28.52, "IS": 32.71, "vanilla": 15.18, "U-max": 9.77},
    "delicious": {"OVE": 1.90, "NCE": 1.91, "IS": 1.89, "vanilla": 1.25, "U-max": 1.11},
}
AUTHORS = {  # log-losses in the result files that the authors published later
    "mnist": {"U-max": 0.4144, "Implicit": 0.2954, STEPS_3: 0.2708},
    "bibtex": {"U-max": 1.4144, "Implicit": 0.3330, STEPS_3: 0.1451},
    "delicious": {"U-max": 3.3067, "Implicit": 3.2033, STEPS_3: 2.9794},
}
# For data sets that the paper does not have: the rates that its protocol finds (Table 2's trials).
FOUND = {
    "rcv1-topics": [100, 1000, 1000, 0.01, 10, 1000],
    # Vanilla SGD overflows at all rates of the grid; the paper has a smaller one for its largest
    # data sets.
    "wikitext2": [0.01, 1, 100, 0.0001, 0.001, 0.001],
}
RATES = TABLE_2 | FOUND


def rate_of(name: str, method: str) -> float:
    """Return the learning rate of a method on a data set."""
    method = {"SCO": "vanilla", STEPS_3: "Implicit"}.get(method, method)
    return float(RATES[name][TUNED.index(method)])


# ------------------------------------------------------------------------------------------- trials


def trials(quick: bool) -> list[Trial]:
    """Return the trials; the two million rows of WikiText-2 get 10 epochs, not 50."""
    sets = ["bibtex"] if quick else list(TITLES)
    found = [Trial("table 1", name, {}) for name in sets]
    for name in sets:
        epochs, points = (2, 2) if quick else (10, 10) if name == "wikitext2" else (50, 10)
        fits = {"epochs": epochs, "points": points}
        tuning = {"epochs": epochs, "points": 1, "share": 0.1}
        grid = [0.1, 10.0] if quick else GRID
        found += [
            Trial("table 2", name, {"method": method, "rate": rate} | tuning)
            for method in TUNED
            for rate in grid
        ]
        for method in [*METHODS, STEPS_3]:
            found.append(
                Trial("table 3", name, {"method": method, "rate": rate_of(name, method)} | fits)
            )
        found.append(Trial("table 3", name, {"method": OURS, "rate": "auto"} | fits))
    # Bibtex replaces Eurlex, which was not available.
    fits = {"epochs": 2, "points": 2} if quick else {"epochs": 50, "points": 10}
    rates = [1.0] if quick else [1e-4, *GRID]
    found += [
        Trial("figure 2", "bibtex", {"method": "U-max", "sum": form, "rate": rate} | fits)
        for form in (DIFFERENCE, RAMAN)
        for rate in rates
    ]
    found += [
        Trial("figure 3", "bibtex", {"method": method, "rate": rate} | fits)
        for method in [*METHODS, "NCE, n = m = 1", OURS]
        for rate in ([1.0] if quick else GRID)
    ]
    return found


def settings_of(trial: Trial) -> dict[str, Any]:
    """Return the parameters of a trial's classifier."""
    have = trial.settings
    method, rate, epochs = have["method"], have["rate"], have["epochs"]
    common = {"max_epochs": epochs, "learning_rate": rate}
    if method == OURS:
        return common | {"random_state": 0}
    if method == STEPS_3:
        again = {"max_epochs": 3 * epochs, "epoch_decay": 0.9 ** (1 / 3)}
        return PAPER_SETTINGS | METHODS["Implicit"] | common | again
    if method == "NCE, n = m = 1":
        single = {"examples_per_step": 1, "classes_per_step": 1}
        return PAPER_SETTINGS | METHODS["NCE"] | common | single
    form = {DIFFERENCE: "difference", RAMAN: "raman"}.get(have.get("sum", ""), "auto")
    return PAPER_SETTINGS | METHODS[method] | common | {"formulation": form}


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Fit one model; return the curve of its log-loss."""
    if trial.data == "wikitext2":
        X, y = data.next_word()
    else:
        X, y = data.LOADERS[trial.data]()[:2]
    if "share" in trial.settings:
        rng = np.random.default_rng(0)
        some = np.sort(rng.choice(y.size, round(trial.settings["share"] * y.size), replace=False))
        X, y = X[some], y[some]
    if trial.part == "table 1":
        found = {"classes": int(np.unique(y).size), "features": X.shape[1], "examples": y.size}
        if trial.data == "wikitext2":
            found |= dict(zip(("unigram", "optimum"), nextword.bounds(X, y), strict=True))
        return found

    def measure(model: Any) -> dict[str, float]:
        if trial.data == "wikitext2":  # two million rows, 4,096 of them distinct
            codes = np.searchsorted(model.classes_, y)
            return {"log_loss": nextword.log_loss(model._fitted.weights, X, codes)}
        measures = model.evaluate(X, y)
        return {"log_loss": measures["log_loss"], "error": measures["error"]}

    model = SoftmaxClassifier(**settings_of(trial))
    curve = fit_monitored(model, measure, tick, X, y, points=trial.settings["points"])
    if trial.settings["method"] == STEPS_3:
        curve["epochs"] = [epoch / 3 for epoch in curve["epochs"]]
    return curve | {"rate": getattr(model, "learning_rate_", trial.settings["rate"])}


# -------------------------------------------------------------------------------- tables and plots


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the tables and figures of the paper."""
    sets = [name for name in TITLES if any(where(outcomes, "table 3", data=name))]
    losses = [_losses(outcomes, name) for name in sets]
    found = [_sizes(outcomes), _rates(outcomes), *losses]
    if any(where(outcomes, "figure 2")):
        found.append(_figure_2(outcomes))
    if any(where(outcomes, "figure 3")):
        found.append(_figure_3(outcomes))
    return found


def _sizes(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for outcome in where(outcomes, "table 1"):
        ours, paper = outcome.result, TABLE_1.get(outcome.trial.data)
        cells = [TITLES[outcome.trial.data]]
        for k, what in enumerate(("classes", "features", "examples")):
            cells += [f"{ours[what]:,}", f"{paper[k]:,}" if paper else MISSING]
        rows.append(cells)
    columns = ["data", *(w for x in ("classes", "features", "examples") for w in (x, "paper"))]
    text = (
        "Of several labels the lowest is taken. Where the paper counts one class more or less, it "
        "has another split of the same rows. RCV1 topics and WikiText-2 are not in the paper; "
        "Eurlex, AmazonCat, Wiki10 and Wiki-small were not available."
    )
    return Section("Data (Table 1)", text, [Table("Sizes", columns, rows)])


def _rates(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for name, title in TITLES.items():
        cells = [title]
        for method in TUNED:
            tried = {
                o.trial.settings["rate"]: last(o.result, "log_loss")
                for o in where(outcomes, "table 2", data=name, method=method)
            }
            finite = {rate: loss for rate, loss in tried.items() if loss is not None}
            best = f"{min(finite, key=lambda rate: finite[rate]):g}" if finite else MISSING
            paper = TABLE_2.get(name)
            cells.append(f"{best} ({paper[TUNED.index(method)]:g})" if paper else best)
        if any(where(outcomes, "table 2", data=name)):
            rows.append(cells)
    text = (
        "The paper's protocol: on a tenth of the rows each method tries the rates 0.001 to 1000, "
        "and the one with the lowest log-loss after all epochs is taken. The paper's choice is in "
        "brackets; the fits below use it, or ours if there is none."
    )
    note = "monro's default has no rate to tune."
    return Section(
        "Learning rates (Table 2)", text, [Table("Best rates", ["data", *TUNED], rows, note)]
    )


def _losses(outcomes: Sequence[Outcome], name: str) -> Section:
    methods = [*METHODS, STEPS_3, OURS]
    results = {m: only(outcomes, "table 3", data=name, method=m) for m in methods}
    base = last(results[STEPS_3], "log_loss")
    rows = []
    for method, result in results.items():
        if result is None:
            continue
        loss = last(result, "log_loss")
        published = {STEPS_3: 1.0}.get(method, TABLE_3.get(name, {}).get(method))
        rows.append(
            [
                method,
                f"{result['rate']:.3g}",
                number(loss, missing="diverged"),
                number(AUTHORS.get(name, {}).get(method)),
                ratio(loss, base),
                number(published if name in TABLE_3 else None, ".2f"),
                percent(last(result, "error")),
                number(last(result, "seconds"), ".2f"),
            ]
        )
    columns = ["method", "η0", "log-loss", "authors' files", "ratio", "Table 3", "error, %", "s"]
    note = (
        "Ratio: log-loss over that of Implicit with three steps per example and epoch, which is "
        "the denominator of the paper's Table 3. The published ratios of OVE, NCE and IS cannot be "
        "compared: the authors' evaluation applied the softmax twice."
    )
    plot = Plot(
        f"{TITLES[name]}: log-loss while training (Figure 1)",
        "log-loss",
        [
            _curve(method, result)
            for method, result in results.items()
            if result and method != "SCO"
        ],
        log_y=True,
    )
    text = ""
    sizes = only(outcomes, "table 1", data=name)
    if sizes and "optimum" in sizes:
        text = (
            f"The log-loss of the frequencies of words is {sizes['unigram']:.4f}, that of the best "
            f"model with these features {sizes['optimum']:.4f}. Ten epochs of two million steps, "
            "× 0.9 after each as before."
        )
    return Section(
        f"{TITLES[name]} (Table 3, Figure 1)",
        text,
        [Table(f"{TITLES[name]} after training", columns, rows, note), plot],
    )


def _curve(name: str, result: dict[str, Any], group: str = "") -> Curve:
    x = {"epochs": result["epochs"], "seconds": result["seconds"]}
    return Curve(name, x, result.get("log_loss", []), group)


def _by_rate(found: Iterable[Outcome]) -> dict[float, float | None]:
    return {o.trial.settings["rate"]: last(o.result, "log_loss") for o in found}


def _grid(title: str, named: dict[str, dict[float, float | None]]) -> Table:
    rates = sorted({rate for row in named.values() for rate in row})
    rows = [
        [name, *(number(row[r], ".3g", missing="diverged") if r in row else MISSING for r in rates)]
        for name, row in named.items()
    ]
    return Table(title, ["log-loss for η0 →", *(f"{rate:g}" for rate in rates)], rows)


def _figure_2(outcomes: Sequence[Outcome]) -> Section:
    named = {form: _by_rate(where(outcomes, "figure 2", sum=form)) for form in (DIFFERENCE, RAMAN)}
    curves = [
        _curve(f"{form}, {o.trial.settings['rate']:g}", o.result, form)
        for form in (DIFFERENCE, RAMAN)
        for o in where(outcomes, "figure 2", sum=form)
        if o.trial.settings["rate"] <= 1.0
    ]
    text = (
        "The softmax can be written as a double sum in two ways: with differences of scores, as "
        "the paper proposes, or with scores, as Raman et al. do. The paper claims that its own "
        "form has smaller gradients and so learns faster with U-max."
    )
    plot = Plot("U-max with both sums, by η0", "log-loss", curves, log_y=True)
    items: list[Table | Plot] = [_grid("U-max on Bibtex after 50 epochs", named), plot]
    return Section("Two double sums (Figure 2)", text, items)


def _figure_3(outcomes: Sequence[Outcome]) -> Section:
    methods = dict.fromkeys(o.trial.settings["method"] for o in where(outcomes, "figure 3"))
    named = {m: _by_rate(where(outcomes, "figure 3", method=m)) for m in methods}
    curves = [
        Curve(name, {"η0": list(row)}, [value and min(value, 20.0) for value in row.values()])
        for name, row in named.items()
    ]
    text = (
        "The cost of a wrong learning rate. Vanilla SGD overflows from 0.1 on, U-max diverges "
        "where its theorem no longer holds; implicit steps cannot overshoot. monro's default draws "
        "blocks of classes and starts from the frequencies of classes, here at the given rates."
    )
    plot = Plot(
        "Bibtex: log-loss after the last epoch, by η0",
        "log-loss",
        curves,
        log_x=True,
        log_y=True,
        note="Losses above 20 are drawn at 20.",
    )
    items: list[Table | Plot] = [_grid("Bibtex, in place of Eurlex", named), plot]
    return Section("Sensitivity to the rate (Figure 3)", text, items)


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    rows = []
    for name, title in TITLES.items():
        for method in ("Implicit", "U-max", OURS):
            result = only(outcomes, "table 3", data=name, method=method)
            ours = last(result, "log_loss")
            if result is None or ours is None or (method == "U-max" and name not in AUTHORS):
                continue
            shown = "monro's default" if method == OURS else method
            what = f"{title}: train log-loss of {shown} after {result['epochs'][-1]:g} epochs"
            rows.append(measured(what, number(AUTHORS.get(name, {}).get(method)), number(ours)))
    return rows


STUDY = Study(
    "unbiased-softmax",
    "Unbiased softmax",
    "Fagan and Iyengar, Unbiased scalable softmax optimization, 2018",
    "A softmax over K classes needs all K scores for each step. The paper writes it as a double "
    "sum, over examples and classes, so that a step needs one class only and is still unbiased: "
    "U-max and Implicit SGD. It compares them with methods that are as cheap but biased: "
    "one-vs-each (OVE), noise contrastive estimation (NCE) and importance sampling (IS).",
    tuple(TITLES),
    trials,
    run,
    sections,
    findings,
)
