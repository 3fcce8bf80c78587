"""A model as plain arrays, a sweep of a rule over it, and independent solvers of its problems."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.blocks import LANES, n_blocks
from monro.penalties import RidgePerClass
from monro.softmax.kernel.layout import class_major, view_of
from monro.softmax.kernel.state import new_state
from monro.softmax.kernel.sweep import (
    DrawnBlocks,
    DrawnClasses,
    KernelRows,
    Settings,
    Unbounded,
    new_scratch,
    sweep,
)
from monro.softmax.model import Weights


class Model(NamedTuple):
    W: np.ndarray  # (classes, features)
    b: np.ndarray  # (classes,)
    u: np.ndarray  # (examples,)


def random_model(rng, K, d, n, spread=1.0):
    return Model(spread * rng.standard_normal((K, d)), rng.standard_normal(K), 3 * rng.random(n))


# ------------------------------------------------------------------------------ what is under test


def fill(state, model, scale=1.0):
    """Write a model into a state of either layout, as ``w = scale·r``."""
    K = model.b.size
    state.scale[:K] = scale
    rows = np.zeros((state.bias.size, model.W.shape[1]))
    rows[:K] = model.W / state.scale[:K, None]
    if state.W.ndim == 3:
        rows = rows.reshape(-1, LANES, rows.shape[1]).transpose(0, 2, 1)
    state.W[:] = rows
    state.bias[:K] = model.b
    state.u[:] = model.u


def read(state, K):
    W = class_major(state.W).astype(np.float64) * state.scale[:, None]
    without_class = np.abs(W[K:]).max(initial=0.0)
    assert without_class < 1e-6 * (1 + np.abs(W[:K]).max())
    return Model(W[:K], state.bias[:K].astype(np.float64), state.u.astype(np.float64))


def draws(kind, chosen, weight, dtype="float64"):
    """Return draws of this kind: a row for each example, and the weights c."""
    chosen = np.array(chosen, np.int32, ndmin=2)
    log_weight = np.log(np.broadcast_to(np.asarray(weight, np.float64), chosen.shape))
    return kind(chosen, np.ascontiguousarray(log_weight, dtype))


def width(drawn):
    return drawn.chosen.shape[1] * (LANES if isinstance(drawn, DrawnBlocks) else 1)


def take(
    rule, model, X, y, drawn, *, eta, ridge=0.0, damping=0.0, weight=None, order=None, n=1,
    examples_per_draw=1, sparse=None, bounds=None, dtype="float64", scale=1.0,
):  # fmt: skip
    """Sweep over the rows of X, n a step; return the model after it and the sum of the losses.

    By default rows are dense where single classes are drawn, sparse where blocks are.
    """
    sparse = isinstance(drawn, DrawnBlocks) if sparse is None else sparse
    K, n_rows, number = model.b.size, len(y), np.dtype(dtype).type
    weight = np.ones(n_rows) if weight is None else weight
    rows = sp.csr_matrix(np.asarray(X, dtype)) if sparse else np.asarray(X, dtype)
    state = new_state(sparse, K, n_blocks(K), X.shape[1], n_rows, dtype)
    fill(state, model, scale)
    shrinkage = np.zeros(state.bias.size, dtype)
    shrinkage[:K] = ridge
    loss = sweep(
        rule,
        KernelRows(
            view_of(rows, state.W),
            np.asarray(y, np.int32),
            np.asarray(weight, dtype),
            np.asarray((np.asarray(X, np.float64) ** 2).sum(axis=1), dtype),
        ),
        np.arange(n_rows) if order is None else order,
        drawn,
        examples_per_draw,
        Settings(number(eta), number(damping), RidgePerClass(shrinkage), bounds or Unbounded()),
        state,
        new_scratch(n, width(drawn), dtype),
    )
    return read(state, K), loss


def drawn_classes(drawn, j, y, K):
    """Return the classes in row j of the draws, y left out, and the weight c of each."""
    classes, weights = [], []
    for one, log_weight in zip(drawn.chosen[j], drawn.log_weight[j], strict=True):
        members = (
            [one] if isinstance(drawn, DrawnClasses) else range(LANES * one, LANES * (one + 1))
        )
        members = [k for k in members if one >= 0 and k != y and k < K]
        classes += members
        weights += [np.exp(float(log_weight))] * len(members)
    return np.array(classes, int), np.array(weights)


def own_draws(drawn, j, y):
    """Return how often y is among the classes in row j of the draws."""
    own = y if isinstance(drawn, DrawnClasses) else y // LANES
    return int((drawn.chosen[j] == own).sum())


# --------------------------------------------------------------------------- independent solvers


def minimise_exponentials(A, log_c, linear, centre, stiffness, ridge, theta):
    """Minimise ``linear·θ + Σ_j c_j e^{A_j·θ} + ½ Σ stiffness (θ - centre)² + ½ Σ ridge θ²``.

    Newton's method from the given θ, the step halved until the value falls.
    """

    def value(theta):
        with np.errstate(over="ignore"):
            cost = linear @ theta + np.exp(A @ theta + log_c).sum()
            return cost + (stiffness * (theta - centre) ** 2 + ridge * theta**2).sum() / 2

    for _ in range(500):
        e = np.exp(A @ theta + log_c)
        gradient = linear + A.T @ e + stiffness * (theta - centre) + ridge * theta
        step = np.linalg.solve((A.T * e) @ A + np.diag(stiffness + ridge), gradient)
        size = 1.0
        while value(theta - size * step) > value(theta) and size > 1e-9:
            size /= 2
        theta = theta - size * step
        if np.abs(step).max() <= 1e-13 * (1 + np.abs(theta).max()):
            return theta
    return theta


def proximal_step(model, X, y, C, eta, *, formulation="difference", ridge=0.0, damping=0.0, r=1.0):
    """Return the model that minimises the double sum plus half the squared moves.

    ``C[i, k]`` is the weight of class k's exponential for example i, ``eta[i]`` its rate. All
    weights, intercepts and local variables are unknowns; nothing is eliminated.
    """
    (K, d), n = model.W.shape, len(y)
    n_W = K * d
    size = n_W + K + n
    A, log_c, linear = [], [], np.zeros(size)

    def score(i, k):
        row = np.zeros(size)
        row[d * k : d * (k + 1)] = X[i]
        row[n_W + k] = 1.0
        return row

    for i in range(n):
        s_y, u = score(i, y[i]), np.zeros(size)
        u[n_W + K + i] = 1.0
        raman = formulation == "raman"
        linear += eta[i] * (u - raman * s_y)
        A.append((s_y if raman else 0.0) - u)
        log_c.append(np.log(eta[i]))
        for k in np.flatnonzero(C[i]):
            A.append(score(i, k) - (0.0 if raman else s_y) - u)
            log_c.append(np.log(eta[i] * C[i, k]))
    start = np.concatenate([model.W.ravel(), model.b, model.u])
    stiffness = np.concatenate([np.ones(n_W), np.full(K, 1 / (damping or 1.0)), np.full(n, 1 / r)])
    touched = (C > 0).any(axis=0) | np.isin(np.arange(K), y)
    ridges = np.zeros(size)
    ridges[:n_W] = np.repeat(np.broadcast_to(ridge, K) * touched, d)
    free = np.concatenate([np.ones(n_W, bool), np.full(K, damping > 0), np.ones(n, bool)])
    A, log_c = np.array(A), np.array(log_c)
    theta = start.copy()
    for i in range(n):  # start where no exponential is large
        mine = A[:, n_W + K + i] == -1.0
        theta[n_W + K + i] += max(0.0, (A[mine] @ start + log_c[mine]).max())
    theta[free] = minimise_exponentials(
        A[:, free],
        log_c + A[:, ~free] @ start[~free],
        linear[free],
        start[free],
        stiffness[free],
        ridges[free],
        theta[free],
    )
    return Model(theta[:n_W].reshape(K, d), theta[n_W : n_W + K], theta[n_W + K :])


def assert_models_agree(actual, expected, tolerance):
    for name, a, e in zip(Model._fields, actual, expected, strict=True):
        bound = tolerance * (np.abs(e).max() + (name != "W"))
        np.testing.assert_allclose(a, e, rtol=0, atol=bound, err_msg=name)


LAYOUTS = ["block", "class", "sparse"]


def weights_in_layout(rng, K, d, layout, dtype="float64"):
    """Return weights in a layout, slots permuted and scaled; and the same as plain arrays."""
    W, b = rng.standard_normal((K, d)), rng.standard_normal(K)
    W[rng.random((K, d)) < 0.3] = 0.0
    W, b = W.astype(dtype).astype(float), b.astype(dtype).astype(float)
    return in_layout(rng, W, b, layout, dtype), W, b


def in_layout(rng, W, b, layout, dtype="float64"):
    """Return weights in a layout, slots permuted and scaled."""
    K, d = W.shape
    if layout == "sparse":
        sparse = sp.csc_matrix(W.astype(dtype))
        return Weights(sparse, b.astype(dtype), np.ones(K, dtype), np.arange(K))
    size = LANES * n_blocks(K)
    slots = rng.permutation(K)
    scale = 2.0 ** rng.integers(-3, 4, size)
    rows, bias = (
        rng.standard_normal((size, d)),
        np.full(size, -1e30),
    )  # any weights where no class is
    rows[slots], bias[slots] = W / scale[slots, None], b
    if layout == "block":
        rows = rows.reshape(-1, LANES, d).transpose(0, 2, 1)
    rows = np.ascontiguousarray(rows, dtype)
    return Weights(rows, bias.astype(dtype), scale.astype(dtype), slots)
