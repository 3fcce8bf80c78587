"""Epochs of implicit steps on mini-batches (paper 000, appendix F.3)."""

import numpy as np

from monro.fitting.trainer import Report, no_report
from monro.rows import Array
from monro.softmax.training.minibatch_step import make_batches, ridge_of_batches, take_step
from monro.softmax.training.trainer import SoftmaxTrainer


class MinibatchTrainer(SoftmaxTrainer):
    """Takes implicit steps on mini-batches, whose rows are the same in every epoch."""

    def _borders(self, n: int) -> list[int]:
        return [0, n]

    def visit(self, order: Array, rate: float, report: Report = no_report) -> float:
        """Step on the batches of `order`; return the sum of the examples' local variables."""
        problem, plan, state = self.problem, self.plan, self.state
        n_classes = problem.n_classes
        if not hasattr(self, "_batches"):
            self._batches = make_batches(problem.X, problem.y, plan.examples)
            self._ridge_of_batch = ridge_of_batches(
                self._batches, n_classes, plan.classes, plan.alpha
            )
        bias = state.bias[:n_classes]
        visited = np.unique(order // plan.examples)
        for k in self.rng.permutation(visited) if self.shuffle else visited:
            batch = self._batches[k]
            others = np.setdiff1d(np.arange(n_classes), batch.labels)
            drawn = self.rng.choice(others, min(plan.classes, others.size), replace=False)
            take_step(
                batch,
                drawn,
                state.W,
                bias,
                state.u,
                problem.weight,
                rate,
                self._ridge_of_batch,
                plan.damping,
            )
            report(batch.rows.size)
        return float(state.u[order].sum(dtype=np.float64))
