"""
Six solvers, one objective
==========================

All solvers of ``LinearClassifier`` minimise the same function. The plot shows how far each is above
the minimum after every epoch, compared with scikit-learn's ``SGDClassifier`` on the same objective.

With a callback, a linear model computes the exact objective after each epoch. There is no intercept
here: it has no ridge, and all solvers learn it more slowly than the weights.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier

from monro import LinearClassifier
from monro.data.embedded import capitals

X, y, _ = capitals()
ALPHA = 1e-5
EPOCHS = 15


class Monitor:
    """A callback that does nothing: with a callback, the history has the objective.

    It is of some rows after each epoch, and exact after the last one.
    """

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass


def objective(solver, epochs):
    model = LinearClassifier(
        loss="log",
        solver=solver,
        alpha=ALPHA,
        max_epochs=epochs,
        fit_intercept=False,
        random_state=0,
    )
    model.set_callbacks(Monitor()).fit(X, y)
    return model.history_[-1]["objective"]


best = objective("dual", epochs=50)

# %%
# The dual solver, which "auto" chooses for such data, has a variable for each example and converges
# linearly. Averages (``asgd``, ``aisgd``) reduce the noise of single steps.

for solver in ("dual", "sgd", "asgd", "implicit", "aisgd", "sgdqn"):
    ours = [objective(solver, epochs) / best - 1 for epochs in range(1, EPOCHS + 1)]
    plt.semilogy(np.arange(1, EPOCHS + 1), ours, marker=".", label=solver)

theirs = []
for epochs in range(1, EPOCHS + 1):
    peer = SGDClassifier(
        loss="log_loss",
        alpha=ALPHA,
        max_iter=epochs,
        tol=None,
        fit_intercept=False,
        random_state=0,
    )
    margin = np.where(y, 1, -1) * peer.fit(X, y).decision_function(X)
    loss = np.logaddexp(0, -margin).mean()
    theirs.append((loss + ALPHA / 2 * (peer.coef_**2).sum()) / best - 1)
plt.semilogy(np.arange(1, EPOCHS + 1), theirs, color="black", linestyle=":", label="SGDClassifier")
plt.xlabel("epochs")
plt.ylabel("objective above its minimum, relative")
plt.ylim(bottom=1e-6)
plt.legend(ncol=2)
plt.show()
