"""monro demo: the main job on embedded data."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.model_selection import train_test_split

from monro._jit import announce_compilation
from monro.data.embedded import capitals
from monro.linear.classifier import LinearClassifier
from monro.rows import Array


def _digits() -> tuple[Any, Array]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def _fit_and_test(X: Any, y: Array, seed: int, jobs: int) -> dict[str, str]:
    """Train on three quarters of the rows, test on the rest."""
    train_X, test_X, train_y, test_y = train_test_split(
        X, y, test_size=0.25, random_state=seed, stratify=y
    )
    settings: dict[str, Any] = {"loss": "log", "n_jobs": jobs, "random_state": seed}
    LinearClassifier(**settings, max_epochs=2).fit(train_X, train_y)  # compiles
    begin = time.perf_counter()
    model = LinearClassifier(**settings).fit(train_X, train_y)
    seconds = time.perf_counter() - begin
    codes = np.searchsorted(model.classes_, test_y)
    log_proba = model.predict_log_proba(test_X)[np.arange(codes.size), codes]
    return {
        "rows × features": f"{train_y.size:,} × {X.shape[1]:,}",
        "classes": f"{model.classes_.size}",
        "solver chosen": model.solver_,
        "seconds, 10 epochs": f"{seconds:.3f}",
        "test error": f"{1 - model.score(test_X, test_y):.2%}",
        "… of the commonest class": f"{1 - np.bincount(codes).max() / codes.size:.2%}",
        "test log-loss": f"{-log_proba.mean():.4f}",
    }


def _keep(folder: Path, X: Any, y: Array, seed: int) -> None:
    """Write three quarters of the rows as train.svm, the rest as test.svm."""
    folder.mkdir(parents=True, exist_ok=True)
    train_X, test_X, train_y, test_y = train_test_split(
        X, y, test_size=0.25, random_state=seed, stratify=y
    )
    dump_svmlight_file(train_X, train_y, str(folder / "train.svm"), zero_based=False)
    dump_svmlight_file(test_X, test_y, str(folder / "test.svm"), zero_based=False)


def run(seed: int, jobs: int, keep: Path | None) -> None:
    """Train on both embedded tasks, with probabilities, and print how well it went."""
    console = Console()
    tasks: dict[str, tuple[Any, Array]] = {
        "digits: which of ten?": _digits(),
        "capitals: yes or no?": capitals()[:2],
    }

    def announce() -> None:
        console.print("compiling the kernels: once, then they are cached on disk …")

    with announce_compilation(announce):
        results = {name: _fit_and_test(X, y, seed, jobs) for name, (X, y) in tasks.items()}

    table = Table(title="LinearClassifier(loss='log')", title_justify="left")
    table.add_column("")
    for name in results:
        table.add_column(name, justify="right")
    for quantity in next(iter(results.values())):
        table.add_row(quantity, *(result[quantity] for result in results.values()))
    console.print(table)
    if keep is not None:
        _keep(keep, *tasks["capitals: yes or no?"], seed)
        console.print(
            f"{keep}/train.svm and {keep}/test.svm hold the words: which have a capital?",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
