"""
How confident is a tagger?
==========================

A CRF gives each word of a sentence a probability of each tag. We restore capitals: sentences are in
lower case, and the tags say which capitals each word had.
"""

import matplotlib.pyplot as plt
import numpy as np

from monro import CRFTagger
from monro.data.embedded import cased_sentences

sentences, tags = cased_sentences()
tagger = CRFTagger(random_state=0).fit(sentences[300:], tags[300:])
tagged = tagger.predict(sentences[:300])
pairs = [
    pair for own, found in zip(tags, tagged, strict=False) for pair in zip(own, found, strict=True)
]
print(f"{np.mean([a == b for a, b in pairs]):.1%} of the words in test sentences are right")

# %%
# The marginal probabilities of one sentence. Crosses mark the true tags.

which = max(range(300), key=lambda k: (len(set(tags[k])), -abs(len(tags[k]) - 14)))
words = [token[0] for token in sentences[which]]
marginals = tagger.predict_marginals([sentences[which]])[0]
names = sorted(marginals[0])
table = np.array([[token[name] for token in marginals] for name in names])

fig, ax = plt.subplots(figsize=(8, 2.8))
image = ax.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
ax.set_xticks(range(len(words)), words, rotation=60, ha="right")
ax.set_yticks(range(len(names)), names)
ax.scatter(range(len(words)), [names.index(tag) for tag in tags[which]], marker="x", color="black")
fig.colorbar(image, label="probability")
plt.show()

# %%
# The features with the largest weights for a word written in capitals:

for feature, weight in tagger.top_features("UPPER", 5):
    print(f"{weight:6.2f}  {feature}")
