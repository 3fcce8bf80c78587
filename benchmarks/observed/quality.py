"""Test log-loss beside dense weights; of several labels of a row the lowest."""

import statistics
from functools import partial

import numpy as np

from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS as MANY
from benchmarks.observed.models import make
from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result
from monro import SoftmaxClassifier

KINDS = ("observed", "dense")
FIRST_LABELS = ("Bibtex", "Delicious", "20news", "RCV1 topics")
LOSS_BAR = 1.01


def cells(quick: bool) -> list[str]:
    return ["Bibtex"] if quick else list(FIRST_LABELS)


def measure(name: str, *, quick: bool, limit: float) -> Result:
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


def table(rows: list[Result]) -> str:
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
