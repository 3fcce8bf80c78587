"""--task softmax: fit, predict and evaluate with many classes."""

import json

import numpy as np
import pytest

import monro
from monro.data.read import read
from tests.cli.helpers import failure, invoke, output


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("softmax") / "three.monro"
    output("fit", folder / "three.train", path, "--task", "softmax", "--set", "max_epochs=20")
    return path


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """Rows with one or two labels out of five, of which the last never occurs."""
    path = tmp_path_factory.mktemp("tagged") / "train.txt"
    rng = np.random.default_rng(0)
    lines = ["60 6 5"]
    for k in rng.integers(4, size=60):
        labels = f"{k},3" if k == 1 else str(k)
        lines.append(f"{labels} {k}:1.5 {rng.integers(4, 6)}:0.25")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_model_is_that_of_the_library(folder, model):
    data = read(folder / "three.train")
    fitted = monro.SoftmaxClassifier(max_epochs=20, random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(monro.load(model).coef_, fitted.coef_)


def test_progress_shows_the_log_loss(folder, tmp_path):
    arguments = ("--task", "softmax", "--set", "max_epochs=2")
    result = invoke("fit", folder / "three.train", tmp_path / "model", *arguments)
    assert "epoch 2/2  log-loss " in result.stderr
    assert "log loss" in result.stdout


def test_fit_as_json(folder, tmp_path):
    arguments = ("--task", "softmax", "--set", "max_epochs=2", "--json", "--quiet")
    result = json.loads(output("fit", folder / "three.train", tmp_path / "model", *arguments))
    assert result["classes"] == [5, 6, 7]
    assert result["solver"] == "implicit"
    assert result["epochs"] == 2
    assert result["learning_rate"] > 0


def test_evaluation_is_exact(folder, model):
    result = json.loads(output("evaluate", model, folder / "three.test", "--json"))
    data = read(folder / "three.test", n_features=30)
    expected = monro.load(model).evaluate(data.X, data.y)
    assert result == {"rows": 200} | expected


def test_the_best_labels_with_probabilities(folder, model):
    lines = output("predict", model, folder / "three.test", "--top-k", 2).splitlines()
    labels, log_proba = monro.load(model).predict_top_k(
        read(folder / "three.test", n_features=30).X, 2
    )
    assert len(lines) == 200
    first = [cell.split(":") for cell in lines[0].split("\t")]
    assert [int(label) for label, _ in first] == labels[0].tolist()
    np.testing.assert_allclose([float(p) for _, p in first], np.exp(log_proba[0]), rtol=1e-5)


def test_probabilities_of_all_classes(folder, model):
    lines = output("predict", model, folder / "three.test", "--proba", "--json").splitlines()
    assert sum(json.loads(lines[0])["proba"].values()) == pytest.approx(1.0)


def test_several_labels_need_a_word(tagged, tmp_path):
    complaint = failure("fit", tagged, tmp_path / "model", "--task", "softmax")
    assert "rows have several labels; give --first-label" in complaint
    assert not (tmp_path / "model").exists()


def test_the_first_label_is_the_lowest(tagged, tmp_path):
    arguments = ("--task", "softmax", "--first-label", "--set", "max_epochs=2")
    result = invoke("fit", tagged, tmp_path / "model", *arguments)
    assert result.exit_code == 0
    assert "several labels: the lowest counts" in result.stderr
    assert monro.load(tmp_path / "model").classes_.tolist() == [0, 1, 2, 3]


def test_classes_that_do_not_occur(tagged, tmp_path):
    arguments = ("--task", "softmax", "--first-label", "--classes", "5", "--set", "max_epochs=2")
    output("fit", tagged, tmp_path / "model", *arguments)
    model = monro.load(tmp_path / "model")
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--task", "binary", "--first-label"], "--task softmax"),
        (["--task", "regression", "--classes", "3"], "--task softmax"),
        (["--task", "softmax", "--loss", "hinge"], "one loss"),
        (["--task", "softmax", "--solver", "asgd"], "solver='asgd': choose one of 'implicit'"),
        (["--task", "softmax", "--set", "classes_per_step=5", "--set", "sampling=block"], "16"),
        (["--task", "softmax", "--set", "loss=log"], "no parameter 'loss'"),
    ],
)
def test_what_is_refused(folder, tmp_path, arguments, complaint):
    assert complaint in failure("fit", folder / "three.train", tmp_path / "model", *arguments)


def test_a_label_the_model_does_not_know(folder, model, tmp_path):
    (tmp_path / "data").write_text("9 1:1\n")
    assert "row 1 has the label 9" in failure("evaluate", model, tmp_path / "data")


def test_a_checkpoint(folder, tmp_path):
    arguments = ("--task", "softmax", "--checkpoint", tmp_path / "progress")
    short = ("--set", "max_epochs=2")
    output("fit", folder / "three.train", tmp_path / "model", *arguments, *short)
    assert not (tmp_path / "progress").exists()
