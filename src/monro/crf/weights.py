"""Weights of a CRF: in blocks of sixteen tags, as kernels take them, and as tables.

State weights are ``W[block, feature, lane]``, pair weights
``V[previous tag · blocks + block, pair feature, lane]`` (see `monro.blocks`).
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from monro.blocks import LANES, n_blocks, n_lanes
from monro.rows import Array
from monro.saving.states import Axis, PerClassAndFeature

PerPairFeature = Annotated[Array, Axis.PAIR_FEATURES]
PerTagsAndPairFeature = Annotated[Array, Axis.CLASSES, Axis.CLASSES, Axis.PAIR_FEATURES]


class ChainWeights(NamedTuple):
    """Weights of features and of pair features."""

    W: PerClassAndFeature  # (blocks, features, 16)
    V: PerTagsAndPairFeature  # (tags·blocks, pair features, 16)


def new_weights(n_features: int, n_pairs: int, n_tags: int, dtype: Any) -> ChainWeights:
    """Return zero weights."""
    blocks = n_blocks(n_tags)
    return ChainWeights(
        np.zeros((blocks, n_features, LANES), dtype),
        np.zeros((n_tags * blocks, n_pairs, LANES), dtype),
    )


def as_tables(weights: ChainWeights, n_tags: int) -> tuple[Array, Array]:
    """Return the weights as tables ``[feature, tag]`` and ``[pair feature, previous tag, tag]``."""
    lanes = n_lanes(n_tags)
    W = np.moveaxis(weights.W, 1, 0).reshape(-1, lanes)[:, :n_tags]
    V = weights.V.reshape(n_tags, lanes // LANES, -1, LANES)
    V = np.moveaxis(V, 2, 0).reshape(-1, n_tags, lanes)[:, :, :n_tags]
    return np.ascontiguousarray(W), np.ascontiguousarray(V)


def as_weights(state: Array, pair: Array) -> ChainWeights:
    """Return tables of weights in blocks."""
    n_features, n_tags = state.shape
    lanes = n_lanes(n_tags)
    W = np.zeros((n_features, lanes), state.dtype)
    W[:, :n_tags] = state
    V = np.zeros((pair.shape[0], n_tags, lanes), pair.dtype)
    V[:, :, :n_tags] = pair
    V = np.moveaxis(V.reshape(-1, n_tags * lanes // LANES, LANES), 0, 1)
    return ChainWeights(
        np.ascontiguousarray(np.moveaxis(W.reshape(-1, lanes // LANES, LANES), 0, 1)),
        np.ascontiguousarray(V),
    )


def widen(
    weights: ChainWeights,
    tags: Array,
    n_features: int,
    n_pairs: int,
    n_tags: int,
    fill: float = 0.0,
) -> ChainWeights:
    """Return a copy with weights for more features and tags, which are `fill` where they are new.

    The old features come first; old tag k becomes ``tags[k]``.
    """
    old_state, old_pair = as_tables(weights, tags.size)
    state = np.full((n_features, n_tags), fill, np.float32)
    pair = np.full((n_pairs, n_tags, n_tags), fill, np.float32)
    state[: len(old_state), tags] = old_state
    pair[: len(old_pair), tags[:, None], tags] = old_pair
    return as_weights(state, pair)
