"""Softmax models as arrays and JSON, for `monro.persist` to write."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro.persist import Contents, flatten, unflatten
from monro.softmax.evaluate import Weights
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.state import State
from monro.softmax.stream import Stream
from monro.storage import get_parameters, put_labels, set_parameters, take_labels

_PLAIN = ("n_features_in_", "n_iter_", "history_", "learning_rate_", "plan_", "_epochs", "_layout")


def to_contents(estimator: Any) -> Contents:
    """Return a fitted estimator's arrays and JSON."""
    check_is_fitted(estimator)
    contents = Contents({}, {"parameters": get_parameters(estimator)})
    W, scale, bias, slots = estimator._weights
    if sp.issparse(W):
        contents.arrays.update(data=W.data, indices=W.indices, indptr=W.indptr)
    else:
        contents.arrays["W"] = W
    contents.arrays.update(scale=scale, bias=bias, slots=slots)
    for name in ("classes_", "feature_names_in_"):
        if hasattr(estimator, name):
            put_labels(name, getattr(estimator, name), contents)
    contents.about["fitted"] = {
        name: getattr(estimator, name) for name in _PLAIN if hasattr(estimator, name)
    }
    for name in ("_stream", "_state"):
        if hasattr(estimator, name):
            part = getattr(estimator, name)
            contents.about[name] = flatten(name, part, contents.arrays)
    return contents


def from_contents(estimator: Any, contents: Contents) -> None:
    """Make an estimator what it was."""
    set_parameters(estimator, contents.about["parameters"])
    for name, value in contents.about["fitted"].items():
        if name not in _PLAIN:
            raise ValueError(name)
        setattr(estimator, name, value)
    for name in ("classes_", "feature_names_in_"):
        labels = take_labels(name, contents)
        if labels is not None:
            setattr(estimator, name, labels)
    arrays = contents.arrays
    shape = (estimator.classes_.size, estimator.n_features_in_)
    if "W" in arrays:
        W = arrays["W"]
    else:
        W = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        W.check_format()
    weights = Weights(W, arrays["scale"], arrays["bias"], arrays["slots"])
    _check(weights, shape)
    estimator._weights = weights
    for name, kind in (("_stream", Stream), ("_state", State)):
        if name in contents.about:
            classes = {kind.__name__: kind}
            setattr(estimator, name, unflatten(name, contents.about[name], arrays, classes))


def _check(weights: Weights, shape: tuple[int, int]) -> None:
    """Raise unless the arrays fit together, and hold numbers."""
    W, scale, bias, slots = weights
    classes, features = shape
    lanes = n_blocks(classes) * LANES
    shapes = [(lanes // LANES, features, LANES), (lanes, features), shape]
    values = W.data if sp.issparse(W) else W
    if W.shape not in shapes or slots.shape != (classes,) or slots.dtype.kind not in "iu":
        raise ValueError("W")
    if not np.array_equal(np.sort(slots), np.arange(classes)):
        raise ValueError("slots")
    if scale.shape != bias.shape or scale.ndim != 1 or scale.size not in (classes, lanes):
        raise ValueError("scale")
    if not all(np.isfinite(part).all() for part in (values, scale, bias)):
        raise ValueError("W")
