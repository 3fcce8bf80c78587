"""Training on data several times larger than the memory limit: linear, softmax, CRF.

Each model is fitted in memory first, then from files with a memory limit: the size of the model
file, the local variables of rows if the solver has any, and 500 MB. A control group of the kernel
enforces the limit on all memory of the process including cached files. That needs the rights to
create a control group, and to drop the page cache before.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.datasets import zipf_rows
from benchmarks.harness import markdown
from monro.data.convert import write_store
from monro.data.store import open_store
from monro.mapped.matrices import in_memory, row_chunks, slice_rows

EXTRA_BYTES = 500_000_000
_EVALUATED = 20_000  # rows of a softmax; a tenth as many sentences of a CRF

# ------------------------------------------------------------------------------------------- linear

WIDTH = 47_000
ALPHA = 1e-6


def text_parts(rows: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield Zipf text, labelled by a hidden linear rule with noise."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(WIDTH)
    for k in range(rows // 100_000):
        X = zipf_rows(100_000, WIDTH, 75, seed=k)
        yield X, (X @ w + rng.logistic(size=100_000) > 0).astype(int)


def fit_linear(folder: str, where: str) -> tuple[Any, int]:
    from monro import LinearClassifier

    model = LinearClassifier(loss="log", alpha=ALPHA, max_epochs=3, random_state=0)
    _fit(model, folder, where)
    return model, 8 if model.solver_ == "dual" else 0


def evaluate_linear(model: Any, folder: str, rows: int) -> float:
    """Return the objective."""
    store, coef = open_store(folder), model.coef_[0]
    scores = np.concatenate([part @ coef for part in row_chunks(store.X)]) + model.intercept_
    losses = np.logaddexp(0.0, -np.where(store.y == 1, 1, -1) * scores)
    return float(losses.mean() + ALPHA / 2 * coef @ coef)


# ------------------------------------------------------------------------------------------ softmax

CLASSES, WORDS = 2000, 12_500


def topic_parts(rows: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield rows of 40 words; four of them are from the forty words of the class."""
    rng = np.random.default_rng(0)
    topics = rng.integers(WORDS, size=(CLASSES, 40))
    classes = np.cumsum(1.0 / (np.arange(CLASSES) + 20.0))
    words = np.cumsum(1.0 / (np.arange(WORDS) + 10.0))
    n = 100_000
    for _ in range(rows // n):
        y = np.searchsorted(classes, rng.random(n) * classes[-1])
        own = topics[y[:, None], rng.integers(40, size=(n, 4))]
        common = np.searchsorted(words, rng.random((n, 36)) * words[-1])
        columns = np.concatenate([own, common], axis=1).astype(np.int32)
        values = np.full(columns.size, 0.15, np.float32)
        indptr = np.arange(0, columns.size + 1, columns.shape[1])
        X = sp.csr_matrix((values, columns.ravel(), indptr), shape=(n, WORDS))
        X.sum_duplicates()
        yield X, y


def fit_softmax(folder: str, where: str) -> tuple[Any, int]:
    from monro import SoftmaxClassifier

    model = SoftmaxClassifier(alpha=0.0, classes_per_step=80, max_epochs=2, random_state=0)
    _fit(model, folder, where)
    return model, 4


def evaluate_softmax(model: Any, folder: str, rows: int) -> float:
    """Return the log-loss of the first rows; a store is shuffled."""
    store = open_store(folder)
    return float(model.log_loss(slice_rows(store.X, 0, _EVALUATED), store.y[:_EVALUATED]))


def _fit(model: Any, folder: str, where: str) -> None:
    if where == "files":
        model.fit(folder)
    else:
        store = open_store(folder)
        X, y = in_memory(store.X), store.y
        model.fit(X, y)


# ---------------------------------------------------------------------------------------------- CRF

TEMPLATE = "\n".join(
    [
        *(f"U{k}:%x[{k - 2},0]" for k in range(5)),
        *(f"U{k + 5}:%x[{k - 2},1]" for k in range(5)),
        *(f"U{k + 10}:%x[{k - 2},1]/%x[{k - 1},1]" for k in range(4)),
        "B",
    ]
)
_LENGTH = 25


def sentence_chunks(sentences: int, size: int = 2000) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield sentences of words with an ending, tagged by a noisy rule of word and previous tag."""
    rng = np.random.default_rng(0)
    words = np.cumsum(1.0 / (np.arange(20_000) + 10.0))
    preferred, ending = rng.integers(8, size=words.size), rng.integers(40, size=words.size)
    names = [(f"word{k}", f"e{ending[k]}") for k in range(words.size)]
    for _ in range(sentences // size):
        drawn = np.searchsorted(words, rng.random((size, _LENGTH)) * words[-1])
        tags = preferred[drawn]
        tags[:, 1:] = np.where(tags[:, :-1] % 3 == 0, (tags[:, 1:] + 1) % 8, tags[:, 1:])
        tags = np.where(rng.random(tags.shape) < 0.05, rng.integers(8, size=tags.shape), tags)
        tokens = [[names[k] for k in row] for row in drawn.tolist()]
        yield tokens, [[f"T{k}" for k in row] for row in tags.tolist()]


def fit_crf(folder: str, where: str) -> tuple[Any, int]:
    from monro import CRFTagger

    chunks = sentence_chunks(int(folder))
    model = CRFTagger(template=TEMPLATE, c=1.0, max_epochs=2, random_state=0)
    if where == "files":
        return model.fit(chunks), 0
    sentences: list[Any] = []
    tags: list[Any] = []
    for tokens, names in chunks:
        sentences += tokens
        tags += names
    return model.fit(sentences, tags), 0


def evaluate_crf(model: Any, folder: str, rows: int) -> float:
    """Return the mean negative log-likelihood of some sentences."""
    return float(model.log_loss(*next(sentence_chunks(_EVALUATED // 10))))


# ------------------------------------------------------------------------------ with limited memory

TRAIN = """
import json, resource, sys, time
from benchmarks import larger
name, folder, where, model_path = sys.argv[1:]
begin = time.perf_counter()
model, local = getattr(larger, f"fit_{name}")(folder, where)
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model.save(model_path)
print(json.dumps({"seconds": seconds, "local": local, "peak": peak}))
"""


class Group:
    """A control group (version 1 or 2) with a memory limit."""

    def __init__(self, limit: int):
        root = Path("/sys/fs/cgroup")
        first = (root / "memory").is_dir()
        self.path = (root / "memory" if first else root) / "monro-benchmark"
        if not first:
            (root / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir(exist_ok=True)
        name = "memory.limit_in_bytes" if first else "memory.max"
        (self.path / name).write_text(str(limit))
        self._peak = "memory.max_usage_in_bytes" if first else "memory.peak"

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def end(self) -> int:
        """Remove the group; return the peak memory in bytes."""
        peak = int((self.path / self._peak).read_text())
        self.path.rmdir()
        return peak


def _train(name: str, folder: str, where: str, model: Path, limit: int | None) -> dict[str, Any]:
    group = None
    if limit is not None:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        group = Group(limit)
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, name, folder, where, str(model)],
        capture_output=True,
        text=True,
        preexec_fn=group.enter if group else None,
    )
    peak = group.end() if group else None
    if done.returncode:
        raise RuntimeError(f"{name} from {where}: {done.returncode} {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result | ({"peak": peak} if peak is not None else {})


def _compare(name: str, folder: str, rows: int, scratch: Path) -> list[dict[str, Any]]:
    import monro

    results: list[dict[str, Any]] = []
    limit = None
    for where in ("memory", "files"):
        path = scratch / "model.monro"
        result = _train(name, folder, where, path, limit)
        size = path.stat().st_size
        reached = globals()[f"evaluate_{name}"](monro.load(path), folder, rows)
        result |= {"name": where, "limit": limit, "model": size, "judged": reached}
        limit = size + result["local"] * rows + EXTRA_BYTES
        results.append(result)
        print(name, result, flush=True)
    return results


def run(*, quick: bool) -> dict[str, Any]:
    sizes = (200_000, 200_000, 4000) if quick else (4_000_000, 6_000_000, 400_000)
    found = {}
    for name, rows, parts in zip(
        ("linear", "softmax", "crf"), sizes, (text_parts, topic_parts, None), strict=True
    ):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "store"
            if parts is not None:
                write_store(parts(rows), folder)
                size = sum(path.stat().st_size for path in folder.iterdir())
            else:
                # Features and values of 14 templates, of pairs, a tag, and pointers to them.
                size = rows * (_LENGTH * (14 * 8 + 4 + 4 + 16) + 8)
            source = str(folder) if parts is not None else str(rows)
            results = _compare(name, source, rows, Path(scratch))
            found[name] = {"rows": rows, "bytes": size, "results": results}
    return {"fits": found}


_DESCRIPTIONS = {
    "linear": ("LinearClassifier, log loss, 3 epochs", "rows", "objective"),
    "softmax": ("SoftmaxClassifier, 2,000 classes, 80 a step, 2 epochs", "rows", "log-loss"),
    "crf": ("CRFTagger, 8 tags, 14 templates, 2 epochs", "sentences", "nats a sentence"),
}


def table(result: dict[str, Any]) -> str:
    rows = []
    for name, fit in result["fits"].items():
        what, unit, measure = _DESCRIPTIONS[name]
        rows += [
            [
                f"{what}: {fit['rows']:,} {unit}, {fit['bytes'] / 1e9:.1f} GB, from {each['name']}",
                f"{each['limit'] / 1e9:.2f} GB" if each["limit"] else "–",
                f"{each['peak'] / 1e9:.2f} GB",
                f"{each['seconds']:.0f}",
                f"{each['judged']:.4f} {measure}",
            ]
            for each in fit["results"]
        ]
    return markdown(["", "memory allowed", "most used", "seconds", "reached"], rows)
