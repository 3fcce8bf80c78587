"""--task tag: fit, predict and evaluate on CoNLL files."""

import json

import numpy as np
import pytest

import monro
from monro.data.conll import read_conll
from tests.cli.helpers import failure, invoke, output

TEMPLATE = "U0:%x[0,0]\nU1:%x[0,1]\nB\n"


def columns(seed, n=40):
    rng = np.random.default_rng(seed)
    words = {"the": "B-NP", "old": "I-NP", "dog": "I-NP", "barks": "B-VP", ".": "O"}
    sentences = [rng.choice(list(words), rng.integers(1, 7)).tolist() for _ in range(n)]
    return "\n".join("".join(f"{w} {w[-1]} {words[w]}\n" for w in s) for s in sentences)


@pytest.fixture(scope="module")
def tagging(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagging")
    (folder / "template").write_text(TEMPLATE)
    (folder / "train.txt").write_text(columns(0))
    (folder / "test.txt").write_text(columns(1))
    arguments = ("--task", "tag", "--template", folder / "template")
    arguments += ("--set", "cutoff=2", "--set", "c=1")
    output("fit", folder / "train.txt", folder / "model", *arguments)
    return folder


def test_the_model_is_that_of_the_library(tagging):
    train = read_conll(tagging / "train.txt")
    tagger = monro.CRFTagger(c=1.0, template=TEMPLATE, cutoff=2, random_state=0)
    tagger.fit(train.tokens, train.tags)
    model = monro.load(tagging / "model")
    assert model.state_features_ == tagger.state_features_
    assert model.transition_features_ == tagger.transition_features_


def test_progress_and_result(tagging, tmp_path):
    result = invoke("fit", tagging / "train.txt", tmp_path / "model", "--task", "tag")
    assert "epoch 10/10  loss " in result.stderr
    assert "objective" in result.stdout
    quiet = (
        "--task",
        "tag",
        "--json",
        "--quiet",
        "--solver",
        "sgd",
        "--checkpoint",
        tmp_path / "c",
    )
    result = invoke("fit", tagging / "train.txt", tmp_path / "model", *quiet)
    assert result.stderr == ""
    summary = json.loads(result.stdout)
    assert summary["tags"] == ["B-NP", "B-VP", "I-NP", "O"]
    assert summary["sentences"] == 40
    assert summary["solver"] == "sgd"
    assert not (tmp_path / "c").exists()


def test_predictions_follow_the_columns(tagging):
    text = (tagging / "test.txt").read_text()
    lines = output("predict", tagging / "model", tagging / "test.txt").splitlines()
    given = [line for line in text.splitlines() if line]
    tagged = [line for line in lines if line]
    assert [line.rsplit(" ", 1)[0] for line in tagged] == given
    assert all(line.split()[-1] == line.split()[-2] for line in tagged)
    plain = "\n".join(" ".join(line.split()[:2]) for line in text.splitlines())
    again = output("predict", tagging / "model", "-", input=plain).splitlines()
    assert [line.split()[-1] for line in again if line] == [line.split()[-1] for line in tagged]
    assert sum(not line for line in lines) == 40


def test_predictions_as_json_and_with_probabilities(tagging, tmp_path):
    model, test = tagging / "model", tagging / "test.txt"
    expected = monro.load(model).predict(_tokens(test))
    rows = [json.loads(line) for line in output("predict", model, test, "--json").splitlines()]
    assert [row["tags"] for row in rows] == expected
    rows = output("predict", model, test, "--json", "--proba").splitlines()
    first = json.loads(rows[0])
    assert sum(first["proba"][0].values()) == pytest.approx(1.0)
    line = output("predict", model, test, "--proba").splitlines()[0]
    assert line.split()[3] == expected[0][0]
    assert [cell.split(":")[0] for cell in line.split()[4:]] == ["B-NP", "B-VP", "I-NP", "O"]
    output("predict", model, test, "--top-k", "2", "--out", tmp_path / "best")
    assert (tmp_path / "best").read_text().startswith("# 0 ")
    rows = output("predict", model, test, "--top-k", "2", "--json").splitlines()
    best = json.loads(rows[0])["best"]
    assert best[0]["tags"] == expected[0]
    assert len(best) <= 2


def _tokens(path):
    return read_conll(path).tokens


def test_evaluate_prints_the_table_of_conlleval(tagging):
    text = output("evaluate", tagging / "model", tagging / "test.txt")
    assert "FB1: 100.00" in text
    assert "NP: precision: 100.00%" in text
    result = json.loads(output("evaluate", tagging / "model", tagging / "test.txt", "--json"))
    assert result["f1"] == result["accuracy"] == 1.0
    assert set(result["types"]) == {"NP", "VP"}


def test_tags_that_the_model_does_not_know_count_as_missed(tagging, tmp_path):
    (tmp_path / "test").write_text("the e B-NP\ndog g B-QQ\n")
    result = json.loads(output("evaluate", tagging / "model", tmp_path / "test", "--json"))
    assert result["types"]["QQ"]["recall"] == 0.0


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("fit", "{f}/nothing", "{t}/m", "--task", "tag"), "no such file"),
        (("fit", "{f}/train.txt", "{t}/m", "--task", "tag", "--loss", "log"), "not for --task tag"),
        (("fit", "{f}/train.txt", "{t}/m", "--template", "x"), "--template: it is for --task tag"),
        (
            ("fit", "{f}/train.txt", "{t}/m", "--task", "tag", "--template", "{f}/nothing"),
            "nothing: there is no such file",
        ),
        (
            ("fit", "{f}/train.txt", "{t}/m", "--task", "tag", "--template", "U:%x[0,9]"),
            "asks for column 9, the tokens have columns 0 to 1",
        ),
        (("fit", "{f}/ragged", "{t}/m", "--task", "tag"), "line 2: the line has 2 columns"),
        (("fit", "{f}/empty", "{t}/m", "--task", "tag"), "empty: the file has no sentences"),
        (("fit", "-", "{t}/m", "--task", "tag"), "standard input cannot be read twice"),
        (("predict", "{f}/model", "{f}/wide"), "its tokens have 5 columns, the model takes 2"),
        (("evaluate", "{f}/model", "{f}/bare"), "its tokens have no tags"),
        (("evaluate", "{f}/model", "{f}/empty"), "the file has no sentences"),
    ],
)
def test_bad_input_is_one_clear_line(tagging, tmp_path, command, what):
    (tagging / "ragged").write_text("a b X\nc X\n")
    (tagging / "empty").write_text("")
    (tagging / "wide").write_text("a b c d e\n")
    (tagging / "bare").write_text("a b\n")
    arguments = [part.format(f=tagging, t=tmp_path) for part in command]
    assert what in failure(*arguments)
    assert not (tmp_path / "m").exists()
