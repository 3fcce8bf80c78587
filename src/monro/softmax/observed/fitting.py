"""Fits of SoftmaxClassifier on observed pairs: the plan, the strength, batches."""

import pathlib
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.fitting.conditioning import (
    AS_GIVEN,
    Conditioning,
    choose_conditioning,
    without_light_penalties,
)
from monro.fitting.epochs import train, train_batch
from monro.fitting.path import (
    PathModel,
    StrengthPath,
    follow_path,
    needs_path,
    resolved_alpha,
    ridge_strengths,
)
from monro.fitting.run import LabelledRows, Run
from monro.fitting.splits import Split, make_splits, pairs_of, times_judged
from monro.mapped.chunked_arrays import chunks
from monro.memory import require_memory
from monro.progress import Progress
from monro.rows import Array, as_rows
from monro.softmax.observed.calibration import judge, uncalibrated
from monro.softmax.observed.kernel import ObservedState
from monro.softmax.observed.losses import independent_labels, joint_softmax
from monro.softmax.observed.pairs import LabelSets, Pairs, observed_pairs
from monro.softmax.observed.problem import ObservedProblem, as_sparse
from monro.softmax.observed.trainer import (
    INDEPENDENT,
    ObservedPlan,
    ObservedTrainer,
    first_state,
    mean_square,
)
from monro.softmax.parameters import refused_for_observed
from monro.softmax.training.continuation import SoftmaxFit
from monro.softmax.training.planning import STREAM_ALPHA, size_of_dense
from monro.softmax.training.problem import in_precision, squared_lengths

STATES = {"Observed": ObservedState}
# Dense weights up to this size are fitted as such: they may also tell apart what was never seen
# together.
COMFORTABLE = 1e9  # bytes

# The first learning rate, for rows with Σ_j |x_j| = 1, and the epochs that many rows take. Both
# were chosen on parts of training sets (docs/decisions/0030).
_RATES = {True: 3.0, False: 24.0}  # by whether labels are independent
# Batches have no time to come back from long first steps.
_STREAM_RATE = 3.0
_EPOCHS = {True: 6, False: 10}
_VISITS = 30_000  # of rows, at least: few rows take more epochs
_PATH_EPOCHS = 3  # of each strength of a path


class Labels(NamedTuple):
    """How the rows' labels are given: one for each row, or sets of them."""

    sets: LabelSets
    counts: Array | None = None  # rows that have each label, and all rows, of a matrix of labels
    independent: bool = False  # whether each label of a row is a question of its own

    def renumbered(self, codes: Array, n_classes: int) -> "Labels":
        """Return the labels with other codes, in the same order."""
        sets = self.sets._replace(codes=codes[self.sets.codes].astype(np.int32))
        counts = np.zeros(n_classes + 1, np.int64)
        assert self.counts is not None
        counts[np.append(codes, n_classes)] = self.counts
        return self._replace(sets=sets, counts=counts)


def takes_observed(estimator: Any, X: Any, n_classes: int) -> tuple[bool, str]:
    """Resolve the parameter `weights`: whether they are of observed pairs only, and why."""
    size, dense = size_of_dense(n_classes, X.shape[1], estimator.dtype)
    if estimator.label_weight == INDEPENDENT:
        return True, "labels are independent"
    if estimator.weights != "auto":
        return estimator.weights == "observed", "as asked for"
    if refused_for_observed(estimator) is not None or not sp.issparse(X):
        return False, dense
    return size > COMFORTABLE, dense


def resolved(estimator: Any, labels: Labels, earlier: SoftmaxFit | None) -> Labels:
    """Resolve whether labels are independent: as in an earlier fit, if there is one."""
    if earlier is not None:
        return labels._replace(independent=earlier.weights.calibration is not None)
    by_default = estimator.label_weight == "auto" and labels.counts is not None
    return labels._replace(independent=by_default or estimator.label_weight == INDEPENDENT)


def make_problem(
    estimator: Any, rows: LabelledRows, labels: Labels, n_classes: int
) -> ObservedProblem:
    """Return the problem of some rows, whose columns are conditioned."""
    X, _ = in_precision(as_sparse(rows.X, estimator.dtype), rows.y, estimator.dtype)
    pairs = observed_pairs(X, rows.y, labels.sets, n_classes, int(estimator.min_pair_count))
    require_memory(
        2 * X.dtype.itemsize * pairs.size,
        f"weights of {pairs.size:,} observed pairs",
        "leave out rare pairs (min_pair_count=2), or use fewer columns or classes",
    )
    independent = labels.independent
    share = not independent and estimator.label_weight != "one"
    make_loss = independent_labels if independent else joint_softmax
    return ObservedProblem(rows._replace(X=X), labels.sets, pairs, n_classes, share, make_loss)


def make_observed_plan(
    estimator: Any,
    problem: ObservedProblem,
    labels: Labels,
    because: str,
    *,
    in_batches: bool = False,
) -> ObservedPlan:
    """Return the plan of a fit."""
    independent, X = labels.independent, problem.rows.X
    rate = estimator.learning_rate
    if isinstance(rate, str):
        times = _STREAM_RATE if in_batches else _RATES[independent]
        rate = times / (mean_length(X) or 1.0)
    enough = max(_EPOCHS[independent], -(-_VISITS // max(problem.size, 1)))
    weight = INDEPENDENT if independent else ("share" if problem.share else "one")
    return ObservedPlan(
        solver=estimator.solver,
        weights="observed",
        because=because,
        pairs=problem.pairs.size,
        label_weight=weight,
        alpha=resolved_alpha(estimator, STREAM_ALPHA),
        l1_ratio=float(estimator.l1_ratio),
        eta0=float(rate),
        epochs=min(int(estimator.max_epochs), enough),
        fit_intercept=bool(estimator.fit_intercept),
        dtype=estimator.dtype,
        strongest=mean_square(X) * X.data.size / max(problem.size, 1),
    )


def mean_length(X: Any) -> float:
    """Return the mean of ``Σ_j |x_j|`` of the rows of a CSR matrix."""
    total = sum(float(np.abs(part).sum(dtype=np.float64)) for part in chunks(X.data))
    return float(total / max(X.shape[0], 1))


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
            run.chosen or _choose_alpha(estimator, run, labels, n_classes, numbers, cv)
        )
    run.hold_out()
    run.conditioning = _conditioning(estimator, run.rows)
    problem = make_problem(estimator, _applied(run.conditioning, run.rows), labels, n_classes)
    held_out = None
    if run.held_out is not None:
        held_out = _applied(run.conditioning, run.held_out)
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
    trainer = ObservedTrainer(
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


def explain(estimator: Any, plan: ObservedPlan) -> str:
    """Return a line that says how each "auto" was resolved and why."""
    parts = [f"weights: {plan.pairs:,} observed pairs of a feature and a class, {plan.because}"]
    if plan.label_weight == INDEPENDENT:
        parts.append("each label of a row for itself")
    if estimator.alpha == "auto" and hasattr(estimator, "alpha_path_"):
        tried = len(estimator.alpha_path_)
        parts.append(f"alpha: {plan.alpha:.3g}, the best of {tried} strengths on rows held out")
    return "; ".join(parts)


def _conditioning(estimator: Any, rows: LabelledRows) -> Conditioning:
    return choose_conditioning(estimator, rows.X, rows.weight, keep_zeros=True)


def _applied(conditioning: Conditioning, rows: LabelledRows) -> LabelledRows:
    return rows._replace(X=conditioning.apply(rows.X))


# ------------------------------------------------------------------------------------ the strength


class ObservedPathModel(PathModel):
    """A model on observed pairs that is fitted with one strength after the other.

    Parameters
    ----------
    estimator : SoftmaxClassifier
    split : Split
        Of conditioned rows.
    labels : Labels
    n_classes, seed, n_jobs : int
    """

    def __init__(
        self,
        estimator: Any,
        split: Split,
        labels: Labels,
        n_classes: int,
        seed: int,
        n_jobs: int,
    ):
        self.n_rows = split.training.y.size
        training = split.training.with_mean_weight_one()
        problem = make_problem(estimator, training, labels, n_classes)
        plan = make_observed_plan(estimator, problem, labels, "")
        self.plan = plan._replace(epochs=min(_PATH_EPOCHS, plan.epochs), strongest=0.0)
        rng = np.random.default_rng([seed, 1])
        state = first_state(problem, plan)
        self.trainer = ObservedTrainer(problem, plan, state, rng=rng, n_jobs=n_jobs)
        self.calibrations: dict[float, Array] = {}  # by alpha·N, of independent labels
        X = as_sparse(split.held_out.X, estimator.dtype)
        self.held_out = split.held_out._replace(X=X)
        self.weight = split.held_out.weight

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        trainer, state = self.trainer, self.trainer.state
        if trainer.epochs:
            # The sums of squared slopes keep what one epoch has added on average.
            state.gain[:] /= self.plan.epochs + 1
            state.bias_gain[:] /= self.plan.epochs + 1
        trainer.plan = self.plan._replace(alpha=alpha)
        trainer.epochs = 0
        for _ in range(self.plan.epochs):
            trainer.epoch()

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""
        trainer, problem = self.trainer, self.trainer.problem
        if self.plan.label_weight == INDEPENDENT:
            X, y, _ = self.held_out
            least = 0.5 / self.n_rows
            weights, n_jobs = trainer.weights(), trainer.n_jobs
            loss, calibration = judge(weights, X, y, problem.sets, least, n_jobs)
            self.calibrations[trainer.plan.alpha * self.n_rows] = calibration
            return loss
        return trainer.loss_of(self.held_out)

    def calibration_at(self, total: float) -> Array:
        """Return the calibration of the strength that is nearest to this alpha·N."""
        nearest = min(self.calibrations, key=lambda tried: abs(np.log(tried / total)))
        return self.calibrations[nearest]

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        return int(np.count_nonzero(self.trainer.state.w))


def _choose_alpha(
    estimator: Any, run: Run, labels: Labels, n_classes: int, numbers: Array, cv: Any
) -> dict[str, Any]:
    """Resolve alpha="auto"; return the attributes to set."""
    rows = _applied(_conditioning(estimator, run.rows), run.rows)
    light = without_light_penalties(estimator, rows.X.shape[1])
    lengths = np.empty(rows.y.size)
    squared_lengths(as_rows(light.apply(rows.X)), lengths)
    strata = estimator._strata(rows.y) if labels.counts is None else None
    splits = make_splits(rows, strata, numbers, run.seed, cv)
    if not splits:
        return StrengthPath(STREAM_ALPHA, [])._asdict()
    # Folds side by side, or threads inside one model.
    n_jobs = estimator._threads()
    each = n_jobs if len(splits) == 1 else 1
    models = [
        ObservedPathModel(estimator, split, labels, n_classes, run.seed, each) for split in splits
    ]
    strengths = ridge_strengths(float(lengths.mean()))
    if labels.independent:  # of labels by the dozen the best penalties are stronger
        strengths = strengths._replace(first=strengths.first - 1)
    with ExitStack() as stack:
        progress = stack.enter_context(
            Progress(estimator.verbose > 0, "strength", strengths.values.size, rows.y.size)
        )
        for model in models:
            stack.enter_context(model.trainer)
        weights = [model.weight for model in models]
        times = times_judged(splits, rows.y.size)
        path = follow_path(
            models, weights, rows.y.size, strengths, progress.step, times=times, n_jobs=n_jobs
        )
    chosen = path._asdict()
    if labels.independent:
        total = path.alpha_ * rows.y.size
        found = [model.calibration_at(total) for model in models]
        chosen["calibration_"] = np.mean(found, axis=0).tolist()
    return chosen


# ----------------------------------------------------------------------- continuing an earlier fit


def merged(earlier: Pairs, new: Pairs) -> tuple[Pairs, Array, Array]:
    """Return the union of pairs, and the places of both in it.

    Examples
    --------
    >>> one = Pairs(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.ones(2, np.float32))
    >>> two = Pairs(np.array([0, 1, 1]), np.array([0], np.int32), np.ones(2, np.float32))
    >>> pairs, first, second = merged(one, two)
    >>> pairs.indptr.tolist(), pairs.classes.tolist(), pairs.rows.tolist()
    ([0, 2, 3], [0, 1, 0], [2.0, 2.0])
    >>> first.tolist(), second.tolist()
    ([1, 2], [0])
    """
    n_features = earlier.indptr.size - 1
    width = np.int64(max(earlier.classes.max(initial=0), new.classes.max(initial=0))) + 1

    def keys(pairs: Pairs) -> Array:
        feature = np.repeat(np.arange(n_features), np.diff(pairs.indptr))
        return np.asarray(feature * width + pairs.classes)

    both = keys(earlier), keys(new)
    union = np.union1d(*both)
    features = np.bincount(union // width, minlength=n_features)
    indptr = np.concatenate([[0], np.cumsum(features)])
    pairs = Pairs(indptr, (union % width).astype(np.int32), earlier.rows + new.rows)
    first, second = (np.searchsorted(union, each) for each in both)
    return pairs, first, second


def continued(
    earlier: SoftmaxFit,
    conditioning: Conditioning,
    pairs: Pairs,
    state: ObservedState,
    codes: Array,
) -> tuple[Pairs, ObservedState]:
    """Return the pairs of an earlier fit and of new rows, and the state to continue from.

    `state` is that of a fit on the new rows alone; `codes` are the earlier classes' new codes.
    """
    weights, kept = earlier.weights, earlier.pairs
    assert kept is not None
    W: Any = weights.W
    old = Pairs(W.indptr.astype(np.int64), codes[W.indices].astype(np.int32), kept.rows)
    union, of_old, of_new = merged(old, pairs)
    dtype = state.w.dtype
    w, gain = np.zeros(union.size, dtype), np.empty(union.size, dtype)
    gain[of_new] = state.gain
    w[of_old], gain[of_old] = W.data, kept.gain
    bias, bias_gain = state.bias.copy(), state.bias_gain.copy()
    bias[codes], bias_gain[codes] = weights.bias, kept.bias_gain
    if conditioning.changes:
        w *= np.repeat(conditioning.scale, np.diff(union.indptr))
        bias[codes] += W @ conditioning.centre
    return union, ObservedState(w, gain, bias, bias_gain)


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
    trainer = ObservedTrainer(
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
