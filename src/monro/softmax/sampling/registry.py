"""The ways to draw classes, by name.

To add one, write a sampler (the protocol is `samplers.Sampler`) and add a line to `SAMPLING`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro.blocks import LANES, n_blocks
from monro.rows import Array
from monro.softmax.plan import Plan
from monro.softmax.sampling.mixture import Mixture, make_mixture
from monro.softmax.sampling.neighbours import CellTable, make_neighbours, neighbours_of
from monro.softmax.sampling.samplers import (
    AllBlocks,
    FrequencyBlocks,
    FrequencyClasses,
    Sampler,
    StratifiedClasses,
    UniformBlocks,
    UniformClasses,
    UniformOfAll,
    block_frequencies,
)

MAX_EXACT_CLASSES = 4096  # up to this number, a step draws more classes, and all in the last epochs


class Draws(Enum):
    """The kind of draws that a solver takes."""

    OTHERS = "distinct classes other than y, or distinct blocks"
    SINGLE = "distinct classes other than y, never blocks"
    SHARED = "distinct classes or blocks, shared by the examples of a step"
    NOISE = "the same, but independent draws that may be repeated"

    @property
    def are_shared(self) -> bool:
        """Whether the examples of a step share their draws, so that these cannot depend on y."""
        return self in (Draws.SHARED, Draws.NOISE)


class SamplerInputs(NamedTuple):
    """The plan and the rows that a sampler is made from."""

    plan: Plan
    X: Any
    y: Array  # slots of the rows' classes
    counts: Array  # examples of each class, by slot, of these rows and of earlier batches
    rng: np.random.Generator
    draws: Draws = Draws.OTHERS

    @property
    def blocks(self) -> int:
        """The number of blocks of all classes."""
        return n_blocks(self.counts.size)

    @property
    def drawn_blocks(self) -> int:
        """The number of blocks that a step draws."""
        m = self.plan.classes // LANES
        return m if self.draws is Draws.NOISE else min(m, self.blocks)


class ShardSamplerInputs(NamedTuple):
    """The inputs of the sampler of a class shard."""

    counts: Array  # examples of each class of the shard
    blocks: int  # of the shard
    drawn_blocks: int  # a step
    cells: CellTable | None  # of sampling by neighbours' labels
    dtype: str


class ClassOrder(Enum):
    """Which classes share a block."""

    RANDOM = "random"
    FREQUENCY = "classes of about the same frequency"
    SIMILARITY = "of about the same frequency, similar classes together"


class Sampling(NamedTuple):
    """A way to draw classes."""

    make: Callable[[SamplerInputs], Sampler]
    # The default number of classes a step, given that of the solver, whether the solver has local
    # variables, and the number of classes.
    default_classes: Callable[[int, bool, int], int]
    description: str  # continues "16 of 1,000 classes a step, "
    order: ClassOrder = ClassOrder.RANDOM
    in_blocks: bool = False  # draws whole blocks only
    needs_local_variables: bool = False
    uses_neighbours: bool = False  # looks up the labels of similar rows
    make_for_shard: Callable[[ShardSamplerInputs], Sampler] | None = None  # None: not supported


# ------------------------------------------------------------------------------------------- makers


def _uniform(inputs: SamplerInputs) -> Sampler:
    n_classes, m = inputs.counts.size, inputs.plan.classes
    slots, dtype = inputs.blocks * LANES, inputs.plan.dtype
    if inputs.draws is Draws.NOISE:
        probability = np.zeros(slots)
        probability[:n_classes] = 1.0 / n_classes
        return FrequencyClasses(probability, m, dtype, with_repetition=True)
    if inputs.draws is Draws.SHARED:  # all classes other than y, for every y, are all classes
        return UniformOfAll(n_classes, n_classes if m >= n_classes - 1 else m, slots, dtype)
    kind = StratifiedClasses if inputs.draws is Draws.SINGLE else UniformClasses
    return kind(n_classes, min(m, n_classes - 1), slots, dtype)


def _block(inputs: SamplerInputs) -> Sampler:
    blocks, m, dtype = inputs.blocks, inputs.drawn_blocks, inputs.plan.dtype
    if inputs.draws is Draws.NOISE:
        return FrequencyBlocks(np.full(blocks, 1.0 / blocks), m, dtype, with_repetition=True)
    return UniformBlocks(blocks, m, dtype)


def _frequency(inputs: SamplerInputs) -> Sampler:
    plan, counts = inputs.plan, inputs.counts
    repeats = inputs.draws is Draws.NOISE
    if plan.classes % LANES == 0 and inputs.draws is not Draws.SINGLE:
        shares = block_frequencies(counts)
        return FrequencyBlocks(shares, inputs.drawn_blocks, plan.dtype, repeats)
    padded = np.zeros(inputs.blocks * LANES)
    # Add one: a declared class without examples must be drawn sometimes, too.
    padded[: counts.size] = (counts + 1.0) / (counts + 1.0).sum()
    return FrequencyClasses(padded, plan.classes, plan.dtype, repeats)


def _neighbour(inputs: SamplerInputs) -> Mixture:
    neighbours = make_neighbours(inputs.X, inputs.y // LANES, inputs.blocks, inputs.rng)
    sizes = _head_and_halves(inputs.drawn_blocks)
    return make_mixture(neighbours, block_frequencies(inputs.counts), *sizes, inputs.plan.dtype)


def _neighbour_of_shard(shard: ShardSamplerInputs) -> Mixture:
    assert shard.cells is not None
    no_rows = sp.csr_matrix((0, shard.cells.information.size), dtype=shard.dtype)
    neighbours = neighbours_of(no_rows, shard.cells)
    sizes = _head_and_halves(shard.drawn_blocks)
    return make_mixture(neighbours, block_frequencies(shard.counts), *sizes, shard.dtype)


def _head_and_halves(m: int) -> tuple[int, int, int]:
    """Split m blocks: return the size of the head, and the draws from each proposal."""
    head = m // 5
    a = (m - head) // 2
    return head, a, m - head - a


def _default_neighbours(solver_default: int, has_local: bool, n_classes: int) -> int:
    """Return a fifth of up to 4,096 classes, in 5 to 20 blocks; 5 blocks of more classes.

    On Omniglot (1,623 classes) 20 blocks end at a sixth of the loss of 5, in three times the time;
    on WikiText-2 (33,278) 10 blocks are no better than 5.
    """
    blocks = int(np.clip(n_blocks(n_classes) // 5, 5, 20)) if n_classes <= MAX_EXACT_CLASSES else 5
    return blocks * LANES


SAMPLING = {
    "block": Sampling(
        _block,
        lambda solver_default, has_local, n: LANES,
        "whole blocks",
        in_blocks=True,
        make_for_shard=lambda s: UniformBlocks(s.blocks, s.drawn_blocks, s.dtype),
    ),
    "uniform": Sampling(
        _uniform,
        lambda solver_default, has_local, n: 1 if has_local else solver_default,
        "all alike",
    ),
    "frequency": Sampling(
        _frequency,
        lambda solver_default, has_local, n: min(LANES, solver_default),
        "by frequency",
        order=ClassOrder.FREQUENCY,
        make_for_shard=lambda s: FrequencyBlocks(
            block_frequencies(s.counts), s.drawn_blocks, s.dtype
        ),
    ),
    "neighbour": Sampling(
        _neighbour,
        _default_neighbours,
        "by neighbours' labels and by frequency, because they are many",
        order=ClassOrder.SIMILARITY,
        in_blocks=True,
        needs_local_variables=True,
        uses_neighbours=True,
        make_for_shard=_neighbour_of_shard,
    ),
}


def make_sampler(inputs: SamplerInputs) -> Sampler:
    """Return the sampler of a plan for some inputs."""
    if inputs.plan.uses_all_classes:
        single = inputs.draws is Draws.SINGLE
        return _uniform(inputs) if single else AllBlocks(inputs.blocks, inputs.plan.dtype)
    return SAMPLING[inputs.plan.sampling].make(inputs)


def make_shard_sampler(plan: Plan, shard: ShardSamplerInputs) -> Sampler:
    """Return the sampler of a plan for a shard of the classes."""
    if plan.uses_all_classes:
        return AllBlocks(shard.blocks, shard.dtype)
    make = SAMPLING[plan.sampling].make_for_shard
    assert make is not None
    return make(shard)


def class_order(plan: Plan) -> ClassOrder:
    """Return how the classes of a plan are assigned to blocks."""
    return ClassOrder.RANDOM if plan.uses_all_classes else SAMPLING[plan.sampling].order


def uses_neighbours(plan: Plan) -> bool:
    """Return whether classes are drawn by the labels of similar rows."""
    return not plan.uses_all_classes and SAMPLING[plan.sampling].uses_neighbours
