"""``learning_rate="auto"``: the protocol of paper 000, made cheap.

The paper tries η0 = 10^{-3…3} on a tenth of the data for as many epochs as the fit. But on fewer
rows larger rates win, so what is best there is not best for all rows. We go over the rows as they
are, only shorter: the whole fall of the rate, from the first epoch to the last, squeezed into less
than one. That has its optimum within a factor of three of the fit's (docs/decisions/0011). The
losses are exact ones, on rows just visited.
"""

from collections.abc import Callable

import numpy as np

from monro.softmax.evaluate import losses
from monro.softmax.train import Trainer

_PARTS = 10  # steps in which the rate falls at least
_FEWEST = 1000  # examples of a trial: fewer rows are visited again and again, as in the fit
_SCORES = 1 << 25  # scores to compute for a trial's loss
_SMALLEST, _LARGEST = -3.0, 4.0  # log10 of η0 ‖x‖²


def choose_rate(
    make_trainer: Callable[[float], Trainer], max_epochs: int, rng: np.random.Generator
) -> float:
    """Find η0 by trials: by powers of ten, then between them.

    Parameters
    ----------
    make_trainer : function
        Returns a trainer that begins anew, at the given rate.
    max_epochs : int
        Of the fit. All trials together cost about a tenth of it, or an epoch if that is more.
    rng : Generator
        Which rows to visit.
    """
    first = make_trainer(1.0)
    n = first.problem.y.size
    mean_sqnorm = float(first.problem.sqnorm.mean(dtype=np.float64))
    if mean_sqnorm == 0.0:
        return 1.0
    steps = int(np.clip(n * max_epochs / 60, min(n, _FEWEST), n))
    passes = min(max_epochs, -(-_FEWEST // n))
    order = np.concatenate([rng.permutation(n)[:steps] for _ in range(passes)])
    parts = np.array_split(order, max(_PARTS, passes))
    judged = order[-max(50, _SCORES // first.slots.size) :][:2000]
    codes = np.argsort(first.slots)[first.problem.y[judged]]
    decay = first.plan.decay ** (max_epochs / len(parts))
    tried: dict[float, float] = {}

    weight = first.problem.weight[judged].astype(np.float64)
    weight /= max(weight.sum(), 1e-30)

    def loss_of(trainer: Trainer) -> float:
        loss = weight @ losses(trainer.weights(), trainer.problem.X[judged], codes)
        return float(loss + trainer.ridge())

    # A trial that is far above where it began has run away; how far means nothing.
    runaway = 2.0 * loss_of(first) + 1.0

    def cost(exponent: float) -> float:
        if exponent not in tried:
            eta0 = 10.0**exponent / mean_sqnorm
            with make_trainer(eta0) as trainer, np.errstate(all="ignore"):
                for k, part in enumerate(parts):
                    running = trainer.visit(part, eta0 * decay**k) / part.size
                    if not running <= runaway and not loss_of(trainer) <= runaway:
                        break
                loss = loss_of(trainer)
            tried[exponent] = loss if loss <= runaway else np.inf
        return tried[exponent]

    best = 1.0
    for direction in (1.0, -1.0):
        start = best
        while _SMALLEST <= best + direction <= _LARGEST:
            too_fast = direction < 0 and np.isinf(cost(best))
            if not (too_fast or cost(best + direction) < cost(best)):
                break
            best += direction
        if best != start:
            break
    best = min((best - 0.5, best, best + 0.5), key=cost)
    # So near to rates at which trials run away the fit may have less luck than its trial.
    if np.isinf(cost(best + 0.5)) and cost(best - 0.5) < 2.0 * cost(best):
        best -= 0.5
    return float(10.0**best / mean_sqnorm)
