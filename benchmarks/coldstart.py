"""Cold start: seconds of --help, of a first fit with a cold and a warm cache, of a second fit."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.harness import markdown

FIT = """
import time
import numpy as np
import scipy.sparse as sp
from monro import LinearClassifier
rng = np.random.default_rng(0)
X = sp.random(2000, 1000, 0.02, format="csr", random_state=0)
y = rng.integers(0, 2, 2000)
for _ in range(2):
    begin = time.perf_counter()
    LinearClassifier(loss="log", random_state=0).fit(X, y)
    print(time.perf_counter() - begin)
"""


def _fits(cache: str) -> tuple[float, float]:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    output = subprocess.run(
        [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    return float(output[0]), float(output[1])


def run(*, quick: bool) -> dict[str, Any]:
    repeats = 1 if quick else 5
    helps, cold, warm, second = [], [], [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "monro", "--help"], capture_output=True, check=True)
        helps.append(time.perf_counter() - begin)
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_fits(cache)[0])
            first, again = _fits(cache)
            warm.append(first)
            second.append(again)
    return {
        "seconds": {
            "`monro --help`": statistics.median(helps),
            "first fit, empty cache": statistics.median(cold),
            "first fit, warm cache": statistics.median(warm),
            "second fit": statistics.median(second),
        }
    }


def table(result: dict[str, Any]) -> str:
    return markdown(
        ["", "seconds"], [[name, f"{value:.3f}"] for name, value in result["seconds"].items()]
    )
