"""Whether a fit goes well: exact losses after each epoch, and a check that it does not run away."""

from collections.abc import Callable
from typing import Any

import numpy as np

from monro.errors import DivergenceError
from monro.fitting import Record
from monro.mapped import rows_at
from monro.rows import Array
from monro.softmax.evaluate import losses
from monro.softmax.solvers import Plan
from monro.softmax.state import State
from monro.softmax.train import Trainer

# A loss this many times that of guessing is not learning: explicit steps are running away.
_RUNAWAY = 100.0
# Scores to compute for the log-loss of an epoch's record.
_SCORES = 1 << 22


def evaluation(
    estimator: Any, trainer: Trainer, held_out: Any
) -> tuple[Callable[[], Record] | None, str | None]:
    """Return what to measure after each epoch, and which of it decides when to stop."""
    problem = trainer.problem
    rows = _judged(problem.y.size, trainer.slots.size)
    own = np.argsort(trainer.slots)[problem.y[rows]]
    n_jobs, link = estimator._threads(), estimator.link
    watching = estimator.tol is not None or estimator.verbose > 0
    judged = rows_at(problem.X, rows) if watching else None

    def evaluate() -> Record:
        record = {}
        if watching:
            each = losses(trainer.weights(), judged, own, n_jobs, link)
            record["log_loss"] = float(np.average(each, weights=problem.weight[rows]))
        if held_out is not None:
            X, y, weight = held_out
            each = losses(trainer.weights(), X, y, n_jobs, link)
            record["validation_loss"] = float(np.average(each, weights=weight))
        return record

    if held_out is not None:
        return evaluate, "validation_loss"
    return (evaluate if watching else None), ("log_loss" if estimator.tol is not None else None)


def runaway_check(estimator: Any, trainer: Trainer, y: Array) -> Callable[[Record], None]:
    """Return a check that raises once a solver leaves the range of numbers."""
    most = _RUNAWAY * (np.log(trainer.slots.size) + 1.0)
    solver = estimator.solver

    def check(record: Record) -> None:
        likely = record["loss"] <= most or solver == "augment-reduce"  # a bound may be low
        if likely and (solver == "implicit" or is_finite(trainer.state)):
            return
        # The classes drawn may be unlucky ones; the exact loss decides.
        rows = _judged(y.size, trainer.slots.size)
        with np.errstate(all="ignore"):
            judged = rows_at(trainer.problem.X, rows)
            exact = losses(trainer.weights(), judged, y[rows]).mean()
        if not exact <= most:
            raise divergence(estimator, trainer.plan)

    return check


def divergence(estimator: Any, plan: Plan) -> DivergenceError:
    """Return the error of a solver that ran away."""
    other = "" if estimator.learning_rate == "auto" else " or 'auto'"
    return DivergenceError(
        f"solver={estimator.solver!r} diverged with learning_rate={plan.eta0:g}: use a smaller "
        f"learning_rate{other}, scale the features, or use solver='implicit', which no "
        "learning rate makes diverge"
    )


def is_finite(state: State) -> bool:
    """Tell whether the weights are numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(state.W.sum(dtype=np.float64)):
            return bool(np.isfinite(state.bias).all())
    return bool(np.isfinite(state.W).all() and np.isfinite(state.bias).all())


def _judged(n: int, n_classes: int) -> Array:
    """Return rows, evenly spread, on which the exact log-loss costs little."""
    size = min(n, int(np.clip(_SCORES // n_classes, 100, 2000)))
    return np.linspace(0, n - 1, size).astype(np.int64)
