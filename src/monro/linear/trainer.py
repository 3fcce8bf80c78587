"""The trainer of linear models: one model or one per class, with a common order of the rows."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from monro.errors import DivergenceError
from monro.fitting.conditioning import AS_GIVEN, Conditioning
from monro.fitting.convergence import Trial
from monro.fitting.order import blocks_per_read, visiting_order
from monro.fitting.trainer import Record, Report, Trainer
from monro.fitting.watching import watched_rows
from monro.linear.algorithms.solver_base import SETTLED, Solver
from monro.linear.columns import Columns
from monro.linear.convergence import strengths_of, try_steps
from monro.linear.objective import mean_loss, objective, objective_of, single_loss
from monro.linear.problem import Problem
from monro.linear.solvers import SOLVERS
from monro.linear.thread_copies import count_nonzeros, parallel_sweep
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.page_requests import reading_rows
from monro.rows import Array
from monro.saving.states import Axis, map_arrays

# Non-zeros between two reports of progress, about a second.
_PART = 1 << 28
_MAPPED_PART = 1 << 23  # non-zeros of mapped files to read ahead together
# Explicit steps are diverging if the loss is this many times that of zero weights.
_RUNAWAY = 1e6
# A loss of a row on its own takes up to half the time of a step: on a tenth of the rows, up to
# 5 % of an epoch.
_WATCHED_SHARE, _FEWEST_WATCHED = 0.1, 1000


class LinearFit(NamedTuple):
    """What the next fit may continue from: states, for the same solver, schedule and so on."""

    solver: str
    schedule: str
    fit_intercept: bool
    center: bool = False
    scaled: bool = False  # the learning rate is in the units of conditioned columns
    states: tuple[Any, ...] = ()  # one for each model; empty if they are not kept


class SingleModel:
    """One linear model: a problem, a solver and its state. One-vs-rest has one for each class.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    state : NamedTuple
        Where to begin.
    rng : Generator
        The solver's random generator.
    settled : float
        What a sweep that is the last one promises to gain, at most, as a part of the objective.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        state: Any,
        rng: np.random.Generator,
        settled: float = SETTLED,
    ):
        self.problem = problem
        self.solver = solver
        self.state = state
        self.rng = rng
        self.settled = settled

    def epoch(
        self,
        order: Array,
        X: Any,
        pool: ThreadPoolExecutor | None,
        n_jobs: int,
        report: Report,
    ) -> float:
        """Take one epoch; return the mean loss, each example's taken before its step."""
        if self.is_settled:  # models of other classes may need further epochs
            report(order.size)
            return mean_loss(self.problem, *self.solution())
        self.state = self.solver.begin_epoch(self.state)
        order = self.solver.rows_to_visit(order, self.state, self.rng)
        total = 0.0
        examples = self.problem.examples
        size = _MAPPED_PART if is_mapped(X) else _PART
        parts = math.ceil(count_nonzeros(self.problem, order.size) / size)
        if self.solver.traits.by_columns:
            pool, parts = None, 1
        for part in np.array_split(order, max(1, parts)):
            with reading_rows(X, part, examples.y, examples.weight):
                if pool is None:
                    total += self.solver.sweep(part, self.state)
                else:
                    total += parallel_sweep(
                        self.solver, self.problem, part, self.state, pool, n_jobs
                    )
            report(part.size)
        return total / max(1, order.size)

    def solution(self) -> tuple[Array, float]:
        """Return the weights and the intercept."""
        return self.solver.solution(self.state)

    @property
    def is_settled(self) -> bool:
        """Whether the model is at its optimum, as far as its solver can tell."""
        return self.solver.promised_gain(self.state) <= self.settled

    def loss_at_zero(self) -> float:
        """Return the largest loss of zero weights, at least 1, as an order of magnitude."""
        loss, y = self.problem.loss, self.problem.examples.y
        return max(1.0, *(single_loss(loss, 0.0, target) for target in (y.min(), y.max())))


class LinearTrainer(Trainer):
    """Takes epochs on one or several models.

    Several models share the threads; a single one is split among them.

    Parameters
    ----------
    models : sequence of SingleModel
    X : CSR matrix or array
        Their rows, as they were given.
    columns : Columns
        The columns that the models have weights for.
    coef_shape : tuple of int
        The shape of ``coef_``.
    description : LinearFit
        The solver, schedule, intercept and centring of the fit, without states.
    rate : float, optional
        The learning rate, for messages.
    shuffle : bool or "replacement"
        Whether each epoch visits the rows in a new order, or draws as many with replacement.
    max_steps : int, optional
        The steps of each model; its last epoch visits fewer rows.
    keep_states : bool
        Whether the next fit may continue from the states.
    held_out : sequence of Problem
        The models' problems on the rows held out.
    conditioning : Conditioning
        Of the columns of all these rows.
    rng, n_jobs
        As in `Trainer`.
    """

    samples_objective = True

    def __init__(
        self,
        models: Sequence[SingleModel],
        X: Any,
        columns: Columns,
        coef_shape: tuple[int, ...],
        description: LinearFit,
        *,
        rate: float | None,
        shuffle: bool | str,
        max_steps: int | None = None,
        keep_states: bool,
        held_out: Sequence[Problem] = (),
        conditioning: Conditioning = AS_GIVEN,
        rng: np.random.Generator,
        n_jobs: int,
    ):
        super().__init__(rng, n_jobs)
        self.models = models
        self.X = X
        self.columns = columns
        self.coef_shape = coef_shape
        self.description = description
        self.rate = rate
        self.shuffle = shuffle
        self.max_steps = max_steps
        self.keep_states = keep_states
        self.held_out = held_out
        self.conditioning = conditioning
        self.title = description.solver
        problem = models[0].problem
        self.size = problem.examples.y.size
        self.rows_per_epoch = self.size * len(models)
        self._adjacent_blocks = 1
        if is_mapped(X):
            entry_bytes = problem.examples.rows.data.itemsize + 4
            self._adjacent_blocks = blocks_per_read(count_nonzeros(problem, 1) * entry_bytes)

    def visit_all(self, report: Report) -> Record:
        """Take an epoch with each model."""
        order = self._order()
        if self._pool is not None and len(self.models) > 1:
            shared = (repeat(each) for each in (order, self.X, None, 1, report))
            losses = list(self._pool.map(SingleModel.epoch, self.models, *shared))
        else:
            # Two threads must not visit the same example if its memory is shared.
            repeats = self.shuffle == "replacement"
            alone = repeats and SOLVERS[self.description.solver].remembers_examples
            pool = None if alone else self._pool
            losses = [
                model.epoch(order, self.X, pool, self.n_jobs, report) for model in self.models
            ]
        return {"loss": float(np.mean(losses))}

    def _order(self) -> Array:
        """Return the rows to visit in this epoch."""
        if self.shuffle == "replacement":
            order = self.rng.integers(self.size, size=self.size)
        elif self.shuffle:
            order = visiting_order(self.size, self.rng, self._adjacent_blocks)
        else:
            order = np.arange(self.size)
        if self.max_steps is None:
            return order
        return order[: self.max_steps - self.epochs * self.size]

    def check(self, record: Record) -> None:
        """Raise DivergenceError if the loss is far above that of zero weights."""
        most = _RUNAWAY * float(np.mean([model.loss_at_zero() for model in self.models]))
        if record["loss"] <= most:
            return
        now = [mean_loss(model.problem, *model.solution()) for model in self.models]
        if not np.mean(now) <= most:
            raise self._divergence()

    def _divergence(self) -> DivergenceError:
        if self.rate is None:
            cause, advice = "", "use a larger alpha, schedule='bottou'"
        else:
            cause = f" with learning_rate={self.rate:g}"
            advice = "use a smaller learning_rate or 'auto'"
        return DivergenceError(
            f"solver={self.title!r} diverged in epoch {self.epochs}{cause}: {advice}, scale the "
            "features, or use solver='aisgd', which no learning rate makes diverge"
        )

    @property
    def is_settled(self) -> bool:
        """Whether all models are at their optimum."""
        return all(model.is_settled for model in self.models)

    def objective(self) -> float:
        """Return the mean objective of the models, on some of the rows."""
        rows = self._watched
        if rows.size == self.size:
            return self.exact_objective()
        return float(np.mean([objective_of(m.problem, rows, *m.solution()) for m in self.models]))

    @cached_property
    def _watched(self) -> Array:
        return watched_rows(self.size, max(_FEWEST_WATCHED, _WATCHED_SHARE * self.size))

    def exact_objective(self) -> float:
        """Return the mean objective of the models."""
        return float(np.mean([objective(m.problem, *m.solution()) for m in self.models]))

    def validation_loss(self) -> float:
        """Return the mean loss of the models on the rows held out."""
        pairs = zip(self.held_out, self.models, strict=True)
        return float(np.mean([mean_loss(problem, *model.solution()) for problem, model in pairs]))

    def try_step(self) -> Trial | None:
        """Return what a step of each model gains, on average."""
        strengths = strengths_of(self.models[0].problem)
        if strengths is None or self.max_steps is not None:  # a budget to study, not to converge in
            return None
        if self.description.schedule == "inverse-t":  # then the intercept is a weight
            strengths = strengths._replace(has_bias=False)
        fitted = [(model.problem, model.solution()) for model in self.models]
        return try_steps(self.X, self.columns, strengths, fitted)

    def solution(self) -> dict[str, Any]:
        """Return `coef_` and `intercept_`, in the units of the columns as given."""
        solutions = [model.solution() for model in self.models]
        coef, intercept = self.conditioning.fold(
            np.array([self.columns.widen(w) for w, _ in solutions]),
            np.array([b for _, b in solutions]),
        )
        return {"coef_": coef.reshape(self.coef_shape), "intercept_": intercept}

    def finish(self, record: Record) -> dict[str, Any]:
        """Return the solution, and the states if they are kept."""
        solution = self.solution()
        if not all(np.isfinite(array).all() for array in solution.values()):
            raise self._divergence()
        states = tuple(map(self._widened, self.states)) if self.keep_states else ()
        return solution | {"_fitted": self.description._replace(states=states)}

    def _widened(self, state: Any) -> Any:
        """Return a state with weights for all columns."""

        def widen(axes: tuple[Axis, ...], array: Array) -> Array:
            return self.columns.widen(array) if Axis.FEATURES in axes else array

        return map_arrays(widen, state)

    @property
    def states(self) -> list[Any]:
        """The models' states."""
        return [model.state for model in self.models]

    @states.setter
    def states(self, states: list[Any]) -> None:
        for model, state in zip(self.models, states, strict=True):
            model.state = state

    @property
    def generators(self) -> list[np.random.Generator]:
        """The generator that orders the rows, and the models' own."""
        return [self.rng, *(model.rng for model in self.models)]
