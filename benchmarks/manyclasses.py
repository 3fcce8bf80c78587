"""Time to equal train log-loss: that of `fit`, including the search for a learning rate.

Each learner runs from scratch with growing budgets of epochs; its time is that of the first budget
whose exact log-loss on the training rows reaches the target: the median of three more. PyTorch
runs the full softmax with Adam on mini-batches, at the best of three learning rates, which are not
counted. All on one thread. If a peer does not reach the target in a minute or two, the log-loss it
reached is reported.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from benchmarks import datasets, harness
from benchmarks.blocks import rows
from benchmarks.harness import markdown
from monro import SoftmaxClassifier
from monro.softmax.metrics import losses
from monro.softmax.model import Weights

TARGETS = {
    "Bibtex": 0.05,
    "Delicious": 2.35,
    "MNIST": 0.25,
    "20news": 0.02,
    "RCV1 topics": 0.05,
    "Omniglot": 1.0,
}
SETS = {
    "Bibtex": datasets.bibtex,
    "Delicious": datasets.delicious,
    "MNIST": datasets.mnist,
    "20news": datasets.news20_groups,
    "RCV1 topics": datasets.rcv1_topics,
    "Omniglot": datasets.omniglot,
}
EPOCHS = [2, 3, 4, 5, 8, 12, 16, 20, 25, 30, 40, 50]
ITERATIONS = [20, 50, 100, 150, 200, 300, 400]
LONGEST = 90.0  # seconds to search for the budget of a learner
REPEATS = 3  # of fits that take less than LONGEST / REPEATS

Fit = Callable[[int], tuple[float, float]]


def _monro(data: datasets.Data, **settings: Any) -> Fit:
    def fit(budget: int) -> tuple[float, float]:
        model = SoftmaxClassifier(alpha=0.0, max_epochs=budget, random_state=0, **settings)
        begin = time.perf_counter()
        model.fit(data.X, data.y)
        return time.perf_counter() - begin, model.log_loss(data.X, data.y)

    return fit


def _scikit_learn(data: datasets.Data, solver: str) -> Fit:
    def fit(budget: int) -> tuple[float, float]:
        model = LogisticRegression(C=np.inf, solver=solver, max_iter=budget, tol=1e-8)
        begin = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - begin
        k = model.classes_.size
        weights = Weights(model.coef_, model.intercept_, np.ones(k), np.arange(k))
        return seconds, float(
            losses(weights, data.X, np.searchsorted(model.classes_, data.y)).mean()
        )

    return fit


def _torch(data: datasets.Data, rate: float) -> Fit:
    try:
        import torch
    except ImportError:
        raise SystemExit("this benchmark compares with PyTorch: pip install torch") from None

    torch.set_num_threads(1)
    classes, codes = np.unique(data.y, return_inverse=True)
    y = torch.from_numpy(codes)
    n, d = data.X.shape
    size = 256

    def fit(budget: int) -> tuple[float, float]:
        torch.manual_seed(0)
        begin = time.perf_counter()
        W = torch.zeros(d, classes.size, requires_grad=True)
        b = torch.zeros(classes.size, requires_grad=True)
        optimizer = torch.optim.Adam([W, b], lr=rate)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.01 ** (1 / budget))
        X = data.X.astype(np.float32)
        X = X if sp.issparse(X) else torch.from_numpy(X)
        for _ in range(budget):
            order = np.random.default_rng(0).permutation(n)
            for start in range(0, n, size):
                batch = order[start : start + size]
                if sp.issparse(X):
                    part = X[batch]
                    scores = torch.nn.functional.embedding_bag(
                        torch.from_numpy(part.indices.astype(np.int64)),
                        W,
                        torch.from_numpy(part.indptr[:-1].astype(np.int64)),
                        mode="sum",
                        per_sample_weights=torch.from_numpy(part.data),
                    )
                else:
                    scores = X[batch] @ W
                loss = torch.nn.functional.cross_entropy(scores + b, y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            schedule.step()
        seconds = time.perf_counter() - begin
        k = classes.size
        coef = np.ascontiguousarray(W.detach().numpy().T)
        weights = Weights(coef, b.detach().numpy(), np.ones(k), np.arange(k))
        return seconds, float(losses(weights, data.X, codes).mean())

    return fit


def _search(fit: Fit, budgets: list[int], target: float) -> dict[str, Any]:
    """Return the first budget that reaches the target and its time, or else the best log-loss."""
    best, total = np.inf, 0.0
    for budget in budgets:
        seconds, loss = fit(budget)
        best, total = min(best, loss), total + seconds
        if loss <= target:
            return {"budget": budget, "log_loss": loss, "seconds": seconds}
        if total > LONGEST:
            break
    return {"budget": None, "log_loss": best, "seconds": None}


def compare(name: str, data: datasets.Data, quick: bool = False) -> list[dict[str, Any]]:
    """Return the budget and time that each learner needs on one data set."""
    target = 2.0 if quick else TARGETS[name]
    fits: dict[str, tuple[Fit, list[int]]] = {
        "monro": (_monro(data), EPOCHS),
        "LogisticRegression, lbfgs": (_scikit_learn(data, "lbfgs"), ITERATIONS),
    }
    if not quick:
        if name != "Omniglot":  # an epoch takes minutes
            fits["LogisticRegression, saga"] = (_scikit_learn(data, "saga"), EPOCHS)
        rates = [(_torch(data, rate), rate) for rate in (0.01, 0.03, 0.1)]
        best = min(rates, key=lambda pair: pair[0](5)[1])
        fits[f"PyTorch, full softmax, Adam({best[1]:g})"] = (best[0], EPOCHS)
    _monro(data)(1)  # compiles
    found = {learner: _search(fit, budgets, target) for learner, (fit, budgets) in fits.items()}
    times: dict[str, list[float]] = {learner: [] for learner in fits}
    for _ in range(1 if quick else REPEATS):
        for learner, (fit, _) in fits.items():
            known = found[learner]
            if known["budget"] is not None and known["seconds"] < LONGEST / REPEATS:
                times[learner].append(fit(known["budget"])[0])
    for learner, seconds in times.items():
        if seconds:
            found[learner]["seconds"] = statistics.median(seconds)
    return [{"set": name, "target": target, "learner": k} | row for k, row in found.items()]


def run(*, quick: bool) -> dict[str, Any]:
    results = []
    for name, load in SETS.items():
        if not quick or name == "Bibtex":
            results += compare(name, load(), quick)
            harness.save("manyclasses", {"results": results, "threads": []}, quick=quick)
    return {"results": results, "threads": _threads(quick)}


def _threads(quick: bool) -> list[dict[str, Any]]:
    """Return the time of an epoch on one thread and on two, on synthetic rows."""
    found = []
    for n_classes in (10**4,) if quick else (10**4, 10**5):
        X, y = rows(20_000 if quick else 200_000, n_classes)
        for _ in range(1 if quick else 3):
            for jobs in (1, 2):
                model = SoftmaxClassifier(
                    alpha=0.0, learning_rate=1.0, max_epochs=5, n_jobs=jobs, random_state=0
                ).fit(X, y)
                seconds = float(np.median(np.diff([r["seconds"] for r in model.history_])))
                loss = model.log_loss(X[:500], y[:500])
                name = f"{n_classes:,} classes"
                found.append({"set": name, "jobs": jobs, "seconds": seconds, "log_loss": loss})
    return found


def _summary(results: list[dict[str, Any]]) -> str:
    """Return a sentence with the times of peers over monro's: geometric mean and minimum."""
    base = {row["set"]: row["seconds"] for row in results if row["learner"] == "monro"}
    ratios: dict[str, list[float]] = {}
    for row in results:
        if "monro" not in row["learner"] and row["seconds"] and base[row["set"]]:
            kind = row["learner"].partition(", ")[0].replace("LogisticRegression", row["learner"])
            ratios.setdefault(kind, []).append(row["seconds"] / base[row["set"]])
    comparisons = [
        f"{kind} {statistics.geometric_mean(values):.1f}× (minimum {min(values):.1f}×, "
        f"{len(values)} of {len(base)} sets)"
        for kind, values in ratios.items()
    ]
    about = "Seconds over monro's, geometric mean of the sets where the target was reached"
    everything = statistics.geometric_mean(value for values in ratios.values() for value in values)
    return f"{about}: {'; '.join(comparisons)}; all together {everything:.1f}×."


def table(result: dict[str, Any]) -> str:
    parts = [_summary(result["results"])]
    for name in dict.fromkeys(row["set"] for row in result["results"]):
        learners = [row for row in result["results"] if row["set"] == name]
        base = learners[0]["seconds"]
        cells = [
            [
                row["learner"],
                "–" if row["budget"] is None else str(row["budget"]),
                f"not reached ({row['log_loss']:.3f})"
                if row["seconds"] is None
                else f"{row['seconds']:.2f}",
                "–" if row["seconds"] is None or not base else f"{row['seconds'] / base:.1f}×",
            ]
            for row in learners
        ]
        header = [f"{name}, to {learners[0]['target']:g}", "epochs", "s", "over monro"]
        parts.append(markdown(header, cells))
    cells = []
    for name in dict.fromkeys(row["set"] for row in result["threads"]):
        epochs = [row for row in result["threads"] if row["set"] == name]
        one, two = (
            statistics.median(row["seconds"] for row in epochs if row["jobs"] == jobs)
            for jobs in (1, 2)
        )
        losses_ = [f"{next(r['log_loss'] for r in epochs if r['jobs'] == j):.4f}" for j in (1, 2)]
        cells.append([name, f"{1e3 * one:.1f}", f"{1e3 * two:.1f}", f"{one / two:.2f}×", *losses_])
    header = ["ms an epoch", "1 thread", "2 threads", "gain", "log-loss, 1", "log-loss, 2"]
    parts.append(markdown(header, cells))
    return "\n\n".join(parts)
