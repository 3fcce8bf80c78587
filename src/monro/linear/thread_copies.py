"""One linear model on several threads."""

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import numpy as np

from monro._jit import kernel
from monro.linear.algorithms.solver_base import Solver
from monro.linear.problem import Problem
from monro.rows import Array
from monro.saving.states import Axis, arrays_of, map_arrays


@kernel
def average_rows(stack: Array) -> None:
    """Replace each row by the mean of all rows."""
    for k in range(stack.shape[1]):
        mean = 0.0
        for i in range(stack.shape[0]):
            mean += stack[i, k]
        mean /= stack.shape[0]
        for i in range(stack.shape[0]):
            stack[i, k] = mean


def parallel_sweep(
    solver: Solver,
    problem: Problem,
    order: Array,
    state: Any,
    pool: ThreadPoolExecutor,
    n_jobs: int,
) -> float:
    """Sweep on several threads, each on its own copy of the weights; average the copies repeatedly.

    Threads that write to shared weights would be slower than one alone: the cache lines of frequent
    features would move between the cores at every step.
    """
    # No two threads visit the same example, so arrays with an entry per example need no copies.
    arrays = [array for axes, array in arrays_of(state) if Axis.EXAMPLES not in axes]
    width = sum(array.size for array in arrays)
    work = count_nonzeros(problem, order.size) / (n_jobs * width)
    if work < 15:  # averaging would cost more than the second thread saves
        return solver.sweep(order, state)
    merges = int(np.clip(work / 50, 1, 32))
    # Equal shares, so that all copies agree on the number of steps taken.
    share = order.size // (merges * n_jobs)
    shares = order[: merges * n_jobs * share].reshape(merges, n_jobs, share)
    stacks = [np.repeat(array[None], n_jobs, axis=0) for array in arrays]
    copies = [_with_copies(state, [stack[k] for stack in stacks]) for k in range(n_jobs)]
    total = 0.0
    for parts in shares:
        total += sum(pool.map(solver.sweep, parts, copies, repeat(n_jobs)))
        for stack in stacks:
            average_rows(stack)
    for array, stack in zip(arrays, stacks, strict=True):
        array[:] = stack[0]
    return total + solver.sweep(order[shares.size :], state)


def _with_copies(state: Any, copies: list[Array]) -> Any:
    """Return the state with these arrays in place of those that threads must not share."""
    following = iter(copies)
    return map_arrays(lambda axes, a: a if Axis.EXAMPLES in axes else next(following), state)


def count_nonzeros(problem: Problem, n_rows: int) -> float:
    """Estimate the number of non-zeros in `n_rows` rows."""
    rows, y, _ = problem.examples
    return float(n_rows * rows.data.size / y.size)
