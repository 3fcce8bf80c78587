"""From parameters to a plan: resolves "auto" and None."""

from typing import Any

import numpy as np

from monro.blocks import LANES, n_lanes
from monro.fitting.path import resolved_alpha
from monro.softmax.plan import ALL, Plan
from monro.softmax.rules.umax_bounds import weight_bound
from monro.softmax.sampling.registry import MAX_EXACT_CLASSES, SAMPLING
from monro.softmax.solvers import SOLVERS, Traits

# Learning rate of an example's normaliser in the "raman" formulation, relative to that of a feature
# of the rows' mean length: smaller, to damp its sampling noise.
_NORMALISER_RATE = 0.3
STREAM_ALPHA = 1e-6  # of partial_fit with alpha="auto"
_EXACT_SHARE = 5  # one in 5 epochs, the last ones, uses all classes


def make_plan(estimator: Any, n_classes: int, mean_sqnorm: float) -> Plan:
    """Return the plan of a fit; its learning rate is NaN if the rows determine it."""
    traits = SOLVERS[estimator.solver]
    length = mean_sqnorm or 1.0
    examples = int(estimator.examples_per_step or traits.examples)
    sampling, classes = _sampling(estimator, traits, examples, n_classes)
    formulation = estimator.formulation
    if formulation == "auto":
        # From a cold start the normaliser is far off, and is learnt better together with w_y.
        warm = estimator.init == "auto" or sampling == ALL
        raman = traits.is_implicit and examples == 1 and warm
        formulation = "raman" if raman else "difference"
    named = isinstance(estimator.learning_rate, str)
    rate = traits.rate if named else estimator.learning_rate
    return Plan(
        solver=estimator.solver,
        link=estimator.link,
        posterior=estimator.posterior,
        formulation=formulation,
        sampling=sampling,
        examples=examples,
        classes=classes,
        eta0=float("nan") if rate is None else float(rate),
        epochs=int(estimator.max_epochs),
        exact_epochs=_exact_epochs(estimator, sampling, n_classes),
        decay=_decay(estimator, examples),
        delta=float(estimator.delta),
        radius=_radius(estimator, n_classes),
        alpha=resolved_alpha(estimator, STREAM_ALPHA),
        damping=traits.damping * length if estimator.fit_intercept else 0.0,
        stiffness=0.0 if sampling == ALL else 1.0 / (_NORMALISER_RATE * length),
        dtype=estimator.dtype,
        l1_ratio=float(estimator.l1_ratio),
        coordinate_epochs=_coordinate_epochs(estimator, traits, n_classes),
    )


def size_of_dense(n_classes: int, n_features: int, dtype: str) -> tuple[int, str]:
    """Return the bytes of dense weights, and a text with them."""
    size = int(n_lanes(n_classes)) * n_features * int(np.dtype(dtype).itemsize)
    shape = f"{n_classes:,} classes × {n_features:,} features"
    return size, f"dense weights of {shape} would take {size / 1e9:.2g} GB"


def _radius(estimator: Any, n_classes: int) -> float | None:
    """Return B_W; "paper" is Lemma 1 of 000."""
    if estimator.radius == "paper":
        return weight_bound(n_classes, float(estimator.alpha))
    return None if estimator.radius is None else float(estimator.radius)


def _decay(estimator: Any, examples: int) -> float | None:
    """Return the decay of the rate, None if it falls to 0 at the end of the fit."""
    traits = SOLVERS[estimator.solver]
    if estimator.epoch_decay is not None:
        return float(estimator.epoch_decay)
    # With early stopping the last epoch is not known in advance.
    known_end = not estimator.early_stopping and estimator.tol is None
    return None if traits.is_implicit and examples == 1 and known_end else traits.decay


def _sampling(estimator: Any, traits: Traits, examples: int, n_classes: int) -> tuple[str, int]:
    """Return the name of the sampling, and the number of classes per step."""
    if traits.classes is None:
        return ALL, n_classes
    sampling, m = estimator.sampling, estimator.classes_per_step
    if sampling == "auto":
        sampling = traits.sampling
        if traits.is_implicit and examples > 1:
            sampling = "uniform"
        elif m is None and n_classes <= traits.few:
            return ALL, n_classes
        elif traits.formulations and m is not None and m % LANES:
            sampling = "uniform"  # no multiple of a block: single classes, as in the paper
    if m is None:
        local = bool(traits.formulations)
        m = SAMPLING[sampling].default_classes(traits.classes, local, n_classes)
    return sampling, int(m)


def _exact_epochs(estimator: Any, sampling: str, n_classes: int) -> int:
    """Return the number of last epochs that use all classes, to remove the noise of sampling.

    On Omniglot this doubles the time of the fit, and reduces the final loss to a fifth.
    """
    automatic = estimator.sampling == "auto" and estimator.classes_per_step is None
    sampled = sampling in SAMPLING and SAMPLING[sampling].needs_local_variables
    few = sampled and n_classes <= MAX_EXACT_CLASSES
    known_end = _decay(estimator, 1) is None
    return int(estimator.max_epochs) // _EXACT_SHARE if automatic and few and known_end else 0


def _coordinate_epochs(estimator: Any, traits: Traits, n_classes: int) -> int:
    """Return the number of last epochs that are of coordinate descent.

    After stochastic steps they make those weights 0 that the noise of the steps keeps from it, and
    bring columns to their optimum that steps hardly move, because factors of the penalty have made
    others longer.
    """
    if traits.by_columns:
        return int(estimator.max_epochs)
    known_end = _decay(estimator, 1) is None
    if not known_end or not ends_by_descent(estimator, n_classes):
        return 0
    return -(-int(estimator.max_epochs) // _EXACT_SHARE)


def ends_by_descent(estimator: Any, n_classes: int) -> bool:
    """Return whether coordinate descent is to finish a fit, and classes are few enough for it."""
    has_factors = estimator.penalty_factor is not None and SOLVERS[estimator.solver].takes_l1
    return bool((estimator.l1_ratio > 0.0 or has_factors) and n_classes <= MAX_EXACT_CLASSES)


def explain(estimator: Any, plan: Plan, n_classes: int, trials: int) -> str:
    """Return a line that says how each "auto" was resolved and why; empty if none was used."""
    parts = []
    stochastic = plan.coordinate_epochs < plan.epochs
    if stochastic and estimator.sampling == "auto" and plan.uses_all_classes:
        parts.append(f"sampling: all {n_classes} classes at every step, because they are few")
    elif stochastic and estimator.sampling == "auto":
        many = f"{plan.classes} of {n_classes:,} classes a step"
        end = f", all in the last {plan.exact_epochs} epochs" if plan.exact_epochs else ""
        parts.append(f"sampling: {many}, {SAMPLING[plan.sampling].description}{end}")
    if 0 < plan.coordinate_epochs < plan.epochs:
        parts.append(f"the last {plan.coordinate_epochs} epochs: coordinate descent")
    if estimator.formulation == "auto" and SOLVERS[plan.solver].formulations:
        exact = "with the normaliser exact" if plan.uses_all_classes else "from a warm start"
        why = exact if plan.is_raman else "as in the paper"
        parts.append(f"formulation: {plan.formulation}, {why}")
    if estimator.init == "auto":
        what = "the log frequencies of the classes" if plan.damping > 0.0 else "equal classes"
        parts.append(f"init: {what}")
    if estimator.alpha == "auto" and hasattr(estimator, "alpha_path_"):
        tried = len(estimator.alpha_path_)
        parts.append(f"alpha: {plan.alpha:.3g}, the best of {tried} strengths on rows held out")
    if estimator.learning_rate == "auto" and trials:
        parts.append(f"learning rate: {plan.eta0:.3g}, the best of {trials} trials")
    return "; ".join(parts)
