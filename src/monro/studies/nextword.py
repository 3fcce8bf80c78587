"""The next word given the previous one: thousands of skewed classes, one feature per previous word.

The best model with these features predicts the frequencies of words after each previous word; the
best model without features predicts the frequencies of words. Both log-losses are known, so one can
measure how much of the gap between them a fit closes.
"""

import numpy as np
import scipy.sparse as sp

from monro.rows import Array
from monro.softmax.model import Weights, log_normaliser, scores


def bounds(X: sp.csr_matrix, y: Array) -> tuple[float, float]:
    """Return the log-loss of the frequencies of words, and that of the best model."""
    n, words = X.shape
    share = np.bincount(y) / n
    share = share[share > 0]
    pairs, together = np.unique(X.indices.astype(np.int64) * (y.max() + 1) + y, return_counts=True)
    alone = np.bincount(X.indices, minlength=words)
    best = -(together * np.log(together / alone[pairs // (y.max() + 1)])).sum() / n
    return float(-(share * np.log(share)).sum()), float(best)


def log_loss(weights: Weights, X: sp.csr_matrix, codes: Array) -> float:
    """Return the exact mean log-loss over all rows, with scores of each distinct row only."""
    words = X.shape[1]
    order = np.argsort(X.indices, kind="stable")
    first = np.searchsorted(X.indices[order], np.arange(words + 1))
    kinds = sp.identity(words, np.float32, format="csr")
    total = 0.0
    for start in range(0, words, 32):
        S = scores(weights, kinds[start : start + 32])
        normaliser = log_normaliser(S)
        for k in range(S.shape[0]):
            own = codes[order[first[start + k] : first[start + k + 1]]]
            total += own.size * normaliser[k] - S[k, own].sum()
    return float(total / codes.size)
