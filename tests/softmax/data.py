"""Data and comparisons shared by the tests of SoftmaxClassifier."""

import numpy as np
import pytest
import scipy.sparse as sp

from monro import SoftmaxClassifier
from tests.marks import thorough_unless

STREAMING = ("implicit", "umax", "vanilla", "ove", "nce", "importance", "sco", "exact")
ADAPTIVE = ("augment-reduce", "augment-reduce-printed", "ove-adaptive", "exact-adaptive")
SOLVERS = (*STREAMING, *ADAPTIVE, "lbfgs", "coordinate")
FORMS = (np.asarray, sp.csr_matrix)
FRUIT = np.array(["apple", "fig", "kiwi", "lime", "pear", "plum"])


def in_both_forms(solvers):
    """Parametrise a test by solvers and forms of rows; sparse ones are thorough but for one solver.

    All solvers see rows through the same two views, and each pair is another kernel.
    """
    return pytest.mark.parametrize(
        ("solver", "form"),
        thorough_unless(
            lambda solver, form: form is np.asarray or solver == "implicit", solvers, FORMS
        ),
    )


def make_data(n=300, d=5, n_classes=4, seed=0):
    """Noisy classes that no hyperplane separates; a fifth of the entries are 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    centres = rng.normal(size=(n_classes, d))
    y = np.argmax(X @ centres.T + rng.gumbel(size=(n, n_classes)), axis=1)
    y[:n_classes] = np.arange(n_classes)  # every class occurs
    return X, y


def many_classes(n=600, d=40, n_classes=90, seed=0):
    """Sparse rows of many classes: more than a few blocks of 16."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    centres = rng.normal(size=(n_classes, d)) * (rng.random((n_classes, d)) < 0.3)
    noise = rng.normal(scale=0.3, size=(n, d)) * (rng.random((n, d)) < 0.1)
    return centres[y] + noise, y


def parts_of(model):
    """Weights and intercepts, one row a class, from what the model shows."""
    coef, intercept = model.coef_, model.intercept_
    coef = np.asarray(coef.todense() if hasattr(coef, "todense") else coef, np.float64)
    if model.classes_.size == 2:
        return np.vstack([-coef, coef]) / 2, np.append(-intercept, intercept) / 2
    return coef, intercept.astype(np.float64)


def log_softmax(model, X):
    """Log-probabilities from the definition, in float64."""
    coef, intercept = parts_of(model)
    S = np.asarray(X, np.float64) @ coef.T + intercept
    return S - np.logaddexp.reduce(S, axis=1, keepdims=True)


def objective(model, X, y, weight=None):
    """What the model minimises: the mean log-loss and the ridge. y are numbers of classes."""
    losses = -log_softmax(model, X)[np.arange(len(y)), y]
    coef, _ = parts_of(model)
    return np.average(losses, weights=weight) + model.alpha / 2 * (coef**2).sum()


def best(X, y, weight=None, **parameters):
    """The optimum, by L-BFGS in double precision."""
    settings = {"solver": "lbfgs", "dtype": "float64", "alpha": 0.0, "max_epochs": 500} | parameters
    return SoftmaxClassifier(**settings).fit(X, y, sample_weight=weight)


def fitted(X, y, **parameters):
    """A model of a few epochs."""
    usual = {"alpha": 0.0, "random_state": 0, "max_epochs": 5}
    if parameters.get("solver") in ADAPTIVE:  # whose own are for tens of thousands of steps
        usual |= {"learning_rate": 0.5, "examples_per_step": 10}
    return SoftmaxClassifier(**usual | parameters).fit(X, y)


def assert_same_bits(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
