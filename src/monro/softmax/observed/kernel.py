"""A pass over rows: scores and slopes of all classes, and proximal AdaGrad steps on their weights.

For row i the classes inside are those that a feature of the row has a weight for. With the slope
g of the row's loss in a class's score, the weight of each pair of a feature j of the row and such a
class takes the step

    ``G ← G + (g x_j)²``, ``h = η/√G``, ``w ← soft(w - h g x_j, h λ₁/n_j) / (1 + h λ₂/n_j)``,

where λ₁ and λ₂ are the strengths of the L1 norm and of the ridge on the sum over all rows, and n_j
rows have feature j. A pair takes its share of the penalty whenever a row has its feature, so that
n_j shares an epoch make the whole penalty, though a step touches no other weight.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import leaf, prefetch_element, vector_kernel, vector_leaf
from monro.rows import Array, Sparse
from monro.saving.states import PerClass
from monro.softmax.observed.losses import Outside, amount, of_label, slopes
from monro.softmax.observed.pairs import LabelSets, Pairs


class ObservedState(NamedTuple):
    """Weights of the observed pairs, intercepts, and the sums of squared slopes of both."""

    w: Array  # (pairs,)
    gain: Array  # (pairs,)
    bias: PerClass
    bias_gain: PerClass


class Targets(NamedTuple):
    """The labels of the rows."""

    y: Array  # (rows,): the label set of each
    sets: LabelSets
    share: bool  # whether the labels of a row have sum 1, instead of 1 each
    weight: Array  # (rows,): of mean 1


class Strengths(NamedTuple):
    """Of the penalty on the sum over all rows, and the learning rate."""

    l1: Any
    ridge: Any
    rate: Any


class Inside(NamedTuple):
    """Scratch memory of a thread: the classes that features of a row have weights for.

    What is known of a class lies side by side, so that it takes one read from memory.
    """

    of_class: Array  # (classes, 4): SCORE (NOT_INSIDE for other classes), BIAS, UNIT, BIAS_SLOPE
    codes: Array  # (classes + 1,): the row's classes
    z: Array  # (classes,): scores, then slopes, in the order of `codes`
    unit: Array  # (classes,): o, in that order
    own: Array  # (most labels of a row,): the scores of its labels
    gathered: Array  # (GATHERED,): slopes of some classes of a list

    @property
    def bias_slope(self) -> Array:
        """The sum of the rows' slopes of each class, less those as if outside."""
        return self.of_class[:, BIAS_SLOPE]


SCORE, BIAS, UNIT, BIAS_SLOPE = range(4)  # SCORE: of the row; then its slope
NOT_INSIDE = np.inf
IN_CACHE = 1 << 17  # numbers; of more, the next ones are prefetched
GATHERED = 512
# Of the total of all classes, that differences may leave; a smaller rest is added up anew.
LEAST_REST = 1e-6


def new_inside(n_classes: int, most_labels: int, dtype: str) -> Inside:
    """Return scratch memory for a thread."""
    of_class = np.zeros((n_classes, 4), dtype)
    of_class[:, SCORE] = NOT_INSIDE
    codes = np.zeros(n_classes + 1, np.int32)
    z, unit, own = (np.zeros(size, dtype) for size in (n_classes, n_classes, most_labels))
    return Inside(of_class, codes, z, unit, own, np.zeros(GATHERED, dtype))


@leaf
def prefetch_list(feature: int, pairs: Pairs, of_class: Array) -> None:
    """Prefetch what is known of the first classes of a feature's list."""
    start = pairs.indptr[feature]
    for q in range(start, min(start + GATHERED, pairs.indptr[feature + np.uint64(1)])):
        prefetch_element(of_class, 4 * int(pairs.classes[q]))


@leaf
def take_inside(rows: Sparse, i: int, pairs: Pairs, w: Array, inside: Inside) -> int:
    """Compute the scores of the classes inside; return their number.

    Without branches: whether a class is inside already cannot be predicted. Scores that overflow
    look like classes that are not inside: there are never more codes than classes.
    """
    n, of_class = 0, inside.of_class
    not_inside = of_class.dtype.type(NOT_INSIDE)
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        x, feature = rows.data[p], rows.indices[p]
        if of_class.size > IN_CACHE and np.int64(p) + 1 < np.int64(rows.indptr[i + 1]):
            prefetch_list(rows.indices[p + np.uint64(1)], pairs, of_class)
        for q in range(pairs.indptr[feature], pairs.indptr[feature + np.uint64(1)]):
            k = pairs.classes[q]
            score, first = of_class[k, SCORE], of_class[k, BIAS]
            is_new = score == not_inside
            inside.codes[n] = k
            n = min(n + is_new, of_class.shape[0])
            of_class[k, SCORE] = (first if is_new else score) + x * w[q]
    return n


@leaf
def rest_of(loss: Any, of_class: Array) -> float:
    """Return the total of the classes that are not inside."""
    rest = 0.0
    for k in range(of_class.shape[0]):
        if of_class[k, SCORE] == of_class.dtype.type(NOT_INSIDE):
            rest += amount(loss, of_class[k, UNIT])
    return rest


@vector_leaf
def adapt(
    w: Array, gain: Array, slope: Array, x: float, strengths: Strengths, n_rows: float
) -> None:
    """Move the weights of a feature by the steps above, written with one root and one quotient."""
    l1, ridge = strengths.rate * strengths.l1 / n_rows, strengths.rate * strengths.ridge / n_rows
    for q in range(w.size):
        g = slope[q] * x
        gain[q] += g * g
        root = np.sqrt(gain[q])
        v = root * w[q] - strengths.rate * g
        w[q] = (v - min(max(v, -l1), l1)) / (root + ridge)


@leaf
def step(
    rows: Sparse, i: int, pairs: Pairs, strengths: Strengths, state: ObservedState, inside: Inside
) -> None:
    """Move the weights of the row's features against the slopes of the classes.

    Slopes are gathered first, some at a time, so that the steps vectorise.
    """
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        x, feature = rows.data[p], rows.indices[p]
        if x == 0.0:  # a zero that is stored: the row does not have the feature
            continue
        stop = pairs.indptr[feature + np.uint64(1)]
        for start in range(pairs.indptr[feature], stop, GATHERED):
            n = min(GATHERED, stop - start)
            for q in range(n):
                inside.gathered[q] = inside.of_class[pairs.classes[start + q], SCORE]
            w, gain = state.w[start : start + n], state.gain[start : start + n]
            adapt(w, gain, inside.gathered[:n], x, strengths, pairs.rows[feature])


@vector_kernel
def visit(
    rows: Sparse,
    order: Array,
    pairs: Pairs,
    targets: Targets,
    loss: Any,
    outside: Outside,
    strengths: Strengths,
    state: ObservedState,
    inside: Inside,
    out: Array,
) -> tuple[float, float]:
    """Take a step on each row of `order`; return the sum of losses, and of the rows' m.

    If `out` has room, nothing moves, and it gets the loss of each row.
    """
    number = state.w.dtype.type
    one, not_inside = number(1.0), number(NOT_INSIDE)
    total = outside_sum = 0.0
    of_class = inside.of_class
    for k in range(state.bias.size):
        of_class[k, BIAS], of_class[k, UNIT] = state.bias[k], outside.unit[k]
    for place in range(order.size):
        i = order[place]
        weight, y = targets.weight[i], targets.y[i]
        labels = targets.sets.codes[targets.sets.indptr[y] : targets.sets.indptr[y + 1]]
        each = one / number(labels.size) if targets.share else one
        n = take_inside(rows, i, pairs, state.w, inside)
        for a in range(labels.size):
            k = labels[a]
            if of_class[k, SCORE] == not_inside:
                of_class[k, SCORE] = of_class[k, BIAS]
                inside.codes[n] = k
                n = min(n + 1, state.bias.size)
            inside.own[a] = of_class[k, SCORE]
        rest = outside.total
        for a in range(n):
            k = inside.codes[a]
            inside.z[a], inside.unit[a] = of_class[k, SCORE], of_class[k, UNIT]
            rest -= amount(loss, inside.unit[a])
        if rest < LEAST_REST * outside.total:
            rest = rest_of(loss, of_class)
        value, m = slopes(loss, inside.z, n, rest, each * number(labels.size))
        m *= weight
        for a in range(n):
            k = inside.codes[a]
            slope = weight * inside.z[a]
            of_class[k, SCORE] = slope
            of_class[k, BIAS_SLOPE] += slope - number(m) * inside.unit[a]
        for a in range(labels.size):
            k = labels[a]
            before = of_class[k, SCORE]
            more, slope = of_label(loss, inside.own[a], before / weight, each)
            value += more
            of_class[k, SCORE] = weight * slope
            of_class[k, BIAS_SLOPE] += of_class[k, SCORE] - before
        total += weight * value
        outside_sum += m
        if out.size:
            out[place] = value
        else:
            step(rows, i, pairs, strengths, state, inside)
        for a in range(n):
            of_class[inside.codes[a], SCORE] = not_inside
    return total, outside_sum
