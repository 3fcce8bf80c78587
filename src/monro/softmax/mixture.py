"""Several blocks a step, from two proposals at once, beside a head that is always there.

The first `head` blocks, those of the most frequent classes, belong to every step. Of the others, a
are drawn from q¹, the neighbours' labels, and b from q², by frequency. A block counts for every
time it was drawn, with weight ``1/(a q¹ + b q²)``: on average that is 1 for every block, and no
weight exceeds what either proposal alone would give. q¹ is that of one cell of the row, itself
drawn; the average is 1 whichever it was. A row that no cell knows draws all its blocks from q².
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel
from monro.rows import Array
from monro.softmax.layout import LANES
from monro.softmax.neighbours import (
    Neighbours,
    find,
    mean_attention,
    pick_cell,
    place_of,
    share_before,
    share_of,
)
from monro.softmax.sweep import Blocks

_LEAST = 1e-6  # share of a cell's examples outside the head, for it to be asked


class Mixture(NamedTuple):
    """Blocks by neighbours' labels and by frequency, and a head."""

    neighbours: Neighbours
    probability: Array  # (blocks,): q², of sum 1; 0 in the head
    cumulative: Array  # (blocks,)
    head: int
    a: int
    b: int
    dtype: str

    @property
    def per_step(self) -> int:
        return (self.head + self.a + self.b) * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> Blocks:
        shape = (rows.size, self.head + self.a + self.b)
        drawn = Blocks(np.empty(shape, np.int32), np.empty(shape, self.dtype))
        points = rng.random((rows.size, 1 + self.a + self.b))
        draw_mixture(self, rows, points, drawn.chosen, drawn.log_weight)
        return drawn

    def touched(self, y: Array, counts: Array) -> Array:
        blocks = self.probability.size
        by_block, own = np.zeros(blocks), np.zeros(y.size)
        chance_of_cells = np.zeros(self.neighbours.told.size)
        mean_attention(self.neighbours, chance_of_cells)
        miss_blocks(self, chance_of_cells, by_block)
        miss_own_blocks(self, y, own)
        missed = np.repeat(by_block, LANES)
        # Where its block is missed, y itself is changed all the same.
        here = y >= 0
        missed -= np.bincount(y[here], own[here], minlength=missed.size) / y.size
        return np.asarray(1.0 - missed)


def make_mixture(
    neighbours: Neighbours, probability: Array, head: int, a: int, b: int, dtype: str
) -> Mixture:
    """Return the sampler for proposals over all blocks; the head is taken out of them."""
    tail = probability.copy()
    tail[:head] = 0.0
    tail /= tail.sum()
    cumulative = np.cumsum(tail)
    cumulative[np.flatnonzero(tail)[-1] :] = 1.0
    return Mixture(neighbours, np.diff(cumulative, prepend=0.0), cumulative, head, a, b, dtype)


@kernel
def draw_mixture(
    mixture: Mixture, rows: Array, points: Array, chosen: Array, log_weight: Array
) -> None:
    """Draw blocks for rows; the first point of each picks its cell, the others its blocks."""
    table = mixture.neighbours
    head, a, b = mixture.head, mixture.a, mixture.b
    blocks = mixture.cumulative.size
    for k in range(rows.size):
        for d in range(head):
            chosen[k, d] = d
            log_weight[k, d] = 0.0
        cell = pick_cell(table, rows[k], points[k, 0]) if a > 0 else -1
        begin = find(table, cell, head) if cell >= 0 else 0
        in_head = share_before(table, cell, begin) if cell >= 0 else 1.0
        rest = 1.0 - in_head
        known = rest > _LEAST
        by_frequency = float(b) if known else float(a + b)
        for d in range(a + b):
            point = points[k, 1 + d]
            share = 0.0
            if d < a and known:
                last = table.first[cell + 1]
                place = place_of(table.upto, begin, last, in_head + point * rest)
                block = table.block[place]
                share = float(table.upto[place]) - share_before(table, cell, place)
            else:
                block = place_of(mixture.cumulative, 0, blocks, point)
                if known:
                    share = share_of(table, cell, block)
            expected = by_frequency * mixture.probability[block]
            if known:
                expected += a * share / rest
            at = head + d
            chosen[k, at] = block
            log_weight[k, at] = 1.0 / expected
            for earlier in range(head, at):
                if chosen[k, earlier] == block:  # drawn again: it counts there
                    log_weight[k, earlier] += log_weight[k, at]
                    chosen[k, at] = -1
                    log_weight[k, at] = 1.0
        for d in range(head, head + a + b):
            log_weight[k, d] = np.log(log_weight[k, d])


@kernel
def miss_blocks(mixture: Mixture, chance_of_cells: Array, out: Array) -> None:
    """``out_b``: the mean chance, over all rows, that block b is not drawn."""
    table = mixture.neighbours
    head, a, b = mixture.head, mixture.a, mixture.b
    unknown = 1.0
    for cell in range(chance_of_cells.size):
        chance = chance_of_cells[cell]
        begin = find(table, cell, head)
        rest = 1.0 - share_before(table, cell, begin)
        if chance > 0.0 and rest > _LEAST:
            unknown -= chance
            for at in range(begin, table.first[cell + 1]):
                q = (float(table.upto[at]) - share_before(table, cell, at)) / rest
                out[table.block[at]] += chance * ((1.0 - min(1.0, q)) ** a - 1.0)
    for block in range(out.size):
        miss = 1.0 - mixture.probability[block]
        out[block] = miss**b * (out[block] + 1.0 - unknown) + unknown * miss ** (a + b)
    for block in range(head):
        out[block] = 0.0


@kernel
def miss_own_blocks(mixture: Mixture, y: Array, out: Array) -> None:
    """``out_i``: the chance that the block of row i's own class is not drawn for it."""
    table = mixture.neighbours
    head, a, b = mixture.head, mixture.a, mixture.b
    for i in range(y.size):
        block = y[i] // LANES
        if block < head:
            continue
        miss = 1.0 - mixture.probability[block]
        total = 0.0
        missed = 0.0
        for p in range(table.start[i], table.start[i + 1]):
            cell = table.cell[p]
            weight = abs(table.size[p]) * table.told[cell]
            rest = 1.0 - share_before(table, cell, find(table, cell, head))
            total += weight
            if rest > _LEAST:
                q = min(1.0, share_of(table, cell, block) / rest)
                missed += weight * (1.0 - q) ** a * miss**b
            else:
                missed += weight * miss ** (a + b)
        out[i] = missed / total if total > 0.0 else miss ** (a + b)
