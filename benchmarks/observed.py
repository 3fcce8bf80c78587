"""Weights of observed pairs only, `SoftmaxClassifier(weights="observed")`, in four parts.

quality: test log-loss beside dense weights; of several labels of a row the lowest. extreme: many
labels a row, beside peers. language: the next word from the last one to four. lists: the cost of a
step by the number of classes, with lists of equal length. Each part is saved as soon as a set of it
is measured, and takes the place of the last result of that set.

In "extreme" each learner has a process of its own and two threads, and is measured once. Its
memory is the peak of that process until the predictions are made, data and libraries included.
Training rows without features or without labels are left out for all learners, as Omikuji cannot
read them, and so are test rows without labels. Omikuji reads its training rows from a text file,
which is part of its time, and predicts row by row, as its interface for Python takes no matrix.
napkinXC writes its model while it fits. monro's file is that for predictions only, as the others'.
"""

import gzip
import importlib.util
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks import datasets, harness
from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS as MANY
from benchmarks.regularisation import judging, replaced, sentences
from benchmarks.regularisation.children import Result, in_child, peak_bytes
from monro import SoftmaxClassifier, load
from monro.data.read import read
from monro.data.xc import parse_header
from monro.softmax.metrics import propensities

NAME = "observed"
THREADS = 2
LIMIT = 3600.0  # seconds for a learner on one set


def make(**parameters: Any) -> SoftmaxClassifier:
    return SoftmaxClassifier(**{"weights": "observed", "random_state": 0} | parameters)


# ------------------------------------------------------------------------------------------ quality

KINDS = ("observed", "dense")
FIRST_LABELS = ("Bibtex", "Delicious", "20news", "RCV1 topics")
LOSS_BAR = 1.01


def quality_cells(quick: bool) -> list[str]:
    return ["Bibtex"] if quick else list(FIRST_LABELS)


def measure_quality(name: str, *, quick: bool, limit: float) -> Result:
    data = judging.few(MANY[name](), 300) if quick else MANY[name]()
    for kind in KINDS:
        make(weights=kind, max_epochs=1).fit(data.X, data.y)  # compiles
    models: dict[str, SoftmaxClassifier] = {}
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(1 if quick else judging.REPEATS):  # in turns, to expose both to the same noise
        for kind in KINDS:
            models[kind] = make(weights=kind)
            seconds[kind].append(judging.seconds_of(partial(models[kind].fit, data.X, data.y)))
    found = {}
    for kind, model in models.items():
        every = model.classes_.size * data.X.shape[1]
        found[kind] = judging.judged(model, data) | {
            "seconds": statistics.median(seconds[kind]),
            "weights": model.plan_["pairs"] if kind == "observed" else every,
        }
        print(name, kind, found[kind], flush=True)
    return {"rows": data.y.size, "classes": np.unique(data.y).size, **found}


def table_of_quality(rows: list[Result]) -> str:
    lines, ratios = [], {}
    for row in rows:
        ours, dense = (row[kind] for kind in KINDS)
        ratios[row["set"]] = ours["log_loss"] / dense["log_loss"]
        line = [row["set"], f"{row['classes']:,}"]
        line += [f"{one['log_loss']:.4f}" for one in (ours, dense)]
        line.append(f"{ratios[row['set']]:.3f}")
        line += [f"{one['weights']:,}" for one in (ours, dense)]
        line.append(f"{ours['weights'] / dense['weights']:.3f}")
        line += [f"{one['seconds']:.3g}" for one in (ours, dense)]
        lines.append([*line, f"{ours['seconds'] / dense['seconds']:.2f}×"])
    header = ["test log-loss", "classes", "observed", "dense", "over dense"]
    header += ["weights, observed", "dense", "over dense", "s, observed", "dense", "over dense"]
    claim = (
        f"Test log-loss of weights of observed pairs at most {LOSS_BAR} times that of dense ones"
    )
    return "\n\n".join([markdown(header, lines), sentences.at_most(claim, ratios, LOSS_BAR)])


# ------------------------------------------------------------------------------------------ extreme

BEST = 5
DEPTHS = (1, 3, 5)
PRECISIONS = [f"{kind}precision_at_{k}" for kind in ("", "propensity_scored_") for k in DEPTHS]
MOST_OF_ONE_VS_REST = 5000  # labels
QUICK_ROWS = 200


class Labelled(NamedTuple):
    """Training and test rows, and indicator matrices of their labels."""

    X: Any
    Y: Any
    test_X: Any  # noqa: N815
    test_Y: Any  # noqa: N815


def _read(path: Path) -> tuple[Any, Any]:
    """Return the rows of extreme-classification text and all their labels."""
    with gzip.open(path) as file:
        header = parse_header(file.readline())
    assert header is not None
    data = read(path, labelled=False, all_labels=True)
    return data.X.astype(np.float32), data.indicator(np.arange(header.labels))[0]


def _parts(name: str) -> Labelled:
    """Return a set with its own parts."""
    folder = datasets.folder() / name
    return Labelled(*_read(folder / "train.xc.txt.gz"), *_read(folder / "test.xc.txt.gz"))


def _unit_rows(name: str) -> Labelled:
    data = _parts(name)
    return data._replace(X=normalize(data.X), test_X=normalize(data.test_X))


def _tf_idf(data: Labelled) -> Labelled:
    """Return counts as tf-idf, in rows of unit length; training rows give the weights of terms."""
    terms = TfidfTransformer(sublinear_tf=True).fit(data.X)
    return data._replace(X=terms.transform(data.X), test_X=terms.transform(data.test_X))


def _gowalla() -> Labelled:
    """Return Gowalla: places that a user went to, from other places; each fifth user for tests."""
    X, Y = _read(datasets.folder() / "gowalla" / "gowalla.xc.txt.gz")
    tests = np.arange(X.shape[0]) % 5 == 4
    return _tf_idf(Labelled(X[~tests], Y[~tests], X[tests], Y[tests]))


EXTREME: dict[str, Callable[[], Labelled]] = {
    "Bibtex": partial(_unit_rows, "bibtex"),
    "Delicious": partial(_unit_rows, "delicious"),
    "CiteULike-t": lambda: _tf_idf(_parts("citeulike_t")),
    "Gowalla": _gowalla,
}


def _load(name: str, quick: bool) -> Labelled:
    data = EXTREME[name]()
    kept = np.flatnonzero((np.diff(data.X.indptr) > 0) & (np.diff(data.Y.indptr) > 0))
    judged = np.flatnonzero(np.diff(data.test_Y.indptr))
    if quick:
        kept, judged = kept[:QUICK_ROWS], judged[:QUICK_ROWS]
    return Labelled(data.X[kept], data.Y[kept], data.test_X[judged], data.test_Y[judged])


class Monro:
    """The default."""

    def __init__(self, data: Labelled, folder: Path):
        self.data, self.path = data, folder / "model.monro"
        self.model = make(n_jobs=THREADS)
        few = make(n_jobs=THREADS, max_epochs=1).fit(data.X[:50], data.Y[:50])
        few.predict_top_k(data.X[:50], BEST)  # compiles

    def fit(self) -> None:
        self.model.fit(self.data.X, self.data.Y)

    def predict(self) -> np.ndarray:
        return self.model.predict_top_k(self.data.test_X, BEST)[0]

    def save(self) -> Path:
        self.model.save(self.path, inference=True)
        return self.path

    def more(self) -> Result:
        """Return what only this learner has."""
        measured = self.model.evaluate(self.data.test_X, self.data.test_Y)
        of_model, of_file = (
            precisions(model.predict_top_k(self.data.test_X, BEST)[0], self.data)
            for model in (self.model, load(self.path))
        )
        return {
            "rounding": max(abs(of_file[key] - of_model[key]) for key in PRECISIONS),
            "calibration_error": measured["calibration_error"],
            "pairs": self.model.plan_["pairs"],
            "alpha": self.model.plan_["alpha"],
        }


class Omikuji:
    """Trees of labels, with settings that differ from the defaults."""

    def __init__(self, data: Labelled, folder: Path, **settings: Any):
        import omikuji

        self.library, self.data, self.folder = omikuji, data, folder
        self.settings = omikuji.Model.default_hyper_param()
        for name, value in settings.items():
            setattr(self.settings, name, value)
        with (folder / "rows.txt").open("wb") as file:
            file.write(b"%d %d %d\n" % (*data.X.shape, data.Y.shape[1]))
            dump_svmlight_file(data.X, sp.csr_matrix(data.Y), file, multilabel=True)

    def fit(self) -> None:
        rows = str(self.folder / "rows.txt")
        self.model = self.library.Model.train_on_data(rows, self.settings, THREADS)

    def predict(self) -> np.ndarray:
        self.model.init_prediction_thread_pool(THREADS)
        X = self.data.test_X
        found = []
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            entries = X.indices[start:stop].tolist(), X.data[start:stop].tolist()
            best = self.model.predict(list(zip(*entries, strict=True)), top_k=BEST)
            found.append([label for label, _ in best])
        return padded(found)

    def save(self) -> Path:
        self.model.save(str(self.folder / "model"))
        return self.folder / "model"


class NapkinXC:
    """A tree of labels with a probability at each node."""

    def __init__(self, data: Labelled, folder: Path):
        from napkinxc.models import PLT

        self.data, self.folder = data, folder / "model"
        self.model = PLT(str(self.folder), threads=THREADS, seed=0)

    def fit(self) -> None:
        self.model.fit(self.data.X, sp.csr_matrix(self.data.Y, dtype=np.float32))
        self.model.load()

    def predict(self) -> np.ndarray:
        return padded(self.model.predict(self.data.test_X, top_k=BEST))

    def save(self) -> Path:
        return self.folder  # that of the fit


class OneVsRest:
    """scikit-learn's LinearSVC, for each label that a training row has."""

    def __init__(self, data: Labelled, folder: Path):
        self.data, self.path = data, folder / "model.npz"

    def fit(self) -> None:
        X = self.data.X.astype(np.float64)
        by_label = self.data.Y.tocsc()
        self.labels = np.flatnonzero(np.diff(by_label.indptr))

        def fitted(label: int) -> LinearSVC | None:
            y = np.zeros(X.shape[0], np.int8)
            y[by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]] = 1
            return LinearSVC(random_state=0).fit(X, y) if not y.all() else None

        with ThreadPoolExecutor(THREADS) as pool:
            models = list(pool.map(fitted, self.labels))
        self.coef = np.zeros((self.labels.size, X.shape[1]))
        self.intercept = np.ones(self.labels.size)  # of a label that all rows have
        for k, model in enumerate(models):
            if model is not None:
                self.coef[k], self.intercept[k] = model.coef_[0], model.intercept_[0]

    def predict(self) -> np.ndarray:
        scores = self.data.test_X @ self.coef.T + self.intercept
        best = np.argpartition(-scores, BEST - 1, axis=1)[:, :BEST]
        order = np.take_along_axis(scores, best, axis=1).argsort(axis=1)[:, ::-1]
        return self.labels[np.take_along_axis(best, order, axis=1)]

    def save(self) -> Path:
        np.savez(self.path, coef=self.coef, intercept=self.intercept, labels=self.labels)
        return self.path


OURS = "monro"
# As in the table of Omikuji's documents that compares it with Bonsai.
BONSAI: dict[str, Any] = {"cluster_k": 100, "cluster_balanced": False, "max_depth": 3}
LEARNERS: dict[str, Callable[[Labelled, Path], Any]] = {
    OURS: Monro,
    "Omikuji": Omikuji,
    "Omikuji, as Bonsai": partial(Omikuji, **BONSAI),
    "napkinXC, PLT": NapkinXC,
    "LinearSVC, one-vs-rest": OneVsRest,
}
LIBRARIES = {
    "Omikuji": "omikuji",
    "Omikuji, as Bonsai": "omikuji",
    "napkinXC, PLT": "napkinxc",
}


def padded(found: list[list[int]]) -> np.ndarray:
    """Return the best labels of rows as an array, -1 where fewer were found."""
    codes = np.full((len(found), BEST), -1)
    for row, labels in zip(codes, found, strict=True):
        row[: len(labels)] = labels[:BEST]
    return codes


def precisions(codes: np.ndarray, data: Labelled) -> Result:
    """Return precision and propensity-scored precision, normalised, of the labels found.

    Parameters
    ----------
    codes : array of shape (test rows, BEST)
        Labels, best first; -1 for none.
    data : Labelled
        The training rows give the propensities of the labels.
    """
    counts = np.bincount(data.Y.indices, minlength=data.Y.shape[1])
    value = 1.0 / propensities(counts, data.Y.shape[0])
    Y, known = data.test_Y, codes >= 0
    shown = np.where(known, codes, 0)
    hits = Y[np.arange(codes.shape[0])[:, None], shown].toarray() & known
    gained, most = hits * value[shown], np.zeros(codes.shape)
    for row, of_row in zip(most, np.split(value[Y.indices], Y.indptr[1:-1]), strict=True):
        best = np.sort(of_row)[::-1][:BEST]
        row[: best.size] = best
    found = {f"precision_at_{k}": float(hits[:, :k].mean()) for k in DEPTHS}
    for k in DEPTHS:
        scored = gained[:, :k].sum() / most[:, :k].sum()
        found[f"propensity_scored_precision_at_{k}"] = float(scored)
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Discard what libraries print."""
    kept = [os.dup(stream) for stream in (1, 2)]
    with Path(os.devnull).open("w") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    try:
        yield
    finally:
        for stream, other in zip((1, 2), kept, strict=True):
            os.dup2(other, stream)
            os.close(other)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _learn(learner: str, name: str, quick: bool) -> Result:
    """Measure a learner on a set, in a process of its own."""
    data = _load(name, quick)
    with tempfile.TemporaryDirectory() as folder, quiet():
        one = LEARNERS[learner](data, Path(folder))
        if quick and learner == OURS:
            one.model.set_params(cv=2, max_epochs=2)
        codes: list[np.ndarray] = []
        found: Result = {"seconds": judging.seconds_of(one.fit)}
        found["predict_seconds"] = judging.seconds_of(lambda: codes.append(one.predict()))
        found["peak_bytes"] = peak_bytes()
        found["model_bytes"] = size_of(one.save())
        more = one.more() if learner == OURS else {}
    return found | precisions(codes[0], data) | more


def extreme_cells(quick: bool) -> list[str]:
    return ["Bibtex", "Gowalla"] if quick else list(EXTREME)


def measure_extreme(name: str, *, quick: bool, limit: float) -> Result:
    data = _load(name, quick)
    learners = {}
    for learner in LEARNERS:
        if learner == "LinearSVC, one-vs-rest" and data.Y.shape[1] > MOST_OF_ONE_VS_REST:
            continue
        library = LIBRARIES.get(learner)
        if library is not None and importlib.util.find_spec(library) is None:
            learners[learner] = {"absent": library}
        else:
            learners[learner] = in_child(_learn, learner, name, quick, limit=limit)
        print(name, learner, learners[learner], flush=True)
    rows, tests = data.X.shape[0], data.test_X.shape[0]
    sizes = {"rows": rows, "tests": tests, "features": data.X.shape[1], "labels": data.Y.shape[1]}
    return sizes | {"learners": learners}


# What is measured besides: how a peer with less of it is said to be, and how it is shown.
COSTS = {
    "seconds": ("faster to fit", ".1f", 1.0),
    "predict_seconds": ("faster to predict", ".2f", 1.0),
    "model_bytes": ("smaller on disk", ".1f", 1e-6),
    "peak_bytes": ("smaller in memory", ".2f", 1e-9),
}


def _line_of_learner(name: str, found: Result, ours: Result) -> list[str]:
    if "absent" in found or "limit" in found:
        why = "not installed" if "absent" in found else sentences.seconds(found)
        return [name, why, *["–"] * (len(PRECISIONS) + len(COSTS) + 2)]
    line = [name, *(f"{100 * found[key]:.2f}" for key in PRECISIONS)]
    calibration = found.get("calibration_error")
    line.append("none" if calibration is None else f"{calibration:.3f}")
    for key, (_, form, unit) in COSTS.items():
        line.append(f"{unit * found[key]:{form}}")
        if key in ("seconds", "predict_seconds"):
            line.append(f"{found[key] / ours[key]:.2f}×" if key in ours else "–")
    return line


def peers_ahead(rows: list[Result], key: str, ahead: str, more_is_better: bool) -> str:
    """Return a sentence that lists the peers ahead of monro, and on which sets."""
    found: dict[str, list[str]] = {}
    for row in rows:
        ours = row["learners"][OURS].get(key)
        for peer, result in row["learners"].items():
            if peer == OURS or key not in result or ours is None:
                continue
            ratio = result[key] / ours
            if (ratio > 1.0) if more_is_better else (ratio < 1.0):
                found.setdefault(peer, []).append(f"{row['set']} ({ratio:.3f}×)")
    places = [f"{peer} on {', '.join(sets)}" for peer, sets in found.items()]
    return f"Peers that are {ahead}: {'; '.join(places) or 'none'}."


def table_of_extreme(rows: list[Result]) -> str:
    short = [f"{kind}@{k}" for kind in ("P", "PSP") for k in DEPTHS]
    header = ["", *short, "calibration error", "s to fit", "over monro's", "s to predict"]
    header += ["over monro's", "MB on disk", "GB in memory"]
    parts = []
    for row in rows:
        ours = row["learners"][OURS]
        lines = [_line_of_learner(name, found, ours) for name, found in row["learners"].items()]
        about = (
            f"{row['set']}: {row['rows']:,} training rows, {row['tests']:,} test rows, "
            f"{row['features']:,} features, {row['labels']:,} labels"
        )
        if "pairs" in ours:
            about += f"; {ours['pairs']:,} observed pairs"
        parts.append(f"{about}:\n\n{markdown(header, lines)}")
    for key, name in zip(PRECISIONS, short, strict=True):
        parts.append(peers_ahead(rows, key, f"higher in {name}", more_is_better=True))
    for key, (ahead, *_) in COSTS.items():
        parts.append(peers_ahead(rows, key, ahead, more_is_better=False))
    rounding = [row["learners"][OURS].get("rounding", 0.0) for row in rows]
    parts.append(
        "The weights in monro's files are rounded: the precisions of a model that is read from its "
        f"file differ by at most {100 * max(rounding):.2f} points."
    )
    return "\n\n".join(parts)


# ----------------------------------------------------------------------------------------- language

TEXTS = {"PTB": "ptb", "WikiText-2": "wikitext2"}
WORDS_BEFORE = 4
# Test perplexity on the same text (Mikolov and others, Interspeech 2011).
PUBLISHED = {
    "Good-Turing, 3-gram": 165.2,
    "maximum entropy, 5-gram": 142.1,
    "Kneser-Ney, 5-gram": 141.2,
}


class Text(NamedTuple):
    """Next words: their contexts as indicators, and their codes (-1 for words not in training)."""

    X: Any
    y: np.ndarray
    test_X: Any  # noqa: N815
    test_y: np.ndarray


def tokens(name: str, part: str) -> np.ndarray:
    """Return the words of a text; each line ends with a word of its own."""
    with gzip.open(datasets.folder() / TEXTS[name] / f"{part}.txt.gz", "rt") as file:
        return np.array(file.read().replace("\n", " <eos> ").split())


def _numbered(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the place of each value among the known ones, which are sorted; -1 for all others."""
    place = np.minimum(np.searchsorted(known, values), known.size - 1)
    return np.where(known[place] == values, place, -1)


def contexts(train: np.ndarray, test: np.ndarray, most: int = WORDS_BEFORE) -> Text:
    """Return next words with a column for each context of up to `most` words seen in training.

    A context of one more word is a pair: a context, and the word before it. They cross the ends of
    lines. At the beginning of a text there are fewer words before.
    """
    words, y = np.unique(train, return_inverse=True)
    test_y = _numbered(words, test)
    codes = y, test_y
    of_rows = [np.zeros(each.size, np.int64) for each in codes]  # the empty context
    columns: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    width = 0
    for order in range(1, most + 1):
        keys = []
        for context, each in zip(of_rows, codes, strict=True):
            word = np.full(each.size, -1, np.int64)
            word[order:] = each[:-order]
            keys.append(np.where((context < 0) | (word < 0), -1, context * words.size + word))
        known = np.unique(keys[0][order:])
        of_rows = [_numbered(known, each) for each in keys]
        for mine, context in zip(columns, of_rows, strict=True):
            mine.append(np.where(context < 0, -1, width + context))
        width += known.size
    X, test_X = (_indicators(np.stack(mine, axis=1), width) for mine in columns)
    return Text(X, y, test_X, test_y)


def _indicators(columns: np.ndarray, width: int) -> sp.csr_matrix:
    """Return rows with a one in each of their columns; -1 is none."""
    there = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    ones = np.ones(indptr[-1], np.float32)
    entries = ones, columns[there].astype(np.int32), indptr.astype(np.int32)
    return sp.csr_matrix(entries, shape=(columns.shape[0], width))


def language_cells(quick: bool) -> list[str]:
    return ["PTB"] if quick else list(TEXTS)


def measure_language(name: str, *, quick: bool, limit: float) -> Result:
    train, test = tokens(name, "train"), tokens(name, "test")
    text = contexts(train[:20_000], test[:2000]) if quick else contexts(train, test)
    make(n_jobs=THREADS).fit(text.X[:500], text.y[:500])  # compiles
    model = make(n_jobs=THREADS)
    seconds = judging.seconds_of(lambda: model.fit(text.X, text.y))
    ends = [0.0, *(record["seconds"] for record in model.history_)]
    known = np.flatnonzero(text.test_y >= 0)
    loss = model.log_loss(text.test_X[known], text.test_y[known])
    found = {
        "rows": text.y.size,
        "words": model.classes_.size,
        "contexts": text.X.shape[1],
        "pairs": model.plan_["pairs"],
        "alpha": model.plan_["alpha"],
        "seconds": seconds,
        "epochs": model.n_iter_,
        "epoch_seconds": float(np.median(np.diff(ends))),
        "tests": known.size,
        "left_out": text.test_y.size - known.size,
        "perplexity": float(np.exp(loss)),
    }
    print(name, found, flush=True)
    return found


def table_of_language(rows: list[Result]) -> str:
    lines = [
        [
            row["set"],
            *(f"{row[key]:,}" for key in ("rows", "words", "contexts", "pairs")),
            f"{row['alpha'] * row['rows']:.3g}",
            f"{row['seconds']:.1f}",
            str(row["epochs"]),
            f"{row['epoch_seconds']:.2f}",
            f"{row['tests']:,}",
            f"{row['perplexity']:.1f}",
        ]
        for row in rows
    ]
    header = ["next word", "training words", "distinct", "contexts", "observed pairs", "alpha·N"]
    header += ["s", "epochs", "s an epoch", "test words", "test perplexity"]
    left_out = [f"{row['set']} {row['left_out']:,}" for row in rows if row["left_out"]]
    parts = [
        markdown(header, lines),
        f"Test words left out, as no training word is equal: {', '.join(left_out) or 'none'}.",
    ]
    for row in rows:
        if row["set"] == "PTB":
            ratios = {model: row["perplexity"] / theirs for model, theirs in PUBLISHED.items()}
            lines = [[m, f"{PUBLISHED[m]:.1f}", f"{ratio:.3f}"] for m, ratio in ratios.items()]
            header = ["PTB, test perplexity", "as published", "monro's over it"]
            claim = "Perplexity on PTB at most that published"
            parts += [markdown(header, lines), sentences.at_most(claim, ratios, 1.0)]
    return "\n\n".join(parts)


# -------------------------------------------------------------------------------------------- lists

CLASSES = {f"{n:,} classes": n for n in (10**3, 10**4, 10**5, 10**6)}
LIST, PER_ROW = 50, 20  # rows that have a feature, and features of a row, on average
LIST_ROWS = 200_000


def list_rows(n: int, n_classes: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return random rows and classes: the classes of a feature are about as many as its rows."""
    rng = np.random.default_rng(0)
    width = n * PER_ROW // LIST
    columns = np.sort(rng.integers(width, size=(n, PER_ROW)), axis=1).astype(np.int32)
    data, indptr = np.ones(columns.size, np.float32), np.arange(0, columns.size + 1, PER_ROW)
    X = sp.csr_matrix((data, columns.ravel(), indptr), shape=(n, width))
    X.sum_duplicates()
    return X, rng.integers(n_classes, size=n)


def lists_cells(quick: bool) -> list[str]:
    return list(CLASSES)[:2] if quick else list(CLASSES)


def measure_lists(name: str, *, quick: bool, limit: float) -> Result:
    n_classes = CLASSES[name]
    X, y = list_rows(4000 if quick else LIST_ROWS, n_classes)
    settings: dict[str, Any] = {"alpha": 1e-5, "max_epochs": 2, "classes": np.arange(n_classes)}
    costs = []
    for _ in range(1 if quick else judging.REPEATS):
        model = make(**settings).fit(X, y)
        first, second = (record["seconds"] for record in model.history_)
        costs.append(1e6 * (second - first) / y.size)
    pairs = model.plan_["pairs"]
    found = {
        "classes": n_classes,
        "rows": y.size,
        "pairs": pairs,
        "list": pairs / X.shape[1],
        "microseconds": statistics.median(costs),
    }
    print(name, found, flush=True)
    return found


def table_of_lists(rows: list[Result]) -> str:
    least = min(rows, key=lambda row: row["classes"])
    lines = [
        [
            f"{row['classes']:,}",
            f"{row['list']:.1f}",
            f"{row['pairs']:,}",
            f"{row['microseconds']:.2f}",
            f"{row['microseconds'] / least['microseconds']:.2f}×",
        ]
        for row in rows
    ]
    header = ["classes", "classes of a feature", "observed pairs", "µs a row"]
    return markdown([*header, f"over that of {least['classes']:,}"], lines)


# ---------------------------------------------------------------------------------------- the parts


class Part(NamedTuple):
    """A part of the benchmark: its sets, a measurement of one, the table of all."""

    cells: Callable[[bool], list[str]]
    measure: Callable[..., Result]
    table: Callable[[list[Result]], str]


PARTS = {
    "quality": Part(quality_cells, measure_quality, table_of_quality),
    "extreme": Part(extreme_cells, measure_extreme, table_of_extreme),
    "language": Part(language_cells, measure_language, table_of_language),
    "lists": Part(lists_cells, measure_lists, table_of_lists),
}


def wanted(only: str | None, quick: bool) -> list[tuple[str, str]]:
    """Return pairs of part and set: all, or those of a list like "extreme/Gowalla,lists"."""
    found = []
    for name in PARTS if only is None else only.split(","):
        part, _, one = name.partition("/")
        if part not in PARTS:
            raise SystemExit(f"unknown part {part!r}: choose from {', '.join(PARTS)}")
        known = PARTS[part].cells(quick)
        if one and one not in known:
            raise SystemExit(f"unknown set {one!r} of {part}: choose from {', '.join(known)}")
        found += [(part, cell) for cell in ([one] if one else known)]
    return found


def run(*, quick: bool, only: str | None = None, limit: float | None = None) -> dict[str, Any]:
    measured = not quick and (harness.RESULTS / f"{NAME}.json").exists()
    parts: dict[str, Any] = dict(harness.load(NAME)["parts"]) if measured else {}
    for name, cell in wanted(only, quick):
        part = PARTS[name]
        row = {"set": cell} | part.measure(cell, quick=quick, limit=limit or LIMIT)
        parts[name] = replaced(parts.get(name, []), row, part.cells(quick))
        harness.save(NAME, {"parts": parts}, quick=quick)
    return {"parts": parts}


def table(result: dict[str, Any]) -> str:
    parts = [
        part.table(rows) for name, part in PARTS.items() if (rows := result["parts"].get(name))
    ]
    return "\n\n".join(parts) or "Not measured yet."
