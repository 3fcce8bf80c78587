"""What `partial_fit` remembers between batches: classes that come, and examples that come again."""

from typing import NamedTuple

import numpy as np

from monro.rows import Array
from monro.softmax.evaluate import Weights
from monro.softmax.layout import LANES, n_blocks
from monro.softmax.solvers import Plan
from monro.softmax.state import NOWHERE, State, new_state


class Stream(NamedTuple):
    """All of it, as arrays, so that a file can hold it."""

    counts: Array  # (classes,): examples of each so far, by slot
    rows: Array  # rows seen so far, and in the first batch, or in the fit before it
    damping: Array  # the intercepts' rate, set by the same
    ids: Array  # of examples that were named, in order
    u: Array  # their local variables


def new_stream(counts: Array, first: int, plan: Plan) -> Stream:
    """Return the memory of no batch, before a first one of that many rows."""
    return Stream(
        counts,
        np.array([0, first]),
        np.array([plan.damping]),
        np.zeros(0, np.int64),
        np.zeros(0, plan.dtype),
    )


def new_weights_for(sparse: bool, n_classes: int, n_features: int, dtype: str) -> Weights:
    """Return zero weights, classes in order."""
    state = new_state(sparse, n_classes, n_blocks(n_classes), n_features, 0, dtype)
    return Weights(state.W, state.scale, state.bias, np.arange(n_classes))


def grow(weights: Weights, known: Array, classes: Array) -> Weights:
    """Give every new class a slot behind the others, and the lowest intercept there is."""
    W, scale, bias, old, _ = weights
    if classes.size == old.size:
        return weights
    blocks = n_blocks(classes.size)
    if blocks * LANES > bias.size:
        features = W.shape[1]
        larger = new_state(W.ndim == 3, 0, blocks, features, 0, W.dtype.name)
        larger.W[: W.shape[0]] = W
        larger.scale[: scale.size], larger.bias[: bias.size] = scale, bias
        W, scale, bias = larger.W, larger.scale, larger.bias
    slots = np.empty(classes.size, np.int64)
    was = np.isin(classes, known)
    slots[was] = old
    slots[~was] = np.arange(old.size, classes.size)
    bias = bias.copy()
    bias[old.size : classes.size] = bias[old].min()
    return Weights(W, scale, bias, slots)


def recall(stream: Stream, ids: Array, u: Array) -> None:
    """Put back the local variables of examples that were here before."""
    if stream.ids.size:
        at = np.minimum(np.searchsorted(stream.ids, ids), stream.ids.size - 1)
        again = stream.ids[at] == ids
        u[again] = stream.u[at[again]]


def remember(stream: Stream, ids: Array, u: Array) -> Stream:
    """Keep the local variables of these examples."""
    stays = ~np.isin(stream.ids, ids)
    known, kept = np.append(stream.ids[stays], ids), np.append(stream.u[stays], u)
    order = np.argsort(known)
    return stream._replace(ids=known[order], u=kept[order])


def in_place(weights: Weights, sparse: bool, n_examples: int, dtype: str) -> State:
    """Return the same as `laid_out`, but on the weights' own arrays where that is possible."""
    W, scale, bias, slots, _ = weights
    arrays = (W, scale, bias)
    suited = (W.ndim == 3) == sparse and bias.size == n_blocks(slots.size) * LANES
    if suited and all(a.dtype.name == dtype and a.flags.writeable for a in arrays):
        return State(W, bias, scale, np.zeros(n_examples, dtype))
    return laid_out(weights, sparse, n_examples, dtype)


def laid_out(weights: Weights, sparse: bool, n_examples: int, dtype: str) -> State:
    """Return earlier weights as a state to change, in the layout that the rows want."""
    W, scale, bias, slots, _ = weights
    features = W.shape[1]
    state = new_state(sparse, 0, n_blocks(slots.size), features, n_examples, dtype)
    if W.ndim == state.W.ndim:
        state.W[: W.shape[0]] = W
    elif sparse:
        for k in range(W.shape[0]):
            state.W[k // LANES, :, k % LANES] = W[k]
    else:
        for block in range(W.shape[0]):
            state.W[block * LANES : (block + 1) * LANES] = W[block].T
    state.scale[: scale.size], state.bias[: bias.size] = scale, bias
    state.bias[slots.size :] = NOWHERE
    return state
