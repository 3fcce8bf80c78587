"""alpha="auto": a path of penalties, judged on rows that are held out.

Each fit of the path starts where the last one ended, so it needs few epochs. Strengths are compared
as ``alpha·N``, the weight of the penalty against the sum of the losses: it carries over from the
rows that are fitted on the path to all of them. Units are those of the mean squared length of the
rows, so that the path does not depend on the scale of the features.

Strengths are far apart, because the loss is a smooth function of their logarithm: a spline through
the losses of the path finds the least one between them (docs/decisions/0028).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from monro.fitting.run import CHOSEN
from monro.rows import Array

# Powers of ten: alpha·N of a ridge, in units of the mean squared length of the rows.
_STRONGEST, _FIRST, _WEAKEST = 4, 0, -4
_LASSO_DECADES = 4
_PER_DECADE = 2  # strengths
_CLEARLY = 2.0  # standard errors by which a loss must exceed the least one to end the path
# The path also ends when two strengths in a row have changed the loss by less than this part of it,
# once it has fallen by a hundred times as much: weaker penalties make no difference.
_FLAT, _FALLEN = 1e-4, 1e-2
# Of strengths whose losses are hardly above the least one, the strongest is chosen: by this part of
# it, and so many standard errors of the difference.
_AS_GOOD, _AS_LIKELY = 3e-4, 0.1
# The path ends, too, when two in a row have changed the loss by less than counts, and the change of
# each row's loss has become this part of what it was two strengths before.
_FADED = 0.25
_POINTS = 513  # of the spline around the best strength


class PathModel(ABC):
    """A model of the training rows of one split."""

    n_rows: float  # that it is fitted to

    @abstractmethod
    def refit(self, alpha: float) -> None:
        """Fit with another strength, from where the last fit ended."""

    @abstractmethod
    def losses(self) -> Array:
        """Return the loss of each row that is held out."""

    @abstractmethod
    def count_nonzeros(self) -> int:
        """Return the number of weights that are not zero."""

    def keep(self) -> None:  # noqa: B027
        """Keep the last fit, which is the best so far, if it is small."""

    def go_back(self) -> None:  # noqa: B027
        """Continue from the fit that was kept, if any."""


class Parameter(NamedTuple):
    """The parameter that sets the strength: its name, and its value for ``alpha`` and N rows."""

    name: str
    of: Callable[[float, float], float]


ALPHA = Parameter("alpha", lambda alpha, n_rows: alpha)


class Strengths(NamedTuple):
    """The strengths of a path, as ``alpha·N``: those that may be tried, and which comes first."""

    values: Array  # from strong to weak
    first: int = 0


def ridge_strengths(unit: float) -> Strengths:
    """Return the strengths of a ridge, for rows of this mean squared length.

    Examples
    --------
    >>> values, first = ridge_strengths(1.0)
    >>> values[[0, first, -1]]
    array([1.e+04, 1.e+00, 1.e-04])
    """
    steps = np.arange((_STRONGEST - _WEAKEST) * _PER_DECADE + 1)
    values = (unit or 1.0) * 10.0 ** (_STRONGEST - steps / _PER_DECADE)
    return Strengths(values, (_STRONGEST - _FIRST) * _PER_DECADE)


def lasso_strengths(strongest: float) -> Strengths:
    """Return the strengths of a lasso, beginning with the weakest one that leaves no weight."""
    steps = np.arange(_LASSO_DECADES * _PER_DECADE + 1)
    return Strengths((strongest or 1.0) * 10.0 ** (-steps / _PER_DECADE))


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


class StrengthPath(NamedTuple):
    """The strength chosen and what it was chosen by: the attributes of estimators."""

    alpha_: float
    alpha_path_: list[dict[str, Any]]  # alpha, mean, standard_error, nonzeros: strong to weak


def follow_path(
    models: Sequence[PathModel],
    weights: Sequence[Array],
    n_rows: float,
    strengths: Strengths,
    say: Callable[[str], None],
    *,
    times: float = 1.0,
    n_jobs: int = 1,
    parameter: Parameter = ALPHA,
) -> StrengthPath:
    """Fit with weaker and weaker penalties, until the loss of the rows held out rises or is flat.

    If none is better than the first one, then also with stronger and stronger ones.

    Parameters
    ----------
    models : sequence of PathModel
        One for each split.
    weights : sequence of arrays
        The weights of the rows that each model is judged by.
    n_rows : float
        The rows that the strength chosen is for.
    strengths : Strengths
    say : callable
        Shows what came of a strength.
    times : float
        How often each row is judged, by other models of the same rows.
    n_jobs : int
        The number of splits to fit at a time.
    parameter : Parameter
        The records have its value, besides alpha.
    """
    share = np.concatenate(weights)
    share = share / share.sum()
    path: list[dict[str, Any]] = []
    losses: list[Array] = []  # at each strength, of each row that is held out

    def losses_at(total: float) -> Array:
        def refit(model: PathModel) -> Array:
            model.refit(total / model.n_rows)
            return model.losses()

        if n_jobs == 1 or len(models) == 1:
            return np.concatenate([refit(model) for model in models])
        with ThreadPoolExecutor(min(n_jobs, len(models))) as pool:
            return np.concatenate(list(pool.map(refit, models)))

    def is_last(total: float) -> bool:
        """Add a strength to the path; return whether it is no use to go on in its direction."""
        now = losses_at(total)
        mean = weighted_sum(now, share)
        if not np.isfinite(mean):
            return True  # a weaker penalty would diverge as well, a stronger one may not
        value = parameter.of(total / n_rows, n_rows)
        path.append(
            {
                parameter.name: value,
                "alpha": total / n_rows,
                "mean": mean,
                "standard_error": standard_error(now, share, times),
                "nonzeros": max(model.count_nonzeros() for model in models),
            }
        )
        losses.append(now)
        say(f"{parameter.name} {value:.3g}  loss held out {mean:.5g}")
        if _least(path) == len(path) - 1:
            for model in models:
                model.keep()
        rise = now - losses[_least(path)]
        is_worse = weighted_sum(rise, share) > _CLEARLY * standard_error(rise, share, times)
        means = [record["mean"] for record in path]
        return is_worse or is_flat(means) or has_faded(losses[-4:], share)

    values, first = strengths.values.tolist(), strengths.first
    for total in values[first:]:
        if is_last(total):
            break
    if not path or _least(path) == 0:
        for model in models:
            model.go_back()
        for total in reversed(values[:first]):
            if is_last(total) and path:
                break
    if not path:
        name = parameter.name
        raise ValueError(f"{name}='auto': no strength gives a finite loss; give {name} a number")
    best = losses[_least(path)]
    errors = {
        record["alpha"]: standard_error(now - best, share, times)
        for record, now in zip(path, losses, strict=True)
    }
    path.sort(key=lambda record: -float(record["alpha"]))
    return StrengthPath(choose_strength(path, [errors[record["alpha"]] for record in path]), path)


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


def has_faded(losses: Sequence[Array], share: Array) -> bool:
    """Return whether the losses of the rows, at the last four strengths, hardly change any more.

    Where the penalty makes no difference, the change of each row's loss is proportional to the
    strength. Where it leaves hardly any weights, losses change little, but more and more.

    Examples
    --------
    >>> share, slopes = np.array([0.5, 0.5]), np.array([-1.0, 1.0])
    >>> [has_faded([1.0 + x * slopes for x in xs], share) for xs in ((8, 4, 2, 1), (0, 1, 3, 7))]
    [True, False]
    """
    if len(losses) < 4:
        return False
    changes = [after - before for before, after in pairwise(losses)]
    size, _, last_size = (weighted_sum(change**2, share) ** 0.5 for change in changes)
    largest = max(abs(weighted_sum(change, share)) for change in changes[1:])
    return last_size <= _FADED * size and largest < _AS_GOOD * abs(weighted_sum(losses[-1], share))


def standard_error(values: Array, share: Array, times: float = 1.0) -> float:
    """Return the standard error of a weighted mean; the weights have sum 1.

    If each row has several values, they count as one: they are hardly independent.

    Examples
    --------
    >>> standard_error(np.array([1.0, 3.0]), np.array([0.5, 0.5]))  # of 2
    1.0
    """
    distance = values - weighted_sum(values, share)
    count = max(1.0 / weighted_sum(share, share) / times, 2.0)  # of rows that count
    return float(np.sqrt(times * weighted_sum(distance**2, share**2) * count / (count - 1.0)))


def weighted_sum(values: Array, share: Array) -> float:
    """Return ``Σ share·values``, without the threads of a BLAS, which take longer to wake up."""
    return float((share * values).sum())


def choose_strength(path: list[dict[str, Any]], errors: Sequence[float] = ()) -> float:
    """Return the strongest penalty whose loss is about the least, by a spline through the path.

    Where losses hardly differ, that is the simplest of models that are equally good, and its
    strength depends less on which rows were held out.

    Parameters
    ----------
    path : list of dict
        From strong to weak.
    errors : sequence of float, optional
        The standard errors of the differences of the losses from the least one.

    Examples
    --------
    >>> path = [{"alpha": a, "mean": 1 + (np.log10(a) + 2.3) ** 2} for a in (0.1, 0.01, 0.001)]
    >>> bool(abs(np.log10(choose_strength(path)) + 2.3) < 0.02)
    True
    >>> path = [{"alpha": a, "mean": mean} for a, mean in ((0.1, 1.0), (0.01, 1.0), (0.001, 1.0))]
    >>> round(choose_strength(path), 9)
    0.1
    """
    if len(path) < 3:
        return float(path[_least(path)]["alpha"])
    weak_to_strong = path[::-1]
    log_alpha = np.log([record["alpha"] for record in weak_to_strong])
    means = np.array([record["mean"] for record in weak_to_strong])
    margins = (
        _AS_GOOD * abs(means.min()) + _AS_LIKELY * np.array(errors or [0.0] * means.size)[::-1]
    )
    k = int(np.flatnonzero(means <= means.min() + margins)[-1])
    # Further away a spline may swing below the losses that were measured.
    first, last = max(k - 1, 0), min(k + 1, means.size - 1)
    near = np.linspace(log_alpha[first], log_alpha[last], _POINTS)
    losses = CubicSpline(log_alpha, means)(near)
    as_good = losses <= losses.min() + np.interp(near, log_alpha, margins)
    return float(np.exp(near[np.flatnonzero(as_good)[-1]]))


def _least(path: list[dict[str, Any]]) -> int:
    return int(np.argmin([record["mean"] for record in path]))
