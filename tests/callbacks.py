"""Callbacks for fits: one that records events, one that ends the fit."""

import pytest


class Callback:
    """A callback of scikit-learn's protocol that does nothing."""

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass


class Recorder:
    """Records all events; stops the fit after the epoch `stop_at`, if given."""

    def __init__(self, stop_at=None):
        self.events = []
        self.stop_at = stop_at

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name, context.task_id))
        return context.task_name == "epoch" and context.task_id == self.stop_at


def expected_events(epochs):
    """Return the events that a Recorder records of a fit with `epochs` epochs."""
    events = [("setup", "fit"), ("begin", "fit", 0)]
    for k in range(epochs):
        events += [("begin", "epoch", k), ("end", "epoch", k)]
    return [*events, ("end", "fit", 0), ("teardown", "fit")]


class KilledError(Exception):
    pass


class KillAfter(Callback):
    """Raises an exception after some epochs."""

    def __init__(self, epochs):
        self.epochs = epochs

    def on_fit_task_end(self, estimator, context):
        if len(estimator.history_) > self.epochs:
            raise KilledError
        return False


def killed_after(epochs, model, X, y, path, weight=None):
    """Run a fit with a checkpoint that fails after some epochs."""
    with pytest.raises(KilledError):
        model.set_callbacks(KillAfter(epochs)).fit(X, y, weight, checkpoint=path)
