"""alpha="auto": a path of penalties from strong to weak, judged on rows that are held out.

Each fit of the path starts where the last one ended, so it needs few epochs. Strengths are compared
as ``alpha·N``, the weight of the penalty against the sum of the losses: it carries over from the
rows that are fitted on the path to all of them. Units are those of the mean squared length of the
rows, so that the path does not depend on the scale of the features.

With few rows a single hold-out is too noisy to choose by: they are split into folds, which take the
path side by side, and every row is judged once.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from monro.fitting.run import LabelledRows
from monro.mapped.chunked_arrays import is_mapped
from monro.rows import Array

MOST_STRENGTHS = 13
STRONGEST = 100.0  # alpha·N, in units of the mean squared length of the rows
_FACTOR = 10.0**0.5  # between neighbours
_FEW_ROWS = 3000  # with fewer, folds
_FOLDS = 5
_FEWEST_JUDGED, _MOST_JUDGED = 1000, 20_000
_CLEARLY = 2.0  # standard errors by which a loss must exceed the least one to end the path


class PathModel(Protocol):
    """A model of the training rows of one split."""

    n_rows: int

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""


class Split(NamedTuple):
    """The rows of one fit of the path, and those that judge it."""

    training: LabelledRows
    held_out: LabelledRows


class Path(NamedTuple):
    """The strength chosen, and what the choice was made by."""

    alpha: float
    records: list[dict[str, Any]]  # alpha, mean, standard_error, nonzeros: strong to weak


def make_splits(
    rows: LabelledRows, strata: Array | None, groups: Array | None, seed: int
) -> list[Split]:
    """Return the splits of a path: folds of few rows, one hold-out of many.

    Parameters
    ----------
    rows : LabelledRows
    strata : array, optional
        Labels of which each part should have its share.
    groups : array, optional
        Rows of equal numbers stay together, as the examples made of one row with several labels.
    seed : int
    """
    n = rows.y.size
    judged = min(n // 2, max(_FEWEST_JUDGED, min(n // 10, _MOST_JUDGED)))
    if is_mapped(rows.X) and n > 1:
        return [Split(*rows.split_mapped(n - judged))]
    few = n < _FEW_ROWS
    most = n if groups is None else np.unique(groups).size
    folds = min(_FOLDS if few else n // judged, most)
    if folds < 2:
        raise ValueError(f"alpha='auto' needs rows to hold out, X has {n}: give alpha a number")
    if strata is not None and np.unique(strata, return_counts=True)[1].min() < folds:
        strata = None
    parts = _splitter(folds, strata, groups, seed).split(np.zeros(n), strata, groups)
    return [
        Split(rows.take(np.sort(training)), rows.take(np.sort(held_out)))
        for training, held_out in islice(parts, folds if few else 1)
    ]


def _splitter(folds: int, strata: Array | None, groups: Array | None, seed: int) -> Any:
    if groups is not None:
        return GroupKFold(folds, shuffle=True, random_state=seed)
    kind = KFold if strata is None else StratifiedKFold
    return kind(folds, shuffle=True, random_state=seed)


def follow_path(
    models: Sequence[PathModel],
    weights: Sequence[Array],
    n_rows: int,
    unit: float,
    say: Callable[[str], None],
) -> Path:
    """Fit with weaker and weaker penalties, until the loss of the rows held out clearly rises.

    Parameters
    ----------
    models : sequence of PathModel
        One for each split.
    weights : sequence of arrays
        The weights of the rows that each model is judged by.
    n_rows : int
        The rows that the strength chosen is for.
    unit : float
        The mean squared length of the rows.
    say : callable
        Shows a line.
    """
    share = np.concatenate(weights)
    share = share / share.sum()
    path: list[dict[str, Any]] = []
    best: Array = np.zeros(0)  # losses at the best strength so far
    for k in range(MOST_STRENGTHS):
        total = STRONGEST * (unit or 1.0) / _FACTOR**k
        for model in models:
            model.refit(total / model.n_rows)
        losses = np.concatenate([model.losses() for model in models])
        mean = float(share @ losses)
        if not np.isfinite(mean):
            break  # a weaker penalty would diverge as well
        path.append(
            {
                "alpha": total / n_rows,
                "mean": mean,
                "standard_error": standard_error(losses, share),
                "nonzeros": max(model.count_nonzeros() for model in models),
            }
        )
        say(
            f"strength {k + 1} of at most {MOST_STRENGTHS}: alpha {total / n_rows:.3g}, "
            f"loss held out {mean:.5g}"
        )
        least = _least(path)
        if least == k:
            best = losses
        # One weaker neighbour may be worse by chance.
        elif k > least + 1:
            rise = losses - best
            if share @ rise > _CLEARLY * standard_error(rise, share):
                break
    if not path:
        raise ValueError("alpha='auto': no strength gives a finite loss; give alpha a number")
    return Path(between_neighbours(path), path)


def standard_error(values: Array, share: Array) -> float:
    """Return the standard error of a weighted mean; the weights have sum 1.

    Examples
    --------
    >>> standard_error(np.array([1.0, 3.0]), np.array([0.5, 0.5]))  # of 2
    1.0
    """
    distance = values - share @ values
    count = max(1.0 / float(share @ share), 2.0)  # of rows that count
    return float(np.sqrt(share**2 @ distance**2 * count / (count - 1.0)))


def between_neighbours(path: list[dict[str, Any]]) -> float:
    """Return the least strength of the parabola through the best one and its neighbours.

    It makes the choice finer than the path, and steadier from seed to seed.

    Examples
    --------
    >>> path = [{"alpha": a, "mean": (np.log10(a) + 2.2) ** 2} for a in (0.1, 0.01, 0.001)]
    >>> round(between_neighbours(path) * 10**2.2, 6)
    1.0
    """
    k = _least(path)
    if k in (0, len(path) - 1):
        return float(path[k]["alpha"])
    x = np.log([record["alpha"] for record in path[k - 1 : k + 2]])
    stronger, least, weaker = (record["mean"] for record in path[k - 1 : k + 2])
    bend = stronger - 2.0 * least + weaker
    shift = 0.5 * (weaker - stronger) / bend if bend > 0.0 else 0.0
    return float(np.exp(x[1] + shift * (x[0] - x[2]) / 2.0))


def _least(path: list[dict[str, Any]]) -> int:
    return int(np.argmin([record["mean"] for record in path]))
