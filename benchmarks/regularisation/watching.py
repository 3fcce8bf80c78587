"""What it costs to watch a fit: its CPU time beside that of the same fit unwatched.

Rows are generated: twenty of 2,000 words each; the class follows from the first word, with noise.
With early_stopping a tenth of the rows is held out, so it is compared with a fit of nine tenths, of
as many epochs. Penalty and learning rate are given: nothing is chosen.
"""

import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import markdown
from benchmarks.regularisation import sentences
from benchmarks.regularisation.children import Result
from monro import SoftmaxClassifier

BAR = 1.1
REPEATS = 3
SETS = {"10 classes": 10, "1000 classes": 1000, "30000 classes": 30_000}
ROWS, WORDS, PER_ROW, EPOCHS = 60_000, 2000, 20, 20


def cells(quick: bool) -> list[str]:
    return list(SETS)[:1] if quick else list(SETS)


def _rows(n: int, n_classes: int) -> tuple[sp.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(0)
    words = np.sort(rng.integers(WORDS, size=(n, PER_ROW)), axis=1).astype(np.int32)
    indptr = np.arange(0, n * PER_ROW + 1, PER_ROW)
    X = sp.csr_matrix((np.ones(words.size, np.float32), words.ravel(), indptr), shape=(n, WORDS))
    X.sum_duplicates()
    return X, (words[:, 0].astype(np.int64) * 7919 + rng.integers(20, size=n)) % n_classes


def measure(name: str, *, quick: bool, limit: float) -> Result:
    n_classes = SETS[name]
    n = 2000 if quick else ROWS
    X, y = _rows(n, n_classes)

    def fitted(rows: int = n, **parameters: Any) -> tuple[SoftmaxClassifier, float]:
        settings = {"max_epochs": EPOCHS, "epoch_decay": 0.9, "learning_rate": 0.3} | parameters
        model = SoftmaxClassifier(classes=range(n_classes), alpha=1e-5, random_state=0, **settings)
        begin = time.process_time()
        model.fit(X[:rows], y[:rows])
        return model, time.process_time() - begin

    fitted(max_epochs=1, early_stopping=True, verbose=1)  # compiles
    ratios: dict[str, list[float]] = {"verbose=1": [], "early_stopping": []}
    for _ in range(1 if quick else REPEATS):
        ratios["verbose=1"].append(fitted(verbose=1)[1] / fitted()[1])
        model, seconds = fitted(early_stopping=True)
        alone = fitted(n - n // 10, max_epochs=model.n_iter_)[1]
        ratios["early_stopping"].append(seconds / alone)
    found = {kind: statistics.median(each) for kind, each in ratios.items()}
    print(name, found, flush=True)
    return {"rows": n, "ratios": found, "epochs": model.n_iter_}


def table(rows: list[Result]) -> str:
    header = ["watching, CPU time", "rows", "verbose=1", "early_stopping", "its epochs"]
    lines = []
    for row in rows:
        ratios = (f"{ratio:.2f}×" for ratio in row["ratios"].values())
        lines.append([row["set"], f"{row['rows']:,}", *ratios, str(row["epochs"])])
    claims = [
        sentences.at_most(
            f"CPU time with {kind} at most {BAR:g} times that without",
            {row["set"]: row["ratios"][kind] for row in rows},
            BAR,
            ".2f",
        )
        for kind in ("verbose=1", "early_stopping")
    ]
    return "\n\n".join([markdown(header, lines), *claims])
