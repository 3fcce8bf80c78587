"""SoftmaxClassifier: its objective, its robustness, the data it accepts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from monro import SoftmaxClassifier
from monro.errors import DivergenceError
from monro.softmax.plan import Plan
from monro.softmax.solvers import make_rule
from tests.marks import thorough, thorough_unless
from tests.softmax.data import (
    FORMS,
    FRUIT,
    SOLVERS,
    STREAMING,
    assert_same_bits,
    best,
    fitted,
    in_both_forms,
    log_softmax,
    make_data,
    many_classes,
    objective,
    parts_of,
)

# -------------------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize(
    ("solver", "gap"),
    [("implicit", 0.02), ("umax", 0.02), ("vanilla", 0.12), ("sco", 0.02), ("exact", 0.001)],
)
@pytest.mark.parametrize("n_classes", [4, 20])
def test_unbiased_solvers_come_near_the_optimum(solver, gap, n_classes):
    X, y = make_data(n=1000, n_classes=n_classes)
    optimum = objective(best(X, y, alpha=0.01), X, y)
    model = fitted(X, y, solver=solver, alpha=0.01, max_epochs=50)

    assert optimum <= objective(model, X, y) + 1e-6
    assert objective(model, X, y) - optimum < gap * (np.log(n_classes) - optimum)


@pytest.mark.parametrize("solver", ["ove", "nce", "importance"])
def test_biased_solvers_learn(solver):
    X, y = make_data(n=1000)
    optimum = best(X, y).log_loss(X, y)
    model = fitted(X, y, solver=solver, max_epochs=50)

    assert model.log_loss(X, y) - optimum < 0.2 * (np.log(4) - optimum)


@pytest.mark.parametrize("sampling", ["block", "uniform", "frequency"])
@pytest.mark.parametrize("formulation", ["difference", "raman"])
def test_every_way_to_draw_classes_comes_near_the_optimum(sampling, formulation):
    X, y = make_data(n=1000, n_classes=20)
    optimum = objective(best(X, y, alpha=0.01), X, y)
    model = fitted(X, y, sampling=sampling, formulation=formulation, alpha=0.01, max_epochs=50)

    assert objective(model, X, y) - optimum < 0.05 * (np.log(20) - optimum)


@thorough
def test_batches_come_near_the_optimum():
    X, y = make_data(n=100)
    optimum = objective(best(X, y, alpha=0.1), X, y)
    model = fitted(X, y, examples_per_step=4, alpha=0.1, learning_rate=1.0, max_epochs=20)

    assert objective(model, X, y) - optimum < 0.05 * (np.log(4) - optimum)


def test_lbfgs_finds_where_the_gradient_vanishes():
    X, y = make_data()
    model = best(X, y, alpha=0.01)

    residuals = np.exp(log_softmax(model, X)) - np.eye(4)[y]
    np.testing.assert_allclose(residuals.T @ X / y.size + 0.01 * model.coef_, 0.0, atol=1e-6)
    np.testing.assert_allclose(residuals.mean(axis=0), 0.0, atol=1e-6)


def test_the_papers_radius_holds_at_the_optimum_and_b_u_counts_classes_only():
    """Lemmas 1 and 2: B_W = √(2 log K/alpha), B_u = log(1 + (K - 1) e^{2 B_x B_W})."""
    X, y = make_data(n=60, d=3, n_classes=20)
    model = SoftmaxClassifier(
        solver="umax", alpha=0.5, radius="paper", learning_rate=0.1, max_epochs=2, random_state=0
    ).fit(X, y)
    radius = np.sqrt(2 * np.log(20) / 0.5)
    assert model.plan_["radius"] == pytest.approx(radius)
    best = SoftmaxClassifier(solver="lbfgs", alpha=0.5).fit(X, y)
    assert np.linalg.norm(best.coef_) <= radius
    rule = make_rule(Plan(**model.plan_), None, 0, 2.0, 20)
    assert rule.largest_u == pytest.approx(np.log1p(19 * np.exp(4 * radius)), rel=1e-6)
    with pytest.raises(ValueError, match="alpha > 0"):
        SoftmaxClassifier(solver="umax", radius="paper", alpha=0.0).fit(X, y)


def test_the_radius_bounds_the_weights_of_each_class():
    X, y = make_data()
    free = fitted(X, y, solver="umax", learning_rate=0.3)
    bounded = fitted(X, y, solver="umax", learning_rate=0.3, radius=0.5)

    assert np.linalg.norm(free.coef_, axis=1).max() > 0.6
    assert np.linalg.norm(bounded.coef_, axis=1).max() < 0.5 * (1 + 1e-5)


# ----------------------------------------------------------------------------- classes and weights


@in_both_forms(SOLVERS)
def test_a_class_that_never_occurs_is_unlikely(solver, form):
    X, y = make_data()
    extra = {} if solver != "lbfgs" else {"alpha": 1e-3, "max_epochs": 50}
    model = fitted(form(X), FRUIT[y], solver=solver, classes=FRUIT[::-1], **extra)

    np.testing.assert_array_equal(model.classes_, FRUIT)
    proba = model.predict_proba(form(X))
    assert np.isfinite(proba).all()
    assert proba[:, 4:].max() < 0.1
    assert proba[:, 4:].mean() < 0.02


def test_it_starts_from_the_frequencies_and_half_a_row_for_a_class_without_any():
    X, y = make_data()
    weight = np.random.default_rng(0).random(y.size)
    still = {"alpha": 0.0, "learning_rate": 1e-12, "epoch_decay": 1.0, "max_epochs": 1}
    model = SoftmaxClassifier(classes=range(6), **still, random_state=0)
    model.fit(X, y, sample_weight=weight)

    share = np.append(np.bincount(y, weight / weight.mean()), [0.5, 0.5])
    np.testing.assert_allclose(model.predict_proba(X), [share / share.sum()] * y.size, rtol=1e-5)
    flat = model.set_params(init="zero").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(flat, 1 / 6, rtol=1e-5)


def test_rows_of_a_single_class_suffice_where_another_is_named():
    X, _ = make_data()
    model = fitted(X, ["apple"] * len(X), classes=["apple", "fig"])

    assert model.coef_.shape == (1, X.shape[1])
    assert set(model.predict(X)) == {"apple"}


@pytest.mark.parametrize("solver", STREAMING)
def test_class_weights_are_sample_weights(solver):
    X, y = make_data()
    weight = np.array([3.0, 1.0, 0.5, 2.0])
    by_class = fitted(X, y, solver=solver, class_weight=dict(enumerate(weight)))
    by_row = SoftmaxClassifier(solver=solver, alpha=0.0, random_state=0, max_epochs=5)
    by_row.fit(X, y, sample_weight=weight[y])

    assert_same_bits(by_class, by_row)


@pytest.mark.parametrize("classes", [None, [0, 1, 2, 3]])
def test_balanced_classes_all_weigh_the_same(classes):
    X, y = make_data()
    balanced = fitted(X, y, class_weight="balanced", classes=classes)
    by_row = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=5)
    by_row.fit(X, y, sample_weight=y.size / (4 * np.bincount(y)[y]))

    assert_same_bits(balanced, by_row)


def test_balanced_classes_may_be_more_than_those_that_occur():
    X, y = make_data()
    balanced = fitted(X, y, class_weight="balanced", classes=range(6))
    by_row = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=5, classes=range(6))
    by_row.fit(X, y, sample_weight=y.size / (4 * np.bincount(y)[y]))

    assert_same_bits(balanced, by_row)


def test_a_weight_of_2_is_a_row_given_twice():
    X, y = make_data(n=200)
    twice = np.arange(y.size) % 3 == 0
    weighted = best(X, y, weight=1.0 + twice, alpha=0.01)
    repeated = best(np.vstack([X, X[twice]]), np.append(y, y[twice]), alpha=0.01)

    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-5)


@pytest.mark.parametrize("solver", ["implicit", "exact", "sco"])
def test_weights_move_the_optimum_as_the_objective_says(solver):
    X, y = make_data(n=1000)
    weight = np.where(y == 1, 8.0, np.where(y == 2, 0.5, 1.0))
    optimum = objective(best(X, y, weight=weight, alpha=0.05), X, y, weight)
    unweighted = objective(best(X, y, alpha=0.05), X, y, weight)
    model = SoftmaxClassifier(solver=solver, alpha=0.05, max_epochs=50, random_state=0)
    model.fit(X, y, sample_weight=weight)

    assert objective(model, X, y, weight) - optimum < 0.1 * (unweighted - optimum)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_weight_of_0_is_a_row_left_out(solver, early_stopping):
    if solver == "lbfgs" and early_stopping:
        return
    X, y = make_data()
    weight = np.random.default_rng(1).integers(3, size=y.size).astype(float)
    kept = weight > 0
    parameters = {"solver": solver, "early_stopping": early_stopping, "alpha": 0.0, "max_epochs": 3}
    zero = SoftmaxClassifier(random_state=0, **parameters).fit(X, y, sample_weight=weight)
    dropped = SoftmaxClassifier(random_state=0, **parameters)
    dropped.fit(X[kept], y[kept], sample_weight=weight[kept])

    assert_same_bits(zero, dropped)


def test_the_unit_of_the_weights_does_not_matter():
    X, y = make_data()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    plain = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=3).fit(
        X, y, sample_weight=weight
    )
    scaled = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=3).fit(
        X, y, sample_weight=1024 * weight
    )

    assert_same_bits(plain, scaled)


# --------------------------------------------------------------------------- randomness and threads


@in_both_forms(STREAMING)
def test_the_same_seed_gives_the_same_bits(solver, form):
    X, y = make_data()
    first = fitted(form(X), y, solver=solver, max_epochs=2)

    for n_jobs in (None, 1):
        assert_same_bits(fitted(form(X), y, solver=solver, max_epochs=2, n_jobs=n_jobs), first)
    state = np.random.RandomState(0)
    assert_same_bits(fitted(form(X), y, solver=solver, max_epochs=2, random_state=state), first)
    other = fitted(form(X), y, solver=solver, max_epochs=2, random_state=1)
    assert not np.array_equal(other.coef_, first.coef_)


@pytest.mark.parametrize("solver", ["implicit", "umax"])
def test_threads_reach_about_the_same_loss(solver):
    X, y = many_classes(n=3000)
    rows = sp.csr_matrix(X)
    one, two = (
        fitted(rows, y, solver=solver, n_jobs=n_jobs, learning_rate=1.0).log_loss(X, y)
        for n_jobs in (1, 2)
    )

    assert abs(one - two) < 0.05 * np.log(90)


def test_threads_work_on_fewer_rows_than_threads():
    X, y = make_data(n=3, n_classes=3)
    for solver in ("implicit", "ove", "exact"):
        model = fitted(X, y, solver=solver, n_jobs=8)
        assert np.isfinite(model.coef_).all()


def test_threads_predict_the_same_bits():
    X, y = make_data(n_classes=20)
    model = fitted(X, y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).predict_proba(X), expected)


# --------------------------------------------------------------------------------------- robustness


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(-6.0, 6.0).map(lambda power: 10.0**power),
    longest=st.sampled_from([1.0, 1e6]),
    n_classes=st.sampled_from([2, 3, 20]),
    formulation=st.sampled_from(["difference", "raman"]),
)
def test_implicit_steps_never_diverge(form, rate, longest, n_classes, formulation):
    X, y = make_data(n=60, n_classes=n_classes)
    X[::7] = 0.0
    X[1] *= longest / np.linalg.norm(X[1])
    model = fitted(form(X), y, learning_rate=rate, formulation=formulation, max_epochs=3)

    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    log_proba = model.predict_log_proba(form(X))
    assert np.isfinite(log_proba).all()
    assert np.isfinite(model.log_loss(form(X), y))
    if longest == 1.0:  # a step goes no further than its own row asks for
        assert np.abs(log_proba).max() < 1e4


@pytest.mark.parametrize("solver", STREAMING)
@pytest.mark.parametrize("power", [-6, -3, 0, 3, 6])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_no_rate_gives_nan(solver, power, early_stopping):
    X, y = make_data(n=80, n_classes=3)
    model = SoftmaxClassifier(
        solver=solver,
        alpha=0.0,
        learning_rate=10.0**power,
        early_stopping=early_stopping,
        random_state=0,
    )
    try:
        model.set_params(max_epochs=5).fit(X, y)
    except DivergenceError:
        assert solver != "implicit"
        assert power >= 0
        assert not hasattr(model, "coef_")
        return
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_diverging_vanilla_steps_raise():
    X, y = make_data()
    model = SoftmaxClassifier(solver="vanilla", alpha=0.0, learning_rate=1e4, random_state=0)
    with pytest.raises(DivergenceError, match=r"learning_rate=10000: use a smaller learning_rate"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    "solver",
    thorough_unless(lambda solver: solver in ("implicit", "augment-reduce", "lbfgs"), SOLVERS),
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_empty_rows_teach_the_frequencies_of_the_classes(solver, n_classes):
    y = np.repeat(np.arange(n_classes), [10, 30, 60][:n_classes])
    X = sp.csr_matrix((y.size, 4))
    model = fitted(X, y, solver=solver, max_epochs=20)

    np.testing.assert_array_equal(model.coef_, 0.0)
    shares = np.bincount(y) / y.size
    if solver not in ("ove", "ove-adaptive", "nce", "importance"):
        np.testing.assert_allclose(model.predict_proba(X[:1])[0], shares, atol=0.05)


@pytest.mark.parametrize("solver", STREAMING)
def test_the_automatic_rate_does_not_diverge(solver):
    for seed in range(3):
        X, y = make_data(n=40, n_classes=3, seed=seed)
        model = fitted(30.0 * X, y, solver=solver, random_state=seed)
        assert model.log_loss(30.0 * X, y) < np.log(3)


@pytest.mark.parametrize("unit", [1e-3, 100.0])
def test_the_unit_of_the_features_hardly_matters(unit):
    X, y = make_data()
    plain = fitted(X, y, max_epochs=50)
    scaled = fitted(unit * X, y, max_epochs=50)

    np.testing.assert_allclose(scaled.log_loss(unit * X, y), plain.log_loss(X, y), rtol=0.02)


def test_more_examples_a_step_than_there_are_rows():
    X, y = make_data()
    model = fitted(X, y, solver="nce", examples_per_step=100_000)
    assert np.isfinite(model.coef_).all()


# ---------------------------------------------------------------------------------- forms of data


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["implicit", pytest.param("exact", marks=thorough)])
def test_precisions_agree(dtype, solver):
    X, y = make_data()
    given = [fitted(X.astype(kind), y, solver=solver, dtype=dtype, learning_rate=0.3)
             for kind in (np.float32, np.float64)]  # fmt: skip
    double = fitted(X, y, solver=solver, dtype="float64", learning_rate=0.3)

    for model in given:
        assert model.coef_.dtype == dtype
        # The implicit solver ends its inner search at a tolerance of 0.003 in single precision.
        np.testing.assert_allclose(model.coef_, double.coef_, atol=2e-3)
        assert model.predict_proba(X).dtype == np.float64


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_frames_give_the_same_as_arrays(module):
    library = pytest.importorskip(module)
    X, y = make_data()
    columns = [f"x{j}" for j in range(X.shape[1])]
    frame = library.DataFrame({name: X[:, j] for j, name in enumerate(columns)})
    labels = FRUIT[y].tolist()
    model = fitted(frame, library.Series(labels))

    assert_same_bits(model, fitted(X, np.array(labels)))
    assert list(model.feature_names_in_) == columns
    np.testing.assert_array_equal(model.predict_proba(frame), fitted(X, y).predict_proba(X))


@pytest.mark.parametrize("other", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_formats_give_the_same_as_csr(other):
    X, y = make_data()
    csr, same = fitted(sp.csr_matrix(X), y), fitted(other(X), y)

    assert_same_bits(csr, same)
    np.testing.assert_array_equal(same.predict(other(X)), csr.predict(sp.csr_matrix(X)))


@pytest.mark.parametrize("form", FORMS)
def test_sparse_and_dense_rows_give_nearly_the_same(form):
    X, y = make_data()
    model = fitted(form(X), y, learning_rate=0.3)

    np.testing.assert_allclose(model.coef_, fitted(X, y, learning_rate=0.3).coef_, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_given_is_not_written_to(form):
    X, y = make_data()
    data, weight = form(X.astype(np.float32)), np.ones(y.size)
    arrays = (data, y, weight) if form is np.asarray else (data.data, data.indices, y, weight)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    fitted(data, y).fit(data, y, weight).predict_top_k(data, 2)

    for array, was in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_many_classes_in_many_blocks():
    X, y = many_classes()
    model = fitted(sp.csr_matrix(X), y, max_epochs=20)

    assert model.coef_.shape == (90, 40)
    coef, intercept = parts_of(model)
    np.testing.assert_allclose(model.decision_function(X), X @ coef.T + intercept, atol=1e-4)
    assert model.score(X, y) > 0.9
