"""c="auto" of CRFTagger."""

import numpy as np
import pytest

import monro
from monro import CRFTagger
from monro.crf.corpus import from_sentences
from monro.crf.path_model import ChainPathModel, PathSteps, Split, choose_c
from monro.crf.problem import take_sentences
from monro.fitting.path import standard_error
from tests.callbacks import Recorder, expected_events, killed_after
from tests.crf.helpers import TEMPLATE, all_sequences, corpus, log_partition, scores
from tests.crf.test_sources import in_chunks, weights_of, write
from tests.marks import thorough
from tests.messages import message

SHORT = {"template": TEMPLATE, "random_state": 0, "max_epochs": 6}


def noisy_corpus(n, seed):
    """Return sentences of rare words, whose tags are often wrong: they invite overfitting."""
    rng = np.random.default_rng(seed)
    sentences, tags = [], []
    for _ in range(n):
        words = rng.integers(200, size=rng.integers(2, 9))
        own = np.where(rng.random(words.size) < 0.3, rng.integers(3, size=words.size), words % 3)
        sentences.append([(f"w{word}",) for word in words])
        tags.append([f"T{k}" for k in own])
    return sentences, tags


@pytest.mark.parametrize("n", [60, 310])  # folds, one hold-out
def test_it_is_the_fit_with_the_c_chosen(n):
    sentences, tags = noisy_corpus(n, 0)
    weight = np.random.default_rng(0).integers(3, size=n)  # some 0
    tagger = CRFTagger(c="auto", **SHORT).fit(sentences, tags, weight)
    same = CRFTagger(c=tagger.c_, **SHORT).fit(sentences, tags, weight)

    assert weights_of(tagger) == weights_of(same)
    assert tagger.objective(sentences, tags) == same.objective(sentences, tags)
    path = tagger.alpha_path_
    values = [record["c"] for record in path]
    assert values == sorted(values)
    assert values[0] <= tagger.c_ <= values[-1]
    for record in [*path, {"c": tagger.c_, "alpha": tagger.alpha_}]:
        assert record["c"] * record["alpha"] * weight.sum() == pytest.approx(1.0)
    assert all(record["standard_error"] > 0 for record in path)
    assert all(record["nonzeros"] > 0 for record in path)


def test_new_sentences_are_predicted_better_where_weak_ridges_overfit():
    sentences, tags = noisy_corpus(200, 0)
    new = noisy_corpus(200, 1)
    auto, weak, best = (
        CRFTagger(c=c, template=TEMPLATE, random_state=0).fit(sentences, tags).log_loss(*new)
        for c in ("auto", 100.0, 1.0)
    )
    assert auto < 0.95 * weak
    assert auto < 1.03 * best


def problem_of(sentences, tags, weight=None):
    tagger = CRFTagger(**SHORT)
    data = from_sentences(sentences, tags, weight, TEMPLATE, None)
    vocabulary, problem = tagger._prepare(data, None, float(data.weight.sum()), None)
    return problem, vocabulary


def test_the_loss_held_out_is_that_of_all_sequences_of_tags():
    sentences, tags = corpus(n=30)
    problem, vocabulary = problem_of(sentences, tags)
    problem = problem._replace(weight=np.linspace(0.5, 1.5, 30))
    split = Split(np.arange(9, 30), np.arange(9))
    model = ChainPathModel(problem, split, vocabulary, 30.0, PathSteps(0.1, 2, True, 1, 0))
    model.refit(0.1)
    state, pair = tables(model.weights, problem.n_tags)

    expected = []
    for s in range(9):
        sequences = all_sequences(*scores(problem.data, s, state, pair))
        own = problem.y[problem.data.starts[s] : problem.data.starts[s + 1]].tolist()
        expected.append(log_partition(sequences) - next(z for z, k in sequences if k == own))
    length = np.diff(problem.data.starts)[:9]
    np.testing.assert_allclose(model.losses() * length, expected, rtol=1e-5)
    assert model.n_rows == pytest.approx(problem.weight[9:].sum())

    # The mean over tokens, and its standard error if sentences are drawn, as a ratio of sums.
    weight = problem.weight[:9]
    mean = weight @ expected / (weight @ length)
    share = model.weight / model.weight.sum()
    assert share @ model.losses() == pytest.approx(mean)
    apart = weight * (expected - mean * length) / (weight @ length)
    assert standard_error(model.losses(), share) == pytest.approx(
        np.sqrt(np.sum(apart**2) / (1.0 - share @ share))
    )


def tables(weights, n_tags):
    W = np.concatenate(weights.W, axis=1)[:, :n_tags].astype(np.float64)
    V = weights.V.transpose(1, 0, 2)[:, :, :n_tags].astype(np.float64)  # one block of tags
    return W, V


def test_the_path_trains_on_the_other_sentences_only():
    # Words that occur only in sentences held out keep the weight 0.
    sentences, tags = corpus(n=40)
    sentences[0] = [("odd",)] * len(sentences[0])
    problem, vocabulary = problem_of(sentences, tags)
    split = Split(np.arange(1, 40), np.arange(1))
    model = ChainPathModel(problem, split, vocabulary, 40.0, PathSteps(0.1, 2, True, 1, 0))
    model.refit(0.1)
    odd = vocabulary.features.names.index("U0:odd")
    W, _ = tables(model.weights, problem.n_tags)
    assert not W[odd].any()
    assert np.count_nonzero(W.any(axis=1)) > 10


def test_taken_sentences_are_those_of_the_corpus():
    sentences, tags = corpus(n=40)
    problem, vocabulary = problem_of(sentences, tags)
    chosen = np.array([2, 3, 7, 39])
    data, y = take_sentences(problem.data, problem.y, chosen)
    alone = vocabulary.features.encode([sentences[k] for k in chosen])
    for part, expected in zip(data, alone, strict=True):
        np.testing.assert_array_equal(part, expected)
    names = [name for k in chosen for name in tags[k]]
    assert vocabulary.classes[y].tolist() == names


@thorough
def test_weights_of_sentences_count_in_the_judgement():
    # Half of the sentences have tags at random. If only they count, no weak ridge is chosen.
    sentences, tags = corpus(n=400, seed=1)
    rng = np.random.default_rng(0)
    random = np.arange(400) % 2 == 0
    for s in np.flatnonzero(random):
        tags[s] = rng.choice(["D", "N", "V", "J"], len(tags[s])).tolist()
    of_noise, of_signal = (
        CRFTagger(c="auto", **SHORT).fit(sentences, tags, np.where(random, *weights)).c_
        for weights in ((1.0, 1e-3), (1e-3, 1.0))
    )
    assert of_signal > 3 * of_noise


@thorough
def test_the_units_of_the_features_do_not_matter():
    sentences, tags = noisy_corpus(150, 0)

    def chosen(unit):
        rows = [[{token[0]: unit} for token in sentence] for sentence in sentences]
        return CRFTagger(c="auto", random_state=0, max_epochs=6).fit(rows, tags).c_

    assert chosen(16.0) == pytest.approx(chosen(1.0) / 256.0, rel=0.5)


@pytest.mark.parametrize("killed", [pytest.param(0, marks=thorough), 2])
def test_a_killed_fit_resumes_with_the_same_bits(tmp_path, killed):
    sentences, tags = noisy_corpus(60, 0)
    whole = CRFTagger(c="auto", **SHORT).fit(sentences, tags)
    path = tmp_path / "checkpoint"
    killed_after(killed, CRFTagger(c="auto", **SHORT), sentences, tags, path)
    resumed = CRFTagger(c="auto", **SHORT).fit(sentences, tags, checkpoint=path)

    assert weights_of(resumed) == weights_of(whole)
    assert (resumed.c_, resumed.alpha_) == (whole.c_, whole.alpha_)
    assert resumed.alpha_path_ == whole.alpha_path_


def test_a_file_keeps_the_path(tmp_path):
    sentences, tags = noisy_corpus(60, 0)
    tagger = CRFTagger(c="auto", **SHORT).fit(sentences, tags)
    tagger.save(tmp_path / "model")
    loaded = monro.load(tmp_path / "model")

    assert loaded.c == "auto"
    assert (loaded.c_, loaded.alpha_) == (tagger.c_, tagger.alpha_)
    assert loaded.alpha_path_ == tagger.alpha_path_
    more = noisy_corpus(20, 3)
    assert weights_of(loaded.partial_fit(*more)) == weights_of(tagger.partial_fit(*more))


def test_batches_take_the_c_of_the_fit_or_a_fixed_one():
    sentences, tags = noisy_corpus(60, 0)
    tagger = CRFTagger(c="auto", **SHORT).partial_fit(sentences, tags)
    number = CRFTagger(c=1.0, **SHORT).partial_fit(sentences, tags)
    assert weights_of(tagger) == weights_of(number)
    assert not hasattr(tagger, "c_")
    tagger.fit(sentences, tags)
    number = CRFTagger(c=tagger.c_, **SHORT).fit(sentences, tags)
    more = noisy_corpus(20, 3)
    assert weights_of(tagger.partial_fit(*more)) == weights_of(number.partial_fit(*more))


def test_another_fit_forgets_the_path():
    sentences, tags = noisy_corpus(60, 0)
    tagger = CRFTagger(c="auto", **SHORT).fit(sentences, tags).set_params(c=2.0)
    tagger.fit(sentences, tags)
    assert not {"c_", "alpha_", "alpha_path_"} & set(vars(tagger))


def test_one_sentence_is_fitted_with_the_fixed_c():
    tagger = CRFTagger(c="auto", **SHORT).fit([[("a",)]], [["X"]])
    assert (tagger.c_, tagger.alpha_path_) == (1.0, [])


def test_callbacks_see_the_last_fit_only():
    recorder = Recorder()
    tagger = CRFTagger(c="auto", random_state=0, max_epochs=3).set_callbacks(recorder)
    tagger.fit(*noisy_corpus(60, 0))
    assert recorder.events == expected_events(3)


def test_progress_shows_each_strength(capsys):
    CRFTagger(c="auto", verbose=1, **SHORT).fit(*noisy_corpus(60, 0))
    text = capsys.readouterr().err
    assert text.startswith("strength 1 of at most 13: c 0.0316  loss held out ")
    assert "CRF, asgd: epoch 1/6" in text


@pytest.mark.parametrize("n", [60, pytest.param(310, marks=thorough)])
def test_sentences_in_files_are_held_out_as_those_in_memory(tmp_path, n):
    sentences, tags = noisy_corpus(n, 0)
    tagger = CRFTagger(c="auto", **SHORT).fit(sentences, tags)
    chunked = CRFTagger(c="auto", **SHORT).fit(in_chunks(sentences, tags))
    assert weights_of(chunked) == weights_of(tagger)
    path = write(tmp_path / "train.txt", sentences, tags)
    mapped = CRFTagger(c="auto", **SHORT).fit_file(path, folder=tmp_path)
    assert weights_of(mapped) == weights_of(tagger)
    assert mapped.alpha_path_ == tagger.alpha_path_


@thorough
def test_mapped_sentences_are_visited_in_blocks():
    # From so many on, sentences of files are visited in blocks, in memory one by one.
    sentences, tags = noisy_corpus(2000, 0)
    tagger = CRFTagger(c="auto", **SHORT).fit(sentences, tags)
    chunked = CRFTagger(c="auto", **SHORT).fit(in_chunks(sentences, tags, 300))
    assert chunked.c_ == pytest.approx(tagger.c_, rel=0.5)


@thorough
@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "sgd", "learning_rate": 0.1},
        {"solver": "sgdqn", "learning_rate": 0.1},
        {"solver": "sgdqn-flawed"},
        {"hash_bits": 12},
        {"max_epochs": 1},
        {"tol": 1e-3},
        {"n_jobs": 2},
        {"shuffle": False},
        {"constraints": "BIO"},
    ],
    ids=str,
)
def test_it_goes_with_other_parameters(parameters):
    sentences, tags = noisy_corpus(60, 0)
    tagger = CRFTagger(c="auto", **(SHORT | parameters)).fit(sentences, tags)
    assert np.isfinite(tagger.log_loss(sentences, tags))
    assert tagger.c_ > 0.03


def test_folds_of_hashed_features_have_weights_for_those_that_occur(monkeypatch):
    sizes = []
    before = ChainPathModel.__init__

    def recorded(self, problem, *rest):
        sizes.append(problem.n_features)
        before(self, problem, *rest)

    monkeypatch.setattr(ChainPathModel, "__init__", recorded)
    sentences, tags = corpus(n=30)
    hashed = CRFTagger(c="auto", hash_bits=16, **SHORT).fit(sentences, tags)
    plain = CRFTagger(c="auto", **SHORT).fit(sentences, tags)
    assert max(sizes) == plain._fitted.features.single.size
    assert hashed.c_ == pytest.approx(plain.c_)


def test_a_path_that_diverges_ends():
    sentences, tags = noisy_corpus(60, 0)
    problem, vocabulary = problem_of(sentences, tags)
    tagger = CRFTagger(c="auto", **SHORT)
    path = choose_c(tagger, problem, vocabulary, 60.0, 0)
    whole = len(path.alpha_path_)
    original = ChainPathModel.refit

    def refit(self, alpha):
        original(self, alpha)
        if alpha < 0.1 * path.alpha_path_[0]["alpha"]:
            self.weights = None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChainPathModel, "refit", refit)
        shorter = choose_c(tagger, problem, vocabulary, 60.0, 0)
    assert shorter.alpha_path_ == path.alpha_path_[: len(shorter.alpha_path_)]
    assert len(shorter.alpha_path_) < whole


def test_a_fit_that_continues_keeps_its_strength():
    sentences, tags = noisy_corpus(60, 0)
    tagger = CRFTagger(c="auto", warm_start=True, **SHORT).fit(sentences, tags)
    path = tagger.alpha_path_
    assert tagger.fit(sentences, tags).alpha_path_ is path


def test_refusals():
    sentences, tags = corpus()
    assert "c='best'" in message(ValueError, CRFTagger(c="best").fit, sentences, tags)
