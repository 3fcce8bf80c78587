"""The bounds of U-max (paper 000, Lemmas 1, 2 and 4), and the learning rate of its Theorem 1.

The paper's objective is N times ours, with ``μ = N alpha``, and so are its gradients; its rate is
ours divided by N. Its steps draw one class. Of m classes drawn uniformly the weights c sum to
K - 1, too, so that only the ridge's part of the gradient grows: it is that of m + 1 classes.
"""

import numpy as np


def weight_bound(n_classes: int, alpha: float) -> float:
    """Return B_W (Lemma 1): at the optimum the ridge is at most ``log K``.

    Examples
    --------
    >>> round(weight_bound(10, 0.5), 3)
    3.035
    """
    return float(np.sqrt(2.0 * np.log(n_classes) / alpha))


def local_bound(n_classes: int, longest: float, radius: float) -> float:
    """Return B_u = ``log(1 + (K - 1) e^{2 B_x B_W})`` (Lemma 2); B_x is the longest row's length.

    Examples
    --------
    >>> round(local_bound(3, 1.0, 0.5), 3)
    1.862
    """
    return float(np.logaddexp(0.0, np.log(n_classes - 1) + 2.0 * longest * radius))


def gradient_bound(largest_u: float, longest: float, ridge: float) -> float:
    """Return B_f / N (Lemma 4): a bound of every gradient of a step, with respect to u and W.

    `ridge` is a bound of the ridge's part.

    Examples
    --------
    >>> round(gradient_bound(float(np.log(3)), 1.0, 0.0), 6)
    8.0
    """
    with np.errstate(over="ignore"):
        e = np.exp(largest_u)
    return float(max(1.0, e - 1.0) + 2.0 * e * longest + ridge)


def largest_rate(n_rows: int, delta: float, bound: float) -> float:
    """Return ``δ²/(4 N b²)``, b = B_f / N: up to this rate U-max converges (Theorem 1).

    Examples
    --------
    >>> largest_rate(100, 1.0, 8.0) == 1 / (4 * 100 * 64)
    True
    """
    return delta**2 / (4.0 * n_rows * bound**2)
