"""Epochs of sweeps over the rows: sampling of classes, learning rates, threads, score scaling."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from monro.blocks import LANES
from monro.coordinate import Strengths
from monro.errors import DivergenceError
from monro.fitting.conditioning import AS_GIVEN, Conditioning
from monro.fitting.convergence import Trial
from monro.fitting.order import RowOrder, blocks_per_read
from monro.fitting.run import LabelledRows
from monro.fitting.trainer import Record, Report, Trainer, no_report
from monro.fitting.watching import watched_rows
from monro.mapped.chunked_arrays import chunks, is_mapped
from monro.mapped.matrices import load_rows
from monro.mapped.page_requests import reading_rows
from monro.penalties import RidgePerClass
from monro.rows import Array
from monro.softmax.kernel.layout import class_major
from monro.softmax.kernel.state import State, l1_norm_of, multiply_out, ridge_of
from monro.softmax.kernel.sweep import (
    Ball,
    Scratch,
    Settings,
    Unbounded,
    label_scores,
    new_scratch,
    sweep,
)
from monro.softmax.metrics import losses
from monro.softmax.model import Weights, scores
from monro.softmax.plan import Plan
from monro.softmax.sampling.samplers import AllBlocks, Sampler
from monro.softmax.solvers import SOLVERS, make_rule
from monro.softmax.training.continuation import SoftmaxFit, folded, new_partial_state
from monro.softmax.training.convergence import try_softmax_step
from monro.softmax.training.coordinate import CoordinateDescent
from monro.softmax.training.monitoring import (
    LossSample,
    divergence_error,
    is_finite,
    largest_loss,
    sample_for_loss,
)
from monro.softmax.training.problem import SoftmaxProblem
from monro.softmax.training.proximal import rows_per_proximal_step, take_proximal_step
from monro.softmax.training.score_scaling import (
    best_training_scale,
    best_validation_scale,
    is_scaling_due,
    is_too_costly,
    scale_intercepts,
    scaled_local_variables,
    scaled_weights,
)
from monro.softmax.training.thread_copies import merge

_CHUNK_ROWS = 1 << 16  # for which classes are drawn at a time
_RATE_CHANGES = 50  # in a fit, at least
# Weights up to this size stay in the cache of a core: then each thread has a copy of them.
_COPIED_BYTES = 1 << 22
# Copies are merged so rarely that it is cheap: between two merges, each weight is updated at least
# _UPDATES_PER_WEIGHT times on average, and there are at least _UPDATES_PER_MERGE updates in all,
# which take about 20 ms.
_UPDATES_PER_WEIGHT = 12.0
_UPDATES_PER_MERGE = 1 << 27


# The loss of a row takes about a fourth of the time, for each class, of a step for each class that
# it visits, and at least a fourth of that of a step. Besides these classes a step takes as long as
# _STEP_CLASSES more. So watching takes about a twentieth of an epoch.
_WATCHED_CLASSES, _WATCHED_ROWS = 0.2, 0.1  # shares
_STEP_CLASSES = 32
_ALWAYS_WATCHED, _FEWEST_WATCHED = 1000, 200  # rows; of more than a thousand classes fewer
_FEWEST_SHOWN = 100  # rows, of a loss that decides nothing
_FEW_SCORES = 1 << 20
_SCALE_PASSES = 16.0  # of `losses`, that take as long as a search for the final scale


class SoftmaxTrainer(Trainer):
    """Takes epochs of sweeps over one problem.

    Parameters
    ----------
    problem : SoftmaxProblem
    plan : Plan
    sampler : Sampler
        Plan and sampler are replaced for the exact epochs at the end, if there are any.
    state : State
        The initial state, changed in place.
    sample : LossSample
        Rows whose exact loss is measured: of the held-out rows if there are any, else of the
        problem's.
    held_out : LabelledRows, optional
        Their labels are class codes.
    shuffle : bool
        Whether each epoch visits the rows in a new order.
    epochs_before : int
        Epochs of earlier fits, for the schedule of the rate.
    rows_key : str, optional
        Identifies the rows, if a later fit may continue with their local variables.
    conditioning : Conditioning
        Of the columns of all these rows.
    searched : bool
        Whether the learning rate was searched for, for messages.
    choices : str
        How "auto" was resolved, as text.
    rng, n_jobs
        As in `Trainer`.
    """

    objective_name = "log_loss"
    samples_objective = True
    state: State

    def __init__(
        self,
        problem: SoftmaxProblem,
        plan: Plan,
        sampler: Sampler,
        state: State,
        sample: LossSample,
        *,
        held_out: LabelledRows | None = None,
        shuffle: bool = True,
        epochs_before: int = 0,
        rows_key: str | None = None,
        conditioning: Conditioning = AS_GIVEN,
        searched: bool = True,
        choices: str = "",
        rng: np.random.Generator,
        n_jobs: int = 1,
    ):
        super().__init__(rng, n_jobs)
        self.problem = problem
        self.state = state
        self.sample = sample
        self.held_out = held_out
        self.shuffle = shuffle
        self.epochs_before = epochs_before
        self.rows_key = rows_key
        self.conditioning = conditioning
        self.searched = searched
        self.choices = choices
        self.title = plan.solver
        self.traits = SOLVERS[plan.solver]
        self.size = self.rows_per_epoch = problem.size
        self.mean_sqnorm = problem.mean_sqnorm
        X = problem.X
        self.adjacent_blocks = 1
        if is_mapped(X):
            row_bytes = (X.dtype.itemsize + 4) * X.data.size / X.shape[0]
            self.adjacent_blocks = blocks_per_read(row_bytes)
        self._set_plan(plan, sampler)
        self._visited_classes = sampler.per_step

    def _set_plan(self, plan: Plan, sampler: Sampler) -> None:
        """Use this plan and sampler from now on."""
        self.plan, self.sampler = plan, sampler
        strength = np.zeros(self.state.bias.size, plan.dtype)
        if plan.ridge_strength > 0.0:
            touched = sampler.expected_updates(self.problem.y, self.problem.counts)
            strength[:] = plan.ridge_strength / np.maximum(touched, 1e-30)
        self._penalty = RidgePerClass(strength)
        self._scratches = [
            new_scratch(plan.examples, sampler.per_step, plan.dtype) for _ in range(self.n_jobs)
        ]

    # ----------------------------------------------------------------------------------- an epoch

    def visit_all(self, report: Report) -> Record:
        """Visit all rows; the loss is estimated from the classes drawn, before each step."""
        plan, n = self.plan, self.size
        if plan.epochs - self.epochs <= plan.coordinate_epochs:
            return {"loss": self._descent.epoch(self.state, report) / n}
        if not plan.uses_all_classes and plan.epochs - self.epochs <= plan.exact_epochs:
            blocks = self.state.bias.size // LANES
            self._set_plan(plan.with_all_classes(), AllBlocks(blocks, plan.dtype))
        order = RowOrder(n, self.rng, self.adjacent_blocks) if self.shuffle else np.arange(n)
        before = self.epochs_before
        rate = self.plan.rate_at(before + self.epochs, before)
        loss = 0.0
        for a, b in pairwise(self._borders(n)):
            middle = self.epochs + 0.5 * (a + min(b, n)) / n
            loss += self.visit(order[a:b], self.plan.rate_at(before + middle, before), report)
        self._scale_scores(self.epochs + 1)
        return {"loss": loss / n, "rate": rate}

    @cached_property
    def _descent(self) -> CoordinateDescent:
        plan = self.plan
        strengths = Strengths(plan.l1_strength, plan.ridge_strength, plan.damping > 0.0)
        return CoordinateDescent(self.problem, strengths)

    def _borders(self, n: int) -> list[int]:
        """Return the borders of the parts of an epoch with a constant rate."""
        steps = -(-n // self.plan.examples)
        changes = 1 if self.plan.decay is not None else -(-_RATE_CHANGES // self.plan.epochs)
        parts = min(steps, max(-(-n // _CHUNK_ROWS), changes))
        return [self.plan.examples * (steps * k // parts) for k in range(parts + 1)]

    def visit(self, order: Array, rate: float, report: Report = no_report) -> float:
        """Step on the examples of `order` at a rate; return the sum of the rule's losses."""
        plan = self.plan
        if plan.l1_strength == 0.0:
            return self._sweep(order, rate, report)
        rate_of_row = rate / plan.examples
        updates = self._row_length * (self.sampler.per_step + LANES)
        n = rows_per_proximal_step(
            rate_of_row, self.mean_sqnorm, self.state.W.size, updates, self.size
        )
        total = 0.0
        for start in range(0, order.size, n):
            part = order[start : start + n]
            total += self._sweep(part, rate, report)
            take_proximal_step(self.state, part.size * rate_of_row * plan.l1_strength)
        return total

    def _sweep(self, order: Array, rate: float, report: Report) -> float:
        """Step on the examples of `order` at a rate, without the L1 norm."""
        plan, problem = self.plan, self.problem
        number = np.dtype(plan.dtype).type
        settings = Settings(
            number(rate / plan.examples), number(plan.damping), self._penalty, self._bounds()
        )
        epoch = self.epochs_before + self.epochs
        rule = make_rule(plan, self.sampler, epoch, self._longest, problem.n_classes)
        examples_per_draw = plan.examples if self.traits.draws.are_shared else 1
        states, size = self._states_of_threads(order.size)

        def work(part: Array, seed: int, state: State, scratch: Scratch) -> float:
            firsts = part[::examples_per_draw]
            drawn = self.sampler.draw(firsts, problem.y[firsts], np.random.default_rng(seed))
            per_draw = part.size if plan.uses_all_classes else examples_per_draw
            examples = problem.kernel_rows(state.W)
            return sweep(rule, examples, part, drawn, per_draw, settings, state, scratch)

        run = map if self._pool is None else self._pool.map
        total = 0.0
        for start in range(0, order.size, size):
            part = order[start : start + size]
            parts = self._split(part, len(states))
            seeds = self.rng.integers(2**63, size=len(parts))
            with reading_rows(problem.X, part, problem.y, problem.weight, problem.sqnorm):
                total += sum(run(work, parts, seeds, states, self._scratches))
            if states[0].W is not self.state.W:
                self._merge(states)
            report(part.size)
        return float(total)

    def _bounds(self) -> Any:
        """Return the bounds of the weights of each class."""
        if self.plan.radius is None:
            return Unbounded()
        W = class_major(self.state.W).astype(np.float64) * self.state.scale[:, None]
        return Ball(float(self.plan.radius), np.asarray(np.einsum("kf,kf->k", W, W)))

    @cached_property
    def _row_length(self) -> float:
        """The mean number of entries that are stored of a row."""
        X = self.problem.X
        return float((X.nnz if sp.issparse(X) else X.size) / X.shape[0])

    @cached_property
    def _longest(self) -> float:
        """The Euclidean length of the longest row."""
        return float(np.sqrt(self.problem.sqnorm.max()))

    def _scale_scores(self, epochs: int) -> None:
        """Multiply the weights by the factor of a line search, if that is due."""
        costly = is_too_costly(self.sample, self.problem.n_classes)
        if costly or not is_scaling_due(self.plan, epochs):
            return
        S = scores(self.weights(), self.sample.X)
        c = best_training_scale(S, self.sample, self.ridge(), self.l1_norm())
        if c == 1.0:
            return
        state = self.state
        s_y = np.zeros_like(state.u)
        if self.plan.is_raman:
            label_scores(self.problem.kernel_rows(state.W), state, s_y)
        for u, score in zip(chunks(state.u), chunks(s_y), strict=True):
            u[:] = scaled_local_variables(u, score, c)
        scale_intercepts(state.bias, c)
        state.scale[:] *= c
        multiply_out(state)

    # ------------------------------------------------------------------------------------ threads

    def _states_of_threads(self, n: int) -> tuple[list[State], int]:
        """Return a state for each thread, and the number of examples between two merges.

        Weights that fit into the cache of a core must not be shared: their cache lines would move
        between the cores at every step, and two threads would be slower than one. Then each thread
        has a copy, and the copies are merged at intervals that make merging cheap. If an epoch is
        shorter than such an interval, one thread does all the work. Larger weights are read from
        shared memory anyway: threads share them, without locks.
        """
        plan, problem, state = self.plan, self.problem, self.state
        size = max(1, _CHUNK_ROWS // plan.examples) * plan.examples
        if self.n_jobs == 1 or state.W.nbytes > _COPIED_BYTES or plan.radius is not None:
            return [state] * self.n_jobs, size
        nonzeros = problem.X.nnz if sp.issparse(problem.X) else problem.X.size
        blocks = 1 + self.sampler.per_step // LANES  # per step
        updates = blocks * LANES * nonzeros * (n / self.size)
        merges = int(
            min(updates / state.W.size / _UPDATES_PER_WEIGHT, updates / _UPDATES_PER_MERGE)
        )
        if merges == 0:
            return [state], size
        steps = -(-n // (merges * plan.examples))
        if plan.alpha > 0.0:
            multiply_out(state)
        weights, intercepts = self._copies
        weights[:], intercepts[:] = state.W.reshape(-1), state.bias
        copies = [
            State(W.reshape(state.W.shape), bias, np.ones_like(bias), state.u)
            for W, bias in zip(weights, intercepts, strict=True)
        ]
        return copies, min(size, steps * plan.examples)

    @cached_property
    def _copies(self) -> tuple[Array, Array]:
        """The copies of weights and intercepts, one for each thread."""
        W, bias, n = self.state.W, self.state.bias, self.n_jobs
        return np.empty((n, W.size), W.dtype), np.empty((n, bias.size), bias.dtype)

    def _merge(self, states: list[State]) -> None:
        """Merge the copies of the threads into the state."""
        assert self._pool is not None
        if self.plan.alpha > 0.0:
            for state in states:
                multiply_out(state)
        W, copies = self.state.W.reshape(-1), [state.W.reshape(-1) for state in states]
        borders = np.linspace(0, W.size, self.n_jobs + 1).astype(int)

        def work(start: int, stop: int) -> None:
            merge(W[start:stop], [copy[start:stop] for copy in copies])

        list(self._pool.map(work, borders[:-1], borders[1:]))
        merge(self.state.bias, [state.bias for state in states])

    def _split(self, part: Array, n_threads: int) -> list[Array]:
        """Split examples among the threads, without splitting a step."""
        steps = -(-part.size // self.plan.examples)
        borders = np.linspace(0, steps, n_threads + 1).astype(int) * self.plan.examples
        return [part[a:b] for a, b in pairwise(borders)]

    # ------------------------------------------------------------------------------- measurements

    def ridge(self) -> float:
        """Return ``alpha/2 ‖W‖²``."""
        return ridge_of(self.state, self.plan.ridge_strength)

    def l1_norm(self) -> float:
        """Return ``alpha l1_ratio ‖W‖₁``."""
        return l1_norm_of(self.state, self.plan.l1_strength)

    def sample_loss(self) -> float:
        """Return the exact objective of the sample, for the search for a learning rate."""
        return self.sample.loss(self.weights()) + self.ridge() + self.l1_norm()

    def objective(self) -> float:
        """Return the exact loss of a few of the training rows."""
        sample = self._training_sample
        rows = LabelledRows(sample.X, sample.codes, sample.weight)
        return self._loss_of(self._watched(rows, fewest=_FEWEST_SHOWN))

    def exact_objective(self) -> float:
        """Return the exact loss of a sample of the training rows."""
        return self._training_sample.loss(self.weights(), self.n_jobs, self.plan.link)

    @cached_property
    def _training_sample(self) -> LossSample:
        if self.held_out is None:
            return self.sample
        problem = self.problem
        rows = LabelledRows(problem.X, problem.codes(), problem.weight)
        return sample_for_loss(rows, problem.n_classes)

    def validation_loss(self) -> float:
        """Return the exact loss of held-out rows: of all, or of a sample."""
        return self._loss_of(self._watched_held_out)

    def held_out_loss(self) -> float:
        """Return the exact loss of all held-out rows."""
        assert self.held_out is not None
        return self._loss_of(self.held_out)

    def _loss_of(self, rows: LabelledRows) -> float:
        X, y, weight = rows
        each = losses(self.weights(), X, y, self.n_jobs, self.plan.link)
        return float(np.average(each, weights=weight))

    @cached_property
    def _watched_held_out(self) -> LabelledRows:
        assert self.held_out is not None
        return self._watched(self.held_out)

    def _watched(
        self, rows: LabelledRows, epochs: float = 1.0, fewest: int = _FEWEST_WATCHED
    ) -> LabelledRows:
        """Return so many of the rows that their loss takes a small part of some epochs' time."""
        n_classes = self.problem.n_classes
        visited = (self._visited_classes + _STEP_CLASSES) / n_classes
        share = min(_WATCHED_ROWS, _WATCHED_CLASSES * visited)
        fewest = max(fewest, min(_ALWAYS_WATCHED, _FEW_SCORES // n_classes))
        most = max(fewest, share * self.size * epochs)
        if rows.y.size <= most:
            return rows
        chosen = watched_rows(rows.y.size, most)
        return LabelledRows(load_rows(rows.X, chosen), rows.y[chosen], rows.weight[chosen])

    def check(self, record: Record) -> None:
        """Raise DivergenceError if the loss is far above that of guessing."""
        most = largest_loss(self.problem.n_classes)
        # The loss of an adaptive solver may be a bound that is far off.
        plausible = record["loss"] <= most or self.traits.is_adaptive
        if plausible and (self.traits.is_implicit or is_finite(self.state)):
            return
        # The record's loss is estimated from the classes drawn; the exact loss decides.
        with np.errstate(all="ignore"):
            exact = self.sample.loss(self.weights())
        if not exact <= most:
            raise self._divergence()

    def _divergence(self) -> DivergenceError:
        return divergence_error(self.plan, searched=self.searched)

    def try_step(self) -> Trial | None:
        """Return what a step on the exact loss gains, if the solver is to minimise that."""
        plan = self.plan
        if not self.traits.minimises_log_loss or plan.radius is not None:
            return None
        strengths = Strengths(plan.l1_strength, plan.ridge_strength, plan.damping > 0.0)
        return try_softmax_step(self.problem, self.weights(), strengths)

    # ------------------------------------------------------------------------------------ results

    def weights(self) -> Weights:
        """Return the current weights."""
        state = self.state
        return Weights(state.W, state.bias, state.scale, self.problem.slots)

    def solution(self) -> dict[str, Any]:
        """Return the attributes of an estimator with the current weights."""
        return {"_fitted": SoftmaxFit(folded(self.weights(), self.conditioning))}

    def finish(self, record: Record) -> dict[str, Any]:
        """Return the attributes of the estimator, with scores scaled to fit the held-out rows."""
        if not is_finite(self.state):
            raise self._divergence()
        weights, plan = self.weights(), self.plan
        if self.held_out is not None and plan.link == "softmax" and plan.posterior is None:
            X, y, weight = self._watched(self.held_out, self.epochs / _SCALE_PASSES)
            record["multiple"] = best_validation_scale(weights, X, y, weight, self.n_jobs)
            weights = scaled_weights(weights, record["multiple"])
        local = None
        # Coordinate descent leaves the local variables behind.
        current = self.rows_key is not None and plan.coordinate_epochs == 0
        if current and record.get("multiple", 1.0) == 1.0:
            local = str(self.rows_key), self.state.u
        scaled = self.conditioning.changes
        partial = new_partial_state(self.problem.counts, self.size, plan)
        if scaled:  # the first batch, which is not scaled, has its own damping
            partial.damping[:] = 0.0
        weights = folded(weights, self.conditioning)
        epochs = self.epochs_before + self.epochs
        return {"_fitted": SoftmaxFit(weights, partial, epochs, local, scaled)}
