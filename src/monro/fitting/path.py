"""alpha="auto": a path of penalties from strong to weak, judged on rows that are held out.

Each fit of the path starts where the last one ended, so it needs few epochs. Strengths are compared
as ``alpha·N``, the weight of the penalty against the sum of the losses: it carries over from the
rows that are fitted on the path to all of them. Units are those of the mean squared length of the
rows, so that the path does not depend on the scale of the features.

With few rows a single hold-out is too noisy to choose by: they are split into folds, which take the
path side by side, and every row is judged once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from monro.fitting.run import CHOSEN, LabelledRows
from monro.mapped.chunked_arrays import is_mapped
from monro.rows import Array

MOST_STRENGTHS = 13
_STRONGEST_RIDGE = 100.0  # alpha·N, in units of the mean squared length of the rows
_RIDGE_FACTOR = 10.0**0.5  # between neighbours
_LASSO_FACTOR, _MOST_LASSO = 10.0**0.25, 17
_FEW_ROWS = 3000  # with fewer, folds
_FOLDS = 5
_FEWEST_JUDGED, _MOST_JUDGED = 1000, 20_000
_CLEARLY = 2.0  # standard errors by which a loss must exceed the least one to end the path
# The path also ends when two strengths in a row have changed the loss by less than this part of it,
# once it has fallen by a hundred times as much: weaker penalties make no difference.
_FLAT, _FALLEN = 1e-4, 1e-2


class PathModel(Protocol):
    """A model of the training rows of one split."""

    @property
    def n_rows(self) -> float:
        """The number of rows that it is fitted to."""

    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""

    def losses(self) -> Array:
        """Return the loss of each row that is held out."""

    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""


class Parameter(NamedTuple):
    """The parameter that sets the strength: its name, and its value for ``alpha`` and N rows."""

    name: str
    of: Callable[[float, float], float]


ALPHA = Parameter("alpha", lambda alpha, n_rows: alpha)


def ridge_strengths(unit: float, strongest: float = _STRONGEST_RIDGE) -> Array:
    """Return strengths ``alpha·N``, from strong to weak, for rows of this mean squared length."""
    factors: Array = _RIDGE_FACTOR ** -np.arange(MOST_STRENGTHS)
    return strongest * (unit or 1.0) * factors


def lasso_strengths(strongest: float) -> Array:
    """Return strengths ``alpha·N``, beginning with the weakest one that leaves no weight."""
    factors: Array = _LASSO_FACTOR ** -np.arange(_MOST_LASSO)
    return (strongest or 1.0) * factors


def resolved_alpha(estimator: Any, of_streams: float) -> float:
    """Return alpha, or what "auto" was resolved to.

    `partial_fit`, which sees no rows to compare strengths by, takes that of the fit it continues,
    or a fixed one.
    """
    if estimator.alpha != "auto":
        return float(estimator.alpha)
    return float(getattr(estimator, "alpha_", of_streams))


def needs_path(estimator: Any, *, continues: bool, parameter: str = "alpha") -> bool:
    """Return whether the parameter is "auto" and to be resolved; forget what was chosen before.

    A fit that `continues` an earlier one has its strength.
    """
    auto = bool(getattr(estimator, parameter) == "auto")
    if auto and continues and hasattr(estimator, "alpha_"):
        return False
    for name in CHOSEN:
        estimator.__dict__.pop(name, None)
    return auto


class Split(NamedTuple):
    """The rows of one fit of the path, and those that judge it."""

    training: LabelledRows
    held_out: LabelledRows


class StrengthPath(NamedTuple):
    """The strength chosen and what it was chosen by: the attributes of estimators."""

    alpha_: float
    alpha_path_: list[dict[str, Any]]  # alpha, mean, standard_error, nonzeros: strong to weak


def make_splits(
    rows: LabelledRows,
    strata: Array | None,
    numbers: Array | None,
    seed: int,
    cv: Any = None,
) -> list[Split]:
    """Return the splits of a path: by default folds of few rows, one hold-out of many.

    There is none if all rows must stay together.

    Parameters
    ----------
    rows : LabelledRows
    strata : array, optional
        Labels of which each part should have its share.
    numbers : array, optional
        The row of the data that each of `rows` was made of. Those of the same row stay together,
        and the indices that `cv` gives are these numbers.
    seed : int
    cv : int, splitter or iterable, optional
        The number of folds, a splitter of scikit-learn, or pairs of indices to train and to judge.
    """
    n = rows.y.size
    judged = min(n // 2, max(_FEWEST_JUDGED, min(n // 10, _MOST_JUDGED)))
    if is_mapped(rows.X) and n > 1:
        if cv is not None:
            raise ValueError("cv is for rows in memory: of a store the last rows are held out")
        return [Split(*rows.split_mapped(n - judged))]
    if cv is not None and not isinstance(cv, Integral):
        return [_take(rows, *pair) for pair in _given_pairs(cv, rows, numbers)]
    few = n < _FEW_ROWS or cv is not None
    most = n if numbers is None else np.unique(numbers).size
    folds = min(int(cv or _FOLDS) if few else n // judged, most)
    if folds < 2:
        return []
    if strata is not None and np.unique(strata, return_counts=True)[1].min() < folds:
        strata = None
    if numbers is not None and most < n:
        kind: Any = GroupKFold
    else:
        kind, numbers = (KFold if strata is None else StratifiedKFold), None
    splitter = kind(folds, shuffle=True, random_state=seed)
    parts = islice(splitter.split(np.zeros(n), strata, numbers), folds if few else 1)
    return [_take(rows, *pair) for pair in parts]


def _take(rows: LabelledRows, training: Array, held_out: Array) -> Split:
    return Split(rows.take(np.sort(training)), rows.take(np.sort(held_out)))


def _given_pairs(cv: Any, rows: LabelledRows, numbers: Array | None) -> list[tuple[Array, Array]]:
    """Return the pairs of a splitter or an iterable, as indices of `rows`."""
    numbers = np.arange(rows.y.size) if numbers is None else numbers
    units, first, unit = np.unique(numbers, return_index=True, return_inverse=True)
    if hasattr(cv, "split"):
        pairs = cv.split(np.zeros((units.size, 1)), rows.y[first])
    else:
        pairs = [tuple(np.flatnonzero(np.isin(units, part)) for part in pair) for pair in cv]
    found = [
        (np.flatnonzero(np.isin(unit, training)), np.flatnonzero(np.isin(unit, judged)))
        for training, judged in pairs
    ]
    if not found or any(part.size == 0 for pair in found for part in pair):
        raise ValueError("cv: give pairs of indices, of rows to train on and of rows to judge by")
    return found


def follow_path(
    models: Sequence[PathModel],
    weights: Sequence[Array],
    n_rows: float,
    strengths: Array,
    say: Callable[[str], None],
    *,
    keep: Callable[[], None] = lambda: None,
    n_jobs: int = 1,
    parameter: Parameter = ALPHA,
) -> StrengthPath:
    """Fit with weaker and weaker penalties, until the loss of the rows held out rises or is flat.

    Parameters
    ----------
    models : sequence of PathModel
        One for each split.
    weights : sequence of arrays
        The weights of the rows that each model is judged by.
    n_rows : float
        The rows that the strength chosen is for.
    strengths : array
        Those to try, as ``alpha·N``, from strong to weak.
    say : callable
        Shows what came of a strength.
    keep : callable
        Is called whenever the fits are the best so far.
    n_jobs : int
        The number of splits to fit at a time.
    parameter : Parameter
        The records have its value, besides alpha.
    """
    share = np.concatenate(weights)
    share = share / share.sum()
    path: list[dict[str, Any]] = []
    best: Array = np.zeros(0)  # losses at the best strength so far

    def losses_at(total: float) -> Array:
        def refit(model: PathModel) -> Array:
            model.refit(total / model.n_rows)
            return model.losses()

        if n_jobs == 1 or len(models) == 1:
            return np.concatenate([refit(model) for model in models])
        with ThreadPoolExecutor(min(n_jobs, len(models))) as pool:
            return np.concatenate(list(pool.map(refit, models)))

    for k, total in enumerate(strengths.tolist()):
        losses = losses_at(total)
        mean = float(share @ losses)
        if not np.isfinite(mean):
            break  # a weaker penalty would diverge as well
        value = parameter.of(total / n_rows, n_rows)
        path.append(
            {
                parameter.name: value,
                "alpha": total / n_rows,
                "mean": mean,
                "standard_error": standard_error(losses, share),
                "nonzeros": max(model.count_nonzeros() for model in models),
            }
        )
        say(f"{parameter.name} {value:.3g}  loss held out {mean:.5g}")
        least = _least(path)
        if least == k:
            best = losses
            keep()
        # One weaker neighbour may be worse by chance.
        elif k > least + 1:
            rise = losses - best
            if share @ rise > _CLEARLY * standard_error(rise, share):
                break
        if is_flat([record["mean"] for record in path]):
            break
    if not path:
        name = parameter.name
        raise ValueError(f"{name}='auto': no strength gives a finite loss; give {name} a number")
    return StrengthPath(between_neighbours(path), path)


def is_flat(means: Sequence[float]) -> bool:
    """Return whether the last losses of a path are the same, after they had fallen.

    Examples
    --------
    >>> is_flat([2.0, 1.0, 1.00001, 1.00002]), is_flat([2.0, 2.0, 2.0]), is_flat([2.0, 1.0, 0.9])
    (True, False, False)
    """
    *before, last = means
    if len(before) < 2 or not before[0] - last > _FALLEN * abs(last):
        return False
    return max(abs(before[-1] - last), abs(before[-2] - before[-1])) < _FLAT * abs(last)


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
