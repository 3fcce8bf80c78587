"""What all estimators share: seeds, threads, rows held out, checkpoints and files."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from monro import persist
from monro.data.sources import open_source
from monro.errors import CheckpointError
from monro.mapped import is_mapped, row_range, take_rows
from monro.rows import Array
from monro.storage import Checkpoint, fingerprint


def drop_weightless(X: Any, y: Array, weight: Array) -> tuple[Any, Array, Array]:
    """Leave out rows of weight 0: they must not even be visited."""
    if np.count_nonzero(weight) == weight.size:
        return X, y, weight
    kept = np.flatnonzero(weight)
    return take_rows(X, kept), y[kept], weight[kept]


def of_mean_one(weight: Array) -> Array:
    """Return weights whose mean is 1."""
    total = weight.sum()
    return weight if total == weight.size else weight * (weight.size / total)


class Estimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators, whose parameters `monro.checks.common` checks.

    What a fit leaves for the next one to go on from is in ``_states``, where it is kept at all.
    """

    @abstractmethod
    def _to_contents(self) -> persist.Contents:
        """Return the fitted estimator's arrays and JSON."""

    @abstractmethod
    def _from_contents(self, contents: persist.Contents) -> None:
        """Make the estimator what it was."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    @property
    def _watched(self) -> bool:
        """Whether there are callbacks to tell."""
        return hasattr(self, "_skl_callbacks")

    def _open(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return rows, labels and names of features: arrays as they are, all else as a store."""
        source = open_source(X, y, getattr(self, "dtype", None), weighted=sample_weight is not None)
        if source is None:
            return X, y, None
        X, labels, layout = source
        return X, labels, layout.names

    def _strata(self, y: Array) -> Array | None:
        """Return what held-out rows should represent evenly, if anything."""
        return None

    def _hold_out(
        self, X: Any, y: Array, weight: Array, seed: int
    ) -> tuple[Any, Array, Array, Any]:
        """Set rows aside for early stopping."""
        if is_mapped(X) and y.size > 1:  # shuffled before, too large to copy: the last rows
            cut = min(y.size - 1, max(1, round(y.size * (1 - self.validation_fraction))))
            validation = (row_range(X, cut, y.size), y[cut:], weight[cut:])
            return row_range(X, 0, cut), y[:cut], weight[:cut], validation
        try:
            training, held_out = train_test_split(
                np.arange(y.size),
                test_size=self.validation_fraction,
                stratify=self._strata(y),
                random_state=seed,
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping: {y.size} rows cannot be split with validation_fraction="
                f"{self.validation_fraction} ({error}); give more rows or early_stopping=False"
            ) from None
        validation = (X[held_out], y[held_out], weight[held_out])
        return X[training], y[training], weight[training], validation

    def _checkpoint(
        self,
        path: str | Path | None,
        X: Any,
        y: Array | tuple[Array, ...],
        weight: Array,
        classes: Mapping[str, Any],
        alike: Callable[[Any, Any], bool] | None = None,
    ) -> Checkpoint | None:
        """Return the checkpoint of this fit, if one is asked for; see `Checkpoint` for the rest."""
        if path is None:
            return None
        if self.warm_start:
            raise ValueError(
                "checkpoint: a new process cannot know the fit that warm_start goes on from; use "
                "warm_start=False"
            )
        saved = Checkpoint(path, self, fingerprint(X, y, weight), classes, alike)
        if saved.found and saved.about("epochs") > self.max_epochs:
            raise CheckpointError(
                f"{path}: this checkpoint has {saved.about('epochs')} epochs already, "
                f"max_epochs is {self.max_epochs}; give another path, or delete it"
            )
        return saved

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, for `monro.load`.

        The file holds arrays (safetensors) and JSON, no pickle. It is written wholly or not at all.
        A `random_state` that is no number is not saved.

        Parameters
        ----------
        path : str or Path
            The file; an old one is replaced.

        Examples
        --------
        >>> import tempfile
        >>> from monro import LinearRegressor, load
        >>> model = LinearRegressor(random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/line.monro")
        ...     load(f"{folder}/line.monro").n_features_in_
        1
        """
        persist.save(self, path)

    def __copy__(self) -> Self:
        # States change in place: two models must not share them.
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "_states" in other.__dict__:
            other._states = deepcopy(self._states)
        return other
