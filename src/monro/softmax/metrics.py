"""Exact metrics of a softmax model."""

from typing import Any

import numpy as np
from scipy.special import expit

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
)
from monro.softmax.scan import label_scores, scan

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
    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weight * (right - confidence), minlength=_CALIBRATION_BINS)
    return {
        "log_loss": float(weight @ loss),
        "error": float(weight @ ~right),
        "top_5_error": float(weight @ ~top_5),
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
    """Measure a softmax model on rows with several labels; parameters as in `evaluate`.

    Y is a CSR array of bool of shape (n_rows, n_classes), with at least one label in each row.

    Returns
    -------
    dict
        ``log_loss``, the mean over a row's labels of ``-log p`` in nats; ``precision_at_k``, the
        number of labels of the row among the k likeliest classes, divided by k; ``ndcg_at_k``, the
        sum of ``1 / log2(1 + rank)`` over these labels, divided by its maximum for the row.
    """
    n_labels = np.diff(Y.indptr)
    row_of = np.repeat(np.arange(n_labels.size), n_labels)
    found = scan(weights, X, _DEPTHS[-1], n_jobs)
    pairs = row_of, Y.indices
    log_p = log_probabilities_of_pairs(weights, X, pairs, link, n_jobs, found.log_normaliser)
    loss = -np.bincount(row_of, log_p) / n_labels
    hits = Y[np.arange(n_labels.size)[:, None], found.codes].toarray()
    depth = hits.shape[1]
    weight = sample_weight / sample_weight.sum()
    gains = 1.0 / np.log2(1.0 + np.arange(1, _DEPTHS[-1] + 1))
    ideal = np.cumsum(gains)
    precision = {f"precision_at_{k}": float(weight @ hits[:, :k].sum(axis=1)) / k for k in _DEPTHS}
    ndcg = {
        f"ndcg_at_{k}": float(
            weight @ (hits[:, :k] @ gains[: min(k, depth)] / ideal[np.minimum(k, n_labels) - 1])
        )
        for k in _DEPTHS
    }
    return {"log_loss": float(weight @ loss)} | precision | ndcg
