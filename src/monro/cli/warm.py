"""monro compile: fill the kernel cache in advance."""

import time
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from monro.crf.solvers import SOLVERS as CRF_SOLVERS
from monro.crf.tagger import CRFTagger
from monro.data.scan import scan_block
from monro.linear.classifier import LinearClassifier
from monro.linear.columns import used_columns
from monro.linear.regressor import LinearRegressor
from monro.linear.solvers import SOLVERS
from monro.linear.thread_copies import average_rows
from monro.rows import WIDE
from monro.softmax.classifier import SoftmaxClassifier
from monro.softmax.solvers import SOLVERS as SOFTMAX_SOLVERS

_DEFAULT_SOLVERS = ("dual", "aisgd")


def _matrices() -> dict[str, Any]:
    """Return a small matrix of each kind that kernels are specialised for."""
    X = np.random.default_rng(0).random((30, 12))
    sparse = sp.csr_matrix(X)
    wide = sp.csr_matrix(
        (sparse.data, sparse.indices * 20_000, sparse.indptr), shape=(30, 2 * WIDE)
    )
    kinds = {"dense": X, "sparse": sparse, "wide": wide}
    return {
        f"{kind}, {dtype}": form.astype(dtype)
        for (kind, form), dtype in product(kinds.items(), ("float64", "float32"))
    }


def _softmax_jobs(every: bool) -> list[tuple[dict[str, Any], tuple[str, Any]]]:
    """Return parameters of SoftmaxClassifier and matrices that kernels are specialised for."""
    settings: list[dict[str, Any]] = [
        {"solver": "implicit", "alpha": 0.0},
        {"solver": "implicit", "sampling": "neighbour", "alpha": 0.1},
    ]
    if every:
        settings += [
            {"solver": solver, "formulation": form, "sampling": sampling, "alpha": 0.0}
            for solver, traits in SOFTMAX_SOLVERS.items()
            for form in traits.formulations or ("auto",)
            for sampling in (("auto", "uniform") if traits.classes else ("auto",))
            if traits.takes_rate
        ]
        settings.append({"solver": "coordinate", "alpha": 0.1, "l1_ratio": 1.0})
    rows = [(form, X) for form, X in _matrices().items() if "wide" not in form]
    return list(product(settings, rows))


def run(*, every: bool) -> None:
    """Fit tiny problems with each combination of solver, loss and kind of matrix."""
    solvers = tuple(SOLVERS) if every else _DEFAULT_SOLVERS
    jobs = [
        (kind, loss, solver, X)
        for kind, losses in (
            (LinearClassifier, LinearClassifier._losses),
            (LinearRegressor, LinearRegressor._losses),
        )
        for loss, solver, X in product(losses, solvers, _matrices().items())
        if not (SOLVERS[solver].needs_smooth_loss and losses[loss].traits.has_kink)
    ]
    y = np.arange(30) % 2
    many = _softmax_jobs(every)
    console = Console(stderr=True)
    begin = time.perf_counter()
    scan_block(b"1 1:0.5\n", 1, "")
    average_rows(np.zeros((2, 2)))
    used_columns(_matrices()["wide, float64"]).rows(_matrices()["wide, float64"])
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        taggers = list(CRF_SOLVERS) if every else list(CRF_SOLVERS)[:1]
        total = len(jobs) + len(many) + len(taggers)
        task = progress.add_task("compiling", total=total)
        for kind, loss, solver, (form, X) in jobs:
            progress.update(task, description=f"{loss}, {solver}, {form}")
            wide = form.startswith("wide")  # a warm start keeps all columns
            kind(
                loss=loss, solver=solver, max_epochs=2, alpha=0.1, warm_start=wide, random_state=0
            ).fit(X, y)
            progress.advance(task)
        for settings, (form, X) in many:
            progress.update(task, description=f"softmax, {settings['solver']}, {form}")
            model = SoftmaxClassifier(**settings, max_epochs=2, random_state=0).fit(X, y)
            model.predict(X)
            progress.advance(task)
        for solver in taggers:
            progress.update(task, description=f"tags, {solver}")
            sentences, tags = [["a", "b"], ["b"]], [["X", "Y"], ["Y"]]
            tagger = CRFTagger(solver=solver, max_epochs=2, random_state=0).fit(sentences, tags)
            tagger.evaluate(sentences, tags)
            tagger.predict_marginals(sentences)
            tagger.objective(sentences, tags)
            progress.advance(task)
    seconds = time.perf_counter() - begin
    Console().print(f"{total} combinations of kernels are ready, in {seconds:.1f} s")
