"""Epochs of proximal AdaGrad steps on the weights of observed pairs."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from monro.errors import DivergenceError
from monro.fitting.conditioning import AS_GIVEN, Conditioning
from monro.fitting.order import RowOrder, blocks_per_read
from monro.fitting.run import LabelledRows
from monro.fitting.trainer import Record, Report, Trainer, no_report
from monro.fitting.watching import watched_rows
from monro.mapped.chunked_arrays import chunks, is_mapped
from monro.mapped.matrices import load_rows
from monro.mapped.page_requests import reading_rows
from monro.rows import Array, Sparse, as_rows
from monro.softmax.model import Weights
from monro.softmax.observed.kernel import ObservedState, Strengths, visit
from monro.softmax.observed.problem import (
    ObservedProblem,
    row_losses,
    scratch_of,
    targets_of,
    weights_of,
)
from monro.softmax.training.continuation import PairsState, SoftmaxFit
from monro.softmax.training.initial import first_intercepts

INDEPENDENT = "independent"  # label_weight
_FALLING = 0.5  # the part of a fit in which the penalty falls to its strength
_PARTS = 20  # of an epoch, at least: after each, the intercepts take a step
_FEWEST_ROWS, _MOST_ROWS = 100, 5000  # of a part
# An intercept's step reads a class once for all rows of a part: to be cheap beside the steps of the
# rows, a part has at least so many visits of pairs for each class.
_VISITS_PER_CLASS = 4.0
_BIAS_RATE = 0.3  # relative to that of weights
# The sums of squared slopes begin with what a slope of about a third would give, so that the first
# steps are not as long as if every slope were large.
_FIRST_SLOPE, _FIRST_BIAS_SLOPE = 0.1, 0.01  # squared
_WATCHED = 0.05  # the share of the rows whose loss is measured after each epoch
_FEWEST_WATCHED = 1000


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
        np.full(n, _FIRST_SLOPE * square, dtype),
        bias.astype(dtype),
        np.full(problem.n_classes, _FIRST_BIAS_SLOPE, dtype),
    )


def mean_square(X: Any) -> float:
    """Return the mean square of the entries of a CSR matrix; 1 if there are none."""
    total = sum(float(np.square(part, dtype=np.float64).sum()) for part in chunks(X.data))
    return total / X.data.size if total else 1.0


class ObservedTrainer(Trainer):
    """Takes epochs on one problem, from a state.

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
        self._targets = targets_of(problem, problem.rows)
        self._scratches = [scratch_of(problem) for _ in range(n_jobs)]
        X = problem.rows.X
        self.adjacent_blocks = 1
        if is_mapped(X):
            row_bytes = (X.dtype.itemsize + 4) * X.data.size / X.shape[0]
            self.adjacent_blocks = blocks_per_read(row_bytes)
        visits = visits_per_row(problem)
        cheap = _VISITS_PER_CLASS * problem.n_classes / max(visits, 1.0)
        usual = np.clip(self.size / _PARTS, _FEWEST_ROWS, _MOST_ROWS)
        self.rows_per_part = int(min(self.size, max(usual, cheap)))

    # ----------------------------------------------------------------------------------- an epoch

    def visit_all(self, report: Report = no_report) -> Record:
        """Visit all rows once; the loss is that before each step."""
        n = self.size
        order = RowOrder(n, self.rng, self.adjacent_blocks) if self.shuffle else np.arange(n)
        total, rate = 0.0, self.plan.rate_at(self.epochs)
        parts = -(-n // self.rows_per_part)
        for start, stop in pairwise(n * k // parts for k in range(parts + 1)):
            total += self._visit(order[start:stop], self.epochs + start / n)
            report(stop - start)
        return {"loss": total / n, "rate": rate}

    def _visit(self, order: Array, t: float) -> float:
        """Step on some rows after t epochs, then on the intercepts; return the sum of losses."""
        problem, plan, state = self.problem, self.plan, self.state
        number, rate = state.w.dtype.type, self.plan.rate_at(t)
        total = plan.strength_at(t, self.rows_so_far)
        strengths = Strengths(
            number(total * plan.l1_ratio), number(total * (1.0 - plan.l1_ratio)), number(rate)
        )
        loss, outside = problem.make_loss(state.bias)
        X = problem.rows.X
        rows = Sparse(*as_rows(X))
        nothing = np.empty(0)

        def work(part: Array, scratch: Any) -> tuple[float, float]:
            found: tuple[float, float] = visit(
                rows, part, problem.pairs, self._targets, loss, outside, strengths, state,
                scratch, nothing,
            )  # fmt: skip
            return found

        run = map if self._pool is None else self._pool.map
        threads = min(self.n_jobs, order.size)
        with reading_rows(X, order, problem.rows.y, self._targets.weight):
            found = list(run(work, np.array_split(order, threads), self._scratches))
        if plan.fit_intercept:
            slope = outside.unit * sum(m for _, m in found)
            for scratch in self._scratches:
                slope += scratch.bias_slope
            state.bias_gain[:] += slope * slope
            state.bias[:] -= number(_BIAS_RATE * rate) * slope / np.sqrt(state.bias_gain)
        for scratch in self._scratches:
            scratch.bias_slope[:] = 0.0
        return sum(value for value, _ in found)

    def check(self, record: Record) -> None:
        """Raise DivergenceError if weights are not finite."""
        state = self.state
        if not np.isfinite(record["loss"]) or not np.isfinite(state.bias).all():
            raise DivergenceError(
                f"the weights overflow with learning_rate={self.plan.eta0:g}: use a smaller one, "
                "or 'auto', or scale the features"
            )

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
        chosen = watched_rows(rows.y.size, max(_FEWEST_WATCHED, _WATCHED * self.size))
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


def visits_per_row(problem: ObservedProblem) -> float:
    """Return the mean number of pairs that a step of the problem's rows visits."""
    pairs = problem.pairs
    return float(np.diff(pairs.indptr) @ pairs.rows.astype(np.float64)) / max(problem.size, 1)
