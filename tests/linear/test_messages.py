"""Bad input: one clear line that names what is wrong, where, and what would be valid."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from monro import LinearClassifier, LinearRegressor
from monro.errors import DivergenceError
from tests import processes
from tests.linear.helpers import STREAMING
from tests.marks import thorough_unless
from tests.messages import message

WITH_INVERSE_T = ("sgd", "asgd", "casgd", "implicit", "aisgd")


def make_data(n=60, d=4):
    X = np.random.default_rng(0).normal(size=(n, d))
    return X, (X[:, 0] > 0).astype(int)


# ----------------------------------------------------------------------------- single parameters


@pytest.mark.parametrize(
    ("parameters", "meant"),
    [
        ({"solver": "asdg"}, "asgd"),
        ({"solver": "impilcit"}, "implicit"),
        ({"solver": "SGD-QN"}, None),
        ({"loss": "logg"}, "log"),
        ({"loss": "squared-hinge"}, "squared_hinge"),
        ({"schedule": "inverse_t"}, "inverse-t"),
        ({"schedule": "constant"}, None),
        ({"solver": None}, None),
        ({"loss": 3}, None),
    ],
)
def test_an_unknown_name_lists_the_known_ones(parameters, meant):
    X, y = make_data()
    (name, value), *_ = parameters.items()
    text = message(ValueError, LinearClassifier(alpha=1e-5, **parameters).fit, X, y)

    assert f"{name}={value!r}" in text
    known = {"solver": ("auto", "dual", *STREAMING), "loss": ("hinge", "squared_hinge", "log")}
    for choice in known.get(name, ("bottou", "inverse-t")):
        assert repr(choice) in text
    if meant:
        assert f"did you mean {meant!r}" in text


def test_a_loss_of_the_other_estimator_is_unknown():
    X, y = make_data()
    assert "'squared'" in message(ValueError, LinearRegressor(loss="hinge", alpha=1e-5).fit, X, y)
    assert "'hinge'" in message(ValueError, LinearClassifier(loss="squared", alpha=1e-5).fit, X, y)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("alpha", [-1e-5, np.nan, np.inf, "0.1", None, True]),
        ("decay", [-1.0, np.nan, "1"]),
        ("skip", [0, 1.5, "8"]),
        ("learning_rate", [0.0, -1.0, np.nan, np.inf, "fast", None]),
        ("max_epochs", [0, -1, 1.5, "10", None, np.inf]),
        ("tol", [-1e-3, np.nan, "small"]),
        ("validation_fraction", [0.0, 1.0, -0.1, 2, "0.1"]),
    ],
)
def test_a_number_out_of_range_is_named_with_its_value(name, values):
    X, y = make_data()
    for value in values:
        for kind in (LinearClassifier, LinearRegressor):
            text = message(ValueError, kind(**{"alpha": 1e-5, name: value}).fit, X, y)
            assert f"{name}={value!r}" in text


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan])
def test_delta_must_be_positive(delta):
    X, y = make_data()
    assert "delta" in message(
        ValueError, LinearRegressor(loss="huber", delta=delta, alpha=1e-5).fit, X, y
    )


@pytest.mark.parametrize(
    "class_weight", [{0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}, {0: 0.0, 1: 0.0}, "balance", 3.0]
)
def test_class_weights_that_make_no_sense(class_weight):
    X, y = make_data()
    text = message(ValueError, LinearClassifier(class_weight=class_weight, alpha=1e-5).fit, X, y)
    assert "class_weight" in text


# ---------------------------------------------------------------------------------- combinations


@pytest.mark.parametrize(
    ("parameters", "at_fault", "valid"),
    [
        ({"solver": "sgdqn", "schedule": "inverse-t"}, "inverse-t", WITH_INVERSE_T),
        ({"solver": "sgdqn-flawed", "schedule": "inverse-t"}, "inverse-t", WITH_INVERSE_T),
        ({"solver": "dual", "schedule": "inverse-t"}, "inverse-t", WITH_INVERSE_T),
        ({"solver": "dual", "alpha": 0.0}, "alpha", WITH_INVERSE_T),
        ({"solver": "casgd", "fit_intercept": False}, "fit_intercept", ("asgd",)),
        ({"center": True, "fit_intercept": False}, "fit_intercept", ()),
        ({"solver": "sgdqn", "center": True}, "center", ("dual", "implicit", "sgd")),
        ({"solver": "sgdqn", "alpha": 0.0}, "alpha", WITH_INVERSE_T),
        ({"solver": "sgd", "schedule": "inverse-t", "alpha": 0.0}, "alpha", ("bottou",)),
        ({"solver": "auto", "schedule": "inverse-t", "alpha": 0.0}, "alpha", ("bottou",)),
        (
            {"solver": "sgd", "schedule": "inverse-t", "learning_rate": 0.1},
            "learning_rate",
            ("auto", "bottou"),
        ),
        ({"solver": "dual", "learning_rate": 0.1}, "learning_rate", ("auto", *STREAMING)),
        ({"solver": "asgd", "schedule": "inverse-t", "decay": 2.0}, "decay", ("bottou",)),
        ({"solver": "dual", "decay": 2.0}, "decay", WITH_INVERSE_T),
        ({"solver": "sgdqn", "decay": 2.0}, "decay", WITH_INVERSE_T),
        ({"solver": "asgd", "skip": 8}, "skip", ("sgdqn", "asgdqn", "sgdqn-flawed")),
        ({"skip": 8}, "skip", ("sgdqn", "asgdqn", "sgdqn-flawed")),
    ],
)
@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
def test_combinations_that_make_no_sense_name_those_that_do(kind, parameters, at_fault, valid):
    X, y = make_data()
    text = message(ValueError, kind(**{"alpha": 1e-5} | parameters).fit, X, y)

    assert at_fault in text
    for choice in valid:
        assert repr(choice) in text


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
def test_a_dual_solver_cannot_take_batches(kind):
    X, y = make_data()
    classes = {"classes": [0, 1]} if kind is LinearClassifier else {}

    # scikit-learn's checks want the method not to be there; the cause says what to use.
    with pytest.raises(AttributeError) as caught:
        kind(solver="dual", alpha=1e-5).partial_fit(X, y, **classes)
    text = str(caught.value.__cause__)
    assert "partial_fit" in text
    for choice in STREAMING:
        assert repr(choice) in text


def test_balanced_class_weights_need_all_rows():
    X, y = make_data()
    model = LinearClassifier(class_weight="balanced", alpha=1e-5)
    assert "balanced" in message(ValueError, model.partial_fit, X, y, classes=[0, 1])


def test_every_combination_left_is_valid():
    X, y = make_data()
    for solver in STREAMING:
        for schedule in ("bottou", "inverse-t"):
            if schedule == "inverse-t" and solver not in WITH_INVERSE_T:
                continue
            rate = 0.01 if schedule == "bottou" else "auto"
            model = LinearClassifier(
                solver=solver, schedule=schedule, learning_rate=rate, alpha=0.1, max_epochs=1
            )
            assert np.isfinite(model.fit(X, y).coef_).all()


# ------------------------------------------------------------------------------------------ data


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
def test_a_value_of_x_that_is_no_number_is_named_by_its_row(kind, form, bad):
    X, y = make_data()
    model = kind(alpha=1e-5).fit(X, y)
    X[7, 2] = bad
    for action in (lambda: kind(alpha=1e-5).fit(form(X), y), lambda: model.predict(form(X))):
        text = message(ValueError, action)
        assert "NaN" in text if np.isnan(bad) else "inf" in text
        assert "row 7" in text


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_a_target_that_is_no_number_is_named_by_its_row(bad, loss):
    X, _ = make_data()
    y = X[:, 0] ** 2
    y[7] = bad
    text = message(ValueError, LinearRegressor(loss=loss, alpha=1e-5).fit, X, y)
    assert "NaN" in text if np.isnan(bad) else "inf" in text
    assert "row 7" in text


def test_a_label_that_is_no_number_is_refused():
    X, y = make_data()
    labels = y.astype(float)
    labels[7] = np.nan
    assert "NaN" in message(ValueError, LinearClassifier(alpha=1e-5).fit, X, labels)


@pytest.mark.parametrize("label", [0, 1.0, "spam", True])
def test_a_single_class_is_named(label):
    X, y = make_data()
    text = message(ValueError, LinearClassifier(alpha=1e-5).fit, X, [label] * y.size)
    assert str(label) in text
    assert "class" in text
    assert "np." not in text  # the label, not how NumPy writes it


def test_a_missing_target_is_reported():
    X, _ = make_data()
    for kind in (LinearClassifier, LinearRegressor):
        assert re.search(r"\by\b", message(ValueError, kind(alpha=1e-5).fit, X, None))


def test_targets_of_the_wrong_kind():
    X, _ = make_data()
    assert "continuous" in message(ValueError, LinearClassifier(alpha=1e-5).fit, X, X[:, 0])
    assert "numbers" in message(ValueError, LinearRegressor(alpha=1e-5).fit, X, ["a"] * len(X))
    for kind in (LinearClassifier, LinearRegressor):
        assert "1d" in message(ValueError, kind(alpha=1e-5).fit, X, X[:, :2])


def test_a_negative_count_is_named_by_its_row():
    X, y = make_data()
    counts = y.astype(float)
    counts[11] = -2.5
    text = message(ValueError, LinearRegressor(loss="poisson", alpha=1e-5).fit, X, counts)
    assert "row 11" in text
    assert "-2.5" in text
    assert "poisson" in text


@pytest.mark.parametrize(("column", "row"), [(-3, 4), (99, 4), (4, 0)])
def test_a_column_out_of_range_is_named_by_its_row(column, row):
    X, y = make_data()
    model = LinearClassifier(alpha=1e-5).fit(X, y)
    for form in (sp.csr_matrix, sp.csr_array):
        corrupt = form(X)
        corrupt.indices[row * X.shape[1] + 1] = column
        for action in (
            lambda bad=corrupt: LinearClassifier(alpha=1e-5).fit(bad, y),
            lambda bad=corrupt: LinearClassifier(alpha=1e-5).partial_fit(bad, y, classes=[0, 1]),
            lambda bad=corrupt: model.predict(bad),
        ):
            text = message(ValueError, action)
            assert f"row {row}" in text
            assert str(column) in text


def fit_with_a_wrong(pointer):
    X, y = make_data()
    X = sp.csr_matrix(X)
    X.indptr[5] = pointer
    assert "row" in message(ValueError, LinearClassifier(alpha=1e-5).fit, X, y)


@pytest.mark.parametrize("pointer", [3, 10_000])
def test_row_pointers_that_make_no_sense_are_refused(pointer):
    # In a process of its own: whoever follows such a pointer reads what is not there.
    assert processes.status(processes.start(fit_with_a_wrong, pointer)) == 0


def test_another_number_of_features_is_reported():
    X, y = make_data()
    for model in (
        LinearClassifier(loss="log", alpha=1e-5).fit(X, y),
        LinearRegressor(alpha=1e-5).fit(X, y),
    ):
        for other in (X[:, :2], np.hstack([X, X]), sp.csr_matrix(X[:, :2])):
            for action in (
                lambda bad=other, model=model: model.predict(bad),
                lambda bad=other, model=model: model.partial_fit(bad, y),
            ):
                text = message(ValueError, action)
                assert str(other.shape[1]) in text
                assert str(X.shape[1]) in text


def test_lengths_that_differ_are_reported():
    X, y = make_data()
    text = message(ValueError, LinearClassifier(alpha=1e-5).fit, X, y[:-1])
    assert "60" in text
    assert "59" in text
    assert "sample_weight" in message(
        ValueError, LinearClassifier(alpha=1e-5).fit, X, y, np.ones(3)
    )


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_sample_weights_that_make_no_sense(bad):
    X, y = make_data()
    weight = np.ones(y.size)
    weight[7] = bad
    text = message(ValueError, LinearClassifier(alpha=1e-5).fit, X, y, sample_weight=weight)
    assert "sample_weight" in text


def test_weights_of_0_leave_nothing_to_learn_from():
    X, y = make_data()
    for kind in (LinearClassifier, LinearRegressor):
        text = message(ValueError, kind(alpha=1e-5).fit, X, y, sample_weight=np.zeros(y.size))
        assert "weight" in text


def test_no_rows_and_no_features_are_reported():
    for shape, word in (((0, 4), "sample"), ((10, 0), "feature")):
        X = np.zeros(shape)
        assert word in message(ValueError, LinearRegressor(alpha=1e-5).fit, X, np.zeros(shape[0]))


# ----------------------------------------------------------------------------- early stopping


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (LinearRegressor(early_stopping=True, alpha=1e-5), 1),
        (LinearClassifier(early_stopping=True, alpha=1e-5), 6),  # one row held out, of two classes
        (LinearRegressor(early_stopping=True, validation_fraction=0.99, alpha=1e-5), 3),
    ],
)
def test_rows_that_cannot_be_split_are_reported(model, rows):
    X, _ = make_data()
    y = np.arange(rows) % 2
    text = message(ValueError, model.fit, X[:rows], y)
    assert "early_stopping" in text
    assert "validation_fraction" in text
    assert str(rows) in text


# ----------------------------------------------------------------------------- divergence


@pytest.mark.parametrize("solver", ["sgd", "asgd", "casgd", "sgdqn"])
def test_divergence_is_reported_with_what_to_change(solver):
    X, y = make_data()
    model = LinearRegressor(solver=solver, alpha=1e-5, learning_rate=1e3)
    text = message(DivergenceError, model.fit, X, y)

    assert repr(solver) in text
    assert "1000" in text
    assert "learning_rate" in text
    assert "aisgd" in text
    assert not hasattr(model, "coef_")


def test_divergence_is_reported_before_the_numbers_overflow():
    X, y = make_data(n=20)
    model = LinearRegressor(solver="sgd", alpha=1e-5, learning_rate=1e3, max_epochs=1)
    try:
        model.fit(X, y)
    except DivergenceError:
        return
    residuals = model.predict(X) - y
    assert residuals @ residuals < 1e6 * (y @ y)


def test_divergence_of_a_schedule_without_a_rate_advises_no_rate():
    X, y = make_data()
    model = LinearRegressor(solver="sgd", schedule="inverse-t", alpha=1e-5)
    text = message(DivergenceError, model.fit, X, y)
    # Where no rate can be given it is the schedule, or alpha, that must change.
    assert "schedule" in text or "alpha" in text


def test_divergence_of_a_batch_leaves_the_model_as_it_was():
    X, y = make_data()
    model = LinearRegressor(solver="sgd", learning_rate=0.5, alpha=0.0)
    model.partial_fit(0.1 * X, y)
    before = model.coef_.copy()
    message(DivergenceError, model.partial_fit, np.repeat(1e3 * X, 5, axis=0), np.repeat(y, 5))

    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(0.1 * X, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("solver", ["implicit", "aisgd"])
@pytest.mark.parametrize(
    "loss",
    thorough_unless(lambda loss: loss == "squared", ["squared", "absolute", "huber", "poisson"]),
)
def test_implicit_steps_do_not_diverge_at_any_rate(solver, loss):
    X, y = make_data()
    model = LinearRegressor(
        loss=loss, solver=solver, alpha=1e-5, learning_rate=1e6, random_state=0
    ).fit(X, y)

    assert np.isfinite(model.coef_).all()
    # No step goes beyond what fits its own row.
    assert np.abs(X @ model.coef_ + model.intercept_).max() < 1e3
