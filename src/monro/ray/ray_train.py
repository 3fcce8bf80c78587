"""train_loop: data-parallel linear models, for users of Ray Train."""

import asyncio
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.train
import scipy.sparse as sp
from ray.train.collective import broadcast_from_rank_zero

from monro.checks.labels import class_codes
from monro.checks.parameters import check_choice
from monro.data.arrow import rows_of_batch
from monro.fitting.row_shard import RowShard
from monro.fitting.trainer import Record
from monro.linear.classifier import LinearClassifier
from monro.linear.parameters import check_linear_parameters
from monro.ray.estimator import weights_of_classes
from monro.ray.linear_worker import Iterates, LinearModel, LinearWorker, RoundResult, RoundStart
from monro.rows import Array
from monro.saving.estimator import load

_ROUNDS = 16  # an epoch
_FILE = "model.monro"


class AllGather:
    """Gathers a value from each worker, and returns all values to all workers.

    Parameters
    ----------
    size : int
        The number of workers.
    """

    def __init__(self, size: int):
        self.size = size
        self.received: dict[str, dict[int, Any]] = {}  # by topic and rank
        self.complete: dict[str, asyncio.Event] = {}
        self.gathered: dict[str, list[Any]] = {}

    async def gather(self, topic: str, rank: int, value: Any) -> list[Any]:
        """Wait for the values of all workers; return them by rank."""
        received = self.received.setdefault(topic, {})
        complete = self.complete.setdefault(topic, asyncio.Event())
        received[rank] = value
        if len(received) == self.size:
            # All workers have received the values of the previous topic, which can be dropped.
            self.gathered = {topic: [received[k] for k in range(self.size)]}
            del self.received[topic], self.complete[topic]
            complete.set()
        await complete.wait()
        return self.gathered[topic]


_AllGatherActor: Any = ray.remote(num_cpus=0)(AllGather)


def train_loop(config: dict[str, Any]) -> None:
    """Fit a LinearClassifier in a worker of Ray Train, together with the other workers.

    Each worker steps on its shard of the data set named "train"; the weights of all workers are
    averaged sixteen times per epoch. After each epoch every worker reports the loss; the first
    worker also reports a checkpoint, a folder with ``model.monro`` for `monro.load`. A run that Ray
    Train restarts resumes from the last checkpoint.

    Parameters
    ----------
    config : dict
        "label_column" and, optionally, "feature_columns", "n_features" (the width of sparse rows)
        and "classes" (all labels, by default those that occur); the other entries are parameters of
        LinearClassifier. "solver" is "aisgd" (the default) or "asgd", "alpha" a number (1e-5).

    Examples
    --------
    >>> import tempfile
    >>> import ray
    >>> from ray.train import RunConfig, ScalingConfig
    >>> from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    >>> from monro.ray import train_loop
    >>> rows = [{"x": k % 2, "z": 1 - k % 2, "label": k % 2} for k in range(300)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trainer = DataParallelTrainer(
    ...         train_loop,
    ...         train_loop_config={"label_column": "label", "loss": "log", "max_epochs": 2},
    ...         scaling_config=ScalingConfig(num_workers=2),
    ...         datasets={"train": ray.data.from_items(rows)},  # or ray.data.read_parquet("train/")
    ...         run_config=RunConfig(storage_path=folder),
    ...     )
    ...     "loss" in trainer.fit().metrics
    True
    """
    defaults: dict[str, Any] = {"solver": "aisgd", "alpha": 1e-5}
    config = defaults | config
    label = config.pop("label_column", None)
    if label is None:
        raise ValueError("train_loop_config: name the column of labels, as label_column")
    columns, width = config.pop("feature_columns", None), config.pop("n_features", None)
    classes = config.pop("classes", None)
    estimator = LinearClassifier(**config)
    check_linear_parameters(estimator, estimator._losses)
    check_choice("solver", estimator.solver, ["aisgd", "asgd"])
    for name, value in (("center", False), ("max_steps", None), ("shuffle", True)):
        if getattr(estimator, name) != value:
            raise ValueError(f"train_loop_config: train_loop does not use {name}; leave it out")

    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    name = broadcast_from_rank_zero(uuid.uuid4().hex if rank == 0 else None)
    actor = _AllGatherActor.options(name=name, get_if_exists=True).remote(size)

    def all_gather(topic: str, value: Any) -> list[Any]:
        return list(ray.get(actor.gather.remote(topic, rank, value)))

    X, y = _rows(ray.train.get_dataset_shard("train"), label, columns, width)
    shapes = all_gather("shape", (X.shape, np.unique(y)))
    sizes = [shape[0] for shape, _ in shapes]
    estimator.n_features_in_ = width = max(shape[1] for shape, _ in shapes)
    labels = np.unique(np.concatenate([found for _, found in shapes]))
    estimator.classes_ = labels if classes is None else np.unique(classes)
    codes = class_codes(y, estimator.classes_, "is not among classes").astype(np.int32)
    counts = sum(all_gather("counts", np.bincount(codes, minlength=estimator.classes_.size)))
    weight = weights_of_classes(estimator.class_weight, estimator.classes_, counts)[codes]
    if sp.issparse(X):
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    shard = RowShard(X, codes, weight, np.zeros(0))
    worker = LinearWorker(estimator, shard, sum(sizes))
    if estimator.learning_rate == "auto":
        estimator.learning_rate = float(np.median(all_gather("rate", worker.rate())))
        worker = LinearWorker(estimator, shard, sum(sizes))
    for record in _epochs(worker, estimator, rank, sizes, all_gather):
        if rank > 0:
            ray.train.report(record)
            continue
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(Path(folder) / _FILE)
            ray.train.report(record, checkpoint=ray.train.Checkpoint.from_directory(folder))


def _epochs(
    worker: LinearWorker,
    estimator: LinearClassifier,
    rank: int,
    sizes: list[int],
    all_gather: Callable[[str, Any], list[Any]],
) -> Iterator[Record]:
    """Take epochs together with the other workers; after each, update the fitted estimator."""
    iterates, epochs = Iterates(), 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = load(Path(folder) / _FILE)
        model = LinearModel(saved.coef_, saved.intercept_)
        iterates, epochs = Iterates(model, model), saved.n_iter_
    seed = estimator._seed() if estimator.random_state is not None else 0
    estimator.solver_ = estimator.solver
    for epoch in range(epochs, estimator.max_epochs):
        loss = 0.0
        for piece in range(_ROUNDS):
            start = RoundStart(iterates.now, epoch + piece / _ROUNDS, epoch > 0, 1.0)
            result = worker.round(start, piece, _ROUNDS, [seed, epoch, rank])
            results: list[RoundResult] = all_gather(f"{epoch}.{piece}", result)
            iterates = iterates.average(results, sizes, counts=start.averages)
            loss += sum(each.loss for each in results)
        assert iterates.mean is not None
        estimator.coef_, estimator.intercept_ = iterates.mean
        estimator.n_iter_ = epoch + 1
        record = {"epoch": epoch + 1, "loss": loss / sum(sizes) / len(estimator.coef_)}
        estimator.history_ = [*getattr(estimator, "history_", []), record]
        yield record


def _rows(shard: Any, label: str, columns: Any, width: int | None) -> tuple[Any, Array]:
    """Return all rows of a worker's shard."""
    parts = [
        rows_of_batch(batch, label, columns, width)
        for batch in shard.iter_batches(batch_format="pyarrow", batch_size=None)
    ]
    X = [X for X, _ in parts]
    if not X:
        raise ValueError("a worker got no rows: give fewer workers")
    y = np.concatenate([y for _, y in parts if y is not None])
    if not sp.issparse(X[0]):
        return np.concatenate(X), y
    wide = max(part.shape[1] for part in X)
    X = [sp.csr_matrix((p.data, p.indices, p.indptr), shape=(p.shape[0], wide)) for p in X]
    return sp.csr_matrix(sp.vstack(X)), y
