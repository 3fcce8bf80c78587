"""The base class of all estimators: seeds, threads, sources of rows, and files."""

from abc import abstractmethod
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state

from monro.data.sources import open_source
from monro.rows import Array
from monro.saving.container import Contents
from monro.saving.estimator import save


class Estimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators.

    Besides its public attributes, a fit sets one object, ``_fitted``, from which the next fit can
    continue.
    """

    @abstractmethod
    def _to_contents(self) -> Contents:
        """Return the contents of the fitted estimator's file."""

    @abstractmethod
    def _from_contents(self, contents: Contents) -> None:
        """Set the attributes of the estimator from the contents of a file."""

    @abstractmethod
    def _keep_predictions(self, contents: Contents) -> None:
        """Remove from the contents of a file what predictions do not need; round the weights."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _open(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return rows, labels and feature names: arrays unchanged, other sources as a store."""
        source = open_source(X, y, getattr(self, "dtype", None), weighted=sample_weight is not None)
        if source is None:
            return X, y, None
        X, labels, layout = source
        return X, labels, layout.names

    def _strata(self, y: Array) -> Array | None:
        """Return the strata for the hold-out, if any."""
        return None

    def _labels(self, y: Array) -> Array:
        """Return targets as the user gave them, for callbacks."""
        return y

    def save(self, path: str | Path, *, inference: bool = False) -> None:
        """Write the fitted model to one file, for `monro.load`.

        The file holds arrays (safetensors) and JSON, no pickle. It is written atomically. A
        `random_state` that is not a number is not saved.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        inference : bool
            Whether the model is to be used for predictions only. Then the file has no history and
            no state of the solver, and weights are in half precision: each changes by at most 0.05
            % of itself, so a score by at most 0.05 % of ``Σ_j |x_j w_j|``.

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
        save(self, path, inference)

    def __copy__(self) -> Self:
        # Training changes states in place, so copies must not share them.
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "_fitted" in other.__dict__:
            other._fitted = deepcopy(self._fitted)
        return other
