"""CRFTagger as its users meet it."""

import json
import pickle
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import monro
from monro import CRFTagger, persist
from monro.crf.solvers import SOLVERS
from monro.data.conll import read_conll
from monro.errors import CheckpointError, DataError, DivergenceError, ModelFileError
from tests.crf.helpers import TEMPLATE
from tests.data.helpers import data_folder

GOLDEN = Path(__file__).parent.parent / "golden/taggers"
WORDS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "barks": "V", "sleeps": "V", "big": "J"}


def corpus(n=60, seed=0, columns=1):
    rng = np.random.default_rng(seed)
    words = np.array(list(WORDS))
    sentences, tags = [], []
    for _ in range(n):
        chosen = rng.choice(words, rng.integers(1, 6)).tolist()
        sentences.append([(word, word[-1])[:columns] for word in chosen])
        tags.append([WORDS[word] for word in chosen])
    return sentences, tags


@pytest.fixture(scope="module")
def fitted():
    return CRFTagger(template=TEMPLATE, random_state=0).fit(*corpus())


def as_dicts(sentences):
    return [[{"w": token[0], "bias": 1.0} for token in sentence] for sentence in sentences]


@pytest.mark.parametrize("solver", SOLVERS)
def test_it_learns(solver):
    tagger = CRFTagger(template=TEMPLATE, solver=solver, random_state=0).fit(*corpus())
    sentences, tags = corpus(seed=1)
    assert tagger.predict(sentences) == tags
    assert tagger.score(sentences, tags) == 1.0
    assert tagger.n_iter_ == len(tagger.history_) == 10
    assert tagger.log_loss(sentences, tags) < 1.0
    assert [record["epoch"] for record in tagger.history_] == list(range(1, 11))


@pytest.mark.parametrize(
    "make",
    [
        as_dicts,
        lambda sentences: [[[f"w={token[0]}", "bias"] for token in s] for s in sentences],
        lambda sentences: [[token[0] for token in s] for s in sentences],
    ],
)
def test_other_forms_of_sentences(make):
    sentences, tags = corpus()
    tagger = CRFTagger(random_state=0).fit(make(sentences), tags)
    assert tagger.predict(make(sentences)) == tags


def test_the_same_seed_the_same_bits():
    a, b = (CRFTagger(random_state=3).fit(*corpus()) for _ in range(2))
    assert a.state_features_ == b.state_features_
    assert a.state_features_ != CRFTagger(random_state=4).fit(*corpus()).state_features_


def test_probabilities(fitted):
    sentences, tags = corpus(seed=2)
    rows = fitted.predict_marginals(sentences)
    assert [len(row) for row in rows] == [len(sentence) for sentence in sentences]
    for row in rows:
        for p in row:
            assert list(p) == fitted.classes_.tolist()
            assert sum(p.values()) == pytest.approx(1.0)
    best = fitted.predict_n_best(sentences, 3)
    assert [candidates[0][0] for candidates in best] == fitted.predict(sentences)
    for candidates in best:
        chances = [chance for _, chance in candidates]
        assert chances == sorted(chances, reverse=True)
        assert sum(np.exp(chances)) <= 1.0 + 1e-9
    own = [
        next(chance for found, chance in fitted.predict_n_best([s], 4 ** len(s))[0] if found == t)
        for s, t in zip(sentences[:5], tags[:5], strict=True)
    ]
    assert -np.mean(own) == pytest.approx(fitted.log_loss(sentences[:5], tags[:5]), rel=1e-6)


def test_what_it_has_learnt(fitted):
    assert fitted.n_features_ == len({name for name, _ in fitted.state_features_}) + 1
    assert fitted.n_parameters_ == (fitted.n_features_ - 1) * 4 + 16
    assert set(fitted.transition_features_) == {(a, b) for a in "DJNV" for b in "DJNV"}
    assert fitted.top_features("J", 1)[0][0] == "U0:big"
    with pytest.raises(ValueError, match="there is no tag 'X'; choose from D, J, N, V"):
        fitted.top_features("X")


def test_transitions_are_learnt():
    sentences = [["x"] * 6] * 20
    tags = [["A", "B"] * 3] * 20
    tagger = CRFTagger(template="U:%x[0,0]\nB", random_state=0).fit(sentences, tags)
    weights = tagger.transition_features_
    assert weights["A", "B"] > 0.5 > -0.5 > weights["A", "A"]
    assert tagger.predict([["x"] * 4])[0] in (["A", "B", "A", "B"], ["B", "A", "B", "A"])


def test_features_of_pairs_may_depend_on_tokens():
    # After "same" the tag stays, after "other" it changes: no feature of one tag tells that.
    rng = np.random.default_rng(0)
    sentences, tags = [], []
    for _ in range(200):
        words, names = ["start"], ["A"]
        for word in rng.choice(["same", "other"], 5).tolist():
            words.append(word)
            names.append(names[-1] if word == "same" else "AB"[names[-1] == "A"])
        sentences.append(words)
        tags.append(names)
    tagger = CRFTagger(template="U:%x[0,0]\nB:%x[0,0]", random_state=0).fit(sentences, tags)
    assert tagger.predict(sentences[:50]) == tags[:50]
    assert tagger.n_parameters_ == 3 * 2 + 2 * 4
    assert sum(tagger.transition_features_.values()) == 0.0


def test_constraints():
    sentences = [["a", "b"], ["c", "b"]] * 20
    tags = [["B-X", "I-X"], ["O", "I-X"]] * 20
    free = CRFTagger(template="U:%x[0,0]\nB", random_state=0).fit(sentences, tags)
    assert free.predict([["c", "b"]]) == [["O", "I-X"]]
    free.set_params(constraints="BIO")
    assert free.predict([["c", "b"]]) != [["O", "I-X"]]
    assert all(
        p["I-X"] == 0.0 for sentence in free.predict_marginals([["a"], ["c"]]) for p in sentence
    )
    assert all(found[0] != "I-X" for found, _ in free.predict_n_best([["c", "b"]], 9)[0])


def test_what_no_sequence_of_tags_is_valid_for():
    tagger = CRFTagger(template="U:%x[0,0]\nB", constraints="BIOES", random_state=0)
    tagger.fit([["a", "b"]] * 5, [["B-X", "E-X"]] * 5)
    assert tagger.predict([["a", "b"] * 5]) == [["B-X", "E-X"] * 5]
    for method in (tagger.predict, tagger.predict_marginals, lambda X: tagger.predict_n_best(X, 2)):
        with pytest.raises(ValueError, match="sentence 1: no sequence of its length is valid"):
            method([["a", "b"], ["a"]])
    tagger.fit([["a", "b"]] * 5, [["B-X", "E-Y"]] * 5)
    with pytest.raises(ValueError, match="no sequence of the tags B-X, E-Y is valid"):
        tagger.predict([["a", "b"] * 5])


def test_tags_that_lead_nowhere_are_not_taken():
    tagger = CRFTagger(template="U:%x[0,0]\nB", constraints="BIOES", c=1000.0, random_state=0)
    tagger.fit([["i"] * 6 + ["o"]] * 20, [["B-X"] + ["I-X"] * 5 + ["O"]] * 20)
    sentence = ["i"] * 200 + ["o"]
    assert tagger.predict([sentence]) == [["O"] * 201]
    (rows,) = tagger.predict_marginals([sentence])
    assert all(p == {"B-X": 0.0, "I-X": 0.0, "O": 1.0} for p in rows)


def test_scores_that_overflow_are_told():
    tagger = CRFTagger(random_state=0).fit([[{"a": 1.0}, {"b": 1.0}]] * 9, [["A", "B"]] * 9)
    with pytest.raises(ValueError, match="sentence 0: its scores overflow"):
        tagger.predict([[{"a": 3e38}] * 3])


@pytest.mark.parametrize("solver", SOLVERS)
def test_pairs_alone(solver):
    sentences, tags = [["a"] * 4] * 50, [["A", "B"] * 2] * 50
    tagger = CRFTagger(template="B\n", solver=solver, random_state=0).fit(sentences, tags)
    tagger.partial_fit(sentences, tags)
    assert tagger.transition_features_["A", "B"] > tagger.transition_features_["A", "A"]
    assert tagger.n_parameters_ == 4
    none = CRFTagger(template="U:%x[0,0]\nB", solver=solver, random_state=0)
    none.fit([["a", "b"]], [["A", "B"]]).partial_fit([["c", "b"]] * 5, [["A", "B"]] * 5)


def test_weights_in_a_stream():
    once, often, heavy = (CRFTagger(template=TEMPLATE, random_state=0) for _ in range(3))
    for tagger in (once, often, heavy):
        tagger.partial_fit(*corpus())
    sentence, tags = [[("mouse",), ("runs",)]], [["N", "V"]]
    once.partial_fit(sentence, tags)
    often.partial_fit(sentence * 8, tags * 8)
    heavy.partial_fit(sentence, tags, sample_weight=[8.0])
    losses = [tagger.log_loss(sentence, tags) for tagger in (once, often, heavy)]
    assert losses[0] > 1.2 * max(losses[1:])


def test_light_sentences_are_no_divergence():
    sentences, tags = [["a"] * 200] * 5 + [["a"]] * 295, [["A", "B"] * 100] * 5 + [["A"]] * 295
    weight = [1.0] * 5 + [0.001] * 295
    tagger = CRFTagger(template="U:%x[0,0]\nB", random_state=0, max_epochs=2)
    tagger.fit(sentences, tags, sample_weight=weight)
    assert np.isfinite(tagger.log_loss(sentences, tags))


@pytest.mark.parametrize("solver", SOLVERS)
def test_few_sentences_feel_the_ridge(solver):
    tagger = CRFTagger(template=TEMPLATE, solver=solver, c=0.01, random_state=0, max_epochs=200)
    sentences, tags = corpus(n=10)
    tagger.fit(sentences, tags)
    assert tagger.objective(sentences, tags) < 1.2 * _zero_loss(sentences)


def _zero_loss(sentences):
    return np.mean([len(sentence) for sentence in sentences]) * np.log(4)


def test_a_failed_fit_leaves_the_model():
    X, y = [[{"a": 1.0}, {"b": 1.0}]] * 30, [["A", "B"]] * 30
    tagger = CRFTagger(random_state=0).fit(X, y)
    before, rate = tagger.state_features_, tagger.learning_rate_
    with pytest.raises(DivergenceError):
        tagger.set_params(learning_rate=1e9, c=1e9).fit(X * 2, y + [["B", "A"]] * 30)
    assert tagger.state_features_ == before
    assert tagger.learning_rate_ == rate
    assert tagger.predict(X[:1]) == y[:1]


def test_weights_of_sentences():
    sentences = [["a"], ["a"], ["a"]]
    tags = [["X"], ["Y"], ["Y"]]
    weighted = CRFTagger(random_state=0, max_epochs=200)
    tagger = weighted.fit(sentences, tags, sample_weight=[4.0, 1.0, 1.0])
    twice = clone(weighted).fit(sentences + [["a"]] * 3, [*tags, ["X"], ["X"], ["X"]])
    p, q = (each.predict_marginals([["a"]])[0][0]["X"] for each in (tagger, twice))
    assert p == pytest.approx(q, abs=0.02)
    assert tagger.predict([["a"]]) == [["X"]]
    alone = clone(weighted).fit(sentences, tags, sample_weight=[1.0, 0.0, 0.0])
    assert alone.classes_.tolist() == ["X"]
    for weight, what in (
        ([1.0], "shape"),
        ([-1.0, 1.0, 1.0], "at least 0"),
        ([0.0] * 3, "no token to learn"),
    ):
        with pytest.raises(ValueError, match=what):
            weighted.fit(sentences, tags, sample_weight=weight)


def test_hashed_features():
    sentences, tags = corpus()
    tagger = CRFTagger(template=TEMPLATE, hash_bits=10, random_state=0).fit(sentences, tags)
    assert tagger.predict(sentences) == tags
    assert tagger.n_features_ == 1025
    assert all(name.startswith("#") for name, _ in tagger.state_features_)
    with pytest.raises(ValueError, match="features that are hashed are not counted"):
        CRFTagger(hash_bits=10, cutoff=2).fit(sentences, tags)


def test_cutoff():
    sentences, tags = [["a", "a", "b"]], [["X", "X", "Y"]]
    tagger = CRFTagger(template="U:%x[0,0]\nB", cutoff=2, random_state=0).fit(sentences, tags)
    assert {name for name, _ in tagger.state_features_} == {"U:a"}


# ----------------------------------------------------------------------------------------- going on


@pytest.mark.parametrize("solver", SOLVERS)
def test_going_on_from_a_file(solver, tmp_path):
    sentences, tags = corpus()
    tagger = CRFTagger(template=TEMPLATE, solver=solver, random_state=0).fit(sentences, tags)
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
    tagger = CRFTagger(template=TEMPLATE, solver=solver, random_state=0)
    for _ in range(10):
        tagger.partial_fit(*corpus())
    for _ in range(20):
        tagger.partial_fit([[("mouse",), ("runs",)]] * 10, [["M", "R"]] * 10)
        tagger.partial_fit(*corpus(seed=7))
    assert tagger.classes_.tolist() == ["D", "J", "M", "N", "R", "V"]
    assert tagger.predict([[("mouse",), ("runs",)]]) == [["M", "R"]]
    sentences, tags = corpus(seed=8)
    assert tagger.score(sentences, tags) > 0.99


def test_partial_fit_comes_to_what_fit_does():
    sentences, tags = corpus(n=300)
    whole = CRFTagger(template=TEMPLATE, random_state=0, max_epochs=20).fit(sentences, tags)
    parts = CRFTagger(template=TEMPLATE, random_state=0)
    for _ in range(20):
        parts.partial_fit(sentences, tags)
    assert parts.log_loss(sentences, tags) < 3.0 * whole.log_loss(sentences, tags)


def test_warm_start():
    sentences, tags = corpus()
    tagger = CRFTagger(template=TEMPLATE, warm_start=True, random_state=0, max_epochs=3)
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
        return CRFTagger(template=TEMPLATE, solver=solver, max_epochs=epochs, random_state=0)

    make(3).fit(sentences, tags, checkpoint=path)
    resumed = make(7).fit(sentences, tags, checkpoint=path)
    whole = make(7).fit(sentences, tags)
    assert resumed.state_features_ == whole.state_features_
    assert resumed.n_iter_ == 7
    with pytest.raises(CheckpointError, match="the data differs"):
        make(7).fit(sentences[1:], tags[1:], checkpoint=path)


def test_a_checkpoint_knows_pair_features_and_borders(tmp_path):
    def fit(sentences, tags):
        tagger = CRFTagger(template="U:%x[0,0]\nB:%x[0,1]", max_epochs=2, random_state=0)
        tagger.fit(sentences, tags, checkpoint=tmp_path / "c")

    fit([[("a", "x"), ("b", "y"), ("a", "x")]], [["A", "B", "A"]])
    for sentences, tags in (
        ([[("a", "x"), ("b", "x"), ("a", "x")]], [["A", "B", "A"]]),
        ([[("a", "x")], [("b", "x"), ("a", "x")]], [["A"], ["B", "A"]]),
    ):
        with pytest.raises(CheckpointError, match="belongs to another fit"):
            fit(sentences, tags)


def test_threads():
    sentences, tags = corpus(n=200)
    tagger = CRFTagger(template=TEMPLATE, n_jobs=2, random_state=0).fit(sentences, tags)
    assert tagger.predict(sentences) == tags
    assert threading.active_count() < 20


# -------------------------------------------------------------------------------------------- files


def write(path, sentences, tags):
    path.write_text(
        "\n\n".join(
            "\n".join(f"{' '.join(token)} {tag}" for token, tag in zip(s, t, strict=True))
            for s, t in zip(sentences, tags, strict=True)
        )
        + "\n"
    )
    return path


@pytest.mark.parametrize("in_files", [False, True])
def test_a_file_is_the_same_as_its_sentences(in_files, tmp_path, monkeypatch):
    monkeypatch.setattr("monro.data.files.BLOCK", 200)
    sentences, tags = corpus(columns=2)
    path = write(tmp_path / "train.txt", sentences, tags)
    tagger = CRFTagger(random_state=0).fit(sentences, tags)
    options = {"folder": tmp_path} if in_files else {}
    other = CRFTagger(random_state=0).fit_file(path, **options)
    assert other.classes_.tolist() == tagger.classes_.tolist()
    if not in_files:  # which are read in another order
        assert other.state_features_ == tagger.state_features_
    assert other.predict(sentences) == tags
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.txt"]


def test_odd_files(tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("a X\nb\n")
    with pytest.raises(DataError, match="line 2: the line has 1 columns, those before it 2"):
        CRFTagger().fit_file(path)
    path.write_text("\n\n")
    with pytest.raises(DataError, match="the file has no sentences"):
        CRFTagger().fit_file(path)
    path.write_text("a X\n")
    with pytest.raises(DataError, match="asks for column 1, the tokens have columns 0 to 0"):
        CRFTagger(template="U:%x[0,1]\nB").fit_file(path)
    with pytest.raises(DataError, match="standard input cannot be read twice"):
        CRFTagger().fit_file("-")
    with pytest.raises(ValueError, match="there is no such folder"):
        CRFTagger().fit_file(path, folder=tmp_path / "none")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.monro")), ids=lambda path: path.stem)
def test_files_of_every_version_are_read(path):
    """Made by tests/golden/make.py, with the version in their name; never made anew."""
    expected = json.loads(path.with_suffix(".json").read_text())
    tagger = monro.load(path)
    sentences = expected["sentences"]
    assert tagger.predict(sentences) == expected["tags"]
    assert tagger.get_params() == expected["parameters"]
    for row, p in zip(tagger.predict_marginals(sentences), expected["marginals"], strict=True):
        assert [pytest.approx(entry) for entry in p] == row
    tagger.partial_fit(sentences, expected["tags"])


def test_there_are_golden_files_of_this_version():
    assert list(GOLDEN.glob(f"v{persist.VERSION}-*.monro"))


def test_a_damaged_model_is_refused(fitted, tmp_path):
    path = tmp_path / "a.monro"
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match="cut short"):
        monro.load(path)


# ------------------------------------------------------------------------------------- scikit-learn


def test_scikit_learn_knows_it(fitted):
    sentences, tags = corpus()
    copy = clone(fitted)
    assert not hasattr(copy, "classes_")
    assert copy.get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(sentences) == fitted.predict(sentences)
    search = GridSearchCV(
        CRFTagger(template=TEMPLATE, random_state=0), {"max_epochs": [1, 10]}, cv=3
    )
    search.fit(sentences, tags)
    assert search.best_score_ == 1.0
    assert search.predict(sentences) == tags


def test_tol_stops():
    tagger = CRFTagger(template=TEMPLATE, tol=0.5, max_epochs=50, random_state=0).fit(*corpus())
    assert tagger.n_iter_ < 20
    assert "objective" in tagger.history_[0]


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"solver": "lbfgs"}, "solver='lbfgs': choose one of 'asgd'"),
        ({"c": 0}, "c=0: it must be > 0"),
        ({"cutoff": 0}, "cutoff=0: give a whole number"),
        ({"learning_rate": "fast"}, "learning_rate='fast'"),
        ({"constraints": "BILOU"}, "constraints='BILOU': choose one of 'BIO', 'BIOES'"),
        ({"hash_bits": 2}, "hash_bits=2"),
        ({"max_epochs": 0}, "max_epochs=0"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"template": "U:%q[0,0]\n"}, "unknown macro"),
        ({"template": 5}, "template=5: give a template, or the name of a file"),
        ({"template": "t" * 300}, "the template cannot be read"),
        ({"cutoff": 10**6}, "no feature occurs that often"),
    ],
)
def test_odd_parameters(parameters, what):
    with pytest.raises(ValueError, match=what):
        CRFTagger(**parameters).fit(*corpus())


@pytest.mark.parametrize(
    ("sentences", "tags", "what"),
    [
        ([["a"]], [], "there are 1 sentences and 0 lists of tags"),
        ([["a", "b"]], [["X"]], "sentence 0: it has 2 tokens and 1 tags"),
        ([], [], "there is no token to learn from"),
        ([[]], [[]], "there is no token to learn from"),
        ([["a"]], [[1]], "sentence 0: a tag is a text, here is 1"),
        ([[], ["a"]], [[], [["X"]]], r"sentence 1: a tag is a text, here is \['X'\]"),
        (["a b"], ["X Y"], "sentence 0: a sentence is a list of tokens, here is 'a b'"),
        ([["a"], "b"], [["X"], ["X"]], "sentence 1: a sentence is a list of tokens"),
        ([1], [["X"]], "sentence 0: a sentence is a list of tokens, here is 1"),
        ([["a", "b"]], ["XY"], "sentence 0: its tags are 'XY'; give a list of them"),
        ([[], ["a"], [5]], [[], ["X"], ["X"]], "sentence 2, token 0: 5 is no tuple of columns"),
        ("a", ["X"], "sentences: give a list with an entry for each sentence"),
        ([[["f"]], [("a",)]], [["X"], ["X"]], "sentence 1, token 0"),
    ],
)
def test_odd_sentences(sentences, tags, what):
    with pytest.raises(ValueError, match=what):
        CRFTagger().fit(sentences, tags)


def test_odd_sentences_to_predict(fitted):
    with pytest.raises(ValueError, match="the tokens are lists or dicts of features"):
        fitted.predict([[["a"]]])
    with pytest.raises(ValueError, match="2 columns where 1 are expected"):
        fitted.predict([[("a", "b")]])
    with pytest.raises(ValueError, match="the tag 'Q' is none of the model's"):
        fitted.log_loss([["a"]], [["Q"]])
    with pytest.raises(ValueError, match="sentence 1: a sentence is a list of tokens"):
        fitted.predict([["a"], None])
    with pytest.raises(ValueError, match="there are none to judge by"):
        fitted.log_loss([], [])
    assert fitted.predict([]) == []
    assert fitted.predict([[]]) == [[]]
    assert fitted.predict_marginals([[], ["the"]])[0] == []
    assert fitted.predict_n_best([[]], 2) == [[([], 0.0)]]
    assert fitted.score([["the"]], [["Q"]]) == 0.0  # a tag the model does not know


def test_a_template_has_no_place_where_tokens_bring_features():
    with pytest.raises(ValueError, match="the tokens bring their features, so there is none"):
        CRFTagger(template=TEMPLATE).fit([[["a"]]], [["X"]])


def test_divergence_is_told():
    with pytest.raises(DivergenceError, match="use a smaller learning_rate or 'auto'"):
        CRFTagger(learning_rate=1e9, c=1e9, random_state=0).fit(*corpus())


def test_one_tag_and_one_token():
    tagger = CRFTagger(random_state=0).fit([["a"]], [["X"]])
    assert tagger.predict([["b", "a"]]) == [["X", "X"]]


# --------------------------------------------------------------------------------------- large ones


def test_a_sentence_of_a_hundred_thousand_tokens():
    sentences, tags = corpus(n=20_000, seed=1)
    long = [[token for sentence in sentences for token in sentence] * 2]
    long_tags = [[tag for sentence in tags for tag in sentence] * 2]
    assert len(long[0]) > 100_000
    tagger = CRFTagger(template=TEMPLATE, max_epochs=2, random_state=0, learning_rate=1e-5)
    tagger.fit(long, long_tags)
    assert tagger.predict(long) == long_tags
    assert np.isfinite(tagger.log_loss(long, long_tags))


def test_a_thousand_tags():
    sentences = [[f"w{10 * k + j}" for j in range(10)] for k in range(100)]
    tags = [[f"T{word[1:]}" for word in sentence] for sentence in sentences]
    tagger = CRFTagger(template="U:%x[0,0]\nB", max_epochs=2, learning_rate=1.0, random_state=0)
    tagger.fit(sentences, tags)
    assert tagger.n_parameters_ == 1000 * 1000 + 1000**2
    assert tagger.score(sentences, tags) > 0.95


def test_conll_2000():
    train = read_conll(data_folder() / "conll2000/train.txt.gz")
    sentences, tags = train.tokens[:2000], train.tags[:2000]
    tagger = CRFTagger(random_state=0, max_epochs=5, constraints="BIO").fit(sentences, tags)
    assert tagger.score(train.tokens[2000:3000], train.tags[2000:3000]) > 0.9


# ------------------------------------------------------------------------------ larger than memory


def weights_of(tagger):
    return [*tagger.state_features_.items(), *tagger.transition_features_.items()]


def in_chunks(sentences, tags, size=17):
    return ((sentences[k : k + size], tags[k : k + size]) for k in range(0, len(tags), size))


def as_table(sentences, tags):
    columns = {
        f"column{c}": [[token[c] for token in sentence] for sentence in sentences]
        for c in range(len(sentences[0][0]))
    }
    return pa.table(columns | {"tags": tags})


@pytest.mark.parametrize("known", [False, True])
def test_chunks_arrow_and_parquet_give_the_bits_of_lists(tmp_path, monkeypatch, known):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sentences, tags = corpus(columns=2)
    table = as_table(sentences, tags)
    folder = tmp_path / "parquet"
    folder.mkdir()
    pq.write_table(table.slice(0, 40), folder / "a.parquet")
    pq.write_table(table.slice(40), folder / "b.parquet")

    def fitted(*arguments):
        tagger = CRFTagger(random_state=0, max_epochs=4, warm_start=known)
        if known:  # with other tags and features
            tagger.fit([[("it", "t"), ("rains", "s")]], [["P", "V"]])
        return weights_of(tagger.fit(*arguments))

    expected = fitted(sentences, tags)
    assert fitted(in_chunks(sentences, tags)) == expected
    assert fitted(iter([([], []), (sentences, tags), ([[]], [[]])])) == expected
    for source in (table, table.to_reader(max_chunksize=9), folder, folder / "a.parquet"):
        found = fitted(source) if source != folder else fitted(str(folder), "tags")
        assert (found == expected) == (source != folder / "a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["parquet"]


def test_chunks_of_features():
    sentences, tags = corpus()
    lists = [[list(token) for token in sentence] for sentence in sentences]
    chunked = CRFTagger(random_state=0, max_epochs=3).fit(in_chunks(lists, tags))
    assert weights_of(chunked) == weights_of(
        CRFTagger(random_state=0, max_epochs=3).fit(lists, tags)
    )


def test_chunks_go_on_from_a_checkpoint(tmp_path):
    sentences, tags = corpus()
    path = tmp_path / "checkpoint"

    def fitted(epochs, checkpoint=None):
        tagger = CRFTagger(random_state=0, max_epochs=epochs)
        return weights_of(tagger.fit(in_chunks(sentences, tags), checkpoint=checkpoint))

    fitted(2, path)
    assert fitted(5, path) == fitted(5)
    with pytest.raises(CheckpointError, match="the data differs"):
        CRFTagger(random_state=0).fit(in_chunks(sentences[1:], tags[1:]), checkpoint=path)


@pytest.mark.parametrize(
    ("chunks", "what"),
    [
        ([], "there is no token to learn from"),
        ([([[]], [[]])], "there is no token to learn from"),
        ([[1]], r"chunk 0: a chunk is a pair \(sentences, tags\), here is list"),
        (
            [([["a"]], [["X"]]), ([["a"]], [["X", "Y"]])],
            "chunk 1: sentence 0: it has 1 tokens and 2",
        ),
        ([([["a"]], [["X"]]), ([[("a", "b")]], [["X"]])], "chunk 1: its tokens have 2 columns"),
        ([([["a"]], [["X"]]), ([[["a"]]], [["X"]])], "chunk 1: its tokens have features, those"),
        ([([["a"]], [[3]])], "chunk 0: sentence 0: a tag is a text"),
    ],
)
def test_odd_chunks(chunks, what):
    with pytest.raises(ValueError, match=what):
        CRFTagger().fit(iter(chunks))


def test_odd_tables(tmp_path):
    def failure(table, tags=None, **options):
        with pytest.raises(ValueError, match=r".") as caught:
            CRFTagger().fit(table, tags, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    table = pa.table({"word": [["a"], ["b", "c"]], "tags": [["X"], ["X"]]})
    assert "row 2, column 'word': there are 2 texts for 1 tags" in failure(table)
    assert "there is no column 'pos'; choose tags= from 'word', 'tags'" in failure(table, "pos")
    assert "no column besides the tags" in failure(table.select(["tags"]))
    table = pa.table({"word": [["a"], None], "tags": [["X"], ["X"]]})
    assert "row 2, column 'word': None is no list of texts" in failure(table)
    assert "there is no such file" in failure(tmp_path / "none.parquet")
    assert "with a list of sentences" in failure(table, sample_weight=[1.0])
