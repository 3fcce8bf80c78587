"""``learning_rate="auto"`` of linear models."""

import numpy as np

from monro.fitting.order import visiting_order
from monro.fitting.rate_search import search_rate
from monro.linear.centring import centred
from monro.linear.objective import mean_sqnorm
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS, make_solver

_SAMPLE = 2000  # rows to try rates on


def choose_rate(problem: Problem, name: str, decay: float, rng: np.random.Generator) -> float:
    """Find η0 by doubling or halving on a sample of the rows.

    A rate is evaluated by the loss of each row *before* the step on it: the sample serves for
    training and testing at once, so overfitting is not rewarded. A larger rate must reduce the loss
    by a twentieth to be accepted, a smaller one by a thousandth, because the noise of a large rate
    does more harm in a longer fit.

    The best rate for the few steps of the sample is too large for the many steps of the fit: the
    noise of a constant rate requires it to fall with the square root of their number, or, with
    averaging, with the fourth root. So η0 is chosen such that the schedule *ends* near that. (The
    constants are measured: docs/decisions/0007.)
    """
    n = problem.examples.y.size
    order = visiting_order(n, rng)[:_SAMPLE]
    length = mean_sqnorm(centred(problem.examples.rows, problem.centre), order)
    if length == 0.0:
        return 1.0

    def trial(eta0: float) -> float:
        solver = make_solver(problem, name, "bottou", eta0, decay)
        return solver.sweep(order, solver.start())

    eta0 = search_rate(trial, 1.0 / length, gain_up=0.05, gain_down=0.001, most_steps=30)
    steps = 10 * n  # for any max_epochs: a short fit takes the same steps as a long one at first
    power, limit = (0.25, 1.4) if SOLVERS[name].averaged else (0.5, 0.63)
    last = eta0 * float((order.size / steps) ** power)
    # If the schedule itself decays to nearly that rate, η0 need not be reduced.
    decayed = decay * problem.penalty.strength * last * steps
    slack = 1.0 - (decayed / limit) ** 2
    return min(eta0, last / slack) if slack > 0.0 else eta0
