"""Weights of a CRF: as kernels take them, and as tables.

They lie in blocks of sixteen tags, as those of the softmax do (`monro._jit.lanes_dot`): state
weights are ``W[block, feature, lane]``, pair weights
``V[tag before · blocks + block, feature, lane]``.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import LANES
from monro.rows import Array


class Weights(NamedTuple):
    """Weights of features and of pair features."""

    W: Array  # (blocks, features, 16)
    V: Array  # (tags·blocks, pair features, 16)


def n_lanes(n_tags: int) -> int:
    """Return how many lanes that many tags take."""
    return -(-n_tags // LANES) * LANES


def new_weights(n_features: int, n_pairs: int, n_tags: int, dtype: Any) -> Weights:
    """Return zero weights."""
    blocks = n_lanes(n_tags) // LANES
    return Weights(
        np.zeros((blocks, n_features, LANES), dtype),
        np.zeros((n_tags * blocks, n_pairs, LANES), dtype),
    )


def as_tables(weights: Weights, n_tags: int) -> tuple[Array, Array]:
    """Return the weights by feature and tag, and by pair feature, tag before and tag."""
    lanes = n_lanes(n_tags)
    W = np.moveaxis(weights.W, 1, 0).reshape(-1, lanes)[:, :n_tags]
    V = weights.V.reshape(n_tags, lanes // LANES, -1, LANES)
    V = np.moveaxis(V, 2, 0).reshape(-1, n_tags, lanes)[:, :, :n_tags]
    return np.ascontiguousarray(W), np.ascontiguousarray(V)


def as_weights(state: Array, pair: Array) -> Weights:
    """Return tables as kernels take them."""
    n_features, n_tags = state.shape
    lanes = n_lanes(n_tags)
    W = np.zeros((n_features, lanes), state.dtype)
    W[:, :n_tags] = state
    V = np.zeros((pair.shape[0], n_tags, lanes), pair.dtype)
    V[:, :, :n_tags] = pair
    V = np.moveaxis(V.reshape(-1, n_tags * lanes // LANES, LANES), 0, 1)
    return Weights(
        np.ascontiguousarray(np.moveaxis(W.reshape(-1, lanes // LANES, LANES), 0, 1)),
        np.ascontiguousarray(V),
    )
