"""Rows, label sets, and dense references of the losses and steps on observed pairs."""

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from monro import SoftmaxClassifier


def sparse_rows(rng, n, d, density=0.4):
    """Rows with few entries; some rows may have none."""
    return sp.csr_matrix(rng.standard_normal((n, d)) * (rng.random((n, d)) < density))


def label_matrix(rng, n, K, share=0.3):
    """Rows of one to all labels; every label occurs if there are enough rows."""
    Y = (rng.random((n, K)) < share).astype(int)
    Y[np.arange(n), np.arange(n) % K] = 1
    return Y


def one_hot(y, K):
    return np.eye(K, dtype=int)[y]


def mask_of(X, Y, min_count=1):
    """The pairs [class, feature] that occur in enough rows."""
    return (Y.T.astype(int) @ (np.asarray(X.todense()) != 0)) >= min_count


def loss_and_slopes(S, Y, kind):
    """The loss of each row and its slopes in the scores."""
    if kind == "independent":
        sign = 2 * Y - 1
        margin = np.maximum(0.0, 1.0 - sign * S)
        return (margin**2).sum(axis=1), -2.0 * sign * margin
    T = Y / Y.sum(axis=1, keepdims=True) if kind == "share" else Y.astype(float)
    normaliser = logsumexp(S, axis=1, keepdims=True)
    total = T.sum(axis=1, keepdims=True)
    loss = (total * normaliser)[:, 0] - (T * S).sum(axis=1)
    return loss, total * np.exp(S - normaliser) - T


def objective(W, b, X, Y, kind, alpha=0.0, l1_ratio=0.0, weight=None):
    """Mean loss and penalty; b is not penalised."""
    loss, _ = loss_and_slopes(X @ W.T + b, Y, kind)
    penalty = l1_ratio * np.abs(W).sum() + (1 - l1_ratio) / 2 * (W**2).sum()
    return np.average(loss, weights=weight) + alpha * penalty


def parts_of(model):
    """Weights and intercepts in float64."""
    coef = model.coef_
    coef = coef.toarray() if sp.issparse(coef) else coef
    return np.asarray(coef, np.float64), np.asarray(model.intercept_, np.float64)


def objective_of(model, X, Y, kind, weight=None):
    W, b = parts_of(model)
    return objective(W, b, X, Y, kind, model.alpha, model.l1_ratio, weight)


def minimum(X, Y, kind, alpha, l1_ratio=0.0, *, weight=None, intercept=True, mask=None):
    """The optimum on the observed pairs, by accelerated proximal gradient steps."""
    X = np.asarray(X.todense() if sp.issparse(X) else X, np.float64)
    n, K = Y.shape
    mask = mask_of(sp.csr_matrix(X), Y) if mask is None else mask
    weight = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    Z = np.hstack([X, np.full((n, 1), float(intercept))])
    free = np.hstack([mask, np.full((K, 1), intercept)])
    penalised = np.append(np.ones(X.shape[1]), 0.0) * alpha
    curvature = 2.0 if kind == "independent" else (0.5 if kind == "share" else 0.5 * K)
    step = 1 / (curvature * np.linalg.eigvalsh((Z.T * weight) @ Z)[-1] + alpha)
    V = U = np.zeros(free.shape)
    t = 1.0
    for _ in range(20_000):
        _, slopes = loss_and_slopes(Z @ U.T, Y, kind)
        G = (slopes.T * weight) @ Z + (1 - l1_ratio) * penalised * U
        moved = U - step * G
        limit = step * l1_ratio * penalised
        new = np.where(free, moved - np.clip(moved, -limit, limit), 0.0)
        if np.abs(new - U).max() < 1e-10:
            break
        if ((new - V) * (U - new)).sum() > 0:  # start over: the momentum points uphill
            t = 1.0
        t, before = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
        U, V = new + (before - 1) / t * (new - V), new
    return new[:, :-1], new[:, -1]


def observed(**parameters):
    """An estimator with weights of observed pairs."""
    usual = {"weights": "observed", "alpha": 1e-3, "random_state": 0}
    return SoftmaxClassifier(**usual | parameters)


def assert_same_bits(model, other):
    for one, two in zip(parts_of(model), parts_of(other), strict=True):
        np.testing.assert_array_equal(one, two)
