"""One factor for all scores: found while training, and again on held-out rows after it.

Where classes are separable, the likelihood increases as the weights grow, without limit but more
and more slowly: an implicit step at rate η changes little once the loss of its example is about
1/η. One multiplication replaces epochs of such steps. So the weights are scaled at intervals while
training, by a line search on a sample of rows.

A fit that is stopped early, or whose rate has fallen, ranks classes well before its probabilities
are as large as they should be. So a factor is also found on the held-out rows. Their loss is convex
in it. It is never below 1: a model that is overconfident about rare classes would lose less
with a smaller factor, but be underconfident about all others.

Both factors are limited by an upper confidence bound of the loss's slope, so that a few rows cannot
make a model overconfident.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from monro.blocks import MASKED_SCORE
from monro.rows import Array
from monro.softmax.model import Weights, chunked, scores
from monro.softmax.plan import Plan
from monro.softmax.training.monitoring import MOST_SCORES, LossSample

_VALIDATION_ERRORS = 1.0  # standard errors of the confidence bound
_TRAINING_ERRORS = 2.0
_VALIDATION_TOLERANCE = 0.002
_TRAINING_TOLERANCE = 0.05
_INTERVAL = 0.04  # of the fit, between searches for a training scale, in its second half
_SMALLEST_SCALE = 1.02  # a smaller training scale is not applied
_LARGEST_SCALE = 4.0  # in one search
_KEPT_SCORES = 1 << 23  # 64 MB: so many are computed once for all scales


# ---------------------------------------------------------------------------------- the line search


def slopes_at(c: float, S: Array, codes: Array) -> Array:
    """Return the slope of each row's loss ``log Σ_k e^{c z_k}`` in c, ``z_k = s_k - s_y``."""
    Z = S - S[np.arange(S.shape[0]), codes][:, None]
    P = c * Z
    P -= P.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    return np.asarray(np.einsum("ik,ik->i", P, Z) / P.sum(axis=1))


def confident_root(
    slopes: Callable[[float], Array],
    weight: Array,
    ridge: float,
    l1: float = 0.0,
    *,
    errors: float,
    unseen: float,
    tolerance: float,
) -> float:
    """Return the scale from 1 to 4 at which an upper confidence bound of the slope reaches 0.

    Parameters
    ----------
    slopes : function of the scale
        Returns the slope of each row's loss.
    weight : array with sum 1
        Weights of the rows.
    ridge : float
        The loss also has the term ``c² ridge``.
    errors : float
        The bound is the mean slope plus this number of standard errors.
    unseen : float
        The finite-population correction: the share of all rows that the sample leaves out.
    tolerance : float
        The accuracy of the scale.
    """
    each = slopes(1.0)
    mean = weight @ each
    variance = (weight**2 @ (each - mean) ** 2) * unseen
    margin = errors * np.sqrt(variance)

    def slope(c: float) -> float:
        return float(weight @ slopes(c) + 2.0 * c * ridge + l1 + margin)

    if mean + 2.0 * ridge + l1 + margin >= 0.0:
        return 1.0
    if slope(_LARGEST_SCALE) <= 0.0:
        return _LARGEST_SCALE
    return float(brentq(slope, 1.0, _LARGEST_SCALE, xtol=tolerance))


# ----------------------------------------------------------------------------------- while training


def is_too_costly(sample: LossSample, n_classes: int) -> bool:
    """Return whether the line search is too expensive: with many thousands of classes."""
    return sample.codes.size * n_classes > MOST_SCORES


def is_scaling_due(plan: Plan, epochs: int) -> bool:
    """Return whether the weights are to be scaled after this number of epochs.

    Only where the rate falls to 0: late in such a fit implicit steps hardly grow the weights.
    """
    if plan.decay is not None:
        return False
    every = max(1, round(_INTERVAL * plan.epochs))
    return 2 * epochs >= plan.epochs and (plan.epochs - epochs) % every == 0


def best_training_scale(S: Array, sample: LossSample, ridge: float, l1: float = 0.0) -> float:
    """Return c ≥ 1 that minimises the loss of ``c W, c b`` on the sample, plus c² times `ridge`.

    S are the scores of the sample. Return 1 where a larger c would gain little.
    """
    c = confident_root(
        lambda c: slopes_at(c, S, sample.codes),
        sample.weight,
        ridge,
        l1,
        errors=_TRAINING_ERRORS,
        unseen=1.0 - sample.share,
        tolerance=_TRAINING_TOLERANCE,
    )
    return c if c >= _SMALLEST_SCALE else 1.0


def scaled_local_variables(u: Array, s_y: Array | float, c: float) -> Array:
    """Return the local variables for weights multiplied by c.

    The excess of u over the score of y is ``log(1 + Σ e^z)``; z becomes c z, and ``Σ e^{cz}`` is at
    most ``(Σ e^z)^c``, with equality where one class dominates the sum.
    """
    excess = np.maximum(u - s_y, 1e-30).astype(np.float64)
    # log(e^excess - 1), without overflow
    log_sum = excess + np.log(-np.expm1(-excess))
    return np.asarray(c * s_y + np.logaddexp(0.0, c * log_sum), u.dtype)


def scale_intercepts(bias: Array, c: float) -> None:
    """Multiply the intercepts by c, except those of slots without a class."""
    bias[bias > MASKED_SCORE / 2] *= c


# ----------------------------------------------------------------------------------- after training


def best_validation_scale(
    weights: Weights, X: Any, codes: Array, weight: Array, n_jobs: int = 1
) -> float:
    """Return c ≥ 1 that minimises the loss of the scores ``c s`` on held-out rows."""
    few = codes.size * weights.slots.size <= _KEPT_SCORES
    S = scores(weights, X) if few else None

    def slopes(c: float) -> Array:
        if S is not None:
            return slopes_at(c, S, codes)
        parts = chunked(weights, X, lambda S, rows: slopes_at(c, S, codes[rows]), n_jobs)
        return np.concatenate(list(parts))

    share = weight / weight.sum()
    return confident_root(
        slopes, share, 0.0, errors=_VALIDATION_ERRORS, unseen=1.0, tolerance=_VALIDATION_TOLERANCE
    )


def scaled_weights(weights: Weights, c: float) -> Weights:
    """Return the weights whose scores are multiplied by c."""
    bias = np.where(weights.bias > MASKED_SCORE / 2, c * weights.bias, weights.bias)
    scale = (c * weights.scale).astype(weights.scale.dtype)
    return weights._replace(scale=scale, bias=bias.astype(weights.bias.dtype))
