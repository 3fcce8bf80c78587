"""Data and comparisons shared by the tests of the linear estimators."""

import numpy as np

STREAMING = ("sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn", "asgdqn", "sgdqn-flawed")
SOLVERS = (*STREAMING, "dual")
SMOOTH_ONLY = ("coordinate",)  # take no hinge; tests of their own are in test_coordinate.py


def make_data(n=300, d=5, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    centres = rng.normal(size=(n_classes, d))
    y = np.argmax(X @ centres.T + rng.normal(size=(n, n_classes)), axis=1)
    return X, y


def objective(model, X, y, weight=None):
    """F of a fitted binary model, from its definition."""
    margin = np.where(y == model.classes_[1], 1.0, -1.0) * (X @ model.coef_[0] + model.intercept_)
    if model.loss == "log":
        losses = np.logaddexp(0.0, -margin)
    else:
        losses = np.maximum(0.0, 1.0 - margin) ** (2 if model.loss == "squared_hinge" else 1)
    return (
        np.average(losses, weights=weight) + model.alpha / 2 * (model.coef_ @ model.coef_.T)[0, 0]
    )


def assert_same_bits(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)


def assert_close(model, other, **tolerance):
    np.testing.assert_allclose(model.coef_, other.coef_, **tolerance)
    np.testing.assert_allclose(model.intercept_, other.intercept_, **tolerance)
