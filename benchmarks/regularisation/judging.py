"""What the parts have in common: losses on test rows, times of fits, the peer to compare with."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.regularisation.children import Result

BINS = 15  # of the calibration error
REPEATS = 3
LONGEST = 60.0  # seconds; a longer fit is not repeated
CROSS_VALIDATED = "LogisticRegressionCV"
CV: dict[str, Any] = {
    "Cs": 10,
    "cv": 5,
    "l1_ratios": (0,),
    "scoring": "neg_log_loss",
    "use_legacy_attributes": False,
    "random_state": 0,
}
QUICK_CV = CV | {"Cs": 2, "cv": 2, "max_iter": 5}


def few(data: datasets.Data, n: int) -> datasets.Data:
    """Return n random training rows."""
    some = np.random.default_rng(0).permutation(data.y.size)[:n]
    return data._replace(X=data.X[some], y=data.y[some])


def calibration_error(P: np.ndarray, codes: np.ndarray, bins: int = BINS) -> float:
    """Return the expected calibration error of the likeliest class.

    Rows are put into equal bins by the probability of their likeliest class. The error is the mean
    over rows of the difference, within their bin, of mean probability and share of correct classes.
    """
    confidence = P.max(axis=1)
    correct = P.argmax(axis=1) == codes
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(bin_of, weights=confidence - correct, minlength=bins)
    return float(np.abs(gaps).sum() / codes.size)


def log_loss(P: np.ndarray, codes: np.ndarray) -> float:
    """Return the mean log-loss."""
    own = P[np.arange(codes.size), codes].astype(np.float64)
    return float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())


def judged(model: Any, data: datasets.Data) -> Result:
    """Return log-loss and calibration error on the test rows whose class was in training."""
    known = np.flatnonzero(np.isin(data.test_y, model.classes_))
    codes = np.searchsorted(model.classes_, data.test_y[known])
    P = model.predict_proba(data.test_X[known])
    return {"log_loss": log_loss(P, codes), "calibration": calibration_error(P, codes)}


def seconds_of(fit: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    fit()
    return time.perf_counter() - begin


def fitted(
    make: Callable[..., Any], X: Any, y: Any, parameter: str = "alpha", repeats: int = REPEATS
) -> tuple[Any, Result]:
    """Return a model that chose its strength, its time, and that of a fit with that strength.

    Parameters
    ----------
    make : callable
        Returns an estimator with the parameters given.
    X, y : rows and targets
    parameter : str
        The name of the strength.
    repeats : int
        Fits of each kind, in turns; long ones are not repeated.
    """
    make(**{parameter: "auto"}, max_epochs=1).fit(X, y)  # compiles
    model = make(**{parameter: "auto"})
    seconds = [seconds_of(lambda: model.fit(X, y))]
    strength = float(getattr(model, f"{parameter}_"))
    fixed = make(**{parameter: strength})
    fixed_seconds = [seconds_of(lambda: fixed.fit(X, y))]
    for _ in range(repeats - 1 if seconds[0] < LONGEST else 0):
        seconds.append(seconds_of(lambda: make(**{parameter: "auto"}).fit(X, y)))
        fixed_seconds.append(seconds_of(lambda: fixed.fit(X, y)))
    return model, {
        "strength": strength,
        "seconds": statistics.median(seconds),
        "fixed_seconds": statistics.median(fixed_seconds),
    }


def peer_result(model: Any, data: datasets.Data) -> Result:
    """Fit a peer; return loss and time, and the loss held out by which it chose, if it did."""
    seconds = seconds_of(lambda: model.fit(data.X, data.y))
    found = judged(model, data) | {"seconds": seconds}
    parts = getattr(model, "estimators_", [model])  # those of one-vs-rest
    if hasattr(parts[0], "scores_"):
        best = [part.scores_.mean(axis=0).max() for part in parts]
        found["held_out"] = -float(np.mean(best))
    return found


def cross_validated(row: Result) -> tuple[str, Result] | None:
    """Return the variant of LogisticRegressionCV with the least loss held out, if one finished."""
    finished = [
        (name, found)
        for name, found in row["peers"].items()
        if name.startswith(CROSS_VALIDATED) and "held_out" in found
    ]
    return min(finished, key=lambda pair: pair[1]["held_out"], default=None)
