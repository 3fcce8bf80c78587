"""Checks of the parameters of SoftmaxClassifier, and of their combinations."""

from typing import Any

from monro.blocks import LANES
from monro.checks.parameters import (
    check_choice,
    check_common,
    check_flag,
    check_integer,
    check_number,
)
from monro.links import LINKS
from monro.softmax.sampling.registry import SAMPLING
from monro.softmax.solvers import SOLVERS, Traits, solvers_that

FORMULATIONS = ("auto", "difference", "raman")
INITS = ("auto", "zero", "paper")
RATES = ("auto", "paper")


def check_softmax_parameters(estimator: Any) -> None:
    """Raise an error that names the valid choices if a parameter or a combination is invalid."""
    check_common(estimator, RATES)
    check_flag("shuffle", estimator.shuffle)
    check_choice("solver", estimator.solver, SOLVERS)
    check_choice("link", estimator.link, LINKS)
    check_choice("formulation", estimator.formulation, FORMULATIONS)
    check_choice("init", estimator.init, INITS)
    check_choice("sampling", estimator.sampling, ["auto", *SAMPLING])
    check_choice("weights", estimator.weights, ["auto", "dense", "observed"])
    check_integer("min_pair_count", estimator.min_pair_count, 1)
    check_choice("label_weight", estimator.label_weight, ["auto", "share", "one", "independent"])
    check_choice("dtype", estimator.dtype, ["float32", "float64"])
    for name in ("examples_per_step", "classes_per_step"):
        if getattr(estimator, name) is not None:
            check_integer(name, getattr(estimator, name), 1)
    if estimator.epoch_decay is not None:
        check_number("epoch_decay", estimator.epoch_decay, 0.0, open_at_low=True)
        if estimator.epoch_decay > 1:
            raise ValueError(f"epoch_decay={estimator.epoch_decay!r}: it must be <= 1")
    check_number("delta", estimator.delta, 0.0, open_at_low=True)
    if estimator.radius not in (None, "paper"):
        check_number("radius", estimator.radius, 0.0, open_at_low=True)
    if estimator.posterior is not None:
        check_choice("posterior", estimator.posterior, ["gaussian"])
        if not SOLVERS[estimator.solver].is_variational:
            able = solvers_that(lambda traits: traits.is_variational)
            raise ValueError(f"posterior='gaussian' is for solver={able}")
        if estimator.alpha == 0:
            raise ValueError(
                "posterior='gaussian' needs a prior: give alpha > 0, its precision is alpha times "
                "the number of examples"
            )
    _check_combination(estimator)
    _check_observed(estimator)
    fixed = in_units_of_columns(estimator)
    if fixed is not None and not isinstance(estimator.scale, str) and estimator.scale:
        raise ValueError(f"scale=True: {fixed} is in the units of the columns: leave scale='auto'")
    if fixed is not None and estimator.penalty_factor is not None:
        raise ValueError(
            f"penalty_factor: {fixed} is in the units of the columns: leave penalty_factor=None"
        )


def _check_observed(estimator: Any) -> None:
    """Raise unless the other parameters support the weights and labels that are asked for."""
    asked = estimator.weights
    refused = refused_for_observed(estimator)
    if refused is not None and (asked == "observed" or estimator.label_weight == "independent"):
        what = "weights='observed'" if asked == "observed" else "label_weight='independent'"
        raise ValueError(
            f"{what} has steps of its own, for the softmax: {refused} is for weights='dense'"
        )
    if estimator.label_weight == "independent" and asked == "dense":
        raise ValueError("label_weight='independent' is for weights='observed'")
    if estimator.min_pair_count > 1 and asked == "dense":
        raise ValueError("min_pair_count is for weights='observed': leave it 1")


_OF_DENSE = {
    "solver": "implicit",
    "link": "softmax",
    "formulation": "auto",
    "init": "auto",
    "sampling": "auto",
    "examples_per_step": None,
    "classes_per_step": None,
    "epoch_decay": None,
    "radius": None,
    "posterior": None,
}


def refused_for_observed(estimator: Any) -> str | None:
    """Return the parameter that only dense weights support, if one is not at its default."""
    for name, default in _OF_DENSE.items():
        value = getattr(estimator, name)
        if value != default:
            return f"{name}={value!r}"
    return None


def in_units_of_columns(estimator: Any) -> str | None:
    """Return the parameter, if there is one, that is meant for the columns as they are given."""
    if estimator.radius is not None:
        return f"radius={estimator.radius!r}"
    if estimator.posterior is not None:
        return f"the prior of posterior={estimator.posterior!r}"
    if SOLVERS[estimator.solver].is_adaptive:
        return f"the step length of solver={estimator.solver!r}"
    return None


def _check_combination(estimator: Any) -> None:
    solver, traits = estimator.solver, SOLVERS[estimator.solver]
    if estimator.link not in traits.links:
        valid = [name for name, t in SOLVERS.items() if estimator.link in t.links]
        raise ValueError(
            f"solver={solver!r} has no link={estimator.link!r}: use solver={valid[0]!r}"
        )
    sampling = SAMPLING.get(estimator.sampling)
    if traits.is_adaptive and sampling is not None and sampling.in_blocks:
        single = " or ".join(repr(name) for name, s in SAMPLING.items() if not s.in_blocks)
        raise ValueError(
            f"solver={solver!r} draws single classes: sampling={estimator.sampling!r} is not "
            f"for it, use {single}"
        )
    if estimator.formulation not in ("auto", *traits.formulations):
        valid = [name for name, t in SOLVERS.items() if estimator.formulation in t.formulations]
        raise ValueError(
            f"solver={solver!r} has no formulation={estimator.formulation!r}: leave it 'auto', or "
            f"use one of {', '.join(map(repr, valid))}"
        )
    if estimator.l1_ratio > 0 and not traits.takes_l1:
        able = solvers_that(lambda t: t.takes_l1)
        raise ValueError(
            f"l1_ratio={estimator.l1_ratio!r}: the penalty of solver={solver!r} is a ridge; leave "
            f"l1_ratio=0, or use {able}"
        )
    if estimator.l1_ratio > 0 and (estimator.examples_per_step or 1) > 1:
        raise ValueError(
            f"l1_ratio={estimator.l1_ratio!r} with solver={solver!r} takes one example per step: "
            "leave examples_per_step=None"
        )
    if traits.classes is None:
        for name in ("sampling", "classes_per_step"):
            if getattr(estimator, name) not in (None, "auto"):
                raise ValueError(
                    f"solver={solver!r} uses all classes at every step: leave {name} at its default"
                )
    if not traits.takes_rate:
        for name in ("examples_per_step", "epoch_decay"):
            if getattr(estimator, name) is not None:
                raise ValueError(f"solver={solver!r} takes no {name}: leave it None")
        if estimator.learning_rate != "auto":
            raise ValueError(f"solver={solver!r} takes no learning_rate: leave it 'auto'")
        if traits.is_full_batch and estimator.early_stopping:
            able = solvers_that(lambda t: not t.is_full_batch)
            raise ValueError(f"solver={solver!r} has no early stopping: use {able}")
    if sampling is not None and sampling.needs_local_variables and not traits.formulations:
        able = solvers_that(lambda t: t.formulations)
        raise ValueError(f"sampling={estimator.sampling!r} is for {able}")
    if estimator.radius is not None and not traits.is_bounded:
        raise ValueError(f"radius is for {solvers_that(lambda t: t.is_bounded)}: leave it None")
    if estimator.radius == "paper" and estimator.alpha in (0.0, "auto"):
        raise ValueError("radius='paper' is √(2 log K / alpha): give alpha > 0, or a radius")
    if estimator.learning_rate == "paper":
        _check_theorem(estimator, traits)
    if traits.is_implicit and (estimator.examples_per_step or 1) > 1:
        if estimator.formulation == "raman":
            raise ValueError(
                f"examples_per_step > 1 with solver={solver!r} is for formulation='difference'"
            )
        if estimator.sampling not in ("auto", "uniform"):
            raise ValueError(
                f"examples_per_step > 1 with solver={solver!r} draws single classes: use "
                "sampling='uniform'"
            )
    m = estimator.classes_per_step
    if sampling is not None and sampling.in_blocks and m is not None and m % LANES:
        raise ValueError(
            f"classes_per_step={m}: blocks have {LANES} classes, give a multiple, or use "
            "sampling='uniform'"
        )


def _check_theorem(estimator: Any, traits: Traits) -> None:
    """Raise unless Theorem 1 of paper 000 is about this model."""
    if not traits.is_bounded:
        able = solvers_that(lambda t: t.is_bounded)
        raise ValueError(f"learning_rate='paper' is for {able}: use 'auto', or give a number")
    wrong = {
        "a radius": estimator.radius is None,
        "fit_intercept=False": estimator.fit_intercept,
        "sampling='uniform'": estimator.sampling != "uniform",
        "formulation='difference'": estimator.formulation == "raman",
        "one example per step": (estimator.examples_per_step or 1) > 1,
    }
    if any(wrong.values()):
        needs = ", ".join(what for what, is_wrong in wrong.items() if is_wrong)
        raise ValueError(f"learning_rate='paper' is the rate of a theorem that needs {needs}")
