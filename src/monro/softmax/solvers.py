"""The solvers by name: which rule, in which formulation, on how many examples and classes."""

from typing import Any, NamedTuple

import numpy as np

from monro.links import LINKS
from monro.rows import Array
from monro.softmax.exact import Exact
from monro.softmax.implicit import Implicit
from monro.softmax.importance import SampledSoftmax
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.mixture import make_mixture
from monro.softmax.nce import NoiseContrastive
from monro.softmax.neighbours import make_neighbours
from monro.softmax.ove import OneVsEach
from monro.softmax.samplers import (
    AllBlocks,
    FrequencyBlocks,
    FrequencyClasses,
    Sampler,
    StratifiedClasses,
    UniformBlocks,
    UniformClasses,
    block_frequencies,
)
from monro.softmax.sco import Composition
from monro.softmax.separable import SeparableImplicit
from monro.softmax.state import NOWHERE
from monro.softmax.sweep import Ball, Unbounded
from monro.softmax.umax import SeparableUMax, UMax
from monro.softmax.vanilla import SeparableVanilla, Vanilla


class Traits(NamedTuple):
    """What a solver can be asked for, and what it takes where nothing is said."""

    formulations: tuple[str, ...] = ()  # none: it has no local variable
    examples: int = 1  # a step
    classes: int | None = LANES  # a step; None: all of them, always
    sampling: str = "block"
    few: int = 0  # classes up to which all of them are used at every step
    shares: bool = False  # the examples of a step share the classes drawn
    bounded: bool = False  # takes delta and radius
    streams: bool = True  # has partial_fit
    takes_rate: bool = True
    links: tuple[str, ...] = ("softmax",)


_BOTH = ("difference", "raman")

# Where the authors' experiments drew classes singly, so do the papers' own settings: give
# sampling="uniform" and classes_per_step. The defaults are what we found best.
SOLVERS = {
    "implicit": Traits(_BOTH, sampling="neighbour", few=256),
    "umax": Traits(_BOTH, sampling="frequency", bounded=True),
    "vanilla": Traits(_BOTH, sampling="frequency"),
    "augment-reduce": Traits(
        examples=500, classes=20, sampling="uniform", streams=False, links=tuple(LINKS)
    ),
    "ove": Traits(examples=100, classes=5, sampling="uniform"),
    "nce": Traits(examples=100, classes=5, sampling="frequency", shares=True),
    "importance": Traits(examples=100, classes=5, sampling="frequency", shares=True),
    "sco": Traits(("difference",), sampling="frequency"),
    "exact": Traits(classes=None),
    "lbfgs": Traits(classes=None, streams=False, takes_rate=False),
}


class Plan(NamedTuple):
    """How to train: everything that "auto" and None were resolved to."""

    solver: str
    link: str
    posterior: str | None
    formulation: str
    sampling: str
    examples: int  # a step
    classes: int  # a step
    eta0: float
    epochs: int  # over which the rate falls to 0, unless it has a decay
    exact_epochs: int  # at the end, with all classes at every step
    decay: float | None  # of the rate, an epoch
    delta: float
    radius: float | None
    alpha: float
    damping: float  # of the intercepts' rate; 0 without intercepts
    stiffness: float  # of the separable normaliser, κ; 0: always exact
    dtype: str


def rate_at(plan: Plan, t: float, before: int = 0) -> float:
    """Return the rate after t epochs, `before` of which were taken by an earlier fit.

    Unless it has a decay it falls to 0 with the square of the time that is left.
    """
    if plan.decay is not None:
        return plan.eta0 * plan.decay ** int(t)
    return plan.eta0 * max(0.0, 1.0 - t / (before + plan.epochs)) ** 2


def make_sampler(plan: Plan, X: Any, y: Array, counts: Array, rng: np.random.Generator) -> Sampler:
    """Return the sampler of a plan for rows X of the classes y.

    `counts` are the examples of each class, by slot: of these rows, and maybe of earlier ones.
    """
    dtype = plan.dtype
    n_classes = counts.size
    blocks = n_blocks(n_classes)
    reduces = plan.solver == "augment-reduce"  # it draws single classes
    in_blocks = plan.classes % LANES == 0 and plan.sampling != "uniform" and not reduces
    if plan.sampling == "all":
        return AllBlocks(blocks, dtype)
    if plan.sampling == "uniform":
        single = StratifiedClasses if reduces else UniformClasses
        return single(n_classes, min(plan.classes, n_classes - 1), blocks * LANES, dtype)
    m = min(plan.classes // LANES, blocks)
    if plan.sampling == "block":
        return UniformBlocks(blocks, m, dtype)
    if plan.sampling == "neighbour":
        neighbours = make_neighbours(X, y // LANES, blocks, rng)
        return make_mixture(neighbours, block_frequencies(counts), *head_and_halves(m), dtype)
    if in_blocks:
        return FrequencyBlocks(block_frequencies(counts), m, dtype)
    padded = np.zeros(blocks * LANES)
    # Add one: a class declared but never seen must be drawn sometimes, too.
    padded[:n_classes] = (counts + 1.0) / (counts + 1.0).sum()
    return FrequencyClasses(padded, plan.classes, dtype)


def head_and_halves(m: int) -> tuple[int, int, int]:
    """Return how many of m blocks are always there, and how many come from each proposal."""
    head = m // 5
    a = (m - head) // 2
    return head, a, m - head - a


def make_rule(plan: Plan, sampler: Any, epoch: int, longest: float) -> Any:
    """Return the rule of a plan for an epoch, counted from 0; `longest` is the longest row."""
    number = np.dtype(plan.dtype).type
    tolerance = number(3e-3 if plan.dtype == "float32" else 1e-6)
    separable = plan.formulation == "raman"
    match plan.solver:
        case "implicit" if separable:
            return SeparableImplicit(tolerance, number(plan.stiffness))
        case "implicit":
            return Implicit(tolerance)
        case "umax":
            bound = number(_largest_u(plan, sampler, longest))
            bounded = SeparableUMax if separable else UMax
            return bounded(number(plan.delta), bound)
        case "vanilla":
            return SeparableVanilla() if separable else Vanilla()
        case "ove":
            return OneVsEach()
        case "nce" | "importance":
            with np.errstate(divide="ignore"):
                log_count = np.maximum(np.log(sampler.chances()), NOWHERE)
            sampled = NoiseContrastive if plan.solver == "nce" else SampledSoftmax
            return sampled(np.ascontiguousarray(log_count, plan.dtype))
        case "sco":
            beta = (epoch + 1.0) ** -0.5
            keep = NOWHERE if epoch == 0 else np.log1p(-beta)
            return Composition(number(keep), number(np.log(beta)))
        case "exact":
            return Exact()
    raise ValueError(plan.solver)


def _largest_u(plan: Plan, sampler: Any, longest: float) -> float:
    """Return B_u: ``log(1 + (K - 1) e^{2 B_x B_W})`` (Lemma 2)."""
    if plan.radius is None:
        return float(np.finfo(plan.dtype).max)
    others = sampler.chances().size - 1
    return float(np.logaddexp(0.0, np.log(others) + 2.0 * longest * plan.radius))


def make_bounds(plan: Plan, sqnorms: Array) -> Any:
    """Return what holds the weights of a class; `sqnorms` are their squared lengths by slot."""
    return Unbounded() if plan.radius is None else Ball(float(plan.radius), sqnorms)
