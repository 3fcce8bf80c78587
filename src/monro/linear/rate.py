"""``learning_rate="auto"`` of linear models."""

from collections.abc import Callable
from functools import cache

import numpy as np

from monro.fitting.order import visiting_order
from monro.fitting.rate_search import search_rate
from monro.linear.centring import centred
from monro.linear.objective import mean_sqnorm, partial_objective
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS, make_solver
from monro.rows import Array

# Rows to try rates on: all of few rows, a quarter of many, fewer of very many.
_FEW, _PART, _MANY = 2000, 4, 1 << 17
_COARSE, _FEWEST = 8, 100  # the first search takes this part of them, at least so many
_JUDGED = 1 << 12  # rows that give an objective accurate enough


def choose_rate(
    problem: Problem,
    name: str,
    decay: float,
    rng: np.random.Generator,
    intercept: float = 0.0,
    skip: int | None = None,
) -> float:
    """Find η0 by single passes over a sample of the rows, which begin with this intercept.

    A rate is judged by the objective after the pass, as the fit will be, on some of these rows. Of
    the rates that are nearly as good as the best the smallest is taken, and less of it the more
    rows there are: a longer fit makes up for the small steps, but not for the noise of large ones.
    (The constants are measured: docs/decisions/0007.)
    """
    n = problem.examples.y.size
    sample = visiting_order(n, rng)[: min(max(_FEW, n // _PART), _MANY)]
    length = mean_sqnorm(centred(problem.examples.rows, problem.centre), sample[:_FEW])
    if length == 0.0:
        return 1.0
    zero = np.zeros(problem.n_features)

    def value(w: Array, b: float, rows: int) -> float:
        found = partial_objective(problem, sample[: rows : -(-rows // _JUDGED)], w, b)
        return found if np.isfinite(found) else np.inf

    def trial(eta0: float, rows: int) -> float:
        solver = make_solver(problem, name, "bottou", eta0, decay, skip=skip)
        state = solver.start(intercept)
        for part in np.array_split(sample[:rows], 2):
            state = solver.begin_epoch(state)  # the second half is averaged
            solver.sweep(part, state)
        with np.errstate(over="ignore", invalid="ignore"):  # a rate may be too large
            return value(*solver.solution(state), rows)

    def best_rate(trial: Callable[[float], float], start: float) -> float:
        return search_rate(trial, start, gain_down=0.01, most_steps=30)

    coarse = min(sample.size, max(_FEWEST, -(-sample.size // _COARSE)))
    rough = best_rate(lambda eta0: trial(eta0, coarse), 1.0 / length)
    fine = cache(lambda eta0: trial(eta0, sample.size))
    best = best_rate(fine, 0.5 * rough)
    gain = value(zero, intercept, sample.size) - fine(best)
    slack = min(0.03 * abs(fine(best)), 0.1 * max(0.0, gain))
    smallest = _smallest_rate(fine, best, fine(best) + slack)
    power, factor = (0.35, 1.0) if SOLVERS[name].averaged else (0.45, 0.8)
    return float(factor * smallest * (sample.size / n) ** power)


def _smallest_rate(trial: Callable[[float], float], rate: float, most: float) -> float:
    """Return the smallest rate, down to a sixteenth of this one, with a loss of at most `most`."""
    for _ in range(4):
        inside, outside = trial(rate), trial(0.5 * rate)
        if not outside <= most:
            return float(rate * 0.5 ** ((most - inside) / (outside - inside)))
        rate *= 0.5
    return rate
