"""The models of the path of strengths that alpha="auto" compares (`monro.fitting.path`)."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from monro.blocks import LANES
from monro.fitting.path import (
    PathModel,
)
from monro.fitting.run import LabelledRows, Run
from monro.fitting.splits import (
    Split,
)
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import load_rows
from monro.rows import Array
from monro.softmax.metrics import losses
from monro.softmax.training.planning import ends_by_descent

_EPOCHS_SHARE = 10  # a fit of the path takes one in 10 of the epochs of a whole fit
# The rate is searched for with this alpha·N, in units of the mean squared length of the rows. The
# best rates of strong penalties are smaller, about in inverse proportion to their strength.
_SEARCHED = 0.1
_LARGEST_SHRINKAGE = 0.03  # rate times alpha
_MOST_SCORES = 1 << 27  # computed to judge a strength
_FEWEST_ROWS = 500
_MOST_SUMS = 1 << 24  # of the rows of a class, at a time


def path_solver(estimator: Any, X: Any, n_classes: int) -> str:
    """Return the solver of the fits of a path.

    Where coordinate descent finishes a fit, it makes those of the path alone: a fit that starts
    where that of the last strength ended needs no stochastic steps.
    """
    descends = ends_by_descent(estimator, n_classes) and not is_mapped(X)
    return "coordinate" if descends else str(estimator.solver)


def strongest_l1(rows: LabelledRows, n_classes: int, fit_intercept: bool) -> float:
    """Return the least factor of ``‖W‖₁`` for which all weights are 0 at the optimum.

    It is the largest derivative of the mean loss in a weight, where all weights are 0.
    """
    counts = np.bincount(rows.y, rows.weight, minlength=n_classes)
    shares = counts / counts.sum() if fit_intercept else np.full(n_classes, 1.0 / n_classes)
    chunk = max(1, _MOST_SUMS // rows.X.shape[1])
    largest = 0.0
    total = rows.X.T @ rows.weight
    for first in range(0, n_classes, chunk):
        last = min(first + chunk, n_classes)
        mine = np.flatnonzero((rows.y >= first) & (rows.y < last))
        X, y = load_rows(rows.X, mine), rows.y[mine] - first
        of_class = sp.csr_matrix(
            (rows.weight[mine], (y, np.arange(mine.size))), (last - first, mine.size)
        )
        sums = of_class @ X
        sums = sums.toarray() if sp.issparse(sums) else sums
        largest = max(largest, float(np.abs(sums - np.outer(shares[first:last], total)).max()))
    return largest / float(counts.sum())


class SoftmaxPathModel(PathModel):
    """A SoftmaxClassifier that is fitted with one strength after the other.

    Parameters
    ----------
    estimator : SoftmaxClassifier
        Its other parameters are used.
    split : Split
    classes : array
    seed : int
    unit : float
        The mean squared length of the rows.
    """

    def __init__(self, estimator: Any, split: Split, classes: Array, seed: int, unit: float):
        self.n_rows = split.training.y.size
        self.training = split.training
        self.classes = classes
        self.model = clone(estimator).set_params(
            solver=path_solver(estimator, split.training.X, classes.size),
            alpha=_SEARCHED * (unit or 1.0) / self.n_rows,
            scale=False,  # the rows are conditioned already
            penalty_factor=None,
            max_epochs=max(1, -(-int(estimator.max_epochs) // _EPOCHS_SHARE)),
            tol=None,
            early_stopping=False,
            warm_start=True,
            random_state=seed,
            verbose=0,
        )
        self.model.set_callbacks()
        self.model.n_features_in_ = estimator.n_features_in_
        X, y, weight = split.held_out
        most = max(_FEWEST_ROWS, _MOST_SCORES // classes.size)
        chosen = np.linspace(0, y.size - 1, min(most, y.size)).astype(np.int64)
        self.X, self.y, self.weight = load_rows(X, chosen), y[chosen], weight[chosen]
        self.rate: float | None = None  # if it is searched for
        if estimator.learning_rate == "auto" and self.model._traits.takes_rate:
            self._search_rate(seed)

    def _search_rate(self, seed: int) -> None:
        """Search for one learning rate, which all fits of the path use."""
        model = self.model
        model.classes_ = self.classes
        with model._trainer(Run(model, self.training.with_mean_weight_one(), seed), None):
            pass
        self.rate = model.learning_rate_

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""
        self.model.alpha = alpha
        if self.rate:
            ridge = max(alpha * (1.0 - self.model.l1_ratio), 1e-30)
            self.model.learning_rate = min(self.rate, _LARGEST_SHRINKAGE / ridge)
        self.model._fit(self.training, self.classes, None)
        # The rate falls to 0 in every fit of the path, not once in all of them.
        self.model._fitted = self.model._fitted._replace(epochs=0)

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""
        model = self.model
        return losses(model._fitted.weights, self.X, self.y, model._threads(), model.link)

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""
        W, slots = self.model._fitted.weights.W, self.model._fitted.weights.slots
        if W.ndim == 2:
            return sum(int(np.count_nonzero(W[slot])) for slot in slots)
        blocks, lanes = np.divmod(slots, LANES)
        used = [(block, lanes[blocks == block]) for block in np.unique(blocks)]
        return sum(int(np.count_nonzero(W[block][:, of_block])) for block, of_block in used)
