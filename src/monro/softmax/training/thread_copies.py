"""Merging the copies of the weights that threads have trained."""

import numpy as np

from monro._jit import vector_kernel
from monro.rows import Array


@vector_kernel
def add_moves(copy: Array, before: Array, total: Array, count: Array) -> None:
    """Add a thread's change of each weight to `total`; count the threads that changed it."""
    one = before.dtype.type(1.0)
    zero = before.dtype.type(0.0)
    for k in range(before.size):
        move = copy[k] - before[k]
        total[k] += move
        count[k] += one if move != zero else zero


@vector_kernel
def apply_moves(before: Array, total: Array, count: Array) -> None:
    """Change each weight by the mean over the threads that changed it."""
    one = before.dtype.type(1.0)
    for k in range(before.size):
        before[k] += total[k] / (count[k] if count[k] > one else one)


def merge(before: Array, copies: list[Array]) -> None:
    """Change each weight by the mean over the threads that changed it; update all copies.

    The mean over all threads would halve what only one of two threads has learnt.
    """
    total, count = np.zeros((2, before.size), before.dtype)
    for copy in copies:
        add_moves(copy, before, total, count)
    apply_moves(before, total, count)
    for copy in copies:
        copy[:] = before
