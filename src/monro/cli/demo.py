"""monro demo: three models fitted to data that needs no download, and a page about them."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.model_selection import train_test_split

from monro._jit import announce_compilation
from monro.cli.common import COMPILING, check_output, say
from monro.cli.strength import path_plots
from monro.crf.tagger import CRFTagger
from monro.data.embedded import capitals, cased_sentences, next_words
from monro.linear.classifier import LinearClassifier
from monro.progress import pipe_safe_console
from monro.report.content import Chapter, Curve, Page, Plot, Section, Table
from monro.report.page import write
from monro.rows import Array
from monro.softmax.classifier import SoftmaxClassifier
from monro.studies.journal import environment
from monro.studies.monitoring import EpochMonitor

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


class JobResult(NamedTuple):
    """The result of a job: lines to print, a section of the page, and a row of its summary."""

    lines: list[str]
    section: Section
    row: list[str]


# ------------------------------------------------------------------------------------ the next word


def next_word(seed: int, jobs: int) -> JobResult:
    """Predict which of three thousand words comes next."""
    X, y, words = next_words()
    test = np.arange(y.size) // 200 % 10 == 9  # every tenth block of two hundred words
    train = ~test
    classes = np.arange(len(words))
    monitor = EpochMonitor(
        lambda fitted: {"loss": fitted.log_loss(X[test], y[test])}, tick=lambda share: None
    )
    model = SoftmaxClassifier(
        classes=classes, alpha=0.0, max_epochs=3, n_jobs=jobs, random_state=seed
    )
    begin = time.perf_counter()
    model.set_callbacks(monitor).fit(X[train], y[train])
    seconds = time.perf_counter() - begin
    losses = [loss for loss in monitor.curve["loss"] if loss is not None]
    counts = np.bincount(y[train], minlength=len(words)) + 1.0
    unigram = float(-np.log(counts / counts.sum())[y[test]].mean())

    numbers = {word: k for k, word in enumerate(words)}
    rows = []
    for prompt in _PROMPTS:
        before = [numbers[word] for word in reversed(prompt.split())]
        x = np.zeros((1, X.shape[1]))
        x[0, before + len(words) * np.arange(len(before))] = len(before) ** -0.5
        labels, log_proba = model.predict_top_k(x, 5)
        best = [f"{words[k]} {p:.0%}" for k, p in zip(labels[0], np.exp(log_proba[0]), strict=True)]
        rows.append([f"{prompt} …", *best])

    table = Table("Likely continuations", ["prompt", "1", "2", "3", "4", "5"], rows)
    epochs = list(range(len(losses) + 1))
    plot = Plot(
        "Loss on held-out text",
        "log-loss, nats per word",
        [
            Curve("softmax of the previous three words", {"epochs": epochs}, [unigram, *losses]),
            Curve("frequencies of words", {"epochs": epochs}, [unigram] * len(epochs)),
        ],
        note="The fit starts from the frequencies of words.",
    )
    text = (
        f"Which word comes next? {X.shape[0]:,} positions in Python's own reference, "
        f"{len(words):,} words to choose from, given the previous three words. A full softmax with "
        "probabilities; a tenth of the text was held out. "
        f"Log-loss {losses[-1]:.3f} nats per word, "
        f"that of the frequencies of words {unigram:.3f}: as if choosing among "
        f"{np.exp(losses[-1]):.0f} words instead of {np.exp(unigram):.0f}. {seconds:.1f} seconds, "
        "including compilation."
    )
    lines = [
        f"next word: {len(words):,} words, held-out log-loss {losses[-1]:.3f} nats per word "
        f"(frequencies {unigram:.3f}), {seconds:.1f} s",
        *(f"    {row[0]:18} {', '.join(row[1:])}" for row in rows),
    ]
    row = ["next word", "SoftmaxClassifier", f"{len(words):,}", "log-loss, nats per word"]
    row += [f"{losses[-1]:.3f}", f"{unigram:.3f} (frequencies)"]
    return JobResult(lines, Section("The next word", text, [table, plot]), row)


# ------------------------------------------------------------------------------------------- digits


def digits(seed: int, jobs: int) -> JobResult:
    """Classify ten handwritten digits."""
    X, y = load_digits(return_X_y=True)
    X, test_X, y, test_y = train_test_split(
        X / 16.0, y, test_size=0.25, random_state=seed, stratify=y
    )
    model = LinearClassifier(loss="log", n_jobs=jobs, alpha=1e-5, random_state=seed)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    predicted = model.predict(test_X)
    error = float(np.mean(predicted != test_y))
    commonest = 1.0 - np.bincount(test_y).max() / test_y.size
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (test_y, predicted), 1)
    rows = [[f"is {k}", *(str(n) if n else "·" for n in confusion[k])] for k in range(10)]
    table = Table("Confusion of the test digits: true in rows, predicted in columns",
                  ["", *map(str, range(10))], rows)  # fmt: skip
    history = model.history_
    plot = Plot(
        "Loss while training",
        "log-loss of a row before the step on it",
        [
            Curve(
                "one model per digit",
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
        f"of the test digits are misclassified. {seconds:.1f} seconds, including compilation."
    )
    lines = [f"digits: test error {error:.2%} (chance {commonest:.2%}), {seconds:.1f} s"]
    row = ["digits", "LinearClassifier", "10", "test error", f"{error:.2%}", f"{commonest:.2%}"]
    return JobResult(lines, Section("Ten digits", text, [table, plot, *path_plots(model)]), row)


# ----------------------------------------------------------------------------------------- capitals


def restore(words: list[str], tags: list[str]) -> str:
    """Return a sentence with the capitals that its tags specify.

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


def capital_letters(seed: int, jobs: int) -> JobResult:
    """Restore the capitals of sentences in lower case."""
    sentences, tags = cased_sentences()
    test = [k for k in range(len(sentences)) if k // 20 % 10 == 9]
    train = sorted(set(range(len(sentences))) - set(test))
    tagger = CRFTagger(template=_TEMPLATE, c=1.0, n_jobs=jobs, random_state=seed)
    begin = time.perf_counter()
    tagger.fit([sentences[k] for k in train], [tags[k] for k in train])
    seconds = time.perf_counter() - begin
    found = tagger.predict([sentences[k] for k in test])
    pairs = [
        (true, guess)
        for k, guesses in zip(test, found, strict=True)
        for true, guess in zip(tags[k], guesses, strict=True)
        if true != "-"
    ]
    error = float(np.mean([true != guess for true, guess in pairs]))
    lower = float(np.mean([true != "lower" for true, _ in pairs]))
    examples = []
    for k, guesses in zip(test, found, strict=True):
        words = [word for word, _ in sentences[k]]
        capitalised = tags[k].count("UPPER") + tags[k].count("Capital")
        if 8 <= len(words) <= 22 and capitalised >= 3 and "".join(words).isascii():
            examples.append([" ".join(words), restore(words, guesses), restore(words, tags[k])])
    table = Table("Held-out sentences", ["given", "restored", "original"], examples[:8])
    text = (
        f"{len(train):,} sentences to learn from; {len(test):,} are held out and given in lower "
        f"case. A linear-chain CRF tags every word as lower, Capital or UPPER; {error:.1%} of the "
        f"words are wrong, against {lower:.1%} if all are left in lower case. "
        f"{seconds:.1f} seconds, including compilation."
    )
    lines = [
        f"capitals: {error:.2%} of the words wrong (left in lower case {lower:.2%}), "
        f"{seconds:.1f} s",
        *(f"    {restored}" for _, restored, _ in examples[:3]),
    ]
    row = ["capitals", "CRFTagger", "4", "words wrong", f"{error:.2%}", f"{lower:.2%}"]
    return JobResult(lines, Section("Capitals", text, [table]), row)


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
    """Run the three jobs, print their results, and write a page."""
    check_output(out)
    if keep is not None and keep.exists() and not keep.is_dir():
        raise ValueError(f"{keep}: this is a file; give the name of a folder")
    console = pipe_safe_console()
    begin = time.perf_counter()
    sections, rows = [], []
    for job in (next_word, digits, capital_letters):
        with announce_compilation(lambda: say(pipe_safe_console(stderr=True), COMPILING)):
            done = job(seed, jobs)
        for line in done.lines:
            say(console, line)
        rows.append(done.row)
        sections.append(done.section)
    columns = ["job", "estimator", "classes", "measure", "monro", "baseline"]
    summary = Section(
        "Summary",
        "Three linear models, fitted to text and images that come with Python and scikit-learn. "
        "Nothing was downloaded, and no learning rate was chosen by hand.",
        [Table("Three jobs", columns, rows)],
    )
    provenance = {name: str(value) for name, value in environment().items()}
    chapter = Chapter("jobs", "Details", "", sections, provenance)
    write(Page("monro demo", "", summary, [chapter]), out)
    say(console, f"{out}: a page of these results ({time.perf_counter() - begin:.0f} s in total)")
    if keep is not None:
        X, y, _ = capitals()
        _keep(keep, X, y, seed)
        say(console, f"{keep}/train.svm and {keep}/test.svm: words, labelled 1 if capitalised")
