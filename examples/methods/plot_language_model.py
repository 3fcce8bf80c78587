"""
A language model of a text of one's own
=======================================

Which word comes next? The features are the words before it: the last one, the last two together,
and so on. Each context that occurs in the text is a column of its own, so there are tens of
thousands of columns and thousands of classes. But few words ever follow a given context, so weights
of observed pairs are few.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from monro import SoftmaxClassifier
from monro.data.embedded import tokens

text = [token.lower() for token in tokens()]  # or: open("text.txt").read().split()
words, ids = np.unique(text, return_inverse=True)
cut = ids.size * 9 // 10  # the rest is for judging

# %%
# The context of n words is that of n - 1 words and the word before them. Contexts of the last tenth
# that never occur before have no column: such rows know shorter contexts only.


def contexts(longest):
    """Return a matrix with a row for each word and a column for each context."""
    columns, first, context = [], 0, np.zeros(ids.size, np.int64)
    for n in range(1, longest + 1):
        before = np.concatenate([np.full(n, words.size), ids[:-n]])
        _, context = np.unique(context * (words.size + 1) + before, return_inverse=True)
        columns.append(first + context)
        first += context.max() + 1
    indices = np.column_stack(columns).ravel()
    pointers = np.arange(0, indices.size + 1, longest)
    return sp.csr_matrix((np.ones(indices.size, np.float32), indices, pointers))


perplexities, models = [], []
for longest in (1, 2, 3, 4):
    X = contexts(longest)
    model = SoftmaxClassifier(weights="observed", classes=range(words.size), random_state=0)
    models.append(model.fit(X[:cut], ids[:cut]))
    perplexities.append(np.exp(model.log_loss(X[cut:], ids[cut:])))
    print(f"{longest} words: {model.plan_['pairs']:,} weights, perplexity {perplexities[-1]:.0f}")

# %%
# How much does a longer memory help? The first bar knows the frequencies of the words only.

counts = np.bincount(ids[:cut], minlength=words.size) + 0.5
without = np.exp(-np.log(counts / counts.sum())[ids[cut:]].mean())
fig, ax = plt.subplots(figsize=(6, 3))
bars = ax.bar(["none", "1 word", "2 words", "3 words", "4 words"], [without, *perplexities])
ax.bar_label(bars, fmt="%.0f")
ax.set_xlabel("words before")
ax.set_ylabel("perplexity of the last tenth")
fig.tight_layout()

# %%
# The words that surprised the model most, with the words before them.

surprise = [
    -model.predict_log_proba(X[k : k + 100])[np.arange(min(100, ids.size - k)), ids[k : k + 100]]
    for k in range(cut, ids.size, 100)
]
for k in cut + np.argsort(-np.concatenate(surprise))[:5]:
    print(" ".join(text[k - 6 : k]), "→", text[k])
