"""Files, batches and warm starts."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import monro
from tests.softmax.observed.helpers import (
    assert_same_bits,
    label_matrix,
    mask_of,
    minimum,
    objective,
    objective_of,
    observed,
    one_hot,
    parts_of,
    sparse_rows,
)

KINDS = ["single", "share", "independent"]


def data(kind, seed=0, n=60, d=12, K=7):
    rng = np.random.default_rng(seed)
    X, Y = sparse_rows(rng, n, d, 0.2), label_matrix(rng, n, K, 0.15)
    return X, (np.arange(n) % K if kind == "single" else Y)


def estimator(kind, **parameters):
    weight = {} if kind == "single" else {"label_weight": kind}
    return observed(**{"max_epochs": 3, **weight, **parameters})


def saved(model, folder, **options):
    path = folder / "model.monro"
    model.save(path, **options)
    return path


def matrix(y, K=7):
    return one_hot(y, K) if y.ndim == 1 else y


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_predicts_the_same(tmp_path, kind, mapped, inference):
    X, y = data(kind)
    model = estimator(kind).fit(X, y)
    same = monro.load(saved(model, tmp_path, inference=inference), mapped=mapped)
    assert sp.issparse(same.coef_)
    assert same.get_params() == model.get_params()
    if not inference:
        assert_same_bits(same, model)
    tolerance = {"rtol": 1e-2, "atol": 1e-3} if inference else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(same.predict_proba(X), model.predict_proba(X), **tolerance)
    np.testing.assert_allclose(same.predict_top_k(X, 3)[1], model.predict_top_k(X, 3)[1], rtol=1e-2)
    measured = same.evaluate(X, matrix(y))
    for name, value in model.evaluate(X, matrix(y)).items():
        np.testing.assert_allclose(measured[name], value, rtol=0.02, atol=0.02, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "copy_of",
    ["file", copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["file", "deepcopy", "copy", "pickle"],
)
def test_a_copy_continues_with_the_same_bits(tmp_path, kind, copy_of):
    X, y = data(kind)
    model = estimator(kind).fit(X[:40], y[:40])
    before = parts_of(model)
    same = monro.load(saved(model, tmp_path), mapped=False) if copy_of == "file" else copy_of(model)
    same.partial_fit(X[40:], y[40:])
    for part, expected in zip(parts_of(model), before, strict=True):
        np.testing.assert_array_equal(part, expected)
    model.partial_fit(X[40:], y[40:])
    assert_same_bits(same, model)
    assert same.plan_ == model.plan_
    if kind != "single":
        assert same.evaluate(X, y) == model.evaluate(X, y)


def test_a_mapped_file_is_not_written_to(tmp_path):
    X, y = data("independent")
    path = saved(estimator("independent").fit(X, y), tmp_path)
    before = path.read_bytes()
    model = monro.load(path, mapped=True)
    model.partial_fit(X, y)
    assert_same_bits(model, monro.load(path, mapped=False).partial_fit(X, y))
    assert path.read_bytes() == before


def test_predictions_of_a_file_for_inference_are_all_it_is_for(tmp_path):
    X, y = data("single")
    path = saved(estimator("single").fit(X, y), tmp_path, inference=True)
    with pytest.raises(ValueError, match="inference=True"):
        monro.load(path).partial_fit(X, y)
    with pytest.raises(ValueError, match="inference=True"):
        monro.load(path).set_params(warm_start=True).fit(X, y)


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_a_fit_after_scaling_inside_is_saved(tmp_path, kind):
    X, y = data(kind)
    model = estimator(kind, scale=True).fit(X.toarray() + 1.0, y)
    same = monro.load(saved(model, tmp_path))
    assert_same_bits(same, model)
    assert_same_bits(same.partial_fit(X, y), model.partial_fit(X, y))


@pytest.mark.parametrize("steps", ["densify", "sparsify", "densify sparsify"])
def test_a_converted_model_is_saved(tmp_path, steps):
    X, model = converted(steps)
    same = monro.load(saved(model, tmp_path))
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


def converted(steps, **parameters):
    """Rows, and a model some of whose pairs have the weight 0, converted back and forth."""
    X, y = data("single")
    model = estimator("single", alpha=0.1, l1_ratio=1.0, max_epochs=10, **parameters).fit(X, y)
    assert (model._fitted.weights.W.data == 0).any()
    for name in steps.split():
        getattr(model, name)()
    return X, model


@pytest.mark.parametrize("action", ["partial_fit", "fit"])
@pytest.mark.parametrize("steps", ["densify", "sparsify", "densify sparsify"])
def test_a_converted_model_continues_or_says_what_to_do(steps, action):
    X, model = converted(steps, warm_start=True)
    y = np.arange(60) % 7
    try:
        getattr(model, action)(X, y)
    except ValueError as error:
        assert "sparsify" in str(error) or "densif" in str(error)  # noqa: PT017
    assert np.isfinite(model.predict_proba(X)).all()


# ---------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_add_pairs_and_leave_weights_of_other_features(kind, first):
    X, y = data(kind)
    known = np.diag((np.arange(12) < 8).astype(float))
    other = np.diag((np.arange(12) >= 5).astype(float))
    one, two = sp.csr_matrix(X[:40] @ known), sp.csr_matrix(X[40:] @ other)
    model = estimator(kind)
    getattr(model, first)(one, y[:40])
    before, _ = parts_of(model)
    model.partial_fit(two, y[40:])
    after, _ = parts_of(model)

    masks = [mask_of(one, matrix(y)[:40]), mask_of(two, matrix(y)[40:])]
    assert ((before != 0) <= masks[0]).all()
    assert ((after != 0) <= masks[0] | masks[1]).all()
    assert (after != 0)[masks[1]].all()
    assert model._fitted.weights.W.nnz == (masks[0] | masks[1]).sum()
    touched = np.asarray((two != 0).sum(axis=0)).ravel() > 0
    np.testing.assert_array_equal(after[:, ~touched], before[:, ~touched])
    assert not np.array_equal(after[:, touched], before[:, touched])


def test_new_classes_take_their_place_among_the_others():
    X, _ = data("single")
    y = np.array(["fig", "kiwi", "plum"])[np.arange(60) % 3]
    new = np.array(["apple", "lime", "kiwi"])[np.arange(60) % 3]
    model = estimator("single").fit(X[:30], y[:30])
    before, bias = parts_of(model)
    empty = sp.csr_matrix((30, 12))
    model.partial_fit(empty, new[30:])  # no features: no weight moves
    after, _ = parts_of(model)
    assert model.classes_.tolist() == ["apple", "fig", "kiwi", "lime", "plum"]
    np.testing.assert_array_equal(after[[1, 2, 4]], before)
    assert not after[[0, 3]].any()
    model.partial_fit(X[30:], new[30:])
    S = model.decision_function(X)
    W, b = parts_of(model)
    assert W[0].any()
    assert W[3].any()
    np.testing.assert_allclose(S, X @ W.T + b, atol=1e-5)
    assert bias.shape == (3,)


def test_new_columns_of_label_sets_are_named():
    rng = np.random.default_rng(3)
    X, Y = sparse_rows(rng, 40, 6), label_matrix(rng, 40, 3)
    model = estimator("independent", classes=["fig", "lime", "plum"]).fit(X[:20], Y[:20])
    before, _ = parts_of(model)
    kiwi = np.column_stack([Y[20:, 0], np.arange(20) % 2, Y[20:, 1:]])
    model.partial_fit(X[20:], kiwi, classes=["fig", "kiwi", "lime", "plum"])
    assert model.classes_.tolist() == ["fig", "kiwi", "lime", "plum"]
    assert model._fitted.label_counts.tolist() == [
        *(Y[:, 0].sum(), 10),
        *(Y[:, 1].sum(), Y[:, 2].sum()),
        40,
    ]
    assert parts_of(model)[0].shape == (4, before.shape[1])
    model.partial_fit(X[:20], Y[:20], classes=["fig", "lime", "plum"])  # fewer columns again
    assert model.classes_.size == 4
    assert model._fitted.label_counts[-1] == 60


@pytest.mark.parametrize("kind", KINDS)
def test_many_batches_come_near_the_optimum(kind):
    X, y = data(kind, n=100)
    alpha, loss = 0.02, "share" if kind == "single" else kind
    Y = matrix(y)
    least = objective(*minimum(X, Y, loss, alpha), X, Y, loss, alpha)
    zero = minimum(X * 0.0, Y, loss, alpha, mask=np.zeros((7, 12), bool))
    start = objective(*zero, X, Y, loss, alpha)
    model = estimator(kind, alpha=alpha, learning_rate=1.0)
    for _ in range(20):
        for rows in np.array_split(np.arange(100), 5):
            model.partial_fit(X[rows], y[rows])
    assert objective_of(model, X, Y, loss) - least < 0.2 * (start - least)
    assert model.n_iter_ == len(model.history_) == 100


@pytest.mark.parametrize("kind", ["independent", "single"])
def test_batches_of_another_kind_of_labels_keep_the_loss_or_are_refused(kind):
    """A vector of labels is a set of one for each row; what is fitted stays what it was."""
    X, y = data(kind)
    _, other = data("single" if kind == "independent" else "independent")
    model = estimator(kind).fit(X, y)
    try:
        model.partial_fit(X, other)
    except ValueError as error:
        assert "label" in str(error)  # noqa: PT017
    independent = model._fitted.weights.calibration is not None
    assert independent == (kind == "independent")


def test_batches_of_the_same_seed_have_the_same_bits():
    X, y = data("independent")
    models = [estimator("independent") for _ in range(2)]
    for model in models:
        for rows in np.array_split(np.arange(60), 4):
            model.partial_fit(X[rows], y[rows])
    assert_same_bits(*models)


def test_a_batch_of_weight_0_changes_nothing():
    X, y = data("single")
    model = estimator("single").fit(X, y)
    before = parts_of(model)
    for zero in (np.zeros(60), np.where(np.arange(60) < 0, 1.0, 0.0)):
        with pytest.raises(ValueError, match="weight"):
            model.partial_fit(X, y, sample_weight=zero)
    for part, expected in zip(parts_of(model), before, strict=True):
        np.testing.assert_array_equal(part, expected)


# ------------------------------------------------------------------------------------ warm starts


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_begins_where_the_last_fit_ended(kind):
    X, y = data(kind)
    Y, loss = matrix(y), "share" if kind == "single" else kind
    model = estimator(kind, warm_start=True, max_epochs=200, alpha=0.02, dtype="float64").fit(X, y)
    first = objective_of(model, X, Y, loss)
    before, _ = parts_of(model)
    model.set_params(max_epochs=1, learning_rate=1e-9).fit(X, y)
    np.testing.assert_allclose(parts_of(model)[0], before, atol=1e-6)
    np.testing.assert_allclose(objective_of(model, X, Y, loss), first, rtol=1e-6)


def test_a_warm_start_on_other_rows_adds_pairs():
    X, y = data("single")
    model = estimator("single", warm_start=True).fit(X[:35], y[:35])
    before, _ = parts_of(model)
    other = sp.csr_matrix(X[25:] @ np.diag((np.arange(12) >= 5).astype(float)))
    model.fit(other, y[25:])
    after, _ = parts_of(model)
    np.testing.assert_array_equal(after[:, :5], before[:, :5])
    both = mask_of(X[:35], matrix(y)[:35]) | mask_of(other, matrix(y)[25:])
    assert model._fitted.weights.W.nnz == both.sum()
    with pytest.raises(ValueError, match="warm_start: the classes"):
        model.fit(X, y % 3)


@pytest.mark.parametrize("kind", ["single", "independent"])
def test_a_warm_start_of_scaled_columns(kind):
    X, y = data(kind)
    X = X.toarray() * 10.0 ** np.linspace(-2, 2, 12) + 3.0
    model = estimator(
        kind, scale=True, warm_start=True, max_epochs=100, alpha=0.02, dtype="float64"
    )
    before = model.fit(X, y).decision_function(X)
    model.set_params(max_epochs=1, learning_rate=1e-9).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), before, atol=1e-5)


def test_dense_and_observed_weights_do_not_continue_each_other():
    X, y = data("single")
    model = estimator("single", warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="weights='observed'"):
        model.set_params(weights="dense").fit(X, y)
    model = estimator("single", warm_start=True, weights="dense").fit(X, y)
    with pytest.raises(ValueError, match="weights='dense'"):
        model.set_params(weights="observed").fit(X, y)
    model.set_params(weights="dense").partial_fit(X, y)


def test_counts_of_labels_add_up_whatever_form_a_batch_has():
    X, Y = data("independent")
    y = np.arange(60) % 7
    model = estimator("independent").fit(X, Y).partial_fit(X, y).partial_fit(X, Y)
    other = estimator("independent").fit(X, Y).partial_fit(X, one_hot(y, 7)).partial_fit(X, Y)
    assert_same_bits(model, other)
    assert model.evaluate(X, Y) == other.evaluate(X, Y)
