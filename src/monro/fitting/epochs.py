"""The epoch loop: history, callbacks, progress, checkpoints and stopping."""

from itertools import repeat
from typing import Any

import numpy as np

from monro.fitting.convergence import warn_unless_converged
from monro.fitting.run import CHOSEN, Run
from monro.fitting.trainer import Record, Trainer
from monro.progress import Progress
from monro.saving.states import copy_of

_PATIENCE = 3  # epochs without improvement


class Stopper:
    """Tracks a loss: whether it is the best so far, and whether it has stopped improving."""

    def __init__(self, tol: float | None):
        self.tol = tol or 0.0
        self.best = np.inf
        self.idle = 0  # epochs in a row that improved by less than tol

    def improved(self, loss: float) -> bool:
        """Record a loss; return whether it is the best so far."""
        better = loss < self.best
        self.idle = 0 if loss < self.best - self.tol else self.idle + 1
        self.best = min(self.best, loss)
        return better

    @property
    def exhausted(self) -> bool:
        """Whether the last epochs brought no improvement."""
        return self.idle >= _PATIENCE


def train(run: Run, trainer: Trainer) -> None:
    """Take epochs: until there are enough, nothing changes any more, or a callback stops it.

    With `tol` or a hold-out they also end when the loss stops improving.

    With a hold-out, the model of the epoch with the lowest validation loss is kept, in one copy.
    Sets ``history_``, ``n_iter_`` and the attributes that the trainer returns. Warns if there were
    clearly too few epochs.
    """
    estimator, checkpoint = run.estimator, run.checkpoint
    monitor = _monitor(run, trainer)
    stopper = Stopper(estimator.tol)
    best: list[Any] | None = None
    stop = False
    estimator.history_ = []

    context = estimator._init_callback_context(max_subtasks=run.epochs)
    y = run.rows.y
    if has_callbacks(estimator):
        y = (run.labels_of or estimator._labels)(y)
    seen = {"estimator": estimator, "X": run.rows.X, "y": y}
    solution = {"reconstruction_attributes": trainer.solution}
    context.call_on_fit_task_begin(**seen)
    epochs, verbose = run.epochs, estimator.verbose > 0
    with Progress(verbose, trainer.title, epochs, trainer.rows_per_epoch) as progress:
        if checkpoint is not None and checkpoint.found:
            best = checkpoint.restore(trainer)
            stopper.best, stopper.idle = checkpoint.about("best_loss"), checkpoint.about("idle")
            estimator.history_, stop = checkpoint.about("history"), checkpoint.about("stopped")
            progress.say(f"resumes after epoch {trainer.epochs} of {checkpoint.path}")
        elif trainer.choices:
            progress.say(trainer.choices)
        while trainer.epochs < epochs and not stop:
            subcontext = context.subcontext(task_name="epoch")
            subcontext.call_on_fit_task_begin(**seen)
            record = trainer.epoch(progress.part) | _measure(run, trainer)
            if trainer.choices and not estimator.history_:
                record["chosen"] = trainer.choices
            estimator.history_.append(record)
            progress.epoch(record)
            stop = bool(subcontext.call_on_fit_task_end(**seen, **solution)) or trainer.is_settled
            if monitor is not None:
                if stopper.improved(record[monitor]) and run.held_out is not None:
                    best = list(map(copy_of, trainer.states, best or repeat(None)))
                stop |= stopper.exhausted
            if checkpoint is not None:
                notes = {
                    "seed": run.seed,
                    "history": estimator.history_,
                    "stopped": stop,
                    "best_loss": stopper.best,
                    "idle": stopper.idle,
                    "chosen": {
                        name: getattr(estimator, name)
                        for name in CHOSEN
                        if hasattr(estimator, name)
                    },
                }
                checkpoint.save(notes, trainer, best, now=stop or trainer.epochs == epochs)
    last = estimator.history_[-1]
    if _needs_objective(run) and estimator.tol is None and trainer.samples_objective:
        last[trainer.objective_name] = trainer.exact_objective()
    if best is not None:
        trainer.states = best
        last["held_out_loss"] = trainer.held_out_loss()
    # A warm start continues by a few epochs at a time, as `partial_fit` does. Those on a cluster
    # have none.
    warm_start = getattr(estimator, "warm_start", False)
    trial = None if stop or warm_start else trainer.try_step()
    estimator.n_iter_ = len(estimator.history_)
    estimator.__dict__.update(trainer.finish(last))
    warn_unless_converged(run, trial)
    context.call_on_fit_task_end(**seen, **solution)


def train_batch(estimator: Any, trainer: Trainer) -> None:
    """Take one more epoch, as `partial_fit` does, and append it to the estimator's history."""
    history = getattr(estimator, "history_", [])
    record = trainer.epoch() | {"epoch": len(history) + 1}
    estimator.__dict__.update(trainer.finish(record))
    estimator.history_ = [*history, record]
    estimator.n_iter_ = len(estimator.history_)


def has_callbacks(estimator: Any) -> bool:
    """Return whether there are callbacks to call."""
    return hasattr(estimator, "_skl_callbacks")


def _needs_objective(run: Run) -> bool:
    """Return whether the objective is needed after each epoch."""
    estimator = run.estimator
    return estimator.tol is not None or estimator.verbose > 0 or has_callbacks(estimator)


def _measure(run: Run, trainer: Trainer) -> Record:
    """Return the measurements to record after each epoch."""
    record: Record = {}
    if _needs_objective(run):
        exact = run.estimator.tol is not None
        record[trainer.objective_name] = trainer.exact_objective() if exact else trainer.objective()
    if run.held_out is not None:
        record["validation_loss"] = trainer.validation_loss()
    return record


def _monitor(run: Run, trainer: Trainer) -> str | None:
    """Return the name of the loss that decides when to stop; None if no loss does."""
    if run.held_out is not None:
        return "validation_loss"
    return trainer.objective_name if run.estimator.tol is not None else None
