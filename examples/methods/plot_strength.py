"""
How strong a penalty?
=====================

A strong penalty keeps all weights near 0, and the model learns little. A weak one lets it learn its
rows by heart. ``alpha="auto"``, the default, fits with one strength after the other, from strong to
weak, and compares them on rows that were held out. It ends when their loss clearly rises.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from monro import LinearClassifier, SoftmaxClassifier
from monro.data.embedded import capitals

X, y = load_digits(return_X_y=True)
X, new_X, y, new_y = train_test_split(X / 16, y, random_state=0)
model = SoftmaxClassifier(random_state=0).fit(X, y)

# %%
# ``alpha_path_`` has a record for each strength: the mean loss of the rows held out, its standard
# error, and how many weights are not zero. The strength chosen, ``alpha_``, lies between two of
# them, at the least loss of a spline.


def column(model, name):
    """Return a value of each strength of the path."""
    return np.array([record[name] for record in model.alpha_path_])


def show_path(ax, model):
    """Draw the loss of the rows held out, and the strength chosen."""
    alpha, mean, error = (column(model, name) for name in ("alpha", "mean", "standard_error"))
    ax.fill_between(alpha, mean - error, mean + error, alpha=0.25, linewidth=0)
    ax.plot(alpha, mean, marker="o", label="rows held out, ± standard error")
    ax.axvline(model.alpha_, color="grey", linestyle=":")
    ax.annotate(
        f"chosen: {model.alpha_:.1e}",
        (model.alpha_, 1.0),
        xytext=(-6, -4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right",
        va="top",
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.invert_xaxis()  # in the order of the fits
    ax.set_ylabel("log-loss")


# %%
# The fits of the path are short, and each sees four fifths of the rows. Do they judge strengths as
# whole fits do? The crosses are whole fits with each strength, in the units of scaled columns, as
# those of the path; their loss is that of a quarter of the digits, which no fit has seen.

alpha = column(model, "alpha")
whole = [
    SoftmaxClassifier(alpha=a, scale=True, random_state=0).fit(X, y).log_loss(new_X, new_y)
    for a in alpha
]

fig, ax = plt.subplots()
show_path(ax, model)
ax.plot(alpha, whole, "x", color="black", label="new rows, whole fits")
ax.set_xlabel("alpha: strong to weak")
ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93))  # below "chosen"
plt.show()

# %%
# A lasso, ``l1_ratio=1``, keeps only weights that help, and its strength decides how many. Which
# words of a text were written with a capital? The features are words, their neighbours and their
# last letters.

X, y, names = capitals()
lasso = LinearClassifier(loss="log", l1_ratio=1.0, random_state=0)
lasso.fit(X[:5_000], y[:5_000])

fig, (top, bottom) = plt.subplots(2, sharex=True, height_ratios=(3, 2), figsize=(6.5, 5.0))
show_path(top, lasso)
alpha, nonzeros = column(lasso, "alpha"), column(lasso, "nonzeros")
bottom.plot(alpha, nonzeros, marker="o", color="tab:green")
bottom.axvline(lasso.alpha_, color="grey", linestyle=":")
kept = np.count_nonzero(lasso.coef_)
bottom.plot(lasso.alpha_, kept, "*", color="black", markersize=10)
bottom.annotate(
    f"{kept:,} of {lasso.coef_.size:,}",
    (lasso.alpha_, kept),
    xytext=(8, -16),
    textcoords="offset points",
    ha="left",
)
bottom.set_yscale("log")
bottom.set_xlabel("alpha: strong to weak")
bottom.set_ylabel("weights not zero")
top.legend()
plt.show()
