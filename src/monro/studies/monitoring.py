"""Measurements of a model during its fit: after epochs, or several times in an epoch."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import clone

from monro.errors import DivergenceError
from monro.fitting.order import visiting_order
from monro.linear.algorithms.solver_base import Solver
from monro.linear.problem import Problem
from monro.studies.study import Tick


class EpochMonitor:
    """A callback that measures a model after some of its epochs.

    The recorded seconds are training time, without that of the measurements.

    Parameters
    ----------
    measure : function of a fitted model
        Returns the measurements, by name.
    tick : function of a share
        Called with the share of the fit that is done.
    at : collection of int, optional
        The epochs after which to measure. By default all.
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
        """Do nothing; part of the callback protocol."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the callback protocol."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing; part of the callback protocol."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Measure the model, if this is the end of an epoch in `at`."""
        if context.task_name != "epoch":
            return False
        record = estimator.history_[-1]
        epoch = record["epoch"]
        if self.at is None or epoch in self.at:
            values = self.measure(fitted_estimator)  # if this fails, no partial point is added
            self._add({"epochs": epoch, "seconds": record["seconds"]} | values)
        self.tick(epoch / estimator.max_epochs)
        return False

    def _add(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.curve.setdefault(name, []).append(value)


def _compile(model: Any, X: Any, y: Any) -> None:
    """Compile the kernels by a small fit, so that measured seconds do not include the compiler."""
    small = clone(model).set_params(max_epochs=2)  # averaging starts in the second epoch
    with suppress(DivergenceError):
        small.fit(X[:200], y[:200])


def fit_monitored(
    model: Any,
    measure: Callable[[Any], dict[str, float]],
    tick: Tick,
    X: Any,
    y: Any,
    *,
    points: int | None = None,
) -> dict[str, Any]:
    """Fit a model; return measurements at evenly spaced epochs, and whether it diverged."""
    epochs = model.max_epochs
    _compile(model, X, y)
    at = None if points is None else {round(epochs * k / points) for k in range(1, points + 1)}
    monitor = EpochMonitor(measure, tick, at)
    try:
        model.set_callbacks(monitor).fit(X, y)
    except DivergenceError:
        return monitor.curve | {"diverged": True}
    return monitor.curve | {"diverged": False}


def fit_unobserved(model: Any, X: Any, y: Any) -> bool:
    """Fit a model without callbacks; return False if it diverged.

    With callbacks its loss is measured after each epoch, which takes longer than the epoch for
    probit and logistic links.
    """
    _compile(model, X, y)
    try:
        model.fit(X, y)
    except DivergenceError:
        return False
    return True


def sweep_monitored(
    problem: Problem,
    solver: Solver,
    measure: Callable[[Any], dict[str, Any]],
    tick: Tick,
    *,
    epochs: int,
    points: int,
    seed: int = 0,
) -> dict[str, Any]:
    """Run a linear solver; return measurements of its state at evenly spaced points of epochs.

    The seed determines the order of the rows.
    """
    rng = np.random.default_rng(seed)
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
