"""Which rows a fit is watched by: so few that watching it takes a small part of its time.

After each epoch the loss of some rows is measured, for ``tol``, ``verbose``, callbacks and early
stopping. They are the same rows after every epoch: what one epoch has gained over another is much
less noisy than the losses themselves. Once, when the fit ends, all rows are measured.
"""

import numpy as np

from monro.rows import Array

_SEED = 0  # of the choice of rows: it takes no number from the generators of the fit


def watched_rows(n: int, most: float) -> Array:
    """Return the numbers of at most `most` of n rows, in order: all of them if they are so few.

    They are drawn at random, because labels may be in an order that evenly spread rows would miss.

    Examples
    --------
    >>> watched_rows(4, 5)
    array([0, 1, 2, 3])
    >>> watched_rows(100, 5).size
    5
    """
    if n <= most:
        return np.arange(n)
    chosen = np.random.default_rng(_SEED).choice(n, int(most), replace=False)
    return np.asarray(np.sort(chosen))
