"""Passes over the labels: some sweeps of coordinate descent on each, `one_label.py`."""

import queue
from typing import Any

import numpy as np

from monro.fitting.trainer import Record, Report, no_report
from monro.rows import Array
from monro.softmax.observed.one_label import (
    ByLabel,
    LabelRows,
    Lists,
    Sample,
    Scratch,
    fit_labels,
    new_scratch,
    sort_by_label,
)
from monro.softmax.observed.pairs import Pairs
from monro.softmax.observed.problem import ObservedProblem
from monro.softmax.observed.trainer import FIRST_SLOPE, ObservedTrainer, mean_square

_SWEEPS = 20  # of a pass, at most
SETTLED = 0.01  # of the change that a sweep has made: a smaller one ends the pass
# The entries of the rows near a label, for each entry of its own rows; of labels with very many
# rows fewer, as they take memory.
NEAR_TIMES, _FEWEST_TIMES, _MOST_NEAR = 100, 10, 1 << 21
# Rows of the sample, and for each row of an average label.
_SAMPLE, _SAMPLE_TIMES = 256, 10
_PARTS = 64  # of a pass, at most, for threads and progress


def pairs_by_label(pairs: Pairs, n_classes: int) -> ByLabel:
    """Return the pairs of each label; features that few rows have come first.

    Examples
    --------
    >>> pairs = Pairs(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.array([9.0, 2.0]))
    >>> by_label = pairs_by_label(pairs, 2)
    >>> by_label.indptr.tolist(), by_label.features.tolist(), by_label.places.tolist()
    ([0, 1, 3], [0, 1, 0], [0, 2, 1])
    """
    indptr = np.zeros(n_classes + 1, np.int64)
    np.cumsum(np.bincount(pairs.classes, minlength=n_classes), out=indptr[1:])
    features = np.empty(pairs.size, np.int32)
    places = np.empty(pairs.size, np.uint32 if pairs.size <= 1 << 32 else np.int64)
    rare_first = np.argsort(pairs.rows, kind="stable")
    sort_by_label(rare_first, pairs.indptr, pairs.classes, indptr[:-1].copy(), features, places)
    return ByLabel(indptr, features, places)


class LabelTrainer(ObservedTrainer):
    """Takes passes over the labels, each a problem of its own; all share a sample of the rows."""

    def __init__(self, problem: ObservedProblem, *arguments: Any, **settings: Any):
        super().__init__(problem, *arguments, **settings)
        X, y, weight = problem.rows
        own = problem.sets.of(y, problem.n_classes)
        having, own_rows = _structure(X.tocsc()), _structure(own.tocsc())
        self._data = LabelRows(_lists(X), having, own_rows, weight.astype(X.dtype))
        self._by_label = pairs_by_label(problem.pairs, problem.n_classes)
        self.sweeps, self.settled, self.near_times = _SWEEPS, SETTLED, NEAR_TIMES
        self._n_sampled = min(
            self.size, max(_SAMPLE, _SAMPLE_TIMES * own.nnz // max(problem.n_classes, 1))
        )
        self._own_entries = own.T @ np.diff(X.indptr).astype(np.float64)
        entries = self._own_entries + near_entries(self._own_entries, NEAR_TIMES)
        most = int(min(X.nnz, entries.max(initial=0)))
        features = int(np.diff(self._by_label.indptr).max(initial=0))
        self._scratches: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        for _ in range(self.n_jobs):
            sizes = X.shape[1], self.size, self._n_sampled, most + 1, features
            self._scratches.put(new_scratch(*sizes, X.dtype.name))

    def visit_all(self, report: Report = no_report) -> Record:
        """Take a pass with another sample; the loss is that after it, by its sample."""
        problem, plan, state = self.problem, self.plan, self.state
        number = state.w.dtype.type
        sample, near = self._draw(), near_entries(self._own_entries, self.near_times)
        half = 0.5 * plan.alpha * self.rows_so_far
        strengths = number(half * plan.l1_ratio), number(half * (1.0 - plan.l1_ratio))
        first_gain = number(FIRST_SLOPE * mean_square(problem.rows.X))

        def work(first: int, last: int) -> float:
            scratch = self._scratches.get()
            loss: float = fit_labels(
                first, last, self._data, self._by_label, sample, near, strengths,
                self.sweeps, number(self.settled), plan.fit_intercept, first_gain, state.w,
                state.gain, state.bias, scratch,
            )  # fmt: skip
            self._scratches.put(scratch)
            return loss

        bounds = self._parts(near)
        run = map if self._pool is None else self._pool.map
        total, done = 0.0, 0
        for loss, last in zip(run(work, bounds[:-1], bounds[1:]), bounds[1:], strict=True):
            total += loss
            now = self.size * int(last) // problem.n_classes
            report(now - done)
            done = now
        return {"loss": total / self.size}

    def _draw(self) -> Sample:
        """Draw the rows that stand for those that are not near a label."""
        rows = np.sort(self.rng.choice(self.size, self._n_sampled, replace=False))
        return sample_of(self.problem.rows.X, rows)

    def _parts(self, near: Array) -> Array:
        """Return the bounds of ranges of labels that take about equally long."""
        cost = np.cumsum(self._own_entries + near + self._n_sampled)
        wanted = cost[-1] * np.arange(1, _PARTS) / _PARTS
        inner = np.searchsorted(cost, wanted)
        return np.unique(np.concatenate([[0], inner, [self.problem.n_classes]]))


def near_entries(own: Array, times: int) -> Array:
    """Return how many entries the rows near each label have at most, given those of its own rows.

    Examples
    --------
    >>> near_entries(np.array([10.0, 1e5, 1e6]), 100).tolist()
    [1000, 2097152, 10000000]
    """
    few, many = _FEWEST_TIMES * own, times * own
    return np.asarray(np.minimum(many, np.maximum(few, _MOST_NEAR)), np.int64)


def sample_of(X: Any, rows: Array) -> Sample:
    """Return a sample of these rows, of which each was as likely to be drawn as the others."""
    return Sample(rows, _lists(X[rows].tocsc()), X.dtype.type(X.shape[0] / rows.size))


def _lists(X: Any) -> Lists:
    """Return the arrays of a sparse matrix, as kernels take them."""
    indices = X.indices.astype(np.int32, copy=False).view(np.uint32)
    return Lists(X.data, indices, X.indptr.astype(np.int64, copy=False))


def _structure(X: Any) -> Lists:
    """Return the same without values."""
    return _lists(X)._replace(data=X.data[:0])
