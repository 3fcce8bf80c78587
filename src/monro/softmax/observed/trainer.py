"""What all fits on observed pairs have in common: the plan, the first state, the results."""

from typing import Any, NamedTuple

import numpy as np

from monro.errors import DivergenceError
from monro.fitting.conditioning import AS_GIVEN, Conditioning
from monro.fitting.run import LabelledRows
from monro.fitting.trainer import Record, Trainer
from monro.fitting.watching import watched_rows
from monro.mapped.chunked_arrays import chunks
from monro.mapped.matrices import load_rows
from monro.rows import Array
from monro.softmax.model import Weights
from monro.softmax.observed.kernel import ObservedState
from monro.softmax.observed.problem import (
    ObservedProblem,
    row_losses,
    visits_per_row,
    weights_of,
)
from monro.softmax.training.continuation import PairsState, SoftmaxFit
from monro.softmax.training.initial import first_intercepts

INDEPENDENT = "independent"  # label_weight
_FALLING = 0.5  # the part of a fit in which the penalty falls to its strength
# The sums of squared slopes begin with what a slope of about a third would give, so that the first
# steps are not as long as if every slope were large.
FIRST_SLOPE, _FIRST_BIAS_SLOPE = 0.1, 0.01  # squared
_WATCHED = 0.05  # the share of the rows whose loss is measured after each epoch
_FEWEST_WATCHED, _MOST_VISITS = 1000, 1e9  # rows; pairs that they visit


class ObservedPlan(NamedTuple):
    """The settings of a fit."""

    solver: str
    weights: str  # "observed"
    because: str
    pairs: int
    label_weight: str
    alpha: float
    l1_ratio: float
    eta0: float
    epochs: int
    fit_intercept: bool
    dtype: str
    by_label: bool  # one label after the other, instead of steps on rows
    strongest: float  # the penalty on the sum over all rows that a fit begins with; 0: its own

    def rate_at(self, t: float) -> float:
        """Return the learning rate after t epochs: it falls to 0."""
        return self.eta0 * max(0.0, 1.0 - t / self.epochs)

    def strength_at(self, t: float, n_rows: float) -> float:
        """Return the strength of the penalty, on the sum over all rows, after t epochs.

        It falls to its value in the first part of a fit, as on a path. Else the long steps of the
        beginning would lead to weights that a weak penalty does not bring back.
        """
        last = self.alpha * n_rows
        falling = 1.0 - t / (_FALLING * self.epochs)
        if not 0.0 < last < self.strongest or falling <= 0.0:
            return last
        return float(last * (self.strongest / last) ** falling)


def first_state(problem: ObservedProblem, plan: ObservedPlan) -> ObservedState:
    """Return zero weights, with the intercepts that are best for these."""
    counts = np.zeros(problem.n_classes)
    codes = problem.sets.codes
    sizes = np.diff(problem.sets.indptr)
    of_set = np.bincount(problem.rows.y, problem.rows.weight, minlength=sizes.size)
    each = np.repeat(of_set / np.maximum(sizes, 1) if problem.share else of_set, sizes)
    counts += np.bincount(codes, each, minlength=problem.n_classes)
    bias, _ = first_intercepts(counts, plan.fit_intercept)
    if plan.label_weight == INDEPENDENT and plan.fit_intercept:
        # Of a squared hinge with targets of 1 and -1: their mean.
        bias = 2.0 * np.minimum(counts / problem.rows.weight.sum(), 1.0) - 1.0
    square = mean_square(problem.rows.X)
    n, dtype = problem.pairs.size, plan.dtype
    return ObservedState(
        np.zeros(n, dtype),
        np.full(n, FIRST_SLOPE * square, dtype),
        bias.astype(dtype),
        np.full(problem.n_classes, _FIRST_BIAS_SLOPE, dtype),
    )


def mean_square(X: Any) -> float:
    """Return the mean square of the entries of a CSR matrix; 1 if there are none."""
    total = sum(float(np.square(part, dtype=np.float64).sum()) for part in chunks(X.data))
    return total / X.data.size if total else 1.0


class ObservedTrainer(Trainer):
    """Takes epochs on one problem, from a state; `visit_all` is that of a method.

    Parameters
    ----------
    problem : ObservedProblem
    plan : ObservedPlan
    state : ObservedState
        Changed in place.
    held_out : LabelledRows, optional
        As the problem's rows.
    shuffle : bool
        Whether each epoch visits the rows in a new order.
    conditioning : Conditioning
        Of the columns of all these rows.
    choices : str
        How "auto" was resolved, as text.
    calibration : array, optional
        Makes probabilities of the scores of independent labels.
    rows_before : float
        Rows of earlier batches.
    rng, n_jobs
        As in `Trainer`.
    """

    samples_objective = True
    state: ObservedState

    def __init__(
        self,
        problem: ObservedProblem,
        plan: ObservedPlan,
        state: ObservedState,
        *,
        held_out: LabelledRows | None = None,
        shuffle: bool = True,
        conditioning: Conditioning = AS_GIVEN,
        choices: str = "",
        calibration: Array | None = None,
        rows_before: float = 0.0,
        rng: np.random.Generator,
        n_jobs: int = 1,
    ):
        super().__init__(rng, n_jobs)
        self.problem = problem
        self.plan = plan
        self.state = state
        self.held_out = held_out
        self.shuffle = shuffle
        self.conditioning = conditioning
        self.choices = choices
        self.calibration = calibration
        self.rows_before = rows_before
        self.title = "observed pairs"
        independent = plan.label_weight == INDEPENDENT
        self.objective_name = "squared_hinge" if independent else "log_loss"
        self.size = self.rows_per_epoch = problem.size

    def restart(self, alpha: float) -> None:
        """Prepare for a fit with another strength that begins with the weights of the last one."""
        self.plan = self.plan._replace(alpha=alpha)
        self.epochs = 0

    def check(self, record: Record) -> None:
        """Raise DivergenceError if weights are not finite."""
        state = self.state
        if not np.isfinite(record["loss"]) or not np.isfinite(state.bias).all():
            rate = f" with learning_rate={self.plan.eta0:g}: use a smaller one, or 'auto', or"
            how = ":" if self.plan.by_label else rate
            raise DivergenceError(f"the weights overflow{how} scale the features")

    # ------------------------------------------------------------------------------- measurements

    def loss_of(self, rows: LabelledRows) -> Array:
        """Return the loss of each row."""
        return row_losses(self.problem, self.state, rows)

    def objective(self) -> float:
        """Return the loss of some of the training rows."""
        return self._mean(self._some(self.problem.rows))

    def validation_loss(self) -> float:
        """Return the loss of some of the rows held out."""
        assert self.held_out is not None
        return self._mean(self._some(self.held_out))

    def held_out_loss(self) -> float:
        """Return the loss of all rows held out."""
        assert self.held_out is not None
        return self._mean(self.held_out)

    def _mean(self, rows: LabelledRows) -> float:
        return float(np.average(self.loss_of(rows), weights=rows.weight))

    def _some(self, rows: LabelledRows) -> LabelledRows:
        affordable = _MOST_VISITS / max(visits_per_row(self.problem), 1.0)
        most = min(max(_FEWEST_WATCHED, _WATCHED * self.size), max(affordable, 1.0))
        chosen = watched_rows(rows.y.size, most)
        if chosen.size == rows.y.size:
            return rows
        return LabelledRows(load_rows(rows.X, chosen), rows.y[chosen], rows.weight[chosen])

    # ------------------------------------------------------------------------------------ results

    def weights(self) -> Weights:
        """Return the current weights, for conditioned columns."""
        return weights_of(self.problem.pairs, self.state)

    @property
    def rows_so_far(self) -> float:
        """The rows of this batch and of those before."""
        return self.rows_before + self.size

    def solution(self) -> dict[str, Any]:
        """Return the attributes of an estimator with the current weights."""
        problem, state = self.problem, self.state
        weights = self.weights()
        if self.conditioning.changes:
            of_pair = np.repeat(self.conditioning.scale, np.diff(problem.pairs.indptr))
            W: Any = weights.W.copy()
            W.data = (W.data / of_pair).astype(W.data.dtype)
            moved = W @ self.conditioning.centre
            weights = weights._replace(W=W, bias=weights.bias.astype(np.float64) - moved)
        pairs = PairsState(
            state.gain, state.bias_gain, problem.pairs.rows, np.array([self.rows_so_far])
        )
        if self.calibration is not None:
            weights = weights._replace(calibration=self.calibration)
        return {"_fitted": SoftmaxFit(weights, scaled=self.conditioning.changes, pairs=pairs)}
