"""What "auto" chooses, and that it does well: few classes, many, sparse and dense rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from monro import SoftmaxClassifier
from monro.softmax.kernel.layout import sparse_if_mostly_zero
from monro.softmax.sampling.mixture import Mixture
from monro.softmax.training.planning import make_plan
from tests.callbacks import killed_after
from tests.marks import thorough, thorough_unless
from tests.softmax.data import assert_same_bits, make_data


def next_words(n=20_000, previous=30, words=400, seed=0):
    """Return one-hot rows, and classes with skewed frequencies that depend on the feature."""
    rng = np.random.default_rng(seed)
    feature = rng.integers(previous, size=n)
    shares = rng.dirichlet(np.full(words, 0.02) + 2.0 / (1 + np.arange(words)), size=previous)
    y = (rng.random(n)[:, None] > np.cumsum(shares, axis=1)[feature]).sum(axis=1)
    y = np.minimum(y, words - 1)
    X = sp.csr_matrix((np.ones(n), feature, np.arange(n + 1)), shape=(n, previous))
    return X, y


def many_clusters(noise=0.3, seed=0):
    """Return dense rows around the centres of 300 classes."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((300, 8))
    y = rng.integers(300, size=6000)
    return centres[y] + noise * rng.standard_normal((6000, 8)), y


def counted(X, y):
    """Return the log-loss of the frequencies, and that of the best model there is."""
    counts = np.asarray(X.T @ np.eye(y.max() + 1)[y])
    joint = counts[counts > 0] / y.size
    given = (counts / counts.sum(axis=1, keepdims=True))[counts > 0]
    share = np.bincount(y)[np.bincount(y) > 0] / y.size
    return -(share @ np.log(share)), -(joint @ np.log(given))


@pytest.mark.parametrize(
    "settings",
    thorough_unless(
        lambda settings: not settings, [{}, {"formulation": "difference"}, {"init": "zero"}]
    ),
)
def test_many_skewed_classes_are_learnt(settings):
    X, y = next_words()
    start, optimum = counted(X, y)
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=20, **settings).fit(X, y)
    assert model.plan_["sampling"] == "neighbour"
    closed = (start - model.log_loss(X, y)) / (start - optimum)
    assert closed > (0.97 if not settings else 0.9)


@thorough
def test_within_a_decade_the_rate_hardly_matters():
    X, y = next_words()
    start, optimum = counted(X, y)
    chosen = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=10).fit(X, y).learning_rate_
    for factor in (1 / 3, 3):
        model = SoftmaxClassifier(
            alpha=0.0, random_state=0, max_epochs=10, learning_rate=factor * chosen
        )
        closed = (start - model.fit(X, y).log_loss(X, y)) / (start - optimum)
        assert closed > 0.93


def test_dense_rows_draw_by_clusters():
    X, y = many_clusters()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=20).fit(X, y)
    assert model.plan_["sampling"] == "neighbour"
    assert model.score(X, y) > 0.9


def test_the_ridge_is_exact_with_neighbour_sampling():
    """Classes are touched with different probabilities, but must shrink equally on average."""
    X, y = next_words(n=4000, previous=10, words=40)
    alpha = 1e-3
    settings = {"alpha": alpha, "random_state": 0, "dtype": "float64"}
    best = SoftmaxClassifier(solver="lbfgs", max_epochs=500, **settings).fit(X, y)
    model = SoftmaxClassifier(
        sampling="neighbour", classes_per_step=32, max_epochs=100, **settings
    ).fit(X, y)

    def objective(m):
        return m.log_loss(X, y) + alpha / 2 * (m.coef_**2).sum()

    assert objective(model) < objective(best) + 0.01


def test_batches_draw_by_their_own_neighbours():
    X, y = next_words()
    start, optimum = counted(X, y)
    model = SoftmaxClassifier(alpha=0.0, random_state=0)
    for _ in range(3):
        for k in range(0, y.size, 2000):
            model.partial_fit(X[k : k + 2000], y[k : k + 2000], classes=np.arange(400))
    assert (start - model.log_loss(X, y)) / (start - optimum) > 0.7


@pytest.mark.parametrize("epochs", thorough_unless(lambda epochs: epochs == 8, [2, 8, 9]))
def test_a_fit_of_many_classes_resumes_with_the_same_bits(tmp_path, epochs):
    X, y = next_words(n=3000)
    path = tmp_path / "checkpoint"
    parameters = {"alpha": 0.0, "random_state": 0, "max_epochs": 12}
    killed_after(epochs, SoftmaxClassifier(**parameters), X, y, path)
    resumed = SoftmaxClassifier(**parameters).fit(X, y, checkpoint=path)
    assert_same_bits(resumed, SoftmaxClassifier(**parameters).fit(X, y))


def test_mostly_zero_rows_are_taken_as_sparse():
    X, y = make_data(d=20)
    X[:, 5:] = 0.0
    sparse = sparse_if_mostly_zero(X, "float32")
    assert sparse.has_canonical_format
    np.testing.assert_array_equal(sparse.toarray(), X.astype(np.float32))
    assert sparse_if_mostly_zero(X[:, :5], "float64").shape == (X.shape[0], 5)
    assert not sp.issparse(sparse_if_mostly_zero(X[:, :5], "float64"))
    dense = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=5, learning_rate=1.0).fit(X, y)
    sparse = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=5, learning_rate=1.0)
    assert_same_bits(dense, sparse.fit(sp.csr_matrix(X), y))
    assert dense.predict(X).shape == y.shape


def test_rows_stay_dense_where_a_sample_of_them_misleads():
    X = np.ones((4000, 3))
    X[::4] = 0.0
    assert sparse_if_mostly_zero(X, "float64") is X


@pytest.mark.parametrize(
    ("n_classes", "sampling", "classes"),
    [(2, "all", 2), (256, "all", 256), (257, "neighbour", 80), (1623, "neighbour", 320),
     (4096, "neighbour", 320), (4097, "neighbour", 80), (10**6, "neighbour", 80)],
)  # fmt: skip
def test_how_many_classes_a_step_draws(n_classes, sampling, classes):
    plan = make_plan(SoftmaxClassifier(alpha=0.0), n_classes, 1.0)
    assert (plan.sampling, plan.classes) == (sampling, classes)


@pytest.mark.parametrize(
    ("settings", "n_classes", "exact"),
    [
        ({}, 1623, 10),
        ({"max_epochs": 9}, 1623, 1),
        ({"max_epochs": 4}, 1623, 0),
        ({}, 256, 0),  # they are all used anyhow
        ({}, 4097, 0),
        ({"sampling": "neighbour"}, 1623, 0),
        ({"classes_per_step": 320}, 1623, 0),
        ({"early_stopping": True}, 1623, 0),
        ({"epoch_decay": 0.9}, 1623, 0),
        ({"solver": "umax"}, 1623, 0),
    ],
)
def test_how_many_epochs_use_all_classes(settings, n_classes, exact):
    plan = make_plan(SoftmaxClassifier(alpha=0.0, **settings), n_classes, 1.0)
    assert plan.exact_epochs == exact


@pytest.mark.parametrize("dense", [False, True])
def test_the_last_epochs_use_all_classes(monkeypatch, dense):
    X, y = next_words(n=2000)
    drawn = []
    draw = Mixture.draw

    def count(self, rows, y, rng):
        drawn.append(rows.size)
        return draw(self, rows, y, rng)

    monkeypatch.setattr(Mixture, "draw", count)
    X = X.toarray() + 0.01 if dense else X
    model = SoftmaxClassifier(
        classes=np.arange(400), alpha=0.0, learning_rate=1.0, max_epochs=10, random_state=0
    ).fit(X, y)
    assert sum(drawn) == 8 * y.size
    assert "all in the last 2 epochs" in model.history_[0]["chosen"]
    model.partial_fit(X[:100], y[:100])
    assert sum(drawn) == 8 * y.size + 100


@thorough
def test_all_classes_at_the_end_leave_less_noise():
    X, y = many_clusters(noise=0.9)
    settings = {"alpha": 0.0, "random_state": 0, "max_epochs": 10}
    finished = SoftmaxClassifier(**settings).fit(X, y)
    drawn = SoftmaxClassifier(**settings, sampling="neighbour").fit(X, y)
    assert finished.log_loss(X, y) < 0.5 * drawn.log_loss(X, y)


def test_the_rate_at_a_time():
    plan = make_plan(SoftmaxClassifier(alpha=0.0, learning_rate=2.0, max_epochs=10), 5, 1.0)
    assert plan.rate_at(0) == 2.0
    assert plan.rate_at(5) == 0.5
    assert plan.rate_at(10) == 0.0
    assert plan.rate_at(10, before=10) == 0.5  # half of a fit that is twice as long
    paper = make_plan(SoftmaxClassifier(alpha=0.0, learning_rate=2.0, epoch_decay=0.5), 5, 1.0)
    assert [paper.rate_at(t) for t in (0, 0.9, 1, 2.5)] == [2.0, 2.0, 1.0, 0.5]


def test_fits_that_may_stop_early_have_a_decay():
    X, y = make_data()
    for settings in ({"early_stopping": True}, {"tol": 1e-4}):
        model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=3, **settings).fit(X, y)
        assert model.plan_["decay"] == 0.9


def test_neighbour_sampling_needs_importance_weights():
    X, y = make_data()
    with pytest.raises(ValueError, match=r"sampling='neighbour' is for 'implicit', 'umax'"):
        SoftmaxClassifier(solver="nce", sampling="neighbour", alpha=0.0).fit(X, y)
    with pytest.raises(ValueError, match="give a multiple"):
        SoftmaxClassifier(sampling="neighbour", alpha=0.0, classes_per_step=10).fit(X, y)


def test_a_warm_start_from_a_solver_without_a_rate_finds_one():
    X, y = make_data()
    model = SoftmaxClassifier(solver="lbfgs", warm_start=True, alpha=0.0, max_epochs=50).fit(X, y)
    before = model.log_loss(X, y)
    model.set_params(solver="implicit", max_epochs=5).fit(X, y)
    assert model.learning_rate_ > 0
    assert model.log_loss(X, y) < before + 0.02
