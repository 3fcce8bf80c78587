"""Fits by augment and reduce: near the maximum of the likelihood, whatever the form of the rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from monro import SoftmaxClassifier, load
from monro.integrals import log_probability
from monro.links import LINKS
from tests.callbacks import killed_after
from tests.marks import thorough, thorough_unless
from tests.softmax.data import assert_same_bits, make_data, parts_of
from tests.variational.helpers import by_link


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
        solver="augment-reduce", link=link, alpha=0.0, examples_per_step=50, classes_per_step=3,
        learning_rate=0.1, random_state=0,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.4, 0.3, 0.2, 0.1]], atol=0.03)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        SoftmaxClassifier(alpha=0.0).fit(X, y)


@pytest.mark.parametrize("link", thorough_unless(lambda link: link == "softmax", LINKS))
@pytest.mark.parametrize("sampling", ["uniform", pytest.param("frequency", marks=thorough)])
def test_sparse_rows_are_the_same_rows(link, sampling):
    X, y = make_data(n=200)
    parameters = {
        "solver": "augment-reduce", "link": link, "sampling": sampling, "alpha": 0.0,
        "random_state": 0, "max_epochs": 3, "dtype": "float64",
    }  # fmt: skip
    dense = SoftmaxClassifier(**parameters).fit(X, y)
    sparse = SoftmaxClassifier(**parameters).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=1e-6, atol=1e-9)


@by_link
def test_probabilities_of_a_model_are_integrals(link, tmp_path):
    X, y = make_data(n=100)
    model = SoftmaxClassifier(
        solver="augment-reduce", link=link, alpha=0.0, random_state=0, max_epochs=5
    )
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
    parameters = {
        "solver": "augment-reduce",
        "link": link,
        "alpha": 0.0,
        "random_state": 0,
        "max_epochs": 5,
    }
    path = tmp_path / "checkpoint"
    killed_after(1, SoftmaxClassifier(**parameters), X, y, path)
    resumed = SoftmaxClassifier(**parameters).fit(X, y, checkpoint=path)
    assert_same_bits(resumed, SoftmaxClassifier(**parameters).fit(X, y))


def test_early_stopping_keeps_the_best_epoch():
    X, y = make_data(n=300)
    model = SoftmaxClassifier(
        solver="augment-reduce", link="probit", early_stopping=True, alpha=0.0, random_state=0
    ).fit(X, y)
    assert all("validation_loss" in record for record in model.history_)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"link": "probit"}, "solver='implicit' has no link='probit': use solver='augment-reduce'"),
        ({"link": "cauchit"}, "link"),
        ({"solver": "augment-reduce", "sampling": "block"}, "'uniform' or 'frequency'"),
        ({"solver": "augment-reduce", "formulation": "raman"}, "formulation"),
        ({"solver": "ove-adaptive", "link": "probit"}, "use solver='augment-reduce'"),
        ({"solver": "ove-adaptive", "sampling": "block"}, "'uniform' or 'frequency'"),
        (
            {"solver": "ove-adaptive", "posterior": "gaussian", "alpha": 0.1},
            "is for solver='augment-reduce', 'augment-reduce-printed'",
        ),
        ({"solver": "exact-adaptive", "classes_per_step": 5}, "uses all classes at every step"),
    ],
)
def test_invalid_combinations_raise(parameters, words):
    X, y = make_data(n=20)
    with pytest.raises(ValueError, match=words):
        SoftmaxClassifier(**{"alpha": 0.0} | parameters).fit(X, y)


@pytest.mark.parametrize("link", thorough_unless(lambda link: link == "softmax", LINKS))
def test_the_papers_importance_sampler_estimates_the_same(link):
    X, y = make_data(n=100)
    model = SoftmaxClassifier(
        solver="augment-reduce", link=link, alpha=0.0, random_state=0, max_epochs=5
    )
    model.fit(X, y)
    exact = model.log_loss(X, y)
    assert model.log_loss(X, y, draws=200_000) == pytest.approx(exact, rel=0.02)
    # The paper's number of draws: those of each row are its own, so errors average out.
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    assert model.log_loss(X, y, draws=1000) == pytest.approx(exact, rel=0.02)
    assert model.log_loss(X, y, draws=1000) == model.log_loss(X, y, draws=1000)
    with pytest.raises(ValueError, match="draws=0"):
        model.log_loss(X, y, draws=0)


@pytest.mark.parametrize(
    ("solver", "link"),
    [
        ("augment-reduce", "softmax"),
        pytest.param("augment-reduce", "probit", marks=thorough),
        pytest.param("augment-reduce", "logistic", marks=thorough),
        pytest.param("augment-reduce-printed", "probit", marks=thorough),
        ("ove-adaptive", "softmax"),
    ],
)
def test_threads_change_no_bit_of_the_weights(solver, link):
    rng = np.random.default_rng(0)
    X = sp.random(600, 400, 0.02, format="csr", random_state=0)
    y = rng.integers(200, size=600)
    models = [
        SoftmaxClassifier(
            solver=solver,
            link=link,
            alpha=0.0,
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
