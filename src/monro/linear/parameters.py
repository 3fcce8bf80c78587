"""Checks of the linear estimators' parameters, one by one and in combination."""

from collections.abc import Callable, Iterable
from typing import Any

from monro.checks.parameters import (
    check_choice,
    check_common,
    check_flag,
    check_integer,
    check_number,
    refuse_factors_of_streams,
)
from monro.linear.algorithms.solver_base import Traits
from monro.linear.solvers import SOLVERS, solvers_that


def check_linear_parameters(estimator: Any, losses: Iterable[str]) -> None:
    """Check each parameter separately."""
    check_choice("loss", estimator.loss, losses)
    check_choice("solver", estimator.solver, ["auto", *SOLVERS])
    check_choice("schedule", estimator.schedule, ["bottou", "inverse-t"])
    check_number("decay", estimator.decay, 0.0)
    if estimator.skip is not None:
        check_integer("skip", estimator.skip, 1)
    check_flag("center", estimator.center)
    if isinstance(estimator.shuffle, str):
        check_choice("shuffle", estimator.shuffle, ["replacement"])
    else:
        check_flag("shuffle", estimator.shuffle)
    if estimator.max_steps is not None:
        check_integer("max_steps", estimator.max_steps, 1)
    check_common(estimator)


def check_combination(estimator: Any, solver: str) -> None:
    """Raise unless the combination of parameters is valid; the error names valid ones."""
    traits = SOLVERS[solver]
    schedule = estimator.schedule

    def able(has: Callable[[Traits], bool]) -> str:
        return ", ".join(map(repr, solvers_that(has)))

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
    if schedule == "inverse-t" and estimator.l1_ratio == 1:
        raise ValueError(
            "schedule='inverse-t' needs l1_ratio < 1: its rate is 1/(alpha·(1 - l1_ratio)·t); "
            "use schedule='bottou'"
        )
    if estimator.l1_ratio > 0 and (estimator.center or traits.centred):
        raise ValueError(
            f"l1_ratio={estimator.l1_ratio!r}: centred rows have the weights only as sums, which "
            "an L1 norm cannot take: leave center=False, and use "
            f"{able(lambda t: t.proximal or t.takes_l1)}"
        )
    if estimator.max_steps is not None and traits.by_columns:
        raise ValueError(
            f"solver={solver!r} takes no steps on single rows: leave max_steps=None, or use "
            f"{able(lambda t: not t.by_columns)}"
        )
    if estimator.learning_rate != "auto" and (schedule == "inverse-t" or not traits.takes_rate):
        what = "schedule='inverse-t'" if schedule == "inverse-t" else f"solver={solver!r}"
        raise ValueError(
            f"{what} takes no learning_rate: leave it 'auto', or use schedule='bottou' with "
            f"{able(lambda t: t.takes_rate)}"
        )
    if estimator.decay != 1 and (schedule == "inverse-t" or not traits.takes_decay):
        what = "schedule='inverse-t'" if schedule == "inverse-t" else f"solver={solver!r}"
        raise ValueError(
            f"{what} does not use decay: leave it 1, or use schedule='bottou' with "
            f"{able(lambda t: t.takes_decay)}"
        )
    if estimator.skip is not None and not traits.learns_gains:
        raise ValueError(
            f"solver={solver!r} does not use skip: leave it None, or use "
            f"{able(lambda t: t.learns_gains)}"
        )
    if estimator.center and not traits.takes_center:
        raise ValueError(
            f"solver={solver!r} cannot centre sparse features: leave center=False, or use "
            f"{able(lambda t: t.takes_center)}"
        )
    if estimator.center and not estimator.fit_intercept:
        raise ValueError(
            "center=True needs fit_intercept=True: the centre of the features goes into the "
            "intercept"
        )
    if traits.centred and not estimator.fit_intercept:
        alike = able(lambda t: not t.centred and t._replace(centred=True) == traits)
        raise ValueError(
            f"solver={solver!r} centres the features, and the centre goes into the intercept: use "
            f"fit_intercept=True, or {alike}"
        )


def has_partial_fit(estimator: Any) -> bool:
    """Raise AttributeError if the solver has no partial_fit, or the penalty is not for it."""
    refuse_factors_of_streams(estimator)
    if estimator.solver in SOLVERS and not SOLVERS[estimator.solver].has_partial_fit:
        able = ", ".join(map(repr, ["auto", *solvers_that(lambda t: t.has_partial_fit)]))
        raise AttributeError(
            f"solver={estimator.solver!r} needs all rows at once: for partial_fit use {able}"
        )
    return True
