"""Coordinate descent on the weights of one label after the other.

Which rows have the label? With y = 1 for these and -1 for all others, the weights w of its observed
features and the intercept b minimise

    ``F = Σ_i c_i (1 - y_i (w·x_i + b))₊² + λ₁ ‖w‖₁ + λ₂/2 ‖w‖²``,

one weight at a time. Most rows have little in common with a label, and say the same about it. So
the sum over rows is that of

- the rows of the label, and the rows *near* it, which have its rarest features: exactly;
- all others: by a sample that all labels share. A row is in it with probability p, and counts 1/p.

That is unbiased, as which rows are near does not depend on the sample.

With v = 1 - y s, the slope of F/2 in a weight, without the penalty, is ``g = Σ_i c_i v₊ e_i`` for
``e_i = -y_i x_ij``. Its curvature is ``h``, the sum of ``c_i e_i²`` over v > 0, and never more than
``H``, the sum over all rows. A step with the curvature ``(h + H)/2 ≥ H/2`` does not increase F.
"""

from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel, lanes_leaf, leaf, vector_kernel
from monro.rows import Array


class Lists(NamedTuple):
    """A sparse matrix by rows or by columns; indices are unsigned, pointers are not."""

    data: Array
    indices: Array
    indptr: Array


class ByLabel(NamedTuple):
    """The observed pairs of each label, features that few rows have first."""

    indptr: Array  # (labels + 1,)
    features: Array  # (pairs,), int32
    places: Array  # (pairs,): where the pair is in `Pairs`


class LabelRows(NamedTuple):
    """The rows of a problem as `fit_labels` reads them."""

    rows: Lists
    having: Lists  # by feature: the rows that have it, without values
    own: Lists  # by label: its rows, without values
    weight: Array  # (rows,)


class Sample(NamedTuple):
    """Rows that stand for all those that are not near a label."""

    rows: Array  # their numbers
    columns: Lists  # by feature: places in `rows`, and values
    times: Any  # 1/p


class Scratch(NamedTuple):
    """Scratch memory of a thread; arrays of members have an entry for each row of a label's sum."""

    local: Array  # (features,), int32: the place of a feature among the label's; -1 for others
    label_of: Array  # (rows,), int32: 1 + the last label that a row was a member of
    member: Array  # (rows,), uint32
    v: Array  # (rows,)
    c: Array  # (rows,)
    v_sample: Array  # (sample,)
    c_sample: Array  # (sample,)
    met_feature: Array  # (entries,), int32: entries in the order of rows
    met_member: Array  # (entries,), uint32
    met: Array  # (entries,)
    column: Array  # (features + 2,), int64: where the entries of a feature begin
    members: Array  # (entries,), uint32: entries in the order of features
    e: Array  # (entries,)
    w: Array  # (features,)
    most: Array  # (features,): H
    square: Array  # (features,): sums of squared slopes


def new_scratch(
    n_features: int, n_rows: int, n_sampled: int, n_entries: int, most_features: int, dtype: str
) -> Scratch:
    """Return scratch memory for labels of so many entries and features at most."""
    i4, u4 = np.int32, np.uint32
    return Scratch(
        np.full(n_features, -1, i4),
        np.zeros(n_rows, i4),
        np.empty(n_rows, u4),
        np.empty(n_rows, dtype),
        np.empty(n_rows, dtype),
        np.empty(n_sampled, dtype),
        np.empty(n_sampled, dtype),
        np.empty(n_entries, i4),
        np.empty(n_entries, u4),
        np.empty(n_entries, dtype),
        np.empty(most_features + 2, np.int64),
        np.empty(n_entries, u4),
        np.empty(n_entries, dtype),
        np.empty(most_features, dtype),
        np.empty(most_features, dtype),
        np.empty(most_features, dtype),
    )


@kernel
def sort_by_label(
    order: Array, indptr: Array, classes: Array, ends: Array, features: Array, places: Array
) -> None:
    """Write the pairs of each label in this order of features; `ends` are at first its starts."""
    for a in range(order.size):
        feature = order[a]
        for q in range(indptr[feature], indptr[feature + 1]):
            end = ends[classes[q]]
            features[end], places[end] = feature, q
            ends[classes[q]] = end + 1


@leaf
def take_members(
    k: int, data: LabelRows, by_label: ByLabel, near_entries: int, s: Scratch
) -> tuple[int, int]:
    """List the rows of a label and those near it; return how many there are of both, of all."""
    n, room = 0, near_entries
    for p in range(data.own.indptr[k], data.own.indptr[k + 1]):
        i = data.own.indices[p]
        s.member[n] = i
        s.label_of[i] = k + 1
        n += 1
    n_own = n
    for a in range(by_label.indptr[k], by_label.indptr[k + 1]):
        feature = by_label.features[a]
        for p in range(data.having.indptr[feature], data.having.indptr[feature + 1]):
            i = data.having.indices[p]
            if s.label_of[i] != k + 1:
                room -= data.rows.indptr[i + 1] - data.rows.indptr[i]
                if room < 0:
                    return n_own, n
                s.member[n] = i
                s.label_of[i] = k + 1
                n += 1
    return n_own, n


@leaf
def take_columns(n_own: int, n: int, n_features: int, data: LabelRows, s: Scratch) -> None:
    """Sort the entries of the members by the label's features."""
    found = 0
    for a in range(n_features + 2):
        s.column[a] = 0
    for t in range(n):
        i = s.member[t]
        for p in range(data.rows.indptr[i], data.rows.indptr[i + 1]):
            a, x = s.local[data.rows.indices[p]], data.rows.data[p]
            # Written in any case: whether the label has the feature cannot be predicted.
            s.met_feature[found], s.met_member[found] = a, t
            s.met[found] = -x if t < n_own else x
            found += a >= 0
    for q in range(found):
        s.column[s.met_feature[q] + 2] += 1
    for a in range(n_features):
        s.column[a + 2] += s.column[a + 1]
    for q in range(found):
        a = s.met_feature[q] + 1
        place = s.column[a]
        s.members[place], s.e[place] = s.met_member[q], s.met[q]
        s.column[a] = place + 1


@lanes_leaf
def slope(
    members: Array, e: Array, start: int, stop: int, v: Array, c: Array
) -> tuple[float, float, float]:
    """Return ``Σ c v₊ e``, ``Σ c e²`` over v > 0, and ``Σ c v₊² e²``."""
    zero = v.dtype.type(0.0)
    g, h, square = zero, zero, zero
    for q in range(start, stop):
        t = members[q]
        gap, each = max(v[t], zero), c[t]
        turn = gap * e[q]
        g += each * turn
        square += each * turn * turn
        h += each * e[q] * e[q] if gap > zero else zero
    return g, h, square


@lanes_leaf
def curvature(members: Array, e: Array, start: int, stop: int, c: Array) -> float:
    """Return ``Σ c e²``."""
    total = c.dtype.type(0.0)
    for q in range(start, stop):
        total += c[members[q]] * e[q] * e[q]
    return total  # type: ignore[no-any-return]


@leaf
def move(members: Array, e: Array, start: int, stop: int, d: float, v: Array) -> None:
    """``v += d e``."""
    for q in range(start, stop):
        v[members[q]] += d * e[q]


@lanes_leaf
def loss_of(v: Array, c: Array, n: int) -> float:
    """Return ``Σ c v₊²``."""
    zero = v.dtype.type(0.0)
    total = 0.0
    for t in range(n):
        gap = max(v[t], zero)
        total += c[t] * gap * gap
    return total


@lanes_leaf
def slope_of_intercept(v: Array, c: Array, start: int, stop: int) -> tuple[float, float, float]:
    """Return ``Σ c v₊``, ``Σ c`` over v > 0, and ``Σ c``."""
    zero = v.dtype.type(0.0)
    g, h, total = zero, zero, zero
    for t in range(start, stop):
        gap, each = max(v[t], zero), c[t]
        g += each * gap
        h += each if gap > zero else zero
        total += each
    return g, h, total


@vector_kernel
def fit_labels(
    first: int,
    last: int,
    data: LabelRows,
    by_label: ByLabel,
    sample: Sample,
    near_entries: Array,
    strengths: tuple[Any, Any],
    sweeps: int,
    settled: Any,
    fit_intercept: bool,
    first_gain: Any,
    w: Array,
    gain: Array,
    bias: Array,
    s: Scratch,
) -> float:
    """Move the weights of a range of labels towards their minimum; return the sum of losses.

    The rows near label k have at most ``near_entries[k]`` entries. `strengths` are λ₁/2 and λ₂/2.
    `gain` gets the sum of squared slopes that steps on the rows, which may follow, would have met.
    """
    number = w.dtype.type
    zero, one, half = number(0.0), number(1.0), number(0.5)
    l1, ridge = strengths
    loss = 0.0
    s.label_of[:] = 0
    for k in range(first, last):
        start, n_features = by_label.indptr[k], by_label.indptr[k + 1] - by_label.indptr[k]
        for a in range(n_features):
            s.local[by_label.features[start + a]] = a
            s.w[a] = w[by_label.places[start + a]]
        n_own, n = take_members(k, data, by_label, near_entries[k], s)
        take_columns(n_own, n, n_features, data, s)
        for t in range(n):
            s.v[t] = one - bias[k] if t < n_own else one + bias[k]
            s.c[t] = data.weight[s.member[t]]
        for t in range(sample.rows.size):
            i = sample.rows[t]
            s.v_sample[t] = one + bias[k]
            s.c_sample[t] = zero if s.label_of[i] == k + 1 else sample.times * data.weight[i]
        for a in range(n_features):
            feature = by_label.features[start + a]
            p, stop = s.column[a], s.column[a + 1]
            q, end = sample.columns.indptr[feature], sample.columns.indptr[feature + 1]
            s.most[a] = curvature(s.members, s.e, p, stop, s.c)
            s.most[a] += curvature(sample.columns.indices, sample.columns.data, q, end, s.c_sample)
            if s.w[a] != zero:
                move(s.members, s.e, p, stop, s.w[a], s.v)
                move(sample.columns.indices, sample.columns.data, q, end, s.w[a], s.v_sample)
        first_change = zero
        for _ in range(sweeps):
            change = zero
            for a in range(n_features):
                feature = by_label.features[start + a]
                p, stop = s.column[a], s.column[a + 1]
                q, end = sample.columns.indptr[feature], sample.columns.indptr[feature + 1]
                g, h, square = slope(s.members, s.e, p, stop, s.v, s.c)
                more = slope(
                    sample.columns.indices, sample.columns.data, q, end, s.v_sample, s.c_sample
                )
                s.square[a] = square + more[2]
                m = half * (h + more[1] + s.most[a])
                if m <= zero:  # all these rows have weight 0
                    continue
                moved = m * s.w[a] - (g + more[0])
                new = (moved - min(max(moved, -l1), l1)) / (m + ridge)
                d = new - s.w[a]
                change += m * d * d
                if d != zero:
                    s.w[a] = new
                    move(s.members, s.e, p, stop, d, s.v)
                    move(sample.columns.indices, sample.columns.data, q, end, d, s.v_sample)
            if fit_intercept:
                up = slope_of_intercept(s.v, s.c, 0, n_own)
                down = slope_of_intercept(s.v, s.c, n_own, n)
                others = slope_of_intercept(s.v_sample, s.c_sample, 0, sample.rows.size)
                m = half * (up[1] + down[1] + others[1] + up[2] + down[2] + others[2])
                d = (up[0] - down[0] - others[0]) / m if m > zero else zero
                bias[k] += d
                for t in range(n):
                    s.v[t] += -d if t < n_own else d
                for t in range(sample.rows.size):
                    s.v_sample[t] += d
            first_change = max(change, first_change)
            if change <= settled * first_change:
                break
        loss += loss_of(s.v, s.c, n) + loss_of(s.v_sample, s.c_sample, sample.rows.size)
        for a in range(n_features):
            w[by_label.places[start + a]] = s.w[a]
            if sweeps > 0:
                gain[by_label.places[start + a]] = first_gain + number(4.0) * s.square[a]
            s.local[by_label.features[start + a]] = -1
    return loss
