"""The training half of SoftmaxClassifier: from validated rows to a trainer."""

import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from monro.blocks import n_lanes
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
    times_judged,
)
from monro.mapped.chunked_arrays import count_codes, is_mapped
from monro.mapped.matrices import count_used_columns, in_memory
from monro.memory import has_room, require_memory
from monro.progress import Progress
from monro.rows import Array
from monro.saving.checkpoint import fingerprint
from monro.saving.estimator import check_can_continue
from monro.softmax.kernel.layout import sparse_if_mostly_zero
from monro.softmax.kernel.state import State
from monro.softmax.model import Weights, class_weights
from monro.softmax.parameters import in_units_of_columns, refused_for_observed
from monro.softmax.plan import Plan
from monro.softmax.posterior_summary import PosteriorSummary
from monro.softmax.sampling.class_order import assign_slots, sums_by_class
from monro.softmax.sampling.registry import SamplerInputs, class_order, make_sampler
from monro.softmax.sampling.samplers import Sampler
from monro.softmax.solvers import SOLVERS, Traits
from monro.softmax.training.continuation import (
    SoftmaxFit,
    add_classes,
    copy_to_state,
    folded,
    keep_local_variables,
    new_partial_state,
    restore_local_variables,
    reuse_as_state,
    unfolded,
    zero_weights,
)
from monro.softmax.training.initial import local_variables, new_softmax_state, reset
from monro.softmax.training.lbfgs import COPIES as LBFGS_COPIES
from monro.softmax.training.lbfgs import fit_lbfgs
from monro.softmax.training.monitoring import LossSample, sample_for_loss
from monro.softmax.training.path_model import SoftmaxPathModel, strongest_l1
from monro.softmax.training.planning import STREAM_ALPHA, explain, make_plan, size_of_dense
from monro.softmax.training.problem import SoftmaxProblem, in_precision, make_problem
from monro.softmax.training.rate import choose_rate, theorem_rate
from monro.softmax.training.trainer import SoftmaxTrainer
from monro.softmax.training.trainer_choice import steps_on_batches, trainer_of
from monro.softmax.training.variational_trainer import draw_initial_weights
from monro.variational.augment_reduce import AugmentReduceState
from monro.variational.posterior import Spread

MakeTrainer = Callable[..., SoftmaxTrainer]
# The states that a checkpoint may hold, by their names in files.
STATES = {"State": State, "Memory": AugmentReduceState, "Spread": Spread}

_MOST_OF_FOLDS = 1 << 26  # weights of a model: on the path of several folds there are as many


def _has_blocks(plan: Plan, X: Any) -> bool:
    """Return whether weights are block-major: for sparse rows, visited one at a time."""
    return sp.issparse(X) and not steps_on_batches(plan)


def _new_state(plan: Plan, problem: SoftmaxProblem) -> State:
    return new_softmax_state(plan, problem, sparse=_has_blocks(plan, problem.X))


def _instead(estimator: Any, X: Any) -> str:
    """Return what weights of observed pairs would take, if they are an alternative."""
    if not sp.issparse(X) or refused_for_observed(estimator) is not None:
        return ""
    most = (2 * np.dtype(estimator.dtype).itemsize + 4) * X.nnz / 1e9
    return f"; or weights='observed', which take at most {most:,.1f} GB"


class SoftmaxBase(PosteriorSummary):
    """The training half of SoftmaxClassifier, which adds labels and checks."""

    def _strata(self, y: Array) -> Array | None:
        classes, counts = np.unique(y, return_counts=True)
        held_out = y.size * self.validation_fraction
        return y if counts.min() > 1 and held_out >= classes.size else None

    def _labels(self, y: Array) -> Array:
        labels: Array = self.classes_[y]
        return labels

    @property
    def _traits(self) -> Traits:
        return SOLVERS[self.solver]

    @property
    def _fewest_features(self) -> int:
        return 0 if self._traits.is_adaptive and self.fit_intercept else 1

    def _require_memory(self, n_classes: int, X: Any, copies: int) -> None:
        """Raise NotEnoughMemoryError unless the weights, so many times, have room.

        Pages of weights that no row touches take no memory.
        """
        each = n_lanes(n_classes) * np.dtype(self.dtype).itemsize
        if self._traits.is_full_batch:
            each, copies = n_classes * 8, LBFGS_COPIES
        width = X.shape[1]
        if has_room(copies * each * width):
            return
        if sp.issparse(X) and not self._traits.is_full_batch:
            width = count_used_columns(X)
        require_memory(
            copies * each * width,
            f"weights of {n_classes:,} classes × {width:,} features"
            + (f", {copies} times," if copies > 1 else ""),
            "use fewer columns (select or hash features) or fewer classes" + _instead(self, X),
        )

    # ------------------------------------------------------------------------------------ one fit

    def _fit(
        self,
        rows: LabelledRows,
        classes: Array,
        checkpoint: str | pathlib.Path | None,
        groups: Array | None = None,
    ) -> Self:
        """Train for up to max_epochs on validated rows, whose labels are class codes.

        Rows of the same group stay together where some are held out to choose alpha.
        """
        if self._traits.is_full_batch and checkpoint is not None:
            raise ValueError(f"solver={self.solver!r} keeps no checkpoint: leave checkpoint None")
        run = Run.start(self, rows.without_zero_weights(), checkpoint, STATES)
        earlier = self._earlier() if self.warm_start else None
        if earlier is None:
            self._forget()
        copies = 1 + (self.alpha == "auto" or bool(self.early_stopping))
        self._require_memory(classes.size, rows.X, copies)
        self.classes_ = classes
        self.history_ = []
        if needs_path(self, continues=earlier is not None):
            numbers = np.arange(rows.y.size) if groups is None else groups
            kept = numbers[np.flatnonzero(rows.weight)]
            # Of a matrix of labels the rows without a label are not known here.
            cv = pairs_of(self.cv, rows.y) if groups is None else self.cv
            self.__dict__.update(run.chosen or self._choose_alpha(run, kept, cv))
        run.hold_out()
        run.conditioning = self._conditioning(run.rows)
        if earlier is not None:
            weights = unfolded(earlier.weights, run.conditioning)
            earlier = earlier._replace(weights=weights)
        if self._traits.is_full_batch:
            return self._fit_lbfgs(run, earlier)
        with self._trainer(run, earlier) as trainer:
            train(run, trainer)
        return self

    def _conditioning(self, rows: LabelledRows) -> Conditioning:
        if in_units_of_columns(self) is not None:
            return AS_GIVEN
        return choose_conditioning(self, rows.X, rows.weight, keep_zeros=True)

    def _choose_alpha(self, run: Run, numbers: Array, cv: Any) -> dict[str, Any]:
        """Resolve alpha="auto"; return the attributes to set."""
        # The columns are measured on all rows at once: that takes no label of those held out.
        rows = run.rows._replace(X=self._conditioning(run.rows).apply(run.rows.X, self.dtype))
        light = without_light_penalties(self, rows.X.shape[1])
        measured = rows._replace(X=light.apply(rows.X))
        _, sqnorm = in_precision(measured.X, rows.y, self.dtype)
        unit = float(sqnorm.mean(dtype=np.float64))
        few_weights = self.classes_.size * rows.X.shape[1] <= _MOST_OF_FOLDS
        splits = make_splits(
            rows, self._strata(rows.y), numbers, run.seed, cv, may_fold=few_weights
        )
        if not splits:
            return StrengthPath(STREAM_ALPHA, [])._asdict()
        models = [SoftmaxPathModel(self, split, self.classes_, run.seed, unit) for split in splits]
        if self.l1_ratio > 0.0:  # then the path begins where all weights are 0
            strongest = strongest_l1(measured, self.classes_.size, bool(self.fit_intercept))
            strengths = lasso_strengths(strongest * rows.y.size / float(self.l1_ratio))
        else:
            strengths = ridge_strengths(unit)
        with Progress(self.verbose > 0, "strength", strengths.values.size, rows.y.size) as progress:
            weights = [model.weight for model in models]
            times = times_judged(splits, rows.y.size)
            path = follow_path(models, weights, rows.y.size, strengths, progress.step, times=times)
        return path._asdict()

    def _trainer(self, run: Run, earlier: SoftmaxFit | None) -> SoftmaxTrainer:
        """Return the trainer of a fit: make its plan, its initial state and its learning rate."""
        n_classes, epochs_before = self.classes_.size, 0 if earlier is None else earlier.epochs
        rng = np.random.default_rng([run.seed, epochs_before])
        conditioning = run.conditioning

        def prepared(rows: LabelledRows) -> LabelledRows:
            conditioned = conditioning.apply(rows.X, self.dtype)
            return rows._replace(X=sparse_if_mostly_zero(conditioned, self.dtype))

        rows = prepared(run.rows)
        held_out = None if run.held_out is None else prepared(run.held_out)
        X, sqnorm = in_precision(rows.X, rows.y, self.dtype)
        plan = make_plan(self, n_classes, float(sqnorm.mean(dtype=np.float64)))
        if earlier is None:
            counts = count_codes(rows.y, n_classes)
            sums = partial(sums_by_class, rows.X, rows.y, n_classes, rng)
            slots = assign_slots(class_order(plan), counts, rng, sums)
        else:
            slots = earlier.weights.slots
        if steps_on_batches(plan) or self._traits.by_columns:
            X = in_memory(X)
        if is_mapped(X):
            plan = plan._replace(coordinate_epochs=0)
        problem = make_problem(X, sqnorm, rows.y, rows.weight, slots)
        sampler = self._sampler(plan, problem, rng)
        loss_sample = sample_for_loss(held_out or rows, n_classes)

        rows_key = fingerprint(run.rows.X, (rows.y,), rows.weight) if self.warm_start else ""
        rows_key += f", {plan.solver}, {plan.formulation}"
        if earlier is None:
            state = _new_state(plan, problem)
        else:
            state = self._continue(earlier, rows_key, plan, problem, rng)
        make = self._maker(plan, problem, sampler, loss_sample)
        plan, trials = self._with_rate(make, plan, problem, sampler, state, rng, run, earlier)
        if earlier is None:  # the trials of rates have used the state as scratch memory
            reset(self.init, plan, problem, state)
            if self.init == "auto" and self._traits.is_adaptive:
                draw_initial_weights(state, problem, rng)
        self._publish(plan, n_classes)
        return make(
            plan=plan,
            state=state,
            rng=rng,
            held_out=held_out,
            epochs_before=epochs_before,
            rows_key=rows_key if self.warm_start else None,
            conditioning=conditioning,
            choices=explain(self, plan, n_classes, trials),
        )

    def _sampler(self, plan: Plan, problem: SoftmaxProblem, rng: np.random.Generator) -> Sampler:
        draws = self._traits.draws
        return make_sampler(SamplerInputs(plan, problem.X, problem.y, problem.counts, rng, draws))

    def _maker(
        self, plan: Plan, problem: SoftmaxProblem, sampler: Sampler, sample: LossSample
    ) -> MakeTrainer:
        """Return a function that makes trainers, given a plan, a state and a random generator."""
        return partial(
            trainer_of(plan),
            problem=problem,
            sampler=sampler,
            sample=sample,
            shuffle=bool(self.shuffle),
            searched=self.learning_rate == "auto",
            n_jobs=self._threads(),
        )

    def _with_rate(
        self,
        make: MakeTrainer,
        plan: Plan,
        problem: SoftmaxProblem,
        sampler: Sampler,
        state: State,
        rng: np.random.Generator,
        run: Run,
        earlier: SoftmaxFit | None,
    ) -> tuple[Plan, int]:
        """Return the plan with its learning rate, and the number of trials."""
        if not self._traits.takes_rate:
            return plan, 0
        if run.resumes:
            assert run.checkpoint is not None
            first = run.checkpoint.about("history")[0]["rate"]
            return plan.with_rate_at(0 if earlier is None else earlier.epochs, first), 0
        if self.learning_rate == "paper":
            return plan._replace(eta0=theorem_rate(plan, problem, sampler)), 0
        if self.learning_rate != "auto":
            return plan, 0
        same_units = earlier is not None and earlier.scaled == run.conditioning.changes
        # The last fit's rate may have been for other factors.
        same_units = same_units and self.penalty_factor is None
        if same_units and self.learning_rate_:
            return plan._replace(eta0=self.learning_rate_), 0
        if not np.isnan(plan.eta0):
            return plan, 0
        # With early stopping the fit may end while the rate is still near its initial value, and
        # ends with a better model if the rate was smaller.
        tried, slower = (plan, 1.0) if run.held_out is None else (plan._replace(decay=1.0), 10**0.5)
        scratch = state if earlier is None else _new_state(plan, problem)
        rate, trials = choose_rate(self._trial(make, tried, problem, scratch, rng), rng)
        return plan._replace(eta0=rate / slower), trials

    def _trial(
        self,
        make: MakeTrainer,
        plan: Plan,
        problem: SoftmaxProblem,
        state: State,
        rng: np.random.Generator,
    ) -> Callable[[float], SoftmaxTrainer]:
        """Return a function that makes trainers from the initial state.

        All use one state, which is reset: allocating new memory is slow.
        """
        seed = int(rng.integers(2**63))

        def start_over(eta0: float) -> SoftmaxTrainer:
            trial = plan._replace(eta0=eta0)
            reset(self.init, trial, problem, state)
            return make(plan=trial, state=state, rng=np.random.default_rng(seed))

        return start_over

    def _publish(self, plan: Plan, n_classes: int) -> None:
        """Set the public attributes of the plan."""
        self.learning_rate_ = plan.eta0 if self._traits.takes_rate else None
        _, because = size_of_dense(n_classes, self.n_features_in_, self.dtype)
        self.plan_ = plan._replace(because=because)._asdict()

    def _fit_lbfgs(self, run: Run, earlier: SoftmaxFit | None) -> Self:
        X, y, weight = run.rows
        given, n_classes = in_memory(X), self.classes_.size
        X = run.conditioning.apply(given, np.float64)
        self._publish(make_plan(self, n_classes, 1.0), n_classes)
        data = {"estimator": self, "X": given, "y": self.classes_[y]}
        context = self._init_callback_context()
        context.call_on_fit_task_begin(**data)
        if earlier is None:
            start = np.zeros((X.shape[1], n_classes)), np.zeros(n_classes)
        else:
            weights = earlier.weights
            start = class_weights(weights).T, weights.bias[weights.slots]
        W, bias = fit_lbfgs(
            X,
            y,
            weight,
            n_classes,
            alpha=resolved_alpha(self, STREAM_ALPHA),
            fit_intercept=bool(self.fit_intercept),
            max_epochs=self.max_epochs,
            tol=self.tol,
            start=start,
            history=self.history_,
        )
        self.n_iter_ = len(self.history_)
        W = np.ascontiguousarray(W.T, self.dtype)
        self._forget()
        weights = Weights(W, bias, np.ones(n_classes), np.arange(n_classes))
        weights = folded(weights, run.conditioning)
        self._fitted = SoftmaxFit(weights, scaled=run.conditioning.changes)
        solution = {"_fitted": self._fitted}
        context.call_on_fit_task_end(**data, reconstruction_attributes=lambda: solution)
        return self

    # ----------------------------------------------------------------- continuing an earlier fit

    def _earlier(self) -> SoftmaxFit | None:
        """Return the result of an earlier fit, if there was one."""
        check_can_continue(self)
        earlier: SoftmaxFit | None = getattr(self, "_fitted", None)
        if earlier is not None and earlier.pairs is not None:
            raise ValueError(
                "the model has weights of observed pairs: to train it further give "
                "weights='observed'"
            )
        if earlier is not None and earlier.weights.calibration is not None:
            raise ValueError(
                "the model has independent labels, and densify has left out what training needs: "
                "fit it anew"
            )
        if earlier is not None and sp.issparse(earlier.weights.W):
            raise ValueError("the model is sparse: call densify before you train it further")
        return earlier

    @property
    def _has_observed_pairs(self) -> bool:
        """Whether the fitted weights are of observed pairs only."""
        return self._fitted.pairs is not None

    def _earlier_observed(self) -> SoftmaxFit | None:
        """Return the result of an earlier fit on observed pairs, if there was one."""
        check_can_continue(self)
        earlier: SoftmaxFit | None = getattr(self, "_fitted", None)
        if earlier is not None and earlier.pairs is None:
            raise ValueError(
                "the model has weights for all pairs of features and classes, from a fit of dense "
                "weights or from densify: to train it further give weights='dense'"
            )
        return earlier

    def _forget(self) -> None:
        """Delete the result of an earlier fit: if this one fails, there is no model."""
        for name in ("_fitted", "_layout", "_predictions_only"):
            self.__dict__.pop(name, None)

    def _continue(
        self,
        earlier: SoftmaxFit,
        rows_key: str,
        plan: Plan,
        problem: SoftmaxProblem,
        rng: np.random.Generator,
    ) -> State:
        """Return the state of an earlier fit, with new local variables if the rows differ."""
        sparse = _has_blocks(plan, problem.X)
        state = copy_to_state(earlier.weights, sparse, problem.size, plan.dtype)
        key, u = earlier.local or ("", None)
        if key == rows_key and self._traits.formulations:
            state.u[:] = u
        elif self._traits.formulations:
            state.u[:] = local_variables(plan, problem, state, rng)
        return state

    def _partial_fit(self, rows: LabelledRows, classes: Array, ids: Array | None) -> Self:
        """Take one epoch over a batch; the learning rate continues to fall."""
        if self.learning_rate == "paper":
            raise ValueError(
                "learning_rate='paper' needs all rows at once: for partial_fit give a number"
            )
        if not rows.weight.any():
            return self
        earlier = self._earlier()
        if earlier is None:
            self._require_memory(classes.size, rows.X, 1)
            width = rows.X.shape[1]
            weights = zero_weights(sp.issparse(rows.X), classes.size, width, self.dtype)
            self.history_ = []
        else:
            if classes.size > self.classes_.size:
                self._require_memory(classes.size, rows.X, 1)
            weights = add_classes(earlier.weights, self.classes_, classes)
        scaled = earlier is not None and earlier.scaled
        if scaled and self.alpha == "auto":
            self.alpha_ = STREAM_ALPHA  # the one chosen is for conditioned columns
        ids = None if ids is None else ids[np.flatnonzero(rows.weight)]
        rows = rows.without_zero_weights()
        X, sqnorm = in_precision(rows.X, rows.y, self.dtype)
        problem = make_problem(X, sqnorm, rows.y, rows.weight, weights.slots)
        plan = make_plan(self, classes.size, problem.mean_sqnorm)
        # An earlier fit has decreased the rate by the factor `fallen`. The number of batches is
        # unknown: within a batch the rate is constant.
        epochs_before = 0 if earlier is None else earlier.epochs
        fallen = (1.0 + epochs_before) ** -2 if plan.decay is None else plan.decay**epochs_before
        plan = plan._replace(epochs=1, exact_epochs=0, coordinate_epochs=0, decay=1.0)
        partial_state = None if earlier is None else earlier.partial
        partial_state = partial_state or new_partial_state(problem.counts[:0], problem.size, plan)
        problem.counts[: partial_state.counts.size] += partial_state.counts
        if plan.damping and partial_state.damping[0]:
            plan = plan._replace(damping=float(partial_state.damping[0]))
        rows_before, first_rows = partial_state.rows
        rng = np.random.default_rng([self._seed(), epochs_before, rows_before])
        sampler = self._sampler(plan, problem, rng)
        loss_sample = sample_for_loss(rows, classes.size)
        make = self._maker(plan, problem, sampler, loss_sample)
        if self.learning_rate == "auto":
            rate = None if earlier is None or scaled else getattr(self, "learning_rate_", None)
            if rate is None:
                scratch = _new_state(plan, problem)
                rate, _ = choose_rate(self._trial(make, plan, problem, scratch, rng), rng)
            plan = plan._replace(eta0=rate)
        # Explicit steps may diverge, and must not destroy the model.
        to_state = reuse_as_state if self._traits.is_implicit else copy_to_state
        state = to_state(weights, _has_blocks(plan, X), problem.size, plan.dtype)
        has_local = bool(self._traits.formulations)
        if has_local:
            state.u[:] = local_variables(plan, problem, state, rng)
        if has_local and ids is not None:
            restore_local_variables(partial_state, ids, state.u)
        # Batches may have any size, so the rate falls with the rows visited, not with the calls.
        slower = plan._replace(
            eta0=plan.eta0 * fallen / float(np.sqrt(1.0 + rows_before / first_rows))
        )
        with make(plan=slower, state=state, rng=rng, epochs_before=epochs_before) as trainer:
            train_batch(self, trainer)
        self._publish(plan, classes.size)
        self.classes_ = classes
        if not partial_state.damping[0]:
            partial_state = partial_state._replace(damping=np.array([plan.damping]))
        partial_state = partial_state._replace(
            counts=problem.counts, rows=np.array([rows_before + problem.size, first_rows])
        )
        if has_local and ids is not None:
            partial_state = keep_local_variables(partial_state, ids, state.u)
        self._fitted = self._fitted._replace(partial=partial_state, epochs=epochs_before)
        return self
