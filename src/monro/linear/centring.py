"""Rows with their mean subtracted, and the weights of solvers that train on them.

A solver on centred rows predicts ``w·(x - x̄) + b``. Its weights are an array ``[v, a, z]``, with
``w = v - a x̄`` and ``z = v·x̄``, which sparse rows need (`Centered`), and the bias after them if
that is a weight.
"""

from typing import NamedTuple

import numpy as np

from monro._jit import vector_leaf
from monro.linear.examples import add_all
from monro.linear.problem import Problem
from monro.rows import (
    Array,
    Dense,
    Rows,
    add,
    add_two,
    dot,
    locate,
    prefetch,
    prefetch_weights,
    sqnorm,
)

EXTRA = 2  # a and z


@vector_leaf
def _centred_dot(values: Array, i: int, mean: Array, w: Array) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += (values[i, j] - mean[j]) * w[j]
    return total


@vector_leaf
def _centred_add(values: Array, i: int, mean: Array, c: float, w: Array) -> None:
    for j in range(values.shape[1]):
        w[j] += c * (values[i, j] - mean[j])


@vector_leaf
def _centred_sum_of_squares(values: Array, i: int, mean: Array) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += (values[i, j] - mean[j]) ** 2
    return total


class Centered(NamedTuple):
    """Rows ``x_i - x̄`` that stay sparse (paper 002, section 5).

    A sum ``Σ c_i (x_i - x̄)`` is kept as ``v = Σ c_i x_i``, ``a = Σ c_i`` and ``z = v·x̄``, in an
    array ``[v, a, z]``. All three are linear in the c_i, so solvers scale and average this array as
    they would scale and average ordinary weights.
    """

    rows: Rows
    mean: Array
    sqnorm_mean: float

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        a = w[self.mean.size]
        z = w[self.mean.size + 1]
        return dot(self.rows, i, w) - a * dot(self.rows, i, self.mean) - z + a * self.sqnorm_mean

    def add(self, i, c, w):  # type: ignore[no-untyped-def]
        add(self.rows, i, c, w)
        w[self.mean.size] += c
        w[self.mean.size + 1] += c * dot(self.rows, i, self.mean)

    def add_two(self, i, c, w, d, u):  # type: ignore[no-untyped-def]
        add_two(self.rows, i, c, w, d, u)
        a = self.mean.size
        q = dot(self.rows, i, self.mean)
        w[a] += c
        w[a + 1] += c * q
        u[a] += d
        u[a + 1] += d * q

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        q = dot(self.rows, i, self.mean)
        return max(0.0, sqnorm(self.rows, i) - 2.0 * q + self.sqnorm_mean)

    def locate(self, i):  # type: ignore[no-untyped-def]
        locate(self.rows, i)

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        prefetch(self.rows, i)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        prefetch_weights(self.rows, i, w)


class CenteredDense(NamedTuple):
    """Rows ``x_i - x̄`` of an array, subtracted at each use.

    Nothing is gained by the sums of `Centered`, whose differences of large numbers lose digits if
    the rows are far from the origin. The two coordinates of `Centered` are there, but not used.
    """

    rows: Dense
    mean: Array

    def dot(self, i, w):  # type: ignore[no-untyped-def]
        return _centred_dot(self.rows.data, i, self.mean, w)

    def add(self, i, c, w):  # type: ignore[no-untyped-def]
        _centred_add(self.rows.data, i, self.mean, c, w)

    def add_two(self, i, c, w, d, u):  # type: ignore[no-untyped-def]
        _centred_add(self.rows.data, i, self.mean, c, w)
        _centred_add(self.rows.data, i, self.mean, d, u)

    def sqnorm(self, i):  # type: ignore[no-untyped-def]
        return _centred_sum_of_squares(self.rows.data, i, self.mean)

    def locate(self, i):  # type: ignore[no-untyped-def]
        pass

    def prefetch(self, i):  # type: ignore[no-untyped-def]
        prefetch(self.rows, i)

    def prefetch_weights(self, i, w):  # type: ignore[no-untyped-def]
        pass


def with_centre(problem: Problem) -> Problem:
    """Return the problem with the mean of its rows as their centre."""
    weight = problem.examples.weight
    mean = np.zeros(problem.n_features)
    add_all(problem.examples, 1.0 / float(weight.sum()), np.ones(weight.size), mean)
    return problem._replace(centre=mean)


def centred(rows: Rows, centre: Array) -> Rows:
    """Return rows with their centre subtracted, if there is one."""
    if not centre.size:
        return rows
    if isinstance(rows, Dense):
        return CenteredDense(rows, centre)
    return Centered(rows, centre, float(centre @ centre))


def plain_weights(w: Array, centre: Array) -> Array:
    """Return ``v - a x̄`` of an array ``[v, a, z, …]``."""
    n = centre.size
    weights: Array = w[:n] - w[n] * centre
    return weights


def set_weights(w: Array, weights: Array, centre: Array) -> float:
    """Write ``[v, 0, v·x̄]`` to an array ``[v, a, z, …]``; return ``v·x̄``."""
    n = centre.size
    w[:n] = weights
    w[n] = 0.0
    w[n + 1] = weights @ centre
    return float(w[n + 1])
