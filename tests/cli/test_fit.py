"""monro fit: its output, the saved model, and errors."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import monro
from monro.data.read import read
from tests.cli.helpers import FIXED, failure, invoke, output
from tests.marks import thorough


def test_fit_prints_progress_and_result(folder, tmp_path):
    result = invoke(
        "fit", folder / "binary.train", tmp_path / "model", *FIXED, "--set", "max_epochs=3"
    )

    assert result.exit_code == 0
    assert "svmlight, 400 rows × 30 features" in result.stderr
    assert "features are numbered from 1" in result.stderr
    assert "epoch 3/3" in result.stderr
    assert "rows/s" in result.stderr
    assert "epochs" in result.stdout


def test_fit_as_json(folder, tmp_path):
    text = output("fit", folder / "three.train", tmp_path / "model", *FIXED, "--json", "--quiet")
    result = json.loads(text)

    assert result["classes"] == [5, 6, 7]
    assert (result["rows"], result["features"], result["epochs"]) == (400, 30, 10)
    assert result["model"] == str(tmp_path / "model")
    assert np.isfinite(result["mean_loss"])


@pytest.mark.parametrize("task", ["binary", "softmax"])
def test_the_result_is_that_of_the_epoch_that_was_kept(task, folder, tmp_path):
    flags = ["--set", "early_stopping=true", "--set", "max_epochs=30", "--json", "--quiet"]
    text = output("fit", folder / "three.train", tmp_path / "model", "--task", task, *FIXED, *flags)
    result = json.loads(text)
    history = monro.load(tmp_path / "model").history_
    best = min(history, key=lambda record: record["validation_loss"])
    assert result["kept_epoch"] == best["epoch"] < result["epochs"]
    assert result["validation_loss"] == best["validation_loss"]


def test_fit_quietly(folder, tmp_path):
    result = invoke("fit", folder / "binary.train", tmp_path / "model", *FIXED, "--quiet")
    assert result.stderr == ""


@pytest.mark.filterwarnings("always")
def test_a_fit_that_has_not_converged_says_so_in_one_line(folder, tmp_path):
    flags = [*FIXED, "--quiet", "--solver", "sgd", "--set", "learning_rate=1e-9"]
    result = invoke("fit", folder / "binary.train", tmp_path / "model", *flags)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("monro: max_epochs=10: the fit has not converged")


def test_the_model_is_that_of_the_library(folder):
    data = read(folder / "binary.train")
    model = monro.LinearClassifier(loss="log", alpha=1e-5, random_state=0).fit(data.X, data.y)
    loaded = monro.load(folder / "binary.monro")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)


def test_settings_reach_the_estimator(folder, tmp_path):
    settings = ["alpha=1e-3", "max_epochs=4", "fit_intercept=false", "tol=none", "schedule=bottou"]
    flags = [part for setting in settings for part in ("--set", setting)]
    output(
        "fit",
        folder / "binary.train",
        tmp_path / "model",
        "--solver",
        "asgd",
        "--seed",
        "7",
        *flags,
    )
    model = monro.load(tmp_path / "model")

    assert (model.alpha, model.max_epochs, model.fit_intercept, model.tol) == (1e-3, 4, False, None)
    assert (model.solver, model.random_state) == ("asgd", 7)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--set", "aplha=1"], "--set aplha=1: there is no parameter 'aplha'; did you mean alpha?"),
        (
            ["--set", "xyz=1"],
            "there is no parameter 'xyz'; choose from alpha, center, class_weight",
        ),
        (["--set", "alpha"], "--set alpha: write name=value"),
        (["--set", "alpha=x"], "alpha='x': give a finite number >= 0"),
        (["--set", "early_stopping=maybe"], "early_stopping='maybe': choose True or False"),
        (["--set", "verbose=x"], "verbose='x': give a whole number"),
        (["--set", "class_weight=x"], "class_weight='x': choose one of 'balanced'"),
        (["--jobs", "0"], "n_jobs=0: give a number of threads, or -1 for all cores"),
        (["--solver", "asdg"], "solver='asdg': choose one of"),
        (["--loss", "logg"], "did you mean 'log'?"),
        (["--task", "regression", "--loss", "hinge"], "loss='hinge': choose one of 'squared'"),
        (["--features", "3"], "line 1: the feature"),
    ],
)
def test_wrong_settings(folder, tmp_path, arguments, what):
    assert what in failure("fit", folder / "binary.train", tmp_path / "model", *arguments)
    assert not list(tmp_path.iterdir())


def test_labels_and_tasks_must_agree(folder, tmp_path):
    text = failure("fit", folder / "numbers.train", tmp_path / "model")
    assert "the labels are not whole numbers; use --task regression" in text
    path = tmp_path / "data.csv"
    path.write_text("a,label\n1,x\n2,y\n")
    text = failure("fit", path, tmp_path / "model", "--task", "regression")
    assert "the labels are no numbers; use --task binary" in text


def test_one_class_only(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n1 2:1\n")
    assert "y holds one class only (1)" in failure("fit", path, tmp_path / "model")


def test_inputs_and_files_that_are_not_models_are_not_overwritten(folder, tmp_path):
    data = tmp_path / "rows.svm"
    data.write_bytes((folder / "binary.train").read_bytes())
    before = data.read_bytes()
    assert "this is what is to be read" in failure("fit", data, data)
    assert "exists, and is not a model" in failure("fit", folder / "binary.train", data)
    for out in (data, folder / "binary.monro"):
        text = failure("predict", folder / "binary.monro", data, "--out", out)
        assert "this is what is to be read" in text
    assert "this is a folder" in failure("fit", data, tmp_path)
    assert data.read_bytes() == before


def test_a_model_saved_from_python_reads_rows_by_their_own_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    monro.LinearClassifier(alpha=1e-5, random_state=0).fit(X, X[:, 1] > 0).save(tmp_path / "model")
    (tmp_path / "rows.svm").write_text("0 0:1 1:5\n0 0:1 1:-5\n")
    result = invoke("predict", tmp_path / "model", tmp_path / "rows.svm")
    assert result.stdout.split() == ["True", "False"]
    assert "features are numbered from 0" in result.stderr
    (tmp_path / "rows.csv").write_text("a,b,c\n1,5,1\n1,-5,1\n")
    assert output("predict", tmp_path / "model", tmp_path / "rows.csv").split() == ["True", "False"]


def test_an_interrupted_command_says_how_to_resume(folder, tmp_path):
    many = tmp_path / "many.svm"
    many.write_text((folder / "binary.train").read_text() * 100)
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, "-m", "monro", "fit", many, tmp_path / "model", "--solver", "asgd"]
    command += [*FIXED, "--set", "max_epochs=100000", "--quiet", "--checkpoint", checkpoint]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate()
    assert process.returncode == 130
    assert "run the same command to resume" in text
    assert "Traceback" not in text


@thorough
def test_a_fit_continues_if_the_pipe_of_its_progress_is_closed(folder, tmp_path):
    fit = f"monro fit {folder}/binary.train {tmp_path}/model {' '.join(FIXED)}"
    command = f"{sys.executable} -m {fit} 2>&1 | head -1"
    subprocess.run(command, shell=True, capture_output=True)
    assert monro.load(tmp_path / "model").n_iter_ == 10


def test_the_folder_of_the_model_must_exist(folder, tmp_path):
    text = failure("fit", folder / "binary.train", tmp_path / "no" / "model")
    assert "there is no folder" in text


def test_standard_input_and_compressed_files(folder, tmp_path):
    text = (folder / "binary.train").read_bytes()
    packed = tmp_path / "data.svm.gz"
    packed.write_bytes(gzip.compress(text))
    output("fit", packed, tmp_path / "packed", *FIXED)
    output("fit", "-", tmp_path / "piped", *FIXED, input=text)
    output("fit", folder / "binary.train", tmp_path / "plain", *FIXED)
    models = [monro.load(tmp_path / name) for name in ("packed", "piped", "plain")]
    np.testing.assert_array_equal(models[0].coef_, models[2].coef_)
    np.testing.assert_array_equal(models[1].coef_, models[2].coef_)


def test_columns_of_a_table_are_matched_by_name(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    lines = [f"{a},{b},{'up' if a > b else 'down'}\n" for a, b in X]
    (tmp_path / "train.csv").write_text("a,b,way\n" + "".join(lines))
    (tmp_path / "test.csv").write_text("b,a\n-1,1\n1,-1\n")
    output("fit", tmp_path / "train.csv", tmp_path / "model", "--target", "way", *FIXED)
    assert output("predict", tmp_path / "model", tmp_path / "test.csv").split() == ["up", "down"]


def test_a_store(folder, tmp_path):
    text = output("data", "convert", folder / "binary.train", tmp_path / "store")
    assert "400 rows × 30 features" in text
    text = output("data", "convert", folder / "binary.train", tmp_path / "other", "--json")
    assert json.loads(text)["rows"] == 400
    output("fit", tmp_path / "store", tmp_path / "model", *FIXED)
    accuracy = json.loads(output("evaluate", tmp_path / "model", folder / "binary.test", "--json"))
    assert accuracy["accuracy"] > 0.8


def test_checkpoints_are_removed_when_the_model_is_saved(folder, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    output("fit", folder / "binary.train", tmp_path / "model", *FIXED, "--checkpoint", checkpoint)
    assert (tmp_path / "model").exists()
    assert not checkpoint.exists()


def test_a_killed_command_resumes(folder, tmp_path):
    many = tmp_path / "many.svm"
    many.write_text((folder / "binary.train").read_text() * 100)
    options = [*FIXED, "--set", "max_epochs=300", "--solver", "asgd", "--quiet"]
    output("fit", many, tmp_path / "whole", *options)
    checkpoint = tmp_path / "checkpoint"
    command = [
        sys.executable,
        "-m",
        "monro",
        "fit",
        many,
        tmp_path / "model",
        *options,
        "--checkpoint",
        checkpoint,
    ]
    process = subprocess.Popen([str(part) for part in command])
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    output("fit", many, tmp_path / "model", *options, "--checkpoint", checkpoint)

    whole, resumed = monro.load(tmp_path / "whole"), monro.load(tmp_path / "model")
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("nan.svm", b"1 1:1\n0 2:nan\n", "line 2: the value of '2:nan' is not a number"),
        ("negative.svm", b"1 1:1\n0 -2:1\n", "line 2: '-2:1' has a negative feature number"),
        ("unsorted.svm", b"1 2:1 1:1\n", "line 1: the feature '1:1' is repeated, or out of order"),
        ("malformed.svm", b"1 1:1\n0 2=3\n", "line 2: '2=3' is no feature:value"),
        (
            "truncated.svm.gz",
            gzip.compress(b"1 1:1\n" * 99, mtime=0)[:-9],
            "compressed data is cut short",
        ),
        ("empty.svm", b"", "empty.svm: the file is empty"),
        ("one.svm", b"1 1:1\n1 2:1\n", "y holds one class only (1)"),
        ("hole.csv", b"a,label\n1,0\n,1\n", "line 3: column 'a': the value is missing"),
    ],
)
def test_every_bad_file_gets_one_line(tmp_path, name, content, what):
    path = tmp_path / name
    path.write_bytes(content)
    text = failure("fit", path, tmp_path / "model", "--quiet")
    assert what in text
    assert name in text or name == "one.svm"
    assert [p.name for p in tmp_path.iterdir()] == [name]
