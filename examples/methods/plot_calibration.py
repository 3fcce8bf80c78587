"""
Are the probabilities right?
============================

When a model says 70 %, is it right in 70 % of the cases? A likelihood that is maximised on few rows
until convergence is overconfident. With the penalty that predicts held-out rows best, which the
fits choose by default, it is calibrated.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from monro import LinearClassifier, SoftmaxClassifier
from monro.data.embedded import next_words

X, y, words = next_words()
# Keep rows whose next word is one of the 200 most common.
common = np.isin(y, np.argsort(-np.bincount(y))[:200])
X, test_X, y, test_y = train_test_split(X[common], y[common], random_state=0)

models = {
    "softmax": SoftmaxClassifier(random_state=0),
    "softmax, no penalty": SoftmaxClassifier(alpha=0.0, random_state=0),
    "one-vs-rest": LinearClassifier(loss="log", random_state=0),
    "one-vs-rest, alpha=1e-5": LinearClassifier(loss="log", alpha=1e-5, random_state=0),
}

# %%
# Rows are sorted by the probability of the most likely class and split into ten parts. For each
# part: the mean probability, and how often the class was right.

fig, ax = plt.subplots(figsize=(5.5, 5.5))
ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
for name, model in models.items():
    proba = model.fit(X, y).predict_proba(test_X)
    confidence = proba.max(axis=1)
    right = model.classes_[proba.argmax(axis=1)] == test_y
    parts = np.array_split(np.argsort(confidence), 10)
    own = model.classes_.searchsorted(test_y)
    loss = -np.log(np.maximum(proba[np.arange(own.size), own], 1e-300)).mean()
    ax.plot(
        [confidence[part].mean() for part in parts],
        [right[part].mean() for part in parts],
        marker="o",
        label=f"{name}: log-loss {loss:.2f}",
    )
ax.set_xlabel("probability of the most likely class")
ax.set_ylabel("how often it was right")
ax.legend(loc="lower right")
plt.show()
