"""Checkpoints: a fit that was killed resumes, and ends with the same bits."""

import os
import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp

from monro import LinearClassifier, SoftmaxClassifier
from monro.errors import CheckpointError
from tests import processes
from tests.callbacks import killed_after
from tests.marks import thorough, thorough_unless
from tests.softmax.data import STREAMING, assert_same_bits, in_both_forms, make_data


@in_both_forms(STREAMING)
def test_an_interrupted_fit_resumes_with_the_same_bits(tmp_path, solver, form):
    X, y = make_data()
    parameters = {"solver": solver, "alpha": 1e-3, "random_state": 0, "max_epochs": 6}
    whole = SoftmaxClassifier(**parameters).fit(form(X), y)
    path = tmp_path / "checkpoint"
    killed_after(3, SoftmaxClassifier(**parameters), form(X), y, path)
    assert path.exists()
    resumed = SoftmaxClassifier(**parameters).fit(form(X), y, checkpoint=path)

    assert_same_bits(resumed, whole)
    assert resumed.n_iter_ == 6
    assert resumed.learning_rate_ == whole.learning_rate_
    assert resumed.plan_ == whole.plan_
    for key in ("epoch", "loss", "rate"):
        assert [r[key] for r in resumed.history_] == [r[key] for r in whole.history_]
    # And training continues from there with the same bits.
    assert_same_bits(resumed.partial_fit(form(X), y), whole.partial_fit(form(X), y))


@pytest.mark.parametrize(
    ("kind", "form"),
    thorough_unless(
        lambda kind, form: form is np.asarray or kind in ("early_stopping", "tol"),
        ["early_stopping", "tol", "unseeded", "weights", "raman", "uniform", "bounded", "double"],
        [np.asarray, sp.csr_matrix],
    ),
)
def test_fits_of_every_kind_resume(tmp_path, form, kind):
    X, y = make_data(n=400)
    rows = form(X)
    weight = np.random.default_rng(0).integers(3, size=y.size) if kind == "weights" else None
    parameters = {
        "early_stopping": {"early_stopping": True, "max_epochs": 20, "epoch_decay": 1.0},
        "tol": {"tol": 1e-2, "max_epochs": 20},
        "unseeded": {"early_stopping": True, "random_state": None},
        "weights": {"class_weight": "balanced", "classes": [0, 1, 2, 3, 7]},
        "raman": {"formulation": "raman"},
        "uniform": {"sampling": "uniform", "classes_per_step": 2},
        "bounded": {"solver": "umax", "radius": 1.0},
        "double": {"dtype": "float64", "init": "zero"},
    }[kind]
    parameters = {"alpha": 0.0, "random_state": 0, "max_epochs": 5} | parameters
    path = tmp_path / "checkpoint"
    killed_after(2, SoftmaxClassifier(**parameters), rows, y, path, weight)
    resumed = SoftmaxClassifier(**parameters).fit(rows, y, weight, checkpoint=path)
    # A finished fit is not repeated.
    again = SoftmaxClassifier(**parameters).fit(rows, y, weight, checkpoint=path)

    assert_same_bits(again, resumed)
    if kind != "unseeded":
        whole = SoftmaxClassifier(**parameters).fit(rows, y, weight)
        assert_same_bits(resumed, whole)
        assert resumed.n_iter_ == whole.n_iter_


def test_fits_on_mini_batches_resume(tmp_path):
    X, y = make_data(n=60)
    parameters = {
        "alpha": 0.0,
        "examples_per_step": 4,
        "learning_rate": 0.3,
        "max_epochs": 3,
        "random_state": 0,
    }
    path = tmp_path / "checkpoint"
    killed_after(1, SoftmaxClassifier(**parameters), X, y, path)
    resumed = SoftmaxClassifier(**parameters).fit(X, y, checkpoint=path)
    assert_same_bits(resumed, SoftmaxClassifier(**parameters).fit(X, y))


def test_more_epochs_resume_from_a_finished_fit(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    parameters = {"alpha": 0.0, "random_state": 0, "learning_rate": 0.3, "epoch_decay": 0.9}
    SoftmaxClassifier(**parameters, max_epochs=3).fit(X, y, checkpoint=path)
    longer = SoftmaxClassifier(**parameters, max_epochs=6).fit(X, y, checkpoint=path)
    assert_same_bits(longer, SoftmaxClassifier(**parameters, max_epochs=6).fit(X, y))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"alpha": 1e-3}, r"alpha was 0\.0, now it is 0\.001"),
        ({"solver": "umax"}, "solver was 'implicit', now it is 'umax'"),
        ({"formulation": "raman"}, "formulation was 'auto', now it is 'raman'"),
        ({"dtype": "float64"}, "dtype was 'float32', now it is 'float64'"),
        ({"classes": [0, 1, 2, 3, 9]}, "classes was None, now it is"),
        ({"random_state": 1}, "random_state was 0, now it is 1"),
        ({"max_epochs": 2}, "has 3 epochs already, max_epochs is 2"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(tmp_path, change, what):
    X, y = make_data()
    parameters = {"alpha": 0.0, "random_state": 0, "max_epochs": 3}
    path = tmp_path / "checkpoint"
    SoftmaxClassifier(**parameters).fit(X, y, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=what) as caught:
        SoftmaxClassifier(**parameters | change).fit(X, y, checkpoint=path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["values", "labels", "weights", "shape", "form", "kind"])
def test_the_checkpoint_of_other_data_is_refused(tmp_path, what):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y, checkpoint=path)
    other, targets, weight, kind = X.copy(), y.copy(), None, SoftmaxClassifier
    if what == "values":
        other[17, 3] += 1e-9
    elif what == "labels":
        targets[5] = (targets[5] + 1) % 4
    elif what == "weights":
        weight = np.where(np.arange(y.size) == 9, 2.0, 1.0)
    elif what == "shape":
        other = other[:, :4]
    elif what == "form":
        other = sp.csr_matrix(other)
    else:
        kind = LinearClassifier
    with pytest.raises(CheckpointError, match="belongs to another fit"):
        kind(alpha=0.0, random_state=0, max_epochs=2).fit(other, targets, weight, checkpoint=path)


def test_the_labels_may_have_other_names(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y, checkpoint=path)
    model = SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(
        X, y + 1, checkpoint=path
    )
    np.testing.assert_array_equal(model.classes_, [1, 2, 3, 4])


def test_a_refused_checkpoint_leaves_a_fitted_model_alone(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y, checkpoint=path)
    model = SoftmaxClassifier(alpha=0.0, random_state=1, max_epochs=2).fit(X, y)
    before = model.coef_
    with pytest.raises(CheckpointError):
        model.fit(X, y, checkpoint=path)
    np.testing.assert_array_equal(model.coef_, before)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"cut short.*; for a checkpoint, delete it"):
        SoftmaxClassifier(alpha=0.0, random_state=0, max_epochs=2).fit(X, y, checkpoint=path)


def test_fits_that_keep_no_checkpoint_raise(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    with pytest.raises(ValueError, match="use warm_start=False"):
        SoftmaxClassifier(warm_start=True, alpha=0.0).fit(X, y, checkpoint=path)
    with pytest.raises(ValueError, match="solver='lbfgs' keeps no checkpoint"):
        SoftmaxClassifier(solver="lbfgs", alpha=0.0).fit(X, y, checkpoint=path)


# ------------------------------------------------------------------------------------------ kill -9


def long_fit(checkpoint=None):
    rng = np.random.default_rng(0)
    X = sp.random_array((4_000, 300), density=0.05, rng=rng, format="csr")
    y = np.argmax(X @ rng.normal(size=(300, 200)), axis=1)
    model = SoftmaxClassifier(
        classes=list(range(200)),
        early_stopping=True,
        tol=0.0,
        epoch_decay=1.0,
        alpha=0.0,
        max_epochs=200,
    )
    return model.set_params(learning_rate=0.01, random_state=0).fit(X, y, checkpoint=checkpoint)


@thorough
def test_killed_at_random_moments_a_fit_ends_with_the_same_bits(tmp_path):
    path = tmp_path / "checkpoint"
    rng = np.random.default_rng(0)
    for _ in range(int(os.environ.get("MONRO_KILLS", "3"))):
        process = processes.start(long_fit, path)
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.is_alive():
            time.sleep(rng.uniform(0.0, 0.05))
            if path.exists() and path.stat().st_mtime_ns > before:
                process.kill()
                break
        assert processes.status(process) in (0, -signal.SIGKILL)
    resumed = long_fit(path)
    whole = long_fit()

    assert_same_bits(resumed, whole)
    assert [r["loss"] for r in resumed.history_] == [r["loss"] for r in whole.history_]
