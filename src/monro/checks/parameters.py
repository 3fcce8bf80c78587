"""Validation of single parameters, with messages that name the parameter and its value."""

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Raise unless the value is one of those allowed."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return
    close = difflib.get_close_matches(str(value), names, 1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, names))}{hint}")


def check_number(name: str, value: Any, low: float, *, open_at_low: bool = False) -> None:
    """Raise unless the value is a finite number of at least (or above) `low`."""
    above = ">" if open_at_low else ">="
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(float(value)):
        raise ValueError(f"{name}={value!r}: give a finite number {above} {low:g}")
    if float(value) < low or (open_at_low and float(value) == low):
        raise ValueError(f"{name}={value!r}: it must be {above} {low:g}")


def check_fraction(name: str, value: Any) -> None:
    """Raise unless the value is a number between 0 and 1, both excluded."""
    check_number(name, value, 0.0, open_at_low=True)
    if value >= 1.0:
        raise ValueError(f"{name}={value!r}: it must be < 1")


def check_integer(name: str, value: Any, low: int) -> None:
    """Raise unless the value is an integer of at least `low`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name}={value!r}: give a whole number of at least {low}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
        raise ValueError(f"{name}={value!r}: choose True or False")


def check_rate(name: str, value: Any, rules: Iterable[str] = ("auto",)) -> None:
    """Raise unless the value is a positive finite number or the name of a rule."""
    if isinstance(value, str):
        check_choice(name, value, rules)
    else:
        check_number(name, value, 0.0, open_at_low=True)


def check_epochs(estimator: Any) -> None:
    """Check the parameters of any estimator that is fitted in epochs: verbose, n_jobs, tol."""
    if not isinstance(estimator.verbose, bool):
        check_integer("verbose", estimator.verbose, 0)
    jobs = estimator.n_jobs
    if jobs is not None and (not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(f"n_jobs={jobs!r}: give a number of threads, or -1 for all cores")
    if estimator.tol is not None:
        check_number("tol", estimator.tol, 0.0)


def check_cv(cv: Any) -> None:
    """Raise unless cv is None, a number of folds, a splitter, or an iterable of pairs."""
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        check_integer("cv", cv, 2)
    elif cv is not None and (isinstance(cv, (str, bool)) or not _gives_pairs(cv)):
        raise ValueError(
            f"cv={cv!r}: give None, a number of folds, a splitter of scikit-learn, or pairs of "
            "indices (rows to train on, rows to judge by)"
        )


def _gives_pairs(cv: Any) -> bool:
    return hasattr(cv, "split") or isinstance(cv, Iterable)


def check_penalty(estimator: Any) -> None:
    """Check alpha, l1_ratio and penalty_factor."""
    if estimator.alpha != "auto":
        check_number("alpha", estimator.alpha, 0.0)
    check_number("l1_ratio", estimator.l1_ratio, 0.0)
    if estimator.l1_ratio > 1:
        raise ValueError(f"l1_ratio={estimator.l1_ratio!r}: it must be <= 1 (1 is a lasso)")
    if estimator.penalty_factor is None:
        return
    _check_factors(estimator.penalty_factor)
    if 0 < estimator.l1_ratio < 1:
        raise ValueError(
            f"penalty_factor is for a ridge or a lasso, this is l1_ratio={estimator.l1_ratio!r}: "
            "use l1_ratio=0 or l1_ratio=1"
        )


def _check_factors(given: Any) -> None:
    """Raise unless these are finite positive numbers, in one dimension."""
    try:
        factors = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        factors = np.zeros(())
    if factors.ndim != 1:
        raise ValueError("penalty_factor: give a list of numbers > 0, one for each feature")
    wrong = np.flatnonzero(~(np.isfinite(factors) & (factors > 0.0)))
    if wrong.size:
        raise ValueError(
            f"penalty_factor: feature {wrong[0]} has {factors[wrong[0]]:g}; give finite numbers "
            "> 0 (a small one, such as 0.01, leaves a feature almost unpenalised)"
        )


def refuse_factors_of_streams(estimator: Any) -> None:
    """Raise AttributeError if the estimator has a penalty_factor: it has no partial_fit then."""
    if estimator.penalty_factor is not None:
        raise AttributeError(
            "penalty_factor is for fit: batches of partial_fit are not scaled; set "
            "penalty_factor=None"
        )


def check_common(estimator: Any, rates: Iterable[str] = ("auto",)) -> None:
    """Check the parameters that all linear and softmax estimators share.

    `rates` are the names that the learning rate may have.
    """
    check_penalty(estimator)
    check_cv(estimator.cv)
    check_rate("learning_rate", estimator.learning_rate, rates)
    check_integer("max_epochs", estimator.max_epochs, 1)
    if isinstance(estimator.scale, str):
        check_choice("scale", estimator.scale, ["auto"])
    else:
        check_flag("scale", estimator.scale)
    for name in ("fit_intercept", "early_stopping", "warm_start"):
        check_flag(name, getattr(estimator, name))
    check_epochs(estimator)
    class_weight = getattr(estimator, "class_weight", None)  # regressors have none
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ["balanced"])
    check_fraction("validation_fraction", estimator.validation_fraction)
