"""One multiple of all scores, by the loss of rows held out.

A fit that is stopped, or whose rate has fallen, ranks classes well before it is as sure of them as
it should be: one number mends that. The loss of rows held out is convex in it; it is taken only as
far as these rows leave no doubt, so that a few of them cannot make a model sure of itself. Nor is
it ever below 1. A model too sure of rare classes would lose less with a smaller multiple, but be
too shy of all others: the likeliest class would be right more often than it says.
"""

from typing import Any

import numpy as np

from monro.rows import Array
from monro.softmax.evaluate import Weights, chunked
from monro.softmax.state import NOWHERE
from monro.softmax.stretch import slopes_at, sure_root

_DOUBT = 1.0  # standard errors
_TOLERANCE = 0.002


def suited_multiple(
    weights: Weights, X: Any, codes: Array, weight: Array, n_jobs: int = 1
) -> float:
    """Return c ≥ 1 for which the scores ``c s`` surely lose less on these rows, and the least."""

    def slopes(c: float) -> Array:
        parts = chunked(weights, X, lambda S, rows: slopes_at(c, S, codes[rows]), n_jobs)
        return np.concatenate(list(parts))

    share = weight / weight.sum()
    return sure_root(slopes, share, 0.0, errors=_DOUBT, unseen=1.0, tolerance=_TOLERANCE)


def multiplied(weights: Weights, c: float) -> Weights:
    """Return weights whose scores are c times as large."""
    bias = np.where(weights.bias > NOWHERE / 2, c * weights.bias, weights.bias)
    scale = (c * weights.scale).astype(weights.scale.dtype)
    return weights._replace(scale=scale, bias=bias.astype(weights.bias.dtype))
