"""
No learning rate to tune
========================

Stochastic gradient descent works for some learning rates and explodes for others. An implicit step
takes the gradient where the step *ends*: it cannot overshoot, so that rates a thousand times too
large do little harm. And ``learning_rate="auto"``, the default, finds one by itself.

We ask of 64,000 words whether they were written with a capital, and give two solvers rates over
eight decades.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from monro import LinearClassifier
from monro.data.embedded import capitals
from monro.errors import DivergenceError

X, y, _ = capitals()
X, test_X, y, test_y = train_test_split(X, y, random_state=0)


def test_error(solver, rate):
    model = LinearClassifier(
        loss="log", solver=solver, learning_rate=rate, max_epochs=5, random_state=0
    )
    try:
        return 1 - model.fit(X, y).score(test_X, test_y)
    except DivergenceError:
        return np.nan


# %%
# A solver that leaves the range of numbers says so; it is drawn as a gap.

rates = 10.0 ** np.arange(-3, 6)
for solver, marker in [("sgd", "o"), ("implicit", "s")]:
    errors = [test_error(solver, rate) for rate in rates]
    plt.semilogx(rates, errors, marker=marker, label=solver)
plt.axhline(test_error("implicit", "auto"), color="black", linestyle=":", label="implicit, auto")
plt.axhline(min(y.mean(), 1 - y.mean()), color="grey", linewidth=1, label="the commoner class")
plt.xlabel("learning rate of the first step")
plt.ylabel("test error")
plt.ylim(bottom=0)
plt.legend()
plt.show()
