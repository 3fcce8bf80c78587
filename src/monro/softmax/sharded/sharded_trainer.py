"""Epochs in which every shard of the rows visits every shard of the classes.

P workers hold a class shard each, and there are S ≥ P row shards. An epoch has S rounds. In each of
them every class shard is visited by one row shard, and no row shard is in two places; after S
rounds every row shard has visited every class shard once. Rounds are only the order of the
visits, not barriers: a visit starts as soon as its worker is free and the previous visit of its row
shard has ended. Only u is transferred, one number for each example (`class_shards`), never weights.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from monro.blocks import LANES, MASKED_SCORE, n_blocks
from monro.errors import DivergenceError
from monro.fitting.trainer import Record, Report, Trainer
from monro.fitting.worker_pool import Future, WorkerPool
from monro.rows import Array
from monro.softmax.kernel.layout import new_weights
from monro.softmax.model import Weights
from monro.softmax.plan import Plan
from monro.softmax.sampling.registry import uses_neighbours
from monro.softmax.sharded.class_shards import ClassShard, Partition, slots_of
from monro.softmax.training.monitoring import LossSample
from monro.softmax.training.score_scaling import best_training_scale, is_scaling_due, is_too_costly


class ShardedRows(NamedTuple):
    """The row shards, and the sizes and statistics of all rows together."""

    shards: list[Future]  # RowShard
    sizes: list[int]  # rows of each
    n_features: int
    sparse: bool
    nonzeros: int
    mean_sqnorm: float
    clusters: Future  # the cells of the rows; None if cells are features


class ShardedFit(NamedTuple):
    """A fitted softmax whose classes are in shards."""

    partition: Partition
    weights: list[Future]  # Weights, one for each class shard


class Visit(NamedTuple):
    """A visit of a row shard to a class shard."""

    round: int
    worker: int  # that holds the class shard
    key: int  # of the row shard


def schedule_visits(
    n_row_shards: int, n_class_shards: int, rng: np.random.Generator
) -> list[Visit]:
    """Return the visits of an epoch, round by round.

    The row shards are a cyclic list in random order. In round t class shard k is visited by the row
    shard at position ``t + k S/P`` of that list.
    """
    circle = rng.permutation(n_row_shards)
    return [
        Visit(t, k, int(circle[(t + k * n_row_shards // n_class_shards) % n_row_shards]))
        for t in range(n_row_shards)
        for k in range(n_class_shards)
    ]


class ShardedTrainer(Trainer):
    """Takes epochs of visits. Call `set_up` and `reset`, or `load`, before the first one.

    Parameters
    ----------
    workers : WorkerPool
        The workers that will hold the class shards.
    rows : ShardedRows
    plan : Plan
    partition : Partition
        The assignment of classes to shards.
    bias : array
        The intercepts to begin with, one for each class.
    sample : LossSample
        Rows whose exact loss is measured.
    seed : int
        The random numbers of each visit are seeded by the seed, the epoch and the shards, so that a
        repeated visit has the same result.
    """

    objective_name = "log_loss"
    adjacent_blocks = 1  # rows are visited in random order in the search for a learning rate

    def __init__(
        self,
        workers: WorkerPool,
        rows: ShardedRows,
        plan: Plan,
        partition: Partition,
        bias: Array,
        sample: LossSample,
        seed: int,
    ):
        super().__init__(np.random.default_rng(seed))  # for checkpoints: nothing is drawn from it
        self.workers = workers
        self.rows = rows
        self.partition = partition
        self.bias = bias
        self.sample = sample
        self._sample_X = workers.share(sample.X)
        self.seed = seed
        self.title = "softmax"
        self.size = sum(rows.sizes)
        self.rows_per_epoch = self.size * workers.size
        self.mean_sqnorm = rows.mean_sqnorm
        self.plan = plan
        self._active_plan = plan  # of the class shards; differs in the exact epochs
        self.u: list[Future] = []  # of each row shard

    # ------------------------------------------------------------------------------ before an epoch

    def set_up(self) -> None:
        """Let the workers make their class shards, for the epoch after `epochs`."""
        rows, workers = self.rows, self.workers
        make = partial(
            ClassShard,
            self.plan,
            self.partition,
            n_features=rows.n_features,
            sparse=rows.sparse,
        )
        workers.results([workers.assign(k, make, k) for k in range(workers.size)])
        if uses_neighbours(self.plan):
            arguments = rows.nonzeros, [self.seed, 1], rows.clusters
            workers.results(self._call_for_rows("count_neighbours", *arguments))
        # The plan of the previous epoch: if the next one has another plan, masses are recomputed.
        self._activate(self._plan_at(max(0, self.epochs - 1)))

    def reset(self) -> None:
        """Set all weights to 0."""
        self.workers.results(self.workers.call_all("reset", self.bias))
        normaliser = np.logaddexp.reduce(self.bias)
        self.u = [np.full(n, normaliser) for n in self.rows.sizes]

    def set_rate(self, eta0: float) -> None:
        """Set the learning rate of the plan."""
        self.plan = self._active_plan = self.plan._replace(eta0=eta0)

    def restart(self, eta0: float) -> Self:
        """Start over at this learning rate."""
        self.set_rate(eta0)
        self.reset()
        return self

    def _call_for_rows(self, method: str, *args: Any) -> list[Future]:
        """Call a method of every class shard for every row shard."""
        return [
            future
            for key, shard in enumerate(self.rows.shards)
            for future in self.workers.call_all(method, key, shard, *args)
        ]

    def _plan_at(self, epoch: int) -> Plan:
        plan = self.plan
        if plan.uses_all_classes or plan.epochs - epoch > plan.exact_epochs:
            return plan
        return plan.with_all_classes()

    def _activate(self, plan: Plan) -> None:
        """Make all class shards use a plan."""
        futures = self.workers.call_all("set_plan", plan)
        if plan.alpha > 0.0:
            futures += self._call_for_rows("count_updates")
        self.workers.results(futures)
        self._active_plan = plan

    # ----------------------------------------------------------------------------------- an epoch

    def visit_all(self, report: Report) -> Record:
        """Let every row shard visit every class shard; losses are those of the classes drawn."""
        epoch = self.epochs
        plan = self._plan_at(epoch)
        if plan != self._active_plan:
            self._activate(plan)
            self._sum_masses()
        rng = np.random.default_rng([self.seed, 2, epoch])
        schedule = schedule_visits(len(self.rows.shards), self.workers.size, rng)
        losses = []
        for t, worker, key in schedule:
            rate = plan.rate_at(epoch + (t + 0.5) / len(self.rows.shards))
            losses.append(self._visit(worker, key, rate, [self.seed, 3, epoch, key, worker]))
        total = 0.0
        for visit, future in zip(schedule, losses, strict=True):
            (loss,) = self.workers.results([future])
            total += loss
            report(self.rows.sizes[visit.key])
        self._scale_scores(epoch + 1)
        return {"loss": total / self.size, "rate": plan.rate_at(epoch)}

    def visit(self, order: Array, rate: float) -> float:
        """Step on some rows, with all classes; return the sum of their losses before the steps."""
        ends = np.cumsum(self.rows.sizes)
        key_of_row = np.searchsorted(ends, order, side="right")
        losses = []
        for key in np.unique(key_of_row).tolist():
            inside = order[key_of_row == key] - (ends[key] - self.rows.sizes[key])
            losses += [
                self._visit(worker, key, rate, [self.seed, 4, key, worker], inside)
                for worker in range(self.workers.size)
            ]
        return float(sum(self.workers.results(losses)))

    def _visit(self, worker: int, key: int, rate: float, seed: Any, *order: Array) -> Future:
        """Let a row shard visit a class shard, when both are free; return the sum of losses."""
        arguments = key, self.rows.shards[key], self.u[key], rate, seed, *order
        self.u[key], loss = self.workers.call(worker, "visit", *arguments, returns=2)
        return loss

    def _scale_scores(self, epochs: int) -> None:
        """At intervals, multiply weights and intercepts by the factor that minimises the loss."""
        sample = self.sample
        if is_too_costly(sample, self.bias.size) or not is_scaling_due(self.plan, epochs):
            return
        S = np.empty((sample.codes.size, self.bias.size))
        futures = self.workers.call_all("scores", self._sample_X)
        for k, scores in enumerate(self.workers.results(futures)):
            S[:, self.partition.classes(k)] = scores
        c = best_training_scale(S, sample, self.ridge())
        if c > 1.0:
            self.workers.call_all("scale_scores", c)
            self._sum_masses()

    def _sum_masses(self) -> None:
        """Recompute u from the masses of all class shards."""
        for key, shard in enumerate(self.rows.shards):
            u = None
            for worker in range(self.workers.size):
                u = self.workers.call(worker, "add_local_mass", key, shard, u)
            self.u[key] = u

    # -------------------------------------------------------------------------------- measurements

    def check(self, record: Record) -> None:
        """Raise DivergenceError if the loss is not finite: implicit steps do not diverge."""
        if not np.isfinite(record["loss"]):
            raise DivergenceError("the loss is not a number: scale the features")

    def ridge(self) -> float:
        """Return ``alpha/2 ‖W‖²``."""
        if self.plan.alpha == 0.0:
            return 0.0
        return float(sum(self.workers.results(self.workers.call_all("ridge"))))

    def losses(self, X: Any, codes: Array) -> Array:
        """Return the exact loss of each row; X may be a future."""
        masses = self.workers.results(self.workers.call_all("exact_masses", X, codes))
        ell, own = (np.stack(each) for each in zip(*masses, strict=True))
        return np.asarray(np.logaddexp.reduce(ell) - own.max(axis=0))

    def sample_loss(self) -> float:
        """Return the exact objective of the sample."""
        each = self.losses(self._sample_X, self.sample.codes)
        return float(self.sample.weight @ each + self.ridge())

    def objective(self) -> float:
        """Return the exact objective of the sample."""
        return self.sample_loss()

    # ------------------------------------------------------------------------------------- results

    def solution(self) -> dict[str, Any]:
        """Return the model as the estimator keeps it: in shards."""
        weights = self.workers.call_all("weights")
        self.workers.results(
            self.workers.call_all("ridge")
        )  # workers run calls in order: the weights are complete, too
        return {"_fitted": ShardedFit(self.partition, weights)}

    @property
    def states(self) -> list[Any]:
        """An empty list: the workers save their own states, in `save`."""
        return []

    @states.setter
    def states(self, states: list[Any]) -> None:
        pass

    def save(self, folder: Path) -> None:
        """Let the workers write their class shards, and u of the row shards."""
        folder.mkdir(exist_ok=True)
        workers = self.workers
        futures = [workers.call(k, "save", str(folder / f"part-{k}")) for k in range(workers.size)]
        for key, u in enumerate(self.u):
            path = str(folder / f"local-{key}")
            futures.append(workers.call(key % workers.size, "save_normalisers", path, u))
        workers.results(futures)

    def load(self, folder: Path) -> None:
        """Let the workers load what `save` wrote; call `set_up` first."""
        workers = self.workers
        futures = [workers.call(k, "load", str(folder / f"part-{k}")) for k in range(workers.size)]
        workers.results(futures)
        self.u = [
            workers.call(key % workers.size, "load_normalisers", str(folder / f"local-{key}"))
            for key in range(len(self.rows.shards))
        ]


def join_class_shards(partition: Partition, shards: Iterable[Weights]) -> Weights:
    """Return one model of all classes, from those of the class shards."""
    blocks = n_blocks(partition.slots.size)
    bias, scale, W = np.zeros(0), np.zeros(0), np.zeros(0)
    for k, shard in enumerate(shards):
        own: Any = shard.W
        if k == 0:
            W = new_weights(own.ndim == 3, blocks, own.shape[1], own.dtype)
            bias = np.full(blocks * LANES, MASKED_SCORE, own.dtype)
            scale = np.ones(blocks * LANES, own.dtype)
        own_blocks = partition.blocks(k)
        own_slots = slots_of(own_blocks)
        W[own_blocks if own.ndim == 3 else own_slots] = own
        bias[own_slots], scale[own_slots] = shard.bias, shard.scale
    return Weights(W, bias, scale, partition.slots)
