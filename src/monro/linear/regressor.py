"""LinearRegressor: least squares, absolute, Huber and Poisson regression."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if

from monro import checks
from monro.linear import _checks
from monro.linear.base import Linear
from monro.losses import Absolute, Huber, Loss, Poisson, Squared
from monro.rows import Array


class LinearRegressor(RegressorMixin, Linear):  # type: ignore[misc]
    r"""Linear regression (least squares, absolute, Huber or Poisson), by stochastic approximation.

    Minimises ``alpha/2 ‖w‖² + mean_i ℓ(w·x_i + b, y_i)``; see `LinearClassifier` for the parameters
    not listed here.

    Parameters
    ----------
    loss : {"squared", "absolute", "huber", "poisson"}
        ``(p-y)²/2``; ``|p-y|``; the one inside ``delta`` and the other outside; or
        ``exp(p) - yp``, with log link, for counts y ≥ 0.
    delta : float
        Where Huber's loss turns from squared to absolute.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : array of shape (1,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from monro import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegressor(max_epochs=50, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.5
    True
    """

    def __init__(
        self,
        *,
        loss: str = "squared",
        delta: float = 1.35,
        solver: str = "auto",
        schedule: str = "bottou",
        alpha: float = 1e-5,
        learning_rate: float | str = "auto",
        decay: float = 1.0,
        max_epochs: int = 10,
        tol: float | None = None,
        shuffle: bool = True,
        fit_intercept: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.delta = delta
        self.solver = solver
        self.schedule = schedule
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.decay = decay
        self.max_epochs = max_epochs
        self.tol = tol
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _losses = {"squared": Squared, "absolute": Absolute, "huber": Huber, "poisson": Poisson}

    def _loss(self) -> Loss:
        if self.loss == "huber":
            return Huber(float(self.delta))
        return self._losses[self.loss]()

    def _targets(self, y: Array) -> list[Array]:
        return [y]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, names: Any = None
    ) -> tuple[Any, Array, Array]:
        _checks.parameters(self, self._losses)
        checks.number("delta", self.delta, 0.0, open_at_low=True)
        X, y = checks.data(self, X, y, reset=reset, names=names)
        try:
            y = np.ascontiguousarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must hold numbers, not {np.asarray(y).dtype}") from None
        if self.loss == "poisson" and (y < 0).any():
            row = int(np.argmax(y < 0))
            raise ValueError(f"y: row {row} is {y[row]:g}, but loss='poisson' counts, y >= 0")
        return X, y, checks.weights(sample_weight, X)

    def _coef_shape(self) -> tuple[int, ...]:
        return (self.n_features_in_,)

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features); or larger than memory
            As of `LinearClassifier.fit`: a path, Arrow, or an iterable of chunks ``(X, y)``.
        y : array of shape (n_rows,)
            With Parquet and Arrow the name of its column; with a store or chunks None.
        sample_weight : array of shape (n_rows,), optional
            A row of weight 2 counts as two; a row of weight 0 does not count.
        checkpoint : str or Path, optional
            A file to keep the progress in. Should the process be killed, the same call goes on from
            there, and ends with the same bits (on one thread) as if nothing had happened.

        Returns
        -------
        self

        Examples
        --------
        >>> from monro import LinearRegressor
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
        >>> model = LinearRegressor(alpha=1e-6, max_epochs=500, random_state=0).fit(X, y)
        >>> round(float(model.coef_[0]), 1), round(float(model.intercept_[0]), 1)
        (2.0, 1.0)
        """
        X, y, names = self._open(X, y, sample_weight)
        checked = self._checked(X, y, sample_weight, reset=True, names=names)
        return self._fit(*checked, checkpoint)

    @available_if(_checks.streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take one epoch over a batch of rows; parameters as in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from monro import LinearRegressor
        >>> rng = np.random.default_rng(0)
        >>> model = LinearRegressor(solver="aisgd", random_state=0)
        >>> for _ in range(20):
        ...     X = rng.normal(size=(200, 3))
        ...     model = model.partial_fit(X, X @ [1.0, 2.0, 3.0])
        >>> model.coef_.round(1)
        array([1., 2., 3.])
        """
        first = not hasattr(self, "coef_")
        return self._partial_fit(*self._checked(X, y, sample_weight, reset=first))

    def predict(self, X: Any) -> Array:
        """Return the prediction for each row: ``w·x + b``, for loss="poisson" its exponential.

        Examples
        --------
        >>> import numpy as np
        >>> from monro import LinearRegressor
        >>> X = np.random.default_rng(0).normal(size=(1000, 2))
        >>> counts = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
        >>> model = LinearRegressor(loss="poisson", random_state=0).fit(X, counts)
        >>> bool((model.predict(X) > 0).all())  # means of counts
        True
        """
        scores = self._scores(X)
        return np.exp(scores) if self.loss == "poisson" else scores
