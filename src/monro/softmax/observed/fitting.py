"""Fits of SoftmaxClassifier on observed pairs, and batches."""

import pathlib
from functools import partial
from typing import Any

import numpy as np

from monro.fitting.conditioning import AS_GIVEN
from monro.fitting.epochs import train, train_batch
from monro.fitting.path import needs_path
from monro.fitting.run import LabelledRows, Run
from monro.fitting.splits import pairs_of
from monro.rows import Array
from monro.softmax.observed.calibration import judge, uncalibrated
from monro.softmax.observed.continuing import continued
from monro.softmax.observed.kernel import ObservedState
from monro.softmax.observed.path_model import choose_alpha
from monro.softmax.observed.planning import (
    Labels,
    applied,
    conditioning_of,
    explain,
    make_observed_plan,
    make_problem,
    make_trainer,
    resolved,
)
from monro.softmax.observed.problem import as_sparse
from monro.softmax.observed.trainer import INDEPENDENT, first_state

STATES = {"Observed": ObservedState}


def fit_observed(
    estimator: Any,
    rows: LabelledRows,
    labels: Labels,
    classes: Array,
    checkpoint: str | pathlib.Path | None,
    because: str,
) -> None:
    """Fit an estimator to validated rows, whose targets are numbers of label sets."""
    sets, n_classes = labels.sets, classes.size
    identity = (rows.y, sets.indptr, sets.codes)
    run = Run.start(estimator, rows.without_zero_weights(), checkpoint, STATES, identity)
    earlier = estimator._earlier_observed() if estimator.warm_start else None
    labels = resolved(estimator, labels, earlier)
    if labels.counts is not None:
        run.labels_of = partial(sets.of, n_classes=n_classes)
    if earlier is None:
        estimator._forget()
    estimator.classes_ = classes
    estimator.history_ = []
    if needs_path(estimator, continues=earlier is not None):
        numbers = np.arange(rows.y.size)[np.flatnonzero(rows.weight)]
        cv = pairs_of(estimator.cv, rows.y)
        estimator.__dict__.update(
            run.chosen or choose_alpha(estimator, run, labels, n_classes, numbers, cv)
        )
    run.hold_out()
    run.conditioning = conditioning_of(estimator, run.rows)
    problem = make_problem(estimator, applied(run.conditioning, run.rows), labels, n_classes)
    held_out = None
    if run.held_out is not None:
        held_out = applied(run.conditioning, run.held_out)
        held_out = held_out._replace(X=as_sparse(held_out.X, estimator.dtype))
    plan = make_observed_plan(estimator, problem, labels, because)
    run.most_epochs = plan.epochs
    state = first_state(problem, plan)
    if earlier is not None:
        plan = plan._replace(strongest=0.0)
        codes = np.arange(n_classes)
        pairs, state = continued(earlier, run.conditioning, problem.pairs, state, codes)
        problem = problem._replace(pairs=pairs._replace(rows=problem.pairs.rows))
    calibration = None
    if plan.label_weight == INDEPENDENT:
        chosen = getattr(estimator, "calibration_", None)
        calibration = uncalibrated(problem.size) if chosen is None else np.array(chosen)
    estimator.learning_rate_, estimator.plan_ = plan.eta0, plan._asdict()
    trainer = make_trainer(
        problem,
        plan,
        state,
        held_out=held_out,
        shuffle=bool(estimator.shuffle),
        conditioning=run.conditioning,
        choices=explain(estimator, plan),
        calibration=calibration,
        rng=np.random.default_rng([run.seed, 0]),
        n_jobs=estimator._threads(),
    )
    with trainer:
        train(run, trainer)
        fitted = estimator._fitted._replace(label_counts=labels.counts)
        if calibration is not None and not hasattr(estimator, "calibration_"):
            # No rows were held out for a path: those of early stopping, else the training rows.
            X, y, _ = problem.rows if held_out is None else held_out
            _, own = judge(trainer.weights(), X, y, sets, calibration[-1], trainer.n_jobs)
            fitted = fitted._replace(weights=fitted.weights._replace(calibration=own))
    estimator._fitted = fitted


def partial_fit_observed(
    estimator: Any, rows: LabelledRows, labels: Labels, classes: Array
) -> None:
    """Take one epoch over a batch; pairs of features and classes not seen before get weights."""
    if not rows.weight.any():
        return
    earlier = estimator._earlier_observed()
    labels = resolved(estimator, labels, earlier)
    rows = rows.without_zero_weights()
    if earlier is None:
        estimator.history_ = []
    problem = make_problem(estimator, rows, labels, classes.size)
    because = "as the batches before" if earlier is not None else "as asked for"
    plan = make_observed_plan(estimator, problem, labels, because, in_batches=True)
    plan = plan._replace(epochs=1, strongest=0.0)
    state, pairs, before = first_state(problem, plan), problem.pairs, 0.0
    if earlier is not None:
        # A class not seen before starts with the lowest intercept so far.
        state.bias[:] = earlier.weights.bias.min()
        codes = np.searchsorted(classes, estimator.classes_)
        pairs, state = continued(earlier, AS_GIVEN, pairs, state, codes)
        before = float(earlier.pairs.n_rows[0])
    problem = problem._replace(pairs=pairs)
    counts = labels.counts
    if earlier is not None and earlier.label_counts is not None:
        if counts is None:  # one label a row
            counts = np.append(np.bincount(rows.y, minlength=classes.size), rows.y.size)
        counts[np.append(codes, classes.size)] += earlier.label_counts
    calibration = None
    if plan.label_weight == INDEPENDENT:
        kept = None if earlier is None else earlier.weights.calibration
        calibration = uncalibrated(problem.size) if kept is None else kept
    trainer = make_trainer(
        problem,
        plan,
        state,
        shuffle=bool(estimator.shuffle),
        calibration=calibration,
        rows_before=before,
        rng=np.random.default_rng([estimator._seed(), int(before)]),
        n_jobs=estimator._threads(),
    )
    with trainer:
        train_batch(estimator, trainer)
    estimator.learning_rate_, estimator.plan_ = plan.eta0, plan._asdict()
    estimator.classes_ = classes
    estimator._fitted = estimator._fitted._replace(label_counts=counts)
