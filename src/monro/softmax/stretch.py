"""The best multiple of the weights: a line search along the direction in which steps are slowest.

Where the classes can be told apart, the likelihood rises as the weights grow, for ever and ever
more slowly: an implicit step at rate η leaves an example once its loss is about 1/η. One
multiplication does what epochs of such steps would do. It is judged by the exact loss of some rows,
and taken only as far as these leave no doubt.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from monro.mapped import rows_at
from monro.rows import Array
from monro.softmax.solvers import Plan
from monro.softmax.state import NOWHERE

_SCORES = 1 << 19  # to compute for a line search
_MOST_SCORES = 1 << 21  # and for one on enough rows to be sure
_ENOUGH = 2000  # rows
_FEWEST, _MOST = 200, 20_000
_EVERY = 0.04  # of a fit, in its second half, are the weights stretched
_WORTH_IT = 1.02
_FARTHEST = 4.0  # multiple at a time
_DOUBT = 2.0  # standard errors


class Judged(NamedTuple):
    """Rows whose exact loss decides, and what share of all such rows they are."""

    X: Any
    codes: Array
    weight: Array  # of sum 1
    share: float


def rows_to_judge(n: int, n_classes: int) -> int:
    """Return how many of n rows have an exact loss that costs little."""
    size = max(_SCORES // n_classes, min(_ENOUGH, _MOST_SCORES // n_classes))
    return min(n, int(np.clip(size, _FEWEST, _MOST)))


def some_rows(X: Any, codes: Array, weight: Array, n_classes: int) -> Judged:
    """Return rows, evenly spread, whose exact loss costs little."""
    n = codes.size
    size = rows_to_judge(n, n_classes)
    rows = np.linspace(0, n - 1, size).astype(np.int64)
    weight = weight[rows].astype(np.float64)
    return Judged(
        rows_at(X, rows).astype(np.float64, copy=False),
        codes[rows],
        weight / max(weight.sum(), 1e-30),
        size / n,
    )


def costs_too_much(judged: Judged, n_classes: int) -> bool:
    """Say whether a line search would cost too much: with many thousands of classes."""
    return judged.codes.size * n_classes > _MOST_SCORES


def is_due(plan: Plan, epochs: int) -> bool:
    """Tell whether weights are to be stretched after so many epochs."""
    plain = plan.solver != "implicit" or plan.decay is not None
    every = max(1, round(_EVERY * plan.epochs))
    return not plain and 2 * epochs >= plan.epochs and (plan.epochs - epochs) % every == 0


def slopes_at(c: float, S: Array, codes: Array) -> Array:
    """Return the slope of each row's loss ``log Σ_k e^{c z_k}`` in c, ``z_k = s_k - s_y``."""
    Z = S - S[np.arange(S.shape[0]), codes][:, None]
    P = c * Z
    P -= P.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    return np.asarray(np.einsum("ik,ik->i", P, Z) / P.sum(axis=1))


def sure_root(
    slopes: Callable[[float], Array],
    weight: Array,
    ridge: float,
    *,
    errors: float,
    unseen: float,
    tolerance: float,
) -> float:
    """Return c from 1 to 4 where the mean slope, plus that of ``c² ridge``, surely is not below 0.

    The weights' sum is 1. To the slope so many standard errors are added, of a sample of rows of
    which so large a share was not seen.
    """
    each = slopes(1.0)
    mean = weight @ each
    variance = (weight**2 @ (each - mean) ** 2) * unseen
    doubt = errors * np.sqrt(variance)

    def slope(c: float) -> float:
        return float(weight @ slopes(c) + 2.0 * c * ridge + doubt)

    if mean + 2.0 * ridge + doubt >= 0.0:
        return 1.0
    if slope(_FARTHEST) <= 0.0:
        return _FARTHEST
    return float(brentq(slope, 1.0, _FARTHEST, xtol=tolerance))


def best_multiple(S: Array, judged: Judged, ridge: float) -> float:
    """Return c ≥ 1 for which ``c W, c b`` has the least loss, plus c² times the ridge's cost.

    S are the scores of the judged rows. It is 1 where little is to be gained.
    """
    c = sure_root(
        lambda c: slopes_at(c, S, judged.codes),
        judged.weight,
        ridge,
        errors=_DOUBT,
        unseen=1.0 - judged.share,
        tolerance=0.05,
    )
    return c if c >= _WORTH_IT else 1.0


def stretched_local(u: Array, own: Array | float, c: float) -> Array:
    """Return local variables after the weights were multiplied by c.

    What u is above the own score is ``log(1 + Σ e^z)``; z becomes c z, and ``Σ e^{cz}`` is at most
    ``(Σ e^z)^c``, with equality where one class stands out.
    """
    excess = np.maximum(u - own, 1e-30).astype(np.float64)
    # log(e^excess - 1), without overflow
    log_sum = excess + np.log(-np.expm1(-excess))
    return np.asarray(c * own + np.logaddexp(0.0, c * log_sum), u.dtype)


def stretch_bias(bias: Array, c: float) -> None:
    """Multiply the intercepts of slots that hold a class."""
    bias[bias > NOWHERE / 2] *= c
