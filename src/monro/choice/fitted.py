"""The fitted choice model: probabilities, shares, metrics, standard errors and files."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from monro.choice.frames import Choices, column, read_choices
from monro.choice.likelihood import MOST_PARAMETERS, Likelihood, probabilities
from monro.rows import Array
from monro.saving.container import Contents
from monro.saving.estimator import check_numbers, describe, restore, save
from monro.summary import Summary, summarise

_ATTRIBUTES = ("attributes_", "history_", "log_likelihood_")


class FittedChoice(BaseEstimator):  # type: ignore[misc]
    """The methods of `ChoiceModel` that need a fitted model."""

    coef_: Array
    constants_: Array
    attributes_: list[str]
    alternatives_: Array
    log_likelihood_: float
    covariance_: Array | None
    history_: list[float]

    # --------------------------------------------------------------------------------- predicting

    def _read(self, frame: Any, *, chosen: bool) -> tuple[Choices, Array]:
        """Return the rows of a frame, with the choices if `chosen`, and their utilities."""
        check_is_fitted(self, "coef_")
        choices, _ = read_choices(
            frame,
            self.situation,
            self.alternative,
            self.chosen if chosen else None,
            self.attributes_,
            self.alternatives_,
        )
        return choices, choices.X @ self.coef_ + self.constants_[choices.alternative]

    def predict_proba(self, frame: Any) -> Array:
        """Return, for each row of the frame, the probability that its alternative is chosen."""
        choices, s = self._read(frame, chosen=False)
        p = np.empty(s.size)
        p[choices.order] = probabilities(self.link, s, choices.starts)
        return p

    def predict(self, frame: Any) -> Array:
        """Return, for each row of the frame, whether its alternative is the most probable one."""
        choices, s = self._read(frame, chosen=False)
        best = np.zeros(s.size, bool)
        starts = choices.starts
        top = np.repeat(np.maximum.reduceat(s, starts[:-1]), np.diff(starts))
        first = np.flatnonzero(s == top)
        kept = np.unique(np.searchsorted(starts, first, side="right"), return_index=True)[1]
        best[choices.order[first[kept]]] = True
        return best

    def log_loss(self, frame: Any) -> float:
        """Return the exact mean of ``-log p`` of the choices, in nats."""
        choices, _ = self._read(frame, chosen=True)
        n_constants = self.alternatives_.size
        likelihood = Likelihood(choices, n_constants, self.link, 0.0)
        theta = np.append(self.coef_, self.constants_[1:])
        return float(-likelihood.slopes(theta)[0].mean())

    def score(self, frame: Any, y: None = None) -> float:
        """Return the share of situations whose most probable alternative was chosen."""
        self._read(frame, chosen=True)
        right = self.predict(frame) & (np.asarray(column(frame, self.chosen)) != 0)
        return float(right.sum() / np.unique(column(frame, self.situation)).size)

    def shares(self, frame: Any) -> dict[Any, float]:
        """Return the predicted share of each alternative in the frame's situations."""
        choices, s = self._read(frame, chosen=False)
        p = probabilities(self.link, s, choices.starts)
        total = np.bincount(choices.alternative, p, self.alternatives_.size)
        mean = total / (choices.starts.size - 1)
        return dict(zip(self.alternatives_.tolist(), mean.tolist(), strict=True))

    def summary(self, level: float = 0.95) -> Summary:
        """Return a table of coefficients with standard errors and intervals.

        Parameters
        ----------
        level : float
            The confidence level of the intervals.
        """
        check_is_fitted(self, "coef_")
        if self.covariance_ is None:
            raise ValueError(
                "there are no standard errors: fit with solver='likelihood' and at most "
                f"{MOST_PARAMETERS} coefficients"
            )
        names, values = list(map(str, self.attributes_)), self.coef_
        if self.constants:
            names += [f"constant of {label}" for label in self.alternatives_[1:]]
            values = np.append(values, self.constants_[1:])
        return summarise(names, values, np.sqrt(np.diag(self.covariance_)), level)

    # --------------------------------------------------------------------------------------- files

    def save(self, path: Any) -> None:
        """Write the fitted model to one file, for `monro.load`."""
        save(self, path)

    def _to_contents(self) -> Contents:
        check_is_fitted(self, "coef_")
        contents = describe(self, _ATTRIBUTES)
        contents.arrays.update(coef=self.coef_, constants=self.constants_)
        if self.covariance_ is not None:
            contents.arrays["covariance"] = self.covariance_
        return contents

    def _from_contents(self, contents: Contents) -> None:
        restore(self, contents, _ATTRIBUTES)
        coef, constants = contents.arrays["coef"], contents.arrays["constants"]
        if coef.shape != (len(self.attributes_),) or constants.shape != self.alternatives_.shape:
            raise ValueError("coef")
        check_numbers(coef, constants)
        self.coef_, self.constants_ = coef, constants
        self.covariance_ = contents.arrays.get("covariance")
