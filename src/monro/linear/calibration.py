"""Probabilities from scores: two numbers, found on rows held out.

With two classes ``p = σ(a s)``. With more, ``p_k ∝ exp(a s_k) σ(s_k)^b`` of the one-vs-rest scores,
a and b at least 0. This is the softmax of scores if b = 0, and if a = 0 and b = 1 it is one-vs-rest
probabilities, normalised: the first is better where classes differ along few directions, the second
where each class has features of its own, as in text (docs/decisions/0027).

The numbers minimise the log-loss of the rows held out. All rows together have the penalty
``½ log² (a + b)``, so that a few separable rows do not make a model certain. Platt (1999) has a
shift, too. Without one the likeliest class is the one of highest score: `predict` agrees with
`predict_proba`.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit, softmax

from monro.rows import Array

_LEAST, _MOST = 1e-6, 1e4


class Calibration(NamedTuple):
    """The numbers by which scores become logits."""

    a: float
    b: float = 0.0


SIGMOID, ONE_VS_REST = Calibration(1.0), Calibration(0.0, 1.0)


def logits(calibration: Calibration, scores: Array) -> Array:
    """Return ``a s + b log σ(s)``."""
    a, b = calibration
    return np.asarray(a * scores + b * log_expit(scores) if b else a * scores)


def fit_calibration(scores: Array, codes: Array, weight: Array, times: float = 1.0) -> Calibration:
    """Return the numbers with the least log-loss on rows held out.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models)
        One model for two classes, else one a class.
    codes : array of shape (n_rows,)
        The rows' classes.
    weight : array of shape (n_rows,)
    times : float
        How often each row is there, with scores of several models.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(10_000, 1))
    >>> codes = (2.0 * scores[:, 0] + rng.logistic(size=10_000) > 0).astype(int)
    >>> slope, power = fit_calibration(scores, codes, np.ones(10_000))
    >>> bool(abs(slope - 2.0) < 0.1), power
    (True, 0.0)
    """
    share, rows = weight / weight.sum(), np.arange(codes.size)
    n = codes.size / times
    if scores.shape[1] == 1:
        parts = [np.column_stack([np.zeros(codes.size), scores])]
    else:
        parts = [scores, log_expit(scores)]

    def loss(numbers: Array) -> tuple[float, Array]:
        """Return the log-loss with its penalty, and its gradient."""
        z = sum(number * part for number, part in zip(numbers, parts, strict=True))
        p = softmax(z, axis=1)
        log_p = z[rows, codes] - np.logaddexp.reduce(z, axis=1)
        log_sum = np.log(numbers.sum())
        slopes = [share @ ((p * part).sum(axis=1) - part[rows, codes]) for part in parts]
        penalty, slope = 0.5 * log_sum**2 / n, log_sum / numbers.sum() / n
        return float(penalty - share @ log_p), np.array(slopes) + slope

    start = np.full(len(parts), 1.0 / len(parts))
    bounds = [(_LEAST, _MOST), (0.0, _MOST)][: len(parts)]  # a + b > 0
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return Calibration(*found.tolist())
