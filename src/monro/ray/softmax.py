"""RaySoftmaxClassifier: a softmax whose classes and rows are distributed over a cluster."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import ray
from sklearn.callback import with_callbacks
from sklearn.exceptions import NotFittedError

from monro.blocks import n_blocks
from monro.errors import CheckpointError
from monro.fitting.epochs import train
from monro.fitting.row_shard import RowShard
from monro.fitting.run import LabelledRows, Run
from monro.ray.datasets import BlockedRows, DistributedRows, make_shards
from monro.ray.estimator import RayEstimator
from monro.ray.folder_checkpoint import FolderCheckpoint
from monro.ray.sharded import RetryingShardedTrainer
from monro.ray.worker_pool import RayWorkerPool, fetch
from monro.rows import Array
from monro.softmax.classifier import SoftmaxClassifier
from monro.softmax.parameters import check_softmax_parameters
from monro.softmax.plan import Plan
from monro.softmax.sampling.class_order import assign_slots, sums_by_class
from monro.softmax.sampling.neighbours import MAX_CLUSTER_ROWS, features_are_cells, find_clusters
from monro.softmax.sampling.registry import class_order, uses_neighbours
from monro.softmax.sharded.class_shards import Partition
from monro.softmax.sharded.sharded_trainer import ShardedFit, ShardedRows, join_class_shards
from monro.softmax.training.continuation import SoftmaxFit, new_partial_state
from monro.softmax.training.initial import first_intercepts
from monro.softmax.training.monitoring import LossSample, loss_sample_size
from monro.softmax.training.planning import explain, make_plan
from monro.softmax.training.rate import choose_rate

_SHARDS_PER_WORKER = 4  # of the rows: while one is processed, others are transferred


class RaySoftmaxClassifier(RayEstimator):
    """Softmax regression on a Ray cluster: neither rows nor weights need fit into one machine.

    Every worker holds a shard of the classes; shards of the rows move from worker to worker. Steps
    are those of ``SoftmaxClassifier(solver="implicit")``, with the same default settings. Workers
    may be lost at any time: the fit resumes from the last checkpoint.

    Parameters
    ----------
    workers : int, optional
        Actors, each of which holds a shard of the classes; by default as many as the cluster has
        CPUs.
    cpus_per_worker : float
        CPUs that each worker reserves; it computes on one thread.
    max_failures : int
        The number of losses of workers, without a completed epoch in between, that are tolerated.
    patience : float
        Seconds to wait for free CPUs, at the start and after a loss. After that, new workers share
        the CPUs that are left.
    sampling : {"auto", "block", "frequency", "neighbour"}
        As in SoftmaxClassifier.
    classes_per_step : int, optional
        A multiple of 16, divided among the workers, with at least 32 for each.
    alpha, learning_rate, epoch_decay, max_epochs, tol, classes, class_weight
        As in SoftmaxClassifier.
    fit_intercept, dtype, random_state, verbose
        As in SoftmaxClassifier.

    Attributes
    ----------
    classes_ : array
    n_features_in_ : int
    history_ : list of dict
        As in SoftmaxClassifier.
    n_iter_ : int
    learning_rate_ : float
    losses_ : int
        The number of times that workers were lost.

    Examples
    --------
    >>> import ray
    >>> from monro.ray import RaySoftmaxClassifier
    >>> rows = [{"x": k % 3 == 0, "z": k % 3 == 1, "label": k % 3} for k in range(300)]
    >>> dataset = ray.data.from_items(rows)  # or ray.data.read_parquet("train/")
    >>> model = RaySoftmaxClassifier(workers=2, random_state=0)
    >>> model.fit(dataset, label_column="label").to_local().predict([[1.0, 0.0]])
    array([0])
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        cpus_per_worker: float = 1.0,
        max_failures: int = 3,
        patience: float = 60.0,
        sampling: str = "auto",
        classes_per_step: int | None = None,
        alpha: float = 0.0,
        learning_rate: float | str = "auto",
        epoch_decay: float | None = None,
        max_epochs: int = 50,
        tol: float | None = None,
        classes: Any = None,
        class_weight: Any = None,
        fit_intercept: bool = True,
        dtype: str = "float32",
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.workers = workers
        self.cpus_per_worker = cpus_per_worker
        self.max_failures = max_failures
        self.patience = patience
        self.sampling = sampling
        self.classes_per_step = classes_per_step
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.epoch_decay = epoch_decay
        self.max_epochs = max_epochs
        self.tol = tol
        self.classes = classes
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------ fitting

    @with_callbacks
    def fit(
        self,
        dataset: Any,
        label_column: str,
        feature_columns: list[str] | None = None,
        *,
        n_features: int | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        dataset : ray.data.Dataset
        label_column : str
        feature_columns : list of str, optional
        n_features : int, optional
            Both as in `RayLinearClassifier.fit`.
        checkpoint : str or Path, optional
            A folder that all nodes can access. If the driver is killed, the same call resumes.
            By default a temporary folder of the driver, if all nodes can access it; if not, the fit
            restarts from the beginning when a worker is lost.

        Returns
        -------
        self
        """
        local = self._local()
        check_softmax_parameters(local)
        self._check_cluster_parameters()
        seed = self._seed()
        blocks, counts, class_weight = self._read(
            dataset,
            label_column,
            feature_columns,
            n_features,
            dtype=self.dtype,
            classes=self.classes,
        )
        n_workers = self._count_workers(min(blocks.n, n_blocks(counts.size)))
        n_shards = min(_SHARDS_PER_WORKER * n_workers, blocks.n)
        rows = make_shards(blocks, self.classes_, class_weight, n_shards, self.dtype, seed)
        plan = make_plan(local, counts.size, rows.mean_sqnorm)
        # Before workers are started: they leave no CPUs for tasks.
        make_trainer = _maker(plan, blocks, rows, counts, class_weight, n_workers, seed)
        run = Run(self, LabelledRows(dataset, self.classes_, class_weight), seed)
        with (
            self._worker_pool(n_workers) as workers,
            tempfile.TemporaryDirectory(prefix="monro-", ignore_cleanup_errors=True) as temporary,
        ):
            trainer = make_trainer(workers)
            folder = Path(checkpoint or temporary)
            if trainer.with_retries(lambda: workers.all_can_access(folder)):
                data = f"{rows.fingerprint}, {n_workers} parts"
                run.checkpoint = FolderCheckpoint(folder, self, data)
            elif checkpoint is not None:
                raise CheckpointError(
                    f"{checkpoint}: not all workers see this folder; give one that all nodes share"
                )
            trials = self._begin(run, trainer)
            trainer.title = f"softmax, {n_workers} × Ray"
            trainer.choices = explain(local, trainer.plan, counts.size, trials)
            train(run, trainer)
            self.losses_ = workers.losses
        return self

    def _begin(self, run: Run, trainer: RetryingShardedTrainer) -> int:
        """Set the learning rate, and the weights to 0; return the number of trials for the rate."""
        plan, trials = trainer.plan, 0
        if run.resumes:
            assert run.checkpoint is not None
            first_rate = run.checkpoint.about("history")[0]["rate"]
            trainer.set_rate(plan.with_rate_at(0, first_rate).eta0)
        else:
            trainer.with_retries(trainer.set_up)
            eta0 = plan.eta0
            if np.isnan(eta0):
                eta0, trials = trainer.with_retries(
                    lambda: choose_rate(trainer.restart, np.random.default_rng([run.seed, 6]))
                )
            trainer.with_retries(partial(trainer.restart, eta0))
        self.learning_rate_ = trainer.plan.eta0
        self.plan_ = trainer.plan._asdict()
        return trials

    def _local(self) -> SoftmaxClassifier:
        """Return the same model for one machine."""
        return SoftmaxClassifier(formulation="raman", **self._local_parameters())

    def to_local(self) -> SoftmaxClassifier:
        """Return the fitted model as an ordinary estimator, its weights all in this process."""
        if not hasattr(self, "_fitted"):
            raise NotFittedError("call fit before to_local")
        local = self._copy_attributes(self._local())
        local.plan_ = self.plan_
        fit: ShardedFit = self._fitted
        partition = fit.partition
        # Join one shard at a time: all of them and the model would take twice the memory.
        weights = join_class_shards(partition, (fetch([shard])[0] for shard in fit.weights))
        counts = np.empty_like(partition.counts)
        counts[partition.slots] = partition.counts
        partial_state = new_partial_state(counts, int(counts.sum()), Plan(**self.plan_))
        local._fitted = SoftmaxFit(weights, partial_state, self.n_iter_)
        return local


def _maker(
    plan: Plan,
    blocks: BlockedRows,
    rows: DistributedRows,
    counts: Array,
    class_weight: Array,
    n_workers: int,
    seed: int,
) -> Callable[[RayWorkerPool], RetryingShardedTrainer]:
    """Return a function that makes the trainer from workers; its other arguments are fixed here."""
    rng = np.random.default_rng([seed, 5])
    n_classes = counts.size

    def sums() -> Array:
        each = [_sums_by_class.remote(shard, n_classes, [seed, 7]) for shard in rows.shards]
        return np.asarray(sum(fetch(each)))

    slots = assign_slots(class_order(plan), counts, rng, sums)
    clusters = None
    if uses_neighbours(plan) and not (
        blocks.sparse and features_are_cells(blocks.n, blocks.width, blocks.nonzeros)
    ):
        clusters = ray.put(find_clusters(rows.sample(min(blocks.n, MAX_CLUSTER_ROWS)).X, rng))
    size = loss_sample_size(blocks.n, n_classes)
    X, codes, weight = rows.sample(size)
    return partial(
        RetryingShardedTrainer,
        rows=ShardedRows(
            rows.shards,
            rows.sizes,
            blocks.width,
            blocks.sparse,
            blocks.nonzeros,
            rows.mean_sqnorm,
            clusters,
        ),
        plan=plan,
        partition=Partition(slots, counts, n_workers),
        bias=first_intercepts(counts * class_weight, plan.damping > 0.0)[0],
        sample=LossSample(X.astype(np.float64), codes, weight / weight.sum(), size / blocks.n),
        seed=seed,
    )


@ray.remote
def _sums_by_class(shard: RowShard, n_classes: int, seed: Any) -> Array:
    return sums_by_class(shard.X, shard.y, n_classes, np.random.default_rng(seed))
