"""The public interface of CRFTagger."""

import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from monro import CRFTagger
from monro.crf.solvers import SOLVERS
from monro.data.conll import read_conll
from monro.errors import DivergenceError
from tests.crf.helpers import TEMPLATE, corpus
from tests.data.helpers import data_folder


def as_dicts(sentences):
    return [[{"w": token[0], "bias": 1.0} for token in sentence] for sentence in sentences]


@pytest.mark.parametrize("solver", SOLVERS)
def test_it_learns(solver):
    tagger = CRFTagger(c=1.0, template=TEMPLATE, solver=solver, random_state=0).fit(*corpus())
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
    tagger = CRFTagger(c=1.0, random_state=0).fit(make(sentences), tags)
    assert tagger.predict(make(sentences)) == tags


def test_the_same_seed_the_same_bits():
    a, b = (CRFTagger(c=1.0, random_state=3).fit(*corpus()) for _ in range(2))
    assert a.state_features_ == b.state_features_
    assert a.state_features_ != CRFTagger(c=1.0, random_state=4).fit(*corpus()).state_features_


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
    tagger = CRFTagger(c=1.0, template="U:%x[0,0]\nB", random_state=0).fit(sentences, tags)
    weights = tagger.transition_features_
    assert weights["A", "B"] > 0.5 > -0.5 > weights["A", "A"]
    assert tagger.predict([["x"] * 4])[0] in (["A", "B", "A", "B"], ["B", "A", "B", "A"])


def test_features_of_pairs_may_depend_on_tokens():
    # After "same" the tag stays, after "other" it changes: no feature of one tag expresses that.
    rng = np.random.default_rng(0)
    sentences, tags = [], []
    for _ in range(200):
        words, names = ["start"], ["A"]
        for word in rng.choice(["same", "other"], 5).tolist():
            words.append(word)
            names.append(names[-1] if word == "same" else "AB"[names[-1] == "A"])
        sentences.append(words)
        tags.append(names)
    tagger = CRFTagger(c=1.0, template="U:%x[0,0]\nB:%x[0,0]", random_state=0).fit(sentences, tags)
    assert tagger.predict(sentences[:50]) == tags[:50]
    assert tagger.n_parameters_ == 3 * 2 + 2 * 4
    assert sum(tagger.transition_features_.values()) == 0.0


def test_constraints():
    sentences = [["a", "b"], ["c", "b"]] * 20
    tags = [["B-X", "I-X"], ["O", "I-X"]] * 20
    free = CRFTagger(c=1.0, template="U:%x[0,0]\nB", random_state=0).fit(sentences, tags)
    assert free.predict([["c", "b"]]) == [["O", "I-X"]]
    free.set_params(constraints="BIO")
    assert free.predict([["c", "b"]]) != [["O", "I-X"]]
    assert all(
        p["I-X"] == 0.0 for sentence in free.predict_marginals([["a"], ["c"]]) for p in sentence
    )
    assert all(found[0] != "I-X" for found, _ in free.predict_n_best([["c", "b"]], 9)[0])


def test_what_no_sequence_of_tags_is_valid_for():
    tagger = CRFTagger(c=1.0, template="U:%x[0,0]\nB", constraints="BIOES", random_state=0)
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
    tagger = CRFTagger(c=1.0, random_state=0).fit([[{"a": 1.0}, {"b": 1.0}]] * 9, [["A", "B"]] * 9)
    with pytest.raises(ValueError, match="sentence 0: its scores overflow"):
        tagger.predict([[{"a": 3e38}] * 3])


@pytest.mark.parametrize("solver", SOLVERS)
def test_pairs_alone(solver):
    sentences, tags = [["a"] * 4] * 50, [["A", "B"] * 2] * 50
    tagger = CRFTagger(c=1.0, template="B\n", solver=solver, random_state=0).fit(sentences, tags)
    tagger.partial_fit(sentences, tags)
    assert tagger.transition_features_["A", "B"] > tagger.transition_features_["A", "A"]
    assert tagger.n_parameters_ == 4
    none = CRFTagger(c=1.0, template="U:%x[0,0]\nB", solver=solver, random_state=0)
    none.fit([["a", "b"]], [["A", "B"]]).partial_fit([["c", "b"]] * 5, [["A", "B"]] * 5)


def test_weights_in_a_stream():
    once, often, heavy = (CRFTagger(c=1.0, template=TEMPLATE, random_state=0) for _ in range(3))
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
    tagger = CRFTagger(c=1.0, template="U:%x[0,0]\nB", random_state=0, max_epochs=2)
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
    tagger = CRFTagger(c=1.0, random_state=0).fit(X, y)
    before, rate = tagger.state_features_, tagger.learning_rate_
    with pytest.raises(DivergenceError):
        tagger.set_params(learning_rate=1e9, c=1e9).fit(X * 2, y + [["B", "A"]] * 30)
    assert tagger.state_features_ == before
    assert tagger.learning_rate_ == rate
    assert tagger.predict(X[:1]) == y[:1]


def test_weights_of_sentences():
    sentences = [["a"], ["a"], ["a"]]
    tags = [["X"], ["Y"], ["Y"]]
    weighted = CRFTagger(c=1.0, random_state=0, max_epochs=200)
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
    tagger = CRFTagger(c=1.0, template=TEMPLATE, hash_bits=10, random_state=0).fit(sentences, tags)
    assert tagger.predict(sentences) == tags
    assert tagger.n_features_ == 1025
    assert all(name.startswith("#") for name, _ in tagger.state_features_)
    with pytest.raises(ValueError, match="features that are hashed are not counted"):
        CRFTagger(c=1.0, hash_bits=10, cutoff=2).fit(sentences, tags)


def test_cutoff():
    sentences, tags = [["a", "a", "b"]], [["X", "X", "Y"]]
    tagger = CRFTagger(c=1.0, template="U:%x[0,0]\nB", cutoff=2, random_state=0).fit(
        sentences, tags
    )
    assert {name for name, _ in tagger.state_features_} == {"U:a"}


def test_threads():
    sentences, tags = corpus(n=200)
    tagger = CRFTagger(c=1.0, template=TEMPLATE, n_jobs=2, random_state=0).fit(sentences, tags)
    assert tagger.predict(sentences) == tags
    assert threading.active_count() < 20


def test_one_tag_and_one_token():
    tagger = CRFTagger(c=1.0, random_state=0).fit([["a"]], [["X"]])
    assert tagger.predict([["b", "a"]]) == [["X", "X"]]


# ------------------------------------------------------------------------------------- scikit-learn


def test_scikit_learn_knows_it(fitted):
    sentences, tags = corpus()
    copy = clone(fitted)
    assert not hasattr(copy, "classes_")
    assert copy.get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(sentences) == fitted.predict(sentences)
    search = GridSearchCV(
        CRFTagger(c=1.0, template=TEMPLATE, random_state=0), {"max_epochs": [1, 10]}, cv=3
    )
    search.fit(sentences, tags)
    assert search.best_score_ == 1.0
    assert search.predict(sentences) == tags


def test_tol_stops():
    tagger = CRFTagger(c=1.0, template=TEMPLATE, tol=0.5, max_epochs=50, random_state=0).fit(
        *corpus()
    )
    assert tagger.n_iter_ < 20
    assert "objective" in tagger.history_[0]


# --------------------------------------------------------------------------------------- large ones


def test_a_sentence_of_a_hundred_thousand_tokens():
    sentences, tags = corpus(n=20_000, seed=1)
    long = [[token for sentence in sentences for token in sentence] * 2]
    long_tags = [[tag for sentence in tags for tag in sentence] * 2]
    assert len(long[0]) > 100_000
    tagger = CRFTagger(c=1.0, template=TEMPLATE, max_epochs=2, random_state=0, learning_rate=1e-5)
    tagger.fit(long, long_tags)
    assert tagger.predict(long) == long_tags
    assert np.isfinite(tagger.log_loss(long, long_tags))


def test_a_thousand_tags():
    sentences = [[f"w{10 * k + j}" for j in range(10)] for k in range(100)]
    tags = [[f"T{word[1:]}" for word in sentence] for sentence in sentences]
    tagger = CRFTagger(
        c=1.0, template="U:%x[0,0]\nB", max_epochs=2, learning_rate=1.0, random_state=0
    )
    tagger.fit(sentences, tags)
    assert tagger.n_parameters_ == 1000 * 1000 + 1000**2
    assert tagger.score(sentences, tags) > 0.95


def test_conll_2000():
    train = read_conll(data_folder() / "conll2000/train.txt.gz")
    sentences, tags = train.tokens[:2000], train.tags[:2000]
    tagger = CRFTagger(c=1.0, random_state=0, max_epochs=5, constraints="BIO").fit(sentences, tags)
    assert tagger.score(train.tokens[2000:3000], train.tags[2000:3000]) > 0.9


def test_skip_is_that_of_the_solver():
    sentences, tags = corpus(60)
    settings = {"solver": "sgdqn", "template": TEMPLATE, "learning_rate": 0.1, "random_state": 0}
    default, same, other = (
        CRFTagger(c=1.0, **settings, skip=skip).fit(sentences, tags).log_loss(sentences, tags)
        for skip in (None, 15, 2)
    )
    assert default == same  # a quarter of the sentences, if they are few
    assert default != other
