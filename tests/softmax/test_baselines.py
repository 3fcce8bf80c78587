"""The baselines that 000 compares with have the optima that their definitions imply."""

import itertools

import numpy as np
import pytest

from monro import SoftmaxClassifier
from monro.softmax.kernel.sweep import DrawnClasses
from monro.softmax.rules.nce import NoiseContrastive
from monro.softmax.sampling.samplers import FrequencyClasses, UniformOfAll
from tests.marks import thorough
from tests.softmax.helpers import Model, draws, take

P = np.array([0.6, 0.3, 0.1])


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_mean_gradient_of_nce_is_zero_at_the_true_probabilities(m):
    """Over all labels and all draws, by enumeration; draws that equal y or each other count."""
    q = np.array([0.5, 0.2, 0.3])
    noise = FrequencyClasses(np.append(q, np.zeros(13)), m, "float64", with_repetition=True)
    expected = noise.expected_draws()
    np.testing.assert_allclose(expected[:3], m * q)
    rule = NoiseContrastive(np.log(np.maximum(expected, 1e-300)))
    total = np.zeros(3)
    for y, chosen in itertools.product(range(3), itertools.product(range(3), repeat=m)):
        drawn = draws(DrawnClasses, [chosen], 1.0 / expected[list(chosen)])
        before = Model(np.zeros((3, 1)), np.log(P), np.zeros(1))
        after, _ = take(rule, before, np.zeros((1, 1)), [y], drawn, eta=1.0, damping=1.0)
        total += P[y] * q[list(chosen)].prod() * (after.b - before.b)
    np.testing.assert_allclose(total, 0.0, atol=1e-12)


def three_classes(n=2000):
    """Return rows that are all alike, and labels whose shares are P."""
    y = np.repeat(np.arange(3), (n * P).astype(int))
    return np.ones((n, 1)), np.random.default_rng(0).permutation(y)


@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("sampling", ["uniform", "frequency"])
def test_nce_finds_the_shares_of_the_classes(sampling, n):
    X, y = three_classes()
    model = SoftmaxClassifier(
        solver="nce",
        sampling=sampling,
        alpha=0.0,
        classes_per_step=3,
        examples_per_step=n,
        learning_rate=0.3 * n**0.5,
        max_epochs=60,
        random_state=0,
    )
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X[:1])[0], P, atol=0.01)


@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("k", [3, 40])
def test_importance_sampling_of_all_classes_is_the_exact_softmax(k, n):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = np.append(np.arange(k), rng.integers(k, size=300 - k))
    common = {"examples_per_step": n, "learning_rate": 0.5, "max_epochs": 3, "random_state": 0}
    common |= {"dtype": "float64", "alpha": 1e-3}
    exact = SoftmaxClassifier(solver="exact", **common).fit(X, y)
    sampled = SoftmaxClassifier(
        solver="importance", sampling="uniform", classes_per_step=k - 1, **common
    ).fit(X, y)
    np.testing.assert_allclose(
        sampled.predict_log_proba(X), exact.predict_log_proba(X), rtol=1e-9, atol=1e-9
    )


def test_shared_draws_leave_out_no_class():
    """Every class is drawn as often as any other, whatever the label of the first example."""
    sampler = UniformOfAll(n_classes=5, m=2, slots=16, dtype="float64")
    drawn = sampler.draw(np.zeros(20_000), np.full(20_000, 3), np.random.default_rng(0))
    share = np.bincount(drawn.chosen.ravel(), minlength=5) / 20_000
    np.testing.assert_allclose(share, sampler.expected_draws()[:5], atol=0.015)
    np.testing.assert_allclose(np.exp(drawn.log_weight), 2.5)


def contexts(k, n=4000, groups=4):
    """Return rows that name one of a few groups, labels, and the least log-loss there can be."""
    rng = np.random.default_rng(2)
    group = rng.integers(groups, size=n)
    y = (2 * rng.normal(size=(groups, k))[group] + rng.gumbel(size=(n, k))).argmax(axis=1)
    counts = np.zeros((groups, k))
    np.add.at(counts, (group, y), 1)
    share = counts / counts.sum(axis=1, keepdims=True)
    return np.eye(groups)[group], y, -np.log(share[group, y]).mean()


@thorough
@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("solver", ["nce", "importance"])
def test_many_draws_come_close_to_the_maximum_likelihood(solver, n):
    """Where the model can represent normalised scores: NCE takes the normaliser to be 1."""
    X, y, least = contexts(30)
    gaps = []
    for m in (3, 30, 600):
        model = SoftmaxClassifier(
            solver=solver,
            sampling="frequency",
            alpha=0.0,
            classes_per_step=m,
            examples_per_step=n,
            learning_rate=0.3 * n**0.8,
            max_epochs=60,
            random_state=0,
        ).fit(X, y)
        gaps.append(model.log_loss(X, y) / least - 1)
    assert gaps[-1] < 0.01
    assert solver == "nce" or gaps[-1] < gaps[0]  # here few draws are enough for NCE
