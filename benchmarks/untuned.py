"""The default `SoftmaxClassifier()` against the papers' solvers tuned by hand, on six data sets.

Train log-losses are exact, after 50 epochs. Hand tuning tries each solver in several forms, at
several rates that decay as in the papers; where a fit takes minutes, only promising ones. Then
the default is run over four decades of η0. The benchmark is about losses: the seconds were measured
while another benchmark ran.
"""

import time
from typing import Any

import numpy as np

from benchmarks import datasets, harness
from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS
from monro import SoftmaxClassifier
from monro.errors import DivergenceError

Settings = dict[str, Any]
RATES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
MANY = 1000  # with more classes a fit takes minutes
PAPER: Settings = {"epoch_decay": 0.9}


def candidates(n_classes: int) -> list[tuple[Settings, list[float]]]:
    """Return the settings that hand tuning tries, each with its rates."""
    every = min(16 * -(-n_classes // 16), 352)
    exact: Settings = {"solver": "exact"}
    tries: list[tuple[Settings, list[float]]] = []
    for form in ("difference", "raman"):
        for m in sorted({16, min(64, every), every}):
            sampling = "frequency" if m < n_classes else "block"
            implicit = {"solver": "implicit", "formulation": form, "sampling": sampling}
            rates = [10.0, 100.0, 1000.0] if m <= 64 else [30.0, 100.0, 300.0, 1000.0]
            tries.append((implicit | {"classes_per_step": m}, rates))
    if n_classes > MANY:
        best_form, rates = tries[2]
        return [(best_form, rates[-1:]), (exact, [30.0, 100.0, 300.0])]
    tries.append((exact, [3.0, 10.0, 30.0, 100.0, 300.0]))
    tries.append(({"solver": "sco"}, [0.3, 1.0, 3.0, 10.0]))
    tries.append(({"solver": "umax"}, [0.03, 0.1, 0.3, 1.0]))
    tries.append(({"solver": "ove"}, [3.0, 10.0, 30.0, 100.0]))
    shared = {"solver": "importance", "classes_per_step": min(n_classes - 1, 200)}
    tries.append((shared | {"examples_per_step": 10}, [100.0, 1000.0]))
    return tries


def fit(data: datasets.Data, **settings: Any) -> tuple[dict[str, Any], SoftmaxClassifier]:
    """Return the result (without a log-loss if the fit diverged) and the model."""
    model = SoftmaxClassifier(**{"alpha": 0.0, "random_state": 0} | settings)
    begin = time.perf_counter()
    try:
        model.fit(data.X, data.y)
    except DivergenceError:
        return {"log_loss": None, "seconds": None, "rate": settings["learning_rate"]}, model
    seconds = time.perf_counter() - begin
    loss = model.log_loss(data.X, data.y)
    return {"log_loss": loss, "seconds": seconds, "rate": model.learning_rate_}, model


def tuned(data: datasets.Data, n_classes: int, quick: bool) -> list[dict[str, Any]]:
    """Return the results of hand tuning, the best first."""
    found = []
    for settings, rates in candidates(n_classes)[-2:] if quick else candidates(n_classes):
        for rate in rates[:1] if quick else rates:
            epochs = {"max_epochs": 2} if quick else {}
            one, _ = fit(data, **PAPER | settings | epochs, learning_rate=rate)
            found.append({"settings": settings} | one)
    return sorted(found, key=lambda one: np.inf if one["log_loss"] is None else one["log_loss"])


def compare(name: str, data: datasets.Data, quick: bool = False) -> dict[str, Any]:
    """Return results of the default, of hand tuning, and of the default at other rates."""
    epochs = {"max_epochs": 2} if quick else {}
    n_classes = np.unique(data.y).size
    fit(data, max_epochs=1)  # compiles
    repeats = [fit(data, **epochs, random_state=seed) for seed in range(1 if quick else 3)]
    rates = RATES[-1:] if quick else RATES[:: 2 if n_classes > MANY else 1]
    return {
        "set": name,
        "default": [one for one, _ in repeats],
        "chosen": repeats[0][1].history_[0]["chosen"],
        "hand": tuned(data, n_classes, quick),
        "sensitivity": {
            f"{rate:g}": fit(data, **epochs, learning_rate=rate)[0]["log_loss"] for rate in rates
        },
    }


def run(*, quick: bool) -> dict[str, Any]:
    results = []
    for name, load in SETS.items():
        if not quick or name == "Bibtex":
            results.append(compare(name, load(), quick))
            harness.save("untuned", {"results": results}, quick=quick)
    return {"results": results}


def table(result: dict[str, Any]) -> str:
    cells = []
    for row in result["results"]:
        best = row["hand"][0]
        settings = ", ".join(str(value) for value in best["settings"].values())
        ours = sorted(row["default"], key=lambda one: float(one["log_loss"]))[
            len(row["default"]) // 2
        ]
        cells.append(
            [
                row["set"],
                f"{ours['log_loss']:.5f}",
                f"{ours['rate']:.3g}",
                f"{ours['seconds']:.1f}",
                f"{best['log_loss']:.5f}",
                f"{settings} at {best['rate']:g}",
                f"{best['seconds']:.1f}",
                f"{ours['log_loss'] / best['log_loss']:.3f}",
            ]
        )
    header = ["train log-loss, 50 epochs", "default", "η0", "s"]
    header += ["best by hand", "which", "s", "ratio"]
    parts = [markdown(header, cells)]
    rates = list(result["results"][0]["sensitivity"])
    cells = []
    for row in result["results"]:
        curve = row["sensitivity"]
        cells.append([row["set"], *(f"{curve[r]:.4g}" if r in curve else "" for r in rates)])
    parts.append(markdown(["train log-loss, default, η0 →", *rates], cells))
    return "\n\n".join(parts)
