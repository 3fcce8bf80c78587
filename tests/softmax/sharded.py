"""Sharded trainers whose workers are in this process, and what they have learnt."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from monro import SoftmaxClassifier
from monro.fitting.row_shard import RowShard
from monro.fitting.run import LabelledRows
from monro.fitting.worker_pool import LocalWorkerPool
from monro.softmax.kernel.layout import class_major
from monro.softmax.metrics import losses
from monro.softmax.sampling.class_order import assign_slots, sums_by_class
from monro.softmax.sampling.neighbours import find_clusters
from monro.softmax.sampling.registry import class_order, uses_neighbours
from monro.softmax.sharded.class_shards import Partition
from monro.softmax.sharded.sharded_trainer import ShardedRows, ShardedTrainer, join_class_shards
from monro.softmax.training.initial import first_intercepts
from monro.softmax.training.monitoring import sample_for_loss
from monro.softmax.training.planning import make_plan
from monro.softmax.training.problem import in_precision

CLASSES = 70  # five blocks, the last of them not full
RATE = 0.3
SAMPLED = ("block", "frequency", "neighbour")


def noisy_rows(n=400, d=12, n_classes=CLASSES, seed=0, density=0.5, spread=1.2):
    """Rows of frequent and rare classes that no hyperplane separates; every class occurs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    W = spread * rng.standard_normal((n_classes, d))
    b = -0.03 * np.arange(n_classes)
    y = np.argmax(X @ W.T + b + rng.gumbel(size=(n, n_classes)), axis=1)
    y[:n_classes] = rng.permutation(n_classes)
    return X.astype(np.float32), y


def settings_of(sampling="all", **parameters):
    """Return the parameters of a SoftmaxClassifier that trains as the class shards will."""
    usual = {"formulation": "raman", "alpha": 0.0, "learning_rate": RATE, "max_epochs": 15}
    return usual | {"sampling": "auto" if sampling == "all" else sampling} | parameters


def make_trainer(
    X, y, n_class_shards, n_row_shards=None, *, n_classes=CLASSES, seed=0, weight=None,
    pool=LocalWorkerPool, changes=None, **parameters,
):  # fmt: skip
    """Return a trainer that is set up; `changes` are made to the plan, the rest is for settings_of.

    The partition of the classes and the rows of a shard do not depend on the seed.
    """
    rng = np.random.default_rng(1)
    estimator = SoftmaxClassifier(**settings_of(**parameters))
    sparse = sp.issparse(X)
    codes, weight = y.astype(np.int32), np.ones(y.size) if weight is None else weight
    rows, sqnorm = in_precision(X, codes, estimator.dtype)
    mean_sqnorm = float(sqnorm.mean())
    plan = make_plan(estimator, n_classes, mean_sqnorm)._replace(**(changes or {}))
    counts = np.bincount(y, minlength=n_classes)
    sums = partial(sums_by_class, X, y, n_classes, rng)
    slots = assign_slots(class_order(plan), counts, rng, sums)
    clustered = uses_neighbours(plan) and not sparse
    clusters = find_clusters(X, rng) if clustered else None
    parts = np.array_split(rng.permutation(y.size), n_row_shards or 2 * n_class_shards)
    columns = rows, codes, weight.astype(estimator.dtype), sqnorm
    trainer = ShardedTrainer(
        pool(n_class_shards),
        ShardedRows(
            [RowShard(*(column[part] for column in columns)) for part in parts],
            [part.size for part in parts],
            X.shape[1],
            sparse,
            X.nnz if sparse else X.size,
            mean_sqnorm,
            clusters,
        ),
        plan,
        Partition(slots, counts, n_class_shards),
        first_intercepts(counts, plan.damping > 0.0)[0],
        sample_for_loss(LabelledRows(X, y, weight), n_classes),
        seed,
    )
    trainer.set_up()
    trainer.reset()
    return trainer


def run(trainer, epochs=None):
    """Take epochs, by default all that are left; return the records."""
    left = trainer.plan.epochs - trainer.epochs
    return [trainer.epoch() for _ in range(left if epochs is None else epochs)]


def join(trainer):
    """Return the model of all class shards."""
    return join_class_shards(*trainer.solution()["_fitted"])


def log_loss(trainer, X, y):
    return losses(join(trainer), X, y).mean()


def model_of(shard):
    """Return the weights and intercepts of a class shard."""
    K = shard.classes.size
    W = class_major(shard.state.W).astype(np.float64) * shard.state.scale[:, None]
    return W[:K], shard.state.bias[:K].astype(np.float64)


def everything(trainer):
    """Return copies of all that training changes."""
    arrays = {}
    for k, shard in enumerate(trainer.workers.objects):
        state = shard.state
        arrays |= {f"{k}.{name}": getattr(state, name).copy() for name in ("W", "bias", "scale")}
        arrays |= {f"{k}.ell.{key}": ell.copy() for key, ell in shard.ell.items()}
    return arrays | {f"u.{key}": u.copy() for key, u in enumerate(trainer.u)}


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def total_mass(class_shards, key, n):
    """Return the log of the sum of the class shards' masses."""
    return logsumexp([shard.local_mass(key, n) for shard in class_shards], axis=0)
