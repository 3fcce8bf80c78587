"""The linear solvers by name, and what each needs and can do."""

from collections.abc import Callable
from typing import Any

from monro.linear.algorithms.coordinate import Coordinate
from monro.linear.algorithms.dual import Dual
from monro.linear.algorithms.implicit import Implicit
from monro.linear.algorithms.sgd import Sgd
from monro.linear.algorithms.sgdqn import QuasiNewton
from monro.linear.algorithms.sgdqn_flawed import FlawedQuasiNewton
from monro.linear.algorithms.solver_base import Options, Solver, Traits
from monro.linear.centring import with_centre
from monro.linear.problem import Problem
from monro.penalties import Penalty

_BOTH = ("bottou", "inverse-t")
_QUASI_NEWTON = Traits(
    QuasiNewton, ("bottou",), learns_gains=True, needs_alpha=True, takes_decay=False
)
SOLVERS = {
    "sgd": Traits(Sgd, _BOTH, proximal=True, takes_center=True),
    "asgd": Traits(Sgd, _BOTH, averaged=True, takes_center=True),
    "casgd": Traits(Sgd, _BOTH, averaged=True, takes_center=True, centred=True),
    "implicit": Traits(Implicit, _BOTH, proximal=True, takes_center=True),
    "aisgd": Traits(Implicit, _BOTH, averaged=True, takes_center=True),
    "sgdqn": _QUASI_NEWTON,
    "asgdqn": _QUASI_NEWTON._replace(averaged=True),
    "sgdqn-flawed": _QUASI_NEWTON._replace(make=FlawedQuasiNewton),
    "dual": Traits(
        Dual,
        (),
        remembers_examples=True,
        needs_alpha=True,
        takes_rate=False,
        takes_decay=False,
        takes_center=True,
        has_partial_fit=False,
    ),
    "coordinate": Traits(
        Coordinate,
        (),
        takes_l1=True,
        by_columns=True,
        needs_smooth_loss=True,
        takes_rate=False,
        takes_decay=False,
        has_partial_fit=False,
    ),
}


def solvers_that(has: Callable[[Traits], bool]) -> list[str]:
    """Return the names of the solvers whose traits pass a test."""
    return [name for name, traits in SOLVERS.items() if has(traits)]


def takes_penalty(traits: Traits, penalty: Penalty) -> bool:
    """Return whether solvers with these traits can minimise problems with this penalty."""
    takes_l1 = traits.takes_l1 and hasattr(penalty, "l1_strength")
    return traits.proximal or takes_l1 or not penalty.has_kink


def make_solver(
    problem: Problem,
    name: str,
    schedule: str = "bottou",
    eta0: float = 1.0,
    decay: float = 1.0,
    state: Any = None,
    skip: int | None = None,
) -> Solver:
    """Build the solver of that name for a problem; `state` is an earlier one to continue from."""
    traits = SOLVERS[name]
    if not takes_penalty(traits, problem.penalty):
        able = ", ".join(map(repr, solvers_that(lambda t: takes_penalty(t, problem.penalty))))
        raise ValueError(
            f"solver={name!r} takes no proximal steps, which the penalty "
            f"{type(problem.penalty).__name__} needs: use {able}"
        )
    if traits.needs_smooth_loss and problem.loss.traits.has_kink:
        able = ", ".join(map(repr, solvers_that(lambda t: not t.needs_smooth_loss)))
        raise ValueError(
            f"solver={name!r} needs a loss without kinks, which {problem.loss.traits.name!r} is "
            f"not: use another loss, or {able}"
        )
    if traits.centred and not problem.centre.size:
        problem = with_centre(problem)
    if problem.penalty.has_kink and problem.centre.size:
        raise ValueError(
            f"center: the penalty {type(problem.penalty).__name__} needs the weights themselves, "
            "which centred rows have only as sums: use center=False"
        )
    return traits.make(problem, traits, Options(schedule, eta0, decay, state, skip))
