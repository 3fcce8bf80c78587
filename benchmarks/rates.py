"""learning_rate="auto" of every linear solver against the best of a grid of rates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import normalize

from benchmarks import datasets
from benchmarks.harness import markdown
from monro import LinearClassifier, LinearRegressor
from monro.errors import DivergenceError
from monro.linear.solvers import solvers_that
from monro.losses import CLASSIFICATION

_SOLVERS = solvers_that(lambda traits: traits.takes_rate)
_ROWS = 20_000  # at most, for most problems
_POWERS = np.arange(-7, 5)  # of √10: the rates of the grid, in units of 1 / mean ‖x‖²
_WITHIN = 1.03
Rows = tuple[Any, np.ndarray]


class Case(NamedTuple):
    """A problem of the panel."""

    name: str
    rows: Callable[[int], Rows]  # for at most this many rows
    loss: str
    alpha: float
    powers: Any = _POWERS
    most: int = _ROWS
    epochs: int = 10


# ------------------------------------------------------------------------------------- real rows


def real(load: Callable[[], datasets.Data], positive: Callable[[Any], Any]) -> Any:
    """Return a loader of some training rows of a data set, with labels −1 and 1."""

    def rows(most: int) -> Rows:
        data = load()
        picked = np.random.default_rng(0).permutation(data.y.size)[:most]
        return data.X[np.sort(picked)], np.where(positive(data.y[np.sort(picked)]), 1.0, -1.0)

    return rows


def signs(y: np.ndarray) -> np.ndarray:
    return y > 0


rcv1 = real(datasets.rcv1, signs)
covtype = real(datasets.covtype, signs)
a9a = real(datasets.a9a, signs)
w8a = real(datasets.w8a, signs)
ijcnn1 = real(datasets.ijcnn1, signs)
reuters = real(datasets.reuters_moneyfx, signs)
news20 = real(datasets.news20_groups, lambda y: (y >= 1) & (y <= 5))  # the groups on computers
mnist = real(datasets.mnist, lambda y: y % 2 == 0)


# -------------------------------------------------------------------------------- generated rows


def labels(scores: np.ndarray, flipped: float, rng: np.random.Generator) -> np.ndarray:
    """Return the side of the median on which each score lies; some labels are flipped."""
    y = np.where(scores > np.median(scores), 1.0, -1.0)
    y[rng.random(y.size) < flipped] *= -1.0
    return y


def zipf_counts(width: int, draws: int, noise: float) -> Any:
    """Return a generator of word counts scaled to unit length, word k ∝ 1/(k + 10).

    The labels are the signs of a linear rule that uses a tenth of the words, with noise.
    """

    def rows(n: int) -> Rows:
        X = normalize(datasets.zipf_counts(n, width, draws, np.random.default_rng(0)))
        rng = np.random.default_rng(1)
        scores = X @ (rng.standard_normal(width) * (rng.random(width) < 0.1))
        noisy = scores + noise * scores.std() * rng.standard_normal(n)
        return X, np.where(noisy > 0.0, 1.0, -1.0)

    return rows


def zipf_text(width: int, draws: int, flipped: float) -> Any:
    """Return a generator of tf-idf rows, labelled by a sparse rule, some labels flipped."""

    def rows(n: int) -> Rows:
        rng = np.random.default_rng(3)
        X = datasets.zipf_rows(n, width, draws, seed=2)
        scores = X @ (rng.standard_normal(width) * (rng.random(width) < 0.1))
        return X, labels(scores, flipped, rng)

    return rows


def dense(width: int, flipped: float, skew: float = 0.0, margin: float = 0.0) -> Any:
    """Return a generator of normal features, scaled by exp(skew · normal), labelled linearly."""

    def rows(n: int) -> Rows:
        rng = np.random.default_rng(4)
        X = rng.standard_normal((n, width))
        w = rng.standard_normal(width) / np.sqrt(width)
        y = labels(X @ w, flipped, rng)
        X += margin * y[:, None] * w
        return X * np.exp(skew * rng.standard_normal(width)), y

    return rows


def sparse(width: int, nonzeros: int, flipped: float, scale: float = 1.0) -> Any:
    """Return a generator of rows with features at random, labelled linearly."""

    def rows(n: int) -> Rows:
        rng = np.random.default_rng(5)
        X = sp.random(n, width, nonzeros / width, "csr", rng=rng, data_rvs=rng.standard_normal)
        y = labels(X @ rng.standard_normal(width), flipped, rng)
        return X * scale, y

    return rows


def categories(fields: int, levels: int, rare: float = 0.5) -> Any:
    """Return a generator of one-hot rows, level k with probability ∝ 1/(k + 1)."""

    def rows(n: int) -> Rows:
        rng = np.random.default_rng(6)
        cumulative = np.cumsum(1.0 / (np.arange(levels) + 1.0))
        drawn = np.searchsorted(cumulative, rng.random((n, fields)) * cumulative[-1])
        columns = (drawn + levels * np.arange(fields)).astype(np.int32)
        indptr = np.arange(0, n * fields + 1, fields)
        X = sp.csr_matrix((np.ones(n * fields), columns.ravel(), indptr), (n, fields * levels))
        scores = X @ rng.standard_normal(fields * levels) + rng.logistic(size=n)
        return X, np.where(scores > np.quantile(scores, 1.0 - rare), 1.0, -1.0)

    return rows


def numbers(width: int, noise: str, skew: float = 0.0) -> Any:
    """Return a generator of normal features and a linear target with noise of this law."""

    def rows(n: int) -> Rows:
        rng = np.random.default_rng(7)
        X = rng.standard_normal((n, width))
        p = X @ rng.standard_normal(width) / np.sqrt(width)
        if noise == "poisson":
            y = rng.poisson(np.exp(p)).astype(np.float64)
        else:
            y = p + (rng.standard_normal(n) if noise == "normal" else rng.standard_t(2, n))
        return X * np.exp(skew * rng.standard_normal(width)), y

    return rows


def zipf_numbers(n: int) -> Rows:
    """Return Zipf rows and a linear target with normal noise."""
    rng = np.random.default_rng(8)
    X = datasets.zipf_rows(n, 10_000, 40, seed=3)
    return X, X @ rng.standard_normal(10_000) + rng.standard_normal(n)


# Every second problem, from the first on, was used while the rule was made; the others were not.
PANEL = (
    Case("Zipf counts", zipf_counts(47_000, 75, 0.3), "hinge", 1e-5, np.arange(-5, 3), 200_000, 12),
    Case("Zipf counts, noisy labels", zipf_counts(20_000, 75, 1.0), "log", 1e-6, most=50_000),
    Case("rcv1", rcv1, "hinge", 1e-5),
    Case("rcv1", rcv1, "log", 1e-6),
    Case("covtype", covtype, "log", 1e-5),
    Case("covtype", covtype, "hinge", 1e-6),
    Case("a9a", a9a, "hinge", 1e-5),
    Case("a9a", a9a, "log", 1e-6),
    Case("w8a", w8a, "hinge", 1e-4),
    Case("w8a", w8a, "squared_hinge", 1e-6),
    Case("ijcnn1", ijcnn1, "log", 1e-5),
    Case("ijcnn1", ijcnn1, "hinge", 1e-5),
    Case("20 newsgroups", news20, "hinge", 1e-5),
    Case("20 newsgroups", news20, "log", 1e-4),
    Case("Reuters money-fx", reuters, "log", 1e-5),
    Case("Reuters money-fx", reuters, "hinge", 1e-4),
    Case("MNIST, even or odd", mnist, "log", 1e-4, most=5_000),
    Case("MNIST, even or odd", mnist, "squared_hinge", 1e-5, most=5_000),
    Case("dense, separable", dense(20, 0.0, margin=1.0), "hinge", 1e-3),
    Case("dense, a third flipped", dense(20, 0.33), "log", 1e-3),
    Case("dense, unequal scales", dense(30, 0.1, skew=1.0), "hinge", 1e-5),
    Case("dense, unequal scales", dense(30, 0.1, skew=1.0), "log", 1e-4),
    Case("sparse, noisy", sparse(2_000, 20, 0.1), "hinge", 1e-6),
    Case("sparse, noisy", sparse(2_000, 20, 0.1), "squared_hinge", 1e-5),
    Case("dense, labels at random", dense(20, 0.5), "log", 1e-5),
    Case("dense, labels at random", dense(20, 0.5), "hinge", 1e-4),
    Case("Zipf text", zipf_text(10_000, 40, 0.0), "hinge", 1e-4),
    Case("Zipf text", zipf_text(10_000, 40, 0.0), "log", 1e-5),
    Case("Zipf text, noisy labels", zipf_text(10_000, 40, 0.1), "squared_hinge", 1e-5),
    Case("Zipf text, noisy labels", zipf_text(10_000, 40, 0.1), "hinge", 1e-7),
    Case("categories", categories(10, 100), "hinge", 1e-6),
    Case("categories", categories(10, 100), "log", 1e-7),
    Case("categories, 2 % positive", categories(10, 100, 0.02), "log", 1e-5),
    Case("categories, 2 % positive", categories(10, 100, 0.02), "squared_hinge", 1e-6),
    Case("1,000 rows, 50 features", dense(50, 0.1), "log", 1e-3, most=1_000),
    Case("1,000 rows, 50 features", dense(50, 0.1), "hinge", 1e-4, most=1_000),
    Case("sparse, times 100", sparse(500, 20, 0.1, scale=100.0), "log", 1e-3),
    Case("sparse, divided by 100", sparse(500, 20, 0.1, scale=0.01), "hinge", 1e-7),
    Case("linear, normal noise", numbers(20, "normal"), "squared", 1e-4),
    Case("linear on Zipf text", zipf_numbers, "squared", 1e-5),
    Case("linear, heavy tails", numbers(20, "heavy", skew=1.0), "huber", 1e-5),
    Case("linear, heavy tails", numbers(20, "heavy"), "absolute", 1e-4),
    Case("counts", numbers(10, "poisson"), "poisson", 1e-4),
    Case("linear, unequal scales", numbers(20, "normal", skew=1.0), "squared", 1e-6),
)


# ---------------------------------------------------------------------------------------- running

_LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "hinge": lambda p, y: np.maximum(0.0, 1.0 - y * p),
    "squared_hinge": lambda p, y: np.maximum(0.0, 1.0 - y * p) ** 2,
    "log": lambda p, y: np.logaddexp(0.0, -y * p),
    "squared": lambda p, y: 0.5 * (p - y) ** 2,
    "absolute": lambda p, y: np.abs(p - y),
    "huber": lambda p, y: np.where(abs(p - y) < 1.0, 0.5 * (p - y) ** 2, abs(p - y) - 0.5),
    "poisson": lambda p, y: np.exp(p) - y * p,
}


def objective(case: Case, model: Any, X: Any, y: np.ndarray) -> float:
    """Return the training objective of a fitted model."""
    w = model.coef_.ravel()
    loss = _LOSSES[case.loss](X @ w + model.intercept_, y)
    return float(loss.mean() + case.alpha / 2 * w @ w)


def fitted(case: Case, X: Any, y: np.ndarray, **settings: Any) -> Any:
    """Return a model of a problem."""
    make: Any = LinearClassifier if case.loss in CLASSIFICATION else LinearRegressor
    model = make(
        loss=case.loss, alpha=case.alpha, max_epochs=case.epochs, random_state=0, **settings
    )
    return model.fit(X, y)


def compare(case: Case, solver: str, X: Any, y: np.ndarray, unit: float) -> dict[str, Any]:
    """Return the automatic rate, the best of the grid, and the objectives with both."""
    auto = fitted(case, X, y, solver=solver)
    best, best_rate = np.inf, np.nan
    for power in case.powers:
        rate = unit * 10.0 ** (power / 2)
        try:
            value = objective(case, fitted(case, X, y, solver=solver, learning_rate=rate), X, y)
        except DivergenceError:
            continue
        if value < best:
            best, best_rate = value, rate
    value = objective(case, auto, X, y)
    return {
        "solver": solver,
        "auto_rate": auto.learning_rate_ / unit,
        "auto": value,
        "best_rate": best_rate / unit,
        "best": best,
        "ratio": value / best,
    }


def beside_sgdclassifier(case: Case, X: Any, y: np.ndarray) -> dict[str, float]:
    """Return the objectives of SGDClassifier and of sgd on one and two threads."""
    peer = SGDClassifier(alpha=case.alpha, tol=None, max_iter=case.epochs, random_state=0)
    found = {"SGDClassifier": objective(case, peer.fit(X, y), X, y)}
    for jobs in (1, 2):
        model = fitted(case, X, y, solver="sgd", n_jobs=jobs)
        found[f"sgd, {jobs} thread{'s' * (jobs > 1)}"] = objective(case, model, X, y)
    return found


def run(*, quick: bool) -> dict[str, Any]:
    cases = [
        case._replace(most=1_000, powers=case.powers[::4], epochs=3) if quick else case
        for case in (PANEL[:4] if quick else PANEL)
    ]
    results = []
    peers: dict[str, float] = {}
    for k, case in enumerate(cases):
        X, y = case.rows(case.most)
        unit = X.shape[0] / float((X.multiply(X) if sp.issparse(X) else X * X).sum())
        results.append(
            {
                "problem": f"{case.name}, {case.loss.replace('_', ' ')}, alpha={case.alpha:.0e}",
                "half": "unseen" if k % 2 else "seen",
                "rows": X.shape[0],
                "features": X.shape[1],
                "solvers": [compare(case, solver, X, y, unit) for solver in _SOLVERS],
            }
        )
        if k == 0:
            peers = beside_sgdclassifier(case, X, y)
    return {"panel": results, "peers": peers}


def table(result: dict[str, Any]) -> str:
    header = ["solver"]
    columns = [[found["solver"] for found in result["panel"][0]["solvers"]]]
    beyond = []
    for half in ("seen", "unseen"):
        cases = [case for case in result["panel"] if case["half"] == half]
        header += [f"{half}: worst", "median", f"within 3 % of {len(cases)}"]
        ratios = np.array([[found["ratio"] for found in case["solvers"]] for case in cases])
        columns.append([f"{ratio:.3f}" for ratio in ratios.max(axis=0)])
        columns.append([f"{ratio:.3f}" for ratio in np.median(ratios, axis=0)])
        columns.append([str(count) for count in (ratios <= _WITHIN).sum(axis=0)])
        for case in cases:
            far = [
                f"{found['solver']} {found['ratio']:.3f}"
                for found in case["solvers"]
                if found["ratio"] > _WITHIN
            ]
            beyond += [f"{case['problem']} ({', '.join(far)})"] if far else []
    text = markdown(header, [list(row) for row in zip(*columns, strict=True)])
    if beyond:
        text += "\n\nBeyond 3 %: " + "; ".join(beyond) + "."
    own = result["peers"]["SGDClassifier"]
    others = ", ".join(
        f"{name} {value:.4f} ({value / own - 1:+.1%})"
        for name, value in result["peers"].items()
        if name != "SGDClassifier"
    )
    return f"{text}\n\n{result['panel'][0]['problem']}: SGDClassifier {own:.4f}, {others}."
