"""The default `LinearRegressor()`: loss on test rows, beside searches by scikit-learn.

Squared errors on diabetes and on generated house prices, beside RidgeCV and ElasticNetCV; Poisson's
deviance on generated counts, beside a grid search. Peers get scaled columns, the default those that
come.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import ElasticNetCV, PoissonRegressor, Ridge, RidgeCV
from sklearn.metrics import mean_poisson_deviance, mean_squared_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result
from monro import LinearRegressor

SETS: dict[str, Callable[[], datasets.Data]] = {
    "diabetes": partial(datasets.small, "diabetes"),
    "houses": datasets.houses,
    "counts": datasets.counts,
}
LOSS_BAR = 1.005
DEFAULTS = ("Ridge()", "PoissonRegressor()")
STRENGTHS = np.geomspace(1e-4, 1e4, 17)
SQUARED: dict[str, Callable[[], Any]] = {
    "RidgeCV": lambda: RidgeCV(STRENGTHS),
    "ElasticNetCV": lambda: ElasticNetCV(l1_ratio=[0.1, 0.5, 0.9, 1.0], cv=5, random_state=0),
    "Ridge()": Ridge,
}
POISSON: dict[str, Callable[[], Any]] = {
    "PoissonRegressor, searched": lambda: GridSearchCV(
        PoissonRegressor(max_iter=1000), {"alpha": STRENGTHS}, cv=5
    ),
    "PoissonRegressor()": PoissonRegressor,
}


def cells(quick: bool) -> list[str]:
    return ["diabetes"] if quick else list(SETS)


def measure(name: str, *, quick: bool, limit: float) -> Result:
    data = judging.few(SETS[name](), 300) if quick else SETS[name]()
    loss, judge, peers = "squared", mean_squared_error, SQUARED
    if name == "counts":
        loss, judge, peers = "poisson", mean_poisson_deviance, POISSON
    make = partial(LinearRegressor, loss=loss, random_state=0)
    model, ours = judging.fitted(make, data.X, data.y, repeats=1 if quick else judging.REPEATS)
    ours["loss"] = float(judge(data.test_y, model.predict(data.test_X)))
    found = {}
    for peer, create in peers.items():
        searched = make_pipeline(StandardScaler(), create())
        seconds = judging.seconds_of(lambda: searched.fit(data.X, data.y))  # noqa: B023
        loss_of_peer = float(judge(data.test_y, searched.predict(data.test_X)))
        found[peer] = {"loss": loss_of_peer, "seconds": seconds}
    return {"rows": data.y.size, "judged_by": loss, "ours": ours, "peers": found}


def table(rows: list[Result]) -> str:
    lines, ratios = [], {}
    for row in rows:
        searches = {name: one for name, one in row["peers"].items() if name not in DEFAULTS}
        best = min(found["loss"] for found in searches.values())
        ratios[row["set"]] = row["ours"]["loss"] / best
        learners = {"default": row["ours"]} | row["peers"]
        for name, found in learners.items():
            relative = f"{found['loss'] / best:.4f}"
            line = [f"{row['set']}, {row['judged_by']}", name, f"{found['loss']:.5g}", relative]
            lines.append([*line, f"{found['seconds']:.3g}"])
    header = ["test loss", "learner", "loss", "over the best search's", "s"]
    claim = f"Test loss at most {LOSS_BAR} times that of every search"
    ahead = sentences.defaults_ahead(rows, DEFAULTS, "loss")
    return "\n\n".join([markdown(header, lines), sentences.at_most(claim, ratios, LOSS_BAR), ahead])
