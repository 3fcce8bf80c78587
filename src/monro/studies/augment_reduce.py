"""Paper 001: augment and reduce. Its synthetic classes (§4.1), its Tables 1 to 3 and its Figure 2.

Settings and steps are the paper's, also for one-vs-each (OVE). "As printed" uses the paper's local
steps for probit and logistic, which are too small to move. Likelihoods are exact, for probit and
logistic by quadrature.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from monro import SoftmaxClassifier
from monro._jit import lanes_leaf
from monro._math import fast_exp, fast_log
from monro.links import ENTROPY, LINKS
from monro.report.content import Curve, Plot, Section, Table
from monro.rows import Array
from monro.softmax.training import variational_trainer
from monro.studies import data
from monro.studies.cells import number, percent, ratio
from monro.studies.finding import Finding, measured
from monro.studies.monitoring import fit_monitored
from monro.studies.study import Outcome, Study, Tick, Trial, only, where
from monro.variational.augment_reduce import PlainModel, make_model

TITLES = {"mnist": "MNIST", "bibtex": "Bibtex", "omniglot": "Omniglot"}
METHODS = ("OVE", "softmax", "probit", "logistic")
EXACT = "exact softmax"
PRINTED = ", as printed"  # Algorithm 2 with the paper's local steps
NAMES = {
    "OVE": "OVE",
    "softmax": "A&R, softmax",
    "probit": "A&R, probit",
    "logistic": "A&R, logistic",
}
SETTINGS = {  # Table 1: training and test rows, features, classes, |B|, |S|, iterations
    "mnist": (60_000, 10_000, 784, 10, 500, 1, 35_000),
    "bibtex": (4_880, 2_413, 1_836, 148, 488, 20, 5_000),
    "omniglot": (25_968, 6_492, 784, 1_623, 541, 50, 45_000),
}
PAPER_EPOCH = {  # Table 2, seconds: OVE, softmax, probit, logistic
    "": (11.3, 11.8, None, None),
    "mnist": (0.336, 0.337, 0.431, 0.511),
    "bibtex": (0.181, 0.188, 0.244, 0.246),
    "omniglot": (4.47, 4.65, 5.63, 5.57),
}
PAPER = {  # Table 3: test log-likelihood, accuracy
    "mnist": ((-0.276, 0.919), (-0.271, 0.924), (-0.302, 0.918), (-0.287, 0.917)),
    "bibtex": ((-3.300, 0.352), (-3.036, 0.361), (-4.184, 0.346), (-3.151, 0.353)),
    "omniglot": ((-5.667, 0.179), (-5.171, 0.201), (-7.350, 0.178), (-5.395, 0.184)),
}
PAPER_EXACT = {"mnist": (-0.261, 0.927), "bibtex": (-3.188, 0.361)}
PAPER_BOUND = {"OVE": -1.40e9, "softmax": -2.62e6}
PAPER_ERROR = {"OVE": 3.65e-6, "softmax": 3.00e-6}


# -------------------------------------------------------------------- one-vs-each at the same steps

_BOUND_EVERY = 64  # examples: its logarithms cost as much as a step, which does not need them


@lanes_leaf
def _sigmoids(z: Array, log_c: Array) -> None:
    """Replace z by ``c σ(z)``; 0 for a masked class."""
    one = z.dtype.type(1.0)
    for d in range(z.size):
        present = one if z[d] > -1e29 else one - one
        z[d] = present * fast_exp(log_c[d]) / (one + fast_exp(-z[d]))


@lanes_leaf
def _one_vs_each_bound(z: Array, log_c: Array) -> Any:
    """Return ``Σ c log σ(-z)`` over the classes that are not masked."""
    one = z.dtype.type(1.0)
    bound = z.dtype.type(0.0)
    for d in range(z.size):
        present = one if z[d] > -1e29 else one - one
        softplus = max(z[d], one - one) + fast_log(one + fast_exp(-abs(z[d])))
        bound -= present * fast_exp(log_c[d]) * softplus
    return bound


class OneVsEach(NamedTuple):
    """Eq. 10: ``Σ c_k log σ(s_y - s_k)``, without a local variable."""

    def initial(self, n_classes: int) -> tuple[float, float]:
        """Return the state of an example, which is not used."""
        return 1.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Return the noise of n examples: none."""
        return np.zeros((n, 2))

    def local_step(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        """Replace z by the gradient; return the bound."""
        bound = _BOUND_EVERY * _one_vs_each_bound(z, log_c) if i % _BOUND_EVERY == 0 else 0.0
        _sigmoids(z, log_c)
        return bound


@contextmanager
def use_bound(method: str) -> Iterator[str]:
    """Yield the link to fit with; within the context, fits take the local steps of the method."""
    link, *printed = method.split(", ")
    if method == "OVE":
        model: Any = OneVsEach()
    else:
        model = PlainModel(LINKS[link], ENTROPY[link]) if printed else make_model(link)
    with mock.patch.object(variational_trainer, "make_model", return_value=model):
        yield "softmax" if method == "OVE" else link


# ------------------------------------------------------------------------------------------- trials


def trials(quick: bool) -> list[Trial]:
    """Return the trials; if quick, those of Bibtex with two epochs."""
    sets = ["bibtex"] if quick else list(TITLES)
    found = [Trial("table 1", name, {}) for name in sets]
    for name in sets:
        train, _, _, _, batch, _, iterations = SETTINGS[name]
        epochs = 2 if quick else max(1, round(iterations * batch / train))
        # On Omniglot each of these would take a quarter of an hour more.
        printed = () if quick or name == "omniglot" else ("probit" + PRINTED, "logistic" + PRINTED)
        exact = () if name == "omniglot" else (EXACT,)
        found += [
            Trial("table 3", name, {"method": method, "epochs": epochs})
            for method in (*METHODS, *printed, *exact)
        ]
        found += [
            Trial("table 2", name, {"method": method, "epochs": 3 if quick else 7})
            for method in METHODS
        ]
    size = {"classes": 500, "rows": 20_000} if quick else {"classes": 10_000, "rows": 300_000}
    steps = 200 if quick else 500_000
    for part, passes in (
        ("section 4.1", steps * 500 // size["rows"]),
        ("table 2", 3 if quick else 7),
    ):
        found += [
            Trial(part, "", {"method": method, "epochs": passes, **size}) for method in METHODS[:2]
        ]
    return found


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


def _fit(method: str, X: Any, y: Array, epochs: int, sizes: dict[str, Any], tick: Tick) -> Any:
    """Return a fitted model, and the curve of its bound after each epoch."""
    common: dict[str, Any] = {"random_state": 0, "max_epochs": epochs}
    if method == EXACT:
        model = SoftmaxClassifier(solver="exact", **common)
        return model, fit_monitored(model, lambda fitted: {}, tick, X, y)
    with use_bound(method) as link:
        model = SoftmaxClassifier(solver="augment-reduce", link=link, **sizes, **common)
        curve = fit_monitored(model, lambda fitted: {}, tick, X, y)
    return model, curve | {"bound": [-record["loss"] for record in model.history_]}


def run(trial: Trial, tick: Tick) -> dict[str, Any]:
    """Fit one model by one bound, and evaluate it."""
    have = trial.settings
    if trial.part == "table 1":
        rows = _rows(trial.data)
        left_out = SETTINGS[trial.data][1]
        return {
            "train": rows.y.size,
            "test": rows.test_y.size,
            "features": rows.X.shape[1],
            "classes": int(np.unique(rows.y).size),
            "paper_test": left_out,
        }
    if trial.data:
        rows = _rows(trial.data)
        X, y = rows.X, rows.y
        *_, batch, drawn, _ = SETTINGS[trial.data]
    else:
        X, y = _synthetic_labels(have["classes"], have["rows"])
        batch, drawn = 500, 100
    sizes = {"examples_per_step": batch, "classes_per_step": drawn}
    model, curve = _fit(have["method"], X, y, have["epochs"], sizes, tick)
    ends = [0.0, *curve["seconds"]]
    found: dict[str, Any] = {"seconds_per_epoch": float(np.median(np.diff(ends)))}
    if trial.part == "table 2":
        return found
    step = max(1, len(curve["epochs"]) // 100)  # a hundred points are enough for a plot
    found |= {name: curve[name][::step] for name in ("epochs", "seconds", "bound") if name in curve}
    if trial.part == "section 4.1":
        return found | _probabilities(model, y, curve["bound"][-10:])
    found["log_likelihood"] = -model.log_loss(rows.test_X, rows.test_y)
    if have["method"] not in ("OVE", "softmax", EXACT):
        found["importance_sampled"] = -model.log_loss(rows.test_X, rows.test_y, draws=1000)
    found["accuracy"] = float(model.score(rows.test_X, rows.test_y))
    found["train_log_likelihood"] = -model.log_loss(X, y) if have["method"] == EXACT else None
    return found


def _probabilities(model: Any, y: Array, bounds: list[float]) -> dict[str, Any]:
    """Return the bound, and the error of the probabilities against the frequencies of classes."""
    n = y.size
    frequency = np.bincount(y) / n
    P = model.predict_proba(np.empty((1, 0)))[0]
    return {
        "classes": int(frequency.size),
        "total_bound": float(n * np.mean(bounds)),
        "log_likelihood": float(n * frequency @ np.log(P)),
        "maximum": float(n * frequency @ np.log(frequency)),
        "mean_error": float(abs(P - frequency).mean()),
    }


# -------------------------------------------------------------------------------- tables and plots


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the tables and the figure of the paper."""
    found = []
    if any(where(outcomes, "section 4.1")):
        found.append(_synthetic(outcomes))
    if any(where(outcomes, "table 1")):
        found += [_sizes(outcomes), _times(outcomes), _predictive(outcomes), _bounds(outcomes)]
    return found


def _synthetic(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for outcome in where(outcomes, "section 4.1"):
        method, result = outcome.trial.settings["method"], outcome.result
        rows.append(
            [
                NAMES[method],
                f"{result['total_bound']:.4g}",
                f"{PAPER_BOUND[method]:.3g}",
                f"{result['log_likelihood']:.6g}",
                f"{result['maximum']:.6g}",
                f"{result['mean_error']:.2e}",
                f"{PAPER_ERROR[method]:.2e}",
            ]
        )
    columns = ["method", "bound", "paper", "log-likelihood", "its maximum", "error of p", "paper"]
    text = (
        "300,000 draws from 10,000 classes, of which those that occur are kept. There are no "
        "features: only the probabilities of classes are learnt. A&R bounds the likelihood "
        "itself; the bound of OVE is a product over all pairs of classes, which is orders of "
        "magnitude lower. The paper has other random draws."
    )
    return Section(
        "Ten thousand classes (section 4.1)", text, [Table("No features", columns, rows)]
    )


def _sizes(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for outcome in where(outcomes, "table 1"):
        name, ours = outcome.trial.data, outcome.result
        train, test, features, classes, batch, drawn, iterations = SETTINGS[name]
        cells = [TITLES[name]]
        for what, paper in zip(
            ("train", "test", "features", "classes"), (train, test, features, classes), strict=True
        ):
            cells.append(f"{ours[what]:,}" + (f" ({paper:,})" if ours[what] != paper else ""))
        rows.append([*cells, f"{batch}", f"{drawn}", f"{iterations:,}"])
    columns = ["data", "train", "test", "features", "classes", "|B|", "|S|", "iterations"]
    text = (
        "The paper's number is in brackets where it differs: the paper has another split of the "
        "rows of Bibtex, and test rows with a label that no training row has are left out here. "
        "EURLex-4K and AmazonCat-13K were not available."
    )
    return Section("Data and settings (Table 1)", text, [Table("Data", columns, rows)])


def _times(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for name, title in ({"": "no features (section 4.1)"} | TITLES).items():
        cells = [title]
        for method, paper in zip(METHODS, PAPER_EPOCH[name], strict=True):
            result = only(outcomes, "table 2", data=name, method=method)
            ours = None if result is None else result["seconds_per_epoch"]
            cells += [number(ours, ".3f"), number(paper, ".3g"), ratio(paper, ours, ".1f")]
        if any(where(outcomes, "table 2", data=name)):
            rows.append(cells)
    columns = ["seconds an epoch"]
    for method in METHODS:
        columns += [NAMES[method], "paper", "paper / ours"]
    text = (
        "One thread. The paper does not name its machine: read the ratios as orders of magnitude."
    )
    return Section("Time (Table 2)", text, [Table("Median seconds an epoch", columns, rows)])


def _published(name: str, method: str) -> tuple[float | None, float | None]:
    if method == EXACT:
        return PAPER_EXACT[name]
    return PAPER[name][METHODS.index(method.removesuffix(PRINTED))]


def _predictive(outcomes: Sequence[Outcome]) -> Section:
    rows = []
    for outcome in where(outcomes, "table 3"):
        name, method = outcome.trial.data, outcome.trial.settings["method"]
        likelihood, accuracy = _published(name, method)
        result = outcome.result
        rows.append(
            [
                f"{TITLES[name]}, {method}",
                number(result["log_likelihood"], ".3f"),
                number(result.get("importance_sampled"), ".3f"),
                number(likelihood, ".3f"),
                percent(result["accuracy"], 1),
                percent(accuracy, 1),
                f"{result['seconds_per_epoch'] * outcome.trial.settings['epochs']:.1f}",
            ]
        )
    columns = ["data, method", "test log-lik.", "by 1,000 draws", "paper", "accuracy, %", "paper"]
    text = (
        "“By 1,000 draws” is the paper's importance sampler for probit and logistic noise; the "
        "figure before it is the exact integral. “As printed” takes the paper's local steps of "
        "size 0.01 (1 + t)^-0.9, which hardly change the variational parameters; the other rows "
        "take natural-gradient steps. Exact softmax is full-softmax SGD at its automatic rate for "
        "as many epochs. Bibtex has more parameters than rows: there the test likelihood depends "
        "on how far the fit gets before it overfits, and the paper does not say how far it went."
    )
    return Section("Prediction (Table 3)", text, [Table("Test rows", [*columns, "s"], rows)])


def _bounds(outcomes: Sequence[Outcome]) -> Section:
    plots = []
    for name, title in TITLES.items():
        curves = []
        for method in ("OVE", "softmax"):
            result = only(outcomes, "table 3", data=name, method=method)
            if result is not None:
                x = {"seconds": result["seconds"], "epochs": result["epochs"]}
                curves.append(Curve(NAMES[method], x, result["bound"]))
        exact = only(outcomes, "table 3", data=name, method=EXACT)
        if exact is not None and curves:
            level = exact["train_log_likelihood"]
            ends = {axis: [0.0, max(values)] for axis, values in curves[0].x.items()}
            curves.append(Curve("likelihood of exact softmax", ends, [level, level]))
        if curves:
            plots.append(Plot(f"{title}: bound on the training likelihood", "nats a row", curves))
    text = (
        "The bound that each method maximises, on the training rows, over time. A&R's bound is "
        "tighter than that of OVE, and nearly reaches the likelihood of exact softmax."
    )
    return Section("Bounds (Figure 2)", text, plots)


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Return the claims of the paper, compared with the outcomes."""
    rows = []
    for outcome in where(outcomes, "section 4.1", method="softmax"):
        what = "10,000 classes: A&R's bound on the log-likelihood"
        rows.append(measured(what, "-2.62e+06", f"{outcome.result['total_bound']:.3g}"))
    for name, title in TITLES.items():
        result = only(outcomes, "table 3", data=name, method="softmax")
        if result is not None:
            paper = PAPER[name][1]
            what = f"{title}, A&R softmax: test log-likelihood and accuracy"
            ours = f"{result['log_likelihood']:.3f}, {percent(result['accuracy'], 1)} %"
            rows.append(measured(what, f"{paper[0]:.3f}, {percent(paper[1], 1)} %", ours))
    for name, title in TITLES.items():
        result = only(outcomes, "table 2", data=name, method="softmax")
        if result is not None:
            what = f"{title}, A&R softmax: seconds an epoch"
            paper_s = PAPER_EPOCH[name][1]
            rows.append(
                measured(what, number(paper_s, ".3g"), f"{result['seconds_per_epoch']:.3f}")
            )
    return rows


STUDY = Study(
    "augment-reduce",
    "Augment and reduce",
    "Ruiz, Titsias, Dieng and Blei, Augment and reduce: stochastic inference for large categorical "
    "distributions, 2018",
    "The class whose score plus a random error is largest is chosen: Gumbel errors give a softmax, "
    "Gaussian errors a multinomial probit, logistic errors a multinomial logistic model. The paper "
    "keeps the error of the chosen class as a variable (augment); given it, the classes are "
    "independent, and a few of them are enough for a step (reduce).",
    tuple(TITLES),
    trials,
    run,
    sections,
    findings,
)
