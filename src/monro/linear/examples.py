"""The examples of a linear problem: rows, targets and weights."""

from typing import NamedTuple

from monro._jit import kernel, leaf, prefetch_element
from monro.rows import Array, Rows, add, locate, prefetch, prefetch_weights


class Examples(NamedTuple):
    """Rows, targets (±1 for classes) and weights of mean 1."""

    rows: Rows
    y: Array
    weight: Array


@leaf
def look_ahead(examples: Examples, order: Array, j: int, w: Array) -> None:
    """Start loading the next rows: a random order defeats the hardware's own prefetching."""
    if j + 2 < order.size:
        prefetch_weights(examples.rows, order[j + 1], w)
        prefetch(examples.rows, order[j + 2])
    if j + 4 < order.size:
        locate(examples.rows, order[j + 4])
        prefetch_element(examples.y, order[j + 4])
        prefetch_element(examples.weight, order[j + 4])


@kernel
def add_all(examples: Examples, c: float, g: Array, w: Array) -> None:
    """``w += c Σ_i weight_i·g_i x_i``."""
    for i in range(g.size):
        if g[i] != 0.0:
            add(examples.rows, i, c * examples.weight[i] * g[i], w)
