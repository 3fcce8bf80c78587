"""Epochs of a CRF."""

import time
from typing import Any

import numpy as np

from monro.crf.problem import is_mapped, visiting
from monro.crf.solvers import Solver
from monro.crf.weights import Weights
from monro.fitting import Record, Report, SingleTask, blocks_near, visiting_order
from monro.rows import Array

_PARTS = 20  # of an epoch, to report on
_MAPPED_TOKENS = 1 << 19  # of files to ask the system for together


class Trainer(SingleTask):
    """Takes epochs. Use it in a ``with`` block, which ends the threads.

    Parameters
    ----------
    solver : Solver
    state : SgdState or GainState
        Where to begin.
    shuffle : bool
        Whether each epoch visits the sentences in an order of its own.
    rng : Generator
        Makes the orders.
    epochs : int
        Of earlier fits: averaging begins after the first.
    known : dict
        What else the estimator knows, for `solution`.
    """

    def __init__(
        self,
        solver: Solver,
        state: Any,
        *,
        shuffle: bool,
        rng: np.random.Generator,
        epochs: int = 0,
        known: dict[str, Any] | None = None,
    ):
        super().__init__(rng, solver.n_jobs)
        self.solver = solver
        self.state = state
        self.shuffle = shuffle
        self._before = epochs
        self._known = known or {}
        data = solver.problem.data
        self._mapped = is_mapped(data)

    def weights(self) -> Weights:
        """Return the solution."""
        return self.solver.solution(self.state)

    def solution(self) -> dict[str, Any]:
        """Return the estimator's attributes if it ended here."""
        return {"_weights": self.weights(), "_state": self.state} | self._known

    def _order(self, n: int) -> Array:
        if not self.shuffle:
            return np.arange(n)
        if not self._mapped:  # a sentence is read in one go: neighbours need not stay together
            return self.rng.permutation(n)
        bytes_each = 2.0 * self.solver.problem.data.features.nbytes / n
        return visiting_order(n, self.rng, blocks_near(bytes_each))

    def epoch(self, report: Report = lambda rows: None) -> Record:
        """Take an epoch, reporting sentences as they are done; return its record."""
        begin = time.perf_counter()
        n = self.solver.problem.size
        order = self._order(n)
        averages = self.epochs + self._before > 0
        total = 0.0
        parts = _PARTS if n > 1000 * _PARTS else 1
        if self._mapped:
            tokens = self.solver.problem.y.size
            parts = max(parts, -(-tokens // _MAPPED_TOKENS))
        for part in np.array_split(order, parts):
            with visiting(self.solver.problem, part):
                total += self.solver.sweep(part, self.state, averages, self._pool)
            report(part.size)
        self.epochs += 1
        self.seconds += time.perf_counter() - begin
        return {"epoch": self.epochs, "seconds": self.seconds, "loss": total / n}
