"""train_loop: data-parallel linear models for those who run Ray Train themselves."""

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

from monro import checks
from monro.data.arrow import rows_of_batch
from monro.fitting import Record
from monro.linear import _checks
from monro.linear.classifier import LinearClassifier
from monro.persist import load
from monro.ray.averaging import Learner, Model, Start, mean_model
from monro.ray.base import weights_of_classes
from monro.rows import Array
from monro.softmax.parts import Shard

_ROUNDS = 16  # an epoch
_FILE = "model.monro"


class Meeting:
    """Where workers tell each other what they have found."""

    def __init__(self, size: int):
        self.size = size
        self.told: dict[str, dict[int, Any]] = {}
        self.complete: dict[str, asyncio.Event] = {}
        self.heard: dict[str, list[Any]] = {}

    async def tell(self, topic: str, rank: int, what: Any) -> list[Any]:
        """Wait until all have told; return what, by rank."""
        told = self.told.setdefault(topic, {})
        complete = self.complete.setdefault(topic, asyncio.Event())
        told[rank] = what
        if len(told) == self.size:
            # All who tell this have heard what was told before: that may be forgotten.
            self.heard = {topic: [told[k] for k in range(self.size)]}
            del self.told[topic], self.complete[topic]
            complete.set()
        await complete.wait()
        return self.heard[topic]


_Meeting: Any = ray.remote(num_cpus=0)(Meeting)


def train_loop(config: dict[str, Any]) -> None:
    """Fit a LinearClassifier in a worker of Ray Train, together with the other workers.

    Each worker steps on its shard of the data set named "train"; what they found is averaged
    sixteen times an epoch. After each epoch the loss is reported, by the first worker with a
    checkpoint: a folder with ``model.monro``, for `monro.load`. A run that Ray Train starts again
    goes on from the last one.

    Parameters
    ----------
    config : dict
        "label_column", and if you like "feature_columns" and "n_features" (the width of sparse
        rows); all else are parameters of LinearClassifier. "solver" is "aisgd" (the default) or
        "asgd". "classes" names all labels; by default those that occur.

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
    config = {"solver": "aisgd"} | config
    label = config.pop("label_column", None)
    if label is None:
        raise ValueError("train_loop_config: name the column of labels, as label_column")
    columns, width = config.pop("feature_columns", None), config.pop("n_features", None)
    classes = config.pop("classes", None)
    estimator = LinearClassifier(**config)
    _checks.parameters(estimator, estimator._losses)
    checks.choice("solver", estimator.solver, ["aisgd", "asgd"])

    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    name = broadcast_from_rank_zero(uuid.uuid4().hex if rank == 0 else None)
    meeting = _Meeting.options(name=name, get_if_exists=True).remote(size)

    def tell(topic: str, what: Any) -> list[Any]:
        return list(ray.get(meeting.tell.remote(topic, rank, what)))

    X, y = _rows(ray.train.get_dataset_shard("train"), label, columns, width)
    shapes = tell("shape", (X.shape, np.unique(y)))
    sizes = [shape[0] for shape, _ in shapes]
    estimator.n_features_in_ = width = max(shape[1] for shape, _ in shapes)
    labels = np.unique(np.concatenate([seen for _, seen in shapes]))
    estimator.classes_ = labels if classes is None else np.unique(classes)
    codes = checks.codes(y, estimator.classes_, "is not among classes").astype(np.int32)
    counts = sum(tell("counts", np.bincount(codes, minlength=estimator.classes_.size)))
    weight = weights_of_classes(estimator.class_weight, estimator.classes_, counts)[codes]
    if sp.issparse(X):
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    shard = Shard(X, codes, weight, np.zeros(0))
    learner = Learner(estimator, shard, sum(sizes))
    if estimator.learning_rate == "auto":
        estimator.learning_rate = float(np.median(tell("rate", learner.rate())))
        learner = Learner(estimator, shard, sum(sizes))
    for record in _epochs(learner, estimator, rank, sizes, tell):
        if rank > 0:
            ray.train.report(record)
            continue
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(Path(folder) / _FILE)
            ray.train.report(record, checkpoint=ray.train.Checkpoint.from_directory(folder))


def _epochs(
    learner: Learner,
    estimator: LinearClassifier,
    rank: int,
    sizes: list[int],
    tell: Callable[[str, Any], list[Any]],
) -> Iterator[Record]:
    """Take epochs together with the others; after each the estimator is fitted."""
    now, mean, rounds, epochs = None, None, 0, 0
    last = ray.train.get_checkpoint()
    if last is not None:
        with last.as_directory() as folder:
            model = load(Path(folder) / _FILE)
        now = mean = Model(model.coef_, model.intercept_)
        epochs = model.n_iter_
    seed = estimator._seed() if estimator.random_state is not None else 0
    estimator.solver_ = estimator.solver
    for epoch in range(epochs, estimator.max_epochs):
        loss = 0.0
        for piece in range(_ROUNDS):
            start = Start(now, epoch + piece / _ROUNDS, epoch > 0, 1.0)
            mine = learner.round(start, piece, _ROUNDS, [seed, epoch, rank])
            told = tell(f"{epoch}.{piece}", (mine.now, mine.mean, mine.loss))
            now = mean_model([model for model, _, _ in told], sizes)
            found = mean_model([model for _, model, _ in told], sizes)
            mean = mean_model([mean or found, found], [rounds, 1])
            rounds += start.averages
            loss += sum(part for _, _, part in told)
        assert mean is not None
        estimator.coef_, estimator.intercept_ = mean
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
