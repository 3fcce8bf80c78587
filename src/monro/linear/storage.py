"""Linear models as arrays and JSON, for `monro.persist` to write."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from monro import persist
from monro.linear.dual import DualState
from monro.linear.sgdqn import GainState
from monro.linear.state import Last, Mean, PerExample, State
from monro.linear.train import weight_arrays
from monro.persist import Contents
from monro.storage import get_parameters, put_labels, set_parameters, take_labels

STATES = {kind.__name__: kind for kind in (State, Last, Mean, PerExample, GainState, DualState)}
_PLAIN = ("n_features_in_", "n_iter_", "history_", "solver_", "learning_rate_", "_form", "_layout")


def to_contents(estimator: Any) -> Contents:
    """Return a fitted estimator's arrays and JSON."""
    check_is_fitted(estimator, "coef_")
    contents = Contents({}, {"parameters": get_parameters(estimator)})
    contents.arrays["coef_"] = estimator.coef_
    contents.arrays["intercept_"] = estimator.intercept_
    for name in ("classes_", "feature_names_in_"):
        if hasattr(estimator, name):
            put_labels(name, getattr(estimator, name), contents)
    contents.about["fitted"] = {
        name: getattr(estimator, name) for name in _PLAIN if hasattr(estimator, name)
    }
    contents.about["states"] = [
        persist.flatten(f"states.{k}", state, contents.arrays)
        for k, state in enumerate(getattr(estimator, "_states", []))
    ]
    return contents


def from_contents(estimator: Any, contents: Contents) -> None:
    """Make an estimator what it was."""
    set_parameters(estimator, contents.about["parameters"])
    arrays = contents.arrays
    for name, value in contents.about["fitted"].items():
        if name not in _PLAIN:
            raise ValueError(name)
        setattr(estimator, name, value)
    estimator._form = tuple(estimator._form)
    for name in ("classes_", "feature_names_in_"):
        labels = take_labels(name, contents)
        if labels is not None:
            setattr(estimator, name, labels)
    coef, intercept = arrays["coef_"], arrays["intercept_"]
    if coef.shape != estimator._coef_shape() or intercept.shape != np.atleast_2d(coef).shape[:1]:
        raise ValueError("coef_")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("coef_")
    estimator.coef_, estimator.intercept_ = coef, intercept
    if contents.about["states"]:
        estimator._states = [
            persist.unflatten(f"states.{k}", shape, arrays, STATES)
            for k, shape in enumerate(contents.about["states"])
        ]
        extra = {_width(state) - estimator.n_features_in_ for state in estimator._states}
        if not extra <= {0, 1, 2, 3}:  # a bias, and what casgd keeps
            raise ValueError("states")


def _width(state: Any) -> int:
    """Return the length of a state's weights."""
    return max(array.size for array in weight_arrays(state))


def same_width(state: Any, other: Any) -> bool:
    """Tell whether two states have weights for the same columns."""
    return _width(state) == _width(other)
