"""
No learning rate to tune
========================

Stochastic gradient descent works for some learning rates and diverges for others. An implicit step
uses the gradient where the step *ends*: it cannot overshoot, so that rates a thousand times too
large do little harm. And ``learning_rate="auto"``, the default, finds a rate by itself.

The squared loss shows it best, because its gradients grow without bound.
"""

import matplotlib.pyplot as plt
import numpy as np

from monro import LinearRegressor
from monro.errors import DivergenceError

rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 30))
y = X @ rng.normal(size=30) + rng.normal(size=20_000)
train, test = slice(10_000), slice(10_000, None)


def test_error(solver, rate):
    """Return the mean squared error on test rows; that of the noise is 1."""
    model = LinearRegressor(solver=solver, learning_rate=rate, alpha=1e-4, random_state=0)
    try:
        predicted = model.fit(X[train], y[train]).predict(X[test])
    except DivergenceError:
        return np.nan
    return ((predicted - y[test]) ** 2).mean()


# %%
# A solver that diverges raises ``DivergenceError``: such rates are crosses at the top.

rates = 10.0 ** np.arange(-4, 5)
for solver, marker in [("sgd", "o"), ("implicit", "s"), ("aisgd", "^")]:
    errors = np.array([test_error(solver, rate) for rate in rates])
    (line,) = plt.loglog(rates, errors, marker=marker, label=solver)
    lost = np.isnan(errors)
    plt.loglog(rates[lost], np.full(lost.sum(), 40.0), "x", color=line.get_color())
plt.axhline(test_error("aisgd", "auto"), color="black", linestyle=":", label="aisgd, auto")
plt.xlabel("learning rate of the first step")
plt.ylabel("mean squared error on test rows")
plt.ylim(0.8, 60)
plt.legend(loc="center left")
plt.show()
