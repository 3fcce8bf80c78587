"""From an estimator's parameters to a plan: "auto" and None resolved, combinations checked."""

from typing import Any

import numpy as np

from monro import checks
from monro.links import LINKS
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.solvers import SOLVERS, Plan, Traits

FORMULATIONS = ("auto", "difference", "raman")
SAMPLING = ("auto", "block", "uniform", "frequency", "neighbour")
INITS = ("auto", "zero")
# How fast intercepts learn, as a share of what a feature of the rows' own length would: explicit
# steps run away if it is much. And so for the normaliser of an example in the separable form, whose
# noise is what hurts.
_DAMPING = 0.03
_DAMPING_IMPLICIT = 0.1
_NORMALISER = 0.3
_THOUSANDS = 4096  # classes up to which more of them are drawn, and all of them near the end
_END = 5  # the last one of so many epochs
_REDUCE = 0.02  # ρ0 of augment and reduce (paper 001, section 4)
_DECAY = 0.9  # of the rate, an epoch (paper 000, section 4.1)


def check_parameters(estimator: Any) -> None:
    """Check every parameter, and the combinations of them."""
    checks.common(estimator)
    checks.choice("solver", estimator.solver, SOLVERS)
    checks.choice("link", estimator.link, LINKS)
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
        checks.choice("posterior", estimator.posterior, ["gaussian"])
        if estimator.solver != "augment-reduce":
            raise ValueError("posterior='gaussian' is for solver='augment-reduce'")
        if estimator.alpha == 0:
            raise ValueError(
                "posterior='gaussian' needs a prior: give alpha > 0, its precision is alpha times "
                "the number of examples"
            )
    _check_combination(estimator)


def _able(what: str) -> str:
    names = [repr(name) for name, traits in SOLVERS.items() if getattr(traits, what)]
    return ", ".join(names)


def _check_combination(estimator: Any) -> None:
    solver, traits = estimator.solver, SOLVERS[estimator.solver]
    if estimator.link not in traits.links:
        valid = [name for name, t in SOLVERS.items() if estimator.link in t.links]
        raise ValueError(
            f"solver={solver!r} has no link={estimator.link!r}: use solver={valid[0]!r}"
        )
    if solver == "augment-reduce" and estimator.sampling not in ("auto", "uniform", "frequency"):
        raise ValueError(
            f"solver='augment-reduce' draws single classes: sampling={estimator.sampling!r} is not "
            "for it, use 'uniform' or 'frequency'"
        )
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
    if estimator.sampling == "neighbour" and not traits.formulations:
        raise ValueError(f"sampling='neighbour' is for {_able('formulations')}")
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
    if estimator.sampling in ("block", "neighbour") and m is not None and m % LANES:
        raise ValueError(
            f"classes_per_step={m}: blocks have {LANES} classes, give a multiple, or use "
            "sampling='uniform'"
        )


def make_plan(estimator: Any, n_classes: int, mean_sqnorm: float) -> Plan:
    """Return the plan of a fit; the learning rate, if it is "auto", is left NaN."""
    traits = SOLVERS[estimator.solver]
    length = mean_sqnorm or 1.0
    examples = int(estimator.examples_per_step or traits.examples)
    sampling, classes = _sampling(estimator, traits, examples, n_classes)
    formulation = estimator.formulation
    if formulation == "auto":
        # From a cold start the normaliser is far off, and better learnt together with w_y.
        warm = estimator.init == "auto" or sampling == "all"
        separable = estimator.solver == "implicit" and examples == 1 and warm
        formulation = "raman" if separable else "difference"
    rate = estimator.learning_rate
    if rate == "auto" and estimator.solver == "augment-reduce":
        rate = _REDUCE
    damping = _DAMPING_IMPLICIT if estimator.solver == "implicit" else _DAMPING
    return Plan(
        solver=estimator.solver,
        link=estimator.link,
        posterior=estimator.posterior,
        formulation=formulation,
        sampling=sampling,
        examples=examples,
        classes=classes,
        eta0=float("nan") if rate == "auto" else float(rate),
        epochs=int(estimator.max_epochs),
        exact_epochs=_exact_epochs(estimator, sampling, n_classes),
        decay=_decay(estimator, examples),
        delta=float(estimator.delta),
        radius=None if estimator.radius is None else float(estimator.radius),
        alpha=float(estimator.alpha),
        damping=damping * length if estimator.fit_intercept else 0.0,
        stiffness=0.0 if sampling == "all" else 1.0 / (_NORMALISER * length),
        dtype=estimator.dtype,
    )


def _decay(estimator: Any, examples: int) -> float | None:
    if estimator.epoch_decay is not None:
        return float(estimator.epoch_decay)
    if estimator.solver == "augment-reduce":
        return 1.0  # its rates fall by themselves
    # No rate is too large for implicit steps to begin with, if only it falls to 0 in the end; but
    # early stopping does not know the end.
    known_end = not estimator.early_stopping and estimator.tol is None
    return None if estimator.solver == "implicit" and examples == 1 and known_end else _DECAY


def _sampling(estimator: Any, traits: Traits, examples: int, n_classes: int) -> tuple[str, int]:
    """Return how classes are drawn, and how many a step."""
    if traits.classes is None:
        return "all", n_classes
    sampling, m = estimator.sampling, estimator.classes_per_step
    if sampling == "auto":
        sampling = traits.sampling
        if estimator.solver == "implicit" and examples > 1:
            sampling = "uniform"
        elif m is None and n_classes <= traits.few:
            return "all", n_classes
        elif traits.formulations and m is not None and m % LANES:
            sampling = "uniform"  # few classes a step, asked for by number: drawn as in the paper
    if m is None:
        single = 1 if traits.formulations else traits.classes
        usual = {"uniform": single, "block": LANES, "neighbour": _usual_blocks(n_classes) * LANES}
        m = usual.get(sampling, min(LANES, traits.classes))
    return sampling, int(m)


def _usual_blocks(n_classes: int) -> int:
    """Return how many blocks a step draws: a fifth of a few thousand classes, 5 blocks of more.

    On Omniglot (1,623 classes) 20 blocks end at a sixth of the loss of 5, in three times the time;
    on WikiText-2 (33,278) 10 blocks are no better than 5.
    """
    return int(np.clip(n_blocks(n_classes) // 5, 5, 20)) if n_classes <= _THOUSANDS else 5


def _exact_epochs(estimator: Any, sampling: str, n_classes: int) -> int:
    """Return how many epochs at the end use all classes: what is left then is the noise of draws.

    On Omniglot that doubles the time of the fit, and the loss ends at a fifth.
    """
    chosen_here = estimator.sampling == "auto" and estimator.classes_per_step is None
    neighbours = sampling == "neighbour" and n_classes <= _THOUSANDS
    known_end = _decay(estimator, 1) is None
    return int(estimator.max_epochs) // _END if chosen_here and neighbours and known_end else 0


def explain(estimator: Any, plan: Plan, n_classes: int, trials: int) -> str:
    """Say in a line what "auto" was taken for, and why; nothing where all was given."""
    said = []
    if estimator.sampling == "auto" and plan.sampling == "all":
        said.append(f"sampling: all {n_classes} classes at every step, for they are few")
    elif estimator.sampling == "auto":
        many = f"{plan.classes} of {n_classes:,} classes a step"
        kinds = {
            "neighbour": "by neighbours' labels and by frequency, for they are many",
            "frequency": "by frequency",
            "uniform": "all alike",
        }
        end = f", all in the last {plan.exact_epochs} epochs" if plan.exact_epochs else ""
        said.append(f"sampling: {many}, {kinds[plan.sampling]}{end}")
    if estimator.formulation == "auto" and SOLVERS[plan.solver].formulations:
        exact = "with the normaliser exact" if plan.sampling == "all" else "from a warm start"
        why = exact if plan.formulation == "raman" else "as in the paper"
        said.append(f"formulation: {plan.formulation}, {why}")
    if estimator.init == "auto":
        what = "the log frequencies of the classes" if plan.damping > 0.0 else "equal classes"
        said.append(f"init: {what}")
    if estimator.learning_rate == "auto" and trials:
        said.append(f"learning rate: {plan.eta0:.3g}, the best of {trials} trials")
    return "; ".join(said)
