"""Steps of augment and reduce, and of what it is compared with, against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

from monro.rows import as_rows
from monro.softmax.kernel.sweep import DrawnClasses
from monro.softmax.sampling.samplers import StratifiedClasses
from monro.variational.adaptive import (
    RESCALE_EVERY,
    ClassSteps,
    growth_and_decay,
    link_classes,
    move_all,
    move_classes,
    rate_of_step,
    rescale_squares,
)
from monro.variational.augment_reduce import (
    BatchGradient,
    add_gradient,
    make_model,
    make_printed_model,
    new_augment_reduce_state,
)
from monro.variational.posterior import PointEstimate
from tests.marks import thorough
from tests.variational.helpers import by_link, take_batch


def hazard(link, t):
    if link == "logistic":
        return special.expit(-t)
    return np.sqrt(2 / np.pi) / special.erfcx(-t / np.sqrt(2))


@by_link
@pytest.mark.parametrize("form", [np.asarray, pytest.param(sp.csr_matrix, marks=thorough)])
def test_a_step_is_that_of_the_paper(link, form):
    """Algorithms 1 and 2, written out."""
    rng = np.random.default_rng(0)
    N, D, K, B, m, visits, t = 12, 3, 6, 5, 2, 3, 7
    X, y = rng.standard_normal((N, D)), rng.integers(K, size=N).astype(np.int32)
    W, b = rng.standard_normal((K, D)), rng.standard_normal(K)
    weight = rng.random(N)
    batch = rng.permutation(N)[:B]
    drawn = StratifiedClasses(K, m, K, "float64").draw(batch, y[batch], rng)
    model = make_printed_model(link)
    noise = model.draw(B, rng)
    memory = new_augment_reduce_state(model, N, b.size, W, b)
    memory.location[:] = rng.random(N) + 1.0
    memory.scale[:] = rng.standard_normal(N)
    memory.squares[:] = rng.random((K, D))
    location, scale, squares = (part.copy() for part in memory[:3])

    G, g_b = np.zeros((K, D)), np.zeros(K)
    a = (1 + visits) ** -0.9
    for p, i in enumerate(batch):
        k = drawn.chosen[p]
        c = np.exp(drawn.log_weight[p])
        z = X[i] @ W[k].T + b[k] - X[i] @ W[y[i]] - b[y[i]]
        if link == "softmax":
            location[i] = (1 - a) * location[i] + a * (1 + (c * np.exp(z)).sum())
            g = c * np.exp(z) / location[i]
        else:
            sigma = np.log1p(np.exp(scale[i]))
            e = location[i] + sigma * noise[p, 0]
            slope = -e if link == "probit" else -np.tanh(e / 2)
            rise = slope + (c * hazard(link, e - z)).sum()
            location[i] += 0.01 * a * rise
            scale[i] += 0.01 * a * (rise * noise[p, 0] + 1 / sigma) * special.expit(scale[i])
            e = location[i] + np.log1p(np.exp(scale[i])) * noise[p, 1]
            g = c * hazard(link, e - z)
        g *= N / B * weight[i]
        np.subtract.at(G, k, g[:, None] * X[i])
        np.subtract.at(g_b, k, g)
        G[y[i]] += g.sum() * X[i]
        g_b[y[i]] += g.sum()
    rho = 0.02 * 0.9 ** (t // 2000) / np.sqrt(t)
    G -= 0.5 * W
    squares = 0.1 * G**2 + 0.9 * squares
    expected = W + rho * G / (1 + np.sqrt(squares))

    gradient = BatchGradient(np.zeros((K, D)), np.zeros(K))
    take_batch(
        model, as_rows(form(X)), y, weight, batch, drawn, noise, visits, W, b, memory,
        gradient, PointEstimate(), np.empty(m),
    )  # fmt: skip
    np.testing.assert_allclose(gradient.bias, g_b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(memory.location, location, rtol=1e-9)
    np.testing.assert_allclose(memory.scale, scale, rtol=1e-9)
    move_all(
        W.reshape(-1), gradient.W.reshape(-1), memory.squares.reshape(-1), rate_of_step(0.02, t),
        False, 0.5,
    )  # fmt: skip
    np.testing.assert_allclose(W, expected, rtol=1e-9)
    np.testing.assert_allclose(memory.squares, squares, rtol=1e-9)
    assert (gradient.W == 0.0).all()


def test_a_natural_step_of_the_logistic_link_averages_unbiased_estimates_of_eta():
    """Expectations under q = Gumbel(log η) by its quantiles; slopes by differences."""
    z, c = np.array([0.5, 1.0]), np.array([20.0, 30.0])
    eta, visits = 70.0, 2
    share = (np.arange(200_000) + 0.5) / 200_000

    def f(t):
        return t + 2 * special.log_expit(-t) + special.log_expit(t[:, None] - z) @ c

    def noise(eta):
        return np.log(eta) - np.log(-np.log(share))

    model = make_model("logistic")
    memory = new_augment_reduce_state(model, 1, 3, np.zeros((3, 0)), np.zeros(3))
    memory.location[:] = eta
    drawn = DrawnClasses(np.array([[0, 1]], np.int32), np.log(c)[None])
    gradient = BatchGradient(np.zeros((3, 0)), np.zeros(3))
    bound = take_batch(
        model, as_rows(np.empty((1, 0))), np.array([2], np.int32), np.ones(1), np.array([0]),
        drawn, np.zeros((1, 2)), visits, np.zeros((3, 0)), np.append(z, 0.0), memory, gradient,
        PointEstimate(), np.empty(2),
    )  # fmt: skip
    a, h, t = (1 + visits) ** -0.9, 1e-4, noise(eta)
    new = eta * (1 + a * ((f(t + h) - f(t - h)) / (2 * h)).mean())
    assert memory.location[0] == pytest.approx(new, rel=1e-3)
    assert bound == pytest.approx(f(t).mean() + 1 + np.euler_gamma, rel=1e-3)
    g = (c * special.expit(z - noise(new)[:, None])).mean(axis=0)
    np.testing.assert_allclose(gradient.bias, [*-g, g.sum()], rtol=1e-3)


def test_a_natural_step_is_newtons_on_average():
    """P and μ for the curvature and slope of the integrand's logarithm, by differences."""
    link = "probit"
    z, c = np.array([0.5, -1.0]), np.array([2.0, 3.0])
    mu, precision, first, second, visits = 0.3, 1.7, -0.4, 0.8, 2

    def f(t):
        return -(t**2) / 2 + c @ special.log_ndtr(t - z)

    model = make_model(link)
    memory = new_augment_reduce_state(model, 1, 3, np.zeros((3, 0)), np.zeros(3))
    memory.location[:], memory.scale[:] = mu, precision
    drawn = DrawnClasses(np.array([[0, 1]], np.int32), np.log(c)[None])
    gradient = BatchGradient(np.zeros((3, 0)), np.zeros(3))
    take_batch(
        model, as_rows(np.empty((1, 0))), np.array([2], np.int32), np.ones(1), np.array([0]),
        drawn, np.array([[first, second]]), visits, np.zeros((3, 0)), np.append(z, 0.0), memory,
        gradient, PointEstimate(), np.empty(2),
    )  # fmt: skip
    a, h = (1 + visits) ** -0.9, 1e-4
    t = mu + first / np.sqrt(precision)
    new_precision = (1 - a) * precision - a * (f(t + h) - 2 * f(t) + f(t - h)) / h**2
    new_mu = mu + a * (f(t + h) - f(t - h)) / (2 * h) / new_precision
    assert memory.scale[0] == pytest.approx(new_precision, rel=1e-5)
    assert memory.location[0] == pytest.approx(new_mu, rel=1e-6)
    t = new_mu + second / np.sqrt(new_precision)
    g = c * hazard(link, t - z)
    np.testing.assert_allclose(gradient.bias, [*-g, g.sum()], rtol=1e-5)


@by_link
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=thorough)])
def test_repeated_draws_and_y_itself_have_no_step(link, dtype):
    model = make_model(link)
    W, bias = np.zeros((4, 0), dtype), np.zeros(4, dtype)
    memory = new_augment_reduce_state(model, 1, bias.size, W, bias)
    drawn = DrawnClasses(np.array([[0, -1, 2]], np.int32), np.zeros((1, 3), dtype))
    gradient = BatchGradient(np.zeros_like(W), np.zeros_like(bias))
    take_batch(
        model, as_rows(np.empty((1, 0), dtype)), np.array([2], np.int32), np.ones(1, dtype),
        np.array([0]), drawn, np.zeros((1, 2)), 0, W, bias, memory, gradient, PointEstimate(),
        np.empty(3, dtype),
    )  # fmt: skip
    assert gradient.bias[1] == gradient.bias[3] == 0.0
    assert gradient.bias[2] == -gradient.bias[0] > 0.0


@pytest.mark.parametrize("form", [pytest.param(np.asarray, marks=thorough), sp.csr_matrix])
def test_lazy_steps_are_those_of_all_weights(form):
    """Over more steps than pass between two changes of the scale of the squares."""
    rng = np.random.default_rng(0)
    N, D, K, B, m = 30, 6, 9, 3, 2
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.4)
    rows, y = as_rows(form(X)), rng.integers(K, size=N).astype(np.int32)
    W, b = rng.standard_normal((K, D)), rng.standard_normal(K)
    lazy_W, lazy_b = W.copy(), b.copy()
    squares, bias_squares, lazy, bias_lazy = (np.zeros(s) for s in ((K, D), K, (K, D), K))
    lists = ClassSteps(np.empty(K, int), np.full(K, -1), np.empty(B * (m + 1), int))
    scratch, stamp = np.zeros(D), np.zeros(D + 1, int)
    for t in range(1, 2 * RESCALE_EVERY + 10):
        batch = rng.permutation(N)[:B]
        chosen = rng.integers(-1, K, size=(B, m)).astype(np.int32)
        g = rng.standard_normal((B, m + 1))
        rho = rate_of_step(0.5, t)

        gradient = BatchGradient(np.zeros((K, D)), np.zeros(K))
        add_gradient(rows, y, batch, chosen, np.where(np.c_[chosen, batch] < 0, 0, g), gradient)
        parts = W.reshape(-1), gradient.W.reshape(-1), squares.reshape(-1)
        move_all(*parts, rho, t == 1, 0.0)
        move_all(b, gradient.bias, bias_squares, rho, t == 1, 0.0)

        rescale_squares(lazy, t)
        rescale_squares(bias_lazy, t)
        n = link_classes(y, batch, chosen, lists)
        for part in ((0, n // 2), (n // 2, n)):
            move_classes(
                rows, batch, g, lists, *part, lazy_W, lazy_b, lazy, bias_lazy, scratch, stamp, rho,
                *growth_and_decay(t),
            )  # fmt: skip
        assert not scratch.any()
        assert (lists.head == -1).all()
    np.testing.assert_allclose(lazy_W, W, rtol=1e-9)
    touched = bias_squares > 1e-12 * bias_squares.max()  # others: 0 to rounding
    np.testing.assert_allclose(
        (growth_and_decay(t)[1] * bias_lazy)[touched], bias_squares[touched], rtol=1e-8
    )
    np.testing.assert_allclose(lazy_b, b, rtol=1e-9)


@pytest.mark.parametrize("gamma", [-39.9, -40.1, -1000.0])
def test_a_printed_step_survives_a_scale_that_underflows(gamma):
    """σ → 0: the gradient of the entropy in γ is σ'/σ → 1, and log σ → γ."""
    model = make_printed_model("probit")
    memory = new_augment_reduce_state(model, 1, 2, np.zeros((2, 0)), np.zeros(2))
    memory.location[:], memory.scale[:] = 0.5, gamma
    drawn = DrawnClasses(np.array([[0]], np.int32), np.zeros((1, 1)))
    gradient = BatchGradient(np.zeros((2, 0)), np.zeros(2))
    bound = take_batch(
        model, as_rows(np.empty((1, 0))), np.array([1], np.int32), np.ones(1), np.array([0]),
        drawn, np.array([[1.0, 0.0]]), 0, np.zeros((2, 0)), np.zeros(2), memory, gradient,
        PointEstimate(), np.empty(1),
    )  # fmt: skip
    entropy = np.log(2 * np.pi * np.e) / 2 + gamma
    log_density = -(0.5**2) / 2 - np.log(2 * np.pi) / 2
    assert bound == pytest.approx(log_density + special.log_ndtr(0.5) + entropy, rel=1e-12)
    assert memory.scale[0] == pytest.approx(gamma + 0.01, abs=1e-9)
    assert memory.location[0] == pytest.approx(0.5 + 0.01 * (hazard("probit", 0.5) - 0.5))


def test_the_first_step_has_no_moving_average():
    w, squares = np.zeros(3), np.zeros(3)
    gradient = np.array([1.0, -4.0, 0.0])
    move_all(w, gradient.copy(), squares, 0.1, True, 0.0)
    np.testing.assert_allclose(squares, gradient**2)
    np.testing.assert_allclose(w, 0.1 * gradient / (1 + abs(gradient)))


@pytest.mark.parametrize(("n_classes", "m"), [(2, 1), (7, 3), (10, 9), (50, 7)])
def test_strata_are_unbiased(n_classes, m):
    sampler = StratifiedClasses(n_classes, m, n_classes, "float64")
    rng = np.random.default_rng(0)
    y = np.full(40_000, n_classes // 2, np.int32)
    drawn = sampler.draw(np.arange(y.size), y, rng)
    assert (np.diff(np.sort(drawn.chosen, axis=1), axis=1) > 0).all()
    assert not (drawn.chosen == y[:, None]).any()
    mean = np.bincount(drawn.chosen.ravel(), np.exp(drawn.log_weight).ravel(), n_classes) / y.size
    others = np.arange(n_classes) != n_classes // 2
    np.testing.assert_allclose(mean[others], 1.0, atol=0.06)
