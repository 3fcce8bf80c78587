"""Model files of the softmax: the weights, and the state that a later fit continues from."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro.blocks import LANES, n_blocks
from monro.fitting.run import CHOSEN
from monro.rows import Array
from monro.saving.container import Contents, is_in_file
from monro.saving.estimator import check_numbers, describe, restore, round_to_half
from monro.saving.states import flatten, unflatten
from monro.softmax.model import Weights
from monro.softmax.training.continuation import PairsState, PartialState, SoftmaxFit

_ATTRIBUTES = (
    "n_features_in_",
    "n_iter_",
    "history_",
    "learning_rate_",
    "plan_",
    "_layout",
    *CHOSEN,
)
_STATES = {"Stream": PartialState, "Pairs": PairsState}  # by their names in files


def to_contents(estimator: Any) -> Contents:
    """Return the contents of a fitted estimator's file."""
    check_is_fitted(estimator)
    contents = describe(estimator, _ATTRIBUTES)
    arrays, about = contents.arrays, contents.about
    fit: SoftmaxFit = estimator._fitted
    weights = fit.weights
    W: Any = weights.W
    if sp.issparse(W):
        # By feature, as predictions take them: so they need not be converted when they are read.
        about["lists"] = True
        arrays.update(data=W.data, classes=W.indices, indptr=W.indptr)
    else:
        arrays["W"] = W
    arrays.update(bias=weights.bias, scale=weights.scale, slots=weights.slots)
    if weights.spread is not None:
        arrays["spread"], arrays["bias_spread"] = weights.spread
    if weights.calibration is not None:
        arrays["calibration"] = weights.calibration
    if fit.label_counts is not None:
        arrays["label_counts"] = fit.label_counts
    if fit.pairs is not None:
        about["pairs"] = flatten("pairs", fit.pairs, arrays, _STATES)
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
    training = ("stream", "local", "pairs")
    for name in training:
        contents.about.pop(name, None)
    for name in [name for name in contents.arrays if name.partition(".")[0] in training]:
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
    elif "classes" in arrays:
        W = _from_lists(arrays, shape)
    else:  # by class, as versions before 3 wrote them
        data, indices, pointers = arrays["data"], arrays["indices"], arrays["indptr"]
        W = sp.csr_matrix((data, indices, pointers), shape=shape)
        W.check_format()
        if pointers[-1] != data.size or not W.has_canonical_format:
            raise ValueError("indptr")
        W = W.tocsc()
    spread = (arrays["spread"], arrays["bias_spread"]) if "spread" in arrays else None
    calibration = arrays.get("calibration")
    weights = Weights(W, arrays["bias"], arrays["scale"], arrays["slots"], spread, calibration)
    _check(weights, shape)
    partial = local = pairs = None
    if "pairs" in about:
        pairs = unflatten("pairs", about["pairs"], arrays, _STATES)
        _check_pairs(pairs, W, shape)
    label_counts = arrays.get("label_counts")
    if label_counts is not None and label_counts.shape != (shape[0] + 1,):
        raise ValueError("label_counts")
    if label_counts is not None and label_counts.dtype.kind not in "iu":
        raise ValueError("label_counts")
    if "stream" in about:
        partial = unflatten("stream", about["stream"], arrays, _STATES)
        _check_partial(partial, shape[0])
    if "local" in about:
        check_numbers(arrays["local"])
        local = about["local"], arrays["local"].ravel()
    estimator._fitted = SoftmaxFit(weights, partial, epochs, local, scaled, pairs, label_counts)


def _from_lists(arrays: dict[str, Array], shape: tuple[int, int]) -> Any:
    """Return sparse weights of a file by feature, without reading them if they stay in the file."""
    data, classes, pointers = arrays["data"], arrays["classes"], arrays["indptr"]
    W: Any = sp.csc_matrix(shape, dtype=data.dtype)
    if pointers.shape != (shape[1] + 1,) or data.ndim != 1 or classes.shape != data.shape:
        raise ValueError("indptr")
    if any(part.dtype.kind != "i" for part in (classes, pointers)):
        raise ValueError("classes")
    lengths = np.diff(pointers)
    if pointers[0] != 0 or pointers[-1] != data.size or (lengths < 0).any():
        raise ValueError("indptr")
    for part in [] if is_in_file(classes) else [classes]:
        if part.size and (part.min() < 0 or part.max() >= shape[0]):
            raise ValueError("classes")
        first = np.zeros(data.size + 1, bool)
        first[pointers] = True
        if not (first[1:-1] | (part[1:] > part[:-1])).all():
            raise ValueError("classes")
    W.data, W.indices, W.indptr = data, classes, pointers
    W.has_canonical_format = True
    return W


def _check_pairs(pairs: PairsState, W: Any, shape: tuple[int, int]) -> None:
    shapes = W.data.shape, (shape[0],), (shape[1],), (1,)
    if not sp.issparse(W) or tuple(part.shape for part in pairs) != shapes:
        raise ValueError("pairs")
    check_numbers(*pairs)


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
    if weights.calibration is not None:
        check_numbers(weights.calibration)
        if weights.calibration.shape != (3,) or not 0.0 < weights.calibration[2] < 0.5:
            raise ValueError("calibration")
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
