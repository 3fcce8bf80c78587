"""Augment and reduce for choice data: each step samples situations, and alternatives of each.

As in `monro.variational.augment_reduce`, but with attributes of the alternatives: the cost of a
step depends on the alternatives it samples, not on how many a situation has.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from monro._jit import kernel
from monro.choice.frames import Choices
from monro.rows import Array
from monro.variational.adaptive import move_all, rate_of_step
from monro.variational.augment_reduce import (
    LOCAL_POWER,
    AugmentReduceState,
    local_step,
    make_model,
    new_augment_reduce_state,
)


@kernel
def take_situations(
    model: Any,
    X: Array,
    alternative: Array,
    starts: Array,
    chosen: Array,
    batch: Array,
    uniform: Array,
    noise: Array,
    visits: int,
    beta: Array,
    constants: Array,
    memory: AugmentReduceState,
    moves: Array,
    constant_moves: Array,
    z: Array,
    log_c: Array,
    rows: Array,
) -> float:
    """Take the local steps of a batch of situations; add their gradient to the moves.

    The alternatives that were not chosen are divided into up to ``z.size`` parts of equal size, and
    one of each part is sampled. Returns the bound on the batch's log-likelihood.
    """
    a = (1.0 + visits) ** -LOCAL_POWER
    share = chosen.size / batch.size
    features = X.shape[1]
    bound = 0.0
    for p in range(batch.size):
        n = batch[p]
        y = chosen[n]
        others = starts[n + 1] - starts[n] - 1
        if others == 0:
            continue
        m = min(others, z.size)
        own = 0.0
        for f in range(features):
            own += X[y, f] * beta[f]
        if constants.size > 0:
            own += constants[alternative[y]]
        for d in range(m):
            first = d * others // m
            size = (d + 1) * others // m - first
            row = starts[n] + first + int(uniform[p, d] * size)
            row += 1 if row >= y else 0
            rows[d] = row
            log_c[d] = math.log(size)
            score = -own
            for f in range(features):
                score += X[row, f] * beta[f]
            z[d] = score + (constants[alternative[row]] if constants.size > 0 else 0.0)
        bound += local_step(model, z[:m], log_c[:m], memory, n, a, noise[p, 0], noise[p, 1])
        total = 0.0
        for d in range(m):
            g = share * z[d]
            total += g
            for f in range(features):
                moves[f] -= g * X[rows[d], f]
            if constants.size > 0:
                constant_moves[alternative[rows[d]]] -= g
        for f in range(features):
            moves[f] += total * X[y, f]
        if constants.size > 0:
            constant_moves[alternative[y]] += total
    return bound


def fit_stochastic(
    choices: Choices,
    n_constants: int,
    link: str,
    *,
    alpha: float,
    learning_rate: float,
    situations_per_step: int,
    alternatives_per_step: int,
    max_epochs: int,
    rng: np.random.Generator,
    after_epoch: Callable[[float], None],
) -> Array:
    """Fit by augment and reduce; return the coefficients, then all constants but the first.

    `after_epoch` is called with the negative mean bound of each epoch.
    """
    X, alternative, starts, chosen, _, _ = choices
    n = chosen.size
    beta, constants = np.zeros(X.shape[1]), np.zeros(n_constants)
    moves, constant_moves = np.zeros_like(beta), np.zeros_like(constants)
    model = make_model(link)
    alternatives = round(X.shape[0] / n)  # of a situation, on average
    memory = new_augment_reduce_state(model, n, alternatives, beta, constants)
    z, log_c = np.empty((2, alternatives_per_step))
    rows = np.empty(alternatives_per_step, np.int64)
    t = 0
    for epoch in range(max_epochs):
        order = rng.permutation(n)
        bound = 0.0
        for start in range(0, n, situations_per_step):
            batch = order[start : start + situations_per_step]
            uniform = rng.random((batch.size, alternatives_per_step))
            noise = model.draw(batch.size, rng)
            bound += take_situations(
                model, X, alternative, starts, chosen, batch, uniform, noise, epoch, beta,
                constants, memory, moves, constant_moves, z, log_c, rows,
            )  # fmt: skip
            t += 1
            rho = rate_of_step(learning_rate, t)
            move_all(beta, moves, memory.squares, rho, t == 1, alpha * n)
            if constants.size:
                move_all(constants, constant_moves, memory.bias_squares, rho, t == 1, 0.0)
        after_epoch(-bound / n)
    return np.append(beta, constants[1:] - constants[:1])
