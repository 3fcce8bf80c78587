"""Copies, model files, and files that are damaged."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import monro
from monro import SoftmaxClassifier
from monro.errors import ModelFileError
from monro.saving.container import Contents, read_container, write_container
from tests.marks import thorough_unless
from tests.softmax.data import FRUIT, SOLVERS, STREAMING, assert_same_bits, in_both_forms, make_data

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
    model = SoftmaxClassifier(
        solver=solver, alpha=0.0, random_state=0, max_epochs=2, warm_start=True
    )
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
    model = SoftmaxClassifier(
        solver="umax", delta=0.5, classes=[0, 1, 2, 3], alpha=0.0, random_state=3
    )
    copied = clone(model.fit(X, y))

    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "coef_")
    assert_same_bits(copied.fit(X, y), model)


def test_grid_search_prefers_the_ridge_that_predicts_best():
    X, y = make_data(n=120, d=30)
    model = SoftmaxClassifier(alpha=0.0, max_epochs=10, random_state=0)
    search = GridSearchCV(model, {"alpha": [1e-6, 0.05, 1e3]}, cv=3, scoring="neg_log_loss")
    assert search.fit(X, y).best_params_ == {"alpha": 0.05}


@pytest.mark.parametrize(
    "solver",
    thorough_unless(lambda solver: solver in ("implicit", "augment-reduce", "lbfgs"), SOLVERS),
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_loaded_model_equals_the_saved_one(tmp_path, solver, form):
    X, y = make_data()
    model = SoftmaxClassifier(
        solver=solver,
        classes=FRUIT[[0, 3, 1, 2, 5]],
        class_weight={"fig": 2.0},
        alpha=0.0,
        random_state=3,
    )
    model.set_params(max_epochs=3).fit(form(X), FRUIT[y])
    same = monro.load(saved(model, tmp_path))

    assert type(same) is SoftmaxClassifier
    parameters = model.get_params() | {"classes": FRUIT[[0, 3, 1, 2, 5]].tolist()}
    assert same.get_params() == parameters
    assert_same_bits(same, model)
    for name in ("history_", "n_iter_", "learning_rate_", "n_features_in_"):
        assert getattr(same, name, None) == getattr(model, name, None)
    assert same._fitted.epochs == model._fitted.epochs
    assert str(same.plan_) == str(model.plan_)  # of lbfgs the rate is NaN
    np.testing.assert_array_equal(same.classes_, model.classes_)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@in_both_forms(STREAMING)
def test_a_loaded_model_continues_its_training(tmp_path, solver, form):
    X, y = make_data()
    rows = form(X)
    model = SoftmaxClassifier(solver=solver, alpha=0.0, random_state=0, max_epochs=2).fit(rows, y)
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
def test_a_warm_start_continues_from_a_loaded_model(tmp_path, solver):
    X, y = make_data()
    model = SoftmaxClassifier(
        solver=solver, warm_start=True, alpha=0.0, random_state=0, max_epochs=3
    )
    model.fit(X, y)
    same = monro.load(saved(model, tmp_path))
    assert_same_bits(same.fit(X, y), model.fit(X, y))


def test_sparse_weights_are_loaded_as_sparse(tmp_path):
    X, y = make_data()
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y).sparsify()
    same = monro.load(saved(model, tmp_path))

    assert sp.issparse(same.coef_)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert_same_bits(same.densify(), model.densify())


def test_the_labels_of_a_series_are_saved(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = make_data()
    model = SoftmaxClassifier(classes=pd.Series(FRUIT), alpha=0.0, random_state=0, max_epochs=2)
    same = monro.load(saved(model.fit(X, FRUIT[y]), tmp_path))
    assert same.classes == FRUIT.tolist()


# ----------------------------------------------------------------------------------- damaged files


@pytest.fixture(params=["dense", "sparse", "sparsified", "lbfgs"])
def contents(request, tmp_path):
    X, y = make_data()
    rows = sp.csr_matrix(X) if request.param == "sparse" else X
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2, warm_start=True).fit(rows, y)
    if request.param == "lbfgs":
        model = SoftmaxClassifier(solver="lbfgs", alpha=0.0, max_epochs=2).fit(X, y)
    elif request.param == "sparsified":
        model.sparsify()
    else:
        model.partial_fit(rows, y, sample_id=np.arange(y.size)[::-1]).fit(rows, y)
        model.partial_fit(rows, y, sample_id=np.arange(y.size)[::-1])
        local = "some rows", np.ones(3, np.float32)
        model._fitted = model._fitted._replace(local=local)
    path = saved(model, tmp_path)
    assert_same_bits(monro.load(path), model) if request.param != "sparsified" else None
    return path, read_container(path, "model")


def assert_damaged(path, contents):
    write_container(path, "model", contents)
    with pytest.raises(ModelFileError, match="the file is damaged") as caught:
        monro.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_without_one_of_its_arrays_is_refused(contents):
    path, (arrays, about) = contents
    for name in arrays:
        rest = {key: array for key, array in arrays.items() if key != name}
        assert_damaged(path, Contents(rest, about))


def test_a_file_with_an_array_of_another_shape_is_refused(contents):
    path, (arrays, about) = contents
    for name, array in arrays.items():
        for other in (array[:-1], np.append(array.ravel(), array.ravel()[:1]), array[None]):
            # Local variables are compared with the rows at hand, later.
            if name != "local" and other.shape != array.shape:
                assert_damaged(path, Contents(arrays | {name: other}, about))


def test_a_file_with_an_array_of_no_numbers_is_refused(contents):
    path, (arrays, about) = contents
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size:
            bad = array.copy()
            bad.ravel()[-1] = np.nan
            assert_damaged(path, Contents(arrays | {name: bad}, about))
        elif array.size > 1 and name not in ("stream.counts", "stream.rows"):
            assert_damaged(path, Contents(arrays | {name: 0 * array}, about))


def test_a_file_with_another_description_is_refused(contents):
    path, (arrays, about) = contents
    for key in ("parameters", "fitted"):
        rest = {k: v for k, v in about.items() if k != key}
        assert_damaged(path, Contents(arrays, rest))
    for changed in ({"solver": 3, "nothing": 1}, {"n_features_in_": 4, "_evil": 1}):
        key = "parameters" if "solver" in changed else "fitted"
        assert_damaged(path, Contents(arrays, about | {key: about[key] | changed}))
    features = about["fitted"] | {"n_features_in_": 4}
    assert_damaged(path, Contents(arrays, about | {"fitted": features}))
    fewer = {k: v for k, v in about["fitted"].items() if k != "n_features_in_"}
    assert_damaged(path, Contents(arrays, about | {"fitted": fewer}))
