"""Learning-rate schedules ``η_t``; t = 0 at the first step."""

import math
from typing import Any, NamedTuple

from monro._jit import generic

Schedule = Any  # one of the classes below; Numba resolves which


@generic
def rate(schedule: Schedule, t: float) -> float:
    """``η_t``."""
    return float(schedule.rate(t))


class Bottou(NamedTuple):
    """``η0 / (1 + β λ η0 t)``: SVMSGD2's schedule (papers 003 and 004).

    Examples
    --------
    >>> schedule = Bottou(eta0=1.0, decay=0.1)
    >>> [round(schedule.rate(t), 3) for t in (0, 10, 100)]
    [1.0, 0.5, 0.091]
    """

    eta0: float
    decay: float  # β λ

    def rate(self, t):  # type: ignore[no-untyped-def]
        return self.eta0 / (1.0 + self.decay * self.eta0 * t)


class SlowBottou(NamedTuple):
    """``η0 / (1 + β λ η0 t)^¾``: the slower decay that averaging needs (Xu, 2010).

    Examples
    --------
    >>> schedule = SlowBottou(eta0=1.0, decay=0.1)
    >>> [round(schedule.rate(t), 3) for t in (0, 10, 100)]
    [1.0, 0.595, 0.166]
    """

    eta0: float
    decay: float  # β λ

    def rate(self, t):  # type: ignore[no-untyped-def]
        root = math.sqrt(1.0 + self.decay * self.eta0 * t)
        return self.eta0 / (root * math.sqrt(root))


class InverseT(NamedTuple):
    """``1 / (λ(t + 1))``: paper 002's schedule, without an initial rate to choose.

    Examples
    --------
    >>> schedule = InverseT(lam=0.1)
    >>> [round(schedule.rate(t), 3) for t in (0, 10, 100)]
    [10.0, 0.909, 0.099]
    """

    lam: float

    def rate(self, t):  # type: ignore[no-untyped-def]
        return 1.0 / (self.lam * (t + 1.0))
