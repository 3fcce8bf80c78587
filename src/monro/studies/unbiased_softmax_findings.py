"""Paper 000: its claims, compared with our results."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from monro.studies.cells import last, spread
from monro.studies.finding import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNCLEAR,
    Finding,
    alike,
    below,
    holds,
    mean,
    measured,
    near,
)
from monro.studies.study import Outcome, only, results, seconds_alone, where
from monro.studies.unbiased_softmax_published import (
    AUTHORS,
    BIASED,
    DIFFERENCE,
    EVALUATION,
    LOG_K,
    METHODS,
    NCE_1,
    OURS,
    RAMAN,
    SKIPS,
    STEPS_3,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TIMES_LOWER,
    TITLES,
)
from monro.studies.unbiased_softmax_runs import PAPERS, TUNED

_SIZES = {
    "mnist": "the paper has LIBSVM's copy, which ends with the last pixel that is ever set",
    "bibtex": "it is another split of the same rows",
    "delicious": "it is another split of the same rows",
}
_CODE = "Algorithm 1 says log K, but the authors' code starts at 0"
_DATA = "the paper's figure is of Eurlex"

# ---------------------------------------------------------------------------------- what there is


def fits(outcomes: Sequence[Outcome], name: str, method: str, rate: str) -> list[dict[str, Any]]:
    """Return the results of all seeds in Table 3 at one kind of rate.

    Where the tuned rate is the published one, the result is that of the published rate.
    """
    found = []
    for outcome in where(outcomes, "table 3", data=name, method=method, rate=rate):
        result: dict[str, Any] | None = outcome.result
        if "epochs" not in outcome.result:
            seed = outcome.trial.settings["seed"]
            published = {"data": name, "method": method, "rate": PAPERS, "seed": seed}
            overflow = outcome.result["rate"] is None
            result = {"diverged": True} if overflow else only(outcomes, "table 3", **published)
        if result is not None:
            found.append(result)
    return found


def losses(found: Iterable[dict[str, Any]]) -> list[float | None]:
    """Return the final log-loss of each result, None if it diverged."""
    return [last(result, "log_loss") for result in found]


def at_best_rate(outcomes: Sequence[Outcome], name: str, method: str) -> list[dict[str, Any]]:
    """Return the results of all seeds at the published or the tuned rate, whichever ends lower."""
    found = [fits(outcomes, name, method, rate) for rate in (PAPERS, TUNED, "auto")]
    return min(filter(None, found), key=lambda results: mean(losses(results)), default=[])


# ----------------------------------------------------------------------------------------- findings


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    found = _sizes(outcomes)
    for name in TITLES:
        found += _published_losses(outcomes, name)
        found += _order_of_methods(outcomes, name)
        found += _speed(outcomes, name)
    for name in TABLE_2:
        found += _published_rates(outcomes, name)
    return found + _figure_2(outcomes) + _figure_3(outcomes) + _mini_batches(outcomes)


def _sizes(outcomes: Sequence[Outcome]) -> list[Finding]:
    found = []
    for name, paper in TABLE_1.items():
        result = only(outcomes, "table 1", data=name)
        if result is not None:
            ours = tuple(result[what] for what in ("classes", "features", "examples"))
            theirs, here = (", ".join(f"{size:,}" for size in sizes) for sizes in (paper, ours))
            claim = f"{TITLES[name]}: classes, features, examples"
            found.append(holds(claim, theirs, here, ours == paper, _SIZES.get(name, "")))
    return found


def _published_losses(outcomes: Sequence[Outcome], name: str) -> list[Finding]:
    found, title = [], TITLES[name]
    for method, paper in AUTHORS.get(name, {}).items():
        values = losses(fits(outcomes, name, method, PAPERS))
        if values:
            claim = f"{title}: log-loss of {method} in the authors' files"
            found.append(near(claim, paper, values, within=0.05, because=SKIPS))
    from_log_k = losses(fits(outcomes, name, LOG_K, PAPERS))
    if from_log_k:
        claim = f"{title}: log-loss of U-max in the authors' files, from u = log K"
        paper = AUTHORS[name]["U-max"]
        found.append(near(claim, paper, from_log_k, within=0.05, because=_CODE))
    base = losses(fits(outcomes, name, STEPS_3, PAPERS))
    for method, paper in TABLE_3.get(name, {}).items():
        values = losses(fits(outcomes, name, method, PAPERS))
        if method != "Implicit" and values and base and np.isfinite(mean(base)):
            ratios = [None if value is None else value / mean(base) for value in values]
            claim = f"{title}: log-loss of {method} over that of Implicit (Table 3)"
            if method in BIASED:  # whatever comes out, it neither confirms nor refutes the paper
                claim += f"; not comparable, {EVALUATION}"
                found.append(measured(claim, f"{paper:.2f}", spread(ratios, ".2f")))
            else:
                found.append(near(claim, paper, ratios, within=0.1, form=".2f", because=SKIPS))
    ours = losses(fits(outcomes, name, OURS, "auto"))
    if ours:
        found.append(measured(f"{title}: log-loss of {OURS}", "–", spread(ours)))
    return found


def _order_of_methods(outcomes: Sequence[Outcome], name: str) -> list[Finding]:
    """Compare each pair of methods, each at the best of its rates."""
    title = TITLES[name]
    best = {method: at_best_rate(outcomes, name, method) for method in METHODS}
    found = []
    pairs = [(a, b) for a in ("Implicit", "U-max") for b in (*BIASED, "vanilla")]
    for first, second in [*pairs, ("Implicit", "U-max")]:
        paper, because = "claimed for all data sets", ""
        if name in TABLE_3:
            ratios = TABLE_3[name][first], TABLE_3[name][second]
            if ratios[0] > ratios[1]:
                first, second, ratios = second, first, ratios[::-1]
            paper = f"ratios {ratios[0]:g} and {ratios[1]:g}"
            because = EVALUATION if {first, second} & set(BIASED) else ""
        lower, higher = losses(best[first]), losses(best[second])
        if lower and higher:
            claim = f"{title}: {first} ends below {second}"
            found.append(below(claim, paper, lower, higher, because=because))
    biased = [losses(best[method]) for method in BIASED if best[method]]
    vanilla = losses(best["vanilla"])
    if vanilla and len(biased) == len(BIASED):
        claim = f"{title}: vanilla SGD ends below OVE, NCE and IS"
        lowest = min(biased, key=mean)
        found.append(below(claim, "claimed", vanilla, lowest, because=EVALUATION))
    early = {
        method: [result["log_loss"][0] for result in best[method] if result.get("log_loss")]
        for method in METHODS
        if method != "SCO"
    }
    others = [early[method] for method in early if method != "Implicit" and early[method]]
    if early["Implicit"] and others:
        epoch = best["Implicit"][0]["epochs"][0]
        claim = f"{title}: after {epoch:g} epochs Implicit is below all others"
        found.append(below(claim, "claimed", early["Implicit"], min(others, key=mean)))
    return found


def _speed(outcomes: Sequence[Outcome], name: str) -> list[Finding]:
    """Compare the seconds of steps; those of Implicit draw one class, of U-max five."""
    seconds: dict[str, list[float]] = {}
    for method in ("Implicit", "U-max", "vanilla"):
        for outcome in where(outcomes, "table 3", data=name, method=method):
            alone = seconds_alone(outcome)
            if alone and not outcome.result.get("diverged"):
                seconds.setdefault(method, []).append(alone[-1])
    return [
        alike(
            f"{TITLES[name]}: a step of Implicit takes as long as one of {other}; seconds of fits",
            "roughly the same",
            seconds["Implicit"],
            seconds[other],
            within=0.5,
            form=".3g",
            because=f"{other} draws five classes a step, Implicit one",
        )
        for other in ("U-max", "vanilla")
        if "Implicit" in seconds and other in seconds
    ]


def _published_rates(outcomes: Sequence[Outcome], name: str) -> list[Finding]:
    """Compare Table 2 with the rates that the protocol finds, for each seed."""
    found = []
    for method, paper in TABLE_2[name].items():
        rates = [
            r["rate"] for r in results(outcomes, "table 3", data=name, method=method, rate=TUNED)
        ]
        if not rates:
            continue
        same = [rate == paper for rate in rates]
        verdict = REPRODUCED if all(same) else UNCLEAR if any(same) else NOT_REPRODUCED
        claim = f"{TITLES[name]}: η0 of {method} by the paper's protocol"
        found.append(Finding(claim, f"{paper:g}", show_rates(rates), verdict))
    return found


def show_rates(rates: Iterable[float | None]) -> str:
    """Return the learning rates of all seeds as text, each once.

    Examples
    --------
    >>> show_rates([1000.0, 0.1, 1000.0]), show_rates([12.345]), show_rates([None])
    ('0.1, 1000', '12.3', 'all overflow')
    """
    found = set(rates)
    finite = sorted(rate for rate in found if rate is not None)
    shown = [f"{float(f'{rate:.3g}'):g}" for rate in finite]
    return ", ".join(shown + ["all overflow"] * (None in found))


def by_rate(found: Iterable[Outcome]) -> dict[float, list[float | None]]:
    """Return the final log-losses of all seeds, by learning rate."""
    rates: dict[float, list[float | None]] = {}
    for outcome in found:
        rates.setdefault(outcome.trial.settings["rate"], []).append(
            last(outcome.result, "log_loss")
        )
    return rates


def _figure_2(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Compare the two double sums, at each rate, on average, and each at its best rate."""
    ours, theirs = (by_rate(where(outcomes, "figure 2", sum=s)) for s in (DIFFERENCE, RAMAN))
    both = [rate for rate in ours if rate in theirs]
    found = []
    for rate in both:
        claim = f"Figure 2: at η0 = {rate:g} U-max on eq. 6 ends below U-max on Raman et al.'s sum"
        because = _DATA if rate <= 100.0 else ""
        found.append(below(claim, "claimed", ours[rate], theirs[rate], because=because))
    shown = [rate for rate in both if rate <= 100.0]
    finite = [r for r in shown if np.isfinite(mean(ours[r])) and np.isfinite(mean(theirs[r]))]
    if len(finite) > 1:
        factor = float(np.mean([mean(theirs[rate]) / mean(ours[rate]) for rate in finite]))
        claim = "Figure 2: log-loss of Raman et al.'s sum over that of eq. 6, mean over η0 ≤ 100"
        found.append(near(claim, TIMES_LOWER, [factor], within=0.25, form=".2f", because=_DATA))
    if both:
        lower, higher = (min(one.values(), key=mean) for one in (ours, theirs))
        claim = "Figure 2: each at its best η0, eq. 6 ends below Raman et al.'s sum"
        found.append(below(claim, "claimed at every η0", lower, higher, because=_DATA))
    return found


def _figure_3(outcomes: Sequence[Outcome]) -> list[Finding]:
    named = {m: by_rate(where(outcomes, "figure 3", method=m)) for m in [*METHODS, NCE_1]}
    found = []
    shared = [
        rate for rate in named["Implicit"] if all(rate in named[m] for m in (*BIASED, "U-max"))
    ]
    if shared:
        lowest = [
            rate
            for rate in shared
            if all(
                mean(named["Implicit"][rate]) <= mean(named[m][rate]) for m in (*BIASED, "U-max")
            )
        ]
        claim = "Figure 3: at most rates Implicit ends below OVE, NCE, IS and U-max"
        here = f"at {len(lowest)} of {len(shared)} rates"
        found.append(holds(claim, "claimed", here, 2 * len(lowest) > len(shared), _DATA))
    if 1000.0 in named["U-max"]:
        values = named["U-max"][1000.0]
        huge = all(value is None or value > 20.0 for value in values)
        claim = "Figure 3: at η0 = 1000 the log-loss of U-max is extremely large (above 20)"
        found.append(holds(claim, "claimed", spread(values, ".3g"), huge))
    for rate, values in named[NCE_1].items():
        if rate in named["NCE"]:
            claim = f"Figure 3: NCE ends alike with n = 100, m = 5 and n = m = 1, η0 = {rate:g}"
            pair = named["NCE"][rate], values
            found.append(alike(claim, "near identical", *pair, within=0.05, because=_DATA))
    overflow = [rate for rate, values in named["vanilla"].items() if None in values]
    if named["vanilla"]:
        claim = "Section 4.1: vanilla SGD overflows unless its rate is very small"
        here = f"overflows at η0 = {show_rates(overflow)}" if overflow else "never overflows"
        found.append(holds(claim, "claimed", here, bool(overflow)))
    return found


def _mini_batches(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Compare implicit steps on mini-batches with those on single examples."""
    found = []
    for name in ("bibtex", "mnist"):
        for outcome in where(outcomes, "mini-batches", data=name, seed=0):
            n = outcome.trial.settings["n"]
            single = next(where(outcomes, "mini-batches", data=name, n=1, seed=0), None)
            times = [single and seconds_alone(single), seconds_alone(outcome)]
            if n > 1 and all(times):
                claim = (
                    f"{TITLES[name]}: implicit steps on {n} examples are slower; seconds of fits"
                )
                first, second = ([one[-1]] for one in times if one)
                found.append(below(claim, "may be significantly slower", first, second, form=".3g"))
    return found
