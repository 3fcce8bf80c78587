"""Probabilities of labels that are questions of their own, from their scores.

The log-odds are ``a logit p + c``, p as in `monro.softmax.model.log_odds`. The two numbers minimise
the log-loss of the labels that score highest, on rows held out. These are the labels that
predictions show; all others are so many that they alone would determine the numbers.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from monro.rows import Array
from monro.softmax.metrics import ndcg_of_rows
from monro.softmax.model import Weights, log_odds
from monro.softmax.observed.pairs import LabelSets
from monro.softmax.scan import scan

_BEST = 10  # labels of a row
_DEPTH = 5  # of the ranking that strengths are judged by


def uncalibrated(n_rows: float) -> Array:
    """Return the calibration of a fit without a penalty; the least probability is 1/2N."""
    return np.array([1.0, 0.0, 0.5 / max(n_rows, 1.0)])


def judge(
    weights: Weights, X: Any, targets: Array, sets: LabelSets, least: float, n_jobs: int = 1
) -> tuple[Array, Array]:
    """Return 1 - nDCG at 5 of rows that the weights were not fitted to, and the calibration."""
    best = scan(weights, X, min(_BEST, weights.n_classes), n_jobs)
    labels = sets.of(targets, weights.n_classes)
    hits = np.asarray(labels[np.arange(targets.size)[:, None], best.codes].todense()) > 0
    loss = 1.0 - ndcg_of_rows(hits, np.diff(labels.indptr), _DEPTH)
    given = log_odds(best.scores.ravel(), np.array([1.0, 0.0, least]))
    a, c = fit_sigmoid(given, hits.ravel())
    return loss, np.array([a, c, least])


def fit_sigmoid(scores: Array, right: Array) -> tuple[float, float]:
    """Return a and c with the least log-loss of ``σ(a s + c)``, and a prior as of two labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=20_000)
    >>> a, c = fit_sigmoid(scores, 2.0 * scores - 1.0 + rng.logistic(size=20_000) > 0)
    >>> bool(abs(a - 2.0) < 0.1), bool(abs(c + 1.0) < 0.1)
    (True, True)
    """
    y = np.asarray(right, np.float64)

    def loss(numbers: Array) -> tuple[float, Array]:
        log_a, c = numbers
        a = np.exp(log_a)
        z = a * scores + c
        slope = expit(z) - y
        # Sums without the threads of a BLAS, which take longer to wake up.
        value = float((np.logaddexp(0.0, z) - y * z).sum() + 0.5 * (log_a**2 + c**2))
        return value, np.array([a * (slope * scores).sum() + log_a, slope.sum() + c])

    bounds = [(-5.0, 5.0), (-50.0, 50.0)]
    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(found[0])), float(found[1])
