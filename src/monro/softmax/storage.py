"""Model files of the softmax: the weights, and the state that a later fit continues from."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro.blocks import LANES, n_blocks
from monro.fitting.run import CHOSEN
from monro.saving.container import Contents
from monro.saving.estimator import check_numbers, describe, restore, round_to_half
from monro.saving.states import flatten, unflatten
from monro.softmax.model import Weights
from monro.softmax.training.continuation import PartialState, SoftmaxFit

_ATTRIBUTES = (
    "n_features_in_",
    "n_iter_",
    "history_",
    "learning_rate_",
    "plan_",
    "_layout",
    *CHOSEN,
)
_STATES = {"Stream": PartialState}  # by their names in files


def to_contents(estimator: Any) -> Contents:
    """Return the contents of a fitted estimator's file."""
    check_is_fitted(estimator)
    contents = describe(estimator, _ATTRIBUTES)
    arrays, about = contents.arrays, contents.about
    fit: SoftmaxFit = estimator._fitted
    weights = fit.weights
    W: Any = weights.W
    if sp.issparse(W):
        W = W.tocsr()
        arrays.update(data=W.data, indices=W.indices, indptr=W.indptr)
    else:
        arrays["W"] = W
    arrays.update(bias=weights.bias, scale=weights.scale, slots=weights.slots)
    if weights.spread is not None:
        arrays["spread"], arrays["bias_spread"] = weights.spread
    if fit.epochs:
        about["fitted"]["_epochs"] = fit.epochs
    if fit.scaled:
        about["fitted"]["_scaled"] = True
    if fit.partial is not None:
        about["stream"] = flatten("stream", fit.partial, arrays, _STATES)
    if fit.local is not None:
        about["local"], arrays["local"] = fit.local
    return contents


def keep_predictions(contents: Contents) -> None:
    """Remove what only training needs, and round the weights."""
    for name in ("stream", "local"):
        contents.about.pop(name, None)
    for name in [name for name in contents.arrays if name.partition(".")[0] in ("stream", "local")]:
        del contents.arrays[name]
    contents.about["fitted"]["history_"] = []
    weights = ("W", "data", "spread")
    round_to_half(contents, [name for name in weights if name in contents.arrays])


def from_contents(estimator: Any, contents: Contents) -> None:
    """Set the attributes of an estimator from the contents of a file."""
    arrays, about = contents.arrays, contents.about
    epochs = about["fitted"].pop("_epochs", 0)
    scaled = bool(about["fitted"].pop("_scaled", False))
    restore(estimator, contents, _ATTRIBUTES)
    if not np.array_equal(np.unique(estimator.classes_), estimator.classes_):
        raise ValueError("classes_")
    shape = (estimator.classes_.size, estimator.n_features_in_)
    if "W" in arrays:
        W: Any = arrays["W"]
    else:
        data, indices, pointers = arrays["data"], arrays["indices"], arrays["indptr"]
        W = sp.csr_matrix((data, indices, pointers), shape=shape)
        W.check_format()
        if pointers[-1] != data.size or not W.has_canonical_format:
            raise ValueError("indptr")
        W = W.tocsc()
    spread = (arrays["spread"], arrays["bias_spread"]) if "spread" in arrays else None
    weights = Weights(W, arrays["bias"], arrays["scale"], arrays["slots"], spread)
    _check(weights, shape)
    partial = local = None
    if "stream" in about:
        partial = unflatten("stream", about["stream"], arrays, _STATES)
        _check_partial(partial, shape[0])
    if "local" in about:
        check_numbers(arrays["local"])
        local = about["local"], arrays["local"].ravel()
    estimator._fitted = SoftmaxFit(weights, partial, epochs, local, scaled)


def _check(weights: Weights, shape: tuple[int, int]) -> None:
    """Raise ValueError unless shapes and types of the arrays are consistent and values finite."""
    W: Any = weights.W
    slots = weights.slots
    classes, features = shape
    blocks = n_blocks(classes)
    filled = blocks * LANES if W.ndim == 3 else W.shape[0]
    if W.shape not in [(blocks, features, LANES), (blocks * LANES, features), shape]:
        raise ValueError("W")
    if slots.dtype.kind not in "iu" or not np.array_equal(np.sort(slots), np.arange(classes)):
        raise ValueError("slots")
    if weights.scale.shape != (filled,) or weights.bias.shape != (filled,):
        raise ValueError("scale")
    check_numbers(W.data if sp.issparse(W) else W, weights.scale, weights.bias)
    if weights.spread is not None:
        deviations, bias_deviations = weights.spread
        if deviations.shape != shape or bias_deviations.shape != (classes,):
            raise ValueError("spread")
        check_numbers(deviations, bias_deviations)


def _check_partial(partial: PartialState, classes: int) -> None:
    counts, rows, ids = partial.counts, partial.rows, partial.ids
    if counts.shape != (classes,) or rows.shape != (2,) or partial.damping.shape != (1,):
        raise ValueError("stream")
    if any(part.dtype.kind not in "iu" for part in (counts, rows, ids)) or rows[1] < 1:
        raise ValueError("stream")
    if ids.shape != partial.u.shape or ids.ndim != 1 or (np.diff(ids) <= 0).any():
        raise ValueError("stream")
    check_numbers(partial.damping, partial.u)
