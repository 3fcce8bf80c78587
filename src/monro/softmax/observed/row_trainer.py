"""Epochs of proximal AdaGrad steps on rows."""

from itertools import pairwise
from typing import Any

import numpy as np

from monro.fitting.order import RowOrder, blocks_per_read
from monro.fitting.trainer import Record, Report, no_report
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.page_requests import reading_rows
from monro.rows import Array, Sparse, as_rows
from monro.softmax.observed.kernel import Strengths, visit
from monro.softmax.observed.problem import (
    ObservedProblem,
    scratch_of,
    targets_of,
    visits_per_row,
)
from monro.softmax.observed.trainer import ObservedTrainer

_PARTS = 20  # of an epoch, at least: after each, the intercepts take a step
_FEWEST_ROWS, _MOST_ROWS = 100, 5000  # of a part
# An intercept's step reads a class once for all rows of a part: to be cheap beside the steps of the
# rows, a part has at least so many visits of pairs for each class.
_VISITS_PER_CLASS = 4.0
_BIAS_RATE = 0.3  # relative to that of weights


class RowTrainer(ObservedTrainer):
    """Takes a step on each row; the intercepts take theirs after each part of an epoch."""

    def __init__(self, problem: ObservedProblem, *arguments: Any, **settings: Any):
        super().__init__(problem, *arguments, **settings)
        self._targets = targets_of(problem, problem.rows)
        self._scratches = [scratch_of(problem) for _ in range(self.n_jobs)]
        X = problem.rows.X
        self.adjacent_blocks = 1
        if is_mapped(X):
            row_bytes = (X.dtype.itemsize + 4) * X.data.size / X.shape[0]
            self.adjacent_blocks = blocks_per_read(row_bytes)
        visits = visits_per_row(problem)
        cheap = _VISITS_PER_CLASS * problem.n_classes / max(visits, 1.0)
        usual = np.clip(self.size / _PARTS, _FEWEST_ROWS, _MOST_ROWS)
        self.rows_per_part = int(min(self.size, max(usual, cheap)))

    def restart(self, alpha: float) -> None:
        """Prepare for a fit with another strength that begins with the weights of the last one."""
        if self.epochs:
            # The sums of squared slopes keep what one epoch has added on average.
            self.state.gain[:] /= self.epochs + 1
            self.state.bias_gain[:] /= self.epochs + 1
        super().restart(alpha)

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
