"""Paper 001 redone: its synthetic classes, its Tables 2 and 3, and choices of known coefficients.

Settings and steps are the paper's, for one-vs-each, too; "as printed" has also its local steps for
probit and logistic, which hardly move. Likelihoods are exact, by quadrature where they have to be.
All on one thread.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from benchmarks import datasets, harness
from benchmarks.harness import markdown
from monro import ChoiceModel, SoftmaxClassifier
from monro._jit import lanes_leaf
from monro._math import fast_exp, fast_log
from monro.links import ENTROPY, LINKS
from monro.softmax import variational
from monro.softmax.evaluate import own_log_probability
from monro.softmax.reduce import PlainModel, make_model
from monro.softmax.samplers import FrequencyClasses, StratifiedClasses

PAPER_EPOCH = {  # seconds: OVE, softmax, probit, logistic
    "synthetic": (11.3, 11.8, None, None),
    "MNIST": (0.336, 0.337, 0.431, 0.511),
    "Bibtex": (0.181, 0.188, 0.244, 0.246),
    "Omniglot": (4.47, 4.65, 5.63, 5.57),
}
PAPER = {  # test log-likelihood, accuracy
    "MNIST": ((-0.276, 0.919), (-0.271, 0.924), (-0.302, 0.918), (-0.287, 0.917)),
    "Bibtex": ((-3.300, 0.352), (-3.036, 0.361), (-4.184, 0.346), (-3.151, 0.353)),
    "Omniglot": ((-5.667, 0.179), (-5.171, 0.201), (-7.350, 0.178), (-5.395, 0.184)),
}
SETTINGS = {  # |B|, |S|, iterations
    "MNIST": (500, 1, 35_000),
    "Bibtex": (488, 20, 5_000),
    "Omniglot": (541, 50, 45_000),
}
METHODS = ("OVE", "softmax", "probit", "logistic")
PRINTED = ", as printed"  # Algorithm 2 with the paper's local steps


# ------------------------------------------------------------------- one-vs-each at the same steps


_BOUND_EVERY = 64  # examples: a logarithm costs as much as the step, and no step needs the bound


@lanes_leaf
def _sigmoids(z: np.ndarray, log_c: np.ndarray) -> None:
    """Replace z by ``c σ(z)``, 0 for a class left out."""
    one = z.dtype.type(1.0)
    for d in range(z.size):
        there = one if z[d] > -1e29 else one - one
        z[d] = there * fast_exp(log_c[d]) / (one + fast_exp(-z[d]))


@lanes_leaf
def _each(z: np.ndarray, log_c: np.ndarray) -> Any:
    """Return ``Σ c log σ(-z)``."""
    one = z.dtype.type(1.0)
    bound = z.dtype.type(0.0)
    for d in range(z.size):
        there = one if z[d] > -1e29 else one - one
        softplus = max(z[d], one - one) + fast_log(one + fast_exp(-abs(z[d])))
        bound -= there * fast_exp(log_c[d]) * softplus
    return bound


class OneVsEach(NamedTuple):
    """Eq. 10: ``Σ c_k log σ(s_y - s_k)``, no local variable."""

    def begin(self) -> tuple[float, float]:
        return 1.0, 1.0

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return np.zeros((n, 2))

    def respond(self, z, log_c, memory, i, a, first, second):  # type: ignore[no-untyped-def]
        bound = _BOUND_EVERY * _each(z, log_c) if i % _BOUND_EVERY == 0 else 0.0
        _sigmoids(z, log_c)
        return bound


@contextmanager
def _bound(method: str) -> Iterator[str]:
    """Yield the link to ask for; inside, the method's own local steps are taken."""
    link, *printed = method.split(", ")
    if method == "OVE":
        model: Any = OneVsEach()
    else:
        model = PlainModel(LINKS[link], ENTROPY[link]) if printed else make_model(link)
    with mock.patch.object(variational, "make_model", return_value=model):
        yield "softmax" if method == "OVE" else link


def _fit(method: str, X: Any, y: np.ndarray, **settings: Any) -> tuple[Any, float]:
    """Return a model and its seconds per epoch, their median."""
    with _bound(method) as link:
        model = SoftmaxClassifier(solver="augment-reduce", link=link, random_state=0, **settings)
        model.fit(X, y)
    ends = [0.0] + [record["seconds"] for record in model.history_]
    return model, float(np.median(np.diff(ends)))


# ------------------------------------------------------------------------- section 4.1: no features


def synthetic(quick: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    K, N, iterations = (500, 20_000, 200) if quick else (10_000, 300_000, 500_000)
    p = rng.random(K) ** 2
    p /= p.sum()
    _, y = np.unique(rng.choice(K, N, p=p), return_inverse=True)
    frequency = np.bincount(y) / N
    X = np.empty((N, 0))
    found = []
    for method in ("OVE", "softmax"):
        model, seconds = _fit(
            method, X, y, max_epochs=max(1, iterations * 500 // N), examples_per_step=500,
            classes_per_step=100,
        )  # fmt: skip
        S = model.intercept_.astype(np.float64)
        P = model.predict_proba(X[:1])[0]
        each = np.array([-np.logaddexp(0.0, S - S[k]).sum() + np.log(2.0) for k in range(S.size)])
        found.append(
            {
                "method": method,
                "classes": int(S.size),
                "bound": float(-N * np.mean([r["loss"] for r in model.history_[-10:]])),
                "one_vs_each": float(N * frequency @ each),
                "log_likelihood": float(N * frequency @ np.log(P)),
                "maximum": float(N * frequency @ np.log(frequency)),
                "mean_error": float(abs(P - frequency).mean()),
                "seconds_per_epoch": seconds,
            }
        )
    return found


# ----------------------------------------------------------------------------------- Tables 2 and 3


def _raw(name: str) -> datasets.Data:
    """Return the rows as the paper has them: pixels from 0 to 1, features as they are."""
    return {"MNIST": datasets.mnist, "Bibtex": datasets.bibtex, "Omniglot": datasets.omniglot}[
        name
    ](scaled=False)


def predictive(name: str, data: datasets.Data, quick: bool) -> list[dict[str, Any]]:
    """Return test log-likelihood, accuracy and time per epoch of each method on one set."""
    examples, classes, iterations = SETTINGS[name]
    epochs = 2 if quick else max(1, round(iterations * examples / data.y.size))
    known = np.isin(data.test_y, np.unique(data.y))
    test_X, test_y = data.test_X[known], data.test_y[known]
    found = []
    # On Omniglot each would take another quarter of an hour.
    printed = () if name == "Omniglot" else ("probit" + PRINTED, "logistic" + PRINTED)
    for method in (*METHODS, *printed):
        begin = time.perf_counter()
        model, seconds = _fit(
            method, data.X, data.y, max_epochs=epochs, examples_per_step=examples,
            classes_per_step=classes,
        )  # fmt: skip
        row = {"set": name, "method": method, "epochs": epochs, "seconds_per_epoch": seconds}
        row["seconds"] = time.perf_counter() - begin
        row["log_likelihood"] = -model.log_loss(test_X, test_y)
        if method not in ("OVE", "softmax"):
            row["importance_sampled"] = -model.log_loss(test_X, test_y, draws=1000)
        row["accuracy"] = float(model.score(test_X, test_y))
        row["left_out"] = int((~known).sum())
        found.append(row)
    return found


# ------------------------------------------------------------------- utilities that somebody drew


def known_coefficients(quick: bool) -> list[dict[str, Any]]:
    """Return how near fits come to the coefficients that choices were made with."""
    sizes = [(5, 2_000)] if quick else [(30, 100_000), (2_000, 300_000)]
    return [_simulated(link, *size) for link in ("softmax", "probit", "logistic") for size in sizes]


def _simulated(link: str, n_classes: int, n: int, d: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    laws = {"softmax": rng.gumbel, "probit": rng.standard_normal, "logistic": rng.logistic}
    X = rng.standard_normal((n + 1000, d))
    W, b = 0.5 * rng.standard_normal((n_classes, d)), 0.3 * rng.standard_normal(n_classes)
    y = np.concatenate(
        [
            np.argmax(part @ W.T + b + laws[link](size=(len(part), n_classes)), axis=1)
            for part in np.array_split(X, max(1, n * n_classes // 10**7))
        ]
    )
    test_X, test_y = X[n:], y[n:]
    model = SoftmaxClassifier(
        solver="augment-reduce", link=link, classes=np.arange(n_classes), random_state=0,
        examples_per_step=n // 60, classes_per_step=min(20, n_classes - 1), learning_rate=1.0,
        max_epochs=20,
    )  # fmt: skip
    begin = time.perf_counter()
    model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - begin
    true, fitted = W - W.mean(axis=0), model.coef_ - model.coef_.mean(axis=0)
    P = model.predict_proba(test_X)
    calibration = _calibration(P, test_y)
    return {
        "link": link,
        "alternatives": n_classes,
        "choices": n,
        "seconds": seconds,
        "correlation": float(np.corrcoef(true.ravel(), fitted.ravel())[0, 1]),
        "slope": float((true * fitted).sum() / (true * true).sum()),
        "log_loss": model.log_loss(test_X, test_y),
        "true_log_loss": _true_loss(link, test_X @ W.T + b, test_y),
        "calibration": calibration,
    }


def _true_loss(link: str, S: np.ndarray, y: np.ndarray) -> float:
    return float(-own_log_probability(np.ascontiguousarray(S), y, link).mean())


def _calibration(P: np.ndarray, y: np.ndarray, bins: int = 10) -> list[dict[str, float]]:
    """Return the mean probability and the share of choices, by tenths of the total probability."""
    flat, hit = P.ravel(), np.zeros(P.shape, bool)
    hit[np.arange(y.size), y] = True
    order = np.argsort(flat)
    total = np.cumsum(flat[order])
    at = np.searchsorted(total, np.linspace(0.0, total[-1], bins + 1)[1:-1])
    parts = np.split(order, at)
    return [
        {"predicted": float(flat[part].sum()), "chosen": float(hit.ravel()[part].sum())}
        for part in parts
    ]


def conditional_logit() -> dict[str, Any]:
    """Return a small conditional logit beside statsmodels' maximum likelihood."""
    try:
        from statsmodels.discrete.conditional_models import ConditionalLogit
    except ImportError:
        raise SystemExit("this compares with statsmodels: pip install statsmodels") from None

    rng = np.random.default_rng(0)
    n, k = 1000, 4
    X = rng.standard_normal((n * k, 3))
    utility = (X @ [1.0, -0.5, 0.25] + rng.gumbel(size=n * k)).reshape(n, k)
    chosen = (utility == utility.max(axis=1, keepdims=True)).ravel()
    situation = np.repeat(np.arange(n), k)
    peer = ConditionalLogit(chosen.astype(int), X, groups=situation).fit(disp=0)
    frame = {"situation": situation, "alternative": np.tile(np.arange(k), n), "chosen": chosen}
    frame |= {f"x{j}": X[:, j] for j in range(3)}
    model = ChoiceModel(constants=False).fit(frame)
    table = model.summary()
    return {
        "coefficients": model.coef_.tolist(),
        "statsmodels": peer.params.tolist(),
        "std_errors": table.std_error.tolist(),
        "statsmodels_std_errors": peer.bse.tolist(),
        "largest_difference": float(abs(model.coef_ - peer.params).max()),
    }


# ---------------------------------------------------------------------------- sampling by frequency


def sampling_variance(quick: bool) -> list[dict[str, Any]]:
    """Return the variance of a step's gradient, classes drawn by frequency and all alike.

    At the weights of a short fit: of each row's gradient in its scores, ``g_k`` and their sum, the
    mean over rows of the summed variances.
    """
    found = []
    for name, load in (("Bibtex", datasets.bibtex), ("Delicious", datasets.delicious)):
        data = load()
        model = SoftmaxClassifier(random_state=0, max_epochs=2 if quick else 10)
        model.fit(data.X, data.y)
        rng = np.random.default_rng(0)
        rows = rng.choice(data.y.size, 20 if quick else 200, replace=False)
        P = model.predict_proba(data.X[rows])
        y = np.searchsorted(model.classes_, data.y[rows]).astype(np.int32)
        counts = np.bincount(np.searchsorted(model.classes_, data.y))
        n_classes = counts.size
        P[np.arange(y.size), y] = 0.0
        samplers = {
            "uniform": StratifiedClasses(n_classes, 20, n_classes, "float64"),
            "frequency": FrequencyClasses((counts + 1) / (counts + 1).sum(), 20, "float64"),
        }
        result: dict[str, Any] = {"set": name, "classes": int(n_classes)}
        for kind, sampler in samplers.items():
            sums = np.zeros((2, y.size, n_classes + 1))
            draws = 20 if quick else 500
            for _ in range(draws):
                drawn = sampler.draw(rows, y, rng)
                G = np.zeros((y.size, n_classes + 1))
                at = np.arange(y.size)[:, None]
                there = drawn.chosen >= 0
                np.add.at(G, (at, drawn.chosen), there * np.exp(drawn.log_weight))
                G[:, :n_classes] *= P
                G[:, n_classes] = G[:, :n_classes].sum(axis=1)
                sums += G, G**2
            mean, square = sums / draws
            result[kind] = float((square - mean**2).sum(axis=1).mean())
        result["ratio"] = result["uniform"] / result["frequency"]
        found.append(result)
    return found


def run(*, quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"variance": sampling_variance(quick)}
    result["simulated"] = known_coefficients(quick)
    if not quick:
        result["conditional_logit"] = conditional_logit()
    result["synthetic"] = synthetic(quick)
    result["predictive"] = []
    for name in ("Bibtex",) if quick else SETTINGS:
        result["predictive"] += predictive(name, _raw(name), quick)
        harness.save("reduce", result, quick=quick)
    return result


def table(result: dict[str, Any]) -> str:
    tables = {
        "synthetic": _synthetic_table,
        "predictive": _predictive_table,
        "simulated": _simulated_table,
        "variance": _variance_table,
    }
    return "\n\n".join(make(result[name]) for name, make in tables.items() if name in result)


def _synthetic_table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        paper = PAPER_EPOCH["synthetic"][METHODS.index(row["method"])]
        assert paper is not None
        cells.append(
            [
                row["method"],
                f"{row['bound']:,.0f}",
                f"{row['log_likelihood']:,.0f}",
                f"{row['maximum']:,.0f}",
                f"{row['mean_error']:.1e}",
                f"{row['seconds_per_epoch']:.2f}",
                f"{paper:.1f}",
                f"{paper / row['seconds_per_epoch']:.0f}×",
            ]
        )
    header = ["no features", "bound", "log-likelihood", "its maximum", "error of p"]
    return markdown([*header, "s an epoch", "paper's", "ratio"], cells)


def _predictive_table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        at = METHODS.index(row["method"].removesuffix(PRINTED))
        likelihood, accuracy = PAPER[row["set"]][at]
        seconds = PAPER_EPOCH[row["set"]][at]
        cells.append(
            [
                f"{row['set']}, {row['method']}",
                f"{row['log_likelihood']:.3f}",
                f"{likelihood:.3f}",
                f"{row['accuracy']:.3f}",
                f"{accuracy:.3f}",
                f"{row['seconds_per_epoch']:.3f}",
                f"{seconds:.3f}",
            ]
        )
    header = ["test rows", "log-likelihood", "paper's", "accuracy", "paper's"]
    return markdown([*header, "s an epoch", "paper's"], cells)


def _simulated_table(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            f"{row['link']}, {row['alternatives']:,} alternatives",
            f"{row['correlation']:.4f}",
            f"{row['slope']:.3f}",
            f"{row['log_loss']:.4f}",
            f"{row['true_log_loss']:.4f}",
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    header = ["known coefficients", "correlation", "slope", "log-loss", "of the true ones", "s"]
    return markdown(header, cells)


def _variance_table(rows: list[dict[str, Any]]) -> str:
    cells = [
        [row["set"], f"{row['uniform']:.2f}", f"{row['frequency']:.2f}", f"{row['ratio']:.1f}×"]
        for row in rows
    ]
    header = ["variance of a step, 20 classes", "all alike", "by frequency", "ratio"]
    return markdown(header, cells)
