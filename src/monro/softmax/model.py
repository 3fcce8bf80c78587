"""A fitted softmax: weights, scores and probabilities."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import log_expit, logsumexp

from monro._jit import kernel
from monro.blocks import LANES, lanes_dot
from monro.integrals import MAX_POINTS, log_probabilities_of_rows, log_probability_of_rows
from monro.links import LINKS
from monro.mapped.matrices import slice_rows
from monro.rows import Array, Sparse, as_rows
from monro.softmax.kernel.layout import class_major

_CHUNK_SCORES = 1 << 22  # computed at a time by a thread: 32 MB
CHUNK_CLASSES = 1 << 12  # of a class-major matrix, converted to float64 at a time
_POSTERIOR_DRAWS = 100


class Weights(NamedTuple):
    """The weights and intercepts of a fitted softmax, and the slot of each class."""

    W: Array | Any  # in either layout of `kernel.layout`; or CSC [class, feature], scales 1
    bias: Array  # (slots,)
    scale: Array  # (slots,): w = scale·r, where r is in W
    slots: Array  # (classes,): the slot of each class
    spread: tuple[Array, Array] | None = None  # standard deviations of weights and intercepts
    # Where each label is a question of its own: what makes its log-odds of scores (`log_odds`).
    calibration: Array | None = None

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.slots.size)


def class_weights(weights: Weights) -> Any:
    """Return the weights as ``[class, feature]``."""
    W: Any = weights.W
    slots = weights.slots
    return W.tocsr() if sp.issparse(W) else class_major(W)[slots] * weights.scale[slots, None]


@kernel
def sparse_scores(rows: Sparse, W: Array, lanes: Array, out: Array) -> None:
    """``out[i, slot] = x_i · r_slot``, block by block: a block's weights stay in the cache."""
    for block in range(W.shape[0]):
        for i in range(rows.indptr.size - 1):
            start, stop = rows.indptr[i], rows.indptr[i + 1]
            lanes_dot(rows.data, rows.indices, start, stop, W, block, lanes)
            for lane in range(LANES):
                out[i, block * LANES + lane] = lanes[lane]


def slot_scores(weights: Weights, X: Any, start: int, stop: int) -> Array:
    """Return the scores ``[row, slot]`` of a range of slots, which begins and ends with a block."""
    W: Any = weights.W
    W = W[start // LANES : stop // LANES] if W.ndim == 3 else W[start:stop]
    S = np.asarray(X @ class_major(W).astype(np.float64).T)
    S *= weights.scale[start:stop]
    S += weights.bias[start:stop]
    return S


def scores(weights: Weights, X: Any) -> Array:
    """Return ``x·w_k + b_k`` of all rows and classes, in float64."""
    W, bias, scale, slots = weights.W, weights.bias, weights.scale, weights.slots
    X = X.astype(np.float64, copy=False)
    if sp.issparse(W):
        product = X @ W.T
        return np.asarray(product.todense() if sp.issparse(product) else product) + bias[slots]
    out = np.empty((X.shape[0], scale.size))
    if W.ndim == 3 and sp.issparse(X):
        sparse_scores(Sparse(*as_rows(X)), W, np.zeros(LANES), out)
        out *= scale
        out += bias
    else:
        for k in range(0, scale.size, CHUNK_CLASSES):
            stop = min(k + CHUNK_CLASSES, scale.size)
            out[:, k:stop] = slot_scores(weights, X, k, stop)
    return out if np.array_equal(slots, np.arange(scale.size)) else out[:, slots]


def chunked(
    weights: Weights,
    X: Any,
    reduce: Callable[[Array, slice], Any],
    n_jobs: int = 1,
) -> Iterator[Any]:
    """Yield ``reduce(scores, rows)`` for each chunk of rows, in order."""
    size = max(1, _CHUNK_SCORES // weights.n_classes)
    chunks = [slice(a, min(a + size, X.shape[0])) for a in range(0, X.shape[0], size)]

    def work(rows: slice) -> Any:
        return reduce(scores(weights, slice_rows(X, rows.start, rows.stop)), rows)

    if n_jobs == 1 or len(chunks) == 1:
        yield from map(work, chunks)
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(work, chunks)


def log_normaliser(S: Array) -> Array:
    """Return ``log Σ_k e^{s_k}`` of each row."""
    top = S.max(axis=1)
    return np.asarray(top + np.log(np.exp(S - top[:, None]).sum(axis=1)))


def log_probabilities(S: Array, link: str) -> Array:
    """Return ``log p_k`` of each row and class, from the scores."""
    if link == "softmax":
        return np.asarray(S - log_normaliser(S)[:, None])
    out = np.empty_like(S)
    log_probabilities_of_rows(LINKS[link], S, np.empty(MAX_POINTS + 1), out)
    return out


def label_log_probability(S: Array, codes: Array, link: str = "softmax") -> Array:
    """Return ``log p_k`` of one class k for each row, from the scores; `codes` are the classes."""
    if link == "softmax":
        return np.asarray(S[np.arange(S.shape[0]), codes] - log_normaliser(S))
    out = np.empty(codes.size)
    log_probability_of_rows(LINKS[link], S, codes, out)
    return out


class LogProbabilities(NamedTuple):
    """Computes log-probabilities from the scores of chunks of X.

    If the weights have a posterior, a probability is the mean over draws from it.
    """

    weights: Weights
    X: Any
    link: str = "softmax"

    @property
    def have_normaliser(self) -> bool:
        """Whether ``log p_k`` is the score of k minus the logarithm of ``Σ_j e^{s_j}``."""
        weights = self.weights
        plain = weights.spread is None and weights.calibration is None
        return self.link == "softmax" and plain

    def of_all(self, S: Array, rows: slice) -> Array:
        """Return ``log p_k`` of each row and class."""
        if self.weights.calibration is not None:
            return np.asarray(log_expit(log_odds(S, self.weights.calibration)))
        each = [log_probabilities(drawn, self.link) for drawn in self._draws(S, rows)]
        return _log_mean(each)

    def of_pairs(self, S: Array, rows: slice, row_of: Array, codes: Array) -> Array:
        """Return ``log p_k`` of pairs of a row of the chunk and a class."""
        # As many pairs at a time as there are rows: of each the scores are copied.
        parts = [slice(a, a + S.shape[0]) for a in range(0, codes.size, S.shape[0])]
        each = [
            np.concatenate(
                [label_log_probability(drawn[row_of[p]], codes[p], self.link) for p in parts]
            )
            for drawn in self._draws(S, rows)
        ]
        return _log_mean(each)

    def _draws(self, S: Array, rows: slice) -> Iterator[Array]:
        """Yield scores drawn from the posterior; the scores themselves if there is none."""
        if self.weights.spread is None:
            yield S
            return
        W, bias = self.weights.spread
        X = slice_rows(self.X, rows.start, rows.stop).astype(np.float64)
        squares = X.multiply(X) if sp.issparse(X) else X * X
        deviation = np.sqrt(squares @ (W**2).T + bias**2)
        # The same draws for every row, whatever the chunk it is in.
        normal = np.random.default_rng(0).standard_normal((_POSTERIOR_DRAWS, S.shape[1]))
        for each in normal:
            yield S + deviation * each


def log_odds(S: Array, calibration: Array) -> Array:
    """Return the log-odds of labels that are questions of their own: ``a logit p + c``.

    A squared hinge is least, for a given probability p, at the score ``2p - 1``. So ``p = (1+s)/2``
    would be the probability, kept between `least` and 1 - `least`, if there were no penalty.
    """
    a, c, least = calibration
    p = np.clip(0.5 + 0.5 * S, least, 1.0 - least)
    return np.asarray(a * (np.log(p) - np.log1p(-p)) + c)


def _log_mean(each: list[Array]) -> Array:
    return each[0] if len(each) == 1 else np.asarray(logsumexp(each, axis=0) - np.log(len(each)))


def top_k(S: Array, k: int) -> Array:
    """Return the columns of the k largest scores of each row, best first; ties by lower column."""
    if k == S.shape[1]:
        return np.argsort(-S, axis=1, kind="stable")
    columns = np.sort(np.argpartition(S, S.shape[1] - k, axis=1)[:, -k:], axis=1)
    least = np.take_along_axis(S, columns, axis=1).min(axis=1)
    for row in np.flatnonzero((least[:, None] <= S).sum(axis=1) > k):  # ties at the border
        better = np.flatnonzero(S[row] > least[row])
        equal = np.flatnonzero(S[row] == least[row])
        columns[row] = np.sort(np.append(better, equal[: k - better.size]))
    order = np.argsort(-np.take_along_axis(S, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)
