"""Models that stay in their files, files for predictions only, and memory that does not suffice."""

import mmap

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import monro
from monro import LinearClassifier, LinearRegressor, SoftmaxClassifier, memory
from monro.errors import NotEnoughMemoryError
from monro.saving import container
from monro.saving.container import Contents, is_in_file
from monro.saving.estimator import _undo_rounding, round_to_half
from tests.crf.helpers import corpus
from tests.linear.helpers import make_data

MODELS = [
    LinearClassifier(loss="log", alpha=1e-4, random_state=0),
    SoftmaxClassifier(alpha=1e-4, random_state=0),
    SoftmaxClassifier(alpha=1e-4, random_state=0, warm_start=True),
]


@pytest.fixture(params=MODELS, ids=["linear", "softmax", "softmax with a local state"])
def model(request):
    X, y = make_data(n_classes=20)
    return request.param.fit(sp.csr_matrix(X), y), X


@pytest.fixture
def no_memory(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 10)
    monkeypatch.setattr(container, "free_memory", lambda: 10)


# --------------------------------------------------------------------------- arrays in their file


def test_a_mapped_model_predicts_the_same(tmp_path, model):
    fitted, X = model
    path = tmp_path / "model"
    fitted.save(path)
    mapped = monro.load(path, mapped=True)
    weights = mapped.coef_ if isinstance(mapped, LinearClassifier) else mapped._weights().W
    assert is_in_file(weights)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_array_equal(mapped.predict_proba(rows), fitted.predict_proba(rows))


def test_training_a_mapped_model_leaves_its_file_alone(tmp_path):
    X, y = make_data()
    path = tmp_path / "model"
    SoftmaxClassifier(alpha=1e-4, random_state=0).fit(X, y).save(path)
    before = path.read_bytes()
    one, other = (monro.load(path, mapped=mapped).partial_fit(X, y) for mapped in (True, False))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert path.read_bytes() == before


def test_a_model_larger_than_memory_is_mapped(tmp_path, model, no_memory):
    fitted, X = model
    path = tmp_path / "model"
    fitted.save(path)
    np.testing.assert_array_equal(monro.load(path).predict(X), fitted.predict(X))
    with pytest.raises(
        NotEnoughMemoryError, match=r"model: its arrays take .*mapped=True"
    ) as found:
        monro.load(path, mapped=False)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("damage", [b'"F32"', b'"F64"', b'"shape"'])
def test_a_damaged_description_of_a_mapped_model_is_an_error(tmp_path, model, damage):
    path = tmp_path / "model"
    model[0].save(path)
    whole = path.read_bytes()
    if damage in whole:
        path.write_bytes(whole.replace(damage, b'"' + b"x" * (len(damage) - 2) + b'"'))
        with pytest.raises(monro.errors.ModelFileError, match=r"damaged|not a monro model"):
            monro.load(path, mapped=True)


def test_arrays_know_whether_they_are_in_a_file():
    pages = mmap.mmap(-1, 4096)
    array = np.ndarray((8, 4), "<f4", pages)
    assert is_in_file(array)
    assert is_in_file(array[1:].T)
    assert not is_in_file(array.copy())


# ------------------------------------------------------------------------------- predictions only


def test_scores_of_a_file_for_predictions_stay_within_the_bound(tmp_path, model):
    fitted, X = model
    whole, small = tmp_path / "whole", tmp_path / "small"
    fitted.save(whole)
    fitted.save(small, inference=True)
    same = monro.load(small)
    assert small.stat().st_size < whole.stat().st_size
    assert same.history_ == []
    bound = 2.0**-11 * abs(X) @ abs(fitted.coef_).T + 1e-10
    change = abs(same.decision_function(X) - fitted.decision_function(X))
    assert (change <= bound).all()
    assert change.max() > 0
    assert same.coef_.dtype == fitted.coef_.dtype


def test_a_file_for_predictions_is_not_trained_further(tmp_path, model):
    fitted, X = model
    _, y = make_data(n_classes=20)
    fitted.save(tmp_path / "small", inference=True)
    monro.load(tmp_path / "small").save(tmp_path / "again")
    for name in ("small", "again"):
        same = monro.load(tmp_path / name)
        with pytest.raises(ValueError, match="saved with inference=True"):
            same.partial_fit(X, y)
        with pytest.raises(ValueError, match="saved with inference=True"):
            same.set_params(warm_start=True).fit(X, y)
        same.set_params(warm_start=False).fit(X, y).partial_fit(X, y)


def test_a_sparse_model_and_a_regressor_for_predictions(tmp_path):
    X, y = make_data(n_classes=5)
    sparse = SoftmaxClassifier(alpha=1e-3, l1_ratio=0.9, random_state=0).fit(X, y).sparsify()
    line = LinearRegressor(alpha=1e-4, random_state=0).fit(X, X[:, 0])
    for fitted in (sparse, line):
        fitted.save(tmp_path / "model", inference=True)
        found = monro.load(tmp_path / "model").predict(X)
        np.testing.assert_allclose(found, fitted.predict(X), rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("solver", ["asgd", "sgd"])
def test_a_tagger_for_predictions(tmp_path, solver):
    sentences, tags = corpus()
    fitted = monro.CRFTagger(solver=solver, c=1.0, max_epochs=3, random_state=0)
    fitted.fit(sentences, tags).save(tmp_path / "whole")
    fitted.save(tmp_path / "small", inference=True)
    small = monro.load(tmp_path / "small")
    assert (tmp_path / "small").stat().st_size < (tmp_path / "whole").stat().st_size
    assert small.predict(sentences) == fitted.predict(sentences)
    assert small.log_loss(sentences, tags) == pytest.approx(
        fitted.log_loss(sentences, tags), rel=1e-3
    )
    with pytest.raises(ValueError, match="saved with inference=True"):
        small.partial_fit(sentences, tags)
    small.save(tmp_path / "again")
    assert monro.load(tmp_path / "again").predict(sentences) == fitted.predict(sentences)
    assert small.fit(sentences, tags).partial_fit(sentences, tags) is small


@settings(deadline=None, derandomize=True)
@given(
    values=st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=9),
    exponent=st.integers(-150, 150),
)
def test_half_precision_changes_a_number_by_its_bound(values, exponent):
    array = np.array(values) * 2.0**exponent
    contents = Contents({"W": array}, {})
    round_to_half(contents, ["W"])
    assert "W" not in contents.arrays
    _undo_rounding("path", contents)
    bound = np.maximum(2.0**-11 * abs(array), 2.0**-39 * abs(array).max())
    assert (abs(contents.arrays["W"] - array) <= bound).all()


# ---------------------------------------------------------------------------------- free memory


def test_a_fit_that_cannot_fit_says_so_first(no_memory):
    X, y = make_data(n_classes=20)
    for estimator in (SoftmaxClassifier(), LinearClassifier()):
        with pytest.raises(NotEnoughMemoryError, match=r"^weights of 20 \w+ × 5 features") as found:
            estimator.fit(X, y)
        assert "\n" not in str(found.value)
        assert "hash" in str(found.value)
    with pytest.raises(NotEnoughMemoryError, match="weights of 20 classes"):
        SoftmaxClassifier(alpha=1e-4).partial_fit(X, y, classes=np.arange(20))


def test_copies_of_the_weights_are_counted(monkeypatch):
    n, width = 4, 10
    one = 16 * width * 4  # sixteen classes a block, in single precision
    X, y = np.eye(n, width), np.arange(n)
    monkeypatch.setattr(memory, "free_memory", lambda: one)
    SoftmaxClassifier(alpha=1e-3, max_epochs=1).fit(X, y)
    for parameters in ({"alpha": "auto"}, {"alpha": 1e-3, "early_stopping": True}):
        with pytest.raises(NotEnoughMemoryError, match="2 times, take"):
            SoftmaxClassifier(**parameters).fit(X, y)
    with pytest.raises(NotEnoughMemoryError, match="48 times, take"):
        SoftmaxClassifier(solver="lbfgs", alpha=1e-3).fit(X, y)


def test_columns_without_entries_are_not_counted(monkeypatch):
    X = sp.csr_matrix((np.ones(4), ([0, 1, 2, 3], [5, 9, 5, 9])), (4, 1000))
    room = 16 * 4 * 2  # two columns of a block
    monkeypatch.setattr(memory, "free_memory", lambda: room)
    SoftmaxClassifier(alpha=1e-3, max_epochs=1).fit(X, [0, 1, 0, 1])
    monkeypatch.setattr(memory, "free_memory", lambda: room - 1)
    with pytest.raises(NotEnoughMemoryError, match=r"2 features take .*; or weights='observed'"):
        SoftmaxClassifier(alpha=1e-3, max_epochs=1, weights="dense").fit(X, [0, 1, 0, 1])


def test_the_limit_of_a_control_group(tmp_path):
    group = tmp_path / "memory"
    group.mkdir()
    names = "memory.limit_in_bytes", "memory.usage_in_bytes"
    for name, amount in zip(names, (1000, 700), strict=True):
        (group / name).write_text(f"{amount}\n")
    (group / "memory.stat").write_text("cache 300\ntotal_inactive_file 150\nactive_file 50\n")
    kinds = "total_inactive_file", "active_file"
    paths = [f"memory/{name}" for name in names]
    assert memory._of_group(tmp_path, *paths, kinds) == 500
    (group / names[0]).write_text("max\n")
    assert memory._of_group(tmp_path, *paths, kinds) is None
    assert memory._of_group(tmp_path / "nothing", *paths, kinds) is None


def test_the_memory_of_the_machine(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:  5 kB\nSwapFree:   2 kB\n")
    assert memory._of_machine(meminfo) == 7 * 1024
    everything = memory._of_machine(tmp_path / "nothing")
    assert everything is None or everything > 1e6
