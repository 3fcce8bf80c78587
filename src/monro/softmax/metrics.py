"""Exact metrics of a softmax model."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit

from monro.integrals import (
    best_bound_of_rows,
    bound_of_rows,
    sampled_log_probability_of_rows,
)
from monro.links import ENTROPY, LINKS
from monro.rows import Array
from monro.softmax.model import (
    LogProbabilities,
    Weights,
    chunked,
    label_log_probability,
    log_odds,
)
from monro.softmax.scan import label_scores, scan, softplus_sums

_CALIBRATION_BINS = 15
_NODES = 40  # of quadratures under a variational distribution
_CHUNK_DRAWS = 1 << 20  # of the noise, made at a time
_ROUNDING = 1e-12  # by which scores of a class may differ, relative to their size
_DEPTHS = (1, 3, 5)  # k of precision and nDCG at k


def log_probabilities_of_pairs(
    weights: Weights,
    X: Any,
    pairs: tuple[Array, Array],
    link: str = "softmax",
    n_jobs: int = 1,
    log_normaliser: Array | None = None,
) -> Array:
    """Return ``log p_k(x_i)``, exact, of pairs of a row i and a class k, sorted by row.

    The normalisers of all rows are computed unless they are given.
    """
    log_probabilities = LogProbabilities(weights, X, link)
    row_of, codes = pairs
    if weights.calibration is not None:
        own = label_scores(weights, X, row_of, codes)
        return np.asarray(log_expit(log_odds(own, weights.calibration)))
    if log_probabilities.have_normaliser:
        if log_normaliser is None:
            log_normaliser = scan(weights, X, 1, n_jobs).log_normaliser
        # The two are rounded differently: the difference may be above 0 in the last digits.
        own = label_scores(weights, X, row_of, codes)
        return np.asarray(np.minimum(own - log_normaliser[row_of], 0.0))

    def reduce(S: Array, rows: slice) -> Array:
        mine = slice(*np.searchsorted(row_of, [rows.start, rows.stop]))
        return log_probabilities.of_pairs(S, rows, row_of[mine] - rows.start, codes[mine])

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


def losses(weights: Weights, X: Any, codes: Array, n_jobs: int = 1, link: str = "softmax") -> Array:
    """Return the exact negative log-likelihood of each row."""
    return -log_probabilities_of_pairs(weights, X, (np.arange(codes.size), codes), link, n_jobs)


def sampled_losses(
    weights: Weights, X: Any, codes: Array, link: str, draws: int, n_jobs: int
) -> Array:
    """Return an estimate of each row's negative log-likelihood, as in paper 001 (section 4).

    Each row has draws of its own: with draws in common, the errors of all rows would be the same.
    """
    centre = scale = 5.0
    size = max(1, _CHUNK_DRAWS // draws)  # rows

    def reduce(S: Array, rows: slice) -> Array:
        out = np.empty(S.shape[0])
        rng = np.random.default_rng([0, rows.start])
        for start in range(0, S.shape[0], size):
            part = slice(start, min(start + size, S.shape[0]))
            standard = rng.standard_normal((part.stop - start, draws))
            log_weight = 0.5 * standard**2 + np.log(scale * np.sqrt(2.0 * np.pi))
            noise = centre + scale * standard
            y = codes[rows][part]
            sampled_log_probability_of_rows(LINKS[link], S[part], y, noise, log_weight, out[part])
        return -out

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


def one_vs_each(S: Array, codes: Array) -> Array:
    """Return Titsias' bound of each row's log-likelihood: ``Σ_{k≠y} log σ(s_y - s_k)``."""
    s_y = S[np.arange(S.shape[0]), codes]
    total = np.logaddexp(0.0, S - s_y[:, None]).sum(axis=1)
    return np.asarray(np.log(2.0) - total)  # the sum includes log 2 for y itself


def _quadrature(link: str) -> tuple[Array, Array]:
    """Return nodes and weights for expectations under the standard noise of a link."""
    if link == "probit":
        nodes, weight = np.polynomial.hermite_e.hermegauss(_NODES)
    elif link == "logistic":
        nodes = np.linspace(-40.0, 40.0, 5 * _NODES + 1)
        weight = expit(nodes) * expit(-nodes)
    else:
        nodes = np.linspace(-5.0, 40.0, 10 * _NODES)
        weight = np.exp(-nodes - np.exp(-nodes))
    return nodes, weight / weight.sum()


def bounds(
    weights: Weights, X: Any, codes: Array, link: str, one_vs_each_bound: bool, n_jobs: int
) -> Array:
    """Return the largest lower bound of each row's log-likelihood, of the kind a solver uses."""
    nodes, share = _quadrature(link)
    variance = 1.0 if link == "probit" else np.pi**2 / 3.0

    def reduce(S: Array, rows: slice) -> Array:
        if link == "softmax":
            if one_vs_each_bound:
                return one_vs_each(S, codes[rows])
            # At the best η the bound equals the likelihood.
            return label_log_probability(S, codes[rows])
        out = np.empty(S.shape[0])
        entropy = ENTROPY[link]
        best_bound_of_rows(LINKS[link], S, codes[rows], nodes, share, variance, entropy, out)
        return out

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


def bounds_at(
    weights: Weights,
    X: Any,
    codes: Array,
    link: str,
    noise: tuple[str, Array, Array],
    n_jobs: int,
) -> Array:
    """Return the lower bound of each row's log-likelihood for a distribution of its noise.

    `noise` is the link whose standard noise it has, and the location and scale of each row.
    """
    law, location, scale = noise
    nodes, share = _quadrature(law)
    entropy = ENTROPY[law]

    def reduce(S: Array, rows: slice) -> Array:
        if link == "softmax":  # eq. 8, with 1 + Σ_{k≠y} e^{s_k - s_y} = 1/p
            inverse = np.exp(-label_log_probability(S, codes[rows]) - location[rows])
            return np.asarray(1.0 - location[rows] - inverse)
        out = np.empty(S.shape[0])
        q = location[rows], scale[rows]
        bound_of_rows(LINKS[link], S, codes[rows], *q, nodes, share, entropy, out)
        return out

    return np.concatenate(list(chunked(weights, X, reduce, n_jobs)))


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
        The code of each row's class: its index among the model's classes.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows in all means.
    n_jobs : int
        Threads.
    link : {"softmax", "probit", "logistic"}
        How scores become probabilities.

    Returns
    -------
    dict
        ``log_loss``, the mean of ``-log p(y)`` in nats; ``error``; ``top_5_error``, the fraction of
        rows whose class is not among the five likeliest; ``calibration_error``, the mean
        absolute difference between the probability of the likeliest class and its accuracy, over 15
        bins of that probability.
    """
    n = codes.size
    found = scan(weights, X, 5, n_jobs)
    best = found.codes[:, 0]
    pairs = np.repeat(np.arange(n), 2), np.column_stack([codes, best]).ravel()
    log_p = log_probabilities_of_pairs(weights, X, pairs, link, n_jobs, found.log_normaliser)
    loss, confidence = -log_p[::2], np.exp(log_p[1::2])
    own = label_scores(weights, X, np.arange(n), codes)
    fifth = found.scores[:, -1]
    tied = own >= fifth - _ROUNDING * np.maximum(1.0, np.abs(fifth))
    top_5 = (found.codes == codes[:, None]).any(axis=1) | tied
    right = best == codes
    weight = np.full(n, 1.0 / n) if sample_weight is None else sample_weight / sample_weight.sum()
    return {
        "log_loss": float(weight @ loss),
        "error": float(weight @ ~right),
        "top_5_error": float(weight @ ~top_5),
        "calibration_error": calibration_error(confidence, right, weight),
    }


def evaluate_labels(
    weights: Weights,
    X: Any,
    Y: Any,
    sample_weight: Array,
    n_jobs: int = 1,
    link: str = "softmax",
    label_counts: Array | None = None,
) -> dict[str, float]:
    """Measure a softmax model on rows with several labels; parameters as in `evaluate`.

    Y is a CSR array of bool of shape (n_rows, n_classes), with at least one label in each row.
    `label_counts` are the training rows that have each label, then all of them.

    Returns
    -------
    dict
        ``log_loss``, the mean over a row's labels of ``-log p`` in nats; ``precision_at_k``, the
        number of labels of the row among the k likeliest classes, divided by k; ``ndcg_at_k``, the
        sum of ``1 / log2(1 + rank)`` over these labels, divided by its maximum for the row;
        with `label_counts` also ``propensity_scored_precision_at_k``. For labels that are questions
        of their own ``calibration_error`` of the five likeliest, and ``log_loss`` is the sum over
        all labels.
    """
    n_labels = np.diff(Y.indptr)
    row_of = np.repeat(np.arange(n_labels.size), n_labels)
    found = scan(weights, X, _DEPTHS[-1], n_jobs)
    if weights.calibration is not None:
        loss = losses_of_labels(weights, X, Y)
    else:
        pairs = row_of, Y.indices
        log_p = log_probabilities_of_pairs(weights, X, pairs, link, n_jobs, found.log_normaliser)
        loss = -np.bincount(row_of, log_p) / n_labels
    hits = Y[np.arange(n_labels.size)[:, None], found.codes].toarray()
    depth = hits.shape[1]
    weight = sample_weight / sample_weight.sum()
    precision = {f"precision_at_{k}": float(weight @ hits[:, :k].sum(axis=1)) / k for k in _DEPTHS}
    ndcg = {f"ndcg_at_{k}": float(weight @ ndcg_of_rows(hits, n_labels, k)) for k in _DEPTHS}
    measured = {"log_loss": float(weight @ loss)} | precision | ndcg
    if weights.calibration is not None:
        confidence = expit(log_odds(found.scores, weights.calibration))
        each = np.repeat(weight / depth, depth)
        measured["calibration_error"] = calibration_error(confidence.ravel(), hits.ravel(), each)
    if label_counts is not None:
        value = 1.0 / propensities(label_counts[:-1], int(label_counts[-1]))
        best = np.zeros(hits.shape)  # the values of the row's labels, the largest first
        order = np.lexsort((-value[Y.indices], row_of))
        rank = np.arange(row_of.size) - Y.indptr[row_of]
        kept = rank < depth
        best[row_of[kept], rank[kept]] = value[Y.indices[order]][kept]
        gained = hits * value[found.codes]
        measured |= {
            f"propensity_scored_precision_at_{k}": float(
                (weight @ gained[:, :k].sum(axis=1)) / (weight @ best[:, :k].sum(axis=1))
            )
            for k in _DEPTHS
        }
    return measured


def ndcg_of_rows(hits: Array, n_labels: Array, k: int) -> Array:
    """Return nDCG at k of each row.

    `hits` says whether each of the row's best classes, best first, is among its `n_labels` labels.

    Examples
    --------
    >>> ndcg_of_rows(np.array([[True, False], [False, True]]), np.array([1, 2]), 2).round(2)
    array([1.  , 0.39])
    """
    gains = 1.0 / np.log2(1.0 + np.arange(1, k + 1))
    ideal = np.cumsum(gains)[np.minimum(k, np.maximum(n_labels, 1)) - 1]
    shown = hits[:, :k]
    return np.asarray(shown @ gains[: shown.shape[1]] / ideal)


def propensities(counts: Array, n_rows: int) -> Array:
    """Return how likely a label that applies to a row is to be among its labels.

    The model of Jain, Prabhu and Varma (2016), with their constants 0.55 and 1.5.

    Examples
    --------
    >>> propensities(np.array([1, 1000]), 10_000).round(3).tolist()
    [0.109, 0.767]
    """
    a, b = 0.55, 1.5
    c = max(np.log(n_rows) - 1.0, 0.0) * (b + 1.0) ** a  # of two rows no label is known to be rare
    return np.asarray(1.0 / (1.0 + c * (counts + b) ** -a))


def calibration_error(confidence: Array, right: Array, weight: Array) -> float:
    """Return the mean difference of confidence and accuracy, over bins of confidence."""
    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weight * (right - confidence), minlength=_CALIBRATION_BINS)
    return float(np.abs(gaps).sum())


def losses_of_labels(weights: Weights, X: Any, Y: Any) -> Array:
    """Return, for each row, the sum of ``-log p`` over all labels, each a question of its own."""
    calibration = weights.calibration
    assert calibration is not None
    n_labels = np.diff(Y.indptr)
    row_of = np.repeat(np.arange(n_labels.size), n_labels)
    if sp.issparse(weights.W):
        loss = softplus_sums(weights, X)
    else:
        sums = chunked(
            weights, X, lambda S, _: np.logaddexp(0.0, log_odds(S, calibration)).sum(axis=1)
        )
        loss = np.concatenate(list(sums))
    # log σ(z) - log σ(-z) = z
    own = log_odds(label_scores(weights, X, row_of, Y.indices), calibration)
    return loss - np.bincount(row_of, own, minlength=n_labels.size)
