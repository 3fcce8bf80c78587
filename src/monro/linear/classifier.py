"""LinearClassifier: SVM and logistic regression."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from monro.checks.labels import apply_class_weight, encode_classes
from monro.checks.rows import row_weights, validate_rows
from monro.fitting.run import LabelledRows
from monro.linear.base import LinearBase
from monro.linear.calibration import (
    ONE_VS_REST,
    SIGMOID,
    Calibration,
    fit_calibration,
    logits,
)
from monro.linear.parameters import check_linear_parameters, has_partial_fit
from monro.losses import CLASSIFICATION
from monro.mapped.chunked_arrays import take_from_table
from monro.rows import Array


class LinearClassifier(ClassifierMixin, LinearBase):  # type: ignore[misc]
    r"""Linear classifier: SVM or logistic regression, by stochastic approximation.

    Minimises, over weights w and intercept b,

    .. math:: \alpha\Bigl(\rho\|w\|_1 + \frac{1-\rho}{2}\|w\|^2\Bigr)
              + \frac{1}{N}\sum_i \ell(w\cdot x_i + b,\; y_i)

    where ρ is `l1_ratio`, 0 by default, in steps that cost O(non-zeros of one row). More than two
    classes are trained one-vs-rest.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log"}
        ``max(0, 1-yp)``, its square, or ``log(1 + exp(-yp))``. All give probabilities if alpha is
        chosen by rows held out; with a number for alpha only "log" does.
    solver : str
        "auto", "dual", "coordinate", "sgd", "asgd", "casgd", "implicit", "aisgd", "sgdqn", "asgdqn"
        or "sgdqn-flawed". "auto" chooses "dual" or "aisgd" by the shape of the data, and with
        ``l1_ratio > 0`` "coordinate", or "implicit" where the loss has kinks. With alpha="auto" it
        also chooses "coordinate" for up to 16 million non-zeros and a loss without kinks.
        ``solver_`` is the one used. docs/linear.md compares them.
    schedule : {"bottou", "inverse-t"}
        How the rate falls: "bottou" is ``η0/(1 + decay·alpha·η0·t)`` (to the power ¾ for averaged
        solvers), with an intercept that is not regularised; "inverse-t" is the papers'
        ``1/(alpha·t)``, with a regularised intercept.
    alpha : "auto" or float
        Strength of the penalty. "auto" is the one that predicts best: a path of short fits is
        judged by the loss of rows held out (log-loss, of the probabilities, for "log"), in folds of
        few rows, else on one hold-out (docs/strength.md); then all rows are fitted. A fit that
        continues an earlier one (warm_start, `partial_fit`) takes its strength; `partial_fit` on
        its own, or a single row, takes 1e-5. 0 is allowed for solvers that do not divide by it.
    l1_ratio : float
        ρ, from 0 (a ridge) to 1 (a lasso): the part of alpha that multiplies ``‖w‖₁``, which makes
        the weights that do not help exactly 0. Not for averaged solvers, "dual", those that learn
        gains, and centred rows.
    penalty_factor : array of shape (n_features,), optional
        Positive numbers: the penalty on the weight of feature j counts ``penalty_factor[j]`` times.
        A small one, such as 0.01, leaves a feature almost unpenalised, a large one keeps it out.
        They are used as given, not normalised; with scale=True for the scaled columns. For
        ``l1_ratio`` 0 or 1, and rows in memory; not for `partial_fit`. "auto" then chooses
        "coordinate" where it can: steps on rows are slow with factors far apart (docs/strength.md).
    cv : int, splitter or iterable, optional
        How alpha="auto" holds rows out: a number of folds, a splitter of scikit-learn
        (``TimeSeriesSplit(5)``), or a list of pairs of indices, as
        ``list(GroupKFold(5).split(X, y, groups))``. By default as above.
    learning_rate : "auto" or float
        η0. "auto" finds it on a sample of the rows.
    decay : float
        Multiplies alpha in the schedule.
    skip : int, optional
        Of solvers that learn gains ("sgdqn", "asgdqn", "sgdqn-flawed"): the steps between two
        passes over all weights, in which the ridge is applied and curvature measured. By default 16
        times the number of features per non-zero of a row.
    max_epochs : int
        The maximal number of passes over the data, that is, of as many steps as there are rows.
    max_steps : int, optional
        The number of steps (of each model, if there are several), in place of max_epochs: the last
        epoch ends early.
    tol : float, optional
        Stop when the objective (the validation loss with early_stopping) has not improved by more
        than tol for 3 epochs. The objective costs another pass each epoch.
    shuffle : bool or "replacement"
        Whether to visit the rows in a new random order each epoch; large data is shuffled in blocks
        of 16 consecutive rows. "replacement" draws each row independently of the others, as the
        papers state their algorithms.
    fit_intercept : bool
        Whether to learn b; if False, ``intercept_`` is 0.
    center : bool
        Whether to subtract the mean of the rows, without making sparse rows dense; predictions then
        do not change if a constant is added to a feature. `partial_fit` subtracts the mean of all
        rows so far. Always so for "casgd", which is "asgd" centred; not for solvers that learn
        gains.
    scale : "auto" or bool
        Whether `fit` centres and scales the columns inside, so that their units do not matter;
        `coef_` is in the units of the columns as given. "auto" is True with alpha="auto": a number
        for alpha is a penalty in those units. With True, alpha and learning rates are in the units
        of the scaled columns. Sparse rows stay sparse: only numbers beside text or indicators are
        scaled. `partial_fit` does not scale, nor does `fit` where data is larger than memory.
    class_weight : dict, "balanced" or None
        Multiplies the weights of each class's rows.
    early_stopping : bool
        Hold out rows, monitor their loss, stop when it no longer falls, and restore the best epoch.
    validation_fraction : float
        The fraction of the rows to hold out.
    warm_start : bool
        Whether `fit` continues from the last fit's solution.
    n_jobs : int, optional
        The number of threads; -1 for all cores. One-vs-rest models are trained in parallel, with
        the same bits as on one thread. A single model is trained on copies of its weights, which
        are averaged: its solution differs a little from that of one thread, its objective hardly.
    random_state : int, RandomState or None
        The seed. The same seed gives the same bits.
    verbose : int
        1 shows a progress bar with the objective (lines, if there is no terminal).

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    history_ : list of dict
        For each epoch: epoch, seconds, loss (the mean over rows, each before the step on it);
        objective, with tol, verbose or a callback (of some rows; in the last record of all);
        validation_loss, with early_stopping; then the last record has held_out_loss, that of the
        weights kept.
    n_iter_ : int
        The number of epochs taken.
    solver_ : str
        The solver used.
    learning_rate_ : float or None
        The η0 that was used; None for solvers without one.
    alpha_ : float
        With alpha="auto", the strength chosen.
    alpha_path_ : list of dict
        With alpha="auto", the strengths that were compared, from strong to weak: alpha, mean and
        standard_error of the loss of the rows held out, nonzeros (of the weights).
    calibration_ : list of float
        With alpha="auto", two numbers a and b, found on the rows held out: the probability of a
        class with score s is in proportion to ``exp(a s) σ(s)^b``, of two classes it is ``σ(a s)``.
        Not set for loss="log" with two classes, whose scores are log-odds.

    References
    ----------
    docs/notation.md says which paper each solver comes from.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from monro import LinearClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearClassifier(loss="log", random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.97
    True
    >>> model.predict(scale(X)[:3])
    array([0, 0, 0])
    >>> model.decision_function(scale(X)).shape, model.predict_proba(scale(X)).shape
    ((569,), (569, 2))
    >>> bool((model.predict_log_proba(scale(X)) < 0).all())
    True
    >>> model = LinearClassifier(solver="asgdqn", skip=32, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.97
    True

    The papers' T steps on rows drawn with replacement:

    >>> model = LinearClassifier(loss="log", solver="asgd", schedule="inverse-t", alpha=1e-2,
    ...                          shuffle="replacement", max_steps=1000, random_state=0)
    >>> model.fit(scale(X), y).n_iter_  # 569 steps and 431
    2

    Centred features may be anywhere:

    >>> model = LinearClassifier(loss="log", center=True, random_state=0)
    >>> near, far = (model.fit(X, y).decision_function(X) for X in (scale(X), scale(X) + 100))
    >>> bool(abs(far - near).max() < 1e-6 * abs(near).max())
    True

    The first feature is known to matter:

    >>> factors = [0.01] + 29 * [1.0]
    >>> model = LinearClassifier(loss="log", penalty_factor=factors, random_state=0)
    >>> model.fit(scale(X), y).score(scale(X), y) > 0.97
    True
    """

    def __init__(
        self,
        *,
        loss: str = "hinge",
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
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.loss = loss
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
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _losses = CLASSIFICATION

    def _targets(self, y: Array) -> list[Array]:
        signs = 2.0 * np.eye(self.classes_.size) - 1.0
        return [take_from_table(row, y) for row in (signs[1:] if len(signs) == 2 else signs)]

    def _coef_shape(self) -> tuple[int, ...]:
        return (1 if self.classes_.size == 2 else self.classes_.size, self.n_features_in_)

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
            A path (of a store, a Parquet file or a folder of them), an Arrow data set, table or
            reader, or an iterable of chunks ``(X, y)``, which is read once. Anything but a store is
            first converted to one in a temporary folder (docs/data.md).
        y : array of shape (n_rows,)
            Labels of at least two classes. With Parquet and Arrow the name of the label column, by
            default as in `monro.data.read`; with a store or chunks, which contain them, None.
        sample_weight : array of shape (n_rows,), optional
            A row of weight 2 counts as two; a row of weight 0 does not count. For a store, in the
            order of its rows.
        checkpoint : str or Path, optional
            A file to save the progress in. If the process is killed, the same call resumes from it,
            and ends with the same bits (on one thread) as an uninterrupted fit.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from monro import LinearClassifier
        >>> rng = np.random.default_rng(0)
        >>> chunks = ((X, X[:, 0] > 0) for X in (rng.normal(size=(100, 3)) for _ in range(9)))
        >>> LinearClassifier(random_state=0).fit(chunks).predict([[1, 0, 0]])
        array([1])
        """
        check_linear_parameters(self, self._losses)
        X, y, names = self._open(X, y, sample_weight)
        X, y = validate_rows(self, X, y, names=names)
        weight = row_weights(sample_weight, X)
        classes, codes = encode_classes(y)
        if classes.size < 2:
            raise ValueError(
                f"y holds one class only ({classes.tolist()[0]!r}): a classifier needs at least 2 "
                "classes"
            )
        if self.warm_start and not np.array_equal(classes, getattr(self, "classes_", classes)):
            raise ValueError(
                f"warm_start: y has the classes {classes.tolist()}, the model was fitted on "
                f"{self.classes_.tolist()}; use warm_start=False"
            )
        self.classes_: Array = classes
        weight = apply_class_weight(weight, self.class_weight, classes, codes)
        given = sample_weight is not None or self.class_weight is not None
        if given and np.unique(codes[weight > 0]).size < 2:
            raise ValueError(
                "sample_weight and class_weight leave rows of fewer than 2 classes: give another "
                "class a weight above 0"
            )
        return self._fit(LabelledRows(X, codes, weight), checkpoint)

    def _labels(self, y: Array) -> Array:
        labels: Array = self.classes_[y]
        return labels

    def _losses_of(self, scores: Array, y: Array) -> Array:
        if scores.shape[1] == 1 or not self._loss_traits.gives_probabilities:
            return super()._losses_of(scores, y)
        losses: Array = -log_softmax(scores, axis=1)[np.arange(y.size), y]
        return losses

    def _calibrate(self, scores: Array, y: Array, weight: Array, times: float) -> dict[str, Any]:
        if scores.shape[1] == 1 and self._loss_traits.gives_probabilities:
            return {}  # as they should be: the strength was chosen by their log-loss
        return {"calibration_": list(fit_calibration(scores, y, weight, times))}

    def _strata(self, y: Array) -> Array | None:
        return y if np.unique(y, return_counts=True)[1].min() > 1 else None

    @available_if(has_partial_fit)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take one epoch over a batch of rows.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        classes : array, optional
            All labels that will ever occur; needed at the first call.
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from monro import LinearClassifier
        >>> rng = np.random.default_rng(0)
        >>> model = LinearClassifier(solver="aisgd", random_state=0)
        >>> for _ in range(5):  # batches as they come
        ...     X = rng.normal(size=(200, 3))
        ...     model = model.partial_fit(X, X[:, 0] > 0, classes=[False, True])
        >>> model.predict([[1, 0, 0]])
        array([ True])
        """
        check_linear_parameters(self, self._losses)
        first = not hasattr(self, "coef_")
        X, y = validate_rows(self, X, y, reset=first)
        check_classification_targets(y)
        weight = row_weights(sample_weight, X)
        if first:
            if classes is None:
                raise ValueError("classes: name all labels at the first call to partial_fit")
            self.classes_ = np.unique(classes)
            if self.classes_.size < 2:
                raise ValueError(f"classes={classes!r}: a classifier needs at least 2 classes")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {self.classes_.tolist()}"
            )
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            row = int(np.flatnonzero(np.isin(y, unknown))[0])
            raise ValueError(f"y: row {row} has the label {y[row]!r}, which is not among classes")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once: for partial_fit give a dict"
            )
        codes = np.searchsorted(self.classes_, y)
        weight = apply_class_weight(weight, self.class_weight, self.classes_, codes)
        return self._partial_fit(LabelledRows(X, codes, weight))

    def decision_function(self, X: Any) -> Array:
        """Return ``w·x + b``: shape (n_rows,) for two classes, else (n_rows, n_classes)."""
        scores = self._scores(X)
        return scores.ravel() if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the label of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: Array = self.classes_[codes]
        return labels

    def _has_proba(self) -> bool:
        able = [name for name, loss in self._losses.items() if loss.traits.gives_probabilities]
        if self.loss not in able and self.alpha != "auto":
            needed = " or ".join(f"loss={name!r}" for name in able)
            raise AttributeError(
                f"predict_proba needs {needed} or alpha='auto', this is loss={self.loss!r} with "
                f"alpha={self.alpha!r}"
            )
        return True

    @available_if(_has_proba)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, for loss="log" or alpha="auto".

        With alpha="auto" they are found from the scores by two numbers that the rows held out
        determine (``calibration_``), which loss="log" with two classes does not need. Otherwise
        one-vs-rest probabilities are normalised.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            log_odds = logits(self._calibration(), scores)
            return np.column_stack([expit(-log_odds), expit(log_odds)])
        return np.asarray(softmax(logits(self._calibration(), scores), axis=1))

    @available_if(_has_proba)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            log_odds = logits(self._calibration(), scores)
            return np.column_stack([log_expit(-log_odds), log_expit(log_odds)])
        return np.asarray(log_softmax(logits(self._calibration(), scores), axis=1))

    def _calibration(self) -> Calibration:
        """Return the numbers by which scores become logits."""
        if hasattr(self, "calibration_"):
            return Calibration(*self.calibration_)
        if not self._loss_traits.gives_probabilities:
            raise AttributeError(
                f"loss={self.loss!r}: probabilities are found by fit with alpha='auto' (of two "
                "rows or more), not by partial_fit; use loss='log'"
            )
        return SIGMOID if self.classes_.size == 2 else ONE_VS_REST
