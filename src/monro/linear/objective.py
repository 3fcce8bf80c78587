"""The objective of a linear model."""

from typing import Any

import numpy as np

from monro._jit import kernel
from monro.linear.centring import centred
from monro.linear.examples import Examples
from monro.linear.problem import Problem
from monro.losses import Loss, derivative, value
from monro.rows import Array, dot, sqnorm


@kernel
def total_loss(loss: Loss, examples: Examples, w: Array, b: float) -> float:
    """Return ``Σ weight_i·ℓ(w·x_i + b, y_i)``."""
    total = 0.0
    for i in range(examples.y.size):
        p = dot(examples.rows, i, w) + b
        total += examples.weight[i] * value(loss, p, examples.y[i])
    return total


@kernel
def single_loss(loss: Loss, p: float, y: float) -> float:
    """Return ``ℓ(p, y)`` for callers in Python: unlike a leaf, a kernel is cached on disk."""
    return value(loss, p, y)


@kernel
def losses_of(loss: Loss, p: Array, y: Array, losses: Array) -> None:
    """Write the loss of each prediction."""
    for i in range(p.size):
        losses[i] = value(loss, p[i], y[i])


@kernel
def slopes_of(loss: Loss, p: Array, y: Array, slopes: Array) -> None:
    """Write the derivative of the loss at each prediction."""
    for i in range(p.size):
        slopes[i] = derivative(loss, p[i], y[i])


@kernel
def total_sqnorm(rows: Any, order: Array) -> float:
    """Return the sum of ``‖x_i‖²`` over `order`."""
    total = 0.0
    for j in range(order.size):
        total += sqnorm(rows, order[j])
    return total


def mean_sqnorm(rows: Any, order: Array) -> float:
    """Return the mean of ``‖x_i‖²`` over `order`."""
    mean = total_sqnorm(rows, order) / order.size
    if not np.isfinite(mean):
        raise ValueError("X: the squared length of a row overflows; scale the features")
    return mean


def mean_loss(problem: Problem, w: Array, b: float) -> float:
    """Return the weighted mean loss over the problem's examples."""
    total = total_loss(problem.loss, problem.examples, w, b)
    return float(total / problem.examples.weight.sum())


@kernel
def loss_of(loss: Loss, examples: Examples, order: Array, w: Array, b: float) -> float:
    """Return ``Σ weight_i·ℓ(w·x_i + b, y_i)`` over `order`."""
    total = 0.0
    for j in range(order.size):
        i = order[j]
        p = dot(examples.rows, i, w) + b
        total += examples.weight[i] * value(loss, p, examples.y[i])
    return total


def partial_objective(problem: Problem, order: Array, w: Array, b: float) -> float:
    """Return ``R(w) + Σ weight_i·ℓ_i / count`` over some examples, as steps on them weight them."""
    total = loss_of(problem.loss, problem.examples, order, w, b)
    return float(total / order.size) + float(problem.penalty.value(w))


def objective_of(problem: Problem, order: Array, w: Array, b: float) -> float:
    """Return ``R(w) + mean loss`` of some examples."""
    total = loss_of(problem.loss, problem.examples, order, w, b)
    mean = total / max(problem.examples.weight[order].sum(), 1e-30)
    return float(mean) + float(problem.penalty.value(w))


def objective(problem: Problem, w: Array, b: float) -> float:
    """Return ``R(w) + mean loss``."""
    return mean_loss(problem, w, b) + float(problem.penalty.value(w))


def curvature_ratio(problem: Problem, rng: np.random.Generator) -> float:
    """Return ``mean ‖x‖² / (λN)``: about how many epochs the dual solver needs."""
    n = problem.examples.y.size
    order = rng.choice(n, min(n, 1000), replace=False)
    lam = float(problem.penalty.strong_convexity())
    return mean_sqnorm(centred(problem.examples.rows, problem.centre), order) / (lam * n)
