"""Which rows a path of strengths fits, and which it judges by.

With few rows a single hold-out is too noisy to choose by: they are split into folds, which take the
path side by side, and every row is judged once; of very few rows more than once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from monro.fitting.run import LabelledRows
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import slice_mapped_rows
from monro.rows import Array

_FEW_ROWS, _FOLDS_OF_FEW, _FOLDS = 3000, 5, 3
_ENOUGH_JUDGED = 5000  # rows: if fewer can be held out, folds
_MOST_REPEATS, _REPEATED_ROWS = 8, 1000  # folds are drawn again while fewer rows have been judged
_FEWEST_JUDGED, _MOST_JUDGED = 1000, 20_000
_ENOUGH_PER_FEATURE, _ENOUGH = 50, 3000  # rows to fit: so many tell strengths apart
# Where at most so many rows are enough to fit, three folds of these and a tenth of all rows (but at
# least so many) take about as long as one hold-out, or little beside the whole fit.
_CHEAP, _FEWEST_BESIDE = 10_000, 4000


@dataclass(frozen=True)
class Split:
    """The rows of one fit of the path, and those that judge it, copied when they are asked for."""

    rows: LabelledRows
    fitted: Any  # the numbers of those that are fitted; of a store a slice
    judged: Any

    @cached_property
    def training(self) -> LabelledRows:
        """The rows that are fitted."""
        return _part(self.rows, self.fitted)

    @cached_property
    def held_out(self) -> LabelledRows:
        """The rows that judge the fit."""
        return _part(self.rows, self.judged)


def rows_to_compare(n: int, n_features: int) -> int:
    """Return how many of n rows strengths are compared on at most, those fitted and those judged.

    Examples
    --------
    >>> rows_to_compare(30_000, 1000), rows_to_compare(30_000, 100)
    (70000, 9000)
    """
    return rows_to_fold(n, n_features) or _enough_to_fit(n_features) + _MOST_JUDGED


def rows_to_fold(n: int, n_features: int) -> int:
    """Return how many of n rows to split into folds, even if enough could be held out once.

    0 if the features are too many: then folds cost too much.

    Examples
    --------
    >>> [rows_to_fold(n, 100) for n in (30_000, 100_000, 1_000_000)], rows_to_fold(30_000, 1000)
    ([9000, 15000, 25000], 0)
    """
    enough = _enough_to_fit(n_features)
    beside = min(max(_FEWEST_BESIDE, n // 10), _MOST_JUDGED)
    return enough + beside if enough <= _CHEAP else 0


def _enough_to_fit(n_features: int) -> int:
    """Return how many rows tell strengths apart.

    With more rows for each feature the penalty makes little difference, and it costs less to judge
    a row than to fit it.
    """
    return max(_ENOUGH, _ENOUGH_PER_FEATURE * n_features)


def rows_to_judge(n: int, n_features: int) -> int:
    """Return how many of n rows to hold out, if they are held out once.

    Examples
    --------
    >>> rows_to_judge(10_000, 10_000), rows_to_judge(10_000, 100), rows_to_judge(100_000, 100)
    (2500, 5000, 20000)
    """
    fewest = max(_FEWEST_JUDGED, min(n // 4, _ENOUGH_JUDGED), n // 10)
    return min(n // 2, _MOST_JUDGED, max(fewest, n - _enough_to_fit(n_features)))


def make_splits(
    rows: LabelledRows,
    strata: Array | None,
    numbers: Array | None,
    seed: int,
    cv: Any = None,
    *,
    may_fold: bool = True,
    folds_many: bool = False,
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
    may_fold : bool
        Whether some thousands of rows may be split into folds, which takes the memory and the time
        of several models.
    folds_many : bool
        Whether more rows are split into folds, too.
    """
    n = rows.y.size
    judged = rows_to_judge(n, rows.X.shape[1])
    if is_mapped(rows.X) and n > 1:
        if cv is not None:
            raise ValueError("cv is for rows in memory: of a store the last rows are held out")
        return [Split(rows, slice(0, n - judged), slice(n - judged, n))]
    if cv is not None and not isinstance(cv, Integral):
        return [_split(rows, *pair) for pair in _given_pairs(cv, rows, numbers)]
    units = n if numbers is None else np.unique(numbers).size
    if units == n:
        numbers = None  # no rows that must stay together
    many = not may_fold or (judged >= _ENOUGH_JUDGED and not folds_many)
    if cv is None and n >= _FEW_ROWS and many and units > 1:
        return [_split(rows, *_one_hold_out(n, judged, strata, numbers, seed))]
    folds = min(int(cv or (_FOLDS_OF_FEW if n < _FEW_ROWS else _FOLDS)), units)
    if folds < 2:
        return []
    kind: Any = GroupKFold if numbers is not None else KFold
    if numbers is None and strata is not None and _fewest_of_a_class(strata) >= folds:
        kind = StratifiedKFold
    splitter = kind(folds, shuffle=True, random_state=np.random.RandomState(seed))
    repeats = 1 if cv is not None else max(1, min(_MOST_REPEATS, _REPEATED_ROWS // n))
    return [
        _split(rows, *pair)
        for _ in range(repeats)  # each time other folds
        for pair in splitter.split(np.zeros(n), strata, numbers)
    ]


def pairs_of(cv: Any, y: Array) -> Any:
    """Return the pairs that a splitter makes of all rows; anything else as it is.

    Those that only some of the rows are left of are asked first: a splitter may know each row.
    """
    return list(cv.split(np.zeros((y.size, 1)), y)) if hasattr(cv, "split") else cv


def times_judged(splits: Sequence[Split], n: int) -> float:
    """Return how often each of n rows is judged, at least once."""
    judged = sum(int(split.rows.y[split.judged].size) for split in splits)
    return max(1.0, judged / n)


def _fewest_of_a_class(strata: Array) -> int:
    return int(np.unique(strata, return_counts=True)[1].min())


def _one_hold_out(
    n: int, judged: int, strata: Array | None, numbers: Array | None, seed: int
) -> tuple[Array, Array]:
    """Return the indices of the rows to fit, and of those to judge by."""
    kind: Any = ShuffleSplit if numbers is None else GroupShuffleSplit
    if numbers is None and strata is not None and np.unique(strata).size <= judged:
        kind = StratifiedShuffleSplit if _fewest_of_a_class(strata) > 1 else kind
    splitter = kind(1, test_size=judged / n, random_state=seed)
    ((training, held_out),) = splitter.split(np.zeros(n), strata, numbers)
    return training, held_out


def _split(rows: LabelledRows, training: Array, held_out: Array) -> Split:
    return Split(rows, np.sort(training), np.sort(held_out))


def _part(rows: LabelledRows, numbers: Any) -> LabelledRows:
    if isinstance(numbers, slice):
        X = slice_mapped_rows(rows.X, numbers.start, numbers.stop)
        return LabelledRows(X, rows.y[numbers], rows.weight[numbers])
    return rows.take(numbers)


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
