"""Probabilities from scores: one slope, found on rows held out.

With two classes ``p = σ(a s)``, with more ``p ∝ exp(a s_k)`` of the one-vs-rest scores. The slope a
minimises the log-loss of the rows held out. All rows together have the penalty ``½ log² a``, so
that a few separable rows do not make a model certain. Platt (1999) has a shift, too. Without one
the likeliest class is the one of highest score: `predict` agrees with `predict_proba`.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from monro.rows import Array

_STEEPEST = 10.0  # |log a|


def fit_slope(scores: Array, codes: Array, weight: Array) -> float:
    """Return the slope.

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
    >>> scores = rng.normal(size=(10_000, 1))
    >>> codes = (2.0 * scores[:, 0] + rng.logistic(size=10_000) > 0).astype(int)
    >>> bool(abs(fit_slope(scores, codes, np.ones(10_000)) - 2.0) < 0.1)
    True
    """
    share = weight / weight.sum()
    rows = np.arange(codes.size)
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(codes.size), scores])

    def loss(log_a: float) -> float:
        log_p = log_softmax(np.exp(log_a) * scores, axis=1)[rows, codes]
        return float(0.5 * log_a**2 / codes.size - share @ log_p)

    return float(np.exp(minimize_scalar(loss, bounds=(-_STEEPEST, _STEEPEST)).x))
