"""Many labels a row, beside peers.

Each learner has a process of its own and two threads, and is measured once. Its memory is the peak
of that process until the predictions are made, data and libraries included. Training rows without
features or without labels are left out for all learners, as Omikuji cannot read them, and so are
test rows without labels. Omikuji reads its training rows from a text file, which is part of its
time, and predicts row by row, as its interface for Python takes no matrix. napkinXC writes its
model while it fits. monro's file is that for predictions only, as the others'.
"""

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.harness import markdown
from benchmarks.observed.labelled import EXTREME, PLANTED, load_set
from benchmarks.observed.learners import DEPTHS, LEARNERS, LIBRARIES, OURS, PRECISIONS, precisions
from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result, in_child, peak_bytes

MOST_OF_ONE_VS_REST = 5000  # labels


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
    data = load_set(name, quick)
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


def cells(quick: bool) -> list[str]:
    return ["Bibtex", "Gowalla"] if quick else list(EXTREME)


def _compared(name: str, n_labels: int) -> list[str]:
    """Return the learners that do not take hours."""
    if name == PLANTED:
        return [OURS, "Omikuji"]
    slow = [] if n_labels <= MOST_OF_ONE_VS_REST else ["LinearSVC, one-vs-rest"]
    return [learner for learner in LEARNERS if learner not in slow]


def measure(name: str, *, quick: bool, limit: float) -> Result:
    data = load_set(name, quick)
    learners = {}
    for learner in LEARNERS:
        if learner not in _compared(name, data.Y.shape[1]):
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


def table(rows: list[Result]) -> str:
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
