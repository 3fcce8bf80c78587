"""Paper 000: unbiased softmax by double sums. Its tables and figures beside ours."""

from collections.abc import Sequence
from typing import Any

from monro.report.content import Curve, Plot, Section, Table
from monro.studies.cells import MISSING, last, number, ratio, spread
from monro.studies.finding import mean
from monro.studies.study import Outcome, Study, only, results, seconds_alone, where
from monro.studies.unbiased_softmax_findings import (
    by_rate,
    findings,
    fits,
    losses,
    show_rates,
)
from monro.studies.unbiased_softmax_published import (
    AUTHORS,
    DIFFERENCE,
    LARGE,
    LOG_K,
    METHODS,
    OURS,
    RAMAN,
    STEPS_3,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TITLES,
)
from monro.studies.unbiased_softmax_runs import PAPERS, TUNED, run, timed, trials


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the tables and figures of the paper."""
    sets = [name for name in TITLES if any(where(outcomes, "table 3", data=name))]
    found = [_sizes(outcomes), _rates(outcomes), *(_losses(outcomes, name) for name in sets)]
    if any(where(outcomes, "figure 2")):
        found.append(_figure_2(outcomes))
    if any(where(outcomes, "figure 3")):
        found.append(_figure_3(outcomes))
    if any(where(outcomes, "mini-batches")):
        found.append(_mini_batches(outcomes))
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
    run_on = {outcome.trial.data for outcome in where(outcomes, "table 1")}
    absent = [TITLES[name] for name in LARGE if name not in run_on]
    text = "Of several labels the lowest is taken. RCV1 topics and WikiText-2 are not in the paper."
    if absent:
        text += (
            f" Not run, because their files are not here: {', '.join(absent)}. `monro data info "
            "eurlex` says where files come from and where they belong."
        )
    return Section("Data (Table 1)", text, [Table("Sizes", columns, rows)])


def _rates(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for name, title in TITLES.items():
        cells = []
        for method in METHODS:
            tuned = results(outcomes, "table 3", data=name, method=method, rate=TUNED)
            paper = TABLE_2.get(name, {}).get(method)
            best = show_rates(result["rate"] for result in tuned) if tuned else MISSING
            cells.append(best if paper is None else f"{best} ({paper:g})")
        if any(where(outcomes, "table 3", data=name, rate=TUNED)):
            rows.append([title, *cells])
    text = (
        "The paper's protocol: on a tenth of the rows each method tries the rates 0.001 to 1000, "
        "and the one with the lowest log-loss after all epochs is taken; if all overflow, the "
        "largest smaller one that does not. Each seed draws another tenth; all rates found are "
        "listed, and the paper's is in brackets. The fits below use both."
    )
    note = f"{OURS} has no rate to tune."
    table = Table("Best rates", ["data", *METHODS], rows, note)
    return Section("Learning rates (Table 2)", text, [table])


def _losses(outcomes: Sequence[Outcome], name: str) -> Section:
    base = losses(fits(outcomes, name, STEPS_3, PAPERS) or fits(outcomes, name, STEPS_3, TUNED))
    rows, curves = [], []
    for method in [*METHODS, STEPS_3, LOG_K, OURS]:
        published = TABLE_2.get(name, {}).get(method)
        for rate in (PAPERS, TUNED, "auto"):
            own = list(where(outcomes, "table 3", data=name, method=method, rate=rate))
            found = fits(outcomes, name, method, rate)
            if not any("epochs" in outcome.result for outcome in own):
                continue  # not run, or the tuned rate is the published one
            found_here = rate == TUNED and published is not None
            shown = f"{method}, rate found here" if found_here else method
            rows.append([shown, *_cells(name, method, rate, own, found, base)])
            first = next((o.result for o in own if "epochs" in o.result), None)
            if first and method not in ("SCO", LOG_K) and not found_here:
                curves.append(_curve(method, first))
    columns = ["method", "η0", "log-loss", "authors' files", "ratio", "Table 3", "error, %", "s"]
    note = (
        "Ratio: log-loss over that of Implicit with three steps per example and epoch, which is "
        "the denominator of the paper's Table 3. ± is half the range over seeds; seconds are of a "
        "fit that ran alone."
    )
    plot = Plot(
        f"{TITLES[name]}: log-loss while training (Figure 1)", "log-loss", curves, log_y=True
    )
    table = Table(f"{TITLES[name]} after training", columns, rows, note)
    return Section(f"{TITLES[name]} (Table 3, Figure 1)", _about(outcomes, name), [table, plot])


def _cells(
    name: str,
    method: str,
    rate: str,
    own: Sequence[Outcome],
    found: Sequence[dict[str, Any]],
    base: Sequence[float | None],
) -> list[str]:
    """Return the cells of a row of Table 3."""
    values = losses(found)
    is_papers = rate == PAPERS
    errors = [last(result, "error") for result in found]
    percents = [100.0 * error for error in errors if error is not None]
    seconds = [seconds_alone(o) for o in own if not o.result.get("diverged")]
    published = 1.0 if method == STEPS_3 else TABLE_3.get(name, {}).get(method)
    return [
        show_rates(outcome.result["rate"] for outcome in own),
        spread(values),
        number(AUTHORS.get(name, {}).get(method) if is_papers else None),
        ratio(None if None in values else mean(values), mean(base) if base else None),
        number(published if is_papers and method != "Implicit" else None, ".2f"),
        spread(percents, ".2f"),
        next((f"{one[-1]:.2f}" for one in seconds if one), MISSING),
    ]


def _about(outcomes: Sequence[Outcome], name: str) -> str:
    """Return what is known about the data, and how monro's default differs from the others."""
    sentences = []
    sizes = only(outcomes, "table 1", data=name)
    if sizes and "optimum" in sizes:
        sentences.append(
            f"The log-loss of the frequencies of words is {sizes['unigram']:.4f}, that of the best "
            f"model with these features {sizes['optimum']:.4f}. Ten epochs of two million steps, "
            "× 0.9 after each as before."
        )
    default = next(iter(fits(outcomes, name, OURS, "auto")), None)
    if default and "chosen" in default:
        has = "has an intercept" if default["intercept"] else "has no intercept"
        sentences.append(
            f"In the row “{OURS}” both model and algorithm are others than in the rest: it {has}. "
            f"What it chose: {default['chosen']}."
        )
    return " ".join(sentences)


def _curve(name: str, result: dict[str, Any], group: str = "") -> Curve:
    x = {"epochs": result["epochs"]}
    return Curve(name, x, result.get("log_loss", []), group)


def _grid(title: str, named: dict[str, dict[float, list[float | None]]]) -> Table:
    rates = sorted({rate for row in named.values() for rate in row})
    rows = [
        [name, *(spread(row[rate], ".3g") if rate in row else MISSING for rate in rates)]
        for name, row in named.items()
    ]
    return Table(title, ["log-loss for η0 →", *(f"{rate:g}" for rate in rates)], rows)


def _title_of(outcomes: Sequence[Outcome], part: str) -> str:
    name = next(where(outcomes, part)).trial.data
    return TITLES[name] if name == "eurlex" else f"{TITLES[name]}, in place of Eurlex"


def _figure_2(outcomes: Sequence[Outcome]) -> Section:
    named = {form: by_rate(where(outcomes, "figure 2", sum=form)) for form in (DIFFERENCE, RAMAN)}
    curves = [
        _curve(f"{form}, {o.trial.settings['rate']:g}", o.result, form)
        for form in (DIFFERENCE, RAMAN)
        for o in where(outcomes, "figure 2", sum=form, seed=0)
    ]
    text = (
        "The softmax can be written as a double sum in two ways: with differences of scores, as "
        "the paper proposes, or with scores, as Raman et al. do. The paper claims that its own "
        "form has smaller gradients and so learns faster with U-max, at every rate."
    )
    plot = Plot("U-max with both sums, by η0", "log-loss", curves, log_y=True)
    title = f"U-max, {_title_of(outcomes, 'figure 2')}"
    return Section("Two double sums (Figure 2)", text, [_grid(title, named), plot])


def _figure_3(outcomes: Sequence[Outcome]) -> Section:
    methods = dict.fromkeys(o.trial.settings["method"] for o in where(outcomes, "figure 3"))
    named = {m: by_rate(where(outcomes, "figure 3", method=m)) for m in methods}
    curves = [
        Curve(name, {"η0": list(row)}, [min(mean(values), 20.0) for values in row.values()])
        for name, row in named.items()
    ]
    text = (
        "The cost of a wrong learning rate. Theorem 1 guarantees that U-max converges for small "
        f"rates only; implicit steps cannot overshoot. “{OURS}” is here fitted at the given rates."
    )
    plot = Plot(
        "Log-loss after the last epoch, by η0",
        "log-loss",
        curves,
        log_x=True,
        log_y=True,
        note="Means over seeds; losses above 20, and fits that diverged, are drawn at 20.",
    )
    items: list[Table | Plot] = [_grid(_title_of(outcomes, "figure 3"), named), plot]
    return Section("Sensitivity to the rate (Figure 3)", text, items)


def _mini_batches(outcomes: Sequence[Outcome]) -> Section:
    rows, plots = [], []
    for name in dict.fromkeys(outcome.trial.data for outcome in where(outcomes, "mini-batches")):
        curves = []
        for n in dict.fromkeys(
            o.trial.settings["n"] for o in where(outcomes, "mini-batches", data=name)
        ):
            own = list(where(outcomes, "mini-batches", data=name, n=n))
            have = own[0].trial.settings
            seconds = next((s for s in map(seconds_alone, own) if s), None)
            per_epoch = seconds[-1] / have["epochs"] if seconds else None
            rows.append(
                [
                    f"{TITLES[name]}, n = {n}",
                    f"{have['rows']:,}",
                    f"{have['rate']:g}",
                    *(spread([_after(o.result, k) for o in own]) for k in (1, have["epochs"])),
                    number(per_epoch, ".3g"),
                ]
            )
            curves.append(_curve(f"n = {n}", own[0].result))
        plots.append(Plot(f"{TITLES[name]}, the first rows", "log-loss", curves, log_y=True))
    columns = ["data", "rows", "η0", "after 1 epoch", "after all", "s an epoch"]
    note = "One class per step besides those of the batch; η0 is n times that of one example."
    text = (
        "Proposition 3 and appendix F.3: an implicit step on n examples at once is solved by a "
        "first-order method, here L-BFGS, in the span of their rows. The paper's experiments use "
        "n = 1 (Proposition 4), where one equation remains."
    )
    table = Table("Implicit steps on mini-batches", columns, rows, note)
    return Section("Mini-batches (Proposition 3)", text, [table, *plots])


def _after(result: dict[str, Any], epoch: int) -> float | None:
    """Return the log-loss after an epoch."""
    found = dict(zip(result["epochs"], result.get("log_loss", []), strict=False))
    value: float | None = found.get(epoch)
    return value


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
    (
        "As in the authors' code: rows are visited in the order of the file, U-max and vanilla SGD "
        "draw five classes a step (the paper says one), and u starts at 0 (Algorithm 1 says "
        f"log K; “{LOG_K}” does that). The seed varies the classes drawn, and the tenth of the "
        "rows on which rates are tuned. In the authors' code a draw that equals y skips the step; "
        "ours draws from the other classes, as the paper says.",
        "Every log-loss is exact: of the full softmax, in float64, on all training rows. The "
        "published log-losses of OVE, NCE and IS are not: the authors' evaluation applied the "
        "softmax twice.",
        "Claims about two methods compare each at the better of its published and its tuned rate. "
        "Stochastic composition (SCO) is in the paper's appendix B, without figures.",
        "Figures 2 and 3 are of Eurlex in the paper. Where its files are missing, Bibtex takes its "
        "place. WikiText-2 gets 10 epochs, all others 50.",
    ),
    timed,
)
