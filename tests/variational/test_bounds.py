"""Bounds of augment and reduce: below the likelihood, and equal to what they are said to be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy.optimize import minimize

from monro import SoftmaxClassifier
from monro.integrals import log_probability
from monro.links import LINKS
from monro.rows import as_rows
from monro.softmax.kernel.sweep import DrawnClasses
from monro.softmax.metrics import one_vs_each
from monro.variational.augment_reduce import (
    BatchGradient,
    make_printed_model,
    new_augment_reduce_state,
)
from monro.variational.posterior import PointEstimate
from tests.marks import thorough
from tests.softmax.data import make_data, parts_of
from tests.variational.helpers import by_link_but_softmax, take_batch

PROPERTY = settings(deadline=None, derandomize=True, max_examples=50)


def bound_of(link, z, location, scale, noise):
    """Return the solver's estimate of an example's bound, with all classes drawn and no step."""
    K = z.size + 1
    model = make_printed_model(link)
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
        solver="augment-reduce",
        link=link,
        alpha=0.0,
        max_epochs=3,
        random_state=0,
        learning_rate=1.0,
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


@pytest.mark.parametrize(
    ("solver", "link"),
    [
        ("augment-reduce", "softmax"),
        ("augment-reduce", "probit"),
        pytest.param("augment-reduce", "logistic", marks=thorough),
        pytest.param("augment-reduce-printed", "probit", marks=thorough),
        pytest.param("augment-reduce-printed", "logistic", marks=thorough),
    ],
)
def test_the_bound_of_training_rows_is_that_of_their_local_variables(solver, link):
    """Eq. 8 written out, or an expectation by quantiles; never above the likelihood."""
    X, y = make_data(n=40)
    model = SoftmaxClassifier(
        solver=solver,
        link=link,
        alpha=0.0,
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
            continue
        if solver == "augment-reduce-printed":
            size = np.log1p(np.exp(size))
            t = place + size * (special.ndtri if link == "probit" else special.logit)(share)
            entropy = (np.log(2 * np.pi * np.e) / 2 if link == "probit" else 2.0) + np.log(size)
        elif link == "probit":
            t = place + special.ndtri(share) / np.sqrt(size)
            entropy = np.log(2 * np.pi * np.e / size) / 2
        else:
            t = np.log(place) - np.log(-np.log(share))
            entropy = 1 + np.euler_gamma
        if link == "probit":
            f = -(t**2) / 2 - np.log(2 * np.pi) / 2 + special.log_ndtr(t[:, None] - z).sum(axis=1)
        else:
            f = t + 2 * special.log_expit(-t) + special.log_expit(t[:, None] - z).sum(axis=1)
        bounds.append(f.mean() + entropy)
    assert model.bound(X, y) == pytest.approx(np.mean(bounds), rel=2e-3)
    assert model.bound(X, y) < -model.log_loss(X, y)


def test_the_bound_in_the_history_does_not_know_the_draws_that_estimate_it():
    """Weights that hardly move, ten classes, one drawn: its mean is below the likelihood."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 3)), rng.integers(10, size=4000)
    model = SoftmaxClassifier(
        solver="augment-reduce",
        alpha=0.0,
        classes_per_step=1,
        learning_rate=1e-6,
        max_epochs=8,
        random_state=0,
    ).fit(X, y)
    reported = [-record["loss"] for record in model.history_[1:]]
    assert max(reported) < -model.log_loss(X, y)


def test_the_bound_of_one_vs_each_is_the_lower_one():
    X, y = make_data(n=200)
    model = SoftmaxClassifier(solver="ove", alpha=0.0, random_state=0, max_epochs=3).fit(X, y)
    assert model.bound(X, y) < -model.log_loss(X, y)
    other = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=3).fit(X, y)
    assert other.bound(X, y) == pytest.approx(-other.log_loss(X, y))
    weight = np.arange(200.0)
    assert other.bound(X, y, weight) == pytest.approx(-other.log_loss(X, y, weight))
