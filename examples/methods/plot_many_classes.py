"""
Thousands of classes: unbiased, and not
=======================================

Which of some 3,000 words comes next? A full softmax would touch all of them at every step. Sampled
losses touch a few classes, but minimise another function. The implicit solver touches a few classes
and maximises the likelihood.

Every curve is the exact log-loss over all classes, computed by the same code.
"""

import matplotlib.pyplot as plt
import numpy as np

from monro import SoftmaxClassifier
from monro.data.embedded import next_words

X, y, words = next_words()
print(f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {len(words):,} classes")


class LogLoss:
    """Records the exact log-loss of some rows after each epoch."""

    def setup(self, estimator, context):
        self.losses = []

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if len(self.losses) < len(estimator.history_):  # an epoch, not the end of the fit
            self.losses.append(fitted_estimator.log_loss(X[::20], y[::20]))

    def teardown(self, estimator, context):
        pass


# %%
# ``importance`` is sampled softmax, ``nce`` noise-contrastive estimation, ``ove`` the one-vs-each
# bound; each draws classes in its own way, and has an automatic rate.

names = {
    "implicit": "implicit (the default)",
    "umax": "U-max",
    "importance": "sampled softmax",
    "nce": "NCE",
    "ove": "one-vs-each",
}
for solver, name in names.items():
    monitor = LogLoss()
    model = SoftmaxClassifier(solver=solver, alpha=0.0, max_epochs=8, random_state=0)
    model.set_callbacks(monitor).fit(X, y)
    plt.plot(np.arange(1, len(monitor.losses) + 1), monitor.losses, marker=".", label=name)

frequency = np.bincount(y) / y.size
entropy = -(frequency[frequency > 0] * np.log(frequency[frequency > 0])).sum()
plt.axhline(entropy, color="grey", linewidth=1, label="frequencies of words")
plt.ylim(bottom=0)
plt.xlabel("epochs")
plt.ylabel("training log-loss, nats")
plt.legend(ncol=2, loc="lower left")
plt.show()
