"""Implicit SGD on mini-batches (paper 000, Proposition 3 and appendix F.3). A reference, not fast.

For a batch S of n examples and m classes C that none of them has, the step minimises

    ``η/n Σ_{i∈S} [u_i + e^{-u_i} d_i] + ½ ‖u - ũ‖² + ½ ‖W - W̃‖² + η/2 Σ_k ridge_k ‖w_k‖²``,
    ``d_i = 1 + Σ_{k∈labels(S), k≠y_i} e^{z_ik} + (K - |labels(S)|)/m Σ_{k∈C} e^{z_ik}``.

(The paper has K - n, which assumes distinct labels, and lacks η beside the ridge.) The u_i are
eliminated: with ``ω_i = ω(log(η d_i/n) + η/n - ũ_i)`` the best is ``u_i = ũ_i - η/n + ω_i``, worth
``½ (1 + ω_i)²`` (eq. 19). W moves only in the span of the batch's rows, ``w_k = w̃_k + V a_k``, V an
orthonormal basis (eq. 21), but for the ridge's pull at right angles to it. L-BFGS finds the a_k.
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
    own: Array  # of each example, where its class is in `labels`
    basis: Array  # V, (features, rank)
    coordinates: Array  # (n, rank): x_i = V b_i


def make_batches(X: Any, y: Array, n: int) -> list[Batch]:
    """Split the examples into batches of n, in order."""
    batches = []
    for start in range(0, y.size, n):
        rows = np.arange(start, min(start + n, y.size))
        dense = np.asarray(X[rows].todense() if sp.issparse(X) else X[rows], np.float64)
        labels, own = np.unique(y[rows], return_inverse=True)
        _, lengths, directions = np.linalg.svd(dense, full_matrices=False)
        basis = directions[lengths > 1e-12 * max(lengths.max(initial=0.0), 1e-300)].T
        batches.append(Batch(rows, labels, own, basis, dense @ basis))
    return batches


def ridge_of_batches(batches: list[Batch], n_classes: int, m: int, alpha: float) -> Array:
    """Return ``alpha β_k``: 1/β_k is the chance that class k is touched by a batch."""
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
    log_count: Array  # (classes,): log of how many classes each stands for
    parallel: Array  # (classes, rank): V' w̃_k
    bias: Array  # (classes,)
    ridge: Array  # (classes,): η ridge_k
    damping: float

    def value(self, theta: Array) -> tuple[float, Array]:
        """Return the objective and its gradient at a_k (and moves of the intercepts)."""
        moves = theta.reshape(self.parallel.shape[0], -1)
        a, shift = moves[:, :-1], moves[:, -1]  # b_k = b̃_k + √δ shift_k
        n = np.arange(self.u.size)
        root = np.sqrt(self.damping)
        S = self.scores + self.batch.coordinates @ a.T + root * shift
        z = S - S[n, self.batch.own][:, None] + self.log_count
        z[n, self.batch.own] = 0.0
        log_d = logsumexp(z, axis=1)
        omega = wrightomega(np.log(self.weight) + log_d + self.weight - self.u).real
        slope = omega[:, None] * np.exp(z - log_d[:, None])  # of the objective in each score
        slope[n, self.batch.own] -= omega
        w = self.parallel + a
        cost = (omega + omega**2 / 2).sum() + (moves**2).sum() / 2
        cost += (self.ridge * (w**2).sum(axis=1)).sum() / 2
        gradient = np.column_stack(
            [slope.T @ self.batch.coordinates + self.ridge[:, None] * w, root * slope.sum(axis=0)]
        )
        return float(cost), (gradient + moves).ravel()

    def solve(self) -> tuple[Array, Array, Array]:
        """Return a, the intercepts' moves and u."""
        nothing = np.zeros((self.parallel.shape[0], self.parallel.shape[1] + 1))
        # Where a score is far too large, begin where all of them are zero (section F.3.5).
        flat = np.column_stack([-self.parallel, nothing[:, -1]])
        start = min((nothing, flat), key=lambda theta: self.value(theta.ravel())[0])
        result = minimize(
            self.value,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxfun": 5000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-11},
        )
        moves = result.x.reshape(nothing.shape)
        n = np.arange(self.u.size)
        shift = np.sqrt(self.damping) * moves[:, -1]
        S = self.scores + self.batch.coordinates @ moves[:, :-1].T + shift
        z = S - S[n, self.batch.own][:, None] + self.log_count
        z[n, self.batch.own] = 0.0
        log_weight = np.log(self.weight)
        omega = wrightomega(log_weight + logsumexp(z, axis=1) + self.weight - self.u).real
        return moves[:, :-1], shift, self.u - self.weight + omega


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
    """Step on a batch and classes drawn for it; W is ``[class, feature]``, all is changed."""
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
