"""Softmax models as arrays and JSON, for `monro.persist` to write."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro.persist import Contents, flatten, unflatten
from monro.rows import Array
from monro.softmax.evaluate import Weights
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.stream import Stream
from monro.storage import get_parameters, put_labels, set_parameters, take_labels

_PLAIN = ("n_features_in_", "n_iter_", "history_", "learning_rate_", "plan_", "_epochs", "_layout")


def to_contents(estimator: Any) -> Contents:
    """Return a fitted estimator's arrays and JSON."""
    check_is_fitted(estimator)
    contents = Contents({}, {"parameters": get_parameters(estimator)})
    W, scale, bias, slots, spread = estimator._weights
    if sp.issparse(W):
        contents.arrays.update(data=W.data, indices=W.indices, indptr=W.indptr)
    else:
        contents.arrays["W"] = W
    contents.arrays.update(scale=scale, bias=bias, slots=slots)
    if spread is not None:
        contents.arrays["spread"], contents.arrays["bias_spread"] = spread
    for name in ("classes_", "feature_names_in_"):
        if hasattr(estimator, name):
            put_labels(name, getattr(estimator, name), contents)
    contents.about["fitted"] = {
        name: getattr(estimator, name) for name in _PLAIN if hasattr(estimator, name)
    }
    if hasattr(estimator, "_stream"):
        contents.about["stream"] = flatten("stream", estimator._stream, contents.arrays)
    if hasattr(estimator, "_local"):
        contents.about["local"], contents.arrays["local"] = estimator._local
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
    if not np.array_equal(np.unique(estimator.classes_), estimator.classes_):
        raise ValueError("classes_")
    arrays = contents.arrays
    shape = (estimator.classes_.size, estimator.n_features_in_)
    if "W" in arrays:
        W = arrays["W"]
    else:
        data, indices, pointers = arrays["data"], arrays["indices"], arrays["indptr"]
        W = sp.csr_matrix((data, indices, pointers), shape=shape)
        W.check_format()
        if pointers[-1] != data.size or not W.has_canonical_format:
            raise ValueError("indptr")
    weights = Weights(W, arrays["scale"], arrays["bias"], arrays["slots"])
    _check(weights, shape)
    if "spread" in arrays:
        spread = arrays["spread"], arrays["bias_spread"]
        if spread[0].shape != shape or spread[1].shape != shape[:1]:
            raise ValueError("spread")
        _check_numbers(*spread)
        weights = weights._replace(spread=spread)
    estimator._weights = weights
    if "stream" in contents.about:
        stream = unflatten("stream", contents.about["stream"], arrays, {"Stream": Stream})
        _check_stream(stream, shape[0])
        estimator._stream = stream
    if "local" in contents.about:
        _check_numbers(arrays["local"])
        estimator._local = contents.about["local"], arrays["local"].ravel()


def _check(weights: Weights, shape: tuple[int, int]) -> None:
    """Raise unless the arrays fit together, and hold numbers."""
    W, scale, bias, slots, _ = weights
    classes, features = shape
    blocks = n_blocks(classes)
    values: Any = W.data if sp.issparse(W) else W
    filled = blocks * LANES if W.ndim == 3 else W.shape[0]
    if W.shape not in [(blocks, features, LANES), (blocks * LANES, features), shape]:
        raise ValueError("W")
    if slots.dtype.kind not in "iu" or not np.array_equal(np.sort(slots), np.arange(classes)):
        raise ValueError("slots")
    if scale.shape != (filled,) or bias.shape != (filled,):
        raise ValueError("scale")
    _check_numbers(values, scale, bias)


def _check_stream(stream: Stream, classes: int) -> None:
    counts, rows, damping, ids, u = stream
    if counts.shape != (classes,) or rows.shape != (2,) or damping.shape != (1,):
        raise ValueError("stream")
    if any(part.dtype.kind not in "iu" for part in (counts, rows, ids)) or rows[1] < 1:
        raise ValueError("stream")
    if ids.shape != u.shape or ids.ndim != 1 or (np.diff(ids) <= 0).any():
        raise ValueError("stream")
    _check_numbers(damping, u)


def _check_numbers(*arrays: Array) -> None:
    for array in arrays:
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError("a number")
