"""monro demo: the main job on embedded data."""

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from monro._jit import announce_compilation
from monro.data.embedded import capitals
from monro.linear.estimator import LinearClassifier
from monro.rows import Array


def _digits() -> tuple[Any, Array]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def run(seed: int, jobs: int) -> None:
    """Train on both embedded tasks, with probabilities, and print how well it went."""
    console = Console()
    tasks = {
        "digits: which of ten?": _digits(),
        "capitals: does this word of English have one?": capitals()[:2],
    }
    table = Table(title="monro demo", title_justify="left")
    for column in ("task", "rows", "features", "classes", "solver", "seconds"):
        table.add_column(column, justify="left" if column in ("task", "solver") else "right")
    for column in ("test error", "majority's", "log-loss"):
        table.add_column(column, justify="right")

    def announce() -> None:
        console.print("compiling the kernels: once, then they are cached on disk …")

    with announce_compilation(announce):
        for name, (X, y) in tasks.items():
            train_X, test_X, train_y, test_y = train_test_split(
                X, y, test_size=0.25, random_state=seed, stratify=y
            )
            settings: dict[str, Any] = {"loss": "log", "n_jobs": jobs, "random_state": seed}
            LinearClassifier(**settings, max_epochs=1).fit(train_X, train_y)  # compiles
            begin = time.perf_counter()
            model = LinearClassifier(**settings).fit(train_X, train_y)
            seconds = time.perf_counter() - begin
            log_proba = model.predict_log_proba(test_X)
            codes = np.searchsorted(model.classes_, test_y)
            table.add_row(
                name,
                f"{train_y.size:,}",
                f"{X.shape[1]:,}",
                str(model.classes_.size),
                model.solver_,
                f"{seconds:.3f}",
                f"{1 - model.score(test_X, test_y):.2%}",
                f"{1 - np.bincount(codes).max() / codes.size:.2%}",
                f"{-log_proba[np.arange(codes.size), codes].mean():.4f}",
            )
    console.print(table)
    console.print("seconds: 10 passes over the training rows; errors: on the quarter held out.")
