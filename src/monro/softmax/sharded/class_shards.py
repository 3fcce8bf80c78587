"""Class shards: steps on an example that involve the classes of one shard only.

In Raman et al.'s double sum (paper 000, eq. 8) every term belongs to one example i and one class k,
and depends on ``u_i`` and ``w_k`` alone. So a step on example i with the classes of one shard
needs a single number from all other classes, their *remote mass*

    ``o_i = log Σ_{k in other shards} e^{s_ik}``.

The step is that of a softmax with one more class, whose score is o_i and whose weights do not
change. If the example's own class y_i is in another shard, the additional class takes its place.
The update rule is the same (`rules/raman_implicit.py`).

A class shard stores ``ℓ_i``, the same logarithm for its own classes, for every example. A row shard
is sent with ``u_i``, the logarithm of the whole normaliser, so that

    ``e^{o_i} = e^{u_i} - e^{ℓ_i}``.

A *visit* is the processing of a row shard by a class shard. It changes u, the weights of the class
shard and its ℓ, and preserves this equation. Visits of different row shards to different class
shards have no variable in common: they may run at the same time, with the same result as in
sequence.
"""

from typing import Any, NamedTuple

import numpy as np

from monro.blocks import LANES, MASKED_SCORE, n_blocks
from monro.fitting.order import visiting_order
from monro.fitting.row_shard import RowShard
from monro.penalties import RidgePerClass
from monro.rows import Array
from monro.saving.container import Contents, read_container, write_container
from monro.softmax.kernel.layout import view_of
from monro.softmax.kernel.state import multiply_out, new_state, ridge_of
from monro.softmax.kernel.sweep import (
    SMALLEST_Q,
    DrawnBlocks,
    KernelRows,
    Settings,
    Unbounded,
    gather,
    look_ahead,
    new_scratch,
    scatter,
    sweep,
)
from monro.softmax.model import Weights, chunked, log_normaliser, scores
from monro.softmax.plan import Plan
from monro.softmax.sampling.mixture import Mixture
from monro.softmax.sampling.neighbours import (
    cells_of,
    count_blocks,
    make_table,
    neighbours_of,
    sample_rows,
)
from monro.softmax.sampling.registry import ShardSamplerInputs, make_shard_sampler
from monro.softmax.solvers import make_rule
from monro.softmax.training.score_scaling import scale_intercepts

_CHUNK = 1 << 16  # examples to draw classes for at a time
_FEWEST_BLOCKS = 2  # drawn from a shard per step: one from each proposal
_SMALLEST_SHARE = 1e-7  # of local and of remote classes in a normaliser


class WithRemoteMass(NamedTuple):
    """Blocks drawn from a class shard, and one additional class for all classes of other shards."""

    drawn: DrawnBlocks
    remote_mass: Array  # (examples,): o

    def gather(self, rule, view, i, y, j, x2, state, settings, z, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        s = gather(self.drawn, rule, view, i, y, j, x2, state, settings, z, scratch)
        first = z.size - LANES
        for lane in range(first, z.size):
            z[lane] = MASKED_SCORE
            scratch.q[lane] = one
            scratch.log_weight[lane] = 0.0
        if y < 0:
            return self.remote_mass[i]
        z[first] = self.remote_mass[i]
        scratch.q[first] = z.dtype.type(SMALLEST_Q)
        return s

    def scatter(self, view, i, y, j, x2, state, settings, g, G, steps):  # type: ignore[no-untyped-def]
        scatter(self.drawn, view, i, y, j, x2, state, settings, g, G, steps)

    def look_ahead(self, view, i, j):  # type: ignore[no-untyped-def]
        look_ahead(self.drawn, view, i, j)


class Partition(NamedTuple):
    """Which classes are in which shard: block b of 16 classes is in shard b modulo P."""

    slots: Array  # (classes,): of each class, in the model as a whole
    counts: Array  # (classes,): examples of each class
    n_shards: int  # P

    def blocks(self, shard: int) -> Array:
        """Return the blocks of a shard."""
        return np.arange(shard, n_blocks(self.slots.size), self.n_shards)

    def classes(self, shard: int) -> Array:
        """Return the classes of a shard, in the order of their slots."""
        slots = slots_of(self.blocks(shard))
        return np.argsort(self.slots)[slots[slots < self.slots.size]]


def slots_of(blocks: Array) -> Array:
    """Return the slots of blocks."""
    return np.asarray((LANES * blocks[:, None] + np.arange(LANES)).ravel())


class ClassShard:
    """The weights of some of the classes, and ℓ of the examples of every row shard.

    A row shard is identified by its key: 0, 1, ….

    Parameters
    ----------
    plan : Plan
        A plan with the "raman" formulation.
    partition : Partition
    number : int
        Which shard of the partition this is.
    n_features : int
    sparse : bool
        Whether the rows are sparse.
    """

    def __init__(
        self, plan: Plan, partition: Partition, number: int, n_features: int, *, sparse: bool
    ):
        self.plan = plan
        self.n_shards = partition.n_shards
        self.classes = partition.classes(number)
        self.slots = np.full(partition.slots.size, -1, np.int32)  # of all classes; -1: remote
        self.slots[self.classes] = np.arange(self.classes.size)
        self.counts = partition.counts[self.classes]
        self.n_examples = float(partition.counts.sum())
        blocks = n_blocks(self.classes.size)
        self.state = new_state(sparse, self.classes.size, blocks, n_features, 0, plan.dtype)
        self.ell: dict[int, Array] = {}  # by row shard
        self._initial_ell = 0.0  # of examples not visited yet
        self._cells: dict[int, Any] = {}  # by row shard, where cells are clusters
        self._block_counts: Any = None  # (cells, blocks): examples
        self._updates = np.zeros(self.state.bias.size)  # of each class, expected in an epoch
        self._penalty = RidgePerClass(np.zeros(self.state.bias.size, plan.dtype))

    # ---------------------------------------------------------------------------- before training

    def count_neighbours(
        self, key: int, rows: RowShard, nonzeros: int, seed: Any, clusters: Any = None
    ) -> None:
        """Count the examples of each cell by the block of their class.

        `nonzeros` are those of all row shards together. Cells are features, unless there are
        clusters.
        """
        if clusters is not None:
            self._cells[key] = cells_of(clusters, rows.X)
        cells = self._cells.get(key, rows.X)
        y = self.slots[rows.y]
        sample = sample_rows(nonzeros, y.size, np.random.default_rng(seed))
        sample = np.flatnonzero(y >= 0) if sample is None else sample[y[sample] >= 0]
        counts = count_blocks(cells[sample], y[sample] // LANES, self.state.bias.size // LANES)
        self._block_counts = counts if self._block_counts is None else self._block_counts + counts

    def set_plan(self, plan: Plan) -> None:
        """Set the plan; with a ridge, call `count_updates` next."""
        self.plan = plan
        blocks, dtype = self.state.bias.size // LANES, plan.dtype
        m = min(blocks, max(_FEWEST_BLOCKS, -(-plan.classes // (LANES * self.n_shards))))
        cells = None if self._block_counts is None else make_table(self._block_counts)
        shard = ShardSamplerInputs(self.counts, blocks, m, cells, dtype)
        self._sampler: Any = make_shard_sampler(plan, shard)
        self._scratch = new_scratch(1, self._sampler.per_step + LANES, dtype)
        self._updates[:] = 0.0
        self._penalty.strength[:] = 0.0

    def count_updates(self, key: int, rows: RowShard) -> None:
        """Add the expected number of updates of each class by steps on the row shard.

        The ridge of a class is divided by it.
        """
        y = self.slots[rows.y]
        sampler = self._sampler_for(key, rows)
        if isinstance(sampler, Mixture):
            self._updates += y.size * sampler.expected_updates(y, self.counts)
        else:
            inclusion = sampler.expected_draws()
            own = np.bincount(y[y >= 0], minlength=inclusion.size)
            self._updates += y.size * inclusion + own * (1.0 - inclusion)
        strength = self.plan.alpha * self.n_examples / np.maximum(self._updates, 1e-30)
        self._penalty.strength[:] = strength

    def _sampler_for(self, key: int, rows: RowShard) -> Any:
        sampler = self._sampler
        if not isinstance(sampler, Mixture):
            return sampler
        cells = self._cells.get(key, rows.X)
        return sampler._replace(neighbours=neighbours_of(cells, sampler.neighbours.table))

    def reset(self, bias: Array) -> None:
        """Set all weights to 0, and the intercepts to `bias`, one for each class of the model."""
        own = bias[self.classes]
        self.state.W[:] = 0.0
        self.state.scale[:] = 1.0
        self.state.bias[: own.size] = own
        self.ell.clear()
        self._initial_ell = float(np.logaddexp.reduce(own))

    # ----------------------------------------------------------------------------------- training

    def local_mass(self, key: int, n: int) -> Array:
        """Return ℓ of a row shard of n examples."""
        if key not in self.ell:
            self.ell[key] = np.full(n, self._initial_ell)
        return self.ell[key]

    def visit(
        self,
        key: int,
        rows: RowShard,
        u: Array,
        rate: float,
        seed: Any,
        order: Array | None = None,
    ) -> tuple[Array, float]:
        """Step on all examples of a row shard, or on those of `order`.

        Returns u after the steps, and the sum of the losses before them, of those examples whose
        class is in this class shard.
        """
        plan, number = self.plan, np.dtype(self.plan.dtype).type
        rng = np.random.default_rng(seed)
        order = visiting_order(u.size, rng) if order is None else order
        ell = self.local_mass(key, u.size)
        remote = u + np.log(np.maximum(-np.expm1(ell - u), _SMALLEST_SHARE))
        state = self.state._replace(u=u.astype(plan.dtype))
        # Copies: arrays from other processes may be read-only, which is another type to Numba.
        examples = KernelRows(
            view_of(rows.X, state.W), self.slots[rows.y], rows.weight.copy(), rows.sqnorm.copy()
        )
        settings = Settings(number(rate), number(plan.damping), self._penalty, Unbounded())
        rule = make_rule(plan, self._sampler, 0, 0.0, self.counts.size)
        sampler, remote_mass = self._sampler_for(key, rows), remote.astype(plan.dtype)
        total = 0.0
        for a in range(0, order.size, _CHUNK):
            part = order[a : a + _CHUNK]
            drawn = WithRemoteMass(sampler.draw(part, examples.y[part], rng), remote_mass)
            shared = part.size if plan.uses_all_classes else 1
            total += sweep(rule, examples, part, drawn, shared, settings, state, self._scratch)
        # In the precision of the steps u may be no larger than the remote mass.
        u = u.copy()
        u[order] = np.maximum(state.u[order].astype(np.float64), remote[order] + _SMALLEST_SHARE)
        ell[order] = u[order] + np.log(-np.expm1(remote[order] - u[order]))
        return u, float(total)

    def scale_scores(self, c: float) -> None:
        """Multiply weights and intercepts by c."""
        scale_intercepts(self.state.bias, c)
        self.state.scale[:] *= c
        multiply_out(self.state)
        for ell in self.ell.values():
            ell *= c  # exact where one class has nearly all of the mass

    def add_local_mass(self, key: int, rows: RowShard, u: Array | None) -> Array:
        """Return ``log(e^u + e^ℓ)``; u is that of the preceding class shards, if there are any.

        Where steps use all classes, ℓ is recomputed from the scores.
        """
        if self.plan.uses_all_classes:
            self.ell[key] = self.exact_masses(rows.X, rows.y)[0]
        ell = self.local_mass(key, rows.y.size)
        return ell.copy() if u is None else np.logaddexp(u, ell)

    # ------------------------------------------------------------------------------- measurements

    def weights(self) -> Weights:
        """Return the model of the classes in this shard."""
        state = self.state
        return Weights(state.W, state.bias, state.scale, np.arange(self.classes.size))

    def scores(self, X: Any) -> Array:
        """Return the scores of the classes in this shard, (rows, classes)."""
        return scores(self.weights(), X)

    def exact_masses(self, X: Any, y: Array) -> tuple[Array, Array]:
        """Return the exact ℓ of rows, and the scores of their own classes, -inf if remote."""
        slots = self.slots[y]

        def reduce(S: Array, part: slice) -> Array:
            own = S[np.arange(S.shape[0]), np.maximum(slots[part], 0)]
            return np.stack([log_normaliser(S), np.where(slots[part] < 0, -np.inf, own)])

        ell, own = np.concatenate(list(chunked(self.weights(), X, reduce)), axis=1)
        return ell, own

    def ridge(self) -> float:
        """Return ``alpha/2 ‖W‖²`` of the classes in this shard."""
        return ridge_of(self.state, self.plan.alpha)

    # -------------------------------------------------------------------------------------- files

    def save(self, path: str) -> None:
        """Write everything that training changes."""
        state = self.state
        arrays = {"W": state.W, "bias": state.bias, "scale": state.scale}
        arrays |= {f"ell.{key}": ell for key, ell in self.ell.items()}
        write_container(path, "checkpoint", Contents(arrays, {"first": self._initial_ell}))

    def load(self, path: str) -> None:
        """Load what `save` wrote."""
        arrays, about = read_container(path, "checkpoint")
        for name in ("W", "bias", "scale"):
            getattr(self.state, name)[:] = arrays[name]
        names = [name for name in arrays if name.startswith("ell.")]
        self.ell = {int(name[4:]): np.array(arrays[name]) for name in names}
        self._initial_ell = about["first"]

    def save_normalisers(self, path: str, u: Array) -> None:
        """Write u of a row shard, on the machine that holds it."""
        write_container(path, "checkpoint", Contents({"u": u}, {}))

    def load_normalisers(self, path: str) -> Array:
        """Return u as `save_normalisers` wrote it."""
        return np.array(read_container(path, "checkpoint").arrays["u"])
