"""What the linear estimators accept: their own parameters, and combinations of them."""

from collections.abc import Iterable
from typing import Any

from monro import checks
from monro.linear.solvers import SOLVERS


def parameters(estimator: Any, losses: Iterable[str]) -> None:
    """Check every parameter by itself."""
    checks.choice("loss", estimator.loss, losses)
    checks.choice("solver", estimator.solver, ["auto", *SOLVERS])
    checks.choice("schedule", estimator.schedule, ["bottou", "inverse-t"])
    checks.number("decay", estimator.decay, 0.0)
    checks.common(estimator)


def combination(estimator: Any, solver: str) -> None:
    """Check that the parameters make sense together, and name those that would."""
    traits = SOLVERS[solver]
    schedule = estimator.schedule

    def able(wanted: Any) -> str:
        return ", ".join(repr(name) for name, t in SOLVERS.items() if wanted(t))

    if schedule == "inverse-t" and schedule not in traits.schedules:
        raise ValueError(
            f"solver={solver!r} has no schedule 'inverse-t': "
            f"use {able(lambda t: 'inverse-t' in t.schedules)}, or leave schedule='bottou'"
        )
    if estimator.alpha == 0 and (traits.needs_alpha or schedule == "inverse-t"):
        what = f"solver={solver!r}" if traits.needs_alpha else "schedule='inverse-t'"
        raise ValueError(
            f"{what} needs alpha > 0: without a ridge use schedule='bottou' with "
            f"{able(lambda t: not t.needs_alpha)}"
        )
    if estimator.learning_rate != "auto" and (schedule == "inverse-t" or not traits.takes_rate):
        what = "schedule='inverse-t'" if schedule == "inverse-t" else f"solver={solver!r}"
        raise ValueError(
            f"{what} takes no learning_rate: leave it 'auto', or use schedule='bottou' with "
            f"{able(lambda t: t.takes_rate)}"
        )
    if estimator.decay != 1 and (schedule == "inverse-t" or len(traits.schedules) < 2):
        what = "schedule='inverse-t'" if schedule == "inverse-t" else f"solver={solver!r}"
        raise ValueError(
            f"{what} does not use decay: leave it 1, or use schedule='bottou' with "
            f"{able(lambda t: len(t.schedules) == 2)}"
        )
    if solver == "casgd" and not estimator.fit_intercept:
        raise ValueError(
            "solver='casgd' centres the features, and the centre goes into the intercept: use "
            "fit_intercept=True, or 'asgd'"
        )


def streams(estimator: Any) -> bool:
    """Raise AttributeError if the solver has no partial_fit."""
    if estimator.solver in SOLVERS and not SOLVERS[estimator.solver].streams:
        able = ", ".join(["'auto'", *(repr(name) for name, t in SOLVERS.items() if t.streams)])
        raise AttributeError(
            f"solver={estimator.solver!r} needs all rows at once: for partial_fit use {able}"
        )
    return True
