"""Training on a store several times larger than the memory allowed.

The limit is the kernel's, on all memory of the process with what it keeps of files (a control
group); it takes the rights to make one, and to empty the cache of files before.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import zipf_rows
from benchmarks.harness import markdown
from monro.data.convert import write_store
from monro.data.read import Data
from monro.mapped import row_parts

WIDTH = 47_000
ALPHA = 1e-6
GROUP = Path("/sys/fs/cgroup/memory/monro-benchmark")

TRAIN = """
import json, resource, sys, time
import numpy as np
from monro import LinearClassifier
from monro.data.store import open_store
from monro.mapped import csr_from_files
folder, in_memory = sys.argv[1], sys.argv[2] == "memory"
data = open_store(folder)
X = data.X
if in_memory:
    X = csr_from_files(np.array(X.data), np.array(X.indices), X.indptr, X.shape[1])
model = LinearClassifier(loss="log", alpha=float(sys.argv[3]), max_epochs=3, random_state=0)
begin = time.perf_counter()
model.fit(X, data.y)
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "solver": model.solver_, "coef": model.coef_[0].tolist(),
                  "intercept": model.intercept_[0],
                  "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def _parts(rows: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield Zipf text, each row labelled by a hidden linear rule and noise."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(WIDTH)
    for k in range(rows // 100_000):
        X = zipf_rows(100_000, WIDTH, 75, seed=k)
        yield X, (X @ w + rng.logistic(size=100_000) > 0).astype(int)


def _train(folder: Path, where: str, limit: int | None) -> dict[str, Any]:
    def enter() -> None:
        if limit is not None:
            (GROUP / "cgroup.procs").write_text(str(os.getpid()))

    if limit is not None:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        GROUP.mkdir(exist_ok=True)
        (GROUP / "memory.limit_in_bytes").write_text(str(limit))
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(folder), where, str(ALPHA)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=enter,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    if limit is not None:
        result["peak"] = int((GROUP / "memory.max_usage_in_bytes").read_text())
        GROUP.rmdir()
    return result


def _objective(store: Data, coef: np.ndarray, intercept: float) -> float:
    scores = np.concatenate([part @ coef for part in row_parts(store.X)]) + intercept
    losses = np.logaddexp(0.0, -np.where(store.y == 1, 1, -1) * scores)
    return float(losses.mean() + ALPHA / 2 * coef @ coef)


def run(*, quick: bool) -> dict[str, Any]:
    rows, limit = (200_000, 1 << 29) if quick else (9_000_000, 1 << 30)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "store"
        begin = time.perf_counter()
        store = write_store(_parts(rows), folder)
        made = time.perf_counter() - begin
        size = sum(path.stat().st_size for path in folder.iterdir())
        results = []
        for name, where, bound in (("mapped", "mapped", limit), ("in memory", "memory", None)):
            result = _train(folder, where, bound)
            coef = np.array(result.pop("coef"))
            result |= {
                "name": name,
                "limit": bound,
                "objective": _objective(store, coef, result.pop("intercept")),
            }
            results.append(result)
            print(result, flush=True)
        nonzeros = int(store.X.nnz)
        del store
        shutil.rmtree(folder)
    return {"rows": rows, "nonzeros": nonzeros, "bytes": size, "made": made, "results": results}


def table(result: dict[str, Any]) -> str:
    caption = (
        f"{result['rows']:,} rows, {result['nonzeros']:,} non-zeros, a store of "
        f"{result['bytes'] / 1e9:.1f} GB; log loss, 3 epochs:\n\n"
    )
    return caption + markdown(
        ["", "memory allowed", "most used", "seconds", "objective"],
        [
            [
                row["name"],
                f"{row['limit'] / 1e9:.2f} GB" if row["limit"] else "–",
                f"{row['peak'] / 1e9:.2f} GB",
                f"{row['seconds']:.0f}",
                f"{row['objective']:.6f}",
            ]
            for row in result["results"]
        ],
    )
