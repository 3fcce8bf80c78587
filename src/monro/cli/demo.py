"""monro demo: three jobs on data that needs no download, and a page about them."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.model_selection import train_test_split

from monro._jit import announce_compilation
from monro.cli.common import COMPILING, check_output, say
from monro.crf.tagger import CRFTagger
from monro.data.embedded import capitals, cased_sentences, next_words
from monro.linear.classifier import LinearClassifier
from monro.progress import patient_console
from monro.report.content import Chapter, Curve, Page, Plot, Section, Table
from monro.report.page import write
from monro.rows import Array
from monro.softmax.classifier import SoftmaxClassifier
from monro.studies.journal import made_with
from monro.studies.watch import Watch

_PROMPTS = ("the value of", "is not a", "raised when the", "as well as", "in the same")
_TEMPLATE = """\
U00:%x[-1,0]
U01:%x[0,0]
U02:%x[1,0]
U03:%x[-1,0]/%x[0,0]
U04:%x[0,0]/%x[1,0]
U05:%x[0,1]
B
"""


class Done(NamedTuple):
    """A job: what is printed of it, what the page shows, and its row in the summary."""

    lines: list[str]
    section: Section
    row: list[str]


# ------------------------------------------------------------------------------------ the next word


def next_word(seed: int, jobs: int) -> Done:
    """Predict which of three thousand words comes next."""
    X, y, words = next_words()
    test = np.arange(y.size) // 200 % 10 == 9  # every tenth stretch of two hundred words
    train = ~test
    classes = np.arange(len(words))
    watch = Watch(
        lambda fitted: {"loss": fitted.log_loss(X[test], y[test])}, tick=lambda share: None
    )
    model = SoftmaxClassifier(classes=classes, max_epochs=3, n_jobs=jobs, random_state=seed)
    begin = time.perf_counter()
    model.set_callbacks(watch).fit(X[train], y[train])
    seconds = time.perf_counter() - begin
    losses = [loss for loss in watch.curve["loss"] if loss is not None]
    counts = np.bincount(y[train], minlength=len(words)) + 1.0
    unigram = float(-np.log(counts / counts.sum())[y[test]].mean())

    numbers = {word: k for k, word in enumerate(words)}
    rows = []
    for prompt in _PROMPTS:
        before = [numbers[word] for word in reversed(prompt.split())]
        x = np.zeros((1, X.shape[1]))
        x[0, before + len(words) * np.arange(len(before))] = len(before) ** -0.5
        labels, log_proba = model.predict_top_k(x, 5)
        told = [f"{words[k]} {p:.0%}" for k, p in zip(labels[0], np.exp(log_proba[0]), strict=True)]
        rows.append([f"{prompt} …", *told])

    table = Table("Likely continuations", ["prompt", "1", "2", "3", "4", "5"], rows)
    epochs = list(range(len(losses) + 1))
    plot = Plot(
        "Loss on text held out",
        "log-loss, nats a word",
        [
            Curve("softmax of the three words before", {"epochs": epochs}, [unigram, *losses]),
            Curve("how often each word occurs", {"epochs": epochs}, [unigram] * len(epochs)),
        ],
        note="It starts from the words' frequencies.",
    )
    text = (
        f"Which word follows? {X.shape[0]:,} places in Python's own reference, {len(words):,} "
        "words to choose from, told by the three words before. A full softmax with its "
        f"probabilities; a tenth of the text was held out. Log-loss {losses[-1]:.3f} nats a word, "
        f"where the words' frequencies have {unigram:.3f}: as if choosing among "
        f"{np.exp(losses[-1]):.0f} words instead of {np.exp(unigram):.0f}. {seconds:.1f} seconds, "
        "the compiler's included."
    )
    lines = [
        f"next word: {len(words):,} words, log-loss {losses[-1]:.3f} nats a word held out "
        f"(frequencies alone {unigram:.3f}), {seconds:.1f} s",
        *(f"    {row[0]:18} {', '.join(row[1:])}" for row in rows),
    ]
    row = ["next word", "SoftmaxClassifier", f"{len(words):,}", "log-loss, nats a word"]
    row += [f"{losses[-1]:.3f}", f"{unigram:.3f} (frequencies)"]
    return Done(lines, Section("The next word", text, [table, plot]), row)


# ------------------------------------------------------------------------------------------- digits


def digits(seed: int, jobs: int) -> Done:
    """Tell ten handwritten digits apart."""
    X, y = load_digits(return_X_y=True)
    X, test_X, y, test_y = train_test_split(
        X / 16.0, y, test_size=0.25, random_state=seed, stratify=y
    )
    model = LinearClassifier(loss="log", n_jobs=jobs, random_state=seed)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    guessed = model.predict(test_X)
    error = float(np.mean(guessed != test_y))
    commonest = 1.0 - np.bincount(test_y).max() / test_y.size
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (test_y, guessed), 1)
    rows = [[f"is {k}", *(str(n) if n else "·" for n in confusion[k])] for k in range(10)]
    table = Table("What the test digits are, and what they were taken for",
                  ["", *map(str, range(10))], rows)  # fmt: skip
    history = model.history_
    plot = Plot(
        "Loss while training",
        "log-loss of a row before the step on it",
        [
            Curve(
                "one model a digit",
                {
                    "epochs": [record["epoch"] for record in history],
                    "seconds": [record["seconds"] for record in history],
                },
                [record["loss"] for record in history],
            )
        ],
        log_y=True,
    )
    text = (
        f"Images of 8 × 8 pixels, {y.size:,} to train on and {test_y.size:,} to test. {error:.1%} "
        f"of the test digits are taken for another. {seconds:.1f} seconds, the compiler's included."
    )
    lines = [f"digits: test error {error:.2%} (chance {commonest:.2%}), {seconds:.1f} s"]
    row = ["digits", "LinearClassifier", "10", "test error", f"{error:.2%}", f"{commonest:.2%}"]
    return Done(lines, Section("Ten digits", text, [table, plot]), row)


# ----------------------------------------------------------------------------------------- capitals


def restore(words: list[str], tags: list[str]) -> str:
    """Return a sentence written as its tags say.

    Examples
    --------
    >>> restore(["see", "pep", "8", "."], ["Capital", "UPPER", "-", "-"])
    'See PEP 8.'
    """
    write_as = {"Capital": str.capitalize, "UPPER": str.upper}
    text = " ".join(write_as.get(tag, str)(word) for word, tag in zip(words, tags, strict=True))
    for mark in ".,:;)!?":
        text = text.replace(f" {mark}", mark)
    return text.replace("( ", "(")


def capital_letters(seed: int, jobs: int) -> Done:
    """Give sentences in lower case their capitals back."""
    sentences, tags = cased_sentences()
    held = [k for k in range(len(sentences)) if k // 20 % 10 == 9]
    rest = sorted(set(range(len(sentences))) - set(held))
    tagger = CRFTagger(template=_TEMPLATE, n_jobs=jobs, random_state=seed)
    begin = time.perf_counter()
    tagger.fit([sentences[k] for k in rest], [tags[k] for k in rest])
    seconds = time.perf_counter() - begin
    found = tagger.predict([sentences[k] for k in held])
    pairs = [
        (true, guess)
        for k, guesses in zip(held, found, strict=True)
        for true, guess in zip(tags[k], guesses, strict=True)
        if true != "-"
    ]
    error = float(np.mean([true != guess for true, guess in pairs]))
    lower = float(np.mean([true != "lower" for true, _ in pairs]))
    examples = []
    for k, guesses in zip(held, found, strict=True):
        words = [word for word, _ in sentences[k]]
        told = tags[k].count("UPPER") + tags[k].count("Capital")
        if 8 <= len(words) <= 22 and told >= 3 and "".join(words).isascii():
            examples.append([" ".join(words), restore(words, guesses), restore(words, tags[k])])
    table = Table("Sentences held out", ["given", "restored", "as it was"], examples[:8])
    text = (
        f"{len(rest):,} sentences to learn from; {len(held):,} held out came without their "
        f"capitals. A linear-chain CRF tags every word as lower, Capital or UPPER; {error:.1%} of "
        f"the words come out wrong, where leaving all of them in lower case gets {lower:.1%} "
        f"wrong. {seconds:.1f} seconds, the compiler's included."
    )
    lines = [
        f"capitals: {error:.2%} of the words wrong (left in lower case {lower:.2%}), "
        f"{seconds:.1f} s",
        *(f"    {restored}" for _, restored, _ in examples[:3]),
    ]
    row = ["capitals", "CRFTagger", "4", "words wrong", f"{error:.2%}", f"{lower:.2%}"]
    return Done(lines, Section("Capitals", text, [table]), row)


# -------------------------------------------------------------------------------------- the command


def _keep(folder: Path, X: Any, y: Array, seed: int) -> None:
    """Write three quarters of the rows as train.svm, the rest as test.svm."""
    folder.mkdir(parents=True, exist_ok=True)
    train_X, test_X, train_y, test_y = train_test_split(
        X, y, test_size=0.25, random_state=seed, stratify=y
    )
    dump_svmlight_file(train_X, train_y, str(folder / "train.svm"), zero_based=False)
    dump_svmlight_file(test_X, test_y, str(folder / "test.svm"), zero_based=False)


def run(seed: int, jobs: int, keep: Path | None, out: Path) -> None:
    """Do the three jobs, print how they went, and write a page."""
    check_output(out)
    if keep is not None and keep.exists() and not keep.is_dir():
        raise ValueError(f"{keep}: this is a file; give the name of a folder")
    console = patient_console()
    begin = time.perf_counter()
    sections, rows = [], []
    for job in (next_word, digits, capital_letters):
        with announce_compilation(lambda: say(patient_console(stderr=True), COMPILING)):
            done = job(seed, jobs)
        for line in done.lines:
            say(console, line)
        rows.append(done.row)
        sections.append(done.section)
    columns = ["job", "estimator", "classes", "measure", "here", "knowing nothing"]
    summary = Section(
        "In short",
        "Three linear models, fitted to text and images that come with Python and scikit-learn. "
        "Nothing was downloaded, and no learning rate was chosen by hand.",
        [Table("Three jobs", columns, rows)],
    )
    origin = {name: str(value) for name, value in made_with().items()}
    chapter = Chapter("jobs", "One by one", "", sections, origin)
    write(Page("monro at work", "", summary, [chapter]), out)
    say(console, f"{out}: the same to look at ({time.perf_counter() - begin:.0f} s in all)")
    if keep is not None:
        X, y, _ = capitals()
        _keep(keep, X, y, seed)
        say(console, f"{keep}/train.svm and {keep}/test.svm hold words: which have a capital?")
