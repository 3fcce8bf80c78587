"""SoftmaxClassifier: multinomial logistic regression with any number of classes."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if

from monro.checks.labels import (
    apply_class_weight,
    check_class_targets,
    class_codes,
    encode_classes,
    label_arrays,
    map_codes,
)
from monro.checks.parameters import refuse_factors_of_streams
from monro.checks.rows import row_weights, validate_rows
from monro.fitting.run import LabelledRows
from monro.mapped.matrices import select_rows
from monro.rows import Array
from monro.softmax.base import SoftmaxBase
from monro.softmax.multilabel import expand, is_indicator, name_columns, read_indicator
from monro.softmax.observed.fitting import fit_observed, partial_fit_observed
from monro.softmax.observed.pairs import LabelSets
from monro.softmax.observed.planning import Labels, takes_observed
from monro.softmax.parameters import check_softmax_parameters
from monro.softmax.solvers import SOLVERS, solvers_that

_OTHER_CLASSES = (
    "warm_start: the classes of y differ from those the model was fitted on; use "
    "warm_start=False, or partial_fit, which takes new classes"
)


def _has_partial_fit(estimator: Any) -> bool:
    """Raise AttributeError if the solver has no partial_fit, or the penalty is not for it."""
    refuse_factors_of_streams(estimator)
    traits = SOLVERS.get(estimator.solver)
    if traits is not None and not traits.has_partial_fit:
        able = solvers_that(lambda t: t.has_partial_fit)
        raise AttributeError(
            f"solver={estimator.solver!r} needs all rows at once: for partial_fit use {able}"
        )
    return True


class SoftmaxClassifier(ClassifierMixin, SoftmaxBase):  # type: ignore[misc]
    r"""Softmax regression with steps of bounded cost, however many classes there are.

    Maximises the likelihood: minimises, over a weight vector and an intercept for each class,

    .. math:: \alpha\Bigl(\rho\|W\|_1 + \frac{1-\rho}{2}\|W\|^2\Bigr)
        + \frac{1}{N}\sum_i \Bigl[\log\sum_k e^{s_{ik}} - s_{iy_i}\Bigr],
        \quad s_{ik} = x_i\cdot w_k + b_k

    by steps on one example and a few of the classes. They estimate the gradient without bias, and
    by default each is solved exactly (implicitly), so no learning rate makes them diverge. By
    default a step uses all of up to 256 classes, and in the last fifth of the epochs all of up to
    4,096; beyond that its cost does not depend on the number of classes.

    Parameters
    ----------
    solver : str
        "implicit", "umax", "vanilla" and "sco" are unbiased; "augment-reduce" maximises a lower
        bound of the likelihood; "ove", "nce" and "importance" are the biased methods they replace;
        "exact" and "lbfgs" use all classes. "coordinate" is coordinate descent, for sparse weights
        (l1_ratio > 0) and for an accurate optimum of any fit with up to some thousand classes: it
        has no learning rate, needs the rows in memory, and uses one thread.
        "augment-reduce-printed", "ove-adaptive" and "exact-adaptive" are those of paper 001's
        experiments. docs/softmax.md compares them.
    link : {"softmax", "probit", "logistic"}
        How scores become probabilities: the chosen class is the one of highest utility, its score
        plus Gumbel, Gaussian or logistic noise. The last two are for "augment-reduce"
        and "augment-reduce-printed".
    formulation : {"auto", "difference", "raman"}
        The double sum that "implicit", "umax" and "vanilla" minimise: eq. 5 or eq. 8 of the paper.
        "auto" is "raman" for "implicit" with init="auto" and one example per step, else
        "difference".
    init : {"auto", "zero", "paper"}
        "auto" starts from the log frequencies of the classes; "zero" from zero, as the code of the
        paper's authors; "paper" as its Algorithm 1, from zero weights and u = log K.
    sampling : {"auto", "block", "uniform", "frequency", "neighbour"}
        Which classes a step draws: blocks of 16 classes, uniformly; single classes, uniformly;
        blocks by frequency; blocks by the labels of rows that share a feature, and by frequency.
        "auto" is, for "implicit", all of at most 256 classes, else "neighbour", with all of up to
        4,096 classes in the last fifth of the epochs; for the other unbiased solvers "frequency";
        for the biased methods the sampling of their papers.
    examples_per_step, classes_per_step : int, optional
        The default depends on the solver: 1 and 16 (80 to 320 for "neighbour"); 100 and 5 for the
        biased methods.
    alpha : "auto" or float
        Strength of the penalty on the weights; intercepts are not penalised. With it, a step of
        "augment-reduce" is on all weights, O(K·D), not on those of the classes drawn. "auto" is the
        strength that predicts rows best which were held out: a path of short fits is judged by
        their log-loss, in folds of few rows, else on one hold-out (docs/strength.md); then all
        rows are fitted. A fit that continues an earlier one (warm_start,
        `partial_fit`) takes its strength; `partial_fit` on its own takes 1e-6.
    l1_ratio : float
        The share ρ of the L1 norm in the penalty, from 0 (a ridge) to 1 (a lasso). Above 0 the
        weights that do not help are exactly 0, and `sparsify` makes the model small. For
        "coordinate" and "implicit" (with one example per step). "implicit" then takes the last
        fifth of its epochs by coordinate descent; except with early_stopping or tol, with more than
        4,096 classes, in `partial_fit`, and for rows larger than memory: there the weights are
        less sparse than at the optimum, as are those of observed pairs.
    penalty_factor : array of shape (n_features,), optional
        Positive numbers: the penalty on the weights of feature j counts ``penalty_factor[j]``
        times. A small one, such as 0.01, leaves a feature almost unpenalised, a large one keeps it
        out. They are used as given, not normalised; with scale=True for the scaled columns. For
        ``l1_ratio`` 0 or 1, and rows in memory; not for `partial_fit`, a radius, "augment-reduce"
        and the other adaptive solvers. "implicit" ends with coordinate descent, as above: steps on
        rows are slow with factors far apart (docs/strength.md).
    cv : int, splitter or iterable, optional
        How alpha="auto" holds rows out: a number of folds, a splitter of scikit-learn
        (``TimeSeriesSplit(5)``), or a list of pairs of indices, as
        ``list(GroupKFold(5).split(X, y, groups))``. By default as above.
    learning_rate : "auto", "paper" or float
        The initial rate η0. "auto" finds it by short trials, in about a tenth of the fit's time.
        "paper", for "umax" with a radius, is the largest rate of its Theorem 1: safe, and tiny.
    epoch_decay : float, optional
        The factor of the rate after each epoch. By default the rate of "implicit" falls to 0 with
        the square of the epochs left; that of other solvers, and with early_stopping or tol, is
        multiplied by 0.9.
    max_epochs : int
        The maximal number of passes over the data, or of iterations of "lbfgs".
    tol : float, optional
        Stop when the log-loss (the validation loss with early_stopping) has not improved by more
        than tol for 3 epochs.
    delta : float
        For "umax": the threshold δ.
    radius : float, "paper" or None
        For "umax": the bound B_W on the norm of each class's weights, None for no bound; "paper" is
        a bound that holds at the optimum, ``√(2 log K / alpha)`` (Lemma 1).
    classes : array, optional
        All labels, if some may not occur in the training data.
    class_weight : dict, "balanced" or None
        Multiplies the weights of each class's rows.
    posterior : {None, "gaussian"}
        "gaussian", for "augment-reduce", fits a mean and a standard deviation of every weight:
        alpha is then the precision of the prior per example, and must be above 0. Probabilities
        are means over the posterior. `coef_std_` and `summary` return standard errors.
    fit_intercept : bool
        Whether to learn intercepts; if False, ``intercept_`` is 0.
    scale : "auto" or bool
        Whether `fit` centres and scales the columns inside, so that their units do not matter;
        `coef_` is in the units of the columns as given. "auto" is True with alpha="auto": a number
        for alpha is a penalty in those units. With True, alpha and learning rates are in the units
        of the scaled columns. Sparse rows stay sparse: only numbers beside text or indicators are
        scaled. `partial_fit` does not scale, nor does `fit` where data is larger than memory.
    dtype : {"float32", "float64"}
        Precision of the weights.
    shuffle : bool
        Whether to visit the rows in a new random order each epoch.
    weights : {"auto", "dense", "observed"}
        "observed": a weight for each pair of a feature and a class that occurs in a training row,
        and no other. Memory and the cost of a step do not depend on the number of classes, and all
        classes are exact at each step. Steps are AdaGrad's, and a fit takes 10 epochs (of labels
        that are questions of their own 6; of few rows more), or max_epochs if that is less. For the
        default solver, link and sampling. "auto" is "observed" for sparse rows where dense weights
        would take more than 1 GB; with a number for alpha only where they have no room in memory.
        ``plan_["because"]`` says why.
    min_pair_count : int
        For "observed": pairs that occur in fewer rows have no weight.
    label_weight : {"auto", "share", "one", "independent"}
        How a matrix of labels counts. With "share" a row with n labels is n examples of weight
        1/n, right for recall at k; with "one" of weight 1, right for precision at k. Both are one
        softmax for all classes. With "independent", for weights="observed", each label is a
        question of its own, with a squared hinge: best for precision at k, and each label has its
        own probability. "auto" is "independent" for "observed", else "share".
    early_stopping : bool
        Hold out rows, monitor the log-loss of as many of them as cost little, stop when it no
        longer falls, and restore the best epoch. If these rows show that the model is
        underconfident, multiply all scores by the factor that minimises their loss ("multiple" in
        the last record of ``history_``).
    validation_fraction : float
        The fraction of the rows to hold out.
    warm_start : bool
        Whether `fit` continues from the weights of the last fit.
    n_jobs : int, optional
        The number of threads; -1 for all cores. Threads share the weights without locks: with more
        than one, results are not reproducible to the bit, though the loss is the same.
    random_state : int, RandomState or None
        The seed. With one thread the same seed gives the same bits.
    verbose : int
        1 shows a progress bar with the current log-loss (lines, if there is no terminal).

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_features); (1, n_features) for two classes
        Computed at each access.
    intercept_ : array of shape (n_classes,) or (1,)
    classes_ : array of shape (n_classes,)
    history_ : list of dict
        For each epoch: epoch, seconds, rate and loss, estimated from the classes drawn before each
        step: cheap, and an underestimate. With verbose, tol or a callback also log_loss, exact over
        all classes on some of the rows; with early_stopping validation_loss, the same of rows held
        out, and in the last record held_out_loss, that of all rows held out for the weights kept.
        The first record also has chosen, a line that says how "auto" was resolved, and why.
    n_iter_ : int
        The number of epochs taken.
    learning_rate_ : float or None
        The η0 that was used.
    plan_ : dict
        What "auto" and None were resolved to.
    alpha_ : float
        With alpha="auto", the strength chosen.
    alpha_path_ : list of dict
        With alpha="auto", the strengths that were compared, from strong to weak: alpha, mean and
        standard_error of the log-loss of the rows held out (with independent labels, of 1 - nDCG at
        5), nonzeros (of the weights).
    calibration_ : list of float
        With independent labels and alpha="auto": a, c and the least p of their log-odds
        ``a logit p + c``, ``p = (1 + s)/2`` for a score s.

    References
    ----------
    docs/notation.md says which paper each solver comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from monro import SoftmaxClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SoftmaxClassifier(random_state=0).fit(X / 16, y)
    >>> model.score(X / 16, y) > 0.97
    True
    >>> labels, log_proba = model.predict_top_k(X[:1] / 16, 2)
    >>> labels.shape, log_proba.shape
    ((1, 2), (1, 2))
    >>> model.predict(X[:3] / 16)
    array([0, 1, 2])
    >>> model.predict_proba(X / 16).shape, model.predict_log_proba(X / 16).shape
    ((1797, 10), (1797, 10))
    >>> scores = X @ model.coef_.T / 16 + model.intercept_
    >>> bool(np.allclose(scores, model.decision_function(X / 16), atol=1e-3))
    True
    >>> lasso = SoftmaxClassifier(alpha=0.01, l1_ratio=1.0, random_state=0).fit(X / 16, y)
    >>> int(np.count_nonzero(lasso.coef_)), lasso.coef_.size
    (71, 640)

    The pixels of the left half count little, because their penalty counts a hundredfold:

    >>> factors = np.tile([100.0] * 4 + [1.0] * 4, 8)
    >>> model = SoftmaxClassifier(alpha=0.01, penalty_factor=factors, random_state=0)
    >>> left, right = np.abs(model.fit(X / 16, y).coef_).reshape(10, 8, 2, 4).mean(axis=(0, 1, 3))
    >>> bool(10 * left < right)
    True

    Weights of observed pairs, here of 1,000 classes that have a feature each:

    >>> import scipy.sparse as sp
    >>> X = sp.identity(1000, format="csr")
    >>> model = SoftmaxClassifier(weights="observed", alpha=1e-6, random_state=0)
    >>> model.fit(X, range(1000)).coef_.nnz
    1000
    """

    def __init__(
        self,
        *,
        solver: str = "implicit",
        link: str = "softmax",
        formulation: str = "auto",
        init: str = "auto",
        sampling: str = "auto",
        examples_per_step: int | None = None,
        classes_per_step: int | None = None,
        alpha: float | Literal["auto"] = "auto",
        l1_ratio: float = 0.0,
        penalty_factor: Any = None,
        cv: Any = None,
        learning_rate: float | str = "auto",
        epoch_decay: float | None = None,
        max_epochs: int = 50,
        tol: float | None = None,
        delta: float = 1.0,
        radius: float | Literal["paper"] | None = None,
        classes: Any = None,
        class_weight: Any = None,
        posterior: str | None = None,
        fit_intercept: bool = True,
        scale: bool | str = "auto",
        dtype: str = "float32",
        shuffle: bool = True,
        weights: str = "auto",
        min_pair_count: int = 1,
        label_weight: str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.solver = solver
        self.link = link
        self.formulation = formulation
        self.init = init
        self.sampling = sampling
        self.examples_per_step = examples_per_step
        self.classes_per_step = classes_per_step
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty_factor = penalty_factor
        self.cv = cv
        self.learning_rate = learning_rate
        self.epoch_decay = epoch_decay
        self.max_epochs = max_epochs
        self.tol = tol
        self.delta = delta
        self.radius = radius
        self.classes = classes
        self.class_weight = class_weight
        self.posterior = posterior
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.dtype = dtype
        self.shuffle = shuffle
        self.weights = weights
        self.min_pair_count = min_pair_count
        self.label_weight = label_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------ fitting

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
        y : array of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_labels)
            Labels of at least two classes. In a matrix, 1 where a row has the label, else 0
            (`label_weight` says how it counts); a row without labels is ignored. Its columns are
            the labels 0, 1, 2, … or, in order, those of the parameter ``classes``.
            With Parquet and Arrow the name of the column of labels, by default as in
            `monro.data.read`; with a store or chunks, which contain them, None.
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
        >>> from monro import SoftmaxClassifier
        >>> X = [[0, 1], [1, 0], [1, 1]]
        >>> Y = [[1, 0, 0], [0, 1, 1], [1, 1, 1]]  # the last row has all three labels
        >>> SoftmaxClassifier(random_state=0).fit(X, Y).predict([[0, 1]])
        array([0])

        From an Arrow table, with the labels in one column:

        >>> import pyarrow as pa
        >>> table = pa.table({"x": [0.1, 0.2, 1.1, 1.3], "fruit": ["fig", "fig", "kiwi", "kiwi"]})
        >>> SoftmaxClassifier(random_state=0).fit(table, "fruit").classes_
        array(['fig', 'kiwi'], dtype='<U4')
        """
        check_softmax_parameters(self)
        continues = self.warm_start and hasattr(self, "_fitted")
        X, y, names = self._open(X, y, sample_weight)
        groups = None
        if is_indicator(y):
            given = self._labelled(X, y, not continues, self.classes)
            observed, why = takes_observed(self, given[0], given[2].size)
            if observed:
                rows, labels = self._label_sets(*given[:2], sample_weight)
                return self._fit_observed(rows, labels, given[2], checkpoint, why, continues)
            X, y, weight, classes, groups = self._examples(*given, sample_weight)
            codes = class_codes(y, classes, "is not among classes")
        else:
            X, y = validate_rows(self, X, y, reset=not continues, names=names)
            weight = row_weights(sample_weight, X)
            found, codes = encode_classes(y)
            classes = found if self.classes is None else self._declared(found)
            codes = map_codes(found, codes, classes, "is not among classes")
        if classes.size < 2:
            raise ValueError(
                f"y holds one class only ({classes.tolist()[0]!r}): a classifier needs at least 2 "
                "classes; name the others in classes="
            )
        if continues and not np.array_equal(classes, self.classes_):
            raise ValueError(_OTHER_CLASSES)
        weight = apply_class_weight(weight, self.class_weight, classes, codes)
        if not weight.any():
            raise ValueError("sample_weight and class_weight leave no row a weight above 0")
        rows = LabelledRows(X, codes, weight)
        observed, why = takes_observed(self, X, classes.size)
        if observed and groups is None:
            labels = Labels(LabelSets.single(classes.size))
            return self._fit_observed(rows, labels, classes, checkpoint, why, continues)
        return self._fit(rows, classes, checkpoint, groups)

    def _fit_observed(
        self,
        rows: LabelledRows,
        labels: Labels,
        classes: Array,
        checkpoint: str | Path | None,
        why: str,
        continues: bool,
    ) -> Self:
        """Fit weights of observed pairs."""
        if continues and not np.array_equal(classes, self.classes_):
            raise ValueError(_OTHER_CLASSES)
        fit_observed(self, rows, labels, classes, checkpoint, why)
        return self

    def _labelled(
        self, X: Any, y: Any, reset: bool, named: Any, known: Any = None
    ) -> tuple[Any, Any, Array]:
        """Return rows, their matrix of labels, and the columns' labels."""
        X = validate_rows(self, X, reset=reset)
        Y = read_indicator(y, X.shape[0])
        return X, Y, name_columns(Y.shape[1], named, known)

    def _label_sets(self, X: Any, Y: Any, sample_weight: Any) -> tuple[LabelledRows, Labels]:
        """Return the rows that have labels, and their sets of labels."""
        weight = row_weights(sample_weight, X)
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if labelled.size < X.shape[0]:
            X, Y, weight = select_rows(X, labelled), Y[labelled], weight[labelled]
        if self.class_weight is not None:
            raise ValueError(
                "class_weight: with weights of observed pairs a row of several labels has one "
                "weight; give sample_weight, or weights='dense'"
            )
        if not weight.any():
            raise ValueError("sample_weight leaves no row with a label a weight above 0")
        counts = np.append(np.bincount(Y.indices, minlength=Y.shape[1]), labelled.size)
        rows = LabelledRows(X, np.arange(weight.size), weight)
        return rows, Labels(LabelSets.of_rows(Y), counts)

    def _declared(self, y: Array) -> Array:
        """Return the labels of the parameter `classes`, sorted; y are labels found in the data."""
        declared, _ = label_arrays({"classes": self.classes, "y": y})
        return np.unique(declared)

    def _examples(
        self, X: Any, Y: Any, labels: Array, sample_weight: Any
    ) -> tuple[Any, Array, Array, Array, Array]:
        """Return rows, labels and weights of single-label examples, and the columns' labels.

        The last array has the number of the row that each example was made of.
        """
        rows, codes, share = expand(Y)
        weight = row_weights(sample_weight, X)[rows]
        if self.label_weight != "one":
            weight = weight * share
        return select_rows(X, rows), labels[codes], weight, labels, rows

    @available_if(_has_partial_fit)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        sample_id: Any = None,
    ) -> Self:
        """Take one epoch over a batch of rows; labels not seen before become new classes.

        The learning rate continues to fall from its value after the last batch or fit.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_labels)
            As in `fit`. Columns of a matrix are the labels of ``classes``, given here or as a
            parameter; else those that the model knows, unless they are 0, 1, 2, …
        classes : array, optional
            Labels that will occur in this or later batches.
        sample_weight : array of shape (n_rows,), optional
        sample_id : array of int of shape (n_rows,), optional
            Identifies each row. A row that occurs in several batches continues with its own local
            variable, which is otherwise estimated again. Not with a matrix of labels.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from monro import SoftmaxClassifier
        >>> model = SoftmaxClassifier(random_state=0)
        >>> for _ in range(50):
        ...     model = model.partial_fit(np.eye(3)[[0, 1]], ["fig", "kiwi"])
        >>> for _ in range(50):  # a new class
        ...     model = model.partial_fit(np.eye(3), ["fig", "kiwi", "pear"])
        >>> model.predict(np.eye(3))
        array(['fig', 'kiwi', 'pear'], dtype='<U4')
        """
        check_softmax_parameters(self)
        first = not hasattr(self, "_fitted")
        observed = self.weights == "observed" or (
            self.label_weight == "independent" if first else self._has_observed_pairs
        )
        if observed and sample_id is not None:
            raise ValueError("sample_id: weights of observed pairs have no local variables")
        labels = None
        if is_indicator(y):
            if sample_id is not None:
                raise ValueError("sample_id: with a matrix of labels a row is several examples")
            columns = self.classes if classes is None else classes
            given = self._labelled(X, y, first, columns, None if first else self.classes_)
            if observed:
                rows, labels = self._label_sets(*given[:2], sample_weight)
                X, y, weight, classes = rows.X, given[2], rows.weight, given[2]
            else:
                X, y, weight, classes, _ = self._examples(*given, sample_weight)
        else:
            X, y = validate_rows(self, X, y, reset=first)
            check_class_targets(y)
            weight = row_weights(sample_weight, X)
        if isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' needs all rows at once: for partial_fit give a dict"
            )
        named = {"the model": None if first else self.classes_, "the parameter": self.classes}
        all_classes = np.unique(np.concatenate(label_arrays(named | {"classes": classes, "y": y})))
        if all_classes.size < 2:
            raise ValueError(
                "partial_fit: one class is known so far, two are needed; name more in classes="
            )
        if labels is not None:
            labels = labels.renumbered(np.searchsorted(all_classes, classes), all_classes.size)
            partial_fit_observed(self, rows, labels, all_classes)
            return self
        codes = np.searchsorted(all_classes, y)
        ids = None if sample_id is None else self._check_ids(sample_id, y.size)
        weight = apply_class_weight(
            weight, self.class_weight, all_classes, codes, more_to_come=True
        )
        rows = LabelledRows(X, codes, weight)
        if observed:
            labels = Labels(LabelSets.single(all_classes.size))
            partial_fit_observed(self, rows, labels, all_classes)
            return self
        return self._partial_fit(rows, all_classes, ids)

    @staticmethod
    def _check_ids(sample_id: Any, n: int) -> Array:
        ids = np.asarray(sample_id)
        if ids.shape != (n,) or ids.dtype.kind not in "iu":
            raise ValueError(f"sample_id: give {n} whole numbers, one for each row")
        if np.unique(ids).size < n:
            raise ValueError("sample_id: a number occurs twice; each row needs its own")
        return ids.astype(np.int64)
