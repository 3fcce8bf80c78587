"""The one evaluator: exact probabilities of all classes in float64, a chunk of rows at a time.

Every figure monro reports for a softmax model comes from here, whichever solver made it. Memory is
a chunk of rows times the classes, never all rows times the classes.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logsumexp

from monro._jit import kernel, lanes_dot
from monro.integrals import (
    MOST_POINTS,
    best_bound_of_rows,
    log_probabilities_of_rows,
    log_probability_of_rows,
    sampled_log_probability_of_rows,
)
from monro.links import ENTROPY, LINKS
from monro.mapped import rows_between
from monro.rows import Array, Sparse, as_rows
from monro.softmax.layout import LANES

_CHUNK = 1 << 22  # scores at a time and thread: 32 MB
_CLASSES = 1 << 12  # classes of a class-major matrix converted at a time
_BINS = 15
_DRAWS = 100  # from a posterior
_NODES = 40  # of expectations under a variational law
_DEPTHS = (1, 3, 5)  # k of precision and nDCG at k


class Weights(NamedTuple):
    """A fitted softmax: where each class lies, its weights, its intercept."""

    W: Array | Any  # either layout; or sparse, [class, feature]
    scale: Array  # (slots,)
    bias: Array  # (slots,)
    slots: Array  # (classes,): of each class
    spread: tuple[Array, Array] | None = None  # standard deviations of weights and intercepts

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
    W, scale, bias, slots, _ = weights
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
        return reduce(scores(weights, rows_between(X, part.start, part.stop)), part)

    if n_jobs == 1 or len(parts) == 1:
        yield from map(work, parts)
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(work, parts)


def log_normaliser(S: Array) -> Array:
    """Return ``log Σ_k e^{s_k}`` of each row."""
    top = S.max(axis=1)
    return np.asarray(top + np.log(np.exp(S - top[:, None]).sum(axis=1)))


def log_probabilities(S: Array, link: str) -> Array:
    """Return ``log p_k`` of each row and class, from their scores."""
    if link == "softmax":
        return np.asarray(S - log_normaliser(S)[:, None])
    out = np.empty_like(S)
    log_probabilities_of_rows(LINKS[link], S, np.empty(MOST_POINTS + 1), out)
    return out


def own_log_probability(S: Array, codes: Array, link: str = "softmax") -> Array:
    """Return ``log p_k`` of one class k for each row."""
    if link == "softmax":
        return np.asarray(S[np.arange(S.shape[0]), codes] - log_normaliser(S))
    out = np.empty(codes.size)
    log_probability_of_rows(LINKS[link], S, codes, out)
    return out


class Chances(NamedTuple):
    """From the scores of some rows of X to the classes' probabilities.

    Where the weights have a posterior, the mean of the probabilities over draws from it.
    """

    weights: Weights
    X: Any
    link: str = "softmax"

    def of_all(self, S: Array, rows: slice) -> Array:
        """Return ``log p_k`` of each row and class."""
        each = [log_probabilities(drawn, self.link) for drawn in self._draws(S, rows)]
        return _log_mean(each)

    def of_one(self, S: Array, rows: slice, codes: Array) -> Array:
        """Return ``log p_k`` of one class k for each of the rows."""
        each = [own_log_probability(drawn, codes, self.link) for drawn in self._draws(S, rows)]
        return _log_mean(each)

    def _draws(self, S: Array, rows: slice) -> Iterator[Array]:
        if self.weights.spread is None:
            yield S
            return
        W, bias = self.weights.spread
        X = rows_between(self.X, rows.start, rows.stop).astype(np.float64)
        squares = X.multiply(X) if sp.issparse(X) else X * X
        deviation = np.sqrt(squares @ (W**2).T + bias**2)
        # The same for every row, whichever rows are asked for together with it.
        normal = np.random.default_rng(0).standard_normal((_DRAWS, S.shape[1]))
        for each in normal:
            yield S + deviation * each


def _log_mean(each: list[Array]) -> Array:
    return each[0] if len(each) == 1 else np.asarray(logsumexp(each, axis=0) - np.log(len(each)))


def losses(weights: Weights, X: Any, codes: Array, n_jobs: int = 1, link: str = "softmax") -> Array:
    """Return the exact negative log-likelihood of each row."""
    chances = Chances(weights, X, link)

    def reduce(S: Array, rows: slice) -> Array:
        return -chances.of_one(S, rows, codes[rows])

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


def sampled_losses(
    weights: Weights, X: Any, codes: Array, link: str, draws: int, n_jobs: int
) -> Array:
    """Return the negative log-likelihood of each row as paper 001 estimates it (section 4)."""
    centre = scale = 5.0
    noise = centre + scale * np.random.default_rng(0).standard_normal(draws)
    log_weight = 0.5 * ((noise - centre) / scale) ** 2 + np.log(scale * np.sqrt(2.0 * np.pi))

    def reduce(S: Array, rows: slice) -> Array:
        out = np.empty(S.shape[0])
        sampled_log_probability_of_rows(LINKS[link], S, codes[rows], noise, log_weight, out)
        return -out

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


def one_vs_each(S: Array, codes: Array) -> Array:
    """Return Titsias' bound of each row's log-likelihood: ``Σ_{k≠y} log σ(s_y - s_k)``."""
    own = S[np.arange(S.shape[0]), codes]
    total = np.logaddexp(0.0, S - own[:, None]).sum(axis=1)
    return np.asarray(np.log(2.0) - total)  # y itself was one of them


def bounds(weights: Weights, X: Any, codes: Array, link: str, solver: str, n_jobs: int) -> Array:
    """Return, for each row, the largest bound of its log-likelihood of the kind a solver raises."""
    if link == "probit":
        nodes, share = np.polynomial.hermite_e.hermegauss(_NODES)
    else:
        nodes = np.linspace(-40.0, 40.0, 5 * _NODES + 1)
        share = expit(nodes) * expit(-nodes)
    variance = 1.0 if link == "probit" else np.pi**2 / 3.0
    share = share / share.sum()

    def reduce(S: Array, rows: slice) -> Array:
        if link == "softmax":
            if solver == "ove":
                return one_vs_each(S, codes[rows])
            # At its best η the bound is the likelihood.
            return own_log_probability(S, codes[rows])
        out = np.empty(S.shape[0])
        entropy = ENTROPY[link]
        best_bound_of_rows(LINKS[link], S, codes[rows], nodes, share, variance, entropy, out)
        return out

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
    link: str = "softmax",
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
    link : {"softmax", "probit", "logistic"}
        From scores to probabilities.

    Returns
    -------
    dict
        ``log_loss``, the mean of ``-log p(y)`` in nats; ``error``; ``top_5_error``, the share of
        rows whose class is not among the five likeliest; ``calibration_error``, the mean distance
        between the likeliest class's probability and how often it is right, over 15 bins of that
        probability.
    """
    chances = Chances(weights, X, link)
    total = codes.size if sample_weight is None else sample_weight.sum()

    def reduce(S: Array, rows: slice) -> Array:
        own, best = codes[rows], S.argmax(axis=1)
        weight = np.ones(own.size) if sample_weight is None else sample_weight[rows]
        loss = -chances.of_one(S, rows, own)
        better = (S[np.arange(own.size), own][:, None] < S).sum(axis=1)
        confidence = np.exp(chances.of_one(S, rows, best))
        right = best == own
        bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
        gaps = np.bincount(bins, weight * (right - confidence), minlength=_BINS)
        return np.concatenate([[weight @ loss, weight @ ~right, weight @ (better >= 5)], gaps])

    # Sums, not rows: there may be many.
    loss, error, top_5_error, *gaps = sum(chunked(weights, X, reduce, n_jobs)) / total
    return {
        "log_loss": float(loss),
        "error": float(error),
        "top_5_error": float(top_5_error),
        "calibration_error": float(np.abs(gaps).sum()),
    }


def evaluate_labels(
    weights: Weights,
    X: Any,
    Y: Any,
    sample_weight: Array,
    n_jobs: int = 1,
    link: str = "softmax",
) -> dict[str, float]:
    """Measure a softmax model on rows of several labels; parameters as of `evaluate`.

    Y is a CSR array of bool of shape (n_rows, n_classes), with a label or more in each row.

    Returns
    -------
    dict
        ``log_loss``, the mean over a row's labels of ``-log p`` in nats; ``precision_at_k``, how
        many of the k likeliest classes are labels of the row, divided by k; ``ndcg_at_k``, the sum
        of ``1 / log2(1 + rank)`` over these, divided by the most it can be for the row.
    """
    depth = min(_DEPTHS[-1], weights.n_classes)
    n_labels = np.diff(Y.indptr)

    chances = Chances(weights, X, link)

    def reduce(S: Array, rows: slice) -> Array:
        own, counts = Y[rows], n_labels[rows]
        at = np.repeat(np.arange(counts.size), counts)
        loss = -np.bincount(at, chances.of_all(S, rows)[at, own.indices]) / counts
        hits = own[np.arange(counts.size)[:, None], top_k(S, depth)].toarray()
        return np.column_stack([loss, hits])

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
