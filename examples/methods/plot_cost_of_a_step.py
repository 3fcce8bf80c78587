"""
The cost of a step
==================

The full softmax touches every class at every step. A step of the implicit solver touches sixteen,
however many there are; only the time to fetch weights that do not fit into the caches grows. The
times were measured while this page was built: they show the trend, not exact figures.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from monro import SoftmaxClassifier

rng = np.random.default_rng(0)
ROWS = 20_000
FEATURES = 100
X = sp.random(ROWS, FEATURES, density=0.1, format="csr", dtype=np.float32, random_state=0)


def microseconds(solver, n_classes, **options):
    """Return the time of a step in the fastest epoch of a fit, except the first."""
    y = rng.integers(n_classes, size=ROWS)
    model = SoftmaxClassifier(
        solver=solver,
        classes=range(n_classes),
        alpha=0.0,
        learning_rate=0.1,
        max_epochs=8,
        random_state=0,
        **options,
    )
    seconds = [record["seconds"] for record in model.fit(X, y).history_]
    return np.diff(seconds).min() / ROWS * 1e6


# %%

sizes = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
blocks = [microseconds("implicit", k, sampling="block", classes_per_step=16) for k in sizes]
full = [microseconds("exact", k) for k in sizes[:4]]
plt.loglog(sizes, blocks, marker="o", label="implicit, sixteen classes per step")
plt.loglog(sizes[:4], full, marker="s", label="exact, all classes")
plt.xlabel("classes")
plt.ylabel("microseconds per step")
plt.legend()
plt.show()
