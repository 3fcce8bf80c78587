"""The maximum-likelihood softmax by L-BFGS on the whole data: the reference for small problems."""

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from monro.rows import Array

_CORRECTIONS = 20  # pairs of steps and changes of the gradient
COPIES = 2 * _CORRECTIONS + 8  # as many arrays like W, in double precision, exist at the same time


def fit_lbfgs(
    X: Any,
    y: Array,
    weight: Array,
    n_classes: int,
    *,
    alpha: float,
    fit_intercept: bool,
    max_epochs: int,
    tol: float | None,
    start: tuple[Array, Array],
    history: list[dict[str, float]],
) -> tuple[Array, Array]:
    """Minimise ``mean weight_i·loss_i + alpha/2 ‖W‖²``; return W ``[feature, class]`` and b.

    `weight` has mean 1. A record of each iteration is appended to `history`.
    """
    n, d = X.shape
    X = X.astype(np.float64)
    share = weight / n
    # The part of the gradient from the labels, Σ_i share_i x_i [y_i = k], does not depend on W.
    of_labels = np.zeros((n_classes, d))
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        of_labels[k] = share[rows] @ X[rows]
    of_labels_b = np.bincount(y, share, minlength=n_classes)

    def objective(theta: Array) -> tuple[float, Array]:
        W, b = theta[:-n_classes].reshape(d, n_classes), theta[-n_classes:]
        S = X @ W + b
        s_y = S[np.arange(n), y]
        top = S.max(axis=1)
        np.subtract(S, top[:, None], out=S)
        np.exp(S, out=S)
        sums = S.sum(axis=1)
        loss = share @ (top + np.log(sums) - s_y) + alpha / 2 * np.vdot(W, W)
        S *= (share / sums)[:, None]
        gradient = X.T @ S - of_labels.T + alpha * W
        gradient_b = S.sum(axis=0) - of_labels_b if fit_intercept else np.zeros(n_classes)
        return float(loss), np.concatenate([gradient.ravel(), gradient_b])

    begin = time.perf_counter()

    def record(intermediate_result: Any) -> None:
        seconds = time.perf_counter() - begin
        loss = float(intermediate_result.fun)
        history.append({"epoch": len(history) + 1, "seconds": seconds, "loss": loss})

    first = np.concatenate([start[0].ravel(), start[1]]).astype(np.float64)
    result = minimize(
        objective,
        first,
        jac=True,
        method="L-BFGS-B",
        callback=record,
        options={
            "maxiter": max_epochs,
            "maxfun": 20 * max_epochs,
            "maxcor": _CORRECTIONS,
            "ftol": 0.0 if tol is None else tol,
            "gtol": 1e-9,
        },
    )
    return result.x[:-n_classes].reshape(d, n_classes), result.x[-n_classes:]
