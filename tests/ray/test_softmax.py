"""The softmax on a cluster of two nodes, against the same fit on one machine."""

import os

import numpy as np
import pyarrow as pa
import pytest
import ray.data
import scipy.sparse as sp

from monro import SoftmaxClassifier, load
from monro.errors import CheckpointError
from monro.ray.datasets import dataset_of
from monro.ray.folder_checkpoint import remove_checkpoint
from monro.ray.softmax import RaySoftmaxClassifier
from monro.softmax.metrics import losses
from monro.studies.data import LOADERS, next_word
from monro.studies.nextword import log_loss as next_word_loss
from tests.ray.data import many_classes

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]


def test_workers_are_on_both_nodes_and_the_loss_is_that_of_one_machine():
    X, y = many_classes()
    model = RaySoftmaxClassifier(workers=2, max_epochs=20, random_state=0)
    model.fit(dataset_of(X, y, 4), "label", n_features=X.shape[1])
    local = model.to_local()
    alone = SoftmaxClassifier(alpha=0.0, max_epochs=20, random_state=0).fit(X, y)
    assert local.log_loss(X, y) <= 1.02 * alone.log_loss(X, y)
    assert model.n_iter_ == len(model.history_) == 20
    assert np.array_equal(local.classes_, alone.classes_)


def columns_of_numbers(X, y):
    names = [f"x{k}" for k in range(X.shape[1])]
    return ray.data.from_arrow(pa.table(dict(zip(names, X.T, strict=True)) | {"label": y}))


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 12))
    y = rng.integers(40, size=1200)
    return (centres[y] + 0.5 * rng.standard_normal((1200, 12))).astype(np.float32), y


@pytest.mark.parametrize("form", ["numbers", "vectors", "sparse"])
def test_columns_of_numbers_vectors_and_lists_are_the_same_rows(dense, form):
    X, y = dense
    if form == "numbers":
        dataset = columns_of_numbers(X, y)
    else:
        dataset = dataset_of(sp.csr_matrix(X) if form == "sparse" else X, y, 2)
    model = RaySoftmaxClassifier(workers=2, max_epochs=15, random_state=0)
    local = model.fit(dataset, "label").to_local()
    alone = SoftmaxClassifier(alpha=0.0, max_epochs=15, random_state=0).fit(X, y)
    # The classes can be separated: both losses may be so small that only roundings differ.
    assert local.log_loss(X, y) <= 1.05 * alone.log_loss(X, y) + 1e-9
    assert hasattr(local, "feature_names_in_") == (form == "numbers")
    assert local.n_features_in_ == 12


def test_words_are_labels_and_weights_of_classes_count(dense):
    X, y = dense
    words = np.array([f"class {k:02}" for k in y])
    settings = {"max_epochs": 10, "random_state": 0, "alpha": 1e-3}
    weighted = settings | {"class_weight": {f"class {k:02}": 1.0 + (k == 3) for k in range(40)}}
    model = RaySoftmaxClassifier(workers=2, **weighted).fit(dataset_of(X, words, 3), "label")
    alone = SoftmaxClassifier(**weighted).fit(X, words)
    assert model.classes_.tolist() == alone.classes_.tolist()
    weight = 1.0 + (y == 3)
    objective, expected = (
        m.log_loss(X, words, weight) + 1e-3 / 2 * (m.coef_.astype(float) ** 2).sum()
        for m in (model.to_local(), alone)
    )
    assert objective == pytest.approx(expected, rel=0.02)


def test_an_unknown_column_a_single_class_and_a_bad_number_are_refused(dense):
    X, y = dense
    dataset = columns_of_numbers(X, y)
    model = RaySoftmaxClassifier(workers=1, max_epochs=1)
    with pytest.raises(ValueError, match="no column 'labels'"):
        model.fit(dataset, "labels")
    with pytest.raises(ValueError, match="one class only"):
        model.fit(columns_of_numbers(X, np.zeros_like(y)), "label")
    bad = X.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match=r"block 0 of the data set: .*row 8, column 'x3'"):
        model.fit(columns_of_numbers(bad, y), "label")
    with pytest.raises(ValueError, match="workers=0"):
        RaySoftmaxClassifier(workers=0).fit(dataset, "label")


def test_the_model_goes_on_training_and_is_saved(dense, tmp_path):
    X, y = dense
    model = RaySoftmaxClassifier(workers=2, max_epochs=5, random_state=0, tol=1e-9)
    local = model.fit(dataset_of(X, y, 2), "label").to_local()
    assert all("log_loss" in record for record in model.history_)
    local.save(tmp_path / "model.monro")
    again = load(tmp_path / "model.monro")
    assert np.array_equal(again.predict(X), local.predict(X))
    before = again.log_loss(X, y)
    for _ in range(5):
        again.partial_fit(X, y)
    assert again.log_loss(X, y) < 1.05 * before


def test_a_checkpoint_of_other_data_is_refused(dense, tmp_path):
    X, y = dense
    model = RaySoftmaxClassifier(workers=2, max_epochs=2, random_state=0)
    model.fit(dataset_of(X, y, 2), "label", checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match="the data differs"):
        model.fit(dataset_of(X + 1, y, 2), "label", checkpoint=tmp_path / "run")


@pytest.mark.skipif("MONRO_DATA" not in os.environ, reason="the data sets are in $MONRO_DATA")
@pytest.mark.parametrize(("name", "epochs"), [("bibtex", 30), ("delicious", 30), ("wikitext2", 3)])
def test_real_data_ends_within_two_percent_of_one_machine(name, epochs):
    if name == "wikitext2":
        X, y = next_word()
    else:
        X, y = LOADERS[name]()[:2]
        X = X.astype(np.float32)
    settings = {"alpha": 0.0, "max_epochs": epochs, "random_state": 0}
    alone = SoftmaxClassifier(**settings).fit(X, y)
    model = RaySoftmaxClassifier(workers=2, **settings)
    local = model.fit(dataset_of(X, y, 8), "label", n_features=X.shape[1]).to_local()
    codes = np.searchsorted(alone.classes_, y)
    loss = next_word_loss if name == "wikitext2" else lambda W, X, y: losses(W, X, y).mean()
    assert loss(local._fitted.weights, X, codes) <= 1.02 * loss(alone._fitted.weights, X, codes)


def test_of_a_folder_only_the_checkpoint_is_removed(tmp_path):
    X, y = many_classes(n=500)
    dataset = dataset_of(X, y, 2)
    for name in ("own", "shared"):
        folder = tmp_path / name
        model = RaySoftmaxClassifier(workers=1, max_epochs=2, random_state=0)
        model.fit(dataset, "label", n_features=X.shape[1], checkpoint=folder)
        assert len(list(folder.iterdir())) == 2
    (tmp_path / "shared" / "thesis.txt").write_text("years of work")
    remove_checkpoint(tmp_path / "own")
    remove_checkpoint(tmp_path / "shared")
    assert not (tmp_path / "own").exists()
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["thesis.txt"]
