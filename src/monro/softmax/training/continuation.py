"""The state that the next fit or batch continues from: counts, local variables, new classes."""

from typing import NamedTuple

import numpy as np

from monro.blocks import LANES, MASKED_SCORE, n_blocks
from monro.fitting.conditioning import Conditioning
from monro.rows import Array
from monro.saving.states import PerClass, PerExample, PerFeature
from monro.softmax.kernel.state import State, new_state
from monro.softmax.model import Weights
from monro.softmax.plan import Plan


class PartialState(NamedTuple):
    """The state that `partial_fit` keeps between batches."""

    counts: PerClass  # examples of each class so far, by slot
    rows: Array  # (2,): rows visited so far, and rows of the first batch or of the fit before it
    damping: Array  # (1,): relative rate of intercepts, from the first batch or fit
    ids: PerExample  # sample_id of examples that may occur again, sorted
    u: PerExample  # their local variables


class PairsState(NamedTuple):
    """What the next batch continues from where weights are of observed pairs."""

    gain: Array  # (pairs,): sums of squared slopes, in the order of the weights
    bias_gain: PerClass
    rows: PerFeature  # rows so far that have the feature
    n_rows: Array  # (1,): rows so far


class SoftmaxFit(NamedTuple):
    """A fitted softmax, and what the next fit may continue from."""

    weights: Weights
    partial: PartialState | None = None
    epochs: int = 0  # of all fits, for the schedule of the rate
    local: tuple[str, Array] | None = None  # the fingerprint of the rows, and their local variables
    scaled: bool = False  # alpha and the learning rate are in the units of conditioned columns
    pairs: PairsState | None = None  # of observed pairs
    label_counts: Array | None = None  # rows with each label, then all rows, of a matrix of labels


def new_partial_state(counts: Array, first: int, plan: Plan) -> PartialState:
    """Return the state before any batch; the first one, or the fit before it, has `first` rows."""
    return PartialState(
        counts,
        np.array([0, first]),
        np.array([plan.damping]),
        np.zeros(0, np.int64),
        np.zeros(0, plan.dtype),
    )


def zero_weights(sparse: bool, n_classes: int, n_features: int, dtype: str) -> Weights:
    """Return zero weights, with classes in order."""
    state = new_state(sparse, n_classes, n_blocks(n_classes), n_features, 0, dtype)
    return Weights(state.W, state.bias, state.scale, np.arange(n_classes))


def add_classes(weights: Weights, known: Array, classes: Array) -> Weights:
    """Return the weights with new classes in the last slots, with the lowest intercept so far."""
    old = weights.slots
    if classes.size == old.size:
        return weights
    W, bias, scale = weights.W, weights.bias, weights.scale
    blocks = n_blocks(classes.size)
    if blocks * LANES > bias.size:
        larger = new_state(W.ndim == 3, 0, blocks, W.shape[1], 0, W.dtype.name)
        larger.W[: W.shape[0]] = W
        larger.bias[: bias.size], larger.scale[: scale.size] = bias, scale
        W, bias, scale = larger.W, larger.bias, larger.scale
    slots = np.empty(classes.size, np.int64)
    is_known = np.isin(classes, known)
    slots[is_known] = old
    slots[~is_known] = np.arange(old.size, classes.size)
    bias = bias.copy()
    bias[old.size : classes.size] = bias[old].min()
    return Weights(W, bias, scale, slots)


def folded(weights: Weights, conditioning: Conditioning) -> Weights:
    """Return the weights for the columns as given.

    Intercepts are in double precision, and computed with the rounded weights: so scores lose no
    digits where columns are far from zero.
    """
    if not conditioning.changes:
        return weights
    W = (weights.W / _by_feature(weights.W, conditioning.scale)).astype(weights.W.dtype)
    return _shifted(weights._replace(W=W), W, -conditioning.centre)


def unfolded(weights: Weights, conditioning: Conditioning) -> Weights:
    """Return the weights for conditioned columns, of weights for the columns as given."""
    if not conditioning.changes:
        return weights
    W = (weights.W * _by_feature(weights.W, conditioning.scale)).astype(weights.W.dtype)
    return _shifted(weights._replace(W=W), weights.W, conditioning.centre)


def _by_feature(W: Array, values: Array) -> Array:
    """Return an entry for each feature, in a shape for weights of either layout."""
    return values[:, None] if W.ndim == 3 else values


def _shifted(weights: Weights, W: Array, shift: Array) -> Weights:
    """Return weights with the scores of a row added to the intercepts: W times `shift`."""
    moved = np.flatnonzero(shift)  # copied in double precision: only what is needed
    scores = np.tensordot(W[:, moved].astype(np.float64), shift[moved], (1, 0)).ravel()
    bias = weights.bias.astype(np.float64)
    bias += np.where(bias > MASKED_SCORE / 2, weights.scale * scores, 0.0)
    return weights._replace(bias=bias)


def restore_local_variables(state: PartialState, ids: Array, u: Array) -> None:
    """Set the local variables of examples that occurred in an earlier batch."""
    if state.ids.size:
        at = np.minimum(np.searchsorted(state.ids, ids), state.ids.size - 1)
        found = state.ids[at] == ids
        u[found] = state.u[at[found]]


def keep_local_variables(state: PartialState, ids: Array, u: Array) -> PartialState:
    """Return the state with the local variables of these examples stored."""
    others = ~np.isin(state.ids, ids)
    all_ids, all_u = np.append(state.ids[others], ids), np.append(state.u[others], u)
    order = np.argsort(all_ids)
    return state._replace(ids=all_ids[order], u=all_u[order])


def reuse_as_state(weights: Weights, sparse: bool, n_examples: int, dtype: str) -> State:
    """Return a state that shares the arrays of the weights if possible, else a copy."""
    W, bias, scale = weights.W, weights.bias, weights.scale
    same_layout = (W.ndim == 3) == sparse and bias.size == n_blocks(weights.n_classes) * LANES
    if same_layout and all(a.dtype.name == dtype and a.flags.writeable for a in (W, bias, scale)):
        return State(W, bias, scale, np.zeros(n_examples, dtype))
    return copy_to_state(weights, sparse, n_examples, dtype)


def copy_to_state(weights: Weights, sparse: bool, n_examples: int, dtype: str) -> State:
    """Return a state with a copy of the weights, in the layout for sparse or for dense rows."""
    W, n_classes = weights.W, weights.n_classes
    state = new_state(sparse, 0, n_blocks(n_classes), W.shape[1], n_examples, dtype)
    if W.ndim == state.W.ndim:
        state.W[: W.shape[0]] = W
    elif sparse:
        for k in range(W.shape[0]):
            state.W[k // LANES, :, k % LANES] = W[k]
    else:
        for block in range(W.shape[0]):
            state.W[block * LANES : (block + 1) * LANES] = W[block].T
    state.bias[: weights.bias.size] = weights.bias
    state.scale[: weights.scale.size] = weights.scale
    state.bias[n_classes:] = MASKED_SCORE
    return state
