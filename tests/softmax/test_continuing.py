"""History, stopping, callbacks, and going on: partial_fit, warm starts, copies, files."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import GridSearchCV

import monro
from monro import SoftmaxClassifier, persist
from monro.errors import DivergenceError, ModelFileError
from monro.softmax.stream import Stream, recall, remember
from tests.softmax.data import (
    FRUIT,
    SOLVERS,
    STREAMING,
    Callback,
    assert_same_bits,
    best,
    make_data,
    many_classes,
)

# ----------------------------------------------------------------------------- history and stopping


def test_history_tells_each_epoch():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0, max_epochs=4, epoch_decay=0.5).fit(X, y)

    assert model.n_iter_ == 4
    assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4]
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)
    assert set(model.history_[0]) == {"epoch", "seconds", "loss", "rate", "chosen"}
    assert all(set(r) == {"epoch", "seconds", "loss", "rate"} for r in model.history_[1:])
    rates = [record["rate"] for record in model.history_]
    np.testing.assert_allclose(rates, model.learning_rate_ * 0.5 ** np.arange(4))
    losses = [record["loss"] for record in model.history_]
    assert losses[-1] < losses[0]


def test_the_plan_tells_what_was_chosen():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0, max_epochs=1).fit(X, y)

    assert model.plan_["eta0"] == model.learning_rate_
    assert model.plan_["decay"] is None
    assert (model.plan_["examples"], model.plan_["classes"]) == (1, 4)
    assert model.plan_["sampling"] == "all"
    assert model.plan_["formulation"] == "raman"
    assert model.plan_["stiffness"] == 0.0
    assert SoftmaxClassifier(solver="lbfgs").fit(X, y).learning_rate_ is None


def test_the_plan_for_many_classes():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0, max_epochs=1, classes=range(1000)).fit(X, y)

    assert model.plan_["sampling"] == "neighbour"
    assert model.plan_["classes"] == 192  # 12 of 63 blocks
    assert model.plan_["formulation"] == "raman"
    assert model.plan_["stiffness"] > 0.0
    cold = SoftmaxClassifier(random_state=0, max_epochs=1, classes=range(1000), init="zero")
    assert cold.fit(X, y).plan_["formulation"] == "difference"


def test_the_first_record_says_what_was_chosen_and_why():
    X, y = make_data()
    few = SoftmaxClassifier(random_state=0, max_epochs=1).fit(X, y).history_[0]["chosen"]
    assert "sampling: all 4 classes at every step, for they are few" in few
    assert "formulation: raman" in few
    assert "trials" in few
    model = SoftmaxClassifier(random_state=0, max_epochs=1, classes=range(1000)).fit(X, y)
    many = model.history_[0]["chosen"]
    assert "192 of 1,000 classes a step, by neighbours' labels and by frequency" in many
    assert "init: the log frequencies" in many
    told = SoftmaxClassifier(
        sampling="block", formulation="difference", init="zero", learning_rate=1.0, max_epochs=1
    )
    assert "chosen" not in told.fit(X, y).history_[0]


def test_the_rate_falls_to_0_with_the_square_of_the_time_left():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0, learning_rate=3.0, max_epochs=5).fit(X, y)
    rates = [record["rate"] for record in model.history_]
    np.testing.assert_allclose(rates, 3.0 * (1 - np.arange(5) / 5) ** 2)
    again = model.set_params(warm_start=True).fit(X, y)  # as the end of ten epochs
    rates = [record["rate"] for record in again.history_]
    np.testing.assert_allclose(rates, 3.0 * (1 - np.arange(5, 10) / 10) ** 2)


def test_without_tol_all_epochs_are_taken():
    X, y = make_data()
    assert SoftmaxClassifier(random_state=0, max_epochs=30).fit(X, y).n_iter_ == 30


def test_tol_stops_after_3_epochs_without_improvement():
    X, y = make_data()
    tol = 1e-3
    model = SoftmaxClassifier(tol=tol, max_epochs=200, random_state=0).fit(X, y)
    values = np.array([record["log_loss"] for record in model.history_])

    assert model.n_iter_ == len(values) < 200
    best_so_far = np.minimum.accumulate(values)
    improved = np.append(True, values[1:] < best_so_far[:-1] - tol)
    assert not improved[-3:].any()
    assert all(improved[k : k + 3].any() for k in range(len(values) - 3))
    # With as few rows as these the log-loss watched is that of all of them.
    np.testing.assert_allclose(values[-1], model.log_loss(X, y), rtol=1e-6)


def test_tol_ends_the_iterations_of_lbfgs():
    X, y = make_data()
    early = SoftmaxClassifier(solver="lbfgs", tol=1e-3).fit(X, y)
    assert (
        early.n_iter_ == len(early.history_) < SoftmaxClassifier(solver="lbfgs").fit(X, y).n_iter_
    )


@pytest.mark.parametrize("solver", ["implicit", "exact", "ove"])
def test_early_stopping_restores_the_best_epoch(solver):
    X, y = make_data(n=80, d=40)
    parameters = {
        "solver": solver,
        "early_stopping": True,
        "validation_fraction": 0.3,
        "epoch_decay": 1.0,
        "learning_rate": 0.3 if solver != "ove" else 30.0,
        "random_state": 0,
    }
    model = SoftmaxClassifier(**parameters, max_epochs=200).fit(X, y)
    losses = [record["validation_loss"] for record in model.history_]
    at_best = int(np.argmin(losses)) + 1

    assert at_best < model.n_iter_ == len(losses) < 200
    assert_same_bits(model, SoftmaxClassifier(**parameters, max_epochs=at_best).fit(X, y))


def test_the_validation_loss_is_of_rows_held_out():
    rng = np.random.default_rng(0)
    # Noise on many features: what is trained on can be fitted, what is held out cannot.
    X, y = rng.normal(size=(100, 300)), rng.integers(4, size=100)
    model = SoftmaxClassifier(
        early_stopping=True, tol=0.0, learning_rate=0.1, max_epochs=5, random_state=0
    ).fit(X, y)

    assert model.history_[-1]["validation_loss"] > np.log(4)
    assert model.history_[-1]["log_loss"] < 0.5


def test_early_stopping_where_classes_are_too_many_to_be_held_out_evenly():
    X, y = many_classes(n=200)
    model = SoftmaxClassifier(early_stopping=True, random_state=0, max_epochs=3).fit(X, y)
    assert model.classes_.size == 90
    assert np.isfinite(model.predict_proba(X)).all()


# ---------------------------------------------------------------------------------------- callbacks


class Recorder(Callback):
    def __init__(self, stop_at=None):
        self.events = []
        self.stop_at = stop_at

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name, context.task_id))
        return context.task_name == "epoch" and context.task_id == self.stop_at


def expected_events(epochs):
    events = [("setup", "fit"), ("begin", "fit", 0)]
    for k in range(epochs):
        events += [("begin", "epoch", k), ("end", "epoch", k)]
    return [*events, ("end", "fit", 0), ("teardown", "fit")]


def test_callbacks_see_each_epoch_begin_and_end():
    X, y = make_data()
    recorder = Recorder()
    SoftmaxClassifier(max_epochs=3).set_callbacks(recorder).fit(X, y)
    assert recorder.events == expected_events(3)


def test_callbacks_see_lbfgs_begin_and_end():
    X, y = make_data()
    recorder = Recorder()
    SoftmaxClassifier(solver="lbfgs").set_callbacks(recorder).fit(X, y)
    assert recorder.events == expected_events(0)


def test_a_callback_can_stop_the_fit():
    X, y = make_data()
    recorder = Recorder(stop_at=1)
    parameters = {"random_state": 0, "learning_rate": 0.3, "epoch_decay": 0.9}
    model = SoftmaxClassifier(**parameters).set_callbacks(recorder).fit(X, y)

    assert model.n_iter_ == len(model.history_) == 2
    assert recorder.events == expected_events(2)
    assert_same_bits(model, SoftmaxClassifier(**parameters, max_epochs=2).fit(X, y))


class Predictions(Callback):
    """Keeps what the estimator of each task predicts, and the labels it was given."""

    def __init__(self):
        self.predicted = []
        self.targets = []

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.predicted.append(fitted_estimator.predict_proba(X))
        self.targets.append(y)


@pytest.mark.parametrize("solver", ["implicit", "exact", "lbfgs"])
def test_callbacks_get_an_estimator_as_if_the_fit_had_stopped(solver):
    X, y = make_data()
    seen = Predictions()
    parameters = {"solver": solver, "random_state": 0}
    if solver != "lbfgs":
        parameters |= {"learning_rate": 0.3, "epoch_decay": 0.9}
    SoftmaxClassifier(**parameters, max_epochs=3).set_callbacks(seen).fit(X, FRUIT[y])

    epochs = [1, 2, 3, 3] if solver != "lbfgs" else [3]
    for predicted, targets, k in zip(seen.predicted, seen.targets, epochs, strict=True):
        stopped = SoftmaxClassifier(**parameters, max_epochs=k).fit(X, FRUIT[y])
        np.testing.assert_array_equal(predicted, stopped.predict_proba(X))
        np.testing.assert_array_equal(targets, FRUIT[y])


def test_scoring_monitor_scores_each_epoch():
    X, y = make_data()
    monitor = ScoringMonitor(scoring="neg_log_loss")
    SoftmaxClassifier(max_epochs=3, random_state=0).set_callbacks(monitor).fit(X, y)
    assert len(monitor.get_logs().data_as_pandas) >= 3


def test_verbose_prints_a_plain_line_an_epoch_to_standard_error(capsys):
    X, y = make_data()
    model = SoftmaxClassifier(verbose=1, max_epochs=3, random_state=0).fit(X, y)
    out, err = capsys.readouterr()
    lines = err.strip().splitlines()

    assert out == ""
    assert "\x1b" not in err
    assert lines[0] == f"implicit: {model.history_[0]['chosen']}"
    for line, record in zip(lines[1:], model.history_, strict=True):
        assert line.startswith(f"implicit: epoch {record['epoch']}/3")
        assert f"{record['log_loss']:.5g}" in line


def test_nothing_is_printed_unless_asked_for(capfd):
    X, y = make_data()
    SoftmaxClassifier(tol=1e-3, early_stopping=True, max_epochs=3).fit(X, y)
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------------------------- partial_fit


def in_batches(model, X, y, parts, **arguments):
    for rows in np.array_split(np.arange(y.size), parts):
        model.partial_fit(X[rows], y[rows], **arguments)
    return model


@pytest.mark.parametrize("solver", STREAMING)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_batches_learn(solver, form):
    X, y = make_data(n=2000)
    optimum = best(X, y).log_loss(X, y)
    model = SoftmaxClassifier(solver=solver, random_state=0)
    in_batches(model, form(X), y, 10, classes=range(4))

    assert model.n_iter_ == len(model.history_) == 10
    assert [record["epoch"] for record in model.history_] == list(range(1, 11))
    assert model.log_loss(X, y) - optimum < 0.4 * (np.log(4) - optimum)


def test_the_rate_falls_with_the_rows_seen_not_with_the_calls():
    X, y = make_data(n=400)
    few = in_batches(SoftmaxClassifier(learning_rate=0.3, random_state=0), X, y, 4)
    many = SoftmaxClassifier(learning_rate=0.3, random_state=0).partial_fit(X[:100], y[:100])
    in_batches(many, X[100:], y[100:], 30)

    np.testing.assert_allclose([r["rate"] for r in few.history_], 0.3 / np.sqrt([1, 2, 3, 4]))
    # After 100 rows and 20 batches of 10.
    np.testing.assert_allclose(many.history_[21]["rate"], 0.3 / np.sqrt(4))


@pytest.mark.parametrize("solver", ["implicit", "nce"])
def test_after_a_fit_the_rate_goes_on_falling(solver):
    X, y = make_data()
    model = SoftmaxClassifier(solver=solver, learning_rate=0.3, max_epochs=20, random_state=0)
    before = model.fit(X, y).log_loss(X, y)
    model.partial_fit(X, y).partial_fit(X, y)

    rates = [record["rate"] for record in model.history_[-2:]]
    fallen = 0.9**20 if solver != "implicit" else 1 / 21**2
    np.testing.assert_allclose(rates, 0.3 * fallen / np.sqrt([1, 2]))
    assert model.n_iter_ == 22
    # One more epoch at that rate changes little.
    np.testing.assert_allclose(model.log_loss(X, y), before, rtol=0.02)


def test_every_batch_draws_its_own_classes():
    """A seed must not make each batch meet the same few classes: the others would never fall."""
    X, y = make_data(n=400, n_classes=60)
    model = SoftmaxClassifier(random_state=0, learning_rate=1.0, sampling="uniform")
    model.partial_fit(X[:1], y[:1], classes=range(60))
    before = model.coef_.copy()
    for k in range(1, 200):
        model.partial_fit(X[k : k + 1], y[k : k + 1])

    assert (model.coef_ != before).any(axis=1).sum() > 50


def test_new_classes_come_at_any_time_and_in_any_order():
    X, y = make_data(n=600, n_classes=6)
    order = [3, 1, 4, 0, 5, 2]  # fig and lime first, apple and plum later
    known = []
    model = SoftmaxClassifier(random_state=0)
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
def test_old_classes_keep_their_weights_when_new_ones_come(form, more):
    X, y = make_data(n=200, n_classes=14)
    labels = np.array([f"{k:02}" for k in range(50)])
    model = SoftmaxClassifier(random_state=0, learning_rate=1.0, max_epochs=2)
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
    called = SoftmaxClassifier(random_state=0).partial_fit(X, FRUIT[y], classes=FRUIT[::-1])
    made = SoftmaxClassifier(random_state=0, classes=FRUIT.tolist()).partial_fit(X, FRUIT[y])

    np.testing.assert_array_equal(called.classes_, FRUIT)
    assert_same_bits(called, made)
    assert called.predict_proba(X)[:, 4:].max() < 0.2


def test_a_batch_of_one_class_is_taken_where_another_is_known():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0)
    for label in range(4):
        model.partial_fit(X[y == label], y[y == label], classes=range(4))
    assert model.n_iter_ == 4


def test_a_weight_of_0_is_a_row_left_out_of_a_batch():
    X, y = make_data()
    weight = np.where(np.arange(y.size) % 4 == 0, 0.0, 1.0)
    kept = weight > 0
    ids = np.arange(y.size)[::-1].copy()
    zero, dropped = SoftmaxClassifier(random_state=0), SoftmaxClassifier(random_state=0)
    for _ in range(3):  # and finds its own local variable again
        zero.partial_fit(X, y, range(4), sample_weight=weight, sample_id=ids)
        dropped.partial_fit(X[kept], y[kept], range(4), sample_id=ids[kept])

    assert_same_bits(zero, dropped)
    np.testing.assert_array_equal(zero._stream.ids, np.sort(ids[kept]))


def test_the_rows_of_each_class_are_counted_from_the_fit_on():
    X, y = make_data(n=300, n_classes=6)
    some = y < 4
    model = SoftmaxClassifier(random_state=0, max_epochs=1).fit(X[some], FRUIT[y[some]])
    model.partial_fit(X, FRUIT[y]).partial_fit(X[:50], FRUIT[y[:50]])

    seen = np.bincount(y[some], minlength=6) + np.bincount(y) + np.bincount(y[:50], minlength=6)
    np.testing.assert_array_equal(model._stream.counts[model._weights.slots], seen)


def test_weights_may_be_given_for_classes_to_come():
    X, y = make_data()
    weighted = SoftmaxClassifier(class_weight={3: 5.0, 1: 2.0}, random_state=0)
    by_row = SoftmaxClassifier(random_state=0)
    for now in (y < 3, y >= 0):
        weighted.partial_fit(X[now], y[now])
        by_row.partial_fit(X[now], y[now], sample_weight=np.array([1, 2, 1, 5.0])[y[now]])

    assert_same_bits(weighted, by_row)


def test_a_batch_whose_classes_all_weigh_0_changes_nothing():
    X, y = make_data()
    model = SoftmaxClassifier(class_weight={3: 0.0}, random_state=0).partial_fit(X, y)
    before = model.coef_
    model.partial_fit(X[y == 3], y[y == 3])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("first", [np.asarray, sp.csr_matrix])
def test_batches_may_be_sparse_or_dense(first):
    X, y = make_data()
    then = sp.csr_matrix if first is np.asarray else np.asarray
    mixed = SoftmaxClassifier(random_state=0, learning_rate=0.3)
    mixed.partial_fit(first(X), y).partial_fit(then(X), y).partial_fit(first(X), y)
    pure = SoftmaxClassifier(random_state=0, learning_rate=0.3)
    for _ in range(3):
        pure.partial_fit(X, y)

    np.testing.assert_allclose(mixed.coef_, pure.coef_, atol=1e-3)


def test_a_batch_that_runs_away_leaves_the_model_as_it_was():
    X, y = make_data()
    model = SoftmaxClassifier(solver="vanilla", learning_rate=0.03, random_state=0)
    model.partial_fit(X, y)
    before, witness = model.predict_log_proba(X), copy.deepcopy(model)
    with pytest.raises(DivergenceError):
        model.partial_fit(1e5 * X, y + 1)

    np.testing.assert_array_equal(model.classes_, range(4))
    np.testing.assert_array_equal(model.predict_log_proba(X), before)
    assert_same_bits(model.partial_fit(X, y), witness.partial_fit(X, y))


@pytest.mark.parametrize("solver", STREAMING)
def test_a_batch_goes_on_from_a_model_of_lbfgs(solver):
    X, y = make_data()
    model = SoftmaxClassifier(solver="lbfgs").fit(X, y)
    before = model.coef_
    model.set_params(solver=solver, learning_rate=1e-9).partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, before, atol=1e-5)


def test_a_fit_starts_anew_after_batches():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0).partial_fit(X, FRUIT[y], classes=FRUIT).fit(X, y)

    assert_same_bits(model, SoftmaxClassifier(random_state=0).fit(X, y))
    np.testing.assert_array_equal(model.classes_, range(4))
    assert model.n_iter_ == 50


def test_a_fit_that_fails_leaves_no_model_of_other_classes():
    X, y = make_data(n_classes=3)
    model = SoftmaxClassifier(random_state=0, max_epochs=2).fit(X, y)
    with pytest.raises(DivergenceError):
        model.set_params(solver="vanilla", learning_rate=1e6).fit(X, FRUIT[y])
    assert not hasattr(model, "coef_")
    model.set_params(solver="implicit", learning_rate=0.3).partial_fit(X, y)
    np.testing.assert_array_equal(model.classes_, range(3))
    assert model.n_iter_ == len(model.history_) == 1


def test_sparse_weights_do_not_learn():
    X, y = make_data()
    model = SoftmaxClassifier(warm_start=True, random_state=0, max_epochs=2).fit(X, y).sparsify()
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
def test_local_variables_come_back_to_their_rows(batches):
    kept = {}
    stream = Stream(*(np.zeros(0) for _ in range(3)), np.zeros(0, np.int64), np.zeros(0))
    for number, batch in enumerate(batches):
        ids = np.array(batch, np.int64)
        u = np.full(ids.size, -1.0)
        recall(stream, ids, u)
        assert u.tolist() == [kept.get(k, -1.0) for k in batch]
        u = 100.0 * number + ids
        stream = remember(stream, ids, u)
        kept |= dict(zip(batch, u.tolist(), strict=True))
        assert stream.ids.tolist() == sorted(kept)
        assert stream.u.tolist() == [kept[k] for k in sorted(kept)]


def test_a_row_that_returns_goes_on_with_its_own_local_variable():
    X, y = make_data()
    ids = np.random.default_rng(0).permutation(10 * y.size)[: y.size]
    model = SoftmaxClassifier(random_state=0, learning_rate=1e-12, sampling="frequency")
    model.partial_fit(X, y, sample_id=ids)
    marked = np.linspace(1.0, 2.0, y.size).astype(np.float32)
    model._stream = remember(model._stream, ids, marked)
    again = np.random.default_rng(1).permutation(y.size)[:50]
    model.partial_fit(X[again], y[again], sample_id=ids[again])

    known = dict(zip(model._stream.ids, model._stream.u, strict=True))
    # The rate is so small that what was put there is still there.
    np.testing.assert_allclose([known[k] for k in ids], marked, atol=1e-6)


def test_rows_without_a_name_are_not_remembered():
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0).partial_fit(X, y)
    assert model._stream.ids.size == 0


# -------------------------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("solver", ["implicit", "umax", "sco", "exact", "ove"])
def test_five_warm_fits_are_as_good_as_one_five_times_as_long(solver):
    X, y = make_data(n=1000)
    parameters = {"solver": solver, "learning_rate": 0.1 if solver != "ove" else 3.0}
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
    model = SoftmaxClassifier(max_epochs=2, warm_start=True, random_state=0).fit(X, y)
    rate = model.learning_rate_
    model.fit(X[:50], y[:50])
    assert model.learning_rate_ == rate


@pytest.mark.parametrize("change", [{}, {"formulation": "raman"}, {"solver": "exact"}])
def test_a_warm_fit_goes_on_with_other_rows_and_other_steps(change):
    X, y = make_data(n=400)
    model = SoftmaxClassifier(warm_start=True, max_epochs=50, random_state=0).fit(X, y)
    before = model.log_loss(X, y)
    # As many rows, in another order: their local variables are others.
    order = np.random.default_rng(0).permutation(400)
    model.set_params(max_epochs=1, **change).fit(X[order], y[order])

    np.testing.assert_allclose(model.log_loss(X, y), before, rtol=0.02)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_fit_of_every_solver_stays_near_a_solution(solver):
    X, y = make_data(n=400)
    model = SoftmaxClassifier(solver="lbfgs", warm_start=True, random_state=0).fit(X, y)
    before = model.coef_
    rate = {} if solver == "lbfgs" else {"learning_rate": 1e-6}
    model.set_params(solver=solver, max_epochs=2, **rate).fit(X, y)
    np.testing.assert_allclose(model.coef_, before, atol=2e-3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("width", [3, 9])
def test_a_warm_fit_on_other_features_is_refused_and_spoils_nothing(form, width):
    X, y = make_data()
    model = SoftmaxClassifier(warm_start=True, random_state=0, max_epochs=2).fit(form(X), y)
    expected = model.predict_proba(X)
    other = np.hstack([X, X])[:, :width]
    with pytest.raises(ValueError, match=f"X has {width} features, but .* expecting 5"):
        model.fit(form(other), y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_a_warm_fit_on_other_classes_is_refused():
    X, y = make_data()
    model = SoftmaxClassifier(warm_start=True, random_state=0, max_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start: the classes of y differ.*partial_fit"):
        model.fit(X, FRUIT[y])
    assert model.predict(X).dtype.kind == "i"


# --------------------------------------------------------------------------------- copies and files


def saved(model, folder):
    path = folder / "model.monro"
    model.save(path)
    return path


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
@pytest.mark.parametrize("solver", ["implicit", "umax"])
def test_a_copy_does_not_train_along(make, solver):
    X, y = make_data()
    model = SoftmaxClassifier(solver=solver, random_state=0, max_epochs=2, warm_start=True)
    model.fit(X, y).partial_fit(X, y, sample_id=np.arange(y.size))
    before = model.coef_
    other = make(model)
    for _ in range(2):
        other.partial_fit(X, y, sample_id=np.arange(y.size))
    other.fit(X, y)

    np.testing.assert_array_equal(model.coef_, before)
    assert not np.array_equal(other.coef_, before)
    witness = copy.deepcopy(model)
    assert_same_bits(model.partial_fit(X, y), witness.partial_fit(X, y))


def test_a_clone_has_the_parameters_and_nothing_else():
    X, y = make_data()
    model = SoftmaxClassifier(solver="umax", radius=3.0, classes=[0, 1, 2, 3], random_state=3)
    copied = clone(model.fit(X, y))

    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "coef_")
    assert_same_bits(copied.fit(X, y), model)


def test_grid_search_prefers_the_ridge_that_predicts_best():
    X, y = make_data(n=120, d=30)
    model = SoftmaxClassifier(max_epochs=10, random_state=0)
    search = GridSearchCV(model, {"alpha": [1e-6, 0.05, 1e3]}, cv=3, scoring="neg_log_loss")
    assert search.fit(X, y).best_params_ == {"alpha": 0.05}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_model_comes_back_as_it_was(tmp_path, solver, form):
    X, y = make_data()
    model = SoftmaxClassifier(
        solver=solver, classes=FRUIT[[0, 3, 1, 2, 5]], class_weight={"fig": 2.0}, random_state=3
    )
    model.set_params(max_epochs=3).fit(form(X), FRUIT[y])
    same = monro.load(saved(model, tmp_path))

    assert type(same) is SoftmaxClassifier
    parameters = model.get_params() | {"classes": FRUIT[[0, 3, 1, 2, 5]].tolist()}
    assert same.get_params() == parameters
    assert_same_bits(same, model)
    for name in ("history_", "n_iter_", "learning_rate_", "n_features_in_", "_epochs"):
        assert getattr(same, name, None) == getattr(model, name, None)
    assert str(same.plan_) == str(model.plan_)  # of lbfgs the rate is NaN
    np.testing.assert_array_equal(same.classes_, model.classes_)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("solver", STREAMING)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_training_goes_on_from_a_loaded_model(tmp_path, solver, form):
    X, y = make_data()
    rows = form(X)
    model = SoftmaxClassifier(solver=solver, random_state=0, max_epochs=2).fit(rows, y)
    for _ in range(2):
        same = monro.load(saved(model, tmp_path))
        # Known rows, new rows, and a new class.
        for _ in range(2):
            for each in (model, same):
                each.partial_fit(rows[:200], y[:200], sample_id=np.arange(200))
            assert_same_bits(same, model)
        for each in (model, same):
            each.partial_fit(rows[200:], y[200:] + 1)
        assert_same_bits(same, model)
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("solver", ["implicit", "lbfgs"])
def test_a_warm_start_goes_on_from_a_loaded_model(tmp_path, solver):
    X, y = make_data()
    model = SoftmaxClassifier(solver=solver, warm_start=True, random_state=0, max_epochs=3)
    model.fit(X, y)
    same = monro.load(saved(model, tmp_path))
    assert_same_bits(same.fit(X, y), model.fit(X, y))


def test_sparse_weights_come_back_sparse(tmp_path):
    X, y = make_data()
    model = SoftmaxClassifier(random_state=0, max_epochs=2).fit(X, y).sparsify()
    same = monro.load(saved(model, tmp_path))

    assert sp.issparse(same.coef_)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert_same_bits(same.densify(), model.densify())


def test_the_labels_of_a_series_are_saved(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = make_data()
    model = SoftmaxClassifier(classes=pd.Series(FRUIT), random_state=0, max_epochs=2)
    same = monro.load(saved(model.fit(X, FRUIT[y]), tmp_path))
    assert same.classes == FRUIT.tolist()


# ----------------------------------------------------------------------------------- damaged files


@pytest.fixture(params=["dense", "sparse", "sparsified", "lbfgs"])
def contents(request, tmp_path):
    X, y = make_data()
    rows = sp.csr_matrix(X) if request.param == "sparse" else X
    model = SoftmaxClassifier(random_state=0, max_epochs=2, warm_start=True).fit(rows, y)
    if request.param == "lbfgs":
        model = SoftmaxClassifier(solver="lbfgs", max_epochs=2).fit(X, y)
    elif request.param == "sparsified":
        model.sparsify()
    else:
        model.partial_fit(rows, y, sample_id=np.arange(y.size)[::-1]).fit(rows, y)
        model.partial_fit(rows, y, sample_id=np.arange(y.size)[::-1])
        model._local = "some rows", np.ones(3, np.float32)
    path = saved(model, tmp_path)
    assert_same_bits(monro.load(path), model) if request.param != "sparsified" else None
    return path, persist.read(path, "model")


def assert_damaged(path, contents):
    persist.write(path, "model", contents)
    with pytest.raises(ModelFileError, match="the file is damaged") as caught:
        monro.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_without_one_of_its_arrays_is_refused(contents):
    path, (arrays, about) = contents
    for name in arrays:
        rest = {key: array for key, array in arrays.items() if key != name}
        assert_damaged(path, persist.Contents(rest, about))


def test_a_file_with_an_array_of_another_shape_is_refused(contents):
    path, (arrays, about) = contents
    for name, array in arrays.items():
        for other in (array[:-1], np.append(array.ravel(), array.ravel()[:1]), array[None]):
            # Local variables are compared with the rows at hand, later.
            if name != "local" and other.shape != array.shape:
                assert_damaged(path, persist.Contents(arrays | {name: other}, about))


def test_a_file_with_an_array_of_no_numbers_is_refused(contents):
    path, (arrays, about) = contents
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size:
            bad = array.copy()
            bad.ravel()[-1] = np.nan
            assert_damaged(path, persist.Contents(arrays | {name: bad}, about))
        elif array.size > 1 and name not in ("stream.counts", "stream.rows"):
            assert_damaged(path, persist.Contents(arrays | {name: 0 * array}, about))


def test_a_file_with_another_description_is_refused(contents):
    path, (arrays, about) = contents
    for key in ("parameters", "fitted"):
        rest = {k: v for k, v in about.items() if k != key}
        assert_damaged(path, persist.Contents(arrays, rest))
    for changed in ({"solver": 3, "nothing": 1}, {"n_features_in_": 4, "_evil": 1}):
        key = "parameters" if "solver" in changed else "fitted"
        assert_damaged(path, persist.Contents(arrays, about | {key: about[key] | changed}))
    features = about["fitted"] | {"n_features_in_": 4}
    assert_damaged(path, persist.Contents(arrays, about | {"fitted": features}))
    fewer = {k: v for k, v in about["fitted"].items() if k != "n_features_in_"}
    assert_damaged(path, persist.Contents(arrays, about | {"fitted": fewer}))
