"""``learning_rate="auto"``: the protocol of paper 000, made cheap.

The paper tries η0 = 10^{-3…3} on a tenth of the data for as many epochs as the fit. But on fewer
rows larger rates win, so what is best there is not best for all rows. We go over the rows as they
are, only shorter: the whole fall of the rate, from the first epoch to the last, squeezed into less
than one. The losses are exact ones. A fit that lasts longer has more time to forget the noise of
its first steps, and wants a larger rate (docs/decisions/0013).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from monro.fitting import Order
from monro.rows import Array
from monro.softmax.solvers import Plan, rate_at

_PARTS = 10  # steps in which the rate falls
_SHARE = 1 / 150  # of the fit's steps that a trial takes
_FEWEST = 1000  # steps of a trial: fewer rows are visited again and again, as in the fit
# Of short fits trials see at least a fifth of the rows, or so many: the first few thousand steps
# gain most, and by larger rates than those after them.
_ENOUGH = 10_000
_SMALLEST, _LARGEST = -3.0, 4.0  # log10 of η0 ‖x‖²
# Where classes can be told apart ever larger rates win; but growing is what stretching is for,
# which works best with all classes at once.
_LARGEST_EXACT = 2.0
_LARGEST_SAMPLED = 3.0
_NEARLY = 0.07  # of what a trial gained: explicit steps at a smaller rate may lack so much
_GROWTH = 0.27  # power of the fit's length that the best rate of implicit steps grows with


class Trial(AbstractContextManager["Trial"], Protocol):
    """A fit begun at some rate."""

    plan: Plan
    near: int  # blocks of rows that had better be visited near each other

    @property
    def size(self) -> int:
        """Rows."""

    @property
    def mean_sqnorm(self) -> float:
        """Of the rows."""

    def visit(self, order: Array, rate: float) -> float:
        """Step on some rows; return the sum of their losses before."""

    def judged_loss(self) -> float:
        """Return the exact objective of some rows."""


def choose_rate(
    make_trainer: Callable[[float], Trial], rng: np.random.Generator
) -> tuple[float, int]:
    """Find η0 by trials: by powers of ten, then between them.

    Parameters
    ----------
    make_trainer : function
        Returns a trainer that begins anew, at the given rate.
    rng : Generator
        Which rows to visit.

    Returns
    -------
    eta0 : float
    trials : int
        How many it took. All together cost about a tenth of the fit, or an epoch if that is more.
    """
    first = make_trainer(1.0)
    plan, n, mean_sqnorm = first.plan, first.size, first.mean_sqnorm
    if mean_sqnorm == 0.0:
        return 1.0, 0
    fit = n * plan.epochs
    fewest = min(fit, max(_FEWEST, min(n // 5, _ENOUGH)))
    steps = int(np.clip(fit * _SHARE, fewest, n * max(1, -(-_FEWEST // n))))

    def some_order() -> Array:
        # Of a file, single rows would each be read with all that lies near them.
        return Order(n, rng, first.near)[:steps] if first.near > 1 else rng.permutation(n)

    order = np.concatenate([some_order()[:steps] for _ in range(-(-steps // n))])[:steps]
    parts = np.array_split(order, min(_PARTS, steps))
    tried: dict[float, float] = {}
    grows = plan.solver == "implicit" and plan.decay is None
    growth = _GROWTH * np.log10(fit / steps) if grows else 0.0
    largest = _LARGEST
    if grows:
        largest = (_LARGEST_EXACT if plan.sampling == "all" else _LARGEST_SAMPLED) - growth

    begin = first.judged_loss()
    # A trial that is far above where it began has run away; how far means nothing.
    runaway = 2.0 * begin + 1.0

    def cost(exponent: float) -> float:
        if exponent not in tried:
            eta0 = 10.0**exponent / mean_sqnorm
            with make_trainer(eta0) as trainer, np.errstate(all="ignore"):
                for k, part in enumerate(parts):
                    rate = rate_at(trainer.plan, plan.epochs * (k + 0.5) / len(parts))
                    running = trainer.visit(part, rate) / part.size
                    if not running <= runaway and not trainer.judged_loss() <= runaway:
                        break
                loss = trainer.judged_loss()
            tried[exponent] = loss if loss <= runaway else np.inf
        return tried[exponent]

    best = 1.0
    for direction in (1.0, -1.0):
        start = best
        while _SMALLEST < best < largest or best == start:
            next_one = min(best + direction, largest)
            too_fast = direction < 0 and np.isinf(cost(best))
            if not (too_fast or cost(next_one) < cost(best)):
                break
            best = next_one
        if best != start:
            break
    best = min((best - 0.5, best, min(best + 0.5, largest)), key=cost)
    if plan.solver != "implicit":
        # So near to rates at which trials run away the fit may have less luck than its trial; and
        # it lasts longer: time for a smaller rate to catch up, and for a larger one to do harm.
        nearly = cost(best - 0.5) - cost(best) < _NEARLY * (begin - cost(best))
        if nearly or np.isinf(cost(best + 0.5)):
            best -= 0.5
    return float(10.0 ** (best + growth) / mean_sqnorm), len(tried)
