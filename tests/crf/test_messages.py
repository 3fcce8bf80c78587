"""Error messages of a tagger for invalid input."""

import pytest

from monro import CRFTagger
from monro.errors import DivergenceError
from tests.crf.helpers import TEMPLATE, corpus


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
        ({"solver": "sgdqn", "skip": 0}, "skip=0: give a whole number"),
        ({"skip": 8}, "solver='asgd' does not use skip: leave it None, or use 'sgdqn'"),
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
        CRFTagger(c=1.0).fit(sentences, tags)


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
        CRFTagger(c=1.0, template=TEMPLATE).fit([[["a"]]], [["X"]])


def test_divergence_is_told():
    with pytest.raises(DivergenceError, match="use a smaller learning_rate or 'auto'"):
        CRFTagger(learning_rate=1e9, c=1e9, random_state=0).fit(*corpus())
