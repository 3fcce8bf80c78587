"""Model files: round trips, damaged and foreign files, and safe writing."""

import copy
import json
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file
from sklearn.base import clone

import monro
from monro import LinearClassifier, LinearRegressor, SoftmaxClassifier
from monro.errors import ModelFileError
from monro.saving import container
from monro.saving.atomic import atomic_path
from monro.saving.container import VERSION, Contents, read_container, write_container
from tests import processes
from tests.linear.helpers import SOLVERS, STREAMING, assert_same_bits, make_data
from tests.marks import thorough_unless

GOLDEN = Path(__file__).parent / "golden"
CLASSIFIERS = [
    pytest.param(partial(LinearClassifier, alpha=1e-5), id="linear"),
    pytest.param(partial(SoftmaxClassifier, alpha=0.0), id="softmax"),
]


def saved(model, folder):
    path = folder / "model.monro"
    model.save(path)
    return path


# ------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loaded_classifier_equals_the_saved_one(tmp_path, solver, n_classes):
    X, y = make_data(n_classes=n_classes)
    model = LinearClassifier(
        loss="log", solver=solver, alpha=1e-3, class_weight={0: 2.0}, random_state=3, max_epochs=4
    ).fit(X, y)
    same = monro.load(saved(model, tmp_path))

    assert type(same) is LinearClassifier
    assert same.get_params() == model.get_params()
    assert_same_bits(same, model)
    for name in ("history_", "n_iter_", "solver_", "learning_rate_", "n_features_in_"):
        assert getattr(same, name) == getattr(model, name)
    np.testing.assert_array_equal(same.classes_, model.classes_)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("solver", STREAMING)
def test_training_continues_from_a_loaded_model(tmp_path, solver):
    X, y = make_data()
    model = LinearClassifier(solver=solver, alpha=1e-3, random_state=0).fit(X, y)
    same = monro.load(saved(model, tmp_path))

    assert_same_bits(same.partial_fit(X, y), model.partial_fit(X, y))
    assert_same_bits(same.partial_fit(X, y), model.partial_fit(X, y))


def test_a_warm_start_continues_from_a_loaded_model(tmp_path):
    X, y = make_data()
    model = LinearClassifier(solver="dual", alpha=1e-3, warm_start=True, random_state=0).fit(X, y)
    same = monro.load(saved(model, tmp_path))
    assert_same_bits(same.fit(X, y), model.fit(X, y))


@pytest.mark.parametrize(
    "loss",
    thorough_unless(
        lambda loss: loss in ("squared", "poisson"), ["squared", "absolute", "huber", "poisson"]
    ),
)
def test_a_loaded_regressor_equals_the_saved_one(tmp_path, loss):
    X, y = make_data()
    model = LinearRegressor(loss=loss, alpha=1e-5, random_state=0).fit(sp.csr_matrix(X), y)
    same = monro.load(saved(model, tmp_path))

    assert same.get_params() == model.get_params()
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["nö", "да"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1], dtype=np.int8),
        np.array([0.5, 1.5]),
        np.array([3, 2**60]),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels_of_every_kind(tmp_path, kind, labels):
    X, y = make_data()
    if labels.dtype.kind == "f":
        labels = labels * 2  # scikit-learn accepts whole floats only as classes
    model = kind(
        random_state=0,
        class_weight={labels[0].item() if hasattr(labels[0], "item") else labels[0]: 2.0},
    ).fit(X, labels[y])
    same = monro.load(saved(model, tmp_path))

    assert same.classes_.dtype == model.classes_.dtype
    assert same.predict(X).tolist() == model.predict(X).tolist()
    assert_same_bits(same.fit(X, labels[y]), model)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_feature_names_are_kept(tmp_path, kind):
    pd = pytest.importorskip("pandas")
    X, y = make_data()
    frame = pd.DataFrame(X, columns=list("abcde"))
    same = monro.load(saved(kind(random_state=0).fit(frame, y), tmp_path))

    assert same.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        same.predict(frame[list("edcba")])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_random_state_that_is_not_a_number_is_not_saved(tmp_path, kind):
    X, y = make_data()
    model = kind(random_state=np.random.RandomState(0)).fit(X, y)
    assert monro.load(saved(model, tmp_path)).random_state is None


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_only_a_fitted_model_can_be_saved(tmp_path, kind):
    with pytest.raises(ValueError, match="not fitted"):
        kind().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (LinearClassifier, {"coef_", "intercept_", "classes_"}),
        (SoftmaxClassifier, {"W", "scale", "bias", "slots", "classes_"}),
    ],
)
def test_a_file_holds_no_pickle_and_is_plain_safetensors(tmp_path, kind, names):
    X, y = make_data()
    path = saved(kind(alpha=1e-5, random_state=0).fit(X, y), tmp_path)
    assert set(load_file(path)) >= names
    assert b"pickle" not in path.read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.monro")), ids=lambda path: path.stem)
def test_files_of_every_version_are_read(path):
    """The files were made by tests/golden/make.py; they are never updated."""
    expected = json.loads(path.with_suffix(".json").read_text())
    model = monro.load(path)

    X = np.array(expected["X"])
    assert model.predict(X).tolist() == expected["predictions"]
    # Parameters that are newer than the file have their defaults.
    assert model.get_params() == type(model)().get_params() | expected["parameters"]
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-12)
    if expected["streams"]:
        model.partial_fit(X, expected["predictions"])


def test_there_are_golden_files_of_this_version():
    assert list(GOLDEN.glob(f"v{VERSION}-*.monro"))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_numbers_of_every_byte_order(tmp_path, kind):
    X, y = make_data()
    model = kind(random_state=0).fit(X, y.astype(">i8"))
    assert monro.load(saved(model, tmp_path)).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_parameters_of_every_kind_of_number(tmp_path, kind):
    X, y = make_data()
    model = kind(alpha=Fraction(1, 1000), max_epochs=np.int64(3)).fit(X, y)
    same = monro.load(saved(model, tmp_path))
    assert (same.alpha, same.max_epochs) == (0.001, 3)


def test_training_a_copy_does_not_change_the_original():
    X, y = make_data()
    model = LinearClassifier(solver="asgd", alpha=1e-5, random_state=0).fit(X, y)
    other, witness = copy.copy(model), copy.deepcopy(model)
    other.partial_fit(X, y)
    assert_same_bits(model.partial_fit(X, y), witness.partial_fit(X, y))


# --------------------------------------------------------------------------------------- bad files


@pytest.fixture
def linear_file(tmp_path):
    X, y = make_data()
    return saved(LinearClassifier(solver="sgd", alpha=1e-5, random_state=0).fit(X, y), tmp_path)


@pytest.fixture(
    params=[LinearClassifier(solver="sgd", alpha=1e-5), SoftmaxClassifier(alpha=0.0, max_epochs=3)]
)
def model_file(request, tmp_path):
    X, y = make_data()
    return saved(clone(request.param).set_params(random_state=0).fit(X, y), tmp_path)


def failure(path):
    with pytest.raises(ModelFileError) as caught:
        monro.load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_a_truncated_file_is_an_error(model_file):
    whole = model_file.read_bytes()
    for length in [*range(600), *range(600, len(whole), 97)]:
        model_file.write_bytes(whole[:length])
        text = failure(model_file)
        assert "cut short" in text or "not a monro model" in text


def test_an_array_of_another_shape_is_an_error(model_file):
    """Found by the fuzzer: an array of one number is as long as a scalar."""
    whole = model_file.read_bytes()
    assert whole.count(b'"shape":[1]')
    model_file.write_bytes(whole.replace(b'"shape":[1]', b'"shape":[ ]'))
    assert "damaged" in failure(model_file)


def test_a_flipped_bit_anywhere_is_an_error(model_file):
    whole = model_file.read_bytes()
    for position in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[position] ^= 1 << position % 8
        model_file.write_bytes(changed)
        failure(model_file)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x80\x04pickled", b"PK\x03\x04zip", b"1 1:2\n" * 100]
)
def test_a_foreign_file_is_an_error(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    assert "not a monro model" in failure(path) or "cut short" in failure(path)


def test_tensors_of_another_program_are_an_error(tmp_path):
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": np.zeros(3)}, path, {"format": "pt"})
    assert "its arrays are not those of monro" in failure(path)


def test_a_checkpoint_is_not_a_model(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    LinearClassifier(alpha=1e-5, random_state=0).fit(X, y, checkpoint=path)
    assert "not a monro model: it is a monro checkpoint" in failure(path)


def test_a_newer_file_asks_for_a_newer_monro(model_file, monkeypatch):
    monkeypatch.setattr(container, "VERSION", 7)
    X, y = make_data()
    LinearClassifier(alpha=1e-5, random_state=0).fit(X, y).save(model_file)
    monkeypatch.undo()
    assert "is of version 7, this monro reads up to 3; install a newer monro" in failure(model_file)


def test_an_unknown_estimator_asks_for_a_newer_monro(tmp_path):
    path = tmp_path / "model"
    write_container(path, "model", Contents({}, {"class": "Oracle"}))
    assert "this monro has no 'Oracle'; install a newer monro" in failure(path)


@pytest.mark.parametrize(
    "change",
    [
        {"coef_": np.zeros((1, 4))},
        {"coef_": np.zeros((2, 5))},
        {"coef_": np.full((1, 5), np.nan)},
        {"intercept_": np.zeros(2)},
        {"classes_": np.arange(3)},
        {"states.0.r": np.zeros(1)},
    ],
)
def test_inconsistent_arrays_are_an_error(linear_file, change):
    contents = read_container(linear_file, "model")
    write_container(linear_file, "model", contents._replace(arrays=contents.arrays | change))
    assert "damaged" in failure(linear_file)


def test_a_missing_file_and_a_folder(tmp_path):
    assert "there is no such file" in failure(tmp_path / "nothing")
    assert "this is a folder" in failure(tmp_path)


# ------------------------------------------------------------------------------------- safe writing


def save_on_a_full_disk(path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 40_000)), rng.integers(2, size=50)
    model = LinearClassifier(alpha=1e-5, random_state=0).fit(X, y)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    with pytest.raises(OSError, match=r"is the disk full\?"):
        model.save(path)


def test_a_full_disk_leaves_the_old_file_intact(model_file):
    """A limit on the file size simulates a full disk: the write fails in the same way."""
    before = model_file.read_bytes()
    assert processes.status(processes.start(save_on_a_full_disk, model_file)) == 0
    assert model_file.read_bytes() == before
    assert os.listdir(model_file.parent) == [model_file.name]


def test_links_pipes_and_permissions(tmp_path, model_file):
    X, y = make_data()
    model = LinearClassifier(alpha=1e-5, random_state=1).fit(X, y)
    assert model_file.stat().st_mode & 0o777 == 0o666 & ~os.umask(os.umask(0o022))
    model_file.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(model_file)
    model.save(link)
    assert link.is_symlink()
    assert_same_bits(monro.load(model_file), model)
    assert model_file.stat().st_mode & 0o777 == 0o640
    with atomic_path("/dev/null") as path:
        assert str(path) == "/dev/null"
    assert Path("/dev/null").is_char_device()


def test_threads_that_save_to_one_path(tmp_path):
    X, y = make_data()
    models = [LinearClassifier(alpha=1e-5, random_state=k).fit(X, y) for k in range(4)]
    path = tmp_path / "model"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: models[k % 4].save(path), range(40)))
    assert monro.load(path).random_state in range(4)
    assert os.listdir(tmp_path) == ["model"]


def test_old_files_of_killed_processes_are_removed(model_file):
    old, new = (model_file.with_name(f".{model_file.name}.{k}.partial") for k in ("a", "b"))
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    X, y = make_data()
    LinearClassifier(alpha=1e-5, random_state=0).fit(X, y).save(model_file)
    assert not old.exists()
    assert new.exists()


def test_a_failing_write_leaves_the_old_file_intact(model_file, monkeypatch):
    before = model_file.read_bytes()
    X, y = make_data()
    other = LinearClassifier(alpha=1e-5, random_state=1).fit(X, y)

    def fail(*_):
        raise OSError("no")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no"):
        other.save(model_file)
    assert model_file.read_bytes() == before
    assert os.listdir(model_file.parent) == [model_file.name]
