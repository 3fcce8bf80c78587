"""Bad input: one clear line that names what is wrong, where, and what would be valid."""

import numpy as np
import pytest
import scipy.sparse as sp

from monro import SoftmaxClassifier
from monro.errors import DivergenceError
from tests.marks import thorough_unless
from tests.messages import message
from tests.softmax.data import SOLVERS, STREAMING, make_data

WITH_BOTH = ("implicit", "umax", "vanilla")


def refusal(**parameters):
    """Return the message of fit for these parameters; that of partial_fit is the same."""
    X, y = make_data(n=60)
    parameters = {"alpha": 0.0} | parameters
    text = message(ValueError, SoftmaxClassifier(**parameters).fit, X, y)
    if parameters.get("solver") != "lbfgs":
        assert message(ValueError, SoftmaxClassifier(**parameters).partial_fit, X, y) == text
    return text


# ----------------------------------------------------------------------------- single parameters


@pytest.mark.parametrize(
    ("name", "value", "valid", "meant"),
    [
        ("solver", "implict", SOLVERS, "implicit"),
        ("solver", "u-max", SOLVERS, "umax"),
        ("solver", "saga", SOLVERS, None),
        ("solver", None, SOLVERS, None),
        ("link", "probitt", ["softmax", "probit", "logistic"], "probit"),
        ("formulation", "ramen", ["auto", "difference", "raman"], "raman"),
        ("formulation", None, ["auto", "difference", "raman"], None),
        ("init", "zeros", ["auto", "zero"], "zero"),
        ("sampling", "unifrom", ["auto", "block", "uniform", "frequency"], "uniform"),
        ("dtype", "float16", ["float32", "float64"], "float64"),
        ("dtype", np.float32, ["float32", "float64"], None),
        ("class_weight", "balance", ["balanced"], "balanced"),
        ("learning_rate", "Auto", ["auto"], "auto"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(name, value, valid, meant):
    text = refusal(**{name: value})

    assert text.startswith(f"{name}={value!r}")
    for choice in valid:
        assert repr(choice) in text
    if meant is not None:
        assert "did you mean" in text


@pytest.mark.parametrize(
    ("name", "values", "valid"),
    [
        ("alpha", [-1e-5, np.nan, np.inf, "0.1", None, True], ">= 0"),
        ("learning_rate", [0.0, -1.0, np.nan, np.inf, None], "> 0"),
        ("max_epochs", [0, -1, 1.5, "10", None, np.inf], "at least 1"),
        ("examples_per_step", [0, -1, 1.5, "10"], "at least 1"),
        ("classes_per_step", [0, -1, 1.5, "10"], "at least 1"),
        ("epoch_decay", [0.0, -0.5, np.nan, "0.9"], "> 0"),
        ("epoch_decay", [1.1, 2], "<= 1"),
        ("tol", [-1e-3, np.nan, "small"], ">= 0"),
        ("delta", [0.0, -1.0, np.nan, None], "> 0"),
        ("radius", [0.0, -1.0, np.inf, "1"], "> 0"),
        ("validation_fraction", [0.0, -0.1, "0.1"], "> 0"),
        ("validation_fraction", [1.0, 2], "< 1"),
        ("n_jobs", [0, 1.5, "2"], "-1 for all cores"),
        ("verbose", [-1, 0.5, "yes"], "at least 0"),
        ("shuffle", [None, "yes", 2], "True or False"),
        ("fit_intercept", [None, "yes", 2], "True or False"),
        ("early_stopping", [None, "yes", 2], "True or False"),
        ("warm_start", [None, "yes", 2], "True or False"),
        ("posterior", ["gauss", True], "choose one of 'gaussian'"),
    ],
)
def test_a_value_out_of_range_is_named_with_what_is_valid(name, values, valid):
    for value in values:
        text = refusal(**{name: value})
        assert text.startswith(f"{name}={value!r}")
        assert valid in text


@pytest.mark.parametrize(
    "class_weight", [{0: -1.0}, {0: np.nan}, dict.fromkeys(range(4), 0.0), 3.0, {0: 1.0, 9: 2.0}]
)
def test_invalid_class_weights(class_weight):
    X, y = make_data(n=60)
    text = message(ValueError, SoftmaxClassifier(class_weight=class_weight, alpha=0.0).fit, X, y)
    assert "class_weight" in text


# ---------------------------------------------------------------------------------- combinations


@pytest.mark.parametrize(
    ("parameters", "at_fault", "valid"),
    [
        ({"solver": "ove", "formulation": "raman"}, "formulation='raman'", WITH_BOTH),
        ({"solver": "sco", "formulation": "raman"}, "formulation='raman'", WITH_BOTH),
        (
            {"solver": "exact", "formulation": "difference"},
            "formulation='difference'",
            (*WITH_BOTH, "sco"),
        ),
        ({"solver": "lbfgs", "formulation": "raman"}, "formulation='raman'", WITH_BOTH),
        ({"solver": "exact", "sampling": "uniform"}, "sampling", ()),
        ({"solver": "exact", "classes_per_step": 5}, "classes_per_step", ()),
        ({"solver": "lbfgs", "sampling": "block"}, "sampling", ()),
        ({"solver": "lbfgs", "examples_per_step": 5}, "examples_per_step", ()),
        ({"solver": "lbfgs", "epoch_decay": 0.5}, "epoch_decay", ()),
        ({"solver": "lbfgs", "learning_rate": 0.1}, "learning_rate", ("auto",)),
        ({"solver": "lbfgs", "early_stopping": True}, "early stopping", STREAMING),
        ({"radius": 1.0}, "radius", ("umax",)),
        ({"solver": "vanilla", "radius": 1.0}, "radius", ("umax",)),
        ({"examples_per_step": 5, "formulation": "raman"}, "examples_per_step", ("difference",)),
        ({"examples_per_step": 5, "sampling": "block"}, "examples_per_step", ("uniform",)),
        ({"examples_per_step": 5, "sampling": "frequency"}, "examples_per_step", ("uniform",)),
        ({"sampling": "block", "classes_per_step": 5}, "classes_per_step=5", ("uniform",)),
        (
            {"solver": "nce", "sampling": "block", "classes_per_step": 17},
            "classes_per_step=17",
            ("uniform",),
        ),
    ],
)
def test_invalid_combinations_name_the_valid_ones(parameters, at_fault, valid):
    text = refusal(**parameters)

    assert at_fault in text
    for choice in valid:
        assert repr(choice) in text


COMBINATIONS = [
    *({"solver": s, "sampling": how} for s in STREAMING[:-1] for how in ("block", "uniform")),
    *({"solver": s, "sampling": "frequency"} for s in STREAMING[:-1]),
    *({"solver": s, "formulation": f} for s in WITH_BOTH for f in ("difference", "raman")),
    *({"solver": s, "classes_per_step": m} for s in ("implicit", "nce") for m in (1, 5, 32, 100)),
    *({"solver": "umax", "examples_per_step": n} for n in (1, 7, 1000)),
    {"solver": "exact", "examples_per_step": 10},
    {"solver": "umax", "sampling": "neighbour", "radius": 5.0},
]


def is_of_the_default_solver(parameters):
    return parameters["solver"] == "implicit"


@pytest.mark.parametrize(
    "parameters",
    thorough_unless(is_of_the_default_solver, COMBINATIONS),
    ids=lambda p: "-".join(map(str, p.values())),
)
def test_every_valid_combination_learns(parameters):
    X, y = make_data(n=200)
    model = SoftmaxClassifier(alpha=0.0, **parameters, max_epochs=5, random_state=0).fit(X, y)

    assert np.isfinite(model.coef_).all()
    assert model.log_loss(X, y) < 0.97 * np.log(4)


def test_lbfgs_cannot_take_batches():
    X, y = make_data()
    # scikit-learn's checks require the method to be absent; the cause says what to use.
    with pytest.raises(AttributeError) as caught:
        SoftmaxClassifier(solver="lbfgs", alpha=0.0).partial_fit(X, y)
    text = str(caught.value.__cause__)
    for choice in STREAMING:
        assert repr(choice) in text


# ------------------------------------------------------------------------------------------ data


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_value_that_is_not_finite_is_named_by_its_row(form, bad):
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, max_epochs=1).fit(X, y)
    X[7, 2] = bad
    for action in (
        lambda: SoftmaxClassifier(alpha=0.0).fit(form(X), y),
        lambda: SoftmaxClassifier(alpha=0.0).partial_fit(form(X), y),
        lambda: model.predict(form(X)),
        lambda: model.predict_top_k(form(X), 2),
        lambda: model.log_loss(form(X), y),
    ):
        text = message(ValueError, action)
        assert "row 7" in text
        assert "NaN" in text if np.isnan(bad) else "inf" in text


@pytest.mark.parametrize("value", [1e25, 1e200])
def test_a_row_too_long_for_the_precision_is_named(value):
    X, y = make_data()
    X[7, 2] = value
    for action in (SoftmaxClassifier(alpha=0.0).fit, SoftmaxClassifier(alpha=0.0).partial_fit):
        text = message(ValueError, action, X, y)
        assert "row 7" in text
        assert "float32" in text
        assert "scale the features" in text


def test_a_batch_that_cannot_be_read_leaves_the_model_as_it_was():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0).partial_fit(X, y)
    before = model.predict_proba(X)
    X[7, 2] = 1e25
    message(ValueError, model.partial_fit, X, y + 1)
    X[7, 2] = 0.0
    np.testing.assert_array_equal(model.classes_, range(4))
    np.testing.assert_array_equal(np.delete(model.predict_proba(X), 7, 0), np.delete(before, 7, 0))


@pytest.mark.parametrize("label", [0, 1.0, "spam", True])
def test_a_single_class_is_named(label):
    X, y = make_data()
    text = message(ValueError, SoftmaxClassifier(alpha=0.0).fit, X, [label] * y.size)
    assert f"({label!r})" in text
    assert "classes=" in text
    text = message(ValueError, SoftmaxClassifier(alpha=0.0).partial_fit, X, [label] * y.size)
    assert "partial_fit" in text
    assert "classes=" in text


@pytest.mark.parametrize("label", [9, "spam"])
def test_a_label_that_was_not_declared_is_named_with_its_row(label):
    X, y = make_data()
    targets = y.astype(object if isinstance(label, str) else int)
    names = [str(k) for k in range(4)] if isinstance(label, str) else range(4)
    targets[:] = np.asarray(names)[y]
    targets[7] = label
    text = message(ValueError, SoftmaxClassifier(classes=names, alpha=0.0).fit, X, targets)
    assert text == f"y: row 7 has the label {label!r}, which is not among classes"


def test_labels_are_all_strings_or_all_numbers():
    X, y = make_data()
    words = y.astype(str)
    for action in (
        lambda: SoftmaxClassifier(classes=["0", "1", "2", "3"], alpha=0.0).fit(X, y),
        lambda: SoftmaxClassifier(classes=range(4), alpha=0.0).fit(X, words),
        lambda: SoftmaxClassifier(alpha=0.0).partial_fit(X, words, classes=range(4)),
        lambda: SoftmaxClassifier(alpha=0.0).partial_fit(X, y).partial_fit(X, words),
        lambda: SoftmaxClassifier(classes=range(4), alpha=0.0).partial_fit(X, words),
    ):
        text = message(ValueError, action)
        assert "strings in" in text
        assert "numbers in" in text
    model = SoftmaxClassifier(alpha=0.0, max_epochs=1).fit(X, y)
    assert "row 0 has the label '0'" in message(ValueError, model.log_loss, X, words)


@pytest.mark.parametrize("classes", [[[0, 1], [2, 3]], "0123", {0, 1, 2, 3}, 4])
def test_classes_are_a_row_of_labels(classes):
    X, y = make_data()
    assert "classes" in message(ValueError, SoftmaxClassifier(classes=classes, alpha=0.0).fit, X, y)
    text = message(ValueError, SoftmaxClassifier(alpha=0.0).partial_fit, X, y, classes=classes)
    assert "classes: give the labels as a one-dimensional array" in text


def test_targets_of_the_wrong_kind():
    X, _ = make_data()
    assert "continuous" in message(ValueError, SoftmaxClassifier(alpha=0.0).fit, X, X[:, 0])
    assert "a matrix of labels holds 1" in message(
        ValueError, SoftmaxClassifier(alpha=0.0).fit, X, X[:, :2]
    )
    assert "y" in message(ValueError, SoftmaxClassifier(alpha=0.0).fit, X, None)


def test_another_number_of_features_is_refused():
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, max_epochs=1).fit(X, y)
    for other in (X[:, :2], np.hstack([X, X]), sp.csr_matrix(X[:, :2])):
        for action in (model.predict, lambda bad: model.partial_fit(bad, y)):
            text = message(ValueError, action, other)
            assert str(other.shape[1]) in text
            assert str(X.shape[1]) in text


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_invalid_sample_weights(bad):
    X, y = make_data()
    weight = np.ones(y.size)
    weight[7] = bad
    for action in (SoftmaxClassifier(alpha=0.0).fit, SoftmaxClassifier(alpha=0.0).partial_fit):
        assert "sample_weight" in message(ValueError, action, X, y, sample_weight=weight)


def test_weights_of_0_leave_nothing_to_learn_from():
    X, y = make_data()
    for action in (SoftmaxClassifier(alpha=0.0).fit, SoftmaxClassifier(alpha=0.0).partial_fit):
        text = message(ValueError, action, X, y, sample_weight=np.zeros(y.size))
        assert "weights must contain at least one non-zero" in text
    model = SoftmaxClassifier(class_weight={0: 0.0}, classes=[0, 1], alpha=0.0)
    assert "leave no row" in message(ValueError, model.fit, X, np.zeros(y.size, int))


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ([1, 2], "300 whole numbers"),
        (np.linspace(0, 1, 300), "300 whole numbers"),
        (np.arange(600).reshape(300, 2), "300 whole numbers"),
        (["a"] * 300, "300 whole numbers"),
        (np.arange(300) % 299, "occurs twice"),
    ],
)
def test_invalid_sample_ids(ids, what):
    X, y = make_data()
    text = message(ValueError, SoftmaxClassifier(alpha=0.0).partial_fit, X, y, sample_id=ids)
    assert text.startswith("sample_id: ")
    assert what in text


def test_balanced_class_weights_need_all_rows():
    X, y = make_data()
    model = SoftmaxClassifier(class_weight="balanced", alpha=0.0)
    assert "balanced" in message(ValueError, model.partial_fit, X, y)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", None])
def test_k_is_a_whole_number(k):
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, max_epochs=1).fit(X, y)
    text = message(ValueError, model.predict_top_k, X, k)
    assert text == f"k={k!r}: give a whole number of at least 1"


@pytest.mark.parametrize(
    "action",
    ["predict", "predict_proba", "decision_function", "log_loss", "evaluate", "sparsify", "save"],
)
def test_a_model_that_is_not_fitted_raises(action, tmp_path):
    X, y = make_data()
    arguments = {"log_loss": (X, y), "evaluate": (X, y), "sparsify": (), "save": (tmp_path / "m",)}
    text = message(
        ValueError, getattr(SoftmaxClassifier(alpha=0.0), action), *arguments.get(action, (X,))
    )
    assert "not fitted" in text
    assert not list(tmp_path.iterdir())


def test_rows_that_cannot_be_split_are_refused():
    X, _ = make_data()
    model = SoftmaxClassifier(early_stopping=True, validation_fraction=0.9, alpha=0.0)
    text = message(ValueError, model.fit, X[:1], [0], sample_weight=None)
    assert "class" in text
    model.set_params(classes=[0, 1])
    text = message(ValueError, model.fit, X[:1], [0])
    for word in ("early_stopping", "validation_fraction", "1 rows"):
        assert word in text


@pytest.mark.parametrize("solver", ["vanilla", "sco", "exact", "ove", "nce", "importance"])
def test_the_message_of_divergence_says_what_to_change(solver):
    X, y = make_data()
    model = SoftmaxClassifier(solver=solver, alpha=0.0, learning_rate=1e9, random_state=0)
    text = message(DivergenceError, model.fit, X, y)

    for word in (repr(solver), "1e+09", "learning_rate", "'auto'", "scale", "implicit"):
        assert word in text
    assert not hasattr(model, "coef_")


def test_divergence_of_a_chosen_rate_does_not_advise_to_choose_it(monkeypatch):
    X, y = make_data()
    monkeypatch.setattr("monro.softmax.base.choose_rate", lambda *_: (1e9, 5))
    text = message(
        DivergenceError, SoftmaxClassifier(solver="vanilla", alpha=0.0, random_state=0).fit, X, y
    )
    assert "use a smaller learning_rate, scale" in text
    assert "auto" not in text
