"""The measurements of `cluster`, in a module of their own: making the tables needs no Ray."""

import time
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.cluster import CORES, EPOCHS, KILLS, KILLS_A_RUN, PROBLEMS, WORKERS
from benchmarks.nodes import Cluster, Killer, bytes_moved
from monro import LinearClassifier, SoftmaxClassifier
from monro.blocks import LANES, n_blocks
from monro.ray.datasets import dataset_of
from monro.ray.linear import RayLinearClassifier
from monro.ray.softmax import RaySoftmaxClassifier
from monro.softmax.metrics import losses
from monro.softmax.plan import Plan
from monro.studies.data import bibtex, delicious, next_word, rcv1
from monro.studies.nextword import log_loss as next_word_loss


def _data(name: str, quick: bool) -> tuple[Any, np.ndarray]:
    if name in ("WikiText-2", "PTB"):
        X, y = next_word("wikitext2" if name == "WikiText-2" else "ptb")
    else:
        data = {"Bibtex": bibtex, "Delicious": delicious}[name]()
        X, y = data.X.astype(np.float32), data.y
    return (X[:2000], y[:2000]) if quick else (X, y)


def _log_loss(model: SoftmaxClassifier, X: Any, y: np.ndarray, quick: bool) -> float:
    codes = np.searchsorted(model.classes_, y)
    if X.nnz == X.shape[0] and not quick:  # one-hot: equal rows have equal probabilities
        return next_word_loss(model._fitted.weights, X, codes)
    return float(losses(model._fitted.weights, X, codes, n_jobs=CORES).mean())


def _softmax(name: str, quick: bool) -> dict[str, Any]:
    X, y = _data(name, quick)
    epochs = 3 if quick else EPOCHS[name]
    begin = time.perf_counter()
    alone = SoftmaxClassifier(alpha=0.0, max_epochs=epochs, random_state=0).fit(X, y)
    result: dict[str, Any] = {
        "name": name,
        "rows": y.size,
        "classes": int(alone.classes_.size),
        "features": X.shape[1],
        "nonzeros": X.nnz / y.size,
        "epochs": epochs,
        "alone": {
            "seconds": time.perf_counter() - begin,
            "epoch": alone.history_[-1]["seconds"] / epochs,
            "log_loss": _log_loss(alone, X, y, quick),
        },
        "workers": [],
    }
    dataset = dataset_of(X, y, 8).materialize()
    for workers in WORKERS[: 2 if quick else None]:
        counter = _Counter()
        model = RaySoftmaxClassifier(workers=workers, max_epochs=epochs, random_state=0)
        begin = time.perf_counter()
        model.set_callbacks(counter).fit(dataset, "label", n_features=X.shape[1])
        seconds = time.perf_counter() - begin
        plan = model.plan_
        drawn = _blocks(plan, workers, result["classes"])
        result["workers"].append(
            {
                "workers": workers,
                "seconds": seconds,
                "epoch": model.history_[-1]["seconds"] / epochs,
                "bytes": counter.bytes / max(1, epochs - 1),
                "travel": 8 * y.size * workers * (workers > 1),
                "blocks": drawn * (1 - plan["exact_epochs"] / epochs)
                + n_blocks(result["classes"]) / workers * plan["exact_epochs"] / epochs,
                "log_loss": _log_loss(model.to_local(), X, y, quick),
            }
        )
        print(name, result["alone"], result["workers"][-1], flush=True)
    return result


def _blocks(plan: dict[str, Any], workers: int, n_classes: int) -> float:
    """Return the number of blocks that a visit of a row draws."""
    if Plan(**plan).uses_all_classes:
        return n_blocks(n_classes) / workers
    return max(2, -(-plan["classes"] // (LANES * workers)))


class _Counter:
    """Counts bytes from the end of the first epoch to the end of the last."""

    bytes = 0

    def setup(self, estimator: Any, context: Any) -> None:
        self.first: int | None = None

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, **seen: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, **seen: Any) -> None:
        if context.task_name != "epoch":
            return
        now = bytes_moved()
        self.first = now if self.first is None else self.first
        self.bytes = now - self.first


def _faults(quick: bool) -> dict[str, Any]:
    """Kill workers at random in several runs; compare the weights bit by bit."""
    X, y = _data("Delicious", quick)
    dataset = dataset_of(X, y, 8).materialize()
    settings = {"workers": 2, "max_epochs": 30, "random_state": 0, "learning_rate": 30.0}

    def fit() -> tuple[RaySoftmaxClassifier, SoftmaxClassifier]:
        model = RaySoftmaxClassifier(max_failures=20, **settings)
        model.fit(dataset, "label", n_features=X.shape[1])
        return model, model.to_local()

    begin = time.perf_counter()
    expected = fit()[1].coef_
    undisturbed = time.perf_counter() - begin
    killed, runs = 0, []
    while killed < (2 if quick else KILLS):
        begin = time.perf_counter()
        with Killer(len(runs), KILLS_A_RUN, undisturbed / 3) as killer:
            model, local = fit()
        killed += killer.killed
        runs.append(
            {
                "killed": killer.killed,
                "losses": model.losses_,
                "seconds": time.perf_counter() - begin,
                "same": bool(np.array_equal(local.coef_, expected)),
            }
        )
        print(runs[-1], flush=True)
    return {"undisturbed": undisturbed, "killed": killed, "runs": runs}


def _linear(quick: bool) -> list[dict[str, Any]]:
    data = rcv1()
    n = 2000 if quick else data.y.size
    X, y = data.X[:n].astype(np.float32), data.y[:n]
    dataset = dataset_of(X, y, 8).materialize()

    def objective(model: Any, loss: str, alpha: float) -> float:
        margin = np.where(y == model.classes_[1], 1, -1) * model.decision_function(X)
        each = np.logaddexp(0.0, -margin) if loss == "log" else np.maximum(0.0, 1.0 - margin)
        return float(each.mean() + alpha / 2 * (model.coef_**2).sum())

    results = []
    for loss, alpha in PROBLEMS[: 1 if quick else None]:
        settings = {"loss": loss, "alpha": alpha, "random_state": 0}
        alone = LinearClassifier(**settings).fit(X, y)
        row = {"loss": loss, "alpha": alpha, "alone": objective(alone, loss, alpha), "workers": {}}
        for workers in WORKERS[1 : 2 if quick else None]:
            model = RayLinearClassifier(workers=workers, **settings)
            model.fit(dataset, "label", n_features=X.shape[1])
            row["workers"][str(workers)] = objective(model.to_local(), loss, alpha)
        results.append(row)
        print(row, flush=True)
    return results


def _cost(sets: list[dict[str, Any]], other: dict[str, Any]) -> dict[str, Any]:
    """Fit core seconds to the rows and weights touched; predict the data set `other`."""

    def terms(data: dict[str, Any], run: dict[str, Any]) -> list[float]:
        visits = data["rows"] * run["workers"]
        return [visits, visits * run["blocks"] * data["nonzeros"], 4.0 * run["workers"] ** 2]

    def busy(run: dict[str, Any]) -> float:
        return run["epoch"] * min(run["workers"], CORES)

    pairs = [(data, run) for data in sets for run in data["workers"]]
    A = np.array([terms(*pair) for pair in pairs])
    b = np.array([busy(run) for _, run in pairs])
    # Minimise relative errors, so that data sets of all sizes count alike.
    found, _ = nnls(A / b[:, None], np.ones(b.size))
    predicted = [float(np.dot(terms(other, run), found)) for run in other["workers"]]
    return {
        "row": found[0],
        "block": found[1],
        "call": found[2],
        "fitted": [
            {"name": d["name"], "workers": r["workers"], "ratio": float(t @ found / busy(r))}
            for (d, r), t in zip(pairs, A, strict=True)
        ],
        "predicted": [
            {
                "workers": run["workers"],
                "predicted": seconds / min(run["workers"], CORES),
                "measured": run["epoch"],
            }
            for run, seconds in zip(other["workers"], predicted, strict=True)
        ],
    }


def measure(*, quick: bool) -> dict[str, Any]:
    names = ["Bibtex", "Delicious"] if quick else list(EPOCHS)
    with Cluster(cpus=2):
        sets = [_softmax(name, quick) for name in names]
        faults = _faults(quick)
        linear = _linear(quick)
    *fitted, other = sets
    return {"sets": sets, "cost": _cost(fitted, other), "faults": faults, "linear": linear}
