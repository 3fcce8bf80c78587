"""Monitoring a fit: the exact loss of a sample of rows, and checks for divergence.

One sample serves everything that needs an exact loss while training: the search for a learning
rate, the scaling of scores, ``tol``, and the check for divergence.
"""

from typing import Any, NamedTuple

import numpy as np

from monro.errors import DivergenceError
from monro.fitting.run import LabelledRows
from monro.mapped.matrices import load_rows
from monro.rows import Array
from monro.softmax.kernel.state import State
from monro.softmax.metrics import losses
from monro.softmax.model import Weights
from monro.softmax.plan import Plan

_USUAL_SCORES = 1 << 19  # computed for a loss
MOST_SCORES = 1 << 21  # computed for a loss, if the sample would have too few rows otherwise
_ENOUGH_ROWS = 2000
_FEWEST_ROWS, _MOST_ROWS = 200, 20_000
# Explicit steps are diverging if the loss is this many times that of guessing.
_DIVERGED = 100.0


class LossSample(NamedTuple):
    """Rows whose exact loss is measured, and their share of all rows."""

    X: Any  # float64
    codes: Array  # class codes
    weight: Array  # with sum 1
    share: float  # of all rows

    def loss(self, weights: Weights, n_jobs: int = 1, link: str = "softmax") -> float:
        """Return the mean loss of a model."""
        return float(self.weight @ losses(weights, self.X, self.codes, n_jobs, link))


def loss_sample_size(n: int, n_classes: int) -> int:
    """Return the size of a sample of n rows whose exact loss is cheap."""
    size = max(_USUAL_SCORES // n_classes, min(_ENOUGH_ROWS, MOST_SCORES // n_classes))
    return min(n, int(np.clip(size, _FEWEST_ROWS, _MOST_ROWS)))


def sample_for_loss(rows: LabelledRows, n_classes: int) -> LossSample:
    """Return a sample of evenly spread rows, whose labels are class codes."""
    n = rows.y.size
    size = loss_sample_size(n, n_classes)
    chosen = np.linspace(0, n - 1, size).astype(np.int64)
    weight = rows.weight[chosen].astype(np.float64)
    return LossSample(
        load_rows(rows.X, chosen).astype(np.float64, copy=False),
        rows.y[chosen],
        weight / max(weight.sum(), 1e-30),
        size / n,
    )


def largest_loss(n_classes: int) -> float:
    """Return the loss above which a fit is taken to diverge."""
    return float(_DIVERGED * (np.log(n_classes) + 1.0))


def divergence_error(plan: Plan, *, searched: bool) -> DivergenceError:
    """Return the error of a solver that diverged; `searched`: the learning rate was "auto"."""
    other = "" if searched else " or 'auto'"
    return DivergenceError(
        f"solver={plan.solver!r} diverged with learning_rate={plan.eta0:g}: use a smaller "
        f"learning_rate{other}, scale the features, or use solver='implicit', which no "
        "learning rate makes diverge"
    )


def is_finite(state: State) -> bool:
    """Return whether all weights are finite numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(state.W.sum(dtype=np.float64)):
            return bool(np.isfinite(state.bias).all())
    return bool(np.isfinite(state.W).all() and np.isfinite(state.bias).all())
