"""Sweeps of every rule against a few lines of NumPy."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit, logsumexp

from monro.blocks import MASKED_SCORE
from monro.softmax.kernel.sweep import SMALLEST_SCALE, Ball, DrawnBlocks, DrawnClasses
from monro.softmax.rules.exact import Exact
from monro.softmax.rules.implicit import Implicit
from monro.softmax.rules.importance import SampledSoftmax
from monro.softmax.rules.nce import NoiseContrastive
from monro.softmax.rules.ove import OneVsEach
from monro.softmax.rules.sco import Composition
from monro.softmax.rules.umax import RamanUMax, UMax
from monro.softmax.rules.vanilla import RamanVanilla, Vanilla
from tests.marks import thorough
from tests.softmax.helpers import (
    Model,
    assert_models_agree,
    drawn_classes,
    draws,
    own_draws,
    proximal_step,
    random_model,
    take,
)

# ---------------------------------------------------------------------------------- the formulas


def vanilla(eta, z, c, s, u, *_):
    e = c * np.exp(z - s - u)
    loss = np.log1p((c * np.exp(z - s)).sum())
    return eta * e, eta * e.sum(), max(0.0, u - eta * (1 - np.exp(-u) - e.sum())), loss


def raman_vanilla(eta, z, c, s, u, *_):
    e, p_y = c * np.exp(z - u), np.exp(s - u)
    loss = np.log1p((c * np.exp(z - s)).sum())
    return eta * e, eta * (1 - p_y), u - eta * (1 - p_y - e.sum()), loss


DELTA, LARGEST = 0.3, 4.0


def umax(eta, z, c, s, u, *_):
    threshold = np.log1p(np.exp(z - s).sum())
    u = threshold if u < threshold - DELTA else u
    g, G, u, loss = vanilla(eta, z, c, s, u)
    return g, G, min(u, LARGEST), loss


def raman_umax(eta, z, c, s, u, *_):
    threshold = np.log(np.exp(s) + np.exp(z).sum())
    u = threshold if u < threshold - DELTA else u
    g, G, u, loss = raman_vanilla(eta, z, c, s, u)
    return g, G, np.clip(u, -LARGEST, LARGEST), loss


def one_vs_each(eta, z, c, s, u, *_):
    g = eta * c * expit(z - s)
    return g, g.sum(), u, -(c * log_expit(s - z)).sum()


def noise_contrastive(eta, z, c, s, u, count_y, own):
    noise = z + np.log(c)  # the odds of class against noise, e^s to its expected count 1/c
    s_y = s - np.log(count_y)
    loss = -log_expit(s_y) - log_expit(-noise).sum() - own * log_expit(-s_y)
    return eta * expit(noise), eta * (expit(-s_y) - own * expit(s_y)), u, loss


def sampled_softmax(eta, z, c, s, u, count_y, _):
    p = np.append(z - np.log(1 / c), s - np.log(count_y))
    p = np.exp(p - logsumexp(p))
    return eta * p[:-1], eta * (1 - p[-1]), u, -np.log(p[-1])


BETA = 0.3


def composition(eta, z, c, s, u, *_):
    estimate = 1 + (c * np.exp(z - s)).sum()
    average = (1 - BETA) * np.exp(u) + BETA * estimate
    g = eta * c * np.exp(z - s) / average
    return g, g.sum(), np.log(average), np.log(estimate)


def exact(eta, z, c, s, u, *_):
    p = np.exp(np.append(z, s) - logsumexp(np.append(z, s)))
    return eta * p[:-1], eta * (1 - p[-1]), u, -np.log(p[-1])


COUNTS = np.random.default_rng(5).uniform(0.1, 2.0, 48)
RULES = {
    "vanilla": (Vanilla(), vanilla),
    "raman vanilla": (RamanVanilla(), raman_vanilla),
    "umax": (UMax(DELTA, LARGEST), umax),
    "raman umax": (RamanUMax(DELTA, LARGEST), raman_umax),
    "ove": (OneVsEach(), one_vs_each),
    "nce": (NoiseContrastive(np.log(COUNTS)), noise_contrastive),
    "importance": (SampledSoftmax(np.log(COUNTS)), sampled_softmax),
    "sco": (Composition(np.log(1 - BETA), np.log(BETA)), composition),
    "exact": (Exact(), exact),
}
by_kind = pytest.mark.parametrize("kind", [pytest.param(DrawnClasses, marks=thorough), DrawnBlocks])
SINGLY = ["vanilla", "umax", "ove", "nce", "importance"]  # also tested with single classes


def naive_sweep(
    rule, model, X, y, drawn, *, eta, ridge=0.0, damping=0.0, weight=None, order=None, n=1,
    examples_per_draw=1, radius=np.inf,
):  # fmt: skip
    """Do what `sweep` does: compute a step's gradients at the old weights, then move classes."""
    W, b, u = (part.copy() for part in model)
    K = b.size
    weight = np.ones(len(y)) if weight is None else weight
    order = np.arange(len(y)) if order is None else order
    rho = 1 / (1 + eta * np.broadcast_to(ridge, K))
    total = 0.0
    for start in range(0, len(order), n):
        steps = []
        for j in range(start, min(start + n, len(order))):
            i = order[j]
            s = W @ X[i] + b
            classes, c = drawn_classes(drawn, j // examples_per_draw, y[i], K)
            rate = eta * weight[i]
            own = own_draws(drawn, j // examples_per_draw, y[i])
            g, G, u[i], loss = rule(rate, s[classes], c, s[y[i]], u[i], COUNTS[y[i]], own)
            total += weight[i] * loss
            steps.append((i, np.append(classes, y[i]), np.append(g, -G)))
        for i, classes, g in steps:
            for k, move in zip(classes, g, strict=True):
                W[k] = rho[k] * (W[k] - move * X[i])
                b[k] -= damping * move
                W[k] *= min(1.0, radius / np.linalg.norm(W[k]))
    return Model(W, b, u), total


def random_draws(rng, kind, y, K, m, rows, replace=False):
    if kind is DrawnBlocks:
        chosen = [rng.choice(-(-K // 16), m, replace=replace) for _ in range(rows)]
    else:
        chosen = [rng.choice(K, m, replace=replace) for _ in range(rows)]
    chosen = np.array(chosen)
    chosen[rng.random(chosen.shape) < 0.1] = -1  # a repeated draw
    weight = rng.uniform(0.5, 3.0, chosen.shape)
    return draws(kind, chosen, weight)


@by_kind
@pytest.mark.parametrize("name", RULES)
@given(
    seed=st.integers(0, 2**32 - 1),
    eta=st.sampled_from([1e-3, 0.01]),
    ridge=st.sampled_from([0.0, 30.0]),
    damping=st.sampled_from([0.0, 0.2]),
    n=st.sampled_from([1, 4]),
    share=st.booleans(),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_sweep_agrees_with_the_formulas_in_numpy(name, kind, seed, eta, ridge, damping, n, share):
    if kind is DrawnClasses and name not in SINGLY:
        return
    rng = np.random.default_rng(seed)
    K, d, rows = 35, 4, 13
    rule, reference = RULES[name]
    X = rng.standard_normal((rows, d)) * (rng.random((rows, d)) < 0.7)
    y = rng.integers(K, size=rows)
    model = random_model(rng, K, d, rows, 0.5)
    drawn = random_draws(rng, kind, y, K, 2 if kind is DrawnBlocks else 5, rows)
    if name == "exact":
        drawn = draws(DrawnBlocks, [[0, 1, 2]] * rows, 1.0)
    options = {
        "eta": eta,
        "ridge": ridge * rng.random(K),
        "damping": damping,
        "weight": 0.5 + rng.random(rows),
        "order": rng.permutation(rows),
        "n": n,
        "examples_per_draw": n if share else 1,
    }
    actual, loss = take(rule, model, X, y, drawn, scale=0.5 + rng.random(K), **options)
    with np.errstate(over="ignore", invalid="ignore"):
        expected, total = naive_sweep(reference, model, X, y, drawn, **options)
    assume(total < 1e6)  # diverging gradient steps agree in no digit
    assert_models_agree(actual, expected, 1e-10)
    assert loss == pytest.approx(total, rel=1e-10)


@by_kind
def test_repeated_draws_of_noise_all_count(kind):
    rng = np.random.default_rng(0)
    K, d, rows, m = 35, 4, 40, 6
    rule, reference = RULES["nce"]
    X = rng.standard_normal((rows, d))
    y = rng.integers(K, size=rows)
    model = random_model(rng, K, d, rows, 0.5)
    drawn = random_draws(rng, kind, y, K, m, rows, replace=True)
    assert any(own_draws(drawn, j, y[j]) > 1 for j in range(rows)) or kind is DrawnClasses
    options = {"eta": 0.01, "damping": 0.2, "n": 4, "examples_per_draw": 1}
    actual, loss = take(rule, model, X, y, drawn, **options)
    expected, total = naive_sweep(reference, model, X, y, drawn, **options)
    assert_models_agree(actual, expected, 1e-10)
    assert loss == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize(
    ("rule", "s_y", "others", "u", "expected"),
    [
        (Vanilla(), 0.0, -20.0, 0.3, 0.0),
        (UMax(DELTA, LARGEST), 0.0, -20.0, 0.3, 0.0),
        (RamanUMax(DELTA, LARGEST), -30.0, -40.0, 0.1 - LARGEST, -LARGEST),
        (RamanVanilla(), -30.0, -40.0, 0.1 - LARGEST, -1.9 - LARGEST),
    ],
)
def test_u_falls_to_its_bound_and_no_further(rule, s_y, others, u, expected):
    model = Model(np.zeros((20, 2)), np.full(20, others), np.array([u]))
    model.b[3] = s_y
    new, _ = take(rule, model, np.ones((1, 2)), [3], draws(DrawnBlocks, [0], 2.0), eta=2.0)
    assert new.u[0] == pytest.approx(expected, abs=1e-6)


def test_the_first_visit_of_stochastic_composition_takes_the_estimate_alone():
    rng = np.random.default_rng(0)
    model = random_model(rng, 20, 3, 1)
    x = rng.standard_normal((1, 3))
    new, _ = take(
        Composition(MASKED_SCORE, 0.0), model, x, [2], draws(DrawnBlocks, [1], 2.0), eta=0.0
    )
    s = model.W @ x[0] + model.b
    assert new.u[0] == pytest.approx(np.log1p(2 * np.exp(s[16:] - s[2]).sum()), rel=1e-12)


@by_kind
@given(seed=st.integers(0, 2**32 - 1), delta=st.sampled_from([0.1, 1.0, 3.0]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_no_gradient_of_umax_exceeds_its_bound(kind, seed, delta):
    rng = np.random.default_rng(seed)
    K, eta, c = 35, 0.1, 12.0
    model = Model(1e4 * rng.standard_normal((K, 3)), np.zeros(K), np.zeros(1))
    x = rng.standard_normal((1, 3))
    drawn = draws(kind, rng.choice(2, 2, replace=False), c)
    new, _ = take(UMax(delta, 1e300), model, x, [4], drawn, eta=eta)
    moves = np.linalg.norm(new.W - model.W, axis=1)
    assert moves.max() <= eta * c * np.exp(delta) * np.linalg.norm(x) * (1 + 1e-9) + 1e-10


@thorough
@pytest.mark.parametrize("kind", [DrawnClasses, DrawnBlocks])
def test_the_norms_of_a_ball_are_kept_step_by_step(kind):
    rng = np.random.default_rng(1)
    K, d, rows, radius = 35, 4, 600, 0.8
    X = rng.standard_normal((rows, d))
    y = rng.integers(K, size=rows)
    model = random_model(rng, K, d, rows)
    model.W[:] *= radius / np.maximum(radius, np.linalg.norm(model.W, axis=1))[:, None]
    drawn = random_draws(rng, kind, y, K, 2 if kind is DrawnBlocks else 5, rows)
    options = {"eta": 0.3, "ridge": 0.001, "damping": 0.1}
    kept = np.zeros(48)
    kept[:K] = (model.W**2).sum(axis=1)
    ball = Ball(radius, kept)
    actual, _ = take(UMax(DELTA, LARGEST), model, X, y, drawn, bounds=ball, **options)
    expected, _ = naive_sweep(umax, model, X, y, drawn, radius=radius, **options)
    norms = np.linalg.norm(actual.W, axis=1)
    np.testing.assert_allclose(np.sqrt(kept[:K]), norms, rtol=1e-9)
    assert norms.max() <= radius * (1 + 1e-9)
    assert (norms > 0.99 * radius).any()
    assert_models_agree(actual, expected, 1e-7)


# -------------------------------------------------------------------------------- the ridge's scale


@by_kind
@pytest.mark.parametrize("strength", [1.0, 3.0, 1e4])
def test_a_lazy_scale_that_underflows_is_multiplied_out(kind, strength):
    rng = np.random.default_rng(2)
    K, d, rows = 35, 4, 400
    assert (1 + 0.5 * strength) ** -rows < SMALLEST_SCALE  # many times over
    X = rng.standard_normal((rows, d))
    y = rng.integers(K, size=rows)
    model = random_model(rng, K, d, rows)
    drawn = random_draws(rng, kind, y, K, 2 if kind is DrawnBlocks else 20, rows)
    options = {"eta": 0.5, "ridge": strength * (0.5 + rng.random(K)), "damping": 0.1}
    actual, _ = take(UMax(DELTA, LARGEST), model, X, y, drawn, **options)
    expected, _ = naive_sweep(umax, model, X, y, drawn, **options)
    np.testing.assert_allclose(actual.W, expected.W, rtol=1e-6, atol=1e-9 * expected.W.max())
    assert_models_agree(actual, expected, 1e-6)


@by_kind
def test_implicit_steps_with_a_strong_ridge_follow_the_dense_recursion(kind):
    rng = np.random.default_rng(3)
    K, d, rows, eta = 20, 2, 60, 1.0
    X = rng.standard_normal((rows, d))
    y = rng.integers(K, size=rows)
    model = random_model(rng, K, d, rows)
    ridge = 4 * rng.random(K)
    drawn = random_draws(rng, kind, y, K, 1 if kind is DrawnBlocks else 5, rows)
    actual, _ = take(Implicit(1e-6), model, X, y, drawn, eta=eta, ridge=ridge, damping=0.1)
    expected = model
    for i in range(rows):
        C = np.zeros((1, K))
        classes, weights = drawn_classes(drawn, i, y[i], K)
        C[0, classes] = weights
        one = Model(expected.W, expected.b, expected.u[[i]])
        one = proximal_step(one, X[[i]], y[[i]], C, [eta], ridge=eta * ridge, damping=0.1)
        u = expected.u.copy()
        u[i] = one.u[0]
        expected = Model(one.W, one.b, u)
    assert_models_agree(actual, expected, 1e-7)
