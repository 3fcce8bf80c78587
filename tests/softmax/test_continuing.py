"""Continuing a fit: partial_fit, rows that occur again, warm starts."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from monro import SoftmaxClassifier
from monro.errors import DivergenceError
from monro.softmax.training.continuation import (
    PartialState,
    keep_local_variables,
    restore_local_variables,
)
from tests.softmax.data import (
    FRUIT,
    SOLVERS,
    STREAMING,
    assert_same_bits,
    best,
    in_both_forms,
    make_data,
)

# ------------------------------------------------------------------------------------- partial_fit


def in_batches(model, X, y, parts, **arguments):
    for rows in np.array_split(np.arange(y.size), parts):
        model.partial_fit(X[rows], y[rows], **arguments)
    return model


@in_both_forms(STREAMING)
def test_batches_learn(solver, form):
    X, y = make_data(n=2000)
    optimum = best(X, y).log_loss(X, y)
    model = SoftmaxClassifier(solver=solver, alpha=0.0, random_state=0)
    in_batches(model, form(X), y, 10, classes=range(4))

    assert model.n_iter_ == len(model.history_) == 10
    assert [record["epoch"] for record in model.history_] == list(range(1, 11))
    assert model.log_loss(X, y) - optimum < 0.4 * (np.log(4) - optimum)


def test_the_rate_falls_with_the_rows_seen_not_with_the_calls():
    X, y = make_data(n=400)
    few = in_batches(SoftmaxClassifier(alpha=0.0, learning_rate=0.3, random_state=0), X, y, 4)
    many = SoftmaxClassifier(alpha=0.0, learning_rate=0.3, random_state=0).partial_fit(
        X[:100], y[:100]
    )
    in_batches(many, X[100:], y[100:], 30)

    np.testing.assert_allclose([r["rate"] for r in few.history_], 0.3 / np.sqrt([1, 2, 3, 4]))
    # After 100 rows and 20 batches of 10.
    np.testing.assert_allclose(many.history_[21]["rate"], 0.3 / np.sqrt(4))


@pytest.mark.parametrize("solver", ["implicit", "nce"])
def test_after_a_fit_the_rate_continues_to_fall(solver):
    X, y = make_data()
    model = SoftmaxClassifier(
        solver=solver, alpha=0.0, learning_rate=0.3, max_epochs=20, random_state=0
    )
    before = model.fit(X, y).log_loss(X, y)
    model.partial_fit(X, y).partial_fit(X, y)

    rates = [record["rate"] for record in model.history_[-2:]]
    fallen = 0.9**20 if solver != "implicit" else 1 / 21**2
    np.testing.assert_allclose(rates, 0.3 * fallen / np.sqrt([1, 2]))
    assert model.n_iter_ == 22
    # One more epoch at that rate changes little.
    np.testing.assert_allclose(model.log_loss(X, y), before, rtol=0.02)


def test_every_batch_draws_its_own_classes():
    """With a fixed seed batches must not all draw the same few classes."""
    X, y = make_data(n=400, n_classes=60)
    model = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=1.0, sampling="uniform")
    model.partial_fit(X[:1], y[:1], classes=range(60))
    before = model.coef_.copy()
    for k in range(1, 200):
        model.partial_fit(X[k : k + 1], y[k : k + 1])

    assert (model.coef_ != before).any(axis=1).sum() > 50


def test_new_classes_may_occur_at_any_time_and_in_any_order():
    X, y = make_data(n=600, n_classes=6)
    order = [3, 1, 4, 0, 5, 2]  # fig and lime first, apple and plum later
    known = []
    model = SoftmaxClassifier(alpha=0.0, random_state=0)
    for k in range(2, 7):
        now = np.isin(y, order[:k])
        model.partial_fit(X[now], FRUIT[y[now]])
        known = np.sort(FRUIT[order[:k]])
        np.testing.assert_array_equal(model.classes_, known)
        assert model.coef_.shape == (1 if k == 2 else k, X.shape[1])
        assert np.isfinite(model.predict_proba(X)).all()
    for _ in range(10):
        model.partial_fit(X, FRUIT[y])

    optimum = best(X, y).log_loss(X, y)
    assert model.log_loss(X, FRUIT[y]) - optimum < 0.3 * (np.log(6) - optimum)


def by_label(model):
    """Weights and intercept of each class."""
    return dict(zip(model.classes_, np.column_stack([model.coef_, model.intercept_]), strict=True))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("more", [1, 2, 3, 26])
def test_old_classes_keep_their_weights_when_new_ones_occur(form, more):
    X, y = make_data(n=200, n_classes=14)
    labels = np.array([f"{k:02}" for k in range(50)])
    model = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=1.0, max_epochs=2)
    model.fit(form(X), labels[3 * y + 1])
    model.set_params(learning_rate=1e-12)  # from here on nothing moves
    spare = np.setdiff1d(labels, model.classes_)
    for new in (spare[:more], spare[more : more + 2], spare[more + 2 : more + 3]):
        before, scores = by_label(model), model.decision_function(X)
        model.partial_fit(form(X[:1]), labels[3 * y[:1] + 1], classes=new)
        after = by_label(model)

        for label, weights in before.items():
            np.testing.assert_allclose(after[label], weights, atol=1e-6)
        lowest = min(weights[-1] for weights in before.values())
        for label in new:
            np.testing.assert_allclose(after[label], [0.0] * 5 + [lowest], atol=1e-6)
        columns = np.searchsorted(model.classes_, list(before))
        np.testing.assert_allclose(model.decision_function(X)[:, columns], scores, atol=1e-5)
        assert np.isfinite(model.predict_log_proba(X)).all()


def test_classes_may_be_named_at_the_first_call_or_as_a_parameter():
    X, y = make_data()
    called = SoftmaxClassifier(alpha=0.0, random_state=0).partial_fit(
        X, FRUIT[y], classes=FRUIT[::-1]
    )
    made = SoftmaxClassifier(alpha=0.0, random_state=0, classes=FRUIT.tolist()).partial_fit(
        X, FRUIT[y]
    )

    np.testing.assert_array_equal(called.classes_, FRUIT)
    assert_same_bits(called, made)
    assert called.predict_proba(X)[:, 4:].max() < 0.2


def test_a_batch_of_one_class_is_taken_where_another_is_known():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0)
    for label in range(4):
        model.partial_fit(X[y == label], y[y == label], classes=range(4))
    assert model.n_iter_ == 4


def test_a_weight_of_0_is_a_row_left_out_of_a_batch():
    X, y = make_data()
    weight = np.where(np.arange(y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    ids = np.arange(y.size)[::-1].copy()
    zero, dropped = (
        SoftmaxClassifier(alpha=0.0, random_state=0),
        SoftmaxClassifier(alpha=0.0, random_state=0),
    )
    for _ in range(3):  # and finds its own local variable again
        zero.partial_fit(X, y, range(4), sample_weight=weight, sample_id=ids)
        dropped.partial_fit(X[kept], y[kept], range(4), sample_id=ids[kept])

    assert_same_bits(zero, dropped)
    np.testing.assert_array_equal(zero._fitted.partial.ids, np.sort(ids[kept]))


def test_the_rows_of_each_class_are_counted_from_the_fit_on():
    X, y = make_data(n=300, n_classes=6)
    some = y < 4
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=1).fit(X[some], FRUIT[y[some]])
    model.partial_fit(X, FRUIT[y]).partial_fit(X[:50], FRUIT[y[:50]])

    seen = np.bincount(y[some], minlength=6) + np.bincount(y) + np.bincount(y[:50], minlength=6)
    np.testing.assert_array_equal(model._fitted.partial.counts[model._fitted.weights.slots], seen)


def test_weights_may_be_given_for_future_classes():
    X, y = make_data()
    weighted = SoftmaxClassifier(class_weight={3: 5.0, 1: 2.0}, alpha=0.0, random_state=0)
    by_row = SoftmaxClassifier(alpha=0.0, random_state=0)
    for now in (y < 3, y >= 0):
        weighted.partial_fit(X[now], y[now])
        by_row.partial_fit(X[now], y[now], sample_weight=np.array([1, 2, 1, 5.0])[y[now]])

    assert_same_bits(weighted, by_row)


def test_a_batch_whose_classes_all_weigh_0_changes_nothing():
    X, y = make_data()
    model = SoftmaxClassifier(class_weight={3: 0.0}, alpha=0.0, random_state=0).partial_fit(X, y)
    before = model.coef_
    model.partial_fit(X[y == 3], y[y == 3])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("first", [np.asarray, sp.csr_matrix])
def test_batches_may_be_sparse_or_dense(first):
    X, y = make_data()
    then = sp.csr_matrix if first is np.asarray else np.asarray
    mixed = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=0.3)
    mixed.partial_fit(first(X), y).partial_fit(then(X), y).partial_fit(first(X), y)
    pure = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=0.3)
    for _ in range(3):
        pure.partial_fit(X, y)

    np.testing.assert_allclose(mixed.coef_, pure.coef_, atol=1e-3)


def test_a_batch_that_runs_away_leaves_the_model_as_it_was():
    X, y = make_data()
    model = SoftmaxClassifier(solver="vanilla", alpha=0.0, learning_rate=0.03, random_state=0)
    model.partial_fit(X, y)
    before, witness = model.predict_log_proba(X), copy.deepcopy(model)
    with pytest.raises(DivergenceError):
        model.partial_fit(1e5 * X, y + 1)

    np.testing.assert_array_equal(model.classes_, range(4))
    np.testing.assert_array_equal(model.predict_log_proba(X), before)
    assert_same_bits(model.partial_fit(X, y), witness.partial_fit(X, y))


@pytest.mark.parametrize("solver", STREAMING)
def test_a_batch_continues_from_a_model_of_lbfgs(solver):
    X, y = make_data()
    model = SoftmaxClassifier(solver="lbfgs", alpha=0.0).fit(X, y)
    before = model.coef_
    model.set_params(solver=solver, learning_rate=1e-9).partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, before, atol=1e-5)


def test_a_fit_starts_anew_after_batches():
    X, y = make_data()
    model = (
        SoftmaxClassifier(alpha=0.0, random_state=0)
        .partial_fit(X, FRUIT[y], classes=FRUIT)
        .fit(X, y)
    )

    assert_same_bits(model, SoftmaxClassifier(alpha=0.0, random_state=0).fit(X, y))
    np.testing.assert_array_equal(model.classes_, range(4))
    assert model.n_iter_ == 50


def test_a_fit_that_fails_leaves_no_model_of_other_classes():
    X, y = make_data(n_classes=3)
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y)
    with pytest.raises(DivergenceError):
        model.set_params(solver="vanilla", learning_rate=1e6).fit(X, FRUIT[y])
    assert not hasattr(model, "coef_")
    model.set_params(solver="implicit", learning_rate=0.3).partial_fit(X, y)
    np.testing.assert_array_equal(model.classes_, range(3))
    assert model.n_iter_ == len(model.history_) == 1


def test_sparse_weights_do_not_learn():
    X, y = make_data()
    model = (
        SoftmaxClassifier(warm_start=True, alpha=0.0, random_state=0, max_epochs=2)
        .fit(X, y)
        .sparsify()
    )
    for learn in (model.partial_fit, model.fit):
        with pytest.raises(ValueError, match="the model is sparse: call densify"):
            learn(X, y)
    model.densify().partial_fit(X, y)
    model.fit(X, y)


# -------------------------------------------------------------------------------- rows that return


@settings(max_examples=100, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.integers(-5, 12), unique=True, max_size=8),
        max_size=6,
    )
)
def test_local_variables_are_restored_to_their_rows(batches):
    kept = {}
    stream = PartialState(*(np.zeros(0) for _ in range(3)), np.zeros(0, np.int64), np.zeros(0))
    for number, batch in enumerate(batches):
        ids = np.array(batch, np.int64)
        u = np.full(ids.size, -1.0)
        restore_local_variables(stream, ids, u)
        assert u.tolist() == [kept.get(k, -1.0) for k in batch]
        u = 100.0 * number + ids
        stream = keep_local_variables(stream, ids, u)
        kept |= dict(zip(batch, u.tolist(), strict=True))
        assert stream.ids.tolist() == sorted(kept)
        assert stream.u.tolist() == [kept[k] for k in sorted(kept)]


def test_a_row_that_returns_continues_with_its_local_variable():
    X, y = make_data()
    ids = np.random.default_rng(0).permutation(10 * y.size)[: y.size]
    model = SoftmaxClassifier(alpha=0.0, random_state=0, learning_rate=1e-12, sampling="frequency")
    model.partial_fit(X, y, sample_id=ids)
    marked = np.linspace(1.0, 2.0, y.size).astype(np.float32)
    kept = keep_local_variables(model._fitted.partial, ids, marked)
    model._fitted = model._fitted._replace(partial=kept)
    again = np.random.default_rng(1).permutation(y.size)[:50]
    model.partial_fit(X[again], y[again], sample_id=ids[again])

    known = dict(zip(model._fitted.partial.ids, model._fitted.partial.u, strict=True))
    # The rate is so small that what was put there is still there.
    np.testing.assert_allclose([known[k] for k in ids], marked, atol=1e-6)


def test_rows_without_an_id_are_not_stored():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0).partial_fit(X, y)
    assert model._fitted.partial.ids.size == 0


# -------------------------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("solver", ["implicit", "umax", "sco", "exact", "ove"])
def test_five_warm_fits_are_as_good_as_one_five_times_as_long(solver):
    X, y = make_data(n=1000)
    parameters = {"solver": solver, "alpha": 0.0, "learning_rate": 0.1 if solver != "ove" else 3.0}
    parameters["epoch_decay"] = 0.9
    whole = SoftmaxClassifier(**parameters, max_epochs=10, random_state=0).fit(X, y)
    parts = SoftmaxClassifier(**parameters, max_epochs=2, warm_start=True, random_state=0)
    rates = []
    for _ in range(5):
        parts.fit(X, y)
        rates += [record["rate"] for record in parts.history_]

    np.testing.assert_allclose(rates, [record["rate"] for record in whole.history_])
    start, optimum = np.log(4), best(X, y).log_loss(X, y)
    gap = abs(parts.log_loss(X, y) - whole.log_loss(X, y))
    assert gap < 0.02 * (start - optimum)


def test_warm_fits_choose_a_rate_once():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, max_epochs=2, warm_start=True, random_state=0).fit(X, y)
    rate = model.learning_rate_
    model.fit(X[:50], y[:50])
    assert model.learning_rate_ == rate


@pytest.mark.parametrize("change", [{}, {"formulation": "raman"}, {"solver": "exact"}])
def test_a_warm_fit_continues_with_other_rows_and_other_steps(change):
    X, y = make_data(n=400)
    model = SoftmaxClassifier(warm_start=True, alpha=0.0, max_epochs=50, random_state=0).fit(X, y)
    before = model.log_loss(X, y)
    # As many rows, in another order: their local variables are others.
    order = np.random.default_rng(0).permutation(400)
    model.set_params(max_epochs=1, **change).fit(X[order], y[order])

    np.testing.assert_allclose(model.log_loss(X, y), before, rtol=0.02)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_fit_of_every_solver_stays_near_a_solution(solver):
    X, y = make_data(n=400)
    model = SoftmaxClassifier(solver="lbfgs", warm_start=True, alpha=0.0, random_state=0).fit(X, y)
    before = model.coef_
    rate = {} if solver in ("lbfgs", "coordinate") else {"learning_rate": 1e-6}
    model.set_params(solver=solver, max_epochs=2, **rate).fit(X, y)
    np.testing.assert_allclose(model.coef_, before, atol=2e-3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("width", [3, 9])
def test_a_warm_fit_on_other_features_is_refused_and_changes_nothing(form, width):
    X, y = make_data()
    model = SoftmaxClassifier(warm_start=True, alpha=0.0, random_state=0, max_epochs=2).fit(
        form(X), y
    )
    expected = model.predict_proba(X)
    other = np.hstack([X, X])[:, :width]
    with pytest.raises(ValueError, match=f"X has {width} features, but .* expecting 5"):
        model.fit(form(other), y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_a_warm_fit_on_other_classes_is_refused():
    X, y = make_data()
    model = SoftmaxClassifier(warm_start=True, alpha=0.0, random_state=0, max_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start: the classes of y differ.*partial_fit"):
        model.fit(X, FRUIT[y])
    assert model.predict(X).dtype.kind == "i"
