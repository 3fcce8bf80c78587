"""Log loss with an L1 penalty, no intercept: time to within 1 % of the optimal objective.

Each learner runs from scratch with growing budgets of its iterations; those that solve problems of
their own within an iteration, also with tolerances that are halved again and again. Its time is
that of the first budget whose objective is within 1 %: the median of repeated `fit` calls. The
optimum is the least objective of long runs of all learners; objectives are computed here, in
float64. Zero patterns are compared by Jaccard's index: features that both use over features that
either uses.
"""

import signal
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result
from monro import LinearClassifier


class Case(NamedTuple):
    """A problem: rows, and a strength."""

    load: Callable[[], datasets.Data]
    alpha: float
    positive: float = 1.0  # the label of the positive class


# The strengths for RCV1-CCAT give about the numbers of weights that are named. Weaker ones hardly
# give more: with 4e-7 there are 2,730.
CASES = {
    "RCV1-CCAT at 100": Case(datasets.rcv1, 3.7e-4),
    "RCV1-CCAT at 1000": Case(datasets.rcv1, 3.1e-5),
    "RCV1-CCAT at 2500": Case(datasets.rcv1, 3e-6),
    "a9a": Case(datasets.a9a, 1e-3),
    "20news one class": Case(datasets.news20, 1e-4),
}
MONRO = "monro"
WITHIN = 0.01
TOLERANCE = 1e-12  # of peers that would stop before their budget is spent
BUDGETS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 25, 30, 40, 50, 70, 100]
BUDGETS += [150, 200, 300, 500, 1000]
LONGEST = 20.0  # seconds; a learner slower than this to 1 % is reported as such
REPEATS = 5
LONG_RUN = {MONRO: 200, "LIBLINEAR": 300, "saga": 300, "skglm": 50, "celer": 50}
LONG_RUN |= {"skglm, by tolerance": 40, "celer, by tolerance": 40}
LONG_ENOUGH = 30.0  # seconds; a long run that has taken longer is not made still longer
MOST_SECONDS = 60  # after which a fit is given up
SLOWEST = 3.0  # times the fastest


def cells(quick: bool) -> list[str]:
    return ["a9a"] if quick else list(CASES)


def makers(alpha: float, n: int, quick: bool) -> dict[str, Callable[[int], Any]]:
    """Return for each learner a function from a budget to an estimator."""
    C = 1.0 / (alpha * n)
    scikit_learn = partial(
        LogisticRegression, C=C, l1_ratio=1.0, fit_intercept=False, tol=TOLERANCE, random_state=0
    )
    made: dict[str, Callable[[int], Any]] = {
        MONRO: lambda k: LinearClassifier(
            loss="log", l1_ratio=1.0, alpha=alpha, fit_intercept=False, max_epochs=k, random_state=0
        ),
        "LIBLINEAR": lambda k: scikit_learn(solver="liblinear", max_iter=k),
        "saga": lambda k: scikit_learn(solver="saga", max_iter=k),
    }
    return made | _working_sets(alpha, C, quick)


def _working_sets(alpha: float, C: float, quick: bool) -> dict[str, Callable[[int], Any]]:
    """Return the same for the solvers with working sets, which are not part of scikit-learn."""
    try:
        import celer
        import skglm
    except ImportError:
        if quick:
            return {}  # a smoke test needs no peers
        raise SystemExit("this compares with skglm and celer: pip install skglm celer") from None

    def prox_newton(iterations: int, tolerance: float) -> Any:
        return skglm.SparseLogisticRegression(
            alpha=alpha, tol=tolerance, max_iter=iterations, fit_intercept=False
        )

    def working_sets(iterations: int, tolerance: float) -> Any:
        return celer.LogisticRegression(C=C, tol=tolerance, max_iter=iterations)

    made: dict[str, Callable[[int], Any]] = {}
    for name, make in (("skglm", prox_newton), ("celer", working_sets)):
        made[name] = lambda k, make=make: make(k, TOLERANCE)
        made[f"{name}, by tolerance"] = lambda k, make=make: make(50, 0.5**k)
    return made


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds."""
    fired = []

    def stop(*_: Any) -> None:
        fired.append(True)
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    except SystemError:  # so Numba wraps it
        if fired:
            raise TimeoutError from None
        raise
    finally:
        signal.alarm(0)


def objective(X: Any, y: np.ndarray, w: np.ndarray, alpha: float) -> float:
    """Return the mean log loss, for labels -1 and 1, and the penalty."""
    w = w.astype(np.float64)
    return float(np.logaddexp(0.0, -y * (X @ w)).mean() + alpha * np.abs(w).sum())


def jaccard(v: np.ndarray, w: np.ndarray) -> float:
    """Return the number of weights not zero in both over the number not zero in either."""
    either = int(((v != 0) | (w != 0)).sum())
    return float(((v != 0) & (w != 0)).sum() / either) if either else 1.0


def measure(name: str, *, quick: bool, limit: float) -> Result:
    case = CASES[name]
    data = judging.few(case.load(), 300) if quick else case.load()
    X, y = data.X.tocsr().astype(np.float64), np.where(data.y == case.positive, 1.0, -1.0)

    def fit(make: Callable[[int], Any], budget: int) -> tuple[float, np.ndarray]:
        model = make(budget)
        seconds = judging.seconds_of(lambda: model.fit(X, y))
        return seconds, np.ravel(model.coef_)

    learners = makers(case.alpha, y.size, quick)
    for make in learners.values():
        fit(make, 1)  # compiles
    runs, long = {}, {}
    for peer, make in learners.items():
        most = 20 if quick else LONG_RUN[peer]
        for budget in (most // 8, most // 4, most // 2, most):
            try:
                with at_most(MOST_SECONDS):
                    seconds, long[peer] = fit(make, budget)
            except TimeoutError:
                break
            runs[peer] = budget
            if seconds > LONG_ENOUGH:
                break
    objectives = {peer: objective(X, y, w, case.alpha) for peer, w in long.items()}
    best = min(objectives, key=lambda peer: objectives[peer])
    found = {}
    for peer, make in learners.items():
        row: Result = {"learner": peer, "budget": None, "seconds": None, "gap": np.inf}
        for budget in BUDGETS[:12] if quick else BUDGETS:
            try:
                with at_most(MOST_SECONDS):
                    seconds, w = fit(make, budget)
            except TimeoutError:
                break
            row["gap"] = min(row["gap"], objective(X, y, w, case.alpha) / objectives[best] - 1.0)
            if row["gap"] <= WITHIN:
                row |= {"budget": budget, "nonzeros": int((w != 0).sum())}
                row["jaccard"] = jaccard(w, long[best])
                break
            if seconds > LONGEST:
                break
        if peer in long:
            row["long"] = {
                "budget": runs[peer],
                "gap": objectives[peer] / objectives[best] - 1.0,
                "nonzeros": int((long[peer] != 0).sum()),
                "jaccard": jaccard(long[peer], long[best]),
            }
        print(name, row, flush=True)
        found[peer] = row
    reached = {peer: row["budget"] for peer, row in found.items() if row["budget"]}
    times: dict[str, list[float]] = {peer: [] for peer in reached}
    for _ in range(1 if quick else REPEATS):  # in turns, so that all are exposed to the same noise
        for peer, budget in reached.items():
            times[peer].append(fit(learners[peer], budget)[0])
    for peer, seconds_of_peer in times.items():
        found[peer]["seconds"] = statistics.median(seconds_of_peer)
    nonzeros = int((long[best] != 0).sum())
    optimum = {"objective": objectives[best], "learner": best, "nonzeros": nonzeros}
    return {"alpha": case.alpha, "optimum": optimum, "learners": list(found.values())}


def _line(row: Result, fastest: float) -> list[str]:
    pattern = ["–"] * 3
    if long := row.get("long"):
        pattern = [f"{long['gap']:.1e}", f"{long['nonzeros']:,}", f"{long['jaccard']:.3f}"]
    if row["seconds"] is None:
        off = f"not reached ({row['gap']:.1%} off)" if np.isfinite(row["gap"]) else "not finished"
        return [row["learner"], "–", off, "–", "–", "–", *pattern]
    times = [str(row["budget"]), f"{1000 * row['seconds']:.1f}", f"{row['seconds'] / fastest:.1f}×"]
    return [row["learner"], *times, f"{row['nonzeros']:,}", f"{row['jaccard']:.3f}", *pattern]


def relative_times(rows: list[Result]) -> dict[str, float | None]:
    """Return for each problem monro's time over the fastest peer's; None if nobody has one."""
    found: dict[str, float | None] = {}
    for row in rows:
        times = {one["learner"]: one["seconds"] or np.inf for one in row["learners"]}
        own = times.pop(MONRO)
        fastest = min(times.values())
        found[row["set"]] = own / fastest if np.isfinite([own, fastest]).any() else None
    return found


def table(rows: list[Result]) -> str:
    parts = []
    for row in rows:
        optimum = row["optimum"]
        reached = [one["seconds"] for one in row["learners"] if one["seconds"]]
        fastest = min(reached, default=np.nan)
        lines = [
            _line(one, fastest)
            for one in sorted(row["learners"], key=lambda one: one["seconds"] or np.inf)
        ]
        about = (
            f"{row['set']}, alpha = {row['alpha']:.3g}: optimum {optimum['objective']:.6g} with "
            f"{optimum['nonzeros']:,} weights that are not zero (by {optimum['learner']}, long run)"
        )
        header = [
            "learner",
            "iterations or halvings",
            "ms to 1 %",
            "over the fastest",
            "weights",
            "Jaccard",
        ]
        header += ["long run: off", "weights", "Jaccard"]
        parts.append(f"{about}:\n\n{markdown(header, lines)}")
    ratios = relative_times(rows)
    parts.append(sentences.at_most("Fastest to 1 % of the optimum", ratios, 1.0, ".2f"))
    claim = f"Time to 1 % at most {SLOWEST:g} times the fastest"
    parts.append(sentences.at_most(claim, ratios, SLOWEST, ".2f"))
    return "\n\n".join(parts)
