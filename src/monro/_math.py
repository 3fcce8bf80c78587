"""Scalar functions for kernels, accurate where the textbook formulas overflow or cancel."""

import math

from monro._jit import leaf


@leaf
def sigmoid(t: float) -> float:
    """``1 / (1 + exp(-t))``, with full relative accuracy in the left tail."""
    e = math.exp(-abs(t))
    return (1.0 if t >= 0.0 else e) / (1.0 + e)


@leaf
def softplus(t: float) -> float:
    """``log(1 + exp(t))``, for any t."""
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@leaf
def omega(t: float) -> float:
    """Solve ``w + log w = t`` (the Wright omega function; ``w = LambertW(exp(t))``).

    Fritsch, Shafer & Crowley's iteration has fourth order: from the starting values below two
    rounds give full double precision.
    """
    if t < -37.0:  # w = exp(t) - exp(2t) + …: the second term no longer counts
        return math.exp(t)
    if t < 1.0:
        e = math.exp(t)
        w = e / (1.0 + e * (1.0 - 0.5 * e / (1.0 + e)))
    else:
        w = t - math.log(t) * (t / (1.0 + t))
    for _ in range(2):
        r = t - w - math.log(w)
        e = r / (1.0 + w)  # the paper's q is divided by 1 + w, too: its square would overflow
        q = 2.0 * (1.0 + w + 2.0 / 3.0 * r)
        w *= 1.0 + e * (q - e) / (q - 2.0 * e)
    return w
