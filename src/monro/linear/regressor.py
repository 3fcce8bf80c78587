"""LinearRegressor: least squares, absolute, Huber and Poisson regression."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if

from monro.checks.parameters import check_fraction, check_number
from monro.checks.rows import row_weights, validate_rows
from monro.fitting.run import LabelledRows
from monro.linear.base import LinearBase
from monro.linear.parameters import check_linear_parameters, has_partial_fit
from monro.losses import REGRESSION
from monro.rows import Array


class LinearRegressor(RegressorMixin, LinearBase):  # type: ignore[misc]
    r"""Linear regression, of means, medians and quantiles, by stochastic approximation.

    Minimises ``alpha (l1_ratio ‖w‖₁ + (1 - l1_ratio)/2 ‖w‖²) + mean_i ℓ(w·x_i + b, y_i)``; see
    `LinearClassifier` for the parameters not listed here.

    Parameters
    ----------
    loss : {"squared", "absolute", "huber", "quantile", "poisson", "gamma"}
        ``(p-y)²/2``; ``|p-y|``; squared for ``|p-y| <= delta`` and linear beyond;
        ``quantile·(y-p)`` below y and ``(1-quantile)·(p-y)`` above; or, with log link,
        ``exp(p) - yp`` for counts y ≥ 0 and ``y exp(-p) + p`` for y > 0.
    delta : float
        The residual at which Huber's loss changes from squared to linear.
    quantile : float
        Which quantile of y the loss "quantile" predicts, between 0 and 1.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : array of shape (1,)
    alpha_, alpha_path_
        With alpha="auto", the strength chosen, and those that were compared.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from monro import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegressor(max_epochs=50, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.5
    True
    >>> factors = [1e6] + 9 * [1.0]  # a penalty that keeps the age out
    >>> model = LinearRegressor(l1_ratio=1.0, penalty_factor=factors, random_state=0)
    >>> float(model.fit(scale(X), y).coef_[0])
    0.0
    """

    def __init__(
        self,
        *,
        loss: str = "squared",
        delta: float = 1.35,
        solver: str = "auto",
        schedule: str = "bottou",
        alpha: float | Literal["auto"] = "auto",
        l1_ratio: float = 0.0,
        penalty_factor: Any = None,
        cv: Any = None,
        learning_rate: float | str = "auto",
        decay: float = 1.0,
        skip: int | None = None,
        max_epochs: int = 10,
        max_steps: int | None = None,
        tol: float | None = None,
        shuffle: bool | str = True,
        fit_intercept: bool = True,
        center: bool = False,
        scale: bool | str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        quantile: float = 0.5,
    ):
        self.loss = loss
        self.delta = delta
        self.quantile = quantile
        self.solver = solver
        self.schedule = schedule
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty_factor = penalty_factor
        self.cv = cv
        self.learning_rate = learning_rate
        self.decay = decay
        self.skip = skip
        self.max_epochs = max_epochs
        self.max_steps = max_steps
        self.tol = tol
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.center = center
        self.scale = scale
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _losses = REGRESSION

    def _targets(self, y: Array) -> list[Array]:
        return [y]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        lowest = {name: loss.traits.targets.lowest for name, loss in self._losses.items()}
        tags.target_tags.positive_only = lowest.get(str(self.loss), -np.inf) >= 0.0
        return tags

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, names: Any = None
    ) -> LabelledRows:
        check_linear_parameters(self, self._losses)
        check_number("delta", self.delta, 0.0, open_at_low=True)
        check_fraction("quantile", self.quantile)
        X, y = validate_rows(self, X, y, reset=reset, names=names)
        try:
            y = np.ascontiguousarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must hold numbers, not {np.asarray(y).dtype}") from None
        targets = self._loss_traits.targets
        if (y < targets.lowest).any():
            row = int(np.argmax(y < targets.lowest))
            what = f"loss={self.loss!r} {targets.description}"
            raise ValueError(f"y: row {row} is {y[row]:g}, but {what}")
        return LabelledRows(X, y, row_weights(sample_weight, X))

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
            As in `LinearClassifier.fit`: a path, Arrow, or an iterable of chunks ``(X, y)``.
        y : array of shape (n_rows,)
            Targets. With Parquet and Arrow the name of their column; with a store or chunks None.
        sample_weight : array of shape (n_rows,), optional
            A row of weight 2 counts as two; a row of weight 0 does not count.
        checkpoint : str or Path, optional
            A file to save the progress in. If the process is killed, the same call resumes from it,
            and ends with the same bits (on one thread) as an uninterrupted fit.

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
        return self._fit(checked, checkpoint)

    @available_if(has_partial_fit)  # type: ignore[untyped-decorator]
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
        return self._partial_fit(self._checked(X, y, sample_weight, reset=first))

    def predict(self, X: Any) -> Array:
        """Return the predicted mean for each row: ``w·x + b``, for loss="poisson" its exponential.

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
        return self._loss_traits.link.inverse(self._scores(X))
