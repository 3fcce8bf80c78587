"""Continuing a fit: from files, with other sentences, from checkpoints."""

import json
from pathlib import Path

import pytest
from sklearn.base import clone

import monro
from monro import CRFTagger
from monro.crf.solvers import SOLVERS
from monro.errors import CheckpointError, DivergenceError, ModelFileError
from monro.saving.container import VERSION, write_container
from tests.crf.helpers import TEMPLATE, corpus
from tests.marks import thorough_unless

GOLDEN = Path(__file__).parent.parent / "golden/taggers"


@pytest.mark.parametrize("solver", thorough_unless(lambda solver: solver == "asgd", SOLVERS))
def test_going_on_from_a_file(solver, tmp_path):
    sentences, tags = corpus()
    tagger = CRFTagger(c=1.0, template=TEMPLATE, solver=solver, random_state=0).fit(sentences, tags)
    tagger.save(tmp_path / "a.monro")
    same = monro.load(tmp_path / "a.monro")
    assert same.predict(sentences) == tagger.predict(sentences)
    assert same.state_features_ == tagger.state_features_
    assert same.get_params() == tagger.get_params()
    more = corpus(seed=5)
    assert same.partial_fit(*more).state_features_ == tagger.partial_fit(*more).state_features_
    assert same.n_iter_ == 11


@pytest.mark.parametrize("solver", SOLVERS)
def test_new_features_and_tags_may_come(solver):
    tagger = CRFTagger(c=1.0, template=TEMPLATE, solver=solver, random_state=0)
    for _ in range(10):
        tagger.partial_fit(*corpus())
    for _ in range(20):
        tagger.partial_fit([[("mouse",), ("runs",)]] * 10, [["M", "R"]] * 10)
        tagger.partial_fit(*corpus(seed=7))
    assert tagger.classes_.tolist() == ["D", "J", "M", "N", "R", "V"]
    assert tagger.predict([[("mouse",), ("runs",)]]) == [["M", "R"]]
    sentences, tags = corpus(seed=8)
    assert tagger.score(sentences, tags) > 0.99


def test_a_fit_that_failed_leaves_no_history():
    X, y = [[{"a": 1.0}, {"b": 1.0}]] * 30, [["A", "B"], ["B", "A"]] * 15
    tagger = CRFTagger(random_state=0, learning_rate=1e9, c=1e9)
    with pytest.raises(DivergenceError):
        tagger.fit(X, y)
    tagger.set_params(learning_rate="auto", c=1.0).partial_fit(X, y)
    assert [record["epoch"] for record in tagger.history_] == [1]
    assert tagger.n_iter_ == 1


def test_partial_fit_comes_to_what_fit_does():
    sentences, tags = corpus(n=300)
    whole = CRFTagger(c=1.0, template=TEMPLATE, random_state=0, max_epochs=20).fit(sentences, tags)
    parts = CRFTagger(c=1.0, template=TEMPLATE, random_state=0)
    for _ in range(20):
        parts.partial_fit(sentences, tags)
    assert parts.log_loss(sentences, tags) < 3.0 * whole.log_loss(sentences, tags)


def test_warm_start():
    sentences, tags = corpus()
    tagger = CRFTagger(c=1.0, template=TEMPLATE, warm_start=True, random_state=0, max_epochs=3)
    first = tagger.fit(sentences, tags).objective(sentences, tags)
    assert tagger.fit(sentences, tags).objective(sentences, tags) < first
    for name, value in (("solver", "sgd"), ("hash_bits", 8)):
        other = clone(tagger).fit(sentences, tags).set_params(**{name: value})
        with pytest.raises(ValueError, match=f"{name}={value!r}: the model was fitted with"):
            other.partial_fit(sentences, tags)
    with pytest.raises(ValueError, match="template: the model was fitted with another one"):
        tagger.set_params(template="U:%x[0,0]\nB").fit(sentences, tags)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_that_was_stopped_goes_on_with_the_same_bits(solver, tmp_path):
    sentences, tags = corpus()
    path = tmp_path / "fit.checkpoint"

    def make(epochs):
        return CRFTagger(c=1.0, template=TEMPLATE, solver=solver, max_epochs=epochs, random_state=0)

    make(3).fit(sentences, tags, checkpoint=path)
    resumed = make(7).fit(sentences, tags, checkpoint=path)
    whole = make(7).fit(sentences, tags)
    assert resumed.state_features_ == whole.state_features_
    assert resumed.n_iter_ == 7
    with pytest.raises(CheckpointError, match="the data differs"):
        make(7).fit(sentences[1:], tags[1:], checkpoint=path)


def test_a_checkpoint_knows_pair_features_and_borders(tmp_path):
    def fit(sentences, tags):
        tagger = CRFTagger(c=1.0, template="U:%x[0,0]\nB:%x[0,1]", max_epochs=2, random_state=0)
        tagger.fit(sentences, tags, checkpoint=tmp_path / "c")

    fit([[("a", "x"), ("b", "y"), ("a", "x")]], [["A", "B", "A"]])
    for sentences, tags in (
        ([[("a", "x"), ("b", "x"), ("a", "x")]], [["A", "B", "A"]]),
        ([[("a", "x")], [("b", "x"), ("a", "x")]], [["A"], ["B", "A"]]),
    ):
        with pytest.raises(CheckpointError, match="belongs to another fit"):
            fit(sentences, tags)


# -------------------------------------------------------------------------------------- model files


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.monro")), ids=lambda path: path.stem)
def test_files_of_every_version_are_read(path):
    """Made by tests/golden/make.py, with the version in their name; never updated."""
    expected = json.loads(path.with_suffix(".json").read_text())
    tagger = monro.load(path)
    sentences = expected["sentences"]
    assert tagger.predict(sentences) == expected["tags"]
    assert tagger.get_params() == CRFTagger().get_params() | expected["parameters"]
    for row, p in zip(tagger.predict_marginals(sentences), expected["marginals"], strict=True):
        assert [pytest.approx(entry) for entry in p] == row
    tagger.partial_fit(sentences, expected["tags"])


def test_there_are_golden_files_of_this_version():
    assert list(GOLDEN.glob(f"v{VERSION}-*.monro"))


@pytest.mark.parametrize(
    ("solver", "name"),
    [("sgdqn", "last"), ("sgdqn", "pair_last"), ("sgdqn", "gains.W"), ("asgd", "total.V")],
)
def test_states_of_other_sizes_are_refused(solver, name, tmp_path):
    tagger = CRFTagger(c=1.0, template=TEMPLATE, solver=solver, random_state=0).fit(*corpus())
    contents = tagger._to_contents()
    contents.arrays[f"state.{name}"] = contents.arrays[f"state.{name}"][:-1]
    contents.about["class"] = "CRFTagger"
    write_container(tmp_path / "a.monro", "model", contents)
    with pytest.raises(ModelFileError, match="damaged"):
        monro.load(tmp_path / "a.monro")


def test_a_damaged_model_is_refused(fitted, tmp_path):
    path = tmp_path / "a.monro"
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match="cut short"):
        monro.load(path)
