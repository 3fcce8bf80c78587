"""What the linear estimators share: from checked data to `coef_`."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from monro import checks, persist
from monro.errors import DivergenceError
from monro.estimator import Estimator, drop_weightless, of_mean_one
from monro.fitting import Record, run_epochs
from monro.linear import _checks
from monro.linear.columns import Columns, columns_of
from monro.linear.solvers import LEARNT, SOLVERS, Problem, make_solver
from monro.linear.state import Examples
from monro.linear.storage import STATES, from_contents, same_width, to_contents
from monro.linear.train import (
    Task,
    Trainer,
    choose_rate,
    curvature_ratio,
    map_weights,
    mean_loss,
    objective,
    single_loss,
)
from monro.losses import Loss
from monro.mapped import is_mapped, room_beside, row_parts
from monro.rows import Array

# A loss this many times that of zero weights is not learning: explicit steps are running away.
_RUNAWAY = 1e6


def _loss_at_zero(tasks: list[Task]) -> float:
    """Return the mean loss of zero weights, at least of the order of the loss's own scale."""
    zeros = []
    for task in tasks:
        loss, (_, y, _) = task.problem.loss, task.problem.examples
        zeros.append(max(1.0, *(single_loss(loss, 0.0, t) for t in (y.min(), y.max()))))
    return float(np.mean(zeros))


def suited_solver(epochs: float, n_examples: int, n_features: int) -> str:
    """Return what suits data on which the dual solver takes about so many epochs.

    Many rows on few features: a few averaged passes reach the optimum. Otherwise it pays to
    remember each example, unless the ridge is so weak that this takes hundreds of epochs.
    """
    few_rows = n_examples < 10 * n_features
    return "dual" if epochs < 1 or (epochs < 100 and few_rows) else "aisgd"


class Linear(Estimator):
    """Base of LinearClassifier and LinearRegressor, which add targets, losses and predictions."""

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of the parameters."""

    @abstractmethod
    def _targets(self, y: Array) -> list[Array]:
        """Return the targets of each model to train."""

    # ------------------------------------------------------------------------------ one fit

    def _fit(self, X: Any, y: Array, weight: Array, checkpoint: str | Path | None = None) -> Self:
        """Train for up to max_epochs on checked data."""
        seed = self._seed()
        self.__dict__.pop("_layout", None)  # of an earlier fit's data
        X, y, weight = drop_weightless(X, y, weight)
        saved = self._checkpoint(checkpoint, X, y, weight, STATES, same_width)
        if saved is not None and saved.found:
            seed = saved.about("seed")
        rng = np.random.default_rng(seed)
        columns = self._columns(X)
        held_out = None
        if self.early_stopping:
            X, y, weight, held_out = self._hold_out(X, y, weight, seed)
        weight = of_mean_one(weight)
        problems = self._problems(X, y, weight, columns=columns)
        tasks = self._tasks(problems, rng, streaming=False)
        tests = [] if held_out is None else self._problems(*held_out, columns=columns)
        evaluate, monitor = self._evaluation(tasks, tests)
        keep = self.warm_start or SOLVERS[self.solver_].streams
        with self._trainer(tasks, columns, rng, X if is_mapped(X) else None) as trainer:
            run_epochs(
                self,
                trainer,
                X=X,
                y=self._labels(y) if self._watched else y,
                title=self.solver_,
                visits=y.size * len(tasks),
                check=lambda record: self._check_finite(record, tasks),
                finish=lambda: self._finish(trainer, keep=keep),
                seed=seed,
                evaluate=evaluate,
                monitor=monitor,
                restore_best=held_out is not None,
                checkpoint=saved,
            )
        return self

    def _columns(self, X: Any) -> Columns:
        """Choose which columns to keep."""
        # Earlier states to go on from are as wide as X; learnt gains go on for absent columns, too;
        # and the indices of data that is larger than memory cannot be copied.
        if self.warm_start or self.solver in LEARNT or is_mapped(X):
            return Columns(X.shape[1])
        return columns_of(X)

    def _partial_fit(self, X: Any, y: Array, weight: Array) -> Self:
        """Take one epoch over a batch; rates go on falling from where they were."""
        rng = np.random.default_rng(self._seed())
        if not weight.any():
            return self
        columns = Columns(X.shape[1])
        problems = self._problems(*drop_weightless(X, y, weight), columns=columns)
        tasks = self._tasks(problems, rng, streaming=True)
        history = getattr(self, "history_", [])
        with self._trainer(tasks, columns, rng) as trainer:
            record = trainer.epoch() | {"epoch": len(history) + 1}
        self._check_finite(record, tasks)
        self._finish(trainer, keep=True)
        self.history_ = [*history, record]
        self.n_iter_ = len(self.history_)
        return self

    def _trainer(
        self, tasks: list[Task], columns: Columns, rng: np.random.Generator, X: Any = None
    ) -> Trainer:
        return Trainer(
            tasks,
            columns,
            self._coef_shape(),
            shuffle=self.shuffle,
            rng=rng,
            n_jobs=self._threads(),
            X=X,
        )

    def _labels(self, y: Array) -> Array:
        """Return targets as the user gave them."""
        return y

    def _first_intercept(self, problem: Problem) -> float:
        """Return the intercept to begin with."""
        return 0.0

    def _problems(self, X: Any, y: Array, weight: Array, *, columns: Columns) -> list[Problem]:
        loss = self._loss()
        rows = columns.rows(X)
        lam, biased = float(self.alpha), bool(self.fit_intercept)
        weights = room_beside(y, np.float64)
        weights[:] = weight
        return [
            Problem(loss, Examples(rows, target, weights), lam, biased, columns.kept)
            for target in self._targets(y)
        ]

    def _tasks(
        self, problems: list[Problem], rng: np.random.Generator, *, streaming: bool
    ) -> list[Task]:
        """Pair each problem with a solver, which goes on from an earlier fit if there is one."""
        name = self._choose_solver(problems[0], rng, streaming)
        _checks.combination(self, name)
        solutions = self._earlier_solutions(problems) if streaming or self.warm_start else None
        form = (name, self.schedule, bool(self.fit_intercept))
        same = solutions is not None and getattr(self, "_form", None) == form
        states = getattr(self, "_states", None) if same else None
        if not (same and self.learning_rate == "auto"):
            self.learning_rate_ = self._choose_rate(name, problems, rng)
        self.solver_ = name
        self._form = form
        tasks = []
        for k, problem in enumerate(problems):
            solver = make_solver(
                problem,
                name,
                self.schedule,
                self.learning_rate_ or 1.0,
                float(self.decay),
                states[k] if states is not None else None,
            )
            if solutions is None or states is not None:
                # A batch does not tell how the classes are shared out.
                state = solver.start(0.0 if streaming else self._first_intercept(problem))
            else:
                t = float(self.n_iter_ * problem.examples.y.size)
                state = solver.resume(*solutions[k], t)
            seed = rng.integers(2**63)
            tasks.append(Task(solver, problem, state, np.random.default_rng(seed)))
        # The states are changed in place from here on. Should the fit fail, coef_ is what is left.
        self.__dict__.pop("_states", None)
        return tasks

    def _earlier_solutions(self, problems: list[Problem]) -> list[tuple[Array, float]] | None:
        """Return the solutions of an earlier fit, one for each problem, if there was one."""
        if not hasattr(self, "coef_"):
            return None
        coef = np.atleast_2d(self.coef_)
        if coef.shape != (len(problems), problems[0].n_features):
            raise ValueError(
                f"warm_start: the model was fitted on {coef.shape[1]} features, X has "
                f"{problems[0].n_features}; use warm_start=False"
            )
        intercepts = self.intercept_ if self.fit_intercept else np.zeros(len(problems))
        return [(w, float(b)) for w, b in zip(coef, intercepts, strict=True)]

    def _choose_solver(self, problem: Problem, rng: np.random.Generator, streaming: bool) -> str:
        """Resolve solver="auto" (docs/linear.md has the measurements behind the rule)."""
        if self.solver != "auto":
            return str(self.solver)
        scheduled = self.schedule != "bottou" or self.learning_rate != "auto" or self.decay != 1
        if streaming or scheduled or self.alpha == 0:
            return "aisgd"
        epochs = curvature_ratio(problem, rng)
        return suited_solver(epochs, problem.examples.y.size, self.n_features_in_)

    def _choose_rate(
        self, solver: str, problems: list[Problem], rng: np.random.Generator
    ) -> float | None:
        """Resolve learning_rate="auto"; None where the solver takes none."""
        if self.schedule == "inverse-t" or not SOLVERS[solver].takes_rate:
            return None
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        # One-vs-rest models share the rows, so they share the rate: that of the evenest split.
        evenest = min(problems, key=lambda p: abs(float(p.examples.y.mean())))
        return choose_rate(evenest, solver, float(self.decay), rng)

    def _evaluation(
        self, tasks: list[Task], tests: list[Problem]
    ) -> tuple[Callable[[], Record] | None, str | None]:
        """Return what to measure after each epoch, and which of it decides when to stop."""
        watching = self.tol is not None or self.verbose > 0 or self._watched
        if not watching and not tests:
            return None, None

        def evaluate() -> Record:
            solutions = [task.solution() for task in tasks]
            record = {}
            if watching:
                losses = [objective(t.problem, *s) for t, s in zip(tasks, solutions, strict=True)]
                record["objective"] = float(np.mean(losses))
            if tests:
                losses = [mean_loss(p, *s) for p, s in zip(tests, solutions, strict=True)]
                record["validation_loss"] = float(np.mean(losses))
            return record

        if tests:
            return evaluate, "validation_loss"
        return evaluate, "objective" if self.tol is not None else None

    def _check_finite(self, record: Record, tasks: list[Task]) -> None:
        """Raise if a solver left the range of numbers, or is on its way there."""
        if record["loss"] <= _RUNAWAY * _loss_at_zero(tasks):
            return
        solutions = [task.solution() for task in tasks]
        now = np.mean([mean_loss(t.problem, *s) for t, s in zip(tasks, solutions, strict=True)])
        if not now <= _RUNAWAY * _loss_at_zero(tasks):
            raise self._divergence(record["epoch"])

    def _divergence(self, epoch: float) -> DivergenceError:
        if self.learning_rate_ is None:
            cause, cure = "", "use a larger alpha, schedule='bottou'"
        else:
            cause = f" with learning_rate={self.learning_rate_:g}"
            cure = "use a smaller learning_rate or 'auto'"
        return DivergenceError(
            f"solver={self.solver_!r} diverged in epoch {epoch:.0f}{cause}: {cure}, scale the "
            "features, or use solver='aisgd', which no learning rate makes diverge"
        )

    def _finish(self, trainer: Trainer, *, keep: bool) -> None:
        solution = trainer.solution()
        if not all(np.isfinite(array).all() for array in solution.values()):
            raise self._divergence(getattr(self, "n_iter_", 1))
        self.__dict__.update(solution)
        if keep:
            widen = trainer.columns.widen
            self._states = [map_weights(widen, state) for state in trainer.states]

    # ------------------------------------------------------------------------------ files

    def _to_contents(self) -> persist.Contents:
        return to_contents(self)

    def _from_contents(self, contents: persist.Contents) -> None:
        from_contents(self, contents)

    @abstractmethod
    def _coef_shape(self) -> tuple[int, ...]:
        """Return the shape of coef_."""

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "coef_")
        X = checks.data(self, X, reset=False)
        parts = row_parts(X) if is_mapped(X) else [X]
        scores: Array = np.concatenate([part @ self.coef_.T for part in parts]) + self.intercept_
        return scores
