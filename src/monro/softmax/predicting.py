"""Methods of a fitted softmax: predictions, metrics, coefficients."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import log_expit
from sklearn.utils.validation import check_is_fitted

from monro.checks.labels import class_codes
from monro.checks.parameters import check_integer
from monro.checks.rows import row_weights, validate_rows
from monro.estimator import Estimator
from monro.fitting.trainer import Record
from monro.rows import Array
from monro.saving.container import Contents
from monro.softmax.metrics import evaluate, evaluate_labels, sampled_losses
from monro.softmax.model import LogProbabilities, Weights, chunked, class_weights, log_odds, top_k
from monro.softmax.multilabel import is_indicator, name_columns, read_indicator
from monro.softmax.scan import MOST_BEST, scan
from monro.softmax.storage import from_contents, keep_predictions, to_contents
from monro.softmax.training.continuation import SoftmaxFit


class SoftmaxPredictor(Estimator):
    """The methods of a fitted `SoftmaxClassifier`; the model is ``_fitted.weights``."""

    classes_: Array
    history_: list[Record]
    learning_rate_: float | None
    n_iter_: int
    _fitted: SoftmaxFit

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def _weights(self) -> Weights:
        check_is_fitted(self)
        return self._fitted.weights

    def _replace_weights(self, weights: Weights) -> None:
        self._fitted = self._fitted._replace(weights=weights)

    # --------------------------------------------------------------------------------- predicting

    def _each_chunk(self, X: Any, reduce: Any, axis: int = 0) -> Array:
        """Return ``reduce(scores, rows)`` of all chunks of validated rows, concatenated."""
        found = list(chunked(self._fitted.weights, X, reduce, self._threads()))
        return np.concatenate(found, axis)

    def _validated(self, X: Any) -> tuple[Any, LogProbabilities]:
        """Return validated rows, and an object that computes their log-probabilities."""
        weights = self._weights()
        X = validate_rows(self, X, reset=False)
        return X, LogProbabilities(weights, X, self.link)

    def decision_function(self, X: Any) -> Array:
        """Return scores ``x·w_k + b_k``, (n_rows, n_classes); for two classes the difference."""

        def reduce(S: Array, rows: slice) -> Array:
            return S[:, 1] - S[:, 0] if S.shape[1] == 2 else S

        return self._each_chunk(self._validated(X)[0], reduce)

    def predict(self, X: Any) -> Array:
        """Return the likeliest label of each row."""
        X = self._validated(X)[0]
        labels: Array = self.classes_[scan(self._weights(), X, 1, self._threads()).codes[:, 0]]
        return labels

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of each class's probability, of shape (n_rows, n_classes)."""
        X, log_probabilities = self._validated(X)
        return self._each_chunk(X, log_probabilities.of_all)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, of shape (n_rows, n_classes).

        They sum to 1, except where each label is a question of its own (label_weight).
        """
        P = np.exp(self.predict_log_proba(X))
        if self._weights().calibration is not None:
            return np.asarray(P)
        P /= P.sum(axis=1, keepdims=True)  # so that they sum to 1 in the last digit
        return np.asarray(P)

    def predict_top_k(self, X: Any, k: int) -> tuple[Array, Array]:
        """Return the k likeliest labels of each row and their log-probabilities, best first.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        k : int
            The number of labels; if it exceeds the number of classes, all are returned.

        Returns
        -------
        labels : array of shape (n_rows, k)
        log_proba : array of shape (n_rows, k)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SoftmaxClassifier(random_state=0).fit(X, y)
        >>> labels, log_proba = model.predict_top_k(X[:1], 2)
        >>> int(labels[0, 0]), bool(log_proba[0, 0] > log_proba[0, 1])
        (0, True)
        """
        check_integer("k", k, 1)

        X, log_probabilities = self._validated(X)
        calibration = self._weights().calibration
        if (log_probabilities.have_normaliser or calibration is not None) and k <= MOST_BEST:
            best = scan(self._weights(), X, k, self._threads())
            if calibration is not None:
                return self.classes_[best.codes], log_expit(log_odds(best.scores, calibration))
            return self.classes_[best.codes], best.scores - best.log_normaliser[:, None]

        def reduce(S: Array, rows: slice) -> Array:
            best = top_k(S, min(k, S.shape[1]))
            return np.stack(
                [best, np.take_along_axis(log_probabilities.of_all(S, rows), best, axis=1)]
            )

        found = self._each_chunk(X, reduce, axis=1)
        labels: Array = self.classes_[found[0].astype(np.int64)]
        return labels, found[1]

    def log_loss(
        self, X: Any, y: Any, sample_weight: Any = None, *, draws: int | None = None
    ) -> float:
        """Return the exact mean of ``-log p(y)``, in nats.

        Scores are computed in chunks: memory does not grow with rows times classes.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_classes)
            Labels; one the model does not know raises a ValueError. In a matrix, 1 where a row has
            the label, else 0: the loss of a row is the mean over its labels.
        sample_weight : array of shape (n_rows,), optional
        draws : int, optional
            If given, estimate the loss from this number of draws of the noise, as in paper 001, for
            comparison.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> SoftmaxClassifier(random_state=0).fit(X, y).log_loss(X, y) < 0.1
        True
        """
        if draws is None:
            return self.evaluate(X, y, sample_weight)["log_loss"]
        check_integer("draws", draws, 1)
        return self._mean_of(sampled_losses, X, y, sample_weight, draws)

    def _mean_of(self, measure: Any, X: Any, y: Any, sample_weight: Any, option: Any) -> float:
        """Return the weighted mean over rows of `measure`, a function of `metrics`."""
        weights = self._weights()
        X, y = validate_rows(self, X, y, reset=False)
        codes = class_codes(y, self.classes_, "the model does not know")
        weight = None if sample_weight is None else row_weights(sample_weight, X)
        each = measure(weights, X, codes, self.link, option, self._threads())
        return float(np.average(each, weights=weight))

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """Return log_loss, error, top_5_error and calibration_error, all exact.

        For a matrix of labels: log_loss, and precision_at_k and ndcg_at_k for k = 1, 3, 5; if the
        model was fitted to one, also propensity_scored_precision_at_k, as the literature of extreme
        classification counts it. Where each label is a question of its own, log_loss is the sum
        over all labels, and calibration_error is that of the five likeliest.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_classes)
            Labels; or a matrix, 1 where a row has the label, else 0. Rows without a label are
            ignored.
        sample_weight : array of shape (n_rows,), optional

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> sorted(SoftmaxClassifier(random_state=0).fit(X, y).evaluate(X, y))
        ['calibration_error', 'error', 'log_loss', 'top_5_error']
        """
        weights = self._weights()
        if is_indicator(y):
            return self._evaluate_labels(weights, X, y, sample_weight)
        if weights.calibration is not None:
            codes = class_codes(np.asarray(y), self.classes_, "the model does not know")
            one = np.ones(codes.size, bool), codes, np.arange(codes.size + 1)
            Y = sp.csr_array(one, shape=(codes.size, self.classes_.size))
            return self._evaluate_labels(weights, X, Y, sample_weight)
        X, y = validate_rows(self, X, y, reset=False)
        codes = class_codes(y, self.classes_, "the model does not know")
        weight = None if sample_weight is None else row_weights(sample_weight, X)
        return evaluate(weights, X, codes, weight, self._threads(), self.link)

    def _evaluate_labels(
        self, weights: Weights, X: Any, y: Any, sample_weight: Any
    ) -> dict[str, float]:
        X = validate_rows(self, X, reset=False)
        Y = read_indicator(y, X.shape[0])
        name_columns(Y.shape[1], self.classes_)  # raises unless there is a column for each class
        weight = row_weights(sample_weight, X)
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if labelled.size < X.shape[0]:
            X, Y, weight = X[labelled], Y[labelled], weight[labelled]
        if not weight.any():
            raise ValueError("sample_weight: no row with a label has a weight above 0")
        counts = self._fitted.label_counts
        return evaluate_labels(weights, X, Y, weight, self._threads(), self.link, counts)

    # ----------------------------------------------------------------------------------- the model

    @property
    def coef_(self) -> Any:
        """Weights, (n_classes, n_features), or (1, n_features) for two classes."""
        if not hasattr(self, "_fitted"):
            raise AttributeError("coef_: the model is not fitted yet; call fit first")
        coef = self._class_weights()
        return coef[1:] - coef[:1] if coef.shape[0] == 2 else coef

    @property
    def intercept_(self) -> Array:
        """Intercepts, (n_classes,), or (1,) for two classes."""
        if not hasattr(self, "_fitted"):
            raise AttributeError("intercept_: the model is not fitted yet; call fit first")
        weights = self._fitted.weights
        bias = weights.bias[weights.slots]
        return bias[1:] - bias[:1] if bias.size == 2 else bias

    def sparsify(self) -> Self:
        """Convert the weights to a sparse matrix, which is smaller if most of them are 0.

        ``coef_`` is then a CSR matrix. `densify` converts it back.

        Examples
        --------
        >>> import scipy.sparse as sp
        >>> from monro import SoftmaxClassifier
        >>> X = sp.identity(500, format="csr")  # each class has its own feature
        >>> model = SoftmaxClassifier(init="zero", sampling="block", random_state=0)
        >>> model = model.fit(X, range(500))
        >>> type(model.sparsify().coef_).__name__
        'csr_matrix'
        """
        weights = self._weights()
        if not sp.issparse(weights.W):
            coef = sp.csc_matrix(self._class_weights())
            one = np.ones(coef.shape[0], coef.dtype)
            bias = weights.bias[weights.slots]
            slots = np.arange(coef.shape[0])
            kept = weights.spread, weights.calibration
            self._replace_weights(Weights(coef, bias, one, slots, *kept))
        return self

    def densify(self) -> Self:
        """Convert sparse weights back to an array.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SoftmaxClassifier(random_state=0).fit(X, y)
        >>> type(model.sparsify().densify().coef_).__name__
        'ndarray'
        """
        weights = self._weights()
        if sp.issparse(weights.W):
            W: Any = weights.W
            W = np.ascontiguousarray(W.toarray())
            self._replace_weights(weights._replace(W=W))
            self._fitted = self._fitted._replace(pairs=None)  # those weights cannot be trained so
        return self

    def _class_weights(self) -> Any:
        return class_weights(self._fitted.weights)

    # --------------------------------------------------------------------------------------- files

    def _to_contents(self) -> Contents:
        return to_contents(self)

    def _keep_predictions(self, contents: Contents) -> None:
        keep_predictions(contents)

    def _from_contents(self, contents: Contents) -> None:
        from_contents(self, contents)
