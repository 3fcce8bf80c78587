"""The base of the linear estimators: from checked rows to a trainer, from weights to scores."""

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from monro.checks.rows import validate_rows
from monro.estimator import Estimator
from monro.fitting.conditioning import (
    AS_GIVEN,
    Conditioning,
    choose_conditioning,
    without_light_penalties,
)
from monro.fitting.epochs import train, train_batch
from monro.fitting.path import (
    StrengthPath,
    follow_path,
    lasso_strengths,
    needs_path,
    resolved_alpha,
    ridge_strengths,
)
from monro.fitting.run import LabelledRows, Run
from monro.fitting.splits import (
    make_splits,
    pairs_of,
    rows_to_fold,
    times_judged,
)
from monro.linear.algorithms.solver_base import NEARLY_SETTLED, SETTLED
from monro.linear.centring import with_centre
from monro.linear.columns import Columns, used_columns
from monro.linear.examples import Examples
from monro.linear.objective import curvature_ratio, losses_of, mean_sqnorm
from monro.linear.parameters import check_combination
from monro.linear.path_model import (
    LinearPathModel,
    SideBySidePathModel,
    few_enough_for_columns,
    fit_side_by_side,
    goes_side_by_side,
    may_fold,
    sample_rows,
    strongest_lasso,
)
from monro.linear.problem import Problem, columns_of
from monro.linear.rate import choose_rate
from monro.linear.solvers import SOLVERS, make_solver, solvers_that
from monro.linear.storage import STATES, dense_coef, from_contents, keep_predictions, to_contents
from monro.linear.trainer import LinearFit, LinearTrainer, SingleModel
from monro.losses import Loss, LossTraits
from monro.mapped.chunked_arrays import empty_alongside, is_mapped
from monro.mapped.matrices import row_chunks
from monro.memory import require_memory
from monro.penalties import ElasticNet, Penalty, Ridge
from monro.progress import Progress
from monro.rows import Array
from monro.saving.container import Contents
from monro.saving.estimator import check_can_continue

Solutions = Sequence[tuple[Array, float]]  # the weights and the intercept of each model

STREAM_ALPHA = 1e-5  # of partial_fit with alpha="auto"


def suited_solver(epochs: float, n_examples: int, n_features: int) -> str:
    """Return the solver that suits data on which the dual solver needs about `epochs` epochs.

    With many rows of few features, a few averaged passes reach the optimum. Otherwise the dual
    solver is better, unless the ridge is so weak that it takes hundreds of epochs.
    """
    few_rows = n_examples < 10 * n_features
    return "dual" if epochs < 1 or (epochs < 100 and few_rows) else "aisgd"


class LinearBase(Estimator):
    """Base of LinearClassifier and LinearRegressor, which add targets, losses and predictions."""

    _fitted: LinearFit
    _losses: dict[str, Any]  # by name

    def _loss(self) -> Loss:
        """Return the loss; its fields are parameters of the estimator."""
        loss = self._losses[self.loss]
        return loss(*(float(getattr(self, name)) for name in loss._fields))

    def _penalty(self) -> Penalty:
        """Return the penalty on the weights."""
        return self._penalty_of(resolved_alpha(self, STREAM_ALPHA))

    def _penalty_of(self, alpha: float) -> Penalty:
        """Return the penalty of this strength."""
        ridge = Ridge(alpha)
        return ElasticNet(ridge.strength, float(self.l1_ratio)) if self.l1_ratio else ridge

    @property
    def _loss_traits(self) -> LossTraits:
        traits: LossTraits = self._losses[self.loss].traits
        return traits

    @abstractmethod
    def _targets(self, y: Array) -> list[Array]:
        """Return the targets of each model to train."""

    @abstractmethod
    def _coef_shape(self) -> tuple[int, ...]:
        """Return the shape of coef_."""

    # ------------------------------------------------------------------------------ one fit

    def _fit(self, rows: LabelledRows, checkpoint: str | Path | None = None) -> Self:
        """Train for up to max_epochs, or max_steps, on checked rows."""
        self.__dict__.pop("_layout", None)  # that of an earlier fit
        if not self.warm_start:
            self.__dict__.pop("_predictions_only", None)
        *models, width = self._coef_shape()
        many = prod(models) > 1
        require_memory(
            8 * prod(models) * width,
            "weights of " + (f"{prod(models):,} models × " if many else "") + f"{width:,} features",
            "use fewer columns (select or hash features)" + (" or fewer classes" if many else ""),
        )
        run = Run.start(self, rows.without_zero_weights(), checkpoint, STATES)
        begin: Solutions = ()
        chooses = needs_path(self, continues=self.warm_start and hasattr(self, "coef_"))
        if chooses:
            run.conditioning = self._conditioning(run.rows)
            found = run.chosen
            if not found:
                cv = pairs_of(self.cv, rows.y)
                found, begin = self._choose_alpha(run, np.flatnonzero(rows.weight), cv)
            self.__dict__.update(found)
        columns = self._columns(run.rows.X)
        run.hold_out()
        if not chooses or run.held_out is not None:  # else they are known
            run.conditioning = self._conditioning(run.rows)
        with self._trainer(
            run.rows,
            columns,
            run.seed,
            held_out=run.held_out,
            conditioning=run.conditioning,
            begin=begin if run.held_out is None else (),
        ) as trainer:
            train(run, trainer)
        return self

    def _conditioning(self, rows: LabelledRows) -> Conditioning:
        return choose_conditioning(self, rows.X, rows.weight, keep_zeros=False)

    def _choose_alpha(self, run: Run, numbers: Array, cv: Any) -> tuple[dict[str, Any], Solutions]:
        """Resolve alpha="auto"; return the attributes to set, and about the solution."""
        n = run.rows.y.size
        strata = self._strata(run.rows.y)
        rows, chosen = sample_rows(run.rows.with_mean_weight_one(), strata, run.seed)
        numbers = numbers if chosen is None else numbers[chosen]
        # The columns are measured on all rows at once: that takes no target of those held out.
        rows = rows._replace(X=run.conditioning.apply(rows.X))
        columns, n_jobs = used_columns(rows.X), self._threads()
        measured = without_light_penalties(self, rows.X.shape[1])
        problems = self._problems(rows._replace(X=measured.apply(rows.X)), columns)
        if self.l1_ratio:
            strengths = lasso_strengths(strongest_lasso(problems, float(self.l1_ratio)))
        else:
            every = np.arange(rows.y.size)
            strengths = ridge_strengths(mean_sqnorm(problems[0].examples.rows, every))
        splits = make_splits(
            rows,
            self._strata(rows.y),
            numbers,
            run.seed,
            cv,
            may_fold=may_fold(problems),
            folds_many=rows.y.size <= rows_to_fold(n, rows.X.shape[1]),
        )
        if not splits:
            return StrengthPath(STREAM_ALPHA, [])._asdict(), ()
        models: list[Any]
        if goes_side_by_side(problems[0]):
            problems = self._problems(rows, columns)
            models = [SideBySidePathModel(self, problems, splits, n_jobs)]
        else:
            each = n_jobs if len(splits) == 1 else 1
            models = [LinearPathModel(self, split, columns, run.seed, each) for split in splits]
        with Progress(self.verbose > 0, "strength", strengths.values.size, n) as progress:
            weights = [model.weight for model in models]
            times = times_judged(splits, rows.y.size)
            path = follow_path(
                models, weights, n, strengths, progress.step, times=times, n_jobs=n_jobs
            )
        scores = np.concatenate([model.kept.scores for model in models])
        y = np.concatenate([model.y for model in models])
        found = path._asdict() | self._calibrate(scores, y, np.concatenate(weights), times)
        # Each row is in most folds, but not in all.
        about = [
            (
                columns.widen(np.mean([w for w, _ in fits], axis=0)),
                float(np.mean([b for _, b in fits])),
            )
            for fits in zip(*(model.kept.solutions for model in models), strict=True)
        ]
        return found, about

    def _calibrate(self, scores: Array, y: Array, weight: Array, times: float) -> dict[str, Any]:
        """Return attributes found on the rows held out, given their scores at the best strength.

        Each row is there this number of times.
        """
        return {}

    def _losses_of(self, scores: Array, y: Array) -> Array:
        """Return the loss of each row, the mean over models, given their scores."""
        total, losses = np.zeros(y.size), np.empty(y.size)
        for column, target in zip(scores.T, self._targets(y), strict=True):
            losses_of(self._loss(), np.ascontiguousarray(column), target, losses)
            total += losses
        mean: Array = total / scores.shape[1]
        return mean

    def _partial_fit(self, rows: LabelledRows) -> Self:
        """Take one epoch over a batch; learning rates continue to fall from where they were."""
        seed = self._seed()
        if not rows.weight.any():
            return self
        if self.alpha == "auto" and getattr(getattr(self, "_fitted", None), "scaled", False):
            self.alpha_ = STREAM_ALPHA  # the one chosen is for conditioned columns
        columns = Columns(rows.X.shape[1])
        batch = rows.without_zero_weights()
        with self._trainer(batch, columns, seed, streaming=True) as trainer:
            train_batch(self, trainer)
        return self

    def _columns(self, X: Any) -> Columns:
        """Choose the columns to train weights for."""
        # Earlier states to continue from are as wide as X; learnt gains change for absent columns,
        # too; and the indices of mapped rows must not be copied.
        learns_gains = self.solver in solvers_that(lambda t: t.learns_gains)
        if self.warm_start or learns_gains or is_mapped(X):
            return Columns(X.shape[1])
        return used_columns(X)

    def _trainer(
        self,
        rows: LabelledRows,
        columns: Columns,
        seed: int,
        *,
        streaming: bool = False,
        held_out: LabelledRows | None = None,
        conditioning: Conditioning = AS_GIVEN,
        begin: Solutions = (),
    ) -> LinearTrainer:
        """Return the trainer of a fit, or of one batch of a stream, on conditioned rows.

        Solvers that end at the same optimum wherever they begin take the solutions to `begin` with.
        """
        rng = np.random.default_rng(seed)
        rows = rows._replace(X=conditioning.apply(rows.X))
        if held_out is not None:
            held_out = held_out._replace(X=conditioning.apply(held_out.X))
        problems = self._problems(rows, columns)
        if self.center or self.solver in solvers_that(lambda t: t.centred):
            centre = with_centre(problems[0]).centre
            problems = [problem._replace(centre=centre) for problem in problems]
        begin = [(columns.narrow(w), b) for w, b in begin]
        models = self._models(
            problems, rng, streaming=streaming, conditioning=conditioning, begin=begin
        )
        has_partial_fit = SOLVERS[self.solver_].has_partial_fit
        keep_states = streaming or self.warm_start or has_partial_fit
        return LinearTrainer(
            models,
            rows.X,
            columns,
            self._coef_shape(),
            self._fitted,
            rate=self.learning_rate_,
            shuffle=self.shuffle,
            max_steps=None if streaming else self.max_steps,
            # States in the units of conditioned columns are of no use to other rows.
            keep_states=keep_states and not conditioning.changes,
            held_out=[] if held_out is None else self._problems(held_out, columns),
            conditioning=conditioning,
            rng=rng,
            n_jobs=self._threads(),
        )

    def _first_intercept(self, problem: Problem) -> float:
        """Return the initial intercept."""
        if not self.fit_intercept or self.schedule == "inverse-t":
            return 0.0
        _, y, weight = problem.examples
        return self._loss_traits.starting_intercept(y, weight)

    def _problems(self, rows: LabelledRows, columns: Columns) -> list[Problem]:
        """Return the problem of each model."""
        loss, kept_rows = self._loss(), columns.rows(rows.X)
        penalty, biased = self._penalty(), bool(self.fit_intercept)
        weight = empty_alongside(rows.y, np.float64)
        weight[:] = rows.weight
        return [
            Problem(loss, penalty, Examples(kept_rows, target, weight), biased, columns.kept)
            for target in self._targets(rows.y)
        ]

    def _models(
        self,
        problems: list[Problem],
        rng: np.random.Generator,
        *,
        streaming: bool,
        conditioning: Conditioning = AS_GIVEN,
        begin: Solutions = (),
    ) -> list[SingleModel]:
        """Pair each problem with a solver, which continues from an earlier fit if there is one.

        Sets ``solver_``, ``learning_rate_`` and ``_fitted``, without states.
        """
        name = self._choose_solver(problems[0], rng, streaming)
        check_combination(self, name)
        solutions = None
        if streaming or self.warm_start:
            solutions = self._earlier_solutions(problems, conditioning)
        fit = LinearFit(
            name,
            self.schedule,
            bool(self.fit_intercept),
            bool(self.center),
            conditioning.changes,
        )
        earlier = getattr(self, "_fitted", None) if solutions is not None else None
        same = earlier is not None and earlier._replace(states=()) == fit
        # The last fit's rate may have been for other factors.
        same = same and self.penalty_factor is None
        states = earlier.states if earlier is not None and same else ()
        if not (same and self.learning_rate == "auto"):
            self.learning_rate_ = self._choose_rate(name, problems, rng, streaming)
        self.solver_ = name
        settled = SETTLED
        if SOLVERS[name].by_columns:
            columns = columns_of(problems[0])
            problems = [problem._replace(columns=columns) for problem in problems]
            if self.alpha == "auto" and not self.l1_ratio:
                settled = NEARLY_SETTLED
            if len(begin) > 1 and goes_side_by_side(problems[0]):
                begin = fit_side_by_side(
                    problems, begin, int(self.max_epochs), settled, self._threads()
                )
        models = []
        for k, problem in enumerate(problems):
            solver = make_solver(
                problem,
                name,
                self.schedule,
                self.learning_rate_ or 1.0,
                float(self.decay),
                states[k] if states else None,
                self.skip,
            )
            if solver.traits.by_columns and begin:
                state = solver.resume(*begin[k], 0.0)
            elif solutions is None or states:
                # One batch does not show how frequent the classes are.
                state = solver.start(0.0 if streaming else self._first_intercept(problem))
            else:
                t = float(self.n_iter_ * problem.examples.y.size)
                state = solver.resume(*solutions[k], t)
            seed = rng.integers(2**63)
            models.append(SingleModel(problem, solver, state, np.random.default_rng(seed), settled))
        # Training changes the states in place: if it fails, a later fit can only start from coef_.
        self._fitted = fit
        return models

    def _earlier_solutions(
        self, problems: list[Problem], conditioning: Conditioning
    ) -> list[tuple[Array, float]] | None:
        """Return the solutions of an earlier fit, one for each problem, if there was one."""
        if not hasattr(self, "coef_"):
            return None
        check_can_continue(self)
        coef = np.atleast_2d(dense_coef(self))
        if coef.shape != (len(problems), problems[0].n_features):
            raise ValueError(
                f"warm_start: the model was fitted on {coef.shape[1]} features, X has "
                f"{problems[0].n_features}; use warm_start=False"
            )
        intercepts = self.intercept_ if self.fit_intercept else np.zeros(len(problems))
        coef, intercepts = conditioning.unfold(coef, intercepts)
        return [(w, float(b)) for w, b in zip(coef, intercepts, strict=True)]

    def _choose_solver(self, problem: Problem, rng: np.random.Generator, streaming: bool) -> str:
        """Resolve solver="auto" (docs/decisions/0005 has the measurements)."""
        if self.solver != "auto":
            return str(self.solver)
        scheduled = self.schedule != "bottou" or self.learning_rate != "auto" or self.decay != 1
        mapped = isinstance(problem.examples.rows.data, np.memmap)
        by_rows = streaming or scheduled or mapped or problem.loss.traits.has_kink
        if problem.penalty.has_kink:
            return "implicit" if by_rows else "coordinate"
        if streaming or scheduled or self.alpha == 0:
            return "aisgd"
        by_rows = by_rows or self.center or self.max_steps is not None
        # Factors make columns differ in length, which is nothing to coordinate descent.
        accurate = self.alpha == "auto" or self.penalty_factor is not None
        if accurate and not by_rows and few_enough_for_columns(problem):
            return "coordinate"
        epochs = curvature_ratio(problem, rng)
        return suited_solver(epochs, problem.examples.y.size, self.n_features_in_)

    def _choose_rate(
        self, solver: str, problems: list[Problem], rng: np.random.Generator, streaming: bool
    ) -> float | None:
        """Resolve learning_rate="auto"; None where the solver takes none."""
        if self.schedule == "inverse-t" or not SOLVERS[solver].takes_rate:
            return None
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        # One-vs-rest models share the rows, so they share a rate: that of the most balanced model.
        balanced = min(problems, key=lambda p: abs(float(p.examples.y.mean())))
        intercept = 0.0 if streaming else self._first_intercept(balanced)
        # A generator of its own: a fit with the rate found visits the rows in the same order.
        (own,) = rng.spawn(1)
        return choose_rate(balanced, solver, float(self.decay), own, intercept, self.skip)

    # ------------------------------------------------------------------------------ files

    def _to_contents(self) -> Contents:
        return to_contents(self)

    def _keep_predictions(self, contents: Contents) -> None:
        keep_predictions(contents)

    def _from_contents(self, contents: Contents) -> None:
        from_contents(self, contents)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "coef_")
        X = validate_rows(self, X, reset=False)
        parts = row_chunks(X) if is_mapped(X) else [X]
        found = [safe_sparse_dot(part, self.coef_.T, dense_output=True) for part in parts]
        scores: Array = np.concatenate(found) + self.intercept_
        # A sparse coef_ has two axes, that of a regressor, too.
        return scores.reshape(-1, *self._coef_shape()[:-1])

    def sparsify(self) -> Self:
        """Convert ``coef_`` to a CSR matrix, which is smaller if most weights are 0.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.preprocessing import scale
        >>> from monro import LinearClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = LinearClassifier(loss="log", alpha=0.1, l1_ratio=1.0).fit(scale(X), y)
        >>> model.sparsify().coef_.nnz < 10
        True
        >>> model.score(scale(X), y) > 0.9
        True
        """
        check_is_fitted(self, "coef_")
        self.coef_ = sp.csr_matrix(np.atleast_2d(dense_coef(self)))
        return self

    def densify(self) -> Self:
        """Convert a sparse ``coef_`` back to an array.

        Examples
        --------
        >>> from monro import LinearRegressor
        >>> model = LinearRegressor(random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
        >>> model.sparsify().densify().coef_.shape
        (1,)
        """
        check_is_fitted(self, "coef_")
        self.coef_ = dense_coef(self)
        return self
