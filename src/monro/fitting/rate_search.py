"""The search for the first learning rate of linear models and CRFs."""

from collections.abc import Callable

import numpy as np

_UP, _DOWN = 2.0, 0.5


def search_rate(
    trial: Callable[[float], float],
    rate: float,
    *,
    gain_up: float = 0.0,
    gain_down: float = 0.0,
    largest: float = np.inf,
    most_steps: int,
) -> float:
    """Double a learning rate while that helps; else halve it while that helps.

    Parameters
    ----------
    trial : callable
        Returns the loss at a rate; one that is not finite counts as infinite.
    rate : float
        Where to begin.
    gain_up, gain_down : float
        The relative decrease of the loss that is required to accept a larger, a smaller rate.
    largest : float
        No larger rate is tried.
    most_steps : int
        The maximal number of doublings or halvings.

    Returns
    -------
    float

    Examples
    --------
    >>> search_rate(lambda rate: (rate - 5.0) ** 2, 0.1, most_steps=30)
    6.4
    """

    def loss_at(rate: float) -> float:
        loss = trial(rate)
        return loss if np.isfinite(loss) else np.inf

    best = loss_at(rate)
    for factor, gain in ((_UP, gain_up), (_DOWN, gain_down)):
        if factor > 1.0 and best == np.inf:
            continue
        start = rate
        for _ in range(most_steps):
            if rate * factor > largest:
                break
            loss = loss_at(rate * factor)
            if best < np.inf and not loss < best - gain * abs(best):
                break
            rate, best = rate * factor, loss
        if rate != start:
            break
    return rate
