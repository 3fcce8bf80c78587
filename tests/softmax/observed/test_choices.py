"""What is chosen: dense or observed weights, strengths, calibration; what is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold

from monro import SoftmaxClassifier, memory
from monro.errors import DivergenceError
from tests import processes
from tests.softmax.observed.helpers import (
    loss_and_slopes,
    objective_of,
    observed,
    parts_of,
    sparse_rows,
)


def data(several=False, seed=0, n=150, d=12, K=5):
    """Rows whose labels depend on a few features."""
    rng = np.random.default_rng(seed)
    X = sparse_rows(rng, n, d, 0.3)
    scores = 2 * (X @ rng.standard_normal((d, K))) + rng.gumbel(size=(n, K))
    y = scores.argmax(axis=1)
    y[:K] = np.arange(K)
    if several:
        return X, np.maximum((scores > 2.5).astype(int), np.eye(K, dtype=int)[y])
    return X, y


# ------------------------------------------------------------------------------ dense or observed


def wide(n=50, d=300_000, K=2_000):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(
        (np.ones(5 * n), rng.integers(d, size=5 * n), np.arange(0, 5 * n + 1, 5)), shape=(n, d)
    )
    X.sum_duplicates()
    return X, rng.integers(K, size=n), range(K)


def test_many_classes_and_features_have_weights_of_observed_pairs():
    X, y, classes = wide()
    model = SoftmaxClassifier(classes=classes, max_epochs=2, random_state=0).fit(X, y)
    assert model.plan_["weights"] == "observed"
    for word in ("2,000 classes", "300,000 features", "2.4 GB"):
        assert word in model.plan_["because"]
    assert model.plan_["pairs"] == model.coef_.nnz <= X.nnz
    assert model.coef_.shape == (2_000, 300_000)
    assert "2.4 GB" in model.history_[0]["chosen"]
    rows = np.zeros((50, 2_000), int)
    rows[np.arange(50), y] = 1
    model = SoftmaxClassifier(max_epochs=2, random_state=0).fit(X, sp.csr_matrix(rows))
    assert model.plan_["weights"] == "observed"
    assert model.plan_["label_weight"] == "independent"


def test_a_number_for_alpha_keeps_dense_weights_where_they_have_room(monkeypatch):
    X, y, classes = wide(d=1_000)
    settings = {"alpha": 1e-4, "classes": classes, "max_epochs": 1, "random_state": 0}
    assert SoftmaxClassifier(**settings).fit(X, y).plan_["weights"] == "dense"
    monkeypatch.setattr(memory, "free_memory", lambda: 1_000_000)
    assert SoftmaxClassifier(**settings).fit(X, y).plan_["weights"] == "observed"


def test_double_precision_counts_twice():
    X, y, _ = wide(d=100_000)  # 0.8 GB in single precision, 1.6 GB in double
    settings = {"classes": range(2_000), "max_epochs": 1, "random_state": 0}
    model = SoftmaxClassifier(dtype="float64", **settings).fit(X, y)
    assert model.plan_["weights"] == "observed"
    assert model.coef_.dtype == np.float64


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_few_weights_are_dense(form, several):
    X, y = data(several)
    settings = {"alpha": 1e-3, "max_epochs": 2, "random_state": 0}
    model = SoftmaxClassifier(**settings).fit(form(X.toarray()), y)
    assert model.plan_["weights"] == "dense"
    assert isinstance(model.coef_, np.ndarray)
    dense = SoftmaxClassifier(weights="dense", **settings).fit(form(X.toarray()), y)
    np.testing.assert_array_equal(model.coef_, dense.coef_)


def test_rows_without_labels_and_class_weights_of_few_weights():
    X, Y = data(several=True)
    Y[::7] = 0
    settings = {"alpha": 1e-3, "max_epochs": 2, "random_state": 0}
    kept = Y.any(axis=1)
    for more in ({}, {"class_weight": {0: 2.0, 1: 1.0, 2: 0.5, 3: 1.0, 4: 1.0}}):
        dense = SoftmaxClassifier(weights="dense", **settings, **more).fit(X[kept], Y[kept])
        model = SoftmaxClassifier(**settings, **more).fit(X, Y)
        np.testing.assert_array_equal(model.coef_, dense.coef_)


def test_the_plan_says_what_was_asked_for():
    X, Y = data(several=True)
    model = observed(max_epochs=2).fit(X, Y)
    assert model.plan_["because"] == "as asked for"
    assert model.plan_["label_weight"] == "independent"
    assert "observed pairs" in model.history_[0]["chosen"]
    for kind in ("share", "one"):
        assert observed(max_epochs=2, label_weight=kind).fit(X, Y).plan_["label_weight"] == kind


@pytest.mark.parametrize("label_weight", ["share", "one"])
def test_label_weights_of_dense_weights(label_weight):
    X, Y = data(several=True)
    settings = {"solver": "lbfgs", "alpha": 0.01, "dtype": "float64", "max_epochs": 500}
    model = SoftmaxClassifier(weights="dense", label_weight=label_weight, **settings).fit(X, Y)
    loss, slopes = loss_and_slopes(model.decision_function(X), Y, label_weight)
    W, _ = parts_of(model)
    if label_weight == "one":  # the mean is over labels
        slopes = slopes / (Y.sum() / len(Y))
    np.testing.assert_allclose(slopes.T @ X / len(Y) + 0.01 * W, 0.0, atol=1e-4)
    assert np.isfinite(loss).all()


# ------------------------------------------------------------------------------------- strengths


@pytest.mark.parametrize("cv", [None, 3, KFold(2)])
@pytest.mark.parametrize("several", [False, True])
def test_a_strength_is_chosen_among_those_of_a_path(several, cv):
    X, y = data(several)
    model = observed(alpha="auto", cv=cv, max_epochs=6).fit(X, y)
    tried = [record["alpha"] for record in model.alpha_path_]
    assert tried == sorted(tried, reverse=True)
    assert 0.99 * tried[-1] <= model.alpha_ <= 1.01 * tried[0]
    # The strongest of those that are about as good as the best.
    best = min(model.alpha_path_, key=lambda record: record["mean"])
    near = min(model.alpha_path_, key=lambda record: abs(np.log(record["alpha"] / model.alpha_)))
    assert near["mean"] <= best["mean"] + 2 * best["standard_error"] + 0.01 * abs(best["mean"])
    assert model.plan_["alpha"] == model.alpha_
    assert "the best of" in model.history_[0]["chosen"]
    assert hasattr(model, "calibration_") == several
    if several:
        a, c, least = model.calibration_
        assert a > 0
        assert np.isfinite(c)
        assert 0 < least < 0.5
        np.testing.assert_array_equal(model._fitted.weights.calibration, model.calibration_)
    # A fit with the strength chosen is the same.
    again = observed(alpha=model.alpha_, max_epochs=6).fit(X, y)
    np.testing.assert_allclose(parts_of(again)[0], parts_of(model)[0], atol=1e-6)


def test_a_chosen_strength_predicts_better_than_extremes():
    X, y = data(seed=1, n=400)
    training, others = slice(0, 250), slice(250, 400)
    loss = {
        alpha: observed(alpha=alpha).fit(X[training], y[training]).log_loss(X[others], y[others])
        for alpha in ("auto", 1e-9, 10.0)
    }
    assert loss["auto"] < min(loss[1e-9], loss[10.0])


def test_probabilities_of_a_chosen_strength_are_calibrated():
    X, Y = data(several=True, seed=2, n=900)
    model = observed(alpha="auto").fit(X[:600], Y[:600])
    P = model.predict_proba(X[600:])
    shown = np.argsort(-P, axis=1)[:, :5]
    right = np.take_along_axis(Y[600:], shown, axis=1)
    assert abs(np.take_along_axis(P, shown, axis=1).mean() - right.mean()) < 0.05
    assert model.evaluate(X[600:], Y[600:])["calibration_error"] < 0.12


def test_a_second_fit_does_not_keep_the_calibration_of_the_first():
    X, Y = data(several=True)
    model = observed(alpha="auto", max_epochs=6).fit(X, Y)
    model.set_params(alpha=0.5).fit(X, Y)
    fresh = observed(alpha=0.5, max_epochs=6).fit(X, Y)
    np.testing.assert_array_equal(
        model._fitted.weights.calibration, fresh._fitted.weights.calibration
    )
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    assert not hasattr(model, "alpha_")


def test_a_single_label_fit_after_label_sets_has_no_calibration():
    X, Y = data(several=True)
    model = observed(alpha="auto", max_epochs=3).fit(X, Y)
    model.fit(X, Y.argmax(axis=1))
    assert model._fitted.weights.calibration is None
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-6)


def test_one_label_for_all_rows_has_a_path():
    """Held-out rows of nothing but one label, or of labels that no row to fit to has."""
    rng = np.random.default_rng(0)
    X = sparse_rows(rng, 12, 4)
    Y = np.eye(12, dtype=int)
    model = observed(alpha="auto", max_epochs=3).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    model = observed(alpha="auto", max_epochs=3).fit(X, np.arange(12))
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("several", [False, True])
def test_two_threads_reach_about_the_same_objective(several):
    X, y = data(several, n=400)
    Y = y if several else np.eye(5, dtype=int)[y]
    kind = "independent" if several else "share"
    settings = {"alpha": 0.01, "max_epochs": 30}
    one, two = (objective_of(observed(n_jobs=n, **settings).fit(X, y), X, Y, kind) for n in (1, 2))
    np.testing.assert_allclose(one, two, rtol=0.02)


@pytest.mark.parametrize("several", [False, True])
def test_folds_side_by_side_choose_the_same_strength(several):
    X, y = data(several)
    one, two = (observed(alpha="auto", cv=3, n_jobs=n, max_epochs=3).fit(X, y) for n in (1, 2))
    assert one.alpha_path_ == two.alpha_path_
    assert one.alpha_ == two.alpha_
    assert getattr(one, "calibration_", None) == getattr(two, "calibration_", None)


def test_early_stopping_keeps_the_best_epoch():
    X, y = data(n=400)
    model = observed(alpha=1e-6, early_stopping=True, max_epochs=60, learning_rate=8.0).fit(X, y)
    losses = [record["validation_loss"] for record in model.history_]
    np.testing.assert_allclose(model.history_[-1]["held_out_loss"], min(losses), rtol=1e-6)
    assert len(losses) == model.n_iter_ < 60


# --------------------------------------------------------------------------------------- refusals


def message(y=None, **parameters):
    X, labels = data(several=y == "matrix")
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        SoftmaxClassifier(**{"alpha": 1e-3, **parameters}).fit(X, labels)
    return str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"weights": "observed", "solver": "umax"}, ["weights='observed'", "solver='umax'"]),
        ({"weights": "observed", "solver": "lbfgs"}, ["weights='observed'", "solver='lbfgs'"]),
        (
            {"weights": "observed", "solver": "augment-reduce", "link": "probit"},
            ["weights='observed'", "weights='dense'"],
        ),
        ({"weights": "observed", "link": "probit"}, ["link='probit'"]),
        (
            {"weights": "observed", "solver": "augment-reduce", "posterior": "gaussian"},
            ["weights='observed'"],
        ),
        ({"weights": "observed", "sampling": "block"}, ["sampling='block'"]),
        ({"weights": "observed", "examples_per_step": 3}, ["examples_per_step=3"]),
        ({"weights": "dense", "label_weight": "independent"}, ["label_weight='independent'"]),
        ({"weights": "dense", "min_pair_count": 2}, ["min_pair_count"]),
        ({"weights": "obsreved"}, ["weights='obsreved'", "'auto'", "'dense'", "'observed'"]),
        ({"label_weight": "both"}, ["label_weight='both'", "'share'", "'one'", "'independent'"]),
        ({"min_pair_count": 0, "weights": "observed"}, ["min_pair_count=0", "at least 1"]),
        ({"min_pair_count": 1.5, "weights": "observed"}, ["min_pair_count=1.5"]),
        ({"weights": None}, ["weights=None"]),
    ],
)
def test_invalid_combinations_are_named(parameters, words):
    text = message(**parameters)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_class_weights_are_not_for_label_sets():
    assert "sample_weight" in message("matrix", weights="observed", class_weight="balanced")


@pytest.mark.parametrize("weights", ["auto", "observed"])
def test_independent_labels_are_fitted_as_such_or_refused(weights):
    """Few dense weights with weights="auto", and single labels with weights="observed"."""
    X, y = data(several=weights == "auto")
    model = SoftmaxClassifier(weights=weights, label_weight="independent", alpha=0.1, max_epochs=2)
    try:
        model.fit(X, y)
    except ValueError as error:
        assert "label_weight" in str(error)  # noqa: PT017
    else:
        assert model.plan_.get("label_weight") == "independent"


def test_a_row_number_is_named_where_a_value_is_not_finite():
    X, y = data()
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        observed().fit(X, y)


def diverge():
    rng = np.random.default_rng(0)
    X, y = sp.csr_matrix(rng.standard_normal((200, 1000))), np.arange(200) % 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DivergenceError, match=r"learning_rate=1e\+38: use a smaller one"):
            observed(learning_rate=1e38).fit(X, y)


def test_a_rate_that_is_too_large_is_named():
    assert processes.status(processes.start(diverge)) == 0


def test_single_labels_may_be_independent():
    """They are sets of one, so the model is that of their indicator matrix."""
    X, y = data()
    settings = {"label_weight": "independent", "max_epochs": 6, "alpha": 0.01}
    one, two = (observed(**settings).fit(X, labels) for labels in (y, np.eye(5, dtype=int)[y]))
    assert one.plan_["label_weight"] == two.plan_["label_weight"] == "independent"
    np.testing.assert_array_equal(parts_of(one)[0], parts_of(two)[0])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_allclose(one.log_loss(X, y), two.log_loss(X, y))
