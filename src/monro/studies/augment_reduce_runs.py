"""The runs of the study of paper 001: one fit by one method, with the paper's settings."""

from functools import cache
from typing import Any

import numpy as np

from monro import SoftmaxClassifier
from monro.rows import Array
from monro.studies import data
from monro.studies.monitoring import fit_unobserved
from monro.studies.study import Tick, Trial, seeds

TITLES = {"mnist": "MNIST", "bibtex": "Bibtex", "omniglot": "Omniglot"}
METHODS = ("OVE", "softmax", "probit", "logistic")  # of the paper's tables
EXACT = "exact softmax"
PRINTED = ", as printed"  # Algorithm 2 with the paper's local steps
SETTINGS = {  # Table 1: training and test rows, features, classes, |B|, |S|, iterations
    "mnist": (60_000, 10_000, 784, 10, 500, 1, 35_000),
    "bibtex": (4_880, 2_413, 1_836, 148, 488, 20, 5_000),
    "omniglot": (25_968, 6_492, 784, 1_623, 541, 50, 45_000),
}
DRAWS, SAMPLED_ROWS = 1000, 500  # of the paper's importance sampler
_SOLVERS = {"OVE": "ove-adaptive", EXACT: "exact-adaptive"}
_POINTS = 100  # of a curve


def methods(name: str) -> list[str]:
    """Return the methods that run on a data set: the paper's, and, where fits are short, ours."""
    printed = ["OVE", "softmax", *(method + PRINTED for method in METHODS[2:])]
    return printed if name == "omniglot" else [EXACT, *printed, *METHODS[2:]]


def trials(quick: bool) -> list[Trial]:
    """Return the trials; if quick, those of Bibtex with two epochs. The longest are first."""
    sets = ["bibtex"] if quick else list(SETTINGS)
    found = []
    for name in reversed(sets):
        train, _, _, _, batch, _, iterations = SETTINGS[name]
        epochs = 2 if quick else max(1, round(iterations * batch / train))
        found += [
            Trial("table 3", name, {"method": method, "epochs": epochs, "seed": seed})
            for method in methods(name)
            for seed in seeds(quick)
        ]
    size = {"classes": 500, "rows": 20_000} if quick else {"classes": 10_000, "rows": 300_000}
    steps = 200 if quick else 500_000
    synthetic = {"epochs": steps * 500 // size["rows"], **size}
    found += [
        Trial("section 4.1", "", {"method": method, **synthetic, "seed": seed})
        for method in METHODS[:2]
        for seed in seeds(quick)
    ]
    found += [Trial("table 1", name, {}) for name in sets]
    epochs = 3 if quick else 7
    for name in ["", *sets]:
        extra = {} if name else size
        found += [
            Trial("table 2", name, {"method": method, "epochs": epochs, **extra, "seed": seed})
            for method in (METHODS if name else METHODS[:2])
            for seed in seeds(quick)
        ]
    return found


def is_timed(trial: Trial) -> bool:
    """Return whether the seconds of a trial are compared."""
    return trial.part == "table 2"


def _rows(name: str) -> data.Data:
    """Return the rows as in the paper: pixels from 0 to 1, other features unscaled."""
    loaders = {"mnist": data.mnist, "bibtex": data.bibtex, "omniglot": data.omniglot}
    rows = loaders[name](scaled=False)
    known = np.isin(rows.test_y, np.unique(rows.y))
    return rows._replace(test_X=rows.test_X[known], test_y=rows.test_y[known])


@cache
def _synthetic_labels(classes: int, n: int) -> tuple[Array, Array]:
    """Return rows without features, and labels: classes have probability ∝ p², p uniform."""
    rng = np.random.default_rng(0)
    p = rng.random(classes) ** 2
    _, y = np.unique(rng.choice(classes, n, p=p / p.sum()), return_inverse=True)
    return np.empty((n, 0)), y


def make_estimator(method: str, **parameters: Any) -> SoftmaxClassifier:
    """Return the estimator of a method."""
    if method == EXACT:
        del parameters["classes_per_step"]
    if method in _SOLVERS:
        return SoftmaxClassifier(solver=_SOLVERS[method], **parameters)
    solver = "augment-reduce-printed" if method.endswith(PRINTED) else "augment-reduce"
    return SoftmaxClassifier(solver=solver, link=method.removesuffix(PRINTED), **parameters)


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Fit one model by one method, and evaluate it."""
    have = trial.settings
    if trial.part == "table 1":
        return _sizes(_rows(trial.data))
    if trial.data:
        rows = _rows(trial.data)
        X, y = rows.X, rows.y
        *_, batch, drawn, _ = SETTINGS[trial.data]
    else:
        X, y = _synthetic_labels(have["classes"], have["rows"])
        batch, drawn = 500, 100
    model = make_estimator(
        have["method"],
        alpha=0.0,
        examples_per_step=batch,
        classes_per_step=drawn,
        max_epochs=have["epochs"],
        random_state=have["seed"],
    )
    fitted = fit_unobserved(model, X, y)
    if trial.part == "table 2":
        ends = [0.0, *(record["seconds"] for record in model.history_)]
        return {"seconds_per_epoch": float(np.median(np.diff(ends)))}
    if not fitted:
        return dict.fromkeys(("log_likelihood", "accuracy", "final_bound"))
    found = _curve(model)
    if have["method"] in ("OVE", "softmax", EXACT):
        found["final_bound"] = model.bound(X, y)
    if trial.part == "section 4.1":
        return found | _probabilities(model, y)
    found["log_likelihood"] = -model.log_loss(rows.test_X, rows.test_y)
    found["accuracy"] = float(model.score(rows.test_X, rows.test_y))
    if model.link != "softmax":
        some = rows.test_X[:SAMPLED_ROWS], rows.test_y[:SAMPLED_ROWS]
        found["sampling_error"] = model.log_loss(*some) - model.log_loss(*some, draws=DRAWS)
    return found


def _sizes(rows: data.Data) -> dict[str, Any]:
    return {
        "train": rows.y.size,
        "test": rows.test_y.size,
        "features": rows.X.shape[1],
        "classes": int(np.unique(rows.y).size),
    }


def _curve(model: SoftmaxClassifier) -> dict[str, Any]:
    """Return estimates of the bound, each the mean of the epochs since the last point."""
    bounds = [-record["loss"] for record in model.history_]
    parts = np.array_split(np.arange(len(bounds)), min(_POINTS, len(bounds)))
    return {
        "epochs": [int(part[-1]) + 1 for part in parts],
        "bound": [float(np.mean(np.take(bounds, part))) for part in parts],
    }


def _probabilities(model: SoftmaxClassifier, y: Array) -> dict[str, Any]:
    """Return the likelihood, and the error of the probabilities against the frequencies."""
    n = y.size
    frequency = np.bincount(y) / n
    P = model.predict_proba(np.empty((1, 0)))[0]
    return {
        "classes": int(frequency.size),
        "rows": n,
        "log_likelihood": float(n * frequency @ np.log(P)),
        "maximum": float(n * frequency @ np.log(frequency)),
        "mean_error": float(abs(P - frequency).mean()),
    }
