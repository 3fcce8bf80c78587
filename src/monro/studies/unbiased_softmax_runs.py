"""Paper 000: the trials, and how each is run.

Settings of section 4.1: rows of unit length, first label, no intercept, initial weights zero, 50
epochs in the order of the file, η0 of Table 2, × 0.9 after each epoch; one class per step for
Implicit, five for U-max and vanilla SGD (as in the authors' code), 100 examples and 5 classes for
the biased methods. Every loss is the exact log-loss of the full softmax in float64, on the training
rows.
"""

from typing import Any

import numpy as np

from monro import SoftmaxClassifier
from monro.data.registry import is_here
from monro.rows import Array
from monro.studies import data, nextword
from monro.studies.monitoring import fit_monitored
from monro.studies.study import Tick, Trial, seeds
from monro.studies.unbiased_softmax_published import (
    DIFFERENCE,
    GRID,
    LARGE,
    LOG_K,
    METHODS,
    NCE_1,
    OURS,
    RAMAN,
    SETTINGS,
    STEPS_3,
    TITLES,
    VARIANTS,
    published_rate,
)

PAPERS, TUNED = "paper's", "tuned"  # learning rates of Table 3: published, or found here
BATCHES = (1, 5, 20)  # examples per step
_FEWER = 3  # powers of ten that are tried below the grid, where all of it overflows

# ------------------------------------------------------------------------------------------- trials


def trials(quick: bool) -> list[Trial]:
    """Return the trials; the two million rows of WikiText-2 get 10 epochs, not 50."""
    sets = ["bibtex"] if quick else [name for name in TITLES if name not in LARGE or is_here(name)]
    found = [Trial("table 1", name, {}) for name in sets]
    for name in sets:
        epochs, points = (2, 2) if quick else (10, 5) if name == "wikitext2" else (50, 10)
        grid = [0.1, 10.0] if quick else GRID
        for seed in seeds(quick):
            fits = {"epochs": epochs, "points": points, "seed": seed}
            found += [
                Trial("table 3", name, {"method": method, "rate": rate} | more | fits)
                for rate, more in ((PAPERS, {}), (TUNED, {"grid": grid}), ("auto", {}))
                for method in [*METHODS, STEPS_3, LOG_K, OURS]
                if rate in _rates(name, method)
            ]
    for seed in seeds(quick):
        found += _figures(quick, seed) + _batches(quick, seed)
    return found


def _rates(name: str, method: str) -> list[str]:
    """Return the rates of a method in Table 3; variants take that of their method."""
    if method == OURS:
        return ["auto"]
    published = [PAPERS] if published_rate(name, method) is not None else []
    variant = method in VARIANTS and (published or method == LOG_K)
    return published if variant else [*published, TUNED]


def _figures(quick: bool, seed: int) -> list[Trial]:
    """Return the trials of Figures 2 and 3: on Eurlex, or else on Bibtex."""
    name = "eurlex" if is_here("eurlex") and not quick else "bibtex"
    fits = {"epochs": 2, "points": 2} if quick else {"epochs": 50, "points": 10}
    rates = [1.0] if quick else GRID
    fits["seed"] = seed
    found = [
        Trial("figure 2", name, {"method": "U-max", "sum": form, "rate": rate} | fits)
        for form in (DIFFERENCE, RAMAN)
        for rate in ([] if quick else [1e-4]) + rates
    ]
    return found + [
        Trial("figure 3", name, {"method": method, "rate": rate} | fits)
        for method in [*METHODS, NCE_1, OURS]
        for rate in rates
    ]


def _batches(quick: bool, seed: int) -> list[Trial]:
    """Return the trials of implicit steps on mini-batches; the rate grows with their size."""
    size = {"rows": 40, "epochs": 2} if quick else {"rows": 300, "epochs": 10}
    return [
        Trial(
            "mini-batches",
            name,
            {
                "method": "Implicit", "n": n, "rate": n * rate, "points": size["epochs"],
                "seed": seed,
            } | size,
        )
        for name, rate in (("bibtex", 10.0), ("mnist", 0.1))
        if name == "bibtex" or not quick
        for n in (BATCHES[:2] if quick or name == "mnist" else BATCHES)
    ]  # fmt: skip


def timed(trial: Trial) -> bool:
    """Return whether the seconds of a trial are shown: those of seed 0, and few on WikiText-2."""
    have = trial.settings
    if have.get("seed") != 0:
        return False
    if trial.data == "wikitext2":
        return have["method"] in ("OVE", "IS", "Implicit", OURS)
    again = have.get("rate") == TUNED and published_rate(trial.data, have["method"]) is not None
    return trial.part == "mini-batches" or (trial.part == "table 3" and not again)


# ------------------------------------------------------------------------------------------ running


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Fit one model; return the curve of its log-loss."""
    X, y = load(trial.data)
    have = trial.settings
    if trial.part == "table 1":
        found = {"classes": int(np.unique(y).size), "features": X.shape[1], "examples": y.size}
        if trial.data == "wikitext2":
            found |= dict(zip(("unigram", "optimum"), nextword.bounds(X, y), strict=True))
        return found
    if "rows" in have:
        X, y = X[: have["rows"]], y[: have["rows"]]
    rate: Any = have["rate"]
    tried: dict[str, float | None] = {}
    published = published_rate(trial.data, have["method"])
    if rate == PAPERS:
        rate = published
    elif rate == TUNED:
        rate, tried = tune(trial, X, y)
        if rate is None or rate == published:  # the trial with the published rate has the result
            return {"tried": tried, "rate": rate}
    model = SoftmaxClassifier(**settings_of(trial, rate))
    curve = fit(model, trial, tick, X, y, points=have["points"])
    if have["method"] == OURS and not curve["diverged"]:
        curve["chosen"] = model.history_[0]["chosen"]
        curve["intercept"] = bool(model.fit_intercept)
    return curve | {"tried": tried, "rate": getattr(model, "learning_rate_", rate)}


def load(name: str) -> tuple[Any, Array]:
    """Return the training rows and labels of a data set."""
    if name == "wikitext2":
        return data.next_word()
    if name in LARGE:
        return data.truncated(name)
    return data.LOADERS[name]()[:2]


def settings_of(trial: Trial, rate: float) -> dict[str, Any]:
    """Return the parameters of a trial's classifier."""
    have = trial.settings
    method, epochs = have["method"], have["epochs"]
    common = {
        "alpha": 0.0,
        "max_epochs": epochs,
        "learning_rate": rate,
        "random_state": have["seed"],
    }
    if method == OURS:
        return common
    found = SETTINGS | METHODS[VARIANTS.get(method, method)] | common
    if method == STEPS_3:
        found |= {"max_epochs": 3 * epochs, "epoch_decay": SETTINGS["epoch_decay"] ** (1 / 3)}
    elif method == LOG_K:
        found["init"] = "paper"
    elif method == NCE_1:
        found |= {"examples_per_step": 1, "classes_per_step": 1}
    if have.get("sum") == RAMAN:
        found["formulation"] = "raman"
    if "n" in have:
        found["examples_per_step"] = have["n"]
    return found


def fit(
    model: SoftmaxClassifier, trial: Trial, tick: Tick, X: Any, y: Array, *, points: int
) -> dict[str, Any]:
    """Fit a model; return its exact log-loss after some epochs."""

    def measure(model: Any) -> dict[str, float]:
        if trial.data == "wikitext2":  # two million rows, 4,096 of them distinct
            codes = np.searchsorted(model.classes_, y)
            return {"log_loss": nextword.log_loss(model._fitted.weights, X, codes)}
        measures = model.evaluate(X, y)
        return {"log_loss": measures["log_loss"], "error": measures["error"]}

    curve = fit_monitored(model, measure, tick, X, y, points=points)
    if trial.settings["method"] == STEPS_3:
        curve["epochs"] = [epoch / 3 for epoch in curve["epochs"]]
    return curve


def tune(trial: Trial, X: Any, y: Array) -> tuple[float | None, dict[str, float | None]]:
    """Return the rate that the paper's protocol finds, and the log-losses of all that it tried.

    The rate with the lowest log-loss on a tenth of the rows. Where all of the grid overflows, the
    largest smaller one that does not.
    """
    rng = np.random.default_rng(trial.settings["seed"])
    some = np.sort(rng.choice(y.size, round(0.1 * y.size), replace=False))
    X, y = X[some], y[some]
    tried: dict[float, float | None] = {}

    def attempt(rate: float) -> float | None:
        model = SoftmaxClassifier(**settings_of(trial, rate))
        curve = fit(model, trial, lambda share: None, X, y, points=1)
        tried[rate] = None if curve["diverged"] else curve["log_loss"][-1]
        return tried[rate]

    grid = trial.settings["grid"]
    for rate in grid:
        attempt(rate)
    smaller = [min(grid) / 10.0**k for k in range(1, _FEWER + 1)]
    if all(loss is None for loss in tried.values()):
        next((rate for rate in smaller if attempt(rate) is not None), None)
    finite = {rate: loss for rate, loss in tried.items() if loss is not None}
    best = min(finite, key=lambda rate: finite[rate]) if finite else None
    return best, {f"{rate:g}": loss for rate, loss in tried.items()}
