"""What a fitted softmax can tell: labels, probabilities, how good it is, and its coefficients."""

from copy import deepcopy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from monro import checks, persist
from monro.estimator import Estimator
from monro.fitting import Record
from monro.rows import Array
from monro.softmax import evaluate as evaluator
from monro.softmax.evaluate import Chances, Weights
from monro.softmax.labels import is_indicator, name_columns, read_indicator
from monro.softmax.layout import class_major
from monro.softmax.storage import from_contents, to_contents
from monro.softmax.stream import Stream


class FittedSoftmax(Estimator):
    """What `SoftmaxClassifier` can do once it is fitted.

    The model is ``_weights``. For whoever goes on from it there are ``_stream`` and ``_epochs``,
    and after a fit with warm_start ``_local``, the local variables and which rows' they are.
    """

    classes_: Array
    history_: list[Record]
    learning_rate_: float | None
    n_iter_: int
    _weights: Weights
    _stream: Stream
    _epochs: int
    _local: tuple[str, Array]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights")

    def _weights_checked(self) -> Weights:
        check_is_fitted(self)
        weights: Weights = self._weights
        return weights

    # --------------------------------------------------------------------------------- predicting

    def _each_chunk(self, X: Any, reduce: Any, axis: int = 0) -> Array:
        """Return what `reduce` makes of the scores of some checked rows after the other."""
        found = list(evaluator.chunked(self._weights, X, reduce, self._threads()))
        return np.concatenate(found, axis)

    def _chances(self, X: Any) -> tuple[Any, Chances]:
        weights = self._weights_checked()
        X = checks.data(self, X, reset=False)
        return X, Chances(weights, X, self.link)

    def decision_function(self, X: Any) -> Array:
        """Return scores ``x·w_k + b_k``, (n_rows, n_classes); for two classes the difference."""

        def reduce(S: Array, rows: slice) -> Array:
            return S[:, 1] - S[:, 0] if S.shape[1] == 2 else S

        return self._each_chunk(self._chances(X)[0], reduce)

    def predict(self, X: Any) -> Array:
        """Return the likeliest label of each row."""
        codes = self._each_chunk(self._chances(X)[0], lambda S, rows: S.argmax(axis=1))
        labels: Array = self.classes_[codes]
        return labels

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of each class's probability, of shape (n_rows, n_classes)."""
        X, chances = self._chances(X)
        return self._each_chunk(X, chances.of_all)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, of shape (n_rows, n_classes)."""
        P = np.exp(self.predict_log_proba(X))
        P /= P.sum(axis=1, keepdims=True)  # to the last digit
        return np.asarray(P)

    def predict_top_k(self, X: Any, k: int) -> tuple[Array, Array]:
        """Return the k likeliest labels of each row and their log-probabilities, best first.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        k : int
            How many; at most all classes are returned.

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
        checks.whole("k", k, 1)

        X, chances = self._chances(X)

        def reduce(S: Array, rows: slice) -> Array:
            best = evaluator.top_k(S, min(k, S.shape[1]))
            return np.stack([best, np.take_along_axis(chances.of_all(S, rows), best, axis=1)])

        found = self._each_chunk(X, reduce, axis=1)
        labels: Array = self.classes_[found[0].astype(np.int64)]
        return labels, found[1]

    def log_loss(
        self, X: Any, y: Any, sample_weight: Any = None, *, draws: int | None = None
    ) -> float:
        """Return the exact mean of ``-log p(y)``, in nats.

        Memory grows with the classes, not with the rows times the classes.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_classes)
            Labels; one the model does not know raises a ValueError. In a matrix, 1 where a row has
            the label, else 0: the loss of a row is the mean over its labels.
        sample_weight : array of shape (n_rows,), optional
        draws : int, optional
            Estimate it by so many draws of the noise instead, as paper 001 does: for comparison.

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
        checks.whole("draws", draws, 1)
        return self._mean_of(evaluator.sampled_losses, X, y, sample_weight, draws)

    def _mean_of(self, each_of: Any, X: Any, y: Any, sample_weight: Any, option: Any) -> float:
        """Return the weighted mean over rows of what the evaluator measures for each."""
        weights = self._weights_checked()
        X, y = checks.data(self, X, y, reset=False)
        codes = checks.codes(y, self.classes_, "the model does not know")
        weight = None if sample_weight is None else checks.weights(sample_weight, X)
        each = each_of(weights, X, codes, self.link, option, self._threads())
        return float(np.average(each, weights=weight))

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """Return log_loss, error, top_5_error and calibration_error, all exact.

        For a matrix of labels: log_loss, and precision_at_k and ndcg_at_k for k = 1, 3, 5.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_classes)
            Labels; or a matrix, 1 where a row has the label, else 0. Rows without a label are left
            out.
        sample_weight : array of shape (n_rows,), optional

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> sorted(SoftmaxClassifier(random_state=0).fit(X, y).evaluate(X, y))
        ['calibration_error', 'error', 'log_loss', 'top_5_error']
        """
        weights = self._weights_checked()
        if is_indicator(y):
            return self._evaluate_labels(weights, X, y, sample_weight)
        X, y = checks.data(self, X, y, reset=False)
        codes = checks.codes(y, self.classes_, "the model does not know")
        weight = None if sample_weight is None else checks.weights(sample_weight, X)
        return evaluator.evaluate(weights, X, codes, weight, self._threads(), self.link)

    def _evaluate_labels(
        self, weights: Weights, X: Any, y: Any, sample_weight: Any
    ) -> dict[str, float]:
        X = checks.data(self, X, reset=False)
        Y = read_indicator(y, X.shape[0])
        name_columns(Y.shape[1], self.classes_)  # one for each class
        weight = checks.weights(sample_weight, X)
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if labelled.size < X.shape[0]:
            X, Y, weight = X[labelled], Y[labelled], weight[labelled]
        if not weight.any():
            raise ValueError("sample_weight: no row with a label has a weight above 0")
        return evaluator.evaluate_labels(weights, X, Y, weight, self._threads(), self.link)

    # ----------------------------------------------------------------------------------- the model

    @property
    def coef_(self) -> Any:
        """Weights, (n_classes, n_features), or (1, n_features) for two classes."""
        if not hasattr(self, "_weights"):
            raise AttributeError("coef_: the model is not fitted yet; call fit first")
        coef = self._class_weights()
        return coef[1:] - coef[:1] if coef.shape[0] == 2 else coef

    @property
    def intercept_(self) -> Array:
        """Intercepts, (n_classes,), or (1,) for two classes."""
        if not hasattr(self, "_weights"):
            raise AttributeError("intercept_: the model is not fitted yet; call fit first")
        weights = self._weights
        bias = weights.bias[weights.slots]
        return bias[1:] - bias[:1] if bias.size == 2 else bias

    def sparsify(self) -> Self:
        """Keep the weights as a sparse matrix from now on: worth it where most are 0.

        ``coef_`` is then a CSR matrix. `densify` undoes it.

        Examples
        --------
        >>> import scipy.sparse as sp
        >>> from monro import SoftmaxClassifier
        >>> X = sp.identity(500, format="csr")  # every class has a feature of its own
        >>> model = SoftmaxClassifier(init="zero", sampling="block", random_state=0)
        >>> model = model.fit(X, range(500))
        >>> type(model.sparsify().coef_).__name__
        'csr_matrix'
        """
        weights = self._weights_checked()
        if not sp.issparse(weights.W):
            coef = sp.csr_matrix(self._class_weights())
            one = np.ones(coef.shape[0], coef.dtype)
            bias = weights.bias[weights.slots]
            self._weights = Weights(coef, one, bias, np.arange(coef.shape[0]), weights.spread)
        return self

    def densify(self) -> Self:
        """Keep the weights as an array again.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from monro import SoftmaxClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SoftmaxClassifier(random_state=0).fit(X, y)
        >>> type(model.sparsify().densify().coef_).__name__
        'ndarray'
        """
        weights = self._weights_checked()
        if sp.issparse(weights.W):
            W: Any = weights.W
            W = np.ascontiguousarray(W.toarray())
            self._weights = weights._replace(W=W)
        return self

    def _class_weights(self) -> Any:
        """Return the weights as ``[class, feature]``."""
        W, scale, _, slots, _ = self._weights
        return W if sp.issparse(W) else class_major(W)[slots] * scale[slots, None]

    # ---------------------------------------------------------------------------- copies and files

    def __copy__(self) -> Self:
        # partial_fit changes the weights in place: two models must not share them.
        other = super().__copy__()
        for name in ("_weights", "_stream"):
            if name in other.__dict__:
                setattr(other, name, deepcopy(getattr(self, name)))
        return other

    def _to_contents(self) -> persist.Contents:
        return to_contents(self)

    def _from_contents(self, contents: persist.Contents) -> None:
        from_contents(self, contents)
