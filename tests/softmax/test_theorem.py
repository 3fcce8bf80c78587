"""U-max with the constants of its theorem (paper 000, Lemmas 1, 2 and 4, Theorem 1)."""

import numpy as np
import pytest

from monro import SoftmaxClassifier
from tests.marks import thorough
from tests.messages import message
from tests.softmax.data import make_data

K, ALPHA = 4, 2.0
THEOREM = {
    "solver": "umax", "sampling": "uniform", "fit_intercept": False, "alpha": ALPHA,
    "radius": "paper", "learning_rate": "paper", "init": "paper", "dtype": "float64",
    "random_state": 0,
}  # fmt: skip


def short_rows(n=25):
    X, y = make_data(n=n, d=3, n_classes=K)
    return X / (2 * np.linalg.norm(X, axis=1).max()), y


def constants(X, y, alpha, delta, m=1):
    """B_W, B_u, B_f and the rate as printed, of the sum of the losses, with μ = N alpha."""
    N, mu = len(y), len(y) * alpha
    B_x = np.linalg.norm(X, axis=1).max()
    B_W = np.sqrt(2 / mu * N * np.log(K))
    B_u = np.log(1 + (K - 1) * np.exp(2 * B_x * B_W))
    n = np.bincount(y, minlength=K)
    beta = N / (n + (N - n) * m / (K - 1))
    ridge = (m + 1) * mu * beta.max() * B_W
    B_f = N * max(1, np.exp(B_u) - 1) + 2 * N * np.exp(B_u) * B_x + ridge
    return B_W, B_u, B_f, delta**2 / (4 * B_f**2), mu * beta


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("delta", [0.5, 1.0])
def test_the_rate_is_that_of_the_theorem(m, delta):
    X, y = short_rows()
    model = SoftmaxClassifier(**THEOREM, classes_per_step=m, delta=delta, max_epochs=1).fit(X, y)
    B_W, _, _, rate, _ = constants(X, y, ALPHA, delta, m)
    assert model.plan_["radius"] == pytest.approx(B_W)
    assert model.learning_rate_ == pytest.approx(len(y) * rate)  # ours is that of the mean loss


def test_at_this_rate_no_step_is_worse_than_that_of_sgd_and_none_leaves_the_bounds():
    """The inequality in the proof of Theorem 1, and Lemma 4, from states all over the bounds."""
    X, y = short_rows()
    N, delta, rng = len(y), 0.3, np.random.default_rng(0)
    B_W, B_u, B_f, _, ridge = constants(X, y, ALPHA, delta)
    model = SoftmaxClassifier(**THEOREM, delta=delta, max_epochs=1).fit(X, y)
    rate = model.learning_rate_ / N

    def f(u, W):
        z = X @ W.T
        z -= z[np.arange(N), y][:, None]
        return (u + np.exp(z - u[:, None]).sum(axis=1)).sum() + (N * ALPHA / 2 * (W**2).sum())

    def gradient(u, W, i, k):
        e = (K - 1) * np.exp(X[i] @ (W[k] - W[y[i]]) - u[i])
        g = np.zeros_like(W)
        g[k] = N * e * X[i] + ridge[k] * W[k]
        g[y[i]] = -N * e * X[i] + ridge[y[i]] * W[y[i]]
        return N * (1 - np.exp(-u[i]) - e), g

    raised = 0
    for _ in range(300):
        W = rng.standard_normal((K, 3))
        W *= B_W * rng.random((K, 1)) ** 0.2 / np.linalg.norm(W, axis=1, keepdims=True)
        u = B_u * rng.random(N) ** 3
        i = rng.integers(N)
        k = rng.choice(np.delete(np.arange(K), y[i]))
        threshold = np.log1p(np.exp(X[i] @ (W[k] - W[y[i]])))
        after = []
        for start in (u[i], threshold if u[i] < threshold - delta else u[i]):
            v = u.copy()
            v[i] = start
            slope, g = gradient(v, W, i, k)
            assert np.sqrt(slope**2 + (g**2).sum()) <= B_f
            v[i] -= rate * slope
            after.append(f(v, W - rate * g))
        raised += u[i] < threshold - delta
        assert after[1] <= after[0] * (1 + 1e-12)
    assert raised > 10


def test_the_weights_and_local_variables_of_a_fit_stay_within_the_bounds():
    X, y = short_rows()
    B_W, B_u, _, rate, _ = constants(X, y, ALPHA, 1.0)
    model = SoftmaxClassifier(**THEOREM, max_epochs=1, warm_start=True)
    for epochs in (1, 20):
        model.set_params(max_epochs=epochs).fit(X, y)
        assert np.linalg.norm(model.coef_, axis=1).max() <= B_W
        _, u = model._fitted.local
        assert u.min() >= 0
        assert u.max() <= B_u
        assert max(record["rate"] for record in model.history_) <= len(y) * rate * (1 + 1e-12)


def test_algorithm_1_starts_at_log_k():
    """So far below the theorem's rate that nothing moves; the authors' code starts at 0."""
    X, y = short_rows()
    for init, start in (("paper", np.log(K)), ("zero", 0.0)):
        settings = THEOREM | {"init": init, "learning_rate": 1e-12}
        model = SoftmaxClassifier(**settings, max_epochs=1, warm_start=True).fit(X, y)
        np.testing.assert_allclose(model._fitted.local[1], start, atol=1e-9)
        np.testing.assert_allclose(model.coef_, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"solver": "implicit", "radius": None}, "is for 'umax'"),
        ({"solver": "vanilla", "radius": None}, "is for 'umax'"),
        ({"radius": None}, "needs a radius"),
        ({"fit_intercept": True}, "needs fit_intercept=False"),
        ({"sampling": "block"}, "needs sampling='uniform'"),
        ({"sampling": "auto"}, "needs sampling='uniform'"),
        ({"formulation": "raman"}, "needs formulation='difference'"),
        ({"examples_per_step": 2}, "needs one example per step"),
        ({"radius": 1e4}, "changes no weight"),
    ],
)
def test_where_the_theorem_does_not_hold_the_rate_is_refused(changed, what):
    X, y = short_rows()
    text = message(ValueError, SoftmaxClassifier(**THEOREM | changed).fit, X, y)
    assert what in text


@thorough
def test_the_rate_depends_on_the_number_of_rows():
    X, y = short_rows()
    text = message(ValueError, SoftmaxClassifier(**THEOREM).partial_fit, X, y)
    assert "for partial_fit give a number" in text
