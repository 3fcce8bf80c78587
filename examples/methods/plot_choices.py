"""
Prices and choices
==================

Who travels by bus, car or train, when prices and durations differ? A conditional logit and a probit
with independent errors, their coefficients with intervals, and the effect of a cheaper train.
"""

import matplotlib.pyplot as plt
import numpy as np

from monro import ChoiceModel

rng = np.random.default_rng(0)
N = 2_000
trips = {
    "situation": np.repeat(np.arange(N), 3),
    "alternative": np.tile(["bus", "car", "train"], N),
    "price": rng.gamma(4.0, 0.25, 3 * N) * np.tile([0.5, 1.5, 1.2], N),
    "hours": rng.gamma(4.0, 0.25, 3 * N) * np.tile([1.6, 1.0, 0.8], N),
}
preference = np.tile([0.0, 0.8, 0.3], N)
utility = -1.5 * trips["price"] - trips["hours"] + preference + rng.gumbel(size=3 * N)
trips["chosen"] = utility == utility.reshape(N, 3).max(axis=1).repeat(3)

# %%
# The true coefficients are −1.5 for the price and −1 for an hour. The noise of a probit has less
# variance, and so its coefficients are smaller; the ratio, the value of an hour, is the same.

fig, ax = plt.subplots(figsize=(6.5, 3))
for shift, link in [(-0.1, "softmax"), (0.1, "probit")]:
    table = ChoiceModel(link=link).fit(trips).summary()
    positions = np.arange(len(table.name)) + shift
    half_width = table.coefficient - table.lower
    ax.errorbar(table.coefficient, positions, xerr=half_width, fmt="o", capsize=3, label=link)
ax.set_yticks(range(len(table.name)), table.name)
ax.invert_yaxis()
ax.axvline(0, color="grey", linewidth=1)
ax.set_xlabel("coefficient, 95 % interval")
ax.legend()
plt.show()

# %%
# Market shares as the price of the train changes.

model = ChoiceModel().fit(trips)
factors = np.linspace(0.3, 2.0, 12)
is_train = trips["alternative"] == "train"
shares = []
for factor in factors:
    prices = np.where(is_train, factor * trips["price"], trips["price"])
    shares.append(list(model.shares(trips | {"price": prices}).values()))
fig, ax = plt.subplots()
ax.stackplot(factors, np.transpose(shares), labels=list(model.shares(trips)), alpha=0.8)
ax.axvline(1, color="black", linestyle=":")
ax.set_xlabel("price of the train, times today's")
ax.set_ylabel("share")
ax.legend(loc="lower right")
plt.show()
