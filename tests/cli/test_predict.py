"""monro predict and evaluate."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import monro
from monro.data.read import read
from tests.cli.helpers import failure, output


def test_one_label_per_line(folder):
    X = read(folder / "three.test", n_features=30).X
    labels = [
        int(line)
        for line in output("predict", folder / "three.monro", folder / "three.test").split()
    ]
    assert labels == monro.load(folder / "three.monro").predict(X).tolist()


def test_predicted_numbers_are_printed_exactly(folder):
    X = read(folder / "numbers.test", n_features=30).X
    text = output("predict", folder / "numbers.monro", folder / "numbers.test")
    expected = monro.load(folder / "numbers.monro").predict(X)
    np.testing.assert_array_equal([float(line) for line in text.split()], expected)


def test_probabilities(folder):
    lines = output(
        "predict", folder / "binary.monro", folder / "binary.test", "--proba"
    ).splitlines()
    for line in lines:
        label, *cells = line.split("\t")
        proba = {name: float(p) for name, p in (cell.split(":") for cell in cells)}
        assert set(proba) == {"-1", "1"}
        assert sum(proba.values()) == pytest.approx(1, abs=1e-5)
        assert proba[label] >= 0.5 - 1e-6


def test_the_best_labels(folder):
    lines = output(
        "predict", folder / "three.monro", folder / "three.test", "--top-k", 2
    ).splitlines()
    first = output("predict", folder / "three.monro", folder / "three.test").split()
    for line, label in zip(lines, first, strict=True):
        (best, high), (_, low) = (cell.split(":") for cell in line.split("\t"))
        assert best == label
        assert float(high) >= float(low)


def test_json_lines(folder):
    arguments = ("predict", folder / "binary.monro", folder / "binary.test", "--json")
    plain = [json.loads(line) for line in output(*arguments).splitlines()]
    proba = [json.loads(line) for line in output(*arguments, "--proba").splitlines()]
    top = [json.loads(line) for line in output(*arguments, "--top-k", 1).splitlines()]
    for a, b, c in zip(plain, proba, top, strict=True):
        assert a["label"] == b["label"] == c["labels"][0]
        assert b["proba"][str(a["label"])] == pytest.approx(c["scores"][0])


def test_into_a_file(folder, tmp_path):
    out = tmp_path / "predictions"
    assert output("predict", folder / "binary.monro", folder / "binary.test", "--out", out) == ""
    assert out.read_text() == output("predict", folder / "binary.monro", folder / "binary.test")


def test_rows_without_labels(folder, tmp_path):
    text = re.sub(r"^\S+ ", "", (folder / "binary.test").read_text(), flags=re.MULTILINE)
    bare = tmp_path / "bare.svm"
    bare.write_text(text)
    expected = output("predict", folder / "binary.monro", folder / "binary.test")
    assert output("predict", folder / "binary.monro", bare) == expected
    assert output("predict", folder / "binary.monro", "-", input=text) == expected


def test_a_closed_pipe_is_no_error(folder):
    command = (
        f"{sys.executable} -m monro predict {folder}/binary.monro {folder}/binary.test | head -1"
    )
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (
            ["predict", "{}/numbers.monro", "{}/numbers.test", "--proba"],
            "probabilities need a classifier fitted with --loss log",
        ),
        (
            ["predict", "{}/numbers.monro", "{}/numbers.test", "--top-k", "2"],
            "--top-k needs a classifier, this is a regressor",
        ),
        (
            ["predict", "{}/binary.monro", "{}/binary.test", "--proba", "--top-k", "2"],
            "give one of them",
        ),
        (
            ["predict", "{}/binary.train", "{}/binary.test"],
            "binary.train: this is not a monro model",
        ),
        (["predict", "{}/nothing", "{}/binary.test"], "nothing: there is no such file"),
        (["evaluate", "{}/binary.monro", "{}/three.test"], "row 1 has the label"),
        (
            ["evaluate", "{}/binary.monro", "nothing.svm"],
            "nothing.svm: there is no such file, and no data set",
        ),
    ],
)
def test_bad_arguments_are_errors(folder, arguments, what):
    assert what in failure(*(part.format(folder) for part in arguments))


def test_wider_data_than_the_model(folder, tmp_path):
    path = tmp_path / "wide.svm"
    path.write_text("1 1:1\n1 31:1\n")
    text = failure("predict", folder / "binary.monro", path)
    assert "wide.svm, line 2: the feature 31 is none of the 30 numbered from 1" in text


def test_evaluate_a_classifier(folder):
    result = json.loads(
        output("evaluate", folder / "binary.monro", folder / "binary.test", "--json")
    )
    assert set(result) == {
        "rows",
        "error",
        "accuracy",
        "precision",
        "recall",
        "f1",
        "auc",
        "log_loss",
    }
    labels = [
        int(v) for v in output("predict", folder / "binary.monro", folder / "binary.test").split()
    ]
    truth = [float(line.split()[0]) for line in (folder / "binary.test").read_text().splitlines()]
    assert result["accuracy"] == np.mean(np.array(labels) == truth)
    assert result["accuracy"] + result["error"] == pytest.approx(1)
    assert "accuracy" in output("evaluate", folder / "binary.monro", folder / "binary.test")


def test_evaluate_several_classes_and_numbers(folder):
    three = json.loads(output("evaluate", folder / "three.monro", folder / "three.test", "--json"))
    assert set(three) == {"rows", "error", "accuracy", "macro_f1", "log_loss"}
    numbers = json.loads(
        output("evaluate", folder / "numbers.monro", folder / "numbers.test", "--json")
    )
    assert set(numbers) == {"rows", "rmse", "mae", "r2"}
    assert numbers["r2"] > 0.9


def test_a_choice_model_is_for_python(folder, tmp_path):
    frame = {"situation": [0, 0, 1, 1], "alternative": [0, 1, 0, 1], "chosen": [1, 0, 0, 1]}
    model = monro.ChoiceModel(alpha=1.0).fit(frame | {"x": [0.0, 1.0, 2.0, 5.0]})
    model.save(tmp_path / "choice.monro")
    line = failure("predict", tmp_path / "choice.monro", folder / "three.test")
    assert "this is a ChoiceModel, which reads data frames: use it in Python" in line
