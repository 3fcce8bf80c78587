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

_DOUBT = 1.0  # standard errors
_MOST_ROUNDS = 20
_FARTHEST = 4.0
_TOLERANCE = 1e-3


def suited_multiple(
    weights: Weights, X: Any, codes: Array, weight: Array, n_jobs: int = 1
) -> float:
    """Return c ≥ 1 for which the scores ``c s`` surely lose less on these rows, and the least.

    Newton's method on ``E[log Σ_k e^{c z_k}]``, ``z_k = s_k - s_y``, whose slope is ``E[E_p z]``
    and whose curvature is ``E[Var_p z]``.
    """
    share = weight / weight.sum()

    def slopes(c: float) -> tuple[Array, float]:
        """Return the slope of each row's loss, and the curvature of their mean."""

        def reduce(S: Array, rows: slice) -> tuple[Array, float]:
            S -= S[np.arange(S.shape[0]), codes[rows]][:, None]
            P = c * S
            P -= P.max(axis=1, keepdims=True)
            np.exp(P, out=P)
            P /= P.sum(axis=1, keepdims=True)
            mean = np.einsum("ik,ik->i", P, S)
            variance = np.einsum("ik,ik,ik->i", P, S, S) - mean**2
            return mean, float(share[rows] @ variance)

        parts = list(chunked(weights, X, reduce, n_jobs))
        return np.concatenate([each for each, _ in parts]), sum(curved for _, curved in parts)

    each, curvature = slopes(1.0)
    mean = float(share @ each)
    doubt = _DOUBT * float(np.sqrt(share**2 @ (each - mean) ** 2))
    c = 1.0
    for _ in range(_MOST_ROUNDS):
        change = (mean + doubt) / max(curvature, 1e-30)
        nearer = float(np.clip(c - change, max(1.0, c / 2.0), min(_FARTHEST, c * 2.0)))
        if abs(nearer - c) < _TOLERANCE * c:
            return nearer
        c = nearer
        each, curvature = slopes(c)
        mean = float(share @ each)
    return c


def multiplied(weights: Weights, c: float) -> Weights:
    """Return weights whose scores are c times as large."""
    bias = np.where(weights.bias > NOWHERE / 2, c * weights.bias, weights.bias)
    scale = (c * weights.scale).astype(weights.scale.dtype)
    return weights._replace(scale=scale, bias=bias.astype(weights.bias.dtype))
