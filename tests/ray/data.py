"""Small data for the tests on a cluster."""

import numpy as np
import scipy.sparse as sp


def many_classes(n=1500, K=70, d=120, seed=0):
    """Return sparse rows of skewed classes, each of which favours some of the features."""
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.zipf(1.5, n) - 1, K - 1)
    y[:K] = np.arange(K)
    likes = rng.integers(d, size=(K, 6))
    rows = np.repeat(np.arange(n), 8)
    liked = likes[y[rows], rng.integers(6, size=rows.size)]
    columns = np.where(rng.random(rows.size) < 0.6, liked, rng.integers(d, size=rows.size))
    X = sp.csr_matrix((np.ones(rows.size, np.float32), (rows, columns)), shape=(n, d))
    return X, y
