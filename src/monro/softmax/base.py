"""From checked data to weights: what a SoftmaxClassifier does inside `fit` and `partial_fit`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from monro.estimator import drop_weightless, of_mean_one
from monro.fitting import run_epochs
from monro.mapped import count, in_memory, look_up
from monro.rows import Array
from monro.softmax.calibrate import multiplied, suited_multiple
from monro.softmax.evaluate import Weights
from monro.softmax.inference import Inference
from monro.softmax.layout import is_sparse, n_blocks, sparse_if_mostly_zero
from monro.softmax.lbfgs import fit_lbfgs
from monro.softmax.placing import place_classes, sums_by_class
from monro.softmax.plans import explain, make_plan
from monro.softmax.posterior import Spread
from monro.softmax.rates import choose_rate
from monro.softmax.reduce import Memory
from monro.softmax.solvers import SOLVERS, Plan, make_sampler, rate_at
from monro.softmax.start import local_variables, warm
from monro.softmax.state import NOWHERE, State, new_state
from monro.softmax.stream import (
    grow,
    in_place,
    laid_out,
    new_stream,
    new_weights_for,
    recall,
    remember,
)
from monro.softmax.stretch import some_rows
from monro.softmax.train import BatchTrainer, Problem, Task, Trainer, make_problem
from monro.softmax.variational import ReduceTrainer, begin_at_random
from monro.softmax.watch import divergence, evaluation, is_finite, runaway_check
from monro.storage import fingerprint


def _uses_blocks(plan: Plan, X: Any) -> bool:
    """Tell whether weights are to be block-major: batches want them class by class."""
    return is_sparse(X) and _trainer_of(plan) is Trainer


def _trainer_of(plan: Plan) -> type[Trainer]:
    if plan.solver == "augment-reduce":
        return ReduceTrainer
    batches = plan.solver == "implicit" and plan.examples > 1
    return BatchTrainer if batches else Trainer


def _new_state(plan: Plan, problem: Problem) -> State:
    """Return a state of the right shape."""
    k = problem.counts.size
    sparse = _uses_blocks(plan, problem.X)
    return new_state(sparse, k, n_blocks(k), problem.X.shape[1], problem.y.size, plan.dtype)


def _begin(init: str, plan: Plan, problem: Problem, state: State) -> None:
    """Make a state, whatever it was, the one to begin with."""
    state.W[:] = 0.0
    state.scale[:] = 1.0
    state.bias[:] = NOWHERE
    state.bias[: problem.counts.size] = 0.0
    state.u[:] = 0.0
    if init == "auto":
        warm(plan, problem, state)


def _same_shape(state: State, other: State) -> bool:
    """Tell whether two states belong to the same rows, classes and features."""
    return [part.shape for part in state] == [part.shape for part in other]


class Softmax(Inference):
    """The training half of SoftmaxClassifier, which adds labels and checks."""

    def _strata(self, y: Array) -> Array | None:
        classes, counts = np.unique(y, return_counts=True)
        held_out = y.size * self.validation_fraction
        return y if counts.min() > 1 and held_out >= classes.size else None

    @property
    def _fewest_features(self) -> int:
        return 0 if self.solver == "augment-reduce" and self.fit_intercept else 1

    # ------------------------------------------------------------------------------------ one fit

    def _fit(
        self, X: Any, y: Array, weight: Array, classes: Array, checkpoint: str | Path | None
    ) -> Self:
        """Train for up to max_epochs on checked data; y are numbers of classes."""
        if self.solver == "lbfgs" and checkpoint is not None:
            raise ValueError("solver='lbfgs' keeps no checkpoint: leave checkpoint None")
        seed = self._seed()
        X, y, weight = drop_weightless(X, y, weight)
        kinds = {"State": State, "Memory": Memory, "Spread": Spread}
        saved = self._checkpoint(checkpoint, X, y, weight, kinds, _same_shape)
        if saved is not None and saved.found:
            seed = saved.about("seed")
        earlier = self._earlier() if self.warm_start else None
        if earlier is None:
            self._forget()
        self.classes_ = classes
        self.history_ = []
        if self.solver == "lbfgs":
            return self._fit_lbfgs(in_memory(X), y, weight, earlier)
        taken = getattr(self, "_epochs", 0)
        rng = np.random.default_rng([seed, taken])
        held_out = None
        if self.early_stopping:
            X, y, weight, (held_X, *held) = self._hold_out(X, y, weight, seed)
            held_out = sparse_if_mostly_zero(held_X, self.dtype), *held
        weight = of_mean_one(weight)

        n_classes = classes.size
        rows = sparse_if_mostly_zero(X, self.dtype)
        if _trainer_of(make_plan(self, n_classes, 1.0)) is not Trainer:
            rows = in_memory(rows)  # their steps are on many rows at once
        if earlier is None:
            counts = count(y, n_classes)
            sums = partial(sums_by_class, rows, y, n_classes, rng)
            slots = place_classes(make_plan(self, n_classes, 1.0), counts, rng, sums)
        else:
            slots = earlier.slots
        own_slots = look_up(slots.astype(np.int32), y)
        problem = make_problem(rows, own_slots, weight, n_classes, self.dtype)
        plan = make_plan(self, n_classes, float(problem.sqnorm.mean(dtype=np.float64)))
        sampler = make_sampler(plan, problem.X, problem.y, problem.counts, rng)
        judged_X, judged_y, judged_weight = held_out or (rows, y, weight)
        judged = some_rows(judged_X, judged_y, judged_weight, n_classes)
        task = Task(problem, plan, slots, sampler, judged)
        whose = fingerprint(X, y, weight) if self.warm_start else ""
        whose += f", {plan.solver}, {plan.formulation}"
        state = (
            _new_state(plan, problem)
            if earlier is None
            else self._resume(earlier, whose, plan, problem, rng)
        )
        trials = 0
        if saved is not None and saved.found:
            begun = saved.about("history")[0]["rate"]
            plan = plan._replace(eta0=begun / rate_at(plan._replace(eta0=1.0), taken, taken))
        elif self.learning_rate == "auto" and earlier is not None and self.learning_rate_:
            plan = plan._replace(eta0=self.learning_rate_)
        elif self.learning_rate == "auto" and np.isnan(plan.eta0):
            # Who stops early may stop while the rate is still what it was; and stops at a better
            # place the more slowly it came there.
            tried, slower = (plan, 1.0) if held_out is None else (plan._replace(decay=1.0), 10**0.5)
            scratch = state if earlier is None else _new_state(plan, problem)
            trial = self._trial(task._replace(plan=tried), scratch, rng)
            rate, trials = choose_rate(trial, rng)
            plan = plan._replace(eta0=rate / slower)
        if earlier is None:
            _begin(self.init, plan, problem, state)
            if self.init == "auto" and plan.solver == "augment-reduce":
                begin_at_random(state, problem, rng)
        self._note(plan)
        chosen = explain(self, plan, n_classes, trials)

        with self._trainer(task._replace(plan=plan), state, rng, taken) as trainer:
            evaluate, monitor = evaluation(self, trainer, held_out)
            run_epochs(
                self,
                trainer,
                X=X,
                y=self.classes_[y] if self._watched else y,
                title=self.solver,
                visits=y.size,
                check=runaway_check(self, trainer, y),
                finish=lambda: self._finish(trainer, held_out),
                seed=seed,
                evaluate=evaluate,
                monitor=monitor,
                restore_best=held_out is not None,
                checkpoint=saved,
                chosen=chosen,
            )
        self._epochs = taken + self.n_iter_
        self._stream = new_stream(problem.counts, y.size, plan)
        if self.warm_start and self.history_[-1].get("multiple", 1.0) == 1.0:
            self._local = whose, trainer.state.u  # of the weights as they are
        return self

    def _trainer(
        self, task: Task, state: State, rng: np.random.Generator, taken: int = 0
    ) -> Trainer:
        return _trainer_of(task.plan)(
            task,
            state,
            shuffle=bool(self.shuffle),
            rng=rng,
            n_jobs=self._threads(),
            schedule_start=taken,
        )

    def _trial(
        self, task: Task, state: State, rng: np.random.Generator
    ) -> Callable[[float], Trainer]:
        """Return what makes trainers that begin anew, on one state: new memory is slow at first."""
        seed = int(rng.integers(2**63))

        def begin_anew(eta0: float) -> Trainer:
            trial = task._replace(plan=task.plan._replace(eta0=eta0))
            _begin(self.init, trial.plan, task.problem, state)
            return self._trainer(trial, state, np.random.default_rng(seed))

        return begin_anew

    def _note(self, plan: Plan) -> None:
        self.learning_rate_ = plan.eta0 if SOLVERS[plan.solver].takes_rate else None
        self.plan_ = plan._asdict()

    def _finish(self, trainer: Trainer, held_out: Any = None) -> None:
        if not is_finite(trainer.state):
            raise divergence(self, trainer.plan)
        self._weights = trainer.weights()
        if held_out is not None and self.link == "softmax" and self.posterior is None:
            X, y, weight = held_out
            c = suited_multiple(self._weights, X, y, weight, self._threads())
            self._weights = multiplied(self._weights, c)
            self.history_[-1]["multiple"] = c

    def _fit_lbfgs(self, X: Any, y: Array, weight: Array, earlier: Weights | None) -> Self:
        n_classes = self.classes_.size
        self._note(make_plan(self, n_classes, 1.0))
        seen = {"estimator": self, "X": X, "y": self.classes_[y]}
        context = self._init_callback_context()
        context.call_on_fit_task_begin(**seen)
        if earlier is None:
            start = np.zeros((X.shape[1], n_classes)), np.zeros(n_classes)
        else:
            start = self._class_weights().T, earlier.bias[earlier.slots]
        W, bias = fit_lbfgs(
            X,
            y,
            of_mean_one(weight),
            n_classes,
            alpha=float(self.alpha),
            fit_intercept=bool(self.fit_intercept),
            max_epochs=self.max_epochs,
            tol=self.tol,
            start=start,
            history=self.history_,
        )
        self.n_iter_ = len(self.history_)
        W = np.ascontiguousarray(W.T, self.dtype)
        self._forget()
        self._weights = Weights(W, np.ones(n_classes), bias, np.arange(n_classes))
        solution = {"_weights": self._weights}
        context.call_on_fit_task_end(**seen, reconstruction_attributes=lambda: solution)
        return self

    # --------------------------------------------------------------------- going on from before

    def _earlier(self) -> Weights | None:
        """Return the weights of an earlier fit, if there was one."""
        earlier = getattr(self, "_weights", None)
        if earlier is not None and sp.issparse(earlier.W):
            raise ValueError("the model is sparse: call densify before you go on training it")
        return earlier

    def _forget(self) -> None:
        """Leave nothing of an earlier fit: should this one fail, there is no model."""
        for name in ("_weights", "_stream", "_epochs", "_local", "_layout"):
            self.__dict__.pop(name, None)

    def _resume(
        self, earlier: Weights, whose: str, plan: Plan, problem: Problem, rng: np.random.Generator
    ) -> State:
        """Return the state of an earlier fit; for other rows with local variables of their own."""
        state = laid_out(earlier, _uses_blocks(plan, problem.X), problem.y.size, plan.dtype)
        known, u = getattr(self, "_local", ("", None))
        if known == whose:
            state.u[:] = u
        elif SOLVERS[plan.solver].formulations:
            state.u[:] = local_variables(plan, problem, state, earlier.slots, rng)
        return state

    def _partial_fit(
        self, X: Any, y: Array, weight: Array, classes: Array, ids: Array | None
    ) -> Self:
        """Take one epoch over a batch; the rate goes on falling from where it was."""
        if not weight.any():
            return self
        earlier = self._earlier()
        if earlier is None:
            weights = new_weights_for(is_sparse(X), classes.size, X.shape[1], self.dtype)
        else:
            weights = grow(earlier, self.classes_, classes)
        rows = np.flatnonzero(weight)
        X, y, weight = drop_weightless(X, y, weight)
        slots = weights.slots
        own_slots = look_up(slots.astype(np.int32), y)
        problem = make_problem(X, own_slots, weight, classes.size, self.dtype)
        plan = make_plan(self, classes.size, float(problem.sqnorm.mean(dtype=np.float64)))
        # A fit before them has let the rate fall. Nobody knows how many batches there will be:
        # within one it stays the same.
        taken = getattr(self, "_epochs", 0)
        fallen = (1.0 + taken) ** -2 if plan.decay is None else plan.decay**taken
        plan = plan._replace(epochs=1, exact_epochs=0, decay=1.0)
        stream = getattr(self, "_stream", None) or new_stream(problem.counts[:0], y.size, plan)
        problem.counts[: stream.counts.size] += stream.counts
        if plan.damping and stream.damping[0]:
            plan = plan._replace(damping=float(stream.damping[0]))
        seen, first = stream.rows
        rng = np.random.default_rng([self._seed(), taken, seen])
        sampler = make_sampler(plan, X, problem.y, problem.counts, rng)
        task = Task(problem, plan, slots, sampler, some_rows(X, y, weight, classes.size))
        if self.learning_rate == "auto":
            rate = getattr(self, "learning_rate_", None) if earlier is not None else None
            if rate is None:
                rate, _ = choose_rate(self._trial(task, _new_state(plan, problem), rng), rng)
            plan = plan._replace(eta0=rate)
        # Explicit steps may run away, and must not take the model along.
        lay_out = in_place if plan.solver == "implicit" else laid_out
        state = lay_out(weights, _uses_blocks(plan, X), y.size, plan.dtype)
        local = bool(SOLVERS[plan.solver].formulations)
        if local:
            state.u[:] = local_variables(plan, problem, state, slots, rng)
        if local and ids is not None:
            recall(stream, ids[rows], state.u)
        # Batches may be of any size, so the rate falls with the rows seen, not with the calls.
        slower = plan._replace(eta0=plan.eta0 * fallen / float(np.sqrt(1.0 + seen / first)))
        history = [] if earlier is None else self.history_
        with self._trainer(task._replace(plan=slower), state, rng, taken) as trainer:
            record = trainer.epoch() | {"epoch": len(history) + 1}
            runaway_check(self, trainer, y)(record)
            self._finish(trainer)
        self._note(plan)
        self.__dict__.pop("_local", None)
        self.classes_ = classes
        stream = stream._replace(counts=problem.counts, rows=np.array([seen + y.size, first]))
        self._stream = remember(stream, ids[rows], state.u) if local and ids is not None else stream
        self.history_ = [*history, record]
        self.n_iter_ = len(self.history_)
        return self
