"""The path of strengths that alpha="auto" compares (`monro.fitting.path`), on observed pairs."""

from contextlib import ExitStack
from typing import Any

import numpy as np

from monro.fitting.conditioning import without_light_penalties
from monro.fitting.path import PathModel, StrengthPath, follow_path, ridge_strengths
from monro.fitting.run import Run
from monro.fitting.splits import Split, make_splits, times_judged
from monro.fitting.watching import watched_rows
from monro.progress import Progress
from monro.rows import Array, as_rows
from monro.softmax.observed.calibration import judge
from monro.softmax.observed.label_trainer import NEAR_TIMES, SETTLED, LabelTrainer
from monro.softmax.observed.planning import (
    Labels,
    applied,
    conditioning_of,
    make_observed_plan,
    make_problem,
    make_trainer,
)
from monro.softmax.observed.problem import as_sparse
from monro.softmax.observed.trainer import INDEPENDENT, first_state
from monro.softmax.training.planning import STREAM_ALPHA
from monro.softmax.training.problem import squared_lengths

_PATH_EPOCHS = 3  # of each strength
# Of one label after the other: entries of the rows near a label for each of its own, and when
# sweeps end. The same strengths are best as with the values of whole fits.
_PATH_TIMES, _PATH_SETTLED = 30, 0.1
# Rows held out that the strength of independent labels is judged by, by their best labels.
_MOST_JUDGED = 5000


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
        self.trainer = make_trainer(problem, self.plan, state, rng=rng, n_jobs=n_jobs)
        if isinstance(self.trainer, LabelTrainer):
            self.trainer.near_times, self.trainer.settled = _PATH_TIMES, _PATH_SETTLED
        held_out = split.held_out
        if plan.label_weight == INDEPENDENT and held_out.y.size > _MOST_JUDGED:
            held_out = held_out.take(watched_rows(held_out.y.size, _MOST_JUDGED))
        self.held_out = held_out._replace(X=as_sparse(held_out.X, estimator.dtype))
        self.weight = held_out.weight

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        self.trainer.restart(alpha)
        for _ in range(self.plan.epochs):
            self.trainer.epoch()

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""
        if self.plan.label_weight == INDEPENDENT:
            return self._judge()[0]
        return self.trainer.loss_of(self.held_out)

    def calibration_at(self, alpha: float) -> Array:
        """Return what makes probabilities of the scores of independent labels, of this strength."""
        trainer = self.trainer
        if isinstance(trainer, LabelTrainer):  # as all rows will be fitted
            trainer.near_times, trainer.settled = NEAR_TIMES, SETTLED
            trainer.state.w[:] = 0.0
        self.refit(alpha)
        return self._judge()[1]

    def _judge(self) -> tuple[Array, Array]:
        trainer = self.trainer
        X, y, _ = self.held_out
        sets, least = trainer.problem.sets, 0.5 / self.n_rows
        return judge(trainer.weights(), X, y, sets, least, trainer.n_jobs)

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        return int(np.count_nonzero(self.trainer.state.w))


def choose_alpha(
    estimator: Any, run: Run, labels: Labels, n_classes: int, numbers: Array, cv: Any
) -> dict[str, Any]:
    """Resolve alpha="auto"; return the attributes to set."""
    rows = applied(conditioning_of(estimator, run.rows), run.rows)
    light = without_light_penalties(estimator, rows.X.shape[1])
    lengths = np.empty(rows.y.size)
    squared_lengths(as_rows(light.apply(rows.X)), lengths)
    strata = estimator._strata(rows.y) if labels.counts is None else None
    splits = make_splits(rows, strata, numbers, run.seed, cv, may_fold=not labels.independent)
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
        strengths = strengths._replace(first=strengths.first - 2)
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
            found = [model.calibration_at(total / model.n_rows) for model in models]
            chosen["calibration_"] = np.mean(found, axis=0).tolist()
    return chosen
