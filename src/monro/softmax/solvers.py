"""The softmax solvers by name: what each supports, and its defaults.

To add a solver whose steps fit the sweep (`kernel/sweep.py`), write its update rule in `rules/` and
add a line here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from monro.blocks import LANES, MASKED_SCORE
from monro.links import LINKS
from monro.softmax.plan import Plan
from monro.softmax.rules.exact import Exact
from monro.softmax.rules.implicit import Implicit
from monro.softmax.rules.importance import SampledSoftmax
from monro.softmax.rules.nce import NoiseContrastive
from monro.softmax.rules.ove import OneVsEach
from monro.softmax.rules.raman_implicit import RamanImplicit
from monro.softmax.rules.sco import Composition
from monro.softmax.rules.umax import RamanUMax, UMax
from monro.softmax.rules.umax_bounds import local_bound
from monro.softmax.rules.vanilla import RamanVanilla, Vanilla
from monro.softmax.sampling.registry import Draws
from monro.variational.augment_reduce import make_model, make_printed_model
from monro.variational.baselines import ExactModel, OneVsEachModel

# -------------------------------------------------------------------------------------- rules


class RuleContext(NamedTuple):
    """The inputs from which an update rule is made."""

    plan: Plan
    sampler: Any
    epoch: int  # counted from 0
    longest: float  # Euclidean length of the longest row
    n_classes: int

    def number(self, value: float) -> Any:
        """Return a number of the plan's dtype."""
        return np.dtype(self.plan.dtype).type(value)


MakeRule = Callable[[RuleContext], Any]


def _implicit(context: RuleContext) -> Any:
    plan = context.plan
    tolerance = context.number(3e-3 if plan.dtype == "float32" else 1e-6)
    if plan.is_raman:
        return RamanImplicit(tolerance, context.number(plan.stiffness))
    return Implicit(tolerance)


def _umax(context: RuleContext) -> Any:
    plan = context.plan
    rule = RamanUMax if plan.is_raman else UMax
    return rule(context.number(plan.delta), context.number(_largest_u(context)))


def _largest_u(context: RuleContext) -> float:
    """Return B_u; without a bound of the weights there is none."""
    plan = context.plan
    if plan.radius is None:
        return float(np.finfo(plan.dtype).max)
    return local_bound(context.n_classes, context.longest, plan.radius)


def _vanilla(context: RuleContext) -> Any:
    return RamanVanilla() if context.plan.is_raman else Vanilla()


def _expected_counts(context: RuleContext) -> Any:
    """Return the log of the expected number of draws of each class."""
    with np.errstate(divide="ignore"):
        log_count = np.maximum(np.log(context.sampler.expected_draws()), MASKED_SCORE)
    return np.ascontiguousarray(log_count, context.plan.dtype)


def _composition(context: RuleContext) -> Any:
    beta = (context.epoch + 1.0) ** -0.5
    keep = MASKED_SCORE if context.epoch == 0 else np.log1p(-beta)
    return Composition(context.number(keep), context.number(np.log(beta)))


# -------------------------------------------------------------------------------------- traits


class Traits(NamedTuple):
    """What a solver supports, and its defaults."""

    rule: MakeRule | None = None  # for the sweep; None: the solver has its own trainer
    formulations: tuple[str, ...] = ()  # empty: it has no local variable
    # The E step of a link, for a solver with the mini-batches and adaptive steps of paper 001.
    e_step: Callable[[str], Any] | None = None
    examples: int = 1  # per step
    classes: int | None = LANES  # per step; None: always all
    sampling: str = "block"
    few: int = 0  # the number of classes up to which every step uses all of them
    draws: Draws = Draws.OTHERS
    is_bounded: bool = False  # takes delta and radius
    has_partial_fit: bool = True
    takes_rate: bool = True
    links: tuple[str, ...] = ("softmax",)
    # Steps are solved exactly: no rate makes them diverge, and on single examples the initial rate
    # may be large, as long as it falls to 0.
    is_implicit: bool = False
    is_variational: bool = False  # augment and reduce: has local variables, fits a posterior
    is_full_batch: bool = False  # every iteration is on all rows
    by_columns: bool = False  # takes epochs of coordinate descent only
    takes_l1: bool = False  # the penalty may have an L1 norm
    maximises_one_vs_each: bool = False  # its bound of the likelihood is one-vs-each
    rate: float | None = None  # default learning rate; None: by a search
    decay: float = 0.9  # factor of the rate per epoch (paper 000, section 4.1)
    # Learning rate of intercepts, relative to that of a feature of the rows' mean length: explicit
    # steps diverge if it is large.
    damping: float = 0.03

    @property
    def minimises_log_loss(self) -> bool:
        """Whether its steps are on the log-loss of the softmax: on no bound, and no other loss."""
        others = self.is_adaptive or self.maximises_one_vs_each
        return not others and self.draws is Draws.OTHERS

    @property
    def is_adaptive(self) -> bool:
        """Whether its steps are the adaptive steps of paper 001."""
        return self.e_step is not None


_BOTH = ("difference", "raman")
_ADAPTIVE = Traits(
    examples=500,
    classes=20,
    sampling="uniform",
    draws=Draws.SINGLE,
    has_partial_fit=False,
    rate=0.02,  # ρ0 (paper 001, section 4)
    decay=1.0,  # adaptive steps decay by themselves
)
_AUGMENT_REDUCE = _ADAPTIVE._replace(links=tuple(LINKS), is_variational=True)

# The defaults are what we found best. The papers' experiments drew single classes: for these give
# sampling="uniform" and classes_per_step.
SOLVERS = {
    "implicit": Traits(
        _implicit,
        _BOTH,
        sampling="neighbour",
        few=256,
        is_implicit=True,
        damping=0.1,
        takes_l1=True,
    ),
    "umax": Traits(_umax, _BOTH, sampling="frequency", is_bounded=True),
    "vanilla": Traits(_vanilla, _BOTH, sampling="frequency"),
    "augment-reduce": _AUGMENT_REDUCE._replace(e_step=make_model),
    "augment-reduce-printed": _AUGMENT_REDUCE._replace(e_step=make_printed_model),
    "ove": Traits(
        lambda context: OneVsEach(),
        examples=100,
        classes=5,
        sampling="uniform",
        maximises_one_vs_each=True,
    ),
    "ove-adaptive": _ADAPTIVE._replace(
        e_step=lambda link: OneVsEachModel(), maximises_one_vs_each=True
    ),
    "nce": Traits(
        lambda context: NoiseContrastive(_expected_counts(context)),
        examples=100,
        classes=5,
        sampling="frequency",
        draws=Draws.NOISE,
    ),
    "importance": Traits(
        lambda context: SampledSoftmax(_expected_counts(context)),
        examples=100,
        classes=5,
        sampling="frequency",
        draws=Draws.SHARED,
    ),
    "sco": Traits(_composition, ("difference",), sampling="frequency"),
    "exact": Traits(lambda context: Exact(), classes=None),
    "exact-adaptive": _ADAPTIVE._replace(e_step=lambda link: ExactModel(), classes=None),
    "lbfgs": Traits(classes=None, has_partial_fit=False, takes_rate=False, is_full_batch=True),
    "coordinate": Traits(
        classes=None, has_partial_fit=False, takes_rate=False, by_columns=True, takes_l1=True
    ),
}


def solvers_that(can: Callable[[Traits], Any]) -> str:
    """Return the names of the solvers with a trait, for a message."""
    return ", ".join(repr(name) for name, traits in SOLVERS.items() if can(traits))


def make_rule(plan: Plan, sampler: Any, epoch: int, longest: float, n_classes: int) -> Any:
    """Return the update rule of a plan for an epoch, counted from 0."""
    make = SOLVERS[plan.solver].rule
    assert make is not None
    return make(RuleContext(plan, sampler, epoch, longest, n_classes))
