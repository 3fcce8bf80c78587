"""Augment and reduce: known coefficients, classes drawn by frequency, the time of a step.

Likelihoods are exact, for probit and logistic by quadrature. All on one thread.
"""

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets
from benchmarks.harness import markdown
from monro import ChoiceModel, SoftmaxClassifier
from monro.softmax.model import label_log_probability
from monro.softmax.sampling.samplers import FrequencyClasses, StratifiedClasses


def known_coefficients(quick: bool) -> list[dict[str, Any]]:
    """Return the errors of fits to choices that were simulated with known coefficients."""
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
        solver="augment-reduce", link=link, classes=np.arange(n_classes), alpha=0.0, random_state=0,
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
    return float(-label_log_probability(np.ascontiguousarray(S), y, link).mean())


def _calibration(P: np.ndarray, y: np.ndarray, bins: int = 10) -> list[dict[str, float]]:
    """Return the predicted and the actual number of choices, by tenths of the total probability."""
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
    """Compare a small conditional logit with the maximum likelihood of statsmodels."""
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
    """Return the variance of a step's gradient, with classes drawn by frequency and uniformly.

    At the weights of a short fit: the variances of each row's gradient in its scores, ``g_k`` and
    their sum, summed over classes and averaged over rows.
    """
    found = []
    for name, load in (("Bibtex", datasets.bibtex), ("Delicious", datasets.delicious)):
        data = load()
        model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2 if quick else 10)
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
                valid = drawn.chosen >= 0
                np.add.at(G, (at, drawn.chosen), valid * np.exp(drawn.log_weight))
                G[:, :n_classes] *= P
                G[:, n_classes] = G[:, :n_classes].sum(axis=1)
                sums += G, G**2
            mean, square = sums / draws
            result[kind] = float((square - mean**2).sum(axis=1).mean())
        result["ratio"] = result["uniform"] / result["frequency"]
        found.append(result)
    return found


# ------------------------------------------------------------------------------- time of a step


def step_times(quick: bool) -> list[dict[str, Any]]:
    """Return the time of a step on 500 rows of 20 non-zeros and 20 classes, by number of classes.

    Only the weights of the rows and classes of a step are touched; with 1,000 classes, whose
    weights stay in the cache, it is faster to step on all of them, and that is done.
    """
    rng = np.random.default_rng(0)
    n, d, nonzeros = 2_000 if quick else 20_000, 500, 20
    indices = np.sort(np.argsort(rng.random((n, d)), axis=1)[:, :nonzeros], axis=1)
    values = rng.standard_normal(n * nonzeros).astype(np.float32)
    X = sp.csr_matrix((values, indices.ravel(), np.arange(0, n * nonzeros + 1, nonzeros)), (n, d))
    found = []
    for link in ("softmax", "probit"):
        row: dict[str, Any] = {"link": link}
        for n_classes in (100, 1_000) if quick else (1_000, 10_000, 100_000):
            y = rng.integers(n_classes, size=n)
            seconds = _epoch_seconds(X, y, quick, link=link, classes=np.arange(n_classes))
            row[f"{n_classes:,}"] = 1000.0 * seconds / (n // 500)
        found.append(row)
    return found


def epoch_times(quick: bool) -> list[dict[str, Any]]:
    """Return the seconds of an epoch with the paper's sizes of batches (its Tables 1 and 2)."""
    sets = {"Bibtex": (datasets.bibtex, 488, 20), "Omniglot": (datasets.omniglot, 541, 50)}
    found = []
    for name, (load, examples, classes) in list(sets.items())[: 1 if quick else 2]:
        data = load(scaled=False)
        sizes = {"examples_per_step": examples, "classes_per_step": classes}
        row: dict[str, Any] = {"set": name}
        for link in ("softmax", "probit", "logistic"):
            row[link] = _epoch_seconds(data.X, data.y, quick, link=link, **sizes)
        found.append(row)
    return found


def _epoch_seconds(X: Any, y: np.ndarray, quick: bool, **parameters: Any) -> float:
    """Return the median seconds of an epoch."""
    model = SoftmaxClassifier(solver="augment-reduce", alpha=0.0, random_state=0, **parameters)
    model.set_params(max_epochs=1).fit(X[:500], y[:500])  # compiles the kernels
    model.set_params(max_epochs=3 if quick else 9).fit(X, y)
    ends = [record["seconds"] for record in model.history_]
    return float(np.median(np.diff(ends)))


def run(*, quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"variance": sampling_variance(quick)}
    result["simulated"] = known_coefficients(quick)
    result["steps"] = step_times(quick)
    result["epochs"] = epoch_times(quick)
    if not quick:
        result["conditional_logit"] = conditional_logit()
    return result


def table(result: dict[str, Any]) -> str:
    tables = {
        "simulated": _simulated_table,
        "variance": _variance_table,
        "steps": _steps_table,
        "epochs": _epochs_table,
    }
    return "\n\n".join(make(result[name]) for name, make in tables.items() if name in result)


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
    header = ["known coefficients", "correlation", "slope", "log-loss", "true log-loss", "s"]
    return markdown(header, cells)


def _variance_table(rows: list[dict[str, Any]]) -> str:
    cells = [
        [row["set"], f"{row['uniform']:.2f}", f"{row['frequency']:.2f}", f"{row['ratio']:.1f}×"]
        for row in rows
    ]
    header = ["variance of a step, 20 classes", "uniform", "by frequency", "ratio"]
    return markdown(header, cells)


def _steps_table(rows: list[dict[str, Any]]) -> str:
    sizes = [name for name in rows[0] if name != "link"]
    cells = [[row["link"], *(f"{row[size]:.2f}" for size in sizes)] for row in rows]
    return markdown(["ms a step, by number of classes", *sizes], cells)


def _epochs_table(rows: list[dict[str, Any]]) -> str:
    links = [name for name in rows[0] if name != "set"]
    cells = [[row["set"], *(f"{row[link]:.3f}" for link in links)] for row in rows]
    return markdown(["seconds an epoch", *links], cells)
