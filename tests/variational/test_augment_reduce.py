"""Augment and reduce: steps against NumPy, bounds below the likelihood, fits near its maximum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy.optimize import minimize

from monro import SoftmaxClassifier, load
from monro.integrals import log_probability
from monro.links import ENTROPY, LINKS
from monro.rows import as_rows
from monro.softmax.kernel.sweep import DrawnClasses
from monro.softmax.metrics import one_vs_each
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
    PlainModel,
    add_gradient,
    make_model,
    new_augment_reduce_state,
)
from monro.variational.posterior import PointEstimate
from tests.callbacks import killed_after
from tests.marks import thorough, thorough_unless
from tests.softmax.data import assert_same_bits, make_data, parts_of
from tests.variational.helpers import take_batch

PROPERTY = settings(deadline=None, derandomize=True, max_examples=50)
by_link = pytest.mark.parametrize("link", thorough_unless(lambda link: link != "logistic", LINKS))
by_link_but_softmax = pytest.mark.parametrize(
    "link", ["probit", pytest.param("logistic", marks=thorough)]
)


def hazard(link, t):
    if link == "logistic":
        return special.expit(-t)
    return np.sqrt(2 / np.pi) / special.erfcx(-t / np.sqrt(2))


def plain_model(link):
    """The paper's own local steps."""
    return make_model(link) if link == "softmax" else PlainModel(LINKS[link], ENTROPY[link])


# ---------------------------------------------------------------------------------------- one step


@pytest.mark.parametrize("link", LINKS)
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
    model = plain_model(link)
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


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
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


@pytest.mark.parametrize("link", thorough_unless(lambda link: link == "softmax", LINKS))
def test_threads_change_no_bit_of_the_weights(link):
    rng = np.random.default_rng(0)
    X = sp.random(600, 400, 0.02, format="csr", random_state=0)
    y = rng.integers(200, size=600)
    models = [
        SoftmaxClassifier(
            solver="augment-reduce",
            link=link,
            examples_per_step=20,
            classes_per_step=5,
            max_epochs=3,
            n_jobs=jobs,
            random_state=0,
        ).fit(X, y)
        for jobs in (1, 3)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].intercept_, models[1].intercept_)


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


# ------------------------------------------------------------------------------------------ bounds


def bound_of(link, z, location, scale, noise):
    """Return the solver's estimate of an example's bound, with all classes drawn and no step."""
    K = z.size + 1
    model = plain_model(link)
    memory = new_augment_reduce_state(model, 1, K, np.zeros((K, 1)), np.zeros(K))
    memory.location[:], memory.scale[:] = location, scale
    bias = np.append(z, 0.0)
    drawn = DrawnClasses(np.arange(K - 1, dtype=np.int32)[None], np.zeros((1, K - 1)))
    gradient = BatchGradient(np.zeros((K, 1)), np.zeros(K))
    y = np.array([K - 1], np.int32)
    visits = 10**9  # so many that the local step is negligible
    return take_batch(
        model, as_rows(np.zeros((1, 1))), y, np.ones(1), np.array([0]), drawn,
        np.array([[noise, 0.0]]), visits, np.zeros((K, 1)), bias, memory, gradient, PointEstimate(),
        np.empty(K - 1),
    )  # fmt: skip


@given(
    z=st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=8).map(np.array),
    eta=st.floats(0.1, 100.0),
)
@PROPERTY
def test_the_bound_of_the_softmax_touches_at_the_best_eta(z, eta):
    likelihood = -np.logaddexp(0.0, special.logsumexp(z))
    assert bound_of("softmax", z, eta, 0.0, 0.0) <= likelihood + 1e-9
    best = 1.0 + np.exp(z).sum()
    assert bound_of("softmax", z, best, 0.0, 0.0) == pytest.approx(likelihood, abs=1e-9)


@by_link_but_softmax
@given(
    z=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=5).map(np.array),
    location=st.floats(-2.0, 3.0),
    scale=st.floats(-1.0, 2.0),
)
@PROPERTY
def test_the_mean_bound_is_below_the_likelihood(link, z, location, scale):
    """The mean over the noise, by the quantiles of its law."""
    share = (np.arange(400) + 0.5) / 400
    points = special.ndtri(share) if link == "probit" else special.logit(share)
    mean = np.mean([bound_of(link, z, location, scale, noise) for noise in points])
    exact = log_probability(LINKS[link], np.append(z, 0.0), z.size)
    assert mean <= exact + 0.02


SCORES = st.lists(st.floats(-10.0, 10.0), min_size=2, max_size=8).map(np.array)


@given(s=SCORES)
@PROPERTY
def test_one_vs_each_is_below_the_likelihood(s):
    pairs = -np.log1p(np.exp(s[1:] - s[0])).sum()
    assert one_vs_each(s[None], np.array([0]))[0] == pytest.approx(pairs, abs=1e-9)
    assert pairs <= special.log_softmax(s)[0] + 1e-9


@by_link_but_softmax
def test_the_best_bound_is_the_best_over_all_laws(link):
    """Against SciPy's search for the location and scale of q, and an expectation by quantiles."""
    share = (np.arange(4000) + 0.5) / 4000
    points = special.ndtri(share) if link == "probit" else special.logit(share)
    X, y = make_data(n=6)
    model = SoftmaxClassifier(
        solver="augment-reduce", link=link, max_epochs=3, random_state=0, learning_rate=1.0
    ).fit(X, y)
    coef, intercept = parts_of(model)
    S = X @ coef.T + intercept
    for s, label in zip(S, np.searchsorted(model.classes_, y), strict=True):

        def minus_bound(q, s=s, label=label):
            noise = q[0] + np.exp(q[1]) * points
            others = np.delete(s, label) - s[label]
            if link == "probit":
                f = -(noise**2) / 2 - np.log(2 * np.pi) / 2
                f += special.log_ndtr(noise[:, None] - others).sum(axis=1)
            else:
                f = noise + 2 * special.log_expit(-noise)
                f += special.log_expit(noise[:, None] - others).sum(axis=1)
            entropy = 2.0 if link == "logistic" else np.log(2 * np.pi * np.e) / 2
            return -(f.mean() + entropy + q[1])

        best = -minimize(minus_bound, np.zeros(2)).fun
        label = model.classes_[[label]]
        row = X[np.flatnonzero((s == S).all(axis=1))[:1]]
        found = model.bound(row, label)
        assert found == pytest.approx(best, abs=5e-3)
        assert found < -model.log_loss(row, label)


@pytest.mark.parametrize("link", LINKS)
def test_the_bound_of_training_rows_is_that_of_their_local_variables(link):
    """Eq. 8 written out, or an expectation by quantiles; never above the likelihood."""
    X, y = make_data(n=40)
    model = SoftmaxClassifier(
        solver="augment-reduce",
        link=link,
        classes_per_step=1,
        max_epochs=4,
        random_state=0,
        dtype="float64",
    ).fit(X, y)
    location, scale = model._fitted.local[1].reshape(2, -1)
    coef, intercept = parts_of(model)
    S = X @ coef.T + intercept
    codes = np.searchsorted(model.classes_, y)
    share = (np.arange(20_000) + 0.5) / 20_000
    bounds = []
    for s, k, place, size in zip(S, codes, location, scale, strict=True):
        z = np.delete(s, k) - s[k]
        if link == "softmax":
            bounds.append(1 - np.log(place) - (1 + np.exp(z).sum()) / place)
        elif link == "probit":
            t = place + special.ndtri(share) / np.sqrt(size)
            f = -(t**2) / 2 - np.log(2 * np.pi) / 2 + special.log_ndtr(t[:, None] - z).sum(axis=1)
            bounds.append(f.mean() + np.log(2 * np.pi * np.e / size) / 2)
        else:
            t = np.log(place) - np.log(-np.log(share))
            f = t + 2 * special.log_expit(-t) + special.log_expit(t[:, None] - z).sum(axis=1)
            bounds.append(f.mean() + 1 + np.euler_gamma)
    assert model.bound(X, y) == pytest.approx(np.mean(bounds), rel=2e-3)
    assert model.bound(X, y) < -model.log_loss(X, y)


def test_the_bound_in_the_history_does_not_know_the_draws_that_estimate_it():
    """Weights that hardly move, ten classes, one drawn: its mean is below the likelihood."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 3)), rng.integers(10, size=4000)
    model = SoftmaxClassifier(
        solver="augment-reduce",
        classes_per_step=1,
        learning_rate=1e-6,
        max_epochs=8,
        random_state=0,
    ).fit(X, y)
    reported = [-record["loss"] for record in model.history_[1:]]
    assert max(reported) < -model.log_loss(X, y)


def test_the_bound_of_one_vs_each_is_the_lower_one():
    X, y = make_data(n=200)
    model = SoftmaxClassifier(solver="ove", random_state=0, max_epochs=3).fit(X, y)
    assert model.bound(X, y) < -model.log_loss(X, y)
    other = SoftmaxClassifier(random_state=0, max_epochs=3).fit(X, y)
    assert other.bound(X, y) == pytest.approx(-other.log_loss(X, y))
    weight = np.arange(200.0)
    assert other.bound(X, y, weight) == pytest.approx(-other.log_loss(X, y, weight))


@pytest.mark.parametrize("link", thorough_unless(lambda link: link == "softmax", LINKS))
def test_the_papers_importance_sampler_estimates_the_same(link):
    X, y = make_data(n=100)
    model = SoftmaxClassifier(solver="augment-reduce", link=link, random_state=0, max_epochs=5)
    model.fit(X, y)
    exact = model.log_loss(X, y)
    assert model.log_loss(X, y, draws=200_000) == pytest.approx(exact, rel=0.02)
    # The paper's number of draws: those of each row are its own, so errors average out.
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    assert model.log_loss(X, y, draws=1000) == pytest.approx(exact, rel=0.02)
    assert model.log_loss(X, y, draws=1000) == model.log_loss(X, y, draws=1000)
    with pytest.raises(ValueError, match="draws=0"):
        model.log_loss(X, y, draws=0)


# ------------------------------------------------------------------------------------------ fits


def maximum_likelihood(X, y, link, n_classes, alpha):
    """Return the least mean of -log p plus the ridge, by L-BFGS on the quadrature."""
    n, d = X.shape

    def objective(flat):
        W = flat.reshape(n_classes, d + 1)
        S = X @ W[:, :d].T + W[:, d]
        loss = -np.mean([log_probability(LINKS[link], S[i], y[i]) for i in range(n)])
        return loss + alpha / 2 * (W[:, :d] ** 2).sum()

    found = minimize(objective, np.zeros(n_classes * (d + 1)), method="L-BFGS-B")
    return found.fun


@pytest.mark.parametrize(
    ("link", "gap"),
    [("softmax", 0.05), ("probit", 0.1), pytest.param("logistic", 0.1, marks=thorough)],
)
def test_fits_come_near_maximum_likelihood(link, gap):
    """The bound of probit and logistic is not tight, as q is not the distribution of ε given y."""
    X, y = make_data(n=300, d=2, n_classes=4)
    alpha = 0.01
    best = maximum_likelihood(X, y, link, 4, alpha)
    model = SoftmaxClassifier(
        solver="augment-reduce", link=link, alpha=alpha, examples_per_step=50, classes_per_step=3,
        max_epochs=500, learning_rate=0.2, random_state=0,
    ).fit(X, y)  # fmt: skip
    reached = model.log_loss(X, y) + alpha / 2 * (parts_of(model)[0] ** 2).sum()
    assert best - 1e-6 <= reached < best + gap * (np.log(4) - best)


@by_link
def test_without_features_intercepts_learn_the_frequencies(link):
    y = np.repeat(np.arange(4), [400, 300, 200, 100])
    X = np.empty((1000, 0))
    model = SoftmaxClassifier(
        solver="augment-reduce", link=link, examples_per_step=50, classes_per_step=3,
        learning_rate=0.1, random_state=0,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.4, 0.3, 0.2, 0.1]], atol=0.03)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        SoftmaxClassifier().fit(X, y)


@by_link
@pytest.mark.parametrize("sampling", ["uniform", pytest.param("frequency", marks=thorough)])
def test_sparse_rows_are_the_same_rows(link, sampling):
    X, y = make_data(n=200)
    parameters = {
        "solver": "augment-reduce", "link": link, "sampling": sampling, "random_state": 0,
        "max_epochs": 3, "dtype": "float64",
    }  # fmt: skip
    dense = SoftmaxClassifier(**parameters).fit(X, y)
    sparse = SoftmaxClassifier(**parameters).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=1e-6, atol=1e-9)


@by_link
def test_probabilities_of_a_model_are_integrals(link, tmp_path):
    X, y = make_data(n=100)
    model = SoftmaxClassifier(solver="augment-reduce", link=link, random_state=0, max_epochs=5)
    model.fit(X, y)
    coef, intercept = parts_of(model)
    S = X @ coef.T + intercept
    expected = [[log_probability(LINKS[link], s, k) for k in range(4)] for s in S]
    np.testing.assert_allclose(model.predict_log_proba(X), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(expected), atol=1e-6)
    of_label = np.array(expected)[np.arange(y.size), np.searchsorted(model.classes_, y)]
    assert model.log_loss(X, y) == pytest.approx(-of_label.mean(), abs=1e-6)
    labels, log_proba = model.predict_top_k(X, 2)
    np.testing.assert_array_equal(labels[:, 0], model.predict(X))
    np.testing.assert_allclose(log_proba[:, 0], np.max(expected, axis=1), atol=1e-6)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_log_proba(X), model.predict_log_proba(X))


@by_link
def test_an_interrupted_fit_resumes_with_the_same_bits(link, tmp_path):
    X, y = make_data(n=200)
    parameters = {"solver": "augment-reduce", "link": link, "random_state": 0, "max_epochs": 5}
    path = tmp_path / "checkpoint"
    killed_after(1, SoftmaxClassifier(**parameters), X, y, path)
    resumed = SoftmaxClassifier(**parameters).fit(X, y, checkpoint=path)
    assert_same_bits(resumed, SoftmaxClassifier(**parameters).fit(X, y))


def test_early_stopping_keeps_the_best_epoch():
    X, y = make_data(n=300)
    model = SoftmaxClassifier(
        solver="augment-reduce", link="probit", early_stopping=True, random_state=0
    ).fit(X, y)
    assert all("validation_loss" in record for record in model.history_)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"link": "probit"}, "solver='implicit' has no link='probit': use solver='augment-reduce'"),
        ({"link": "cauchit"}, "link"),
        ({"solver": "augment-reduce", "sampling": "block"}, "'uniform' or 'frequency'"),
        ({"solver": "augment-reduce", "formulation": "raman"}, "formulation"),
    ],
)
def test_invalid_combinations_raise(parameters, words):
    X, y = make_data(n=20)
    with pytest.raises(ValueError, match=words):
        SoftmaxClassifier(**parameters).fit(X, y)
