"""The next word of WikiText-2 given the previous one: 33,278 skewed classes, two million rows.

With a feature for each previous word the best model is known: it predicts the frequencies of words
after each word (5.061 nats); without features it is the frequencies of words (7.063). The benchmark
reports how much of that gap a fit of 8 epochs closes, with exact log-losses over all distinct rows.
One thread; seconds are those of `fit`, including the search for the rate.
"""

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets
from benchmarks.harness import markdown
from monro import SoftmaxClassifier
from monro.blocks import LANES, n_blocks
from monro.softmax.model import Weights, log_normaliser, scores
from monro.softmax.sampling.mixture import make_mixture
from monro.softmax.sampling.neighbours import make_neighbours
from monro.softmax.sampling.samplers import (
    FrequencyBlocks,
    Sampler,
    UniformBlocks,
    block_frequencies,
)
from monro.studies.nextword import bounds, log_loss

EPOCHS = 8
ABLATION: dict[str, dict[str, Any]] = {
    "the default": {},
    "no neighbours, same number of classes": {"sampling": "frequency", "classes_per_step": 80},
    "no neighbours, one block": {"sampling": "frequency", "classes_per_step": 16},
    "two blocks": {"sampling": "neighbour", "classes_per_step": 32},
    "ten blocks": {"sampling": "neighbour", "classes_per_step": 160},
    "uniform blocks": {"sampling": "block", "classes_per_step": 80},
    "the paper's double sum": {"formulation": "difference"},
    "from zero": {"init": "zero"},
    "from zero, Raman et al.'s sum": {"init": "zero", "formulation": "raman"},
    "the rate falls by 0.6 an epoch": {"epoch_decay": 0.6},
    "the rate falls by 0.9 an epoch": {"epoch_decay": 0.9},
}
RATES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
BLOCKS = 5  # per step, to compare samplers
DRAWS = 300  # per row, for the variance


def fit(
    X: sp.csr_matrix, y: np.ndarray, gap: tuple[float, float], **settings: Any
) -> dict[str, Any]:
    model = SoftmaxClassifier(**{"alpha": 0.0, "max_epochs": EPOCHS, "random_state": 0} | settings)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    loss = log_loss(model._fitted.weights, X, np.searchsorted(model.classes_, y))
    return {
        "rate": model.learning_rate_,
        "log_loss": loss,
        "closed": (gap[0] - loss) / (gap[0] - gap[1]),
        "seconds": seconds,
        "search_seconds": seconds - model.history_[-1]["seconds"],
        "_model": model,
    }


def samplers(X: sp.csr_matrix, slots_of_rows: np.ndarray, n_classes: int) -> dict[str, Sampler]:
    """Return samplers that draw the same number of blocks per step."""
    blocks = n_blocks(n_classes)
    y = slots_of_rows.astype(np.int32)
    q = block_frequencies(np.bincount(y, minlength=n_classes))
    neighbours = make_neighbours(X, y // LANES, blocks, np.random.default_rng(0))
    head, a = 1, 2
    return {
        "uniform": UniformBlocks(blocks, BLOCKS, "float64"),
        "by frequency": FrequencyBlocks(q, BLOCKS, "float64"),
        "head and frequency": make_mixture(neighbours, q, head, 0, BLOCKS - head, "float64"),
        "neighbours and frequency": make_mixture(neighbours, q, 0, 3, BLOCKS - 3, "float64"),
        "head, neighbours and frequency": make_mixture(
            neighbours, q, head, a, BLOCKS - head - a, "float64"
        ),
    }


def variances(weights: Weights, X: sp.csr_matrix, y: np.ndarray, rows: int) -> dict[str, float]:
    """Return the variance of each sampler's estimate of the gradient in the scores.

    That is ``E Σ_k (c_k [k drawn] - 1)² p_k²``, the mean over rows; u is at its exact value.
    """
    slots = weights.slots[y]
    rng = np.random.default_rng(0)
    some = rng.choice(y.size, rows, replace=False)
    S = scores(weights, X[some])
    P = np.zeros((rows, n_blocks(slots.max() + 1) * LANES))
    P[:, weights.slots] = np.exp(S - log_normaliser(S)[:, None])
    P[np.arange(rows), slots[some]] = 0.0  # the gradient of y is exact
    squares = (P**2).reshape(rows, -1, LANES).sum(axis=2)
    found = {}
    for name, sampler in samplers(X, slots, weights.n_classes).items():
        total = 0.0
        for i, row in enumerate(some):
            drawn = sampler.draw(np.full(DRAWS, row), np.full(DRAWS, slots[row]), rng)
            c = np.zeros((DRAWS, squares.shape[1]))
            index = np.broadcast_to(np.arange(DRAWS)[:, None], drawn.chosen.shape)
            valid = drawn.chosen >= 0
            c[index[valid], drawn.chosen[valid]] = np.exp(drawn.log_weight[valid])
            total += float((((c - 1.0) ** 2).mean(axis=0) * squares[i]).sum())
        found[name] = total / rows
    return found


def run(*, quick: bool) -> dict[str, Any]:
    X, y = datasets.next_word()
    if quick:
        X, y = X[:20_000], y[:20_000]
    y = np.unique(y, return_inverse=True)[1]
    gap = bounds(X, y)
    fit(X[:2000], y[:2000], gap, max_epochs=1, classes=np.arange(1000 + y[:2000].max()))  # compiles
    settings = {"max_epochs": 1} if quick else {}
    default = fit(X, y, gap, **settings)
    model = default.pop("_model")
    repeats = [default]
    for seed in () if quick else (1, 2):
        repeats.append(fit(X, y, gap, random_state=seed))
        repeats[-1].pop("_model")
    early = fit(X, y, gap, max_epochs=1, learning_rate=default["rate"])["_model"]
    found = {
        "after an epoch": variances(early._fitted.weights, X, y, 20 if quick else 200),
        "at the end": variances(model._fitted.weights, X, y, 20 if quick else 200),
    }
    ablation = {"the default": default}
    sensitivity = {}
    if not quick:
        for name, changes in ABLATION.items():
            if name not in ablation:
                ablation[name] = fit(X, y, gap, **changes)
                ablation[name].pop("_model")
        for rate in [*RATES, default["rate"] / 3, default["rate"] * 3]:
            sensitivity[f"{rate:.4g}"] = fit(X, y, gap, learning_rate=rate)
            sensitivity[f"{rate:.4g}"].pop("_model")
    return {
        "unigram": gap[0],
        "optimum": gap[1],
        "default": repeats,
        "ablation": ablation,
        "sensitivity": sensitivity,
        "variances": found,
    }


def table(result: dict[str, Any]) -> str:
    runs = result["default"]
    by_seed = ", ".join(
        f"{100 * run['closed']:.2f} % in {run['seconds']:.1f} s (of which "
        f"{run['search_seconds']:.1f} s for the rate {run['rate']:.3g} and the table)"
        for run in runs
    )
    parts = [
        f"Unigram {result['unigram']:.4f}, optimum {result['optimum']:.4f}. The default, 8 epochs, "
        f"gap closed, by seed: {by_seed}."
    ]
    cells = [
        [name, f"{run['rate']:.3g}", f"{run['log_loss']:.4f}", f"{100 * run['closed']:.1f} %",
         f"{run['seconds']:.1f}"]
        for name, run in result["ablation"].items()
    ]  # fmt: skip
    parts.append(markdown(["ablation", "η0", "log-loss", "gap closed", "s"], cells))
    rates = sorted(result["sensitivity"], key=float)
    if rates:
        closed = [f"{100 * result['sensitivity'][rate]['closed']:.1f}" for rate in rates]
        parts.append(markdown(["η0", *rates], [["gap closed, %", *closed]]))
    cells = []
    for when, found in result["variances"].items():
        for name, value in found.items():
            cells.append([f"{name}, {when}", f"{value:.3g}", f"{found['uniform'] / value:.0f}×"])
    parts.append(
        markdown(["variance of the gradient, 5 blocks", "variance", "below uniform"], cells)
    )
    return "\n\n".join(parts)
