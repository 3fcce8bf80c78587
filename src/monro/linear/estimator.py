"""LinearClassifier and LinearRegressor: scikit-learn's interface to the linear solvers."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from monro.errors import DivergenceError
from monro.linear import _checks
from monro.linear.solvers import SOLVERS, Problem, make_solver, state_from_solution
from monro.linear.state import Examples
from monro.linear.train import Task, choose_rate, curvature_ratio, mean_loss, objective, train
from monro.losses import Absolute, Hinge, Huber, Log, Loss, Poisson, Squared, SquaredHinge
from monro.progress import Progress
from monro.rows import Array, as_rows

Record = dict[str, float]


class _Linear(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share: from checked data to `coef_`."""

    def _loss(self) -> Loss:
        """Return the loss of the parameters."""
        raise NotImplementedError

    def _targets(self, y: Array) -> list[Array]:
        """Return the targets of each model to train."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------------------ one fit

    def _rng(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return np.random.default_rng(seed)

    def _fit(self, X: Any, y: Array, weight: Array) -> Self:
        """Train for up to max_epochs on checked data."""
        rng = self._rng()
        kept = np.flatnonzero(weight)
        if kept.size < weight.size:
            X, y, weight = X[kept], y[kept], weight[kept]
        held_out = None
        if self.early_stopping:
            X, y, weight, held_out = self._hold_out(X, y, weight)
        weight = weight * (weight.size / weight.sum())
        if not self.warm_start:
            self.__dict__.pop("_states", None)
        problems = self._problems(X, y, weight)
        tasks = self._tasks(problems, rng, streaming=False)
        evaluate, monitor = self._evaluation(problems, held_out)
        context = self._init_callback_context(max_subtasks=self.max_epochs)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        title = f"{type(self).__name__}({self.solver_})"
        with Progress(self.verbose > 0, title, self.max_epochs, y.size * len(tasks)) as progress:
            subcontext = context.subcontext(task_name="epoch")
            subcontext.call_on_fit_task_begin(estimator=self, X=X, y=y)

            def after_epoch(record: Record) -> bool:
                nonlocal subcontext
                self._check_finite(record, tasks)
                progress.epoch(record)
                stop: bool = subcontext.call_on_fit_task_end(
                    estimator=self,
                    X=X,
                    y=y,
                    metadata=record,
                    reconstruction_attributes=lambda: self._solution(tasks),
                )
                if record["epoch"] < self.max_epochs and not stop:
                    subcontext = context.subcontext(task_name="epoch")
                    subcontext.call_on_fit_task_begin(estimator=self, X=X, y=y)
                return stop

            self.history_ = train(
                tasks,
                epochs=self.max_epochs,
                shuffle=self.shuffle,
                rng=rng,
                n_jobs=effective_n_jobs(self.n_jobs),
                evaluate=evaluate,
                monitor=monitor,
                tol=self.tol,
                after_epoch=after_epoch,
            )
        self._finish(tasks, keep=self.warm_start or SOLVERS[self.solver_].streams)
        self.n_iter_ = len(self.history_)
        context.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes=lambda: self._solution(tasks)
        )
        return self

    def _partial_fit(self, X: Any, y: Array, weight: Array) -> Self:
        """Take one epoch over a batch; rates go on falling from where they were."""
        rng = self._rng()
        kept = np.flatnonzero(weight)
        if kept.size == 0:
            return self
        if kept.size < weight.size:
            X, y, weight = X[kept], y[kept], weight[kept]
        tasks = self._tasks(self._problems(X, y, weight), rng, streaming=True)
        history = train(
            tasks,
            epochs=1,
            shuffle=self.shuffle,
            rng=rng,
            n_jobs=effective_n_jobs(self.n_jobs),
            after_epoch=lambda record: self._check_finite(record, tasks),
        )
        self._finish(tasks, keep=True)
        self.history_ = [*getattr(self, "history_", [])]
        self.n_iter_ = len(self.history_) + 1
        self.history_.append({**history[0], "epoch": self.n_iter_})
        return self

    def _hold_out(self, X: Any, y: Array, weight: Array) -> tuple[Any, Array, Array, Any]:
        """Set rows aside for early stopping."""
        by_class = y if isinstance(self, LinearClassifier) and np.bincount(y).min() > 1 else None
        try:
            training, held_out = train_test_split(
                np.arange(y.size),
                test_size=self.validation_fraction,
                stratify=by_class,
                random_state=check_random_state(self.random_state).randint(2**31 - 1),
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping: {y.size} rows cannot be split with validation_fraction="
                f"{self.validation_fraction} ({error}); give more rows or early_stopping=False"
            ) from None
        validation = (X[held_out], y[held_out], weight[held_out])
        return X[training], y[training], weight[training], validation

    def _problems(self, X: Any, y: Array, weight: Array) -> list[Problem]:
        rows = as_rows(X)
        loss = self._loss()
        lam = float(self.alpha)
        return [
            Problem(loss, Examples(rows, target, weight), lam, bool(self.fit_intercept), X.shape[1])
            for target in self._targets(y)
        ]

    def _tasks(
        self, problems: list[Problem], rng: np.random.Generator, *, streaming: bool
    ) -> list[Task]:
        """Pair each problem with a solver, which goes on from an earlier fit if there is one."""
        states = getattr(self, "_states", [None] * len(problems))
        fresh = states[0] is None
        if fresh:
            self.solver_ = self._choose_solver(problems[0], rng, streaming)
            if streaming and hasattr(self, "coef_"):
                t = float(self.n_iter_ * problems[0].examples.y.size)
                states = [
                    state_from_solution(w, b, t)
                    for w, b in zip(np.atleast_2d(self.coef_), self.intercept_, strict=True)
                ]
        _checks.combination(self, self.solver_, streaming=streaming)
        if fresh:
            self.learning_rate_ = self._choose_rate(problems, rng)
        tasks = []
        for problem, state in zip(problems, states, strict=True):
            solver = make_solver(
                problem, self.solver_, self.schedule, self.learning_rate_ or 1.0, self.decay, state
            )
            seed = rng.integers(2**63)
            tasks.append(Task(solver, problem, solver.start(), np.random.default_rng(seed)))
        return tasks

    def _choose_solver(self, problem: Problem, rng: np.random.Generator, streaming: bool) -> str:
        """Resolve solver="auto" (docs/linear.md has the measurements behind the rule)."""
        if self.solver != "auto":
            return str(self.solver)
        scheduled = self.schedule != "bottou" or self.learning_rate != "auto" or self.decay != 1
        if streaming or scheduled or self.alpha == 0:
            return "aisgd"
        # Many rows on few features: a few averaged passes reach the optimum. Otherwise it pays to
        # remember each example, unless the ridge is so weak that this takes hundreds of epochs.
        epochs = curvature_ratio(problem, rng)
        few_rows = problem.examples.y.size < 10 * problem.n_features
        return "dual" if epochs < 1 or (epochs < 100 and few_rows) else "aisgd"

    def _choose_rate(self, problems: list[Problem], rng: np.random.Generator) -> float | None:
        """Resolve learning_rate="auto"; None where the solver takes none."""
        if self.schedule == "inverse-t" or not SOLVERS[self.solver_].takes_rate:
            return None
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        # One-vs-rest models share the rows, so they share the rate: that of the evenest split.
        evenest = min(problems, key=lambda p: abs(float(p.examples.y.mean())))
        return choose_rate(evenest, self.solver_, float(self.decay), rng)

    def _evaluation(
        self, problems: list[Problem], held_out: Any
    ) -> tuple[Callable[[list[tuple[Array, float]]], Record] | None, str | None]:
        """Return what to measure after each epoch, and which of it decides when to stop."""
        tests = self._problems(*held_out) if held_out is not None else []
        watching = self.tol is not None or self.verbose > 0 or hasattr(self, "_skl_callbacks")
        if not watching and not tests:
            return None, None

        def evaluate(solutions: list[tuple[Array, float]]) -> Record:
            record = {}
            if watching:
                losses = [objective(p, *s) for p, s in zip(problems, solutions, strict=True)]
                record["objective"] = float(np.mean(losses))
            if tests:
                losses = [mean_loss(p, *s) for p, s in zip(tests, solutions, strict=True)]
                record["validation_loss"] = float(np.mean(losses))
            return record

        if tests:
            return evaluate, "validation_loss"
        return evaluate, "objective" if self.tol is not None else None

    def _check_finite(self, record: Record, tasks: list[Task]) -> bool:
        """Raise if a solver left the range of numbers; return False: no reason to stop."""
        if np.isfinite(record["loss"]) and np.isfinite(record.get("objective", 0.0)):
            return False
        if all(np.isfinite(w).all() and np.isfinite(b) for w, b in (t.solution() for t in tasks)):
            return False
        raise self._divergence(record["epoch"])

    def _divergence(self, epoch: float) -> DivergenceError:
        rate = f" with learning_rate={self.learning_rate_:g}" if self.learning_rate_ else ""
        return DivergenceError(
            f"solver={self.solver_!r} diverged in epoch {epoch:.0f}{rate}: use a smaller "
            "learning_rate or 'auto', scale the features, or use solver='aisgd', which no "
            "learning rate makes diverge"
        )

    def _solution(self, tasks: list[Task]) -> dict[str, Array]:
        solutions = [task.solution() for task in tasks]
        coef = np.array([w for w, _ in solutions])
        intercept = np.array([b for _, b in solutions])
        if isinstance(self, LinearRegressor):
            coef = coef[0]
        return {"coef_": coef, "intercept_": intercept}

    def _finish(self, tasks: list[Task], *, keep: bool) -> None:
        solution = self._solution(tasks)
        if not all(np.isfinite(array).all() for array in solution.values()):
            raise self._divergence(len(getattr(self, "history_", [])) or 1)
        self.__dict__.update(solution)
        self.__dict__.pop("_states", None)
        if keep:
            self._states = [task.state for task in tasks]

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "coef_")
        X = _checks.data(self, X, reset=False)
        scores: Array = X @ self.coef_.T + self.intercept_
        return scores


class LinearClassifier(ClassifierMixin, _Linear):  # type: ignore[misc]
    r"""Linear classifier: SVM or logistic regression, by stochastic approximation.

    Minimises, over weights w and intercept b,

    .. math:: \frac{\alpha}{2}\|w\|^2 + \frac{1}{N}\sum_i \ell(w\cdot x_i + b,\; y_i)

    in steps that cost O(non-zeros of one row). Two classes directly, more one-vs-rest.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log"}
        ``max(0, 1-yp)``, its square, or ``log(1 + exp(-yp))``; only "log" gives probabilities.
    solver : {"auto", "dual", "asgd", "sgd", "casgd", "implicit", "aisgd", "sgdqn", "sgdqn-flawed"}
        "auto" takes "dual" or "aisgd", by the shape of the data; ``solver_`` tells which.
        docs/linear.md compares them.
    schedule : {"bottou", "inverse-t"}
        How the rate falls: ``η0/(1 + decay·alpha·η0·t)`` (to the power ¾ for averaged solvers), the
        intercept not regularised; or the papers' ``1/(alpha·t)``, the intercept regularised.
    alpha : float
        Strength λ of the ridge; 0 is allowed for solvers that do not divide by it.
    learning_rate : "auto" or float
        η0. "auto" finds it on a sample of the rows.
    decay : float
        Multiplies alpha in the schedule.
    max_epochs : int
        Passes over the data at most.
    tol : float, optional
        Stop when the objective (the validation loss with early_stopping) has not improved by more
        than tol for 3 epochs. The objective costs another pass each epoch.
    shuffle : bool
        Visit the rows in a new random order each epoch: in blocks of 16 neighbours on large data.
    fit_intercept : bool
        Whether to learn b; without, ``intercept_`` is 0.
    class_weight : dict, "balanced" or None
        Multiplies the weights of each class's rows.
    early_stopping : bool
        Hold out rows, watch their loss, stop when it no longer falls, restore the best epoch.
    validation_fraction : float
        The share of the rows to hold out.
    warm_start : bool
        Whether `fit` goes on from the last fit's solution.
    n_jobs : int, optional
        Threads; -1 for all cores. Several classes share them, with the same bits as one thread. A
        single model is trained on copies of its weights that are averaged: with `n_jobs` > 1 its
        solution differs a little from that of one thread, though not its objective.
    random_state : int, RandomState or None
        The same number gives the same bits.
    verbose : int
        1 shows a progress bar (lines, where there is no terminal) with the objective.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    history_ : list of dict
        For each epoch: epoch, seconds, loss (each row's, before the step on it), and, where they
        were asked for, objective and validation_loss.
    n_iter_ : int
        Epochs taken.
    solver_ : str
        The solver used.
    learning_rate_ : float or None
        η0 as used; None where there is none.

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
    """

    def __init__(
        self,
        *,
        loss: str = "hinge",
        solver: str = "auto",
        schedule: str = "bottou",
        alpha: float = 1e-5,
        learning_rate: float | str = "auto",
        decay: float = 1.0,
        max_epochs: int = 10,
        tol: float | None = None,
        shuffle: bool = True,
        fit_intercept: bool = True,
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
        self.learning_rate = learning_rate
        self.decay = decay
        self.max_epochs = max_epochs
        self.tol = tol
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _losses = {"hinge": Hinge, "squared_hinge": SquaredHinge, "log": Log}

    def _loss(self) -> Loss:
        return self._losses[self.loss]()

    def _targets(self, y: Array) -> list[Array]:
        if self.classes_.size == 2:
            return [np.where(y == 1, 1.0, -1.0)]
        return [np.where(y == k, 1.0, -1.0) for k in range(self.classes_.size)]

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Labels of at least two classes.
        sample_weight : array of shape (n_rows,), optional
            A row of weight 2 counts as two; a row of weight 0 does not count.

        Returns
        -------
        self
        """
        _checks.parameters(self, self._losses)
        X, y = _checks.data(self, X, y)
        check_classification_targets(y)
        weight = _checks.weights(sample_weight, X)
        classes = np.unique(y)
        if classes.size < 2:
            raise ValueError(
                f"y holds one class only ({classes[0]!r}): a classifier needs at least 2 classes"
            )
        if self.warm_start and not np.array_equal(classes, getattr(self, "classes_", classes)):
            raise ValueError(
                f"warm_start: y has the classes {classes.tolist()}, the model was fitted on "
                f"{self.classes_.tolist()}; use warm_start=False"
            )
        self.classes_: Array = classes
        codes = np.searchsorted(classes, y)
        return self._fit(X, codes, weight * self._class_weights(codes))

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
        """
        _checks.parameters(self, self._losses)
        first = not hasattr(self, "coef_")
        X, y = _checks.data(self, X, y, reset=first)
        check_classification_targets(y)
        weight = _checks.weights(sample_weight, X)
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
        return self._partial_fit(X, codes, weight * self._class_weights(codes))

    def _class_weights(self, codes: Array) -> Array:
        """Return the class weight of each row."""
        if self.class_weight is None:
            return np.ones(codes.size)
        per_class = compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_[codes]
        )
        of_rows: Array = per_class[codes]
        return of_rows

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
        if self.loss != "log":
            raise AttributeError(f"predict_proba needs loss='log', this is loss={self.loss!r}")
        return True

    @available_if(_has_proba)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, for loss="log"; one-vs-rest ones are normalised."""
        from scipy.special import expit

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        # Relative to the most likely class, so that no row sums to 0.
        log_odds = -np.logaddexp(0.0, -scores)
        proba = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))

    @available_if(_has_proba)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)])
        log_odds = -np.logaddexp(0.0, -scores)
        return np.asarray(log_odds - np.logaddexp.reduce(log_odds, axis=1, keepdims=True))


class LinearRegressor(RegressorMixin, _Linear):  # type: ignore[misc]
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

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Any, Array, Array]:
        _checks.parameters(self, self._losses)
        _checks.number("delta", self.delta, 0.0, open_at_low=True)
        X, y = _checks.data(self, X, y, reset=reset)
        try:
            y = np.ascontiguousarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must hold numbers, not {np.asarray(y).dtype}") from None
        if self.loss == "poisson" and (y < 0).any():
            row = int(np.argmax(y < 0))
            raise ValueError(f"y: row {row} is {y[row]:g}, but loss='poisson' counts, y >= 0")
        return X, y, _checks.weights(sample_weight, X)

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional
            A row of weight 2 counts as two; a row of weight 0 does not count.

        Returns
        -------
        self
        """
        return self._fit(*self._checked(X, y, sample_weight, reset=True))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take one epoch over a batch of rows; parameters as in `fit`."""
        first = not hasattr(self, "coef_")
        return self._partial_fit(*self._checked(X, y, sample_weight, reset=first))

    def predict(self, X: Any) -> Array:
        """Return the prediction for each row: ``w·x + b``, for loss="poisson" its exponential."""
        scores = self._scores(X)
        return np.exp(scores) if self.loss == "poisson" else scores
