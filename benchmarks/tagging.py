"""CoNLL-2000 chunking with CRF++'s template: CRFTagger against CRFsuite.

c = 1, with features that occur at least three times. CRFsuite gets the same features, already
extracted, and only its `train` is timed; monro's whole `fit` is timed, from words and parts of
speech on. CRFsuite's ridge is ``c2 ‖w‖²``: c2 = 0.5 is the same objective.
All numbers of epochs are fixed: none is chosen by the test sentences.
"""

import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import markdown
from monro import CRFTagger
from monro.crf.conlleval import evaluate
from monro.crf.feature_map import make_map
from monro.crf.template import parse
from monro.crf.tokens import columns_of
from monro.data.conll import Sentences
from monro.studies import data
from monro.studies.cells import spread
from monro.studies.sgd_qn_runs import TEMPLATE

FITS = [("asgd", 10), ("sgd", 10), ("sgd", 50), ("sgdqn", 10), ("sgdqn", 25)]
PEERS = {  # algorithm: parameters, numbers of iterations
    "ap": ({}, [20]),
    "l2sgd": ({"c2": 0.5}, [10, 30, 100]),
    "lbfgs": ({"c1": 0.0, "c2": 0.5}, [30, 60, 120]),
}


BASE = (f"monro {FITS[0][0]}", FITS[0][1])


def _tagger(seed: int = 0, **settings: Any) -> CRFTagger:
    return CRFTagger(template=TEMPLATE, c=1.0, cutoff=3, random_state=seed, **settings)


def _fits(train: Sentences, test: Sentences, quick: bool, repeats: int) -> list[dict[str, Any]]:
    """Return time, objective and FB1 of whole fits, each with another seed."""
    found = []
    for solver, epochs in FITS[:1] if quick else FITS:
        seconds, per_epoch, objectives, fb1s = [], [], [], []
        for seed in range(repeats):
            begin = time.perf_counter()
            tagger = _tagger(seed, solver=solver, max_epochs=epochs).fit(train.tokens, train.tags)
            seconds.append(time.perf_counter() - begin)
            ends = [0.0, *(record["seconds"] for record in tagger.history_)]
            per_epoch.append(statistics.median(np.diff(ends)))
            objectives.append(tagger.objective(train.tokens, train.tags))
            fb1s.append(100.0 * tagger.score(test.tokens, test.tags))
        found.append(
            {
                "learner": f"monro {solver}",
                "epochs": epochs,
                "seconds": statistics.median(seconds),
                "seconds_per_epoch": statistics.median(per_epoch),
                "learning_rate": tagger.learning_rate_,
                "features": tagger.n_features_,
                "parameters": tagger.n_parameters_,
                "objective": statistics.mean(objectives),
                "fb1": statistics.mean(fb1s),
                "fb1s": fb1s,
            }
        )
        print(found[-1], flush=True)
    return found


def _texts(tagger: CRFTagger, sentences: list[Any]) -> list[list[list[str]]]:
    """Return the features of sentences that a tagger knows, as texts."""
    features = tagger._fitted.features
    data, names = features.encode(sentences), features.names
    rows = [
        [names[k] for k in data.features[a:b].tolist()] for a, b in pairwise(data.indptr.tolist())
    ]
    return [rows[a:b] for a, b in pairwise(data.starts.tolist())]


def _peers(
    train: Sentences, test: Sentences, features: tuple[Any, Any], quick: bool
) -> list[dict[str, Any]]:
    try:
        import pycrfsuite
    except ImportError:
        if quick:
            return []  # a smoke test needs no peers
        raise SystemExit("this compares with CRFsuite: pip install python-crfsuite") from None

    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        for algorithm, (parameters, iterations) in PEERS.items():
            for n in [2] if quick else iterations:
                trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
                trainer.set_params(parameters | {"max_iterations": n})
                for x, y in zip(features[0], train.tags, strict=True):
                    trainer.append(x, y)
                begin = time.perf_counter()
                trainer.train(path)
                seconds = time.perf_counter() - begin
                tagger = pycrfsuite.Tagger()
                tagger.open(path)
                begin = time.perf_counter()
                tags = [tagger.tag(x) for x in features[1]]
                tagging = time.perf_counter() - begin
                fb1 = 100.0 * evaluate(test.tags, tags).overall.f1
                found.append(
                    {
                        "learner": f"CRFsuite {algorithm}",
                        "epochs": n,
                        "seconds": seconds,
                        "seconds_per_epoch": seconds / n,
                        "fb1": fb1,
                        "tagging_seconds": tagging,
                    }
                )
                print(found[-1], flush=True)
    return found


def _tagging(
    test: Sentences, train: Sentences, features: tuple[Any, Any], repeats: int
) -> dict[str, float]:
    """Return tokens per second: tagging columns, tagging features given as texts, extraction."""
    tagger = _tagger(max_epochs=1).fit(train.tokens, train.tags)
    ready = CRFTagger(c=1.0, max_epochs=1, random_state=0).fit(features[0], train.tags)
    tokens = sum(map(len, test.tokens))
    columns, texts, extraction = [], [], []
    templates = parse(TEMPLATE)
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        tagger.predict(test.tokens)
        columns.append(tokens / (time.perf_counter() - begin))
        begin = time.perf_counter()
        ready.predict(features[1])
        texts.append(tokens / (time.perf_counter() - begin))
        begin = time.perf_counter()
        block = columns_of(train.tokens, 2)
        known = make_map(lambda: [block], templates, 2, cutoff=3, hash_bits=None)  # noqa: B023
        known.encode(train.tokens)
        extraction.append(block.size / (time.perf_counter() - begin))
    found = {"columns": columns, "features": texts, "extraction": extraction}
    return {name: statistics.median(values[1:]) for name, values in found.items()}


def run(*, quick: bool) -> dict[str, Any]:
    train, test = data.conll2000()
    if quick:
        train, test = (Sentences(*(part[:300] for part in each)) for each in (train, test))
    _tagger(max_epochs=1).fit(train.tokens[:50], train.tags[:50]).score(test.tokens, test.tags)
    repeats = 1 if quick else 3
    result: dict[str, Any] = {"fits": _fits(train, test, quick, repeats)}
    known = _tagger(max_epochs=1).fit(train.tokens, train.tags)
    features = _texts(known, train.tokens), _texts(known, test.tokens)
    result["peers"] = _peers(train, test, features, quick)
    result["tokens_per_second"] = _tagging(test, train, features, repeats)
    if result["peers"]:
        fastest = min(row["tagging_seconds"] for row in result["peers"])
        result["tokens_per_second"]["crfsuite"] = sum(map(len, test.tokens)) / fastest
    return result


def table(result: dict[str, Any]) -> str:
    return f"{_fit_table(result)}\n\n{_speed_table(result['tokens_per_second'])}"


def _fit_table(result: dict[str, Any]) -> str:
    rows = [*result["fits"], *result["peers"]]
    (base,) = (row["seconds"] for row in rows if (row["learner"], row["epochs"]) == BASE)
    cells = [
        [
            f"{row['learner']}, {row['epochs']}",
            f"{row['seconds']:.2f}",
            f"{row['seconds_per_epoch']:.2f}",
            f"{row['objective']:.4f}" if "objective" in row else "",
            spread(row.get("fb1s", [row["fb1"]]), ".2f"),
            f"{row['seconds'] / base:.1f}×",
        ]
        for row in rows
    ]
    header = ["learner, epochs", "s", "s an epoch", "objective", "test FB1", "time / first's"]
    return markdown(header, cells)


def _speed_table(speed: dict[str, float]) -> str:
    names = {
        "columns": "monro tags words and parts of speech",
        "features": "monro tags features given as texts",
        "crfsuite": "CRFsuite tags features given as texts",
        "extraction": "monro finds, counts and numbers features",
    }
    cells = [[text, f"{speed[name]:,.0f}"] for name, text in names.items() if name in speed]
    return markdown(["one core", "tokens a second"], cells)
