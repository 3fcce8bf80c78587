"""Look at a model while it is fitted: after epochs, or more often."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import clone

from monro.errors import DivergenceError
from monro.fitting import visiting_order
from monro.linear.solvers import Problem, Solver
from monro.studies.study import Tick


class Watch:
    """A callback that measures a model after some of its epochs.

    The seconds are those of training alone.

    Parameters
    ----------
    measure : function of a fitted model
        Returns what is to be kept.
    tick : function of a share
        Told how far the fit is.
    at : collection of int, optional
        The epochs to measure after; by default all.
    """

    def __init__(
        self,
        measure: Callable[[Any], dict[str, float]],
        tick: Tick,
        at: Collection[int] | None = None,
    ):
        self.measure = measure
        self.tick = tick
        self.at = at
        self.curve: dict[str, list[float | None]] = {"epochs": [], "seconds": []}

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing: the protocol wants it."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing: the protocol wants it."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: the protocol wants it."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Measure, if this is the end of an epoch to measure after."""
        if context.task_name != "epoch":
            return False
        record = estimator.history_[-1]
        epoch = record["epoch"]
        if self.at is None or epoch in self.at:
            found = self.measure(fitted_estimator)  # which may fail: a point is whole or not there
            self._add({"epochs": epoch, "seconds": record["seconds"]} | found)
        self.tick(epoch / estimator.max_epochs)
        return False

    def _add(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.curve.setdefault(name, []).append(value)


def _compile(model: Any, X: Any, y: Any) -> None:
    """Have the kernels compiled, so that no fit's seconds are those of the compiler."""
    small = clone(model).set_params(max_epochs=2)  # averages begin with the second
    with suppress(DivergenceError):
        small.fit(X[:200], y[:200])


def watched(
    model: Any,
    measure: Callable[[Any], dict[str, float]],
    tick: Tick,
    X: Any,
    y: Any,
    *,
    points: int | None = None,
) -> dict[str, Any]:
    """Fit a model; return its curve, at evenly spaced epochs, and whether it diverged."""
    epochs = model.max_epochs
    _compile(model, X, y)
    at = None if points is None else {round(epochs * k / points) for k in range(1, points + 1)}
    watch = Watch(measure, tick, at)
    try:
        model.set_callbacks(watch).fit(X, y)
    except DivergenceError:
        return watch.curve | {"diverged": True}
    return watch.curve | {"diverged": False}


def swept(
    problem: Problem,
    solver: Solver,
    measure: Callable[[Any], dict[str, Any]],
    tick: Tick,
    *,
    epochs: int,
    points: int,
) -> dict[str, Any]:
    """Run a linear solver; measure its state at evenly spaced points of each epoch."""
    rng = np.random.default_rng(0)
    state = solver.start()
    found: dict[str, list[Any]] = {"epochs": []}
    for epoch in range(epochs):
        state = solver.begin_epoch(state)
        order = visiting_order(problem.examples.y.size, rng)
        for k, part in enumerate(np.array_split(order, points)):
            solver.sweep(part, state)
            found["epochs"].append(epoch + (k + 1) / points)
            for name, value in measure(state).items():
                found.setdefault(name, []).append(value)
        tick((epoch + 1) / epochs)
    return found
