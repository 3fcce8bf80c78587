"""Checkpoints: a fit that was killed resumes, and ends with the same bits."""

import os
import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp

from monro import LinearClassifier, LinearRegressor
from monro.data.convert import write_store
from monro.errors import CheckpointError
from tests import processes
from tests.callbacks import killed_after
from tests.linear.helpers import SOLVERS, assert_same_bits, make_data
from tests.marks import thorough


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fit_that_failed_goes_on_to_the_same_bits(tmp_path, solver, n_classes):
    X, y = make_data(n_classes=n_classes)
    parameters = {"solver": solver, "alpha": 1e-3, "random_state": 0, "max_epochs": 8}
    whole = LinearClassifier(**parameters).fit(X, y)
    path = tmp_path / "checkpoint"
    killed_after(5, LinearClassifier(**parameters), X, y, path)
    assert path.exists()
    resumed = LinearClassifier(**parameters).fit(X, y, checkpoint=path)

    assert_same_bits(resumed, whole)
    assert resumed.n_iter_ == 8
    assert [record["epoch"] for record in resumed.history_] == list(range(1, 9))
    assert [r["loss"] for r in resumed.history_] == [r["loss"] for r in whole.history_]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("kind", ["early_stopping", "tol", "unseeded", "weights", "wide"])
def test_whatever_the_fit(tmp_path, form, kind):
    X, y = make_data(n=400)
    X = form(X)
    if kind == "wide":
        X = sp.csr_matrix(X)
        X = sp.csr_matrix((X.data, X.indices * 30_000, X.indptr), shape=(400, 150_000))
    parameters = {
        "early_stopping": {"early_stopping": True, "max_epochs": 30, "random_state": 0},
        "tol": {"tol": 1e-2, "max_epochs": 30, "random_state": 0},
        "unseeded": {"early_stopping": True},
        "weights": {"class_weight": "balanced", "random_state": 0},
        "wide": {"random_state": 0, "solver": "asgd"},
    }[kind]
    path = tmp_path / "checkpoint"
    killed_after(2, LinearClassifier(alpha=1e-5, **parameters), X, y, path)
    resumed = LinearClassifier(alpha=1e-5, **parameters).fit(X, y, checkpoint=path)
    # A finished fit is not repeated.
    again = LinearClassifier(alpha=1e-5, **parameters).fit(X, y, checkpoint=path)

    assert_same_bits(again, resumed)
    if kind != "unseeded":
        assert_same_bits(resumed, LinearClassifier(alpha=1e-5, **parameters).fit(X, y))
        assert resumed.n_iter_ == LinearClassifier(alpha=1e-5, **parameters).fit(X, y).n_iter_


def test_a_regressor_goes_on_too(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    killed_after(3, LinearRegressor(alpha=1e-5, random_state=0), X, y, path)
    resumed = LinearRegressor(alpha=1e-5, random_state=0).fit(X, y, checkpoint=path)
    np.testing.assert_array_equal(
        resumed.coef_, LinearRegressor(alpha=1e-5, random_state=0).fit(X, y).coef_
    )


def test_more_epochs_go_on_from_a_finished_fit(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    LinearClassifier(alpha=1e-5, random_state=0, max_epochs=4).fit(X, y, checkpoint=path)
    longer = LinearClassifier(alpha=1e-5, random_state=0, max_epochs=9).fit(X, y, checkpoint=path)
    assert_same_bits(longer, LinearClassifier(alpha=1e-5, random_state=0, max_epochs=9).fit(X, y))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"alpha": 1e-3}, r"alpha was 1e-05, now it is 0\.001"),
        ({"loss": "log"}, "loss was 'hinge', now it is 'log'"),
        ({"random_state": 1}, "random_state was 0, now it is 1"),
        ({"max_epochs": 2}, "has 5 epochs already, max_epochs is 2"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(tmp_path, change, what):
    X, y = make_data()
    parameters = {"alpha": 1e-5, "random_state": 0, "max_epochs": 5}
    path = tmp_path / "checkpoint"
    LinearClassifier(**parameters).fit(X, y, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=what) as caught:
        LinearClassifier(**parameters | change).fit(X, y, checkpoint=path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["values", "labels", "shape", "kind"])
def test_the_checkpoint_of_other_data_is_refused(tmp_path, what):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    LinearClassifier(alpha=1e-5, random_state=0).fit(X, y, checkpoint=path)
    other, targets, kind = X.copy(), y.copy(), LinearClassifier
    if what == "values":
        other[17, 3] += 1e-9
    elif what == "labels":
        targets[5] = 1 - targets[5]
    elif what == "shape":
        other = other[:, :4]
    else:
        kind = LinearRegressor
    with pytest.raises(CheckpointError, match="belongs to another fit"):
        kind(alpha=1e-5, random_state=0).fit(other, targets, checkpoint=path)


def test_the_checkpoint_of_the_same_rows_in_a_file_is_refused(tmp_path):
    """Mapped rows keep all columns and have another hold-out: the states have other shapes."""
    X, y = make_data()
    X = sp.csr_matrix(X)
    wide = sp.csr_matrix((X.data, X.indices * 30_000, X.indptr), shape=(300, 150_000))
    kept = write_store([(wide, y)], tmp_path / "store", dtype="float64")
    in_memory = sp.csr_matrix(kept.X.toarray())
    path = tmp_path / "checkpoint"
    LinearClassifier(solver="sgd", alpha=1e-5, random_state=0).fit(
        in_memory, kept.y, checkpoint=path
    )
    with pytest.raises(CheckpointError, match="belongs to another fit"):
        LinearClassifier(solver="sgd", alpha=1e-5, random_state=0).fit(
            kept.X, kept.y, checkpoint=path
        )


def test_a_damaged_checkpoint_says_so(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    LinearClassifier(alpha=1e-5, random_state=0).fit(X, y, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"cut short.*; for a checkpoint, delete it"):
        LinearClassifier(alpha=1e-5, random_state=0).fit(X, y, checkpoint=path)


def test_a_file_that_is_no_checkpoint_is_left_alone(tmp_path):
    X, y = make_data()
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n")
    with pytest.raises(CheckpointError, match=r"not a monro model; for a checkpoint, give another"):
        LinearClassifier(alpha=1e-5).fit(X, y, checkpoint=path)
    assert path.read_text() == "1 1:1\n"


def test_not_with_a_warm_start(tmp_path):
    X, y = make_data()
    with pytest.raises(ValueError, match="use warm_start=False"):
        LinearClassifier(warm_start=True, alpha=1e-5).fit(X, y, checkpoint=tmp_path / "checkpoint")


# ------------------------------------------------------------------------------------------ kill -9


def long_fit(folder, solver):
    rng = np.random.default_rng(0)
    X = sp.random_array((20_000, 3_000), density=0.01, rng=rng, format="csr")
    y = np.where(X @ rng.normal(size=3_000) > 0, 1, 0)
    model = LinearClassifier(solver=solver, alpha=1e-4, random_state=0, max_epochs=300)
    model.fit(X, y, checkpoint=folder / "checkpoint")
    model.save(folder / "model")


def coefficients(folder):
    import monro

    model = monro.load(folder / "model")
    return model.coef_.tobytes() + model.intercept_.tobytes()


def written(path):
    return path.stat().st_mtime_ns if path.exists() else 0


def kill_at_random(folder, solver, rng, most):
    """Start the fit again and again, killing it at random moments; return how often.

    Each time it gets so far as to write a checkpoint: it need not be fast to get on.
    """
    for kills in range(most):
        before = written(folder / "checkpoint")
        process = processes.start(long_fit, folder, solver)
        while written(folder / "checkpoint") == before and process.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        if processes.status(process) == 0:
            return kills
        assert process.exitcode == -signal.SIGKILL
    assert processes.status(processes.start(long_fit, folder, solver)) == 0
    return most


@thorough
@pytest.mark.parametrize("solver", [pytest.param("asgd", marks=thorough), "dual"])
def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path, solver):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert processes.status(processes.start(long_fit, whole, solver)) == 0
    rng = np.random.default_rng(0)
    assert kill_at_random(killed, solver, rng, int(os.environ.get("MONRO_KILLS", "5"))) > 0
    assert coefficients(killed) == coefficients(whole)
