"""What a fit on observed pairs does, with every "auto" resolved."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.fitting.conditioning import Conditioning, choose_conditioning
from monro.fitting.path import resolved_alpha
from monro.fitting.run import LabelledRows
from monro.mapped.chunked_arrays import chunks, is_mapped
from monro.mapped.matrices import count_used_columns
from monro.memory import has_room, require_memory
from monro.rows import Array
from monro.softmax.observed.label_trainer import LabelTrainer
from monro.softmax.observed.losses import independent_labels, joint_softmax
from monro.softmax.observed.pairs import LabelSets, observed_pairs
from monro.softmax.observed.problem import ObservedProblem, as_sparse
from monro.softmax.observed.row_trainer import RowTrainer
from monro.softmax.observed.trainer import INDEPENDENT, ObservedPlan, ObservedTrainer, mean_square
from monro.softmax.parameters import refused_for_observed
from monro.softmax.training.continuation import SoftmaxFit
from monro.softmax.training.planning import STREAM_ALPHA, size_of_dense
from monro.softmax.training.problem import in_precision

# Dense weights up to this size are fitted as such: they may also tell apart what was never seen
# together.
COMFORTABLE = 1e9  # bytes

# The first learning rate, for rows with Σ_j |x_j| = 1, and the epochs that many rows take. How
# they were chosen: docs/decisions/0030.
_RATES = {True: 3.0, False: 24.0}  # by whether labels are independent
# Batches have no time to come back from long first steps.
_STREAM_RATE = 3.0
_EPOCHS = {True: 6, False: 10}
_VISITS = 300_000  # of rows, at least: few rows take more epochs
_VISITS_BY_LABEL = 2_000  # in passes over labels; of more rows one pass is enough


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
    if estimator.alpha != "auto":  # such fits are as they have always been, if they are possible
        if has_room(size):
            return False, dense
        used, _ = size_of_dense(n_classes, count_used_columns(X), estimator.dtype)
        return not has_room(used), dense
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
    # One label after the other needs all rows at once, and has no rate.
    alone = independent and not in_batches and estimator.learning_rate == "auto"
    by_label = alone and not is_mapped(X)
    fewest, visits = (1, _VISITS_BY_LABEL) if by_label else (_EPOCHS[independent], _VISITS)
    enough = max(fewest, -(-visits // max(problem.size, 1)))
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
        by_label=by_label,
        strongest=0.0 if by_label else mean_square(X) * X.data.size / max(problem.size, 1),
    )


def make_trainer(
    problem: ObservedProblem, plan: ObservedPlan, *arguments: Any, **settings: Any
) -> ObservedTrainer:
    """Return the trainer of the plan's method."""
    kind = LabelTrainer if plan.by_label else RowTrainer
    return kind(problem, plan, *arguments, **settings)


def mean_length(X: Any) -> float:
    """Return the mean of ``Σ_j |x_j|`` of the rows of a CSR matrix."""
    total = sum(float(np.abs(part).sum(dtype=np.float64)) for part in chunks(X.data))
    return float(total / max(X.shape[0], 1))


def explain(estimator: Any, plan: ObservedPlan) -> str:
    """Return a line that says how each "auto" was resolved and why."""
    parts = [f"weights: {plan.pairs:,} observed pairs of a feature and a class, {plan.because}"]
    if plan.label_weight == INDEPENDENT:
        parts.append("each label of a row for itself")
    if estimator.alpha == "auto" and hasattr(estimator, "alpha_path_"):
        tried = len(estimator.alpha_path_)
        parts.append(f"alpha: {plan.alpha:.3g}, the best of {tried} strengths on rows held out")
    return "; ".join(parts)


def conditioning_of(estimator: Any, rows: LabelledRows) -> Conditioning:
    """Return what is done to the columns before they are fitted."""
    return choose_conditioning(estimator, rows.X, rows.weight, keep_zeros=True)


def applied(conditioning: Conditioning, rows: LabelledRows) -> LabelledRows:
    """Return the rows with conditioned columns."""
    return rows._replace(X=conditioning.apply(rows.X))
