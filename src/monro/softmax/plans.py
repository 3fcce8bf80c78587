"""From an estimator's parameters to a plan: "auto" and None resolved, combinations checked."""

from typing import Any

import numpy as np

from monro import checks
from monro.rows import Array
from monro.softmax.layout import LANES
from monro.softmax.solvers import SOLVERS, Plan

FORMULATIONS = ("auto", "difference", "raman")
SAMPLING = ("auto", "block", "uniform", "frequency")
INITS = ("auto", "zero")
# How fast intercepts learn, as a share of what a feature of the rows' own length would.
_DAMPING = 0.03
_DECAY = 0.9  # of the rate, an epoch (paper 000, section 4.1)


def check_parameters(estimator: Any) -> None:
    """Check every parameter, and the combinations of them."""
    checks.common(estimator)
    checks.choice("solver", estimator.solver, SOLVERS)
    checks.choice("link", estimator.link, ["softmax"])
    checks.choice("formulation", estimator.formulation, FORMULATIONS)
    checks.choice("init", estimator.init, INITS)
    checks.choice("sampling", estimator.sampling, SAMPLING)
    checks.choice("dtype", estimator.dtype, ["float32", "float64"])
    for name in ("examples_per_step", "classes_per_step"):
        if getattr(estimator, name) is not None:
            checks.whole(name, getattr(estimator, name), 1)
    if estimator.epoch_decay is not None:
        checks.number("epoch_decay", estimator.epoch_decay, 0.0, open_at_low=True)
        if estimator.epoch_decay > 1:
            raise ValueError(f"epoch_decay={estimator.epoch_decay!r}: it must be <= 1")
    checks.number("delta", estimator.delta, 0.0, open_at_low=True)
    if estimator.radius is not None:
        checks.number("radius", estimator.radius, 0.0, open_at_low=True)
    if estimator.posterior is not None:
        raise ValueError(f"posterior={estimator.posterior!r}: only None is there")
    _check_combination(estimator)


def _able(what: str) -> str:
    names = [repr(name) for name, traits in SOLVERS.items() if getattr(traits, what)]
    return ", ".join(names)


def _check_combination(estimator: Any) -> None:
    solver, traits = estimator.solver, SOLVERS[estimator.solver]
    if estimator.formulation not in ("auto", *traits.formulations):
        valid = [name for name, t in SOLVERS.items() if estimator.formulation in t.formulations]
        raise ValueError(
            f"solver={solver!r} has no formulation={estimator.formulation!r}: leave it 'auto', or "
            f"use one of {', '.join(map(repr, valid))}"
        )
    if traits.classes is None:
        for name in ("sampling", "classes_per_step"):
            if getattr(estimator, name) not in (None, "auto"):
                raise ValueError(
                    f"solver={solver!r} uses all classes at every step: leave {name} at its default"
                )
    if solver == "lbfgs":
        for name in ("examples_per_step", "epoch_decay"):
            if getattr(estimator, name) is not None:
                raise ValueError(f"solver='lbfgs' takes no {name}: leave it None")
        if estimator.learning_rate != "auto":
            raise ValueError("solver='lbfgs' takes no learning_rate: leave it 'auto'")
        if estimator.early_stopping:
            raise ValueError(f"solver='lbfgs' has no early stopping: use {_able('takes_rate')}")
    if estimator.radius is not None and not traits.bounded:
        raise ValueError(f"radius is for {_able('bounded')}: leave it None")
    if solver == "implicit" and (estimator.examples_per_step or 1) > 1:
        if estimator.formulation == "raman":
            raise ValueError(
                "examples_per_step > 1 with solver='implicit' is for formulation='difference'"
            )
        if estimator.sampling not in ("auto", "uniform"):
            raise ValueError(
                "examples_per_step > 1 with solver='implicit' draws single classes: use "
                "sampling='uniform'"
            )
    m = estimator.classes_per_step
    if estimator.sampling == "block" and m is not None and m % LANES:
        raise ValueError(
            f"classes_per_step={m}: blocks have {LANES} classes, give a multiple, or use "
            "sampling='uniform'"
        )


def make_plan(estimator: Any, n_classes: int, mean_sqnorm: float) -> Plan:
    """Return the plan of a fit; the learning rate, if it is "auto", is left NaN."""
    traits = SOLVERS[estimator.solver]
    examples = estimator.examples_per_step or traits.examples
    batches = estimator.solver == "implicit" and examples > 1
    sampling = estimator.sampling
    if sampling == "auto":
        sampling = "uniform" if batches else traits.sampling
        m = estimator.classes_per_step
        if sampling == "frequency" and traits.formulations and m is not None and m % LANES:
            sampling = "uniform"  # few classes a step, asked for by number: drawn as in the paper
    if traits.classes is None:
        classes = n_classes
    else:
        usual = {"uniform": 1 if traits.formulations else traits.classes, "block": LANES}
        classes = estimator.classes_per_step or usual.get(sampling, traits.classes)
    rate = estimator.learning_rate
    return Plan(
        solver=estimator.solver,
        formulation="difference" if estimator.formulation == "auto" else estimator.formulation,
        sampling=sampling,
        examples=examples,
        classes=classes,
        eta0=float("nan") if rate == "auto" else float(rate),
        decay=_DECAY if estimator.epoch_decay is None else float(estimator.epoch_decay),
        delta=float(estimator.delta),
        radius=None if estimator.radius is None else float(estimator.radius),
        alpha=float(estimator.alpha),
        damping=_DAMPING * (mean_sqnorm or 1.0) if estimator.fit_intercept else 0.0,
        normaliser_rate=1.0,
        dtype=estimator.dtype,
    )


def place_classes(plan: Plan, counts: Array, rng: np.random.Generator) -> Array:
    """Return a slot for each class: in random order, or from frequent to rare.

    Classes that lie in one block are drawn together, so those of a kind had better not. By
    frequency, blocks hold classes that deserve to be drawn equally often, equals in random order.
    """
    order = rng.permutation(counts.size)
    if plan.sampling == "frequency":
        order = order[np.argsort(-counts[order], kind="stable")]
    slots = np.empty(counts.size, np.int64)
    slots[order] = np.arange(counts.size)
    return slots
