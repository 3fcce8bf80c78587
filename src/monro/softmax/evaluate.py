"""The one evaluator: the full softmax over all classes in float64, a chunk of rows at a time.

Every figure monro reports for a softmax model comes from here, whichever solver made it. Memory is
a chunk of rows times the classes, never all rows times the classes.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import kernel, lanes_dot
from monro.rows import Array, Sparse, as_rows
from monro.softmax.layout import LANES

_CHUNK = 1 << 22  # scores at a time and thread: 32 MB
_CLASSES = 1 << 12  # classes of a class-major matrix converted at a time
_BINS = 15
_DEPTHS = (1, 3, 5)  # k of precision and nDCG at k


class Weights(NamedTuple):
    """A fitted softmax: where each class lies, its weights, its intercept."""

    W: Array | Any  # either layout; or sparse, [class, feature]
    scale: Array  # (slots,)
    bias: Array  # (slots,)
    slots: Array  # (classes,): of each class

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.slots.size)


@kernel
def sparse_scores(rows: Sparse, W: Array, lanes: Array, out: Array) -> None:
    """``out[i, slot] = x_i · r_slot``, block by block: a block's weights stay in the cache."""
    for block in range(W.shape[0]):
        for i in range(rows.indptr.size - 1):
            start, stop = rows.indptr[i], rows.indptr[i + 1]
            lanes_dot(rows.data, rows.indices, start, stop, W, block, lanes)
            for lane in range(LANES):
                out[i, block * LANES + lane] = lanes[lane]


def scores(weights: Weights, X: Any) -> Array:
    """Return ``x·w_k + b_k`` of all rows and classes, in float64."""
    W, scale, bias, slots = weights
    X = X.astype(np.float64, copy=False)
    if sp.issparse(W):
        product = X @ W.T
        return np.asarray(product.todense() if sp.issparse(product) else product) + bias[slots]
    out = np.empty((X.shape[0], scale.size))
    if W.ndim == 2:
        for k in range(0, scale.size, _CLASSES):
            out[:, k : k + _CLASSES] = X @ W[k : k + _CLASSES].astype(np.float64).T
    elif sp.issparse(X):
        sparse_scores(Sparse(*as_rows(X)), W, np.zeros(LANES), out)
    else:
        for block in range(W.shape[0]):
            out[:, block * LANES : (block + 1) * LANES] = X @ W[block].astype(np.float64)
    result: Array = out[:, slots]
    result *= scale[slots]
    result += bias[slots]
    return result


def chunked(
    weights: Weights,
    X: Any,
    reduce: Callable[[Array, slice], Any],
    n_jobs: int = 1,
) -> Iterator[Any]:
    """Yield ``reduce(scores, rows)`` for one chunk of rows after another."""
    size = max(1, _CHUNK // weights.n_classes)
    parts = [slice(a, min(a + size, X.shape[0])) for a in range(0, X.shape[0], size)]

    def work(part: slice) -> Any:
        return reduce(scores(weights, X[part] if len(parts) > 1 else X), part)

    if n_jobs == 1 or len(parts) == 1:
        yield from map(work, parts)
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(work, parts)


def log_normaliser(S: Array) -> Array:
    """Return ``log Σ_k e^{s_k}`` of each row."""
    top = S.max(axis=1)
    return np.asarray(top + np.log(np.exp(S - top[:, None]).sum(axis=1)))


def losses(weights: Weights, X: Any, codes: Array, n_jobs: int = 1) -> Array:
    """Return the exact negative log-likelihood of each row."""

    def reduce(S: Array, rows: slice) -> Array:
        return log_normaliser(S) - S[np.arange(S.shape[0]), codes[rows]]

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


def top_k(S: Array, k: int) -> Array:
    """Return the columns of the k largest scores of each row, best first; of equals the lower."""
    if k == S.shape[1]:
        return np.argsort(-S, axis=1, kind="stable")
    columns = np.sort(np.argpartition(S, S.shape[1] - k, axis=1)[:, -k:], axis=1)
    least = np.take_along_axis(S, columns, axis=1).min(axis=1)
    for row in np.flatnonzero((least[:, None] <= S).sum(axis=1) > k):  # equals at the border
        better = np.flatnonzero(S[row] > least[row])
        equal = np.flatnonzero(S[row] == least[row])
        columns[row] = np.sort(np.append(better, equal[: k - better.size]))
    order = np.argsort(-np.take_along_axis(S, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def evaluate(
    weights: Weights,
    X: Any,
    codes: Array,
    sample_weight: Array | None = None,
    n_jobs: int = 1,
) -> dict[str, float]:
    """Measure a softmax model.

    Parameters
    ----------
    weights : Weights
        The model.
    X : CSR matrix or array
        Rows.
    codes : array of shape (n_rows,)
        The number of each row's class, in the order of the model's classes.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows in all means.
    n_jobs : int
        Threads.

    Returns
    -------
    dict
        ``log_loss``, the mean of ``-log p(y)`` in nats; ``error``; ``top_5_error``, the share of
        rows whose class is not among the five likeliest; ``calibration_error``, the mean distance
        between the likeliest class's probability and how often it is right, over 15 bins of that
        probability.
    """

    def reduce(S: Array, rows: slice) -> Array:
        own = S[np.arange(S.shape[0]), codes[rows]]
        normaliser = log_normaliser(S)
        better = (own[:, None] < S).sum(axis=1)
        confidence = np.exp(S.max(axis=1) - normaliser)
        return np.column_stack([normaliser - own, better, confidence, S.argmax(axis=1)])

    loss, better, confidence, best = np.concatenate(list(chunked(weights, X, reduce, n_jobs))).T
    weight = np.ones(loss.size) if sample_weight is None else sample_weight
    weight = weight / weight.sum()
    right = best == codes
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, weight * (right - confidence), minlength=_BINS)
    return {
        "log_loss": float(weight @ loss),
        "error": float(weight @ ~right),
        "top_5_error": float(weight @ (better >= 5)),
        "calibration_error": float(np.abs(gaps).sum()),
    }


def evaluate_labels(
    weights: Weights, X: Any, Y: Any, sample_weight: Array, n_jobs: int = 1
) -> dict[str, float]:
    """Measure a softmax model on rows of several labels.

    Parameters
    ----------
    weights : Weights
        The model.
    X : CSR matrix or array
        Rows.
    Y : CSR array of bool of shape (n_rows, n_classes)
        The labels, one or more a row.
    sample_weight : array of shape (n_rows,)
        Weights of the rows in all means.
    n_jobs : int
        Threads.

    Returns
    -------
    dict
        ``log_loss``, the mean over a row's labels of ``-log p`` in nats; ``precision_at_k``, how
        many of the k likeliest classes are labels of the row, divided by k; ``ndcg_at_k``, the sum
        of ``1 / log2(1 + rank)`` over these, divided by the most it can be for the row.
    """
    depth = min(_DEPTHS[-1], weights.n_classes)
    n_labels = np.diff(Y.indptr)

    def reduce(S: Array, rows: slice) -> Array:
        own, counts = Y[rows], n_labels[rows]
        at = np.repeat(np.arange(counts.size), counts)
        mean_score = np.bincount(at, S[at, own.indices]) / counts
        hits = own[np.arange(counts.size)[:, None], top_k(S, depth)].toarray()
        return np.column_stack([log_normaliser(S) - mean_score, hits])

    measured = np.concatenate(list(chunked(weights, X, reduce, n_jobs)))
    loss, hits = measured[:, 0], measured[:, 1:]
    weight = sample_weight / sample_weight.sum()
    gains = 1.0 / np.log2(1.0 + np.arange(1, _DEPTHS[-1] + 1))
    most = np.cumsum(gains)
    precision = {f"precision_at_{k}": float(weight @ hits[:, :k].sum(axis=1)) / k for k in _DEPTHS}
    ndcg = {
        f"ndcg_at_{k}": float(
            weight @ (hits[:, :k] @ gains[: min(k, depth)] / most[np.minimum(k, n_labels) - 1])
        )
        for k in _DEPTHS
    }
    return {"log_loss": float(weight @ loss)} | precision | ndcg
