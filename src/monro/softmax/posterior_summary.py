"""Statistical inference with a fitted softmax: a bound of its likelihood, standard errors."""

from typing import Any

import numpy as np

from monro.checks.labels import class_codes
from monro.checks.rows import row_weights, validate_rows
from monro.fitting.run import with_mean_one
from monro.rows import Array
from monro.softmax.kernel.layout import sparse_if_mostly_zero
from monro.softmax.metrics import bounds, bounds_at
from monro.softmax.predicting import SoftmaxPredictor
from monro.softmax.solvers import SOLVERS
from monro.softmax.training.problem import in_precision, make_problem
from monro.summary import Summary, summarise


class PosteriorSummary(SoftmaxPredictor):
    """The methods of `SoftmaxClassifier` that concern its likelihood and its posterior."""

    def bound(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean of the lower bound of ``log p(y)`` that the solver maximises, in nats.

        For "ove" and "ove-adaptive" it is the one-vs-each bound. For "augment-reduce", also as
        printed, and the rows it was fitted on, it is the bound at their local variables (paper 001,
        eq. 8), except with a posterior of the weights. For other rows local variables are not
        known, and it is the largest bound: for the probit and logistic links over Gaussian
        (logistic) distributions of the noise; for the softmax it is the likelihood itself,
        ``-log_loss(X, y)``, as for all other solvers.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SoftmaxClassifier(solver="ove", random_state=0).fit(X, y)
        >>> model.bound(X, y) < -model.log_loss(X, y)
        True
        """
        traits = SOLVERS[self.solver]
        if self._weights().calibration is not None:
            raise ValueError(
                "bound: the model has independent labels, whose probabilities have no such bound"
            )
        if traits.is_variational and self._weights().spread is None:
            local = self._local_variables(X, y, sample_weight)
            if local is not None:
                assert traits.e_step is not None
                noise = traits.e_step(self.link).noise(*local)
                return self._mean_of(bounds_at, X, y, sample_weight, noise)
        return self._mean_of(bounds, X, y, sample_weight, traits.maximises_one_vs_each)

    def _local_variables(self, X: Any, y: Any, sample_weight: Any) -> Array | None:
        """Return the local variables of rows, of shape (2, rows), if they are the training rows."""
        X, y = validate_rows(self, X, y, reset=False)
        codes = class_codes(y, self.classes_, "the model does not know")
        weight = with_mean_one(row_weights(sample_weight, X))
        X, sqnorm = in_precision(sparse_if_mostly_zero(X, self.dtype), codes, self.dtype)
        problem = make_problem(X, sqnorm, codes, weight, self._weights().slots)
        key, local = self._fitted.local or ("", np.zeros(0))
        return local.reshape(2, -1) if key == problem.fingerprint() else None

    def _spread(self) -> tuple[Array, Array]:
        spread = self._weights().spread
        if spread is None:
            raise AttributeError("there is no posterior: fit with posterior='gaussian'")
        return spread

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of ``coef_`` under the posterior, of its shape."""
        return _of_difference(self._spread()[0])

    @property
    def intercept_std_(self) -> Array:
        """Standard deviations of ``intercept_`` under the posterior, of its shape."""
        return _of_difference(self._spread()[1])

    def summary(self, level: float = 0.95) -> Summary:
        """Return a table of all coefficients with posterior standard errors and intervals.

        Only differences between classes are identified; so coefficients are reported as
        differences from the mean over the classes.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SoftmaxClassifier(
        ...     solver="augment-reduce", posterior="gaussian", alpha=0.01, random_state=0
        ... )
        >>> table = model.fit(X, y).summary()
        >>> table.name[:2], len(table.name)
        (['0: intercept', '0: x0'], 15)
        >>> model.coef_std_.shape, model.intercept_std_.shape
        ((3, 4), (3,))
        """
        deviations, bias_deviations = self._spread()
        weights = self._weights()
        coef, errors = self._class_weights(), deviations
        features = list(getattr(self, "feature_names_in_", []))
        features = features or [f"x{j}" for j in range(self.n_features_in_)]
        if self.fit_intercept:
            coef = np.column_stack([weights.bias[weights.slots], coef])
            errors = np.column_stack([bias_deviations, errors])
            features = ["intercept", *features]
        names = [f"{label}: {feature}" for label in self.classes_ for feature in features]
        coef = coef - coef.mean(axis=0)
        return summarise(names, coef.ravel(), _of_centred(errors).ravel(), level)


def _of_difference(deviation: Array) -> Array:
    """For two classes, return the standard deviation of the difference of weights in `coef_`."""
    two = len(deviation) == 2
    return np.asarray(np.sqrt((deviation**2).sum(axis=0, keepdims=True)) if two else deviation)


def _of_centred(deviation: Array) -> Array:
    """Return the standard deviation of ``w_k - mean_j w_j`` for independent weights."""
    n_classes, variance = len(deviation), deviation**2
    mean = variance.sum(axis=0) / n_classes**2
    return np.asarray(np.sqrt(variance * (1.0 - 2.0 / n_classes) + mean))
