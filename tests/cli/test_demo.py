"""monro demo: three jobs that beat their baselines, the page, and the text they use."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from monro.cli.demo import restore
from monro.data.embedded import capitals, cased_sentences, next_words, tokens
from tests.cli.helpers import FIXED, failure, invoke, output


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return the folder in which the demo was run, and its output."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = invoke("demo", "--keep", "words")
    assert result.exit_code == 0, (result.output, result.exception)
    return folder, result.stdout


def numbers(pattern, text):
    (found,) = re.findall(pattern, text)
    return [float(number.replace(",", "")) for number in found]


# ------------------------------------------------------------------------------------------- output


def test_the_next_word_is_predicted_better_than_by_frequency(demo):
    words, loss, unigram = numbers(
        r"next word: ([\d,]+) words, held-out log-loss ([\d.]+) nats .*\(frequencies ([\d.]+)\)",
        demo[1],
    )
    _, y, vocabulary = next_words()
    assert words == len(vocabulary)
    # Frequencies in nine tenths of the text, with add-one smoothing.
    test_rows = [i for i in range(y.size) if i // 200 % 10 == 9]
    counts = Counter(np.delete(y, test_rows).tolist())
    total = y.size - len(test_rows) + len(vocabulary)
    expected = -np.mean([np.log((counts[y[i]] + 1) / total) for i in test_rows])
    assert unigram == pytest.approx(expected, abs=6e-4)
    assert loss < unigram - 0.5
    prompts = re.findall(r"^    (.+?) … +(.+)$", demo[1], re.MULTILINE)
    assert len(prompts) == 5
    for _, continuations in prompts:
        shares = [int(share) for share in re.findall(r"(\d+)%", continuations)]
        assert len(shares) == 5
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 102  # they are rounded


def test_digits_and_capitals_beat_their_baselines(demo):
    error, chance = numbers(r"digits: test error ([\d.]+)% \(chance ([\d.]+)%\)", demo[1])
    assert error < 10 < 85 < chance < 91
    error, lower = numbers(
        r"capitals: ([\d.]+)% of the words wrong \(left in lower case ([\d.]+)%\)", demo[1]
    )
    sentences, tags = cased_sentences()
    test_tags = [tag for k in range(len(sentences)) if k // 20 % 10 == 9 for tag in tags[k]]
    words = [tag for tag in test_tags if tag != "-"]
    assert lower == pytest.approx(100 * sum(tag != "lower" for tag in words) / len(words), abs=0.01)
    assert error < lower / 2
    restored = demo[1].split("capitals: ")[1].splitlines()[1:4]
    assert all(re.match(r"    \S", line) and line != line.lower() for line in restored)


def test_the_page_shows_the_three_jobs(demo):
    folder, text = demo
    assert "monro-demo.html: a page of these results" in text
    page = (folder / "monro-demo.html").read_text()
    for title in ("The next word", "Ten digits", "Capitals"):
        assert re.search(rf"<h\d[^>]*>{title}", page)
    for caption in ("Three jobs", "Likely continuations", "Held-out sentences"):
        assert f"<span>{caption}</span></caption>" in page
    (error,) = re.findall(r"digits: test error ([\d.]+%)", text)
    assert f">{error}<" in page
    assert {path.name for path in folder.iterdir()} == {"monro-demo.html", "words"}


def test_the_written_files_can_be_fitted(demo):
    folder, text = demo
    assert "words/train.svm and words/test.svm: words, labelled 1 if capitalised" in text
    X, y, names = capitals()
    rows = 0
    for part in ("train", "test"):
        some, labels = load_svmlight_file(str(folder / "words" / f"{part}.svm"))
        rows += labels.size
        assert np.mean(labels) == pytest.approx(y.mean(), abs=0.01)
        assert some.shape[1] <= len(names)
        assert set(np.diff(some.indptr)) == {6}
    assert rows == y.size
    model = folder / "words.monro"
    fit = (*FIXED, "--set", "max_epochs=1", "--quiet", "--features", str(X.shape[1]))
    output("fit", folder / "words" / "train.svm", model, *fit)
    result = json.loads(output("evaluate", model, folder / "words" / "test.svm", "--json"))
    assert result["error"] < y.mean() / 2
    model.unlink()


def test_a_bad_output_path_fails_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("monro.cli.demo.next_word", None)  # must not be called
    (tmp_path / "file").touch()
    message = failure("demo", "--keep", tmp_path / "file", "--out", tmp_path / "page.html")
    assert message == f"{tmp_path / 'file'}: this is a file; give the name of a folder"
    message = failure("demo", "--out", tmp_path)
    assert message == f"{tmp_path}: this is a folder; give the name of a file"


@pytest.mark.parametrize(
    ("words", "tags", "expected"),
    [
        ("the gil is held .", "Capital UPPER lower lower -", "The GIL is held."),
        ("see ( also ) it : x , y !", "lower - lower - lower - Capital - UPPER -",
         "see (also) it: X, Y!"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_sentences_are_written_as_their_tags_say(words, tags, expected):
    assert restore(words.split(), tags.split()) == expected


# ------------------------------------------------------------------------------------ embedded text


def prose():
    """Return the text by a loop, without repeated punctuation marks."""
    kept, before = [], ""
    for token in tokens():
        if token != before or token.isalpha():
            kept.append(token)
        before = token
    return kept


def test_sentences_are_the_text_in_lower_case_with_its_tags():
    expected = [[]]
    for token in prose():
        expected[-1].append(token)
        if token in (".", "!", "?"):
            expected.append([])
    expected = [sentence for sentence in expected if len(sentence) >= 3]
    sentences, tags = cased_sentences()

    assert len(sentences) == len(tags) == len(expected)
    assert set().union(*tags) == {"lower", "Capital", "UPPER", "-"}
    for words, cases, written in zip(sentences, tags, expected, strict=True):
        assert len(words) == len(cases) == len(written)
        for (word, ending), tag, token in zip(words, cases, written, strict=True):
            assert word == token.lower()
            assert ending == word[-3:]
            assert (tag == "-") == (not token.isalpha())
            assert tag != "lower" or token == word
            assert tag != "UPPER" or (token == word.upper() and len(token) > 1)
            assert tag != "Capital" or (token != word and (len(token) == 1 or not token.isupper()))


@pytest.mark.parametrize("context", [1, 3])
def test_rows_are_the_previous_words(context):
    X, y, words = next_words(context)
    text = [token.lower() for token in prose()]
    V = len(words)
    assert words == sorted(set(text))
    assert X.shape == (len(text) - context, context * V)
    assert y.shape == (len(text) - context,)
    np.testing.assert_array_equal(np.diff(X.indptr), context)
    np.testing.assert_allclose(X.data, context**-0.5)
    assert [words[k] for k in y] == text[context:]
    for i in [0, 1, 2, y.size - 1, *np.random.default_rng(0).integers(y.size, size=200)]:
        for k in range(context):
            column = k * V + words.index(text[i + context - 1 - k])
            assert column in X.indices[X.indptr[i] : X.indptr[i + 1]]
