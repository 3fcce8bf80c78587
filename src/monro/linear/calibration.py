"""Probabilities from scores: a slope, and for two classes a shift, found on rows held out.

With two classes ``p = σ(a s + c)`` (Platt, 1999), with more ``p ∝ exp(a s_k)`` of the one-vs-rest
scores. They minimise the log-loss of the rows held out. So that a few separable rows do not make a
model certain, all rows together have the penalty ``½ log² a``, and two classes Platt's targets,
which are those of one more row of each class.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from monro.rows import Array

_STEEPEST = 10.0  # |log a|


def fit_calibration(scores: Array, codes: Array, weight: Array) -> tuple[float, float]:
    """Return the slope and the shift.

    Parameters
    ----------
    scores : array of shape (n_rows, n_models)
        One model for two classes, else one a class.
    codes : array of shape (n_rows,)
        The rows' classes.
    weight : array of shape (n_rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=10_000)
    >>> codes = (rng.random(10_000) < expit(2.0 * scores + 1.0)).astype(int)
    >>> slope, shift = fit_calibration(scores[:, None], codes, np.ones(10_000))
    >>> bool(abs(slope - 2.0) < 0.1), bool(abs(shift - 1.0) < 0.1)
    (True, True)
    """
    share = weight / weight.sum()
    prior = 1.0 / codes.size
    if scores.shape[1] == 1:
        s = scores[:, 0]
        ones = float(weight[codes == 1].sum())
        zeros = float(weight[codes == 0].sum())
        target = np.where(codes == 1, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))

        def loss(t: Array) -> tuple[float, Array]:
            a = np.exp(t[0])
            z = a * s + t[1]
            slope = share * (expit(z) - target)
            value = share @ (np.logaddexp(0.0, z) - target * z) + 0.5 * prior * t[0] ** 2
            return float(value), np.array([a * (slope @ s) + prior * t[0], slope.sum()])

        start, bounds = np.zeros(2), [(-_STEEPEST, _STEEPEST), (None, None)]
    else:
        rows = np.arange(codes.size)

        def loss(t: Array) -> tuple[float, Array]:
            a = np.exp(t[0])
            log_p = log_softmax(a * scores, axis=1)
            slope = np.einsum("ik,ik->i", np.exp(log_p), scores) - scores[rows, codes]
            value = -(share @ log_p[rows, codes]) + 0.5 * prior * t[0] ** 2
            return float(value), np.array([a * (share @ slope) + prior * t[0]])

        start, bounds = np.zeros(1), [(-_STEEPEST, _STEEPEST)]
    found = minimize(loss, start, jac=True, bounds=bounds).x
    return float(np.exp(found[0])), float(found[1]) if found.size > 1 else 0.0
