"""Model files of linear models: coefficients, and the states that a later fit continues from."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro.fitting.run import CHOSEN
from monro.linear.solvers import SOLVERS
from monro.linear.trainer import LinearFit
from monro.rows import Array
from monro.saving.container import Contents
from monro.saving.estimator import check_numbers, describe, restore, round_to_half
from monro.saving.states import Axis, arrays_of, flatten, unflatten

# The states by their names in files.
STATES = {
    name: kind for traits in SOLVERS.values() for name, kind in traits.make.state_types.items()
}
_ATTRIBUTES = (
    "n_features_in_",
    "n_iter_",
    "history_",
    "solver_",
    "learning_rate_",
    "_layout",
    *CHOSEN,
)


def dense_coef(estimator: Any) -> Array:
    """Return ``coef_`` as an array, also if it is sparse (`sparsify`)."""
    coef = estimator.coef_
    dense: Array = coef.toarray().reshape(estimator._coef_shape()) if sp.issparse(coef) else coef
    return dense


def to_contents(estimator: Any) -> Contents:
    """Return a fitted estimator's arrays and JSON."""
    check_is_fitted(estimator, "coef_")
    contents = describe(estimator, _ATTRIBUTES)
    contents.arrays["coef_"] = dense_coef(estimator)
    contents.arrays["intercept_"] = estimator.intercept_
    fit: LinearFit = estimator._fitted
    contents.about["fitted"]["_form"] = fit._replace(states=())[:-1]
    contents.about["states"] = [
        flatten(f"states.{k}", state, contents.arrays, STATES) for k, state in enumerate(fit.states)
    ]
    return contents


def keep_predictions(contents: Contents) -> None:
    """Remove what only training needs, and round the weights."""
    for name in [name for name in contents.arrays if name.startswith("states.")]:
        del contents.arrays[name]
    contents.about["states"] = []
    contents.about["fitted"]["history_"] = []
    round_to_half(contents, ["coef_"])


def from_contents(estimator: Any, contents: Contents) -> None:
    """Set the attributes of an estimator from the contents of a file."""
    form = contents.about["fitted"].pop("_form")
    restore(estimator, contents, _ATTRIBUTES)
    coef, intercept = contents.arrays["coef_"], contents.arrays["intercept_"]
    if coef.shape != estimator._coef_shape() or intercept.shape != np.atleast_2d(coef).shape[:1]:
        raise ValueError("coef_")
    check_numbers(coef, intercept)
    estimator.coef_, estimator.intercept_ = coef, intercept
    states = tuple(
        unflatten(f"states.{k}", structure, contents.arrays, STATES)
        for k, structure in enumerate(contents.about["states"])
    )
    for state in states:
        widths = [array.size for axes, array in arrays_of(state) if Axis.FEATURES in axes]
        extra = {width - estimator.n_features_in_ for width in widths if width}
        if not extra <= {0, 1, 2, 3}:  # entries after the weights: intercept, centring
            raise ValueError("states")
    estimator._fitted = LinearFit(*form)._replace(states=states)
