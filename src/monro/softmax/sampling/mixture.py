"""Multiple importance sampling: blocks from two proposal distributions, and a head in every step.

The first `head` blocks, those of the most frequent classes, are part of every step. Of the others,
a are drawn from q¹, the neighbours' labels, and b from q², by frequency. Each draw of a block adds
the weight ``1/(a q¹ + b q²)``: the expected total is 1 for every block, and no weight exceeds that
of either proposal alone. q¹ is the distribution of one cell of the row, itself drawn; the
expectation is 1 given any cell. A row without a usable cell draws all its blocks from q².
"""

from typing import NamedTuple

import numpy as np

from monro._jit import kernel
from monro.blocks import LANES
from monro.rows import Array
from monro.softmax.kernel.sweep import DrawnBlocks
from monro.softmax.sampling.neighbours import (
    Neighbours,
    draw_cell,
    find_block,
    mean_cell_probabilities,
    search_cumulative,
    share_before,
    share_of,
)

_LEAST_TAIL_SHARE = 1e-6  # of a usable cell's examples that are outside the head


class Mixture(NamedTuple):
    """Draws blocks by neighbours' labels and by frequency, in addition to the head."""

    neighbours: Neighbours
    probability: Array  # (blocks,): q², with sum 1; 0 in the head
    cumulative: Array  # (blocks,)
    head: int  # blocks in every step
    a: int  # draws from q¹
    b: int  # draws from q²
    dtype: str

    @property
    def per_step(self) -> int:
        return (self.head + self.a + self.b) * LANES

    def draw(self, rows: Array, y: Array, rng: np.random.Generator) -> DrawnBlocks:
        shape = (rows.size, self.head + self.a + self.b)
        drawn = DrawnBlocks(np.empty(shape, np.int32), np.empty(shape, self.dtype))
        points = rng.random((rows.size, 1 + self.a + self.b))
        draw_mixture(self, rows, points, drawn.chosen, drawn.log_weight)
        return drawn

    def expected_updates(self, y: Array, counts: Array) -> Array:
        blocks = self.probability.size
        by_block, of_label = np.zeros(blocks), np.zeros(y.size)
        of_cells = np.zeros(self.neighbours.information.size)
        mean_cell_probabilities(self.neighbours, of_cells)
        block_miss_probabilities(self, of_cells, by_block)
        label_block_miss_probabilities(self, y, of_label)
        missed = np.repeat(by_block, LANES)
        # A step changes y even where its block is not drawn.
        here = y >= 0
        missed -= np.bincount(y[here], of_label[here], minlength=missed.size) / y.size
        return np.asarray(1.0 - missed)


def make_mixture(
    neighbours: Neighbours, probability: Array, head: int, a: int, b: int, dtype: str
) -> Mixture:
    """Return the sampler; `probability` is q² over all blocks, the head included."""
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
    """Draw blocks for rows; a row's first uniform point selects its cell, the others its blocks."""
    table = mixture.neighbours
    head, a, b = mixture.head, mixture.a, mixture.b
    blocks = mixture.cumulative.size
    for k in range(rows.size):
        for d in range(head):
            chosen[k, d] = d
            log_weight[k, d] = 0.0
        cell = draw_cell(table, rows[k], points[k, 0]) if a > 0 else -1
        tail_start = find_block(table, cell, head) if cell >= 0 else 0
        head_share = share_before(table, cell, tail_start) if cell >= 0 else 1.0
        tail_share = 1.0 - head_share
        usable = tail_share > _LEAST_TAIL_SHARE
        by_frequency = float(b) if usable else float(a + b)
        for d in range(a + b):
            point = points[k, 1 + d]
            share = 0.0
            if d < a and usable:
                cumulative, end = table.cumulative_share, table.cell_start[cell + 1]
                at = search_cumulative(cumulative, tail_start, end, head_share + point * tail_share)
                block = table.block[at]
                share = float(cumulative[at]) - share_before(table, cell, at)
            else:
                block = search_cumulative(mixture.cumulative, 0, blocks, point)
                if usable:
                    share = share_of(table, cell, block)
            expected = by_frequency * mixture.probability[block]
            if usable:
                expected += a * share / tail_share
            column = head + d
            chosen[k, column] = block
            log_weight[k, column] = 1.0 / expected
            for earlier in range(head, column):
                if chosen[k, earlier] == block:  # a repeated draw adds to the first one
                    log_weight[k, earlier] += log_weight[k, column]
                    chosen[k, column] = -1
                    log_weight[k, column] = 1.0
        for d in range(head, head + a + b):
            log_weight[k, d] = np.log(log_weight[k, d])


@kernel
def block_miss_probabilities(mixture: Mixture, of_cells: Array, out: Array) -> None:
    """``out_b``: the mean probability, over all rows, that block b is not drawn.

    `of_cells` are the mean probabilities of the cells.
    """
    table = mixture.neighbours
    head, a, b = mixture.head, mixture.a, mixture.b
    without_cell = 1.0  # share of rows without a usable cell
    for cell in range(of_cells.size):
        p_cell = of_cells[cell]
        tail_start = find_block(table, cell, head)
        tail_share = 1.0 - share_before(table, cell, tail_start)
        if p_cell > 0.0 and tail_share > _LEAST_TAIL_SHARE:
            without_cell -= p_cell
            for at in range(tail_start, table.cell_start[cell + 1]):
                share = float(table.cumulative_share[at]) - share_before(table, cell, at)
                q = share / tail_share
                out[table.block[at]] += p_cell * ((1.0 - min(1.0, q)) ** a - 1.0)
    for block in range(out.size):
        miss = 1.0 - mixture.probability[block]
        out[block] = miss**b * (out[block] + 1.0 - without_cell) + without_cell * miss ** (a + b)
    for block in range(head):
        out[block] = 0.0


@kernel
def label_block_miss_probabilities(mixture: Mixture, y: Array, out: Array) -> None:
    """``out_i``: the probability that the block of y_i is not drawn for row i."""
    table = mixture.neighbours
    head, a, b = mixture.head, mixture.a, mixture.b
    for i in range(y.size):
        block = y[i] // LANES
        if block < head:
            continue
        miss = 1.0 - mixture.probability[block]
        total = 0.0
        missed = 0.0
        for p in range(table.row_start[i], table.row_start[i + 1]):
            cell = table.cell[p]
            weight = abs(table.value[p]) * table.information[cell]
            tail_share = 1.0 - share_before(table, cell, find_block(table, cell, head))
            total += weight
            if tail_share > _LEAST_TAIL_SHARE:
                q = min(1.0, share_of(table, cell, block) / tail_share)
                missed += weight * (1.0 - q) ** a * miss**b
            else:
                missed += weight * miss ** (a + b)
        out[i] = missed / total if total > 0.0 else miss ** (a + b)
