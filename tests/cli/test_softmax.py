"""--task softmax: fit, predict and evaluate with many classes."""

import json

import numpy as np
import pytest

import monro
from monro.data.read import read
from tests.cli.helpers import SOFTMAX, failure, invoke, output
from tests.data.helpers import data_folder
from tests.marks import thorough


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("softmax") / "three.monro"
    output("fit", folder / "three.train", path, *SOFTMAX, "--set", "max_epochs=20")
    return path


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """Rows with one or two of five labels; the last label never occurs."""
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
    fitted = monro.SoftmaxClassifier(alpha=0.0, max_epochs=20, random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(monro.load(model).coef_, fitted.coef_)


def test_progress_shows_the_log_loss(folder, tmp_path):
    arguments = (*SOFTMAX, "--set", "max_epochs=2")
    result = invoke("fit", folder / "three.train", tmp_path / "model", *arguments)
    assert "epoch 2/2  log-loss " in result.stderr
    assert "log loss" in result.stdout


def test_fit_as_json(folder, tmp_path):
    arguments = (*SOFTMAX, "--set", "max_epochs=2", "--json", "--quiet")
    result = json.loads(output("fit", folder / "three.train", tmp_path / "model", *arguments))
    assert result["classes"] == [5, 6, 7]
    assert result["solver"] == "implicit"
    assert result["epochs"] == 2
    assert result["learning_rate"] > 0


def test_a_strength_that_is_chosen_is_shown(folder, tmp_path):
    short = ("--task", "softmax", "--set", "max_epochs=6", "--set", "alpha=auto")
    result = invoke("fit", folder / "three.train", tmp_path / "model", *short)
    model = monro.load(tmp_path / "model")
    path = model.alpha_path_
    assert f"strength {len(path)} of at most 17: alpha {path[-1]['alpha']:.3g} " in result.stderr

    rows = [line.split("│") for line in result.stdout.splitlines() if line.count("│") == 5]
    assert [float(row[1]) for row in rows] == pytest.approx([r["alpha"] for r in path], rel=5e-3)
    means = [float(row[2].split("±")[0].replace(",", "")) for row in rows]
    assert means == pytest.approx([r["mean"] for r in path], rel=0.01)
    marked = [k for k, row in enumerate(rows) if "←" in row[4]]
    distance = [abs(np.log(r["alpha"] / model.alpha_)) for r in path]
    assert marked == [np.argmin(distance)]
    assert f"{model.alpha_:.3g} chosen" in rows[marked[0]][4]

    as_json = output("fit", folder / "three.train", tmp_path / "model", *short, "--json")
    found = json.loads(as_json)
    assert found["alpha"] == model.alpha_
    assert found["alpha_path"] == path


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


def test_several_labels_need_a_decision(tagged, tmp_path):
    message = failure("fit", tagged, tmp_path / "model", *SOFTMAX)
    assert "rows have several labels; give --first-label" in message
    assert "or --soft-labels" in message
    assert not (tmp_path / "model").exists()


def test_the_first_label_is_the_lowest(tagged, tmp_path):
    arguments = (*SOFTMAX, "--first-label", "--set", "max_epochs=2")
    result = invoke("fit", tagged, tmp_path / "model", *arguments)
    assert result.exit_code == 0
    assert "several labels: the lowest counts" in result.stderr
    assert monro.load(tmp_path / "model").classes_.tolist() == [0, 1, 2, 3]


def test_classes_that_do_not_occur(tagged, tmp_path):
    arguments = (*SOFTMAX, "--first-label", "--classes", "5", "--set", "max_epochs=2")
    output("fit", tagged, tmp_path / "model", *arguments)
    model = monro.load(tmp_path / "model")
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("declared", [[], ["--classes", "5"], ["--classes", "9"]])
def test_soft_labels_use_all_labels(tagged, tmp_path, declared):
    arguments = (*SOFTMAX, "--soft-labels", "--set", "max_epochs=2", *declared)
    result = invoke("fit", tagged, tmp_path / "model", *arguments)
    assert result.exit_code == 0, result.output
    assert "the lowest counts" not in result.stderr
    model = monro.load(tmp_path / "model")
    assert model.classes_.tolist() == list(range(int(declared[1]) if declared else 4))

    data = read(tagged, all_labels=True)
    Y, _ = data.indicator(model.classes_)
    assert Y.sum() == data.X.shape[0] + data.several_labels
    fitted = monro.SoftmaxClassifier(
        alpha=0.0, max_epochs=2, random_state=0, classes=model.classes_
    )
    np.testing.assert_array_equal(model.coef_, fitted.fit(data.X, Y).coef_)

    measured = json.loads(output("evaluate", tmp_path / "model", tagged, "--soft-labels", "--json"))
    assert measured == {"rows": 60} | fitted.evaluate(data.X, Y)
    text = output("evaluate", tmp_path / "model", tagged, "--soft-labels")
    for name in ("precision at 1", "precision at 5", "ndcg at 3", "log loss"):
        assert name in text
    first = json.loads(output("evaluate", tmp_path / "model", tagged, "--json"))
    assert first == {"rows": 60} | fitted.evaluate(data.X, data.y)


def test_soft_labels_leave_out_rows_without_a_label(tmp_path):
    (tmp_path / "data").write_text("4 3 3\n0,2 0:1\n 1:1\n2 2:1\n1,2 0:1 1:1\n")
    arguments = (*SOFTMAX, "--soft-labels", "--set", "max_epochs=2")
    result = invoke("fit", tmp_path / "data", tmp_path / "model", *arguments)
    assert "1 rows without a label were left out" in result.stderr
    data = read(tmp_path / "data", all_labels=True)
    Y, classes = data.indicator()
    assert classes.tolist() == [0, 1, 2]
    assert Y.toarray().astype(int).tolist() == [[1, 0, 1], [0, 0, 1], [0, 1, 1]]
    fitted = monro.SoftmaxClassifier(alpha=0.0, max_epochs=2, random_state=0).fit(data.X, Y)
    np.testing.assert_array_equal(monro.load(tmp_path / "model").coef_, fitted.coef_)
    measure = ("evaluate", tmp_path / "model", tmp_path / "data", "--soft-labels", "--json")
    assert json.loads(output(*measure))["rows"] == 3


def test_soft_labels_of_files_with_one_label_a_row(folder, model, tmp_path):
    arguments = (*SOFTMAX, "--soft-labels", "--set", "max_epochs=20")
    output("fit", folder / "three.train", tmp_path / "model", *arguments)
    soft = monro.load(tmp_path / "model")
    assert soft.classes_.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(soft.coef_, monro.load(model).coef_)


def test_soft_labels_of_a_table_are_one_a_row(tmp_path):
    table = tmp_path / "fruit.csv"
    table.write_text("label,size,red\n" + "fig,1,0\nkiwi,2,0\nplum,1,1\n" * 5)
    output("fit", table, tmp_path / "model", *SOFTMAX, "--soft-labels")
    assert monro.load(tmp_path / "model").classes_.tolist() == ["fig", "kiwi", "plum"]
    measure = ("evaluate", tmp_path / "model", table, "--soft-labels", "--json")
    found = json.loads(output(*measure))
    assert found["precision_at_1"] == pytest.approx(1.0)
    assert found["precision_at_3"] == pytest.approx(1 / 3)


def test_soft_labels_that_do_not_fit(folder, model, tagged, tmp_path):
    fit = ("fit", tagged, tmp_path / "model", *SOFTMAX, "--soft-labels")
    assert "give one of them" in failure(*fit, "--first-label")
    assert "has the label 3, which is not among classes" in failure(*fit, "--classes", 3)
    assert not (tmp_path / "model").exists()
    (tmp_path / "data").write_text("5 1:1\n5,9 1:1\n")
    message = failure("evaluate", model, tmp_path / "data", "--soft-labels")
    assert "row 2 has the label 9, the model knows 5, 6, 7" in message
    linear = ("evaluate", folder / "binary.monro", folder / "binary.test", "--soft-labels")
    assert "--soft-labels needs a model of --task softmax" in failure(*linear)


def test_soft_labels_of_bibtex(monkeypatch, tmp_path):
    monkeypatch.setenv("MONRO_DATA", str(data_folder()))
    arguments = (*SOFTMAX, "--soft-labels", "--classes", "159", "--quiet")
    output("fit", "bibtex", tmp_path / "model", *arguments, "--set", "max_epochs=5")
    measure = ("evaluate", tmp_path / "model", "bibtex/test", "--soft-labels", "--json")
    found = json.loads(output(*measure))
    assert found["rows"] == 2515
    assert found["precision_at_1"] == found["ndcg_at_1"] > 0.5
    assert found["precision_at_1"] > found["precision_at_3"] > found["precision_at_5"] > 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "binary", "--first-label"], "--task softmax"),
        (["--task", "binary", "--soft-labels"], "--task softmax"),
        (["--task", "regression", "--classes", "3"], "--task softmax"),
        (["--task", "softmax", "--loss", "hinge"], "one loss"),
        (["--task", "softmax", "--solver", "asgd"], "solver='asgd': choose one of 'implicit'"),
        (["--task", "softmax", "--set", "classes_per_step=5", "--set", "sampling=block"], "16"),
        (["--task", "softmax", "--set", "loss=log"], "no parameter 'loss'"),
    ],
)
def test_bad_arguments_are_errors(folder, tmp_path, arguments, message):
    assert message in failure("fit", folder / "three.train", tmp_path / "model", *arguments)


def test_a_label_the_model_does_not_know(model, tmp_path):
    (tmp_path / "data").write_text("9 1:1\n")
    assert "row 1 has the label 9" in failure("evaluate", model, tmp_path / "data")


def test_a_checkpoint(folder, tmp_path):
    arguments = (*SOFTMAX, "--checkpoint", tmp_path / "progress")
    short = ("--set", "max_epochs=2")
    output("fit", folder / "three.train", tmp_path / "model", *arguments, *short)
    assert not (tmp_path / "progress").exists()


@thorough
def test_a_probit(folder, tmp_path):
    path = tmp_path / "probit.monro"
    settings = ("solver=augment-reduce", "link=probit", "learning_rate=0.5", "examples_per_step=20")
    arguments = [word for setting in settings for word in ("--set", setting)]
    output("fit", folder / "three.train", path, *SOFTMAX, *arguments)
    line = output("predict", path, folder / "three.test", "--proba").splitlines()[0]
    proba = [float(cell.split(":")[1]) for cell in line.split("\t")[1:]]
    assert sum(proba) == pytest.approx(1.0, abs=1e-4)
    assert json.loads(output("evaluate", path, folder / "three.test", "--json"))["log_loss"] < 1.1
