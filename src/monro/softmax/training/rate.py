"""The learning rate: ``"auto"``, a cheap form of the protocol of paper 000, and ``"paper"``.

The paper tries η0 = 10^{-3…3} on a tenth of the data for as many epochs as the fit. But fewer rows
have a larger best rate, so the rate found on a tenth of the rows is not the best for all. Our
trials draw from all rows, but are shorter: the whole schedule of the rate, from the first epoch to
the last, is compressed into less than one epoch. Trials are compared by exact losses. The noise of
the first steps decays over the fit, so the longer the fit, the larger the best rate
(docs/decisions/0013).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from monro.fitting.order import RowOrder
from monro.rows import Array
from monro.softmax.plan import Plan
from monro.softmax.rules.umax_bounds import gradient_bound, largest_rate, local_bound
from monro.softmax.sampling.samplers import Sampler
from monro.softmax.solvers import SOLVERS
from monro.softmax.training.problem import SoftmaxProblem

_RATES = 10  # values of the rate in a trial's schedule
_TRIAL_SHARE = 1 / 150  # of the fit's steps that a trial takes
_FEWEST_STEPS = 1000  # of a trial: fewer rows are visited repeatedly, as in the fit
# Trials of short fits visit at least a fifth of the rows, or this many: the first few thousand
# steps decrease the loss most, and have larger best rates than later ones.
_ENOUGH_STEPS = 10_000
_SMALLEST, _LARGEST = -3.0, 4.0  # log10 of η0 ‖x‖²
# Upper bounds: if classes are separable, larger rates always win. But growing the weights is the
# purpose of score scaling, which works best with all classes.
_LARGEST_EXACT = 2.0
_LARGEST_SAMPLED = 3.0
# Explicit steps take a smaller rate if it loses at most this share of a trial's decrease in loss.
_CLOSE = 0.07
_GROWTH = 0.27  # the best rate of implicit steps grows with this power of the fit's length


class Trial(AbstractContextManager["Trial"], Protocol):
    """The part of a trainer that the search uses."""

    plan: Plan
    adjacent_blocks: int  # as in `RowOrder`
    size: int  # number of rows
    mean_sqnorm: float  # mean squared length of the rows

    def visit(self, order: Array, rate: float) -> float:
        """Step on some rows at a rate; return the sum of their losses before the steps."""

    def sample_loss(self) -> float:
        """Return the exact objective of a sample of rows."""


def choose_rate(
    make_trainer: Callable[[float], Trial], rng: np.random.Generator
) -> tuple[float, int]:
    """Find η0 by trials: powers of ten, then half powers around the best one.

    Parameters
    ----------
    make_trainer : function
        Returns a trainer in the initial state, with the given η0.
    rng : Generator
        Draws the rows of the trials.

    Returns
    -------
    eta0 : float
    trials : int
        The number of trials. Together they cost about a tenth of the fit, or an epoch if that is
        more.
    """
    first = make_trainer(1.0)
    plan, n, mean_sqnorm = first.plan, first.size, first.mean_sqnorm
    if mean_sqnorm == 0.0:
        return 1.0, 0
    fit = n * plan.epochs
    fewest = min(fit, max(_FEWEST_STEPS, min(n // 5, _ENOUGH_STEPS)))
    steps = int(np.clip(fit * _TRIAL_SHARE, fewest, n * max(1, -(-_FEWEST_STEPS // n))))

    def random_rows() -> Array:
        # From a file, rows are read in runs: a page holds many of them.
        return (
            RowOrder(n, rng, first.adjacent_blocks)[:steps]
            if first.adjacent_blocks > 1
            else rng.permutation(n)
        )

    order = np.concatenate([random_rows()[:steps] for _ in range(-(-steps // n))])[:steps]
    parts = np.array_split(order, min(_RATES, steps))
    tried: dict[float, float] = {}
    implicit = SOLVERS[plan.solver].is_implicit
    grows = implicit and plan.decay is None
    growth = _GROWTH * np.log10(fit / steps) if grows else 0.0
    largest = _LARGEST
    if grows:
        largest = (_LARGEST_EXACT if plan.uses_all_classes else _LARGEST_SAMPLED) - growth

    initial = first.sample_loss()
    # A trial whose loss is far above the initial loss has diverged, however large it is.
    diverged = 2.0 * initial + 1.0

    def cost(exponent: float) -> float:
        if exponent not in tried:
            eta0 = 10.0**exponent / mean_sqnorm
            with make_trainer(eta0) as trainer, np.errstate(all="ignore"):
                for k, part in enumerate(parts):
                    rate = trainer.plan.rate_at(plan.epochs * (k + 0.5) / len(parts))
                    running = trainer.visit(part, rate) / part.size
                    if not running <= diverged and not trainer.sample_loss() <= diverged:
                        break
                loss = trainer.sample_loss()
            tried[exponent] = loss if loss <= diverged else np.inf
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
    if not implicit:
        # Near rates at which trials diverge, the fit may diverge though its trial did not. And the
        # fit is longer: a smaller rate has time to catch up, a larger one to diverge.
        close = cost(best - 0.5) - cost(best) < _CLOSE * (initial - cost(best))
        if close or np.isinf(cost(best + 0.5)):
            best -= 0.5
    return float(10.0 ** (best + growth) / mean_sqnorm), len(tried)


def theorem_rate(plan: Plan, problem: SoftmaxProblem, sampler: Sampler) -> float:
    """Return the largest rate of Theorem 1 of paper 000 (``learning_rate="paper"``, U-max)."""
    assert plan.radius is not None
    k = problem.n_classes
    longest = float(np.sqrt(problem.sqnorm.max()))
    beta = 1.0 / sampler.expected_updates(problem.y, problem.counts)[:k]
    ridge = (1 + sampler.per_step) * plan.alpha * float(beta.max()) * plan.radius
    bound = gradient_bound(local_bound(k, longest, plan.radius), longest, ridge)
    rate = largest_rate(problem.size, plan.delta, bound)
    if rate < np.finfo(plan.dtype).tiny:
        raise ValueError(
            f"learning_rate='paper': the rate of the theorem is {rate:.1g}, which changes no "
            "weight; bound the weights by a smaller radius, or give a number"
        )
    return rate
