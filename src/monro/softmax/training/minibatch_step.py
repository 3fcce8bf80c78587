"""Implicit SGD on mini-batches (paper 000, Proposition 3 and appendix F.3). Slow, for reference.

For a batch S of n examples and m classes C that none of them has, the step minimises

    ``η/n Σ_{i∈S} [u_i + e^{-u_i} d_i] + ½ ‖u - ũ‖² + ½ ‖W - W̃‖² + η/2 Σ_k ridge_k ‖w_k‖²``,
    ``d_i = 1 + Σ_{k∈labels(S), k≠y_i} e^{z_ik} + (K - |labels(S)|)/m Σ_{k∈C} e^{z_ik}``.

(The paper has K - n, which assumes distinct labels, and lacks the factor η of the ridge.) The u_i
are eliminated: with ``ω_i = ω(log(η d_i/n) + η/n - ũ_i)`` the best u_i is ``ũ_i - η/n + ω_i``, with
the value ``½ (1 + ω_i)²`` (eq. 19). W moves only in the span of the batch's rows,
``w_k = w̃_k + V a_k``, V an orthonormal basis (eq. 21), apart from the shrinkage by the ridge, which
also acts orthogonally to the span. L-BFGS finds the a_k.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp, wrightomega

from monro.rows import Array


class Batch(NamedTuple):
    """Examples that are always visited together."""

    rows: Array
    labels: Array  # the distinct classes of its examples
    label_index: Array  # (n,): index of each example's class in `labels`
    basis: Array  # V, (features, rank)
    coordinates: Array  # (n, rank): x_i = V b_i


def make_batches(X: Any, y: Array, n: int) -> list[Batch]:
    """Split the examples into batches of n, in order."""
    batches = []
    for start in range(0, y.size, n):
        rows = np.arange(start, min(start + n, y.size))
        dense = np.asarray(X[rows].todense() if sp.issparse(X) else X[rows], np.float64)
        labels, label_index = np.unique(y[rows], return_inverse=True)
        _, lengths, directions = np.linalg.svd(dense, full_matrices=False)
        basis = directions[lengths > 1e-12 * max(lengths.max(initial=0.0), 1e-300)].T
        batches.append(Batch(rows, labels, label_index, basis, dense @ basis))
    return batches


def ridge_of_batches(batches: list[Batch], n_classes: int, m: int, alpha: float) -> Array:
    """Return ``alpha β_k``, where 1/β_k is the probability that a batch touches class k."""
    touched = np.zeros(n_classes)
    for batch in batches:
        others = max(1, n_classes - batch.labels.size)
        chance = np.full(n_classes, min(m, others) / others)
        chance[batch.labels] = 1.0
        touched += chance / len(batches)
    return np.asarray(alpha / touched)


class Step(NamedTuple):
    """The reduced problem of one step."""

    batch: Batch
    weight: Array  # η_i = η weight_i / n
    u: Array
    scores: Array  # (n, classes): x_i · w̃_k + b_k
    log_count: Array  # (classes,): log of the number of classes that each represents
    parallel: Array  # (classes, rank): V' w̃_k
    bias: Array  # (classes,)
    ridge: Array  # (classes,): η ridge_k
    damping: float

    def omegas(self, a: Array, shift: Array) -> tuple[Array, Array, Array]:
        """Return ω_i, log d_i and its terms z_ik, for ``b_k = b̃_k + shift_k``."""
        rows, labels = np.arange(self.u.size), self.batch.label_index
        S = self.scores + self.batch.coordinates @ a.T + shift
        z = S - S[rows, labels][:, None] + self.log_count
        z[rows, labels] = 0.0
        log_d = logsumexp(z, axis=1)
        omega = wrightomega(np.log(self.weight) + log_d + self.weight - self.u).real
        return omega, log_d, z

    def value(self, theta: Array) -> tuple[float, Array]:
        """Return the objective and its gradient at theta: a_k and shift_k/√δ of each class."""
        moves = theta.reshape(self.parallel.shape[0], -1)
        a, root = moves[:, :-1], np.sqrt(self.damping)
        omega, log_d, z = self.omegas(a, root * moves[:, -1])
        slope = omega[:, None] * np.exp(z - log_d[:, None])  # d objective / d score
        slope[np.arange(self.u.size), self.batch.label_index] -= omega
        w = self.parallel + a
        cost = (omega + omega**2 / 2).sum() + (moves**2).sum() / 2
        cost += (self.ridge * (w**2).sum(axis=1)).sum() / 2
        gradient = np.column_stack(
            [slope.T @ self.batch.coordinates + self.ridge[:, None] * w, root * slope.sum(axis=0)]
        )
        return float(cost), (gradient + moves).ravel()

    def solve(self) -> tuple[Array, Array, Array]:
        """Return a, the shifts of the intercepts and u."""
        zero = np.zeros((self.parallel.shape[0], self.parallel.shape[1] + 1))
        # Where a score is far too large, start where all scores are zero (section F.3.5).
        flat = np.column_stack([-self.parallel, zero[:, -1]])
        start = min((zero, flat), key=lambda theta: self.value(theta.ravel())[0])
        result = minimize(
            self.value,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxfun": 5000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-11},
        )
        moves = result.x.reshape(zero.shape)
        a, shift = moves[:, :-1], np.sqrt(self.damping) * moves[:, -1]
        omega, _, _ = self.omegas(a, shift)
        return a, shift, self.u - self.weight + omega


def take_step(
    batch: Batch,
    drawn: Array,
    W: Array,
    bias: Array,
    u: Array,
    weight: Array,
    eta: float,
    ridge: Array,
    damping: float,
) -> None:
    """Step on a batch and classes drawn for it, in place; W is ``[class, feature]``."""
    classes = np.append(batch.labels, drawn)
    others = bias.size - batch.labels.size
    log_count = np.zeros(classes.size)
    log_count[batch.labels.size :] = np.log(max(1, others) / max(1, drawn.size))
    old = W[classes]
    parallel = old @ batch.basis
    shrinkage = eta * ridge[classes]
    scores = batch.coordinates @ parallel.T + bias[classes]
    n = batch.rows.size
    step = Step(
        batch,
        eta * weight[batch.rows] / n,
        u[batch.rows],
        scores,
        log_count,
        parallel,
        bias[classes],
        shrinkage,
        damping,
    )
    a, shift, u[batch.rows] = step.solve()
    across = old - parallel @ batch.basis.T
    W[classes] = (parallel + a) @ batch.basis.T + across / (1.0 + shrinkage)[:, None]
    bias[classes] += shift
