"""One pass over the weights of all classes: the best classes of each row, and its normaliser.

The log-probability of even one class needs ``log Σ_k e^{s_k}``, thus the scores of all of them: no
bound can leave weights unread (docs/decisions/0029). So they are read as fast as memory delivers
them, once for many rows, and no scores are kept.

Of sparse weights only those of the row's features are read. Where no feature of the row has a
weight for a class, the score is the bias: with A the other classes,
``Σ_k e^{s_k} = Σ_k e^{b_k} + Σ_{k∈A} (e^{s_k} - e^{b_k})``.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro._jit import kernel, lanes_leaf, leaf, prefetch_element
from monro._math import exp_of_negative, softplus
from monro.blocks import LANES, lanes_dot
from monro.mapped.matrices import chunk_bounds, slice_rows
from monro.rows import Array, Sparse, as_rows
from monro.softmax.model import CHUNK_CLASSES, Weights, log_odds, slot_scores

MOST_BEST = 1000  # classes to be found; of more, sorting all scores is faster
_BATCH_ROWS = 1 << 10  # share the reading of weights; more if that makes fewer scores than these:
_BATCH_SCORES = 1 << 22  # computed at a time by a thread
_MOST_RANGES = 16  # of classes: each has best classes of its own
_MOST_ENTRIES = 1 << 20  # of rows, or of copies of weights, in double precision at a time
_AHEAD = 3  # rows, whose weights are prefetched
_MOST_READ = 0.5  # entries of rows for each weight of a block: from then on, all are prefetched


class Scan(NamedTuple):
    """What a pass over all classes found about each row."""

    codes: Array  # (rows, k): the classes with the largest scores, best first, ties by lower code
    scores: Array  # (rows, k)
    log_normaliser: Array  # (rows,): log Σ_k e^{s_k}


class _Found(NamedTuple):
    """What a pass has found so far."""

    codes: Array  # (rows, k)
    scores: Array  # (rows, k)
    mass: Array  # (rows,): Σ_k e^{s_k - scores[0]}


# ------------------------------------------------------------------------------------- the kernels


@lanes_leaf
def _largest(z: Array) -> float:
    top = -np.inf
    for lane in range(z.size):
        top = max(top, float(z[lane]))
    return top


@lanes_leaf
def _scale_and_shift(z: Array, scale: Array, bias: Array) -> float:
    """Make scores of the products of a block; return the largest."""
    top = -np.inf
    for lane in range(LANES):
        z[lane] = z[lane] * scale[lane] + bias[lane]
        top = max(top, float(z[lane]))
    return top


@lanes_leaf
def _sum_of_exponentials(z: Array, top: float) -> float:
    total = 0.0
    for lane in range(z.size):
        total += exp_of_negative(z[lane] - top)
    return total


@leaf
def _precedes(score: float, code: int, other_score: float, other_code: int) -> bool:
    return score > other_score or (score == other_score and code < other_code)


@leaf
def _insert(codes: Array, scores: Array, code: int, score: float) -> bool:
    """Insert a class into the best ones, if it is among them; return whether it is."""
    p = scores.size - 1
    if not _precedes(score, code, scores[p], codes[p]):
        return False
    while p > 0 and _precedes(score, code, scores[p - 1], codes[p - 1]):
        scores[p], codes[p] = scores[p - 1], codes[p - 1]
        p -= 1
    scores[p], codes[p] = score, code
    return True


@leaf
def _take(found: _Found, i: int, z: Array, highest: float, first: int, class_of: Array) -> None:
    """Take the scores z of row i into account: those of the slots from `first` on."""
    codes, scores = found.codes[i], found.scores[i]
    if highest > scores[0]:
        found.mass[i] *= np.exp(scores[0] - highest)
    found.mass[i] += _sum_of_exponentials(z, max(highest, scores[0]))
    if highest >= scores[scores.size - 1]:
        for lane in range(z.size):
            _insert(codes, scores, class_of[first + lane], z[lane])


@kernel
def scan_scores(S: Array, first: int, class_of: Array, found: _Found) -> None:
    """Take scores into account, those of the slots from `first` on."""
    for i in range(S.shape[0]):
        _take(found, i, S[i], _largest(S[i]), first, class_of)


@kernel
def scan_blocks(
    rows: Sparse,
    W: Array,
    scale: Array,
    bias: Array,
    class_of: Array,
    blocks: tuple[int, int],
    z: Array,
    found: _Found,
) -> None:
    """Compute the scores of a range of blocks, and take them into account.

    A block's weights stay in the cache while the rows pass. Of few rows most time would be spent
    waiting for weights, hence the prefetching: of the whole next block, in order, if the rows need
    most of it, else of what the next rows need.
    """
    n = found.mass.size
    share = 0  # of the next block's features, prefetched with each row
    if rows.data.size >= _MOST_READ * W.shape[1]:
        share = -(-W.shape[1] // n)
    for block in range(blocks[0], blocks[1]):
        lanes = slice(block * LANES, (block + 1) * LANES)
        of_block, intercepts = scale[lanes], bias[lanes]
        for i in range(n):
            if share > 0:
                first = np.int64(block + 1) * W.shape[1]
                if block + 1 < blocks[1]:
                    for j in range(share * i, min(share * (i + 1), W.shape[1])):
                        prefetch_element(W, (first + j) * LANES)
            else:
                ahead, first = i + _AHEAD, np.int64(block) * W.shape[1]
                while ahead >= n:
                    ahead, first = ahead - n, first + W.shape[1]
                if first < np.int64(blocks[1]) * W.shape[1]:
                    for p in range(rows.indptr[ahead], rows.indptr[ahead + 1]):
                        prefetch_element(W, (first + np.int64(rows.indices[p])) * LANES)
            lanes_dot(rows.data, rows.indices, rows.indptr[i], rows.indptr[i + 1], W, block, z)
            highest = _scale_and_shift(z, of_block, intercepts)
            _take(found, i, z, highest, block * LANES, class_of)


@kernel
def scores_of_pairs(
    rows: Sparse,
    W: Array,
    scale: Array,
    bias: Array,
    row_of: Array,
    slots: Array,
    z: Array,
    out: Array,
) -> None:
    """Compute the scores of pairs of a row and a slot, with the roundings of `scan_blocks`."""
    for q in range(slots.size):
        i, block, lane = row_of[q], slots[q] // LANES, slots[q] % LANES
        lanes_dot(rows.data, rows.indices, rows.indptr[i], rows.indptr[i + 1], W, block, z)
        out[q] = z[lane] * scale[slots[q]] + bias[slots[q]]


# ---------------------------------------------------------------------------------- sparse weights

_FEWEST_BIASES = 1 << 12  # sorted; if that does not decide, all classes are looked at
_LEAST_REST = 1e-3  # of Σ_k e^{b_k}, that differences may leave; a smaller sum is computed anew


class _Biases(NamedTuple):
    """Biases, and what all rows need to know of them."""

    bias: Array  # (classes,), in double precision
    order: Array  # the classes with the largest ones, best first, ties by lower code
    exponential: Array  # (classes,): e^{b_k - b}, b the largest bias
    total: float  # their sum


class _Touched(NamedTuple):
    """Scratch memory of a thread: the classes that the features of a row have weights for."""

    score: Array  # (classes,): NOT_TOUCHED for all others
    codes: Array  # (classes + 1,): the row's classes, in the order in which they were met
    z: Array  # (classes,): their scores in that order


NOT_TOUCHED = np.inf


def _new_touched(n_classes: int) -> _Touched:
    score, codes = np.full(n_classes, NOT_TOUCHED), np.empty(n_classes + 1, np.int64)
    return _Touched(score, codes, np.empty(n_classes))


@leaf
def _touch(rows: Sparse, i: int, lists: Sparse, biases: _Biases, touched: _Touched) -> int:
    """Compute the scores of the classes that features of row i have weights for; count them.

    Without branches: whether a class was met before cannot be predicted.
    """
    n = 0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        x, feature = rows.data[p], rows.indices[p]
        for q in range(lists.indptr[feature], lists.indptr[feature + np.uint64(1)]):
            code = lists.indices[q]
            score = touched.score[code]
            is_new = score == NOT_TOUCHED
            touched.codes[n] = code
            n = min(n + is_new, touched.z.size)
            touched.score[code] = (0.0 if is_new else score) + x * lists.data[q]
    for t in range(n):
        code = touched.codes[t]
        touched.z[t] = touched.score[code] + biases.bias[code]
        touched.score[code] = touched.z[t]
    return n


@leaf
def _forget(n: int, touched: _Touched) -> None:
    for t in range(n):
        touched.score[touched.codes[t]] = NOT_TOUCHED


@leaf
def _look_at_all(biases: _Biases, touched: _Touched, codes: Array, scores: Array) -> float:
    """Find the best of all classes; return the mass of those not touched."""
    scores[:] = -np.inf
    for code in range(biases.bias.size):
        score = touched.score[code]
        _insert(codes, scores, code, biases.bias[code] if score == NOT_TOUCHED else score)
    mass = 0.0
    for code in range(biases.bias.size):
        if touched.score[code] == NOT_TOUCHED:
            mass += np.exp(biases.bias[code] - scores[0])
    return mass


@kernel
def scan_lists(
    rows: Sparse, lists: Sparse, biases: _Biases, touched: _Touched, found: _Found
) -> None:
    """Find the best classes and the normaliser; row j of `lists` has the weights of feature j."""
    largest = biases.bias[biases.order[0]]  # exponentials are relative to it
    for i in range(found.mass.size):
        codes, scores = found.codes[i], found.scores[i]
        n = _touch(rows, i, lists, biases, touched)
        rest = biases.total
        for t in range(n):
            _insert(codes, scores, touched.codes[t], touched.z[t])
            rest -= biases.exponential[touched.codes[t]]
        found_all = biases.order.size == biases.bias.size
        for t in range(biases.order.size):
            code = biases.order[t]
            untouched = touched.score[code] == NOT_TOUCHED
            if untouched and not _insert(codes, scores, code, biases.bias[code]):
                found_all = True
                break
        if found_all and rest >= _LEAST_REST * biases.total:
            mass = rest * np.exp(largest - scores[0])
        else:
            mass = _look_at_all(biases, touched, codes, scores)
        found.mass[i] = mass + _sum_of_exponentials(touched.z[:n], scores[0])
        _forget(n, touched)


@kernel
def scores_in_lists(
    rows: Sparse, lists: Sparse, bias: Array, row_of: Array, codes: Array, out: Array
) -> None:
    """Compute the scores of pairs of a row and a class; lists are sorted by class."""
    for q in range(codes.size):
        score = 0.0
        for p in range(rows.indptr[row_of[q]], rows.indptr[row_of[q] + 1]):
            feature = rows.indices[p]
            low, end = (
                np.int64(lists.indptr[feature]),
                np.int64(lists.indptr[feature + np.uint64(1)]),
            )
            high = end
            while low < high:
                middle = (low + high) // 2
                if np.int64(lists.indices[middle]) < codes[q]:
                    low = middle + 1
                else:
                    high = middle
            if low < end and np.int64(lists.indices[low]) == codes[q]:
                score += rows.data[p] * lists.data[low]
        out[q] = score + bias[codes[q]]


@kernel
def softplus_in_lists(
    rows: Sparse,
    lists: Sparse,
    biases: _Biases,
    calibration: tuple[float, float, float],
    touched: _Touched,
    out: Array,
) -> None:
    """Compute ``Σ_k log(1 + e^{z_k})`` of each row, of log-odds; `biases.exponential` is of b."""
    a, c, least = calibration
    for i in range(out.size):
        out[i] = biases.total
        n = _touch(rows, i, lists, biases, touched)
        for t in range(n):
            p = min(max(0.5 + 0.5 * touched.z[t], least), 1.0 - least)
            exponential = biases.exponential[touched.codes[t]]
            out[i] += softplus(a * np.log(p / (1.0 - p)) + c) - exponential
        _forget(n, touched)


def softplus_sums(weights: Weights, X: Any) -> Array:
    """Return ``Σ_k log(1 + e^{z_k})`` of each row, of the log-odds z, for sparse weights."""
    assert weights.calibration is not None
    bias = weights.bias.astype(np.float64)
    of_bias = np.logaddexp(0.0, log_odds(bias, weights.calibration))
    numbers_of = tuple(weights.calibration.tolist())
    biases = _Biases(bias, np.zeros(0, np.int64), of_bias, float(of_bias.sum()))
    lists, sums = _as_lists(weights), np.empty(X.shape[0])
    for start, stop in chunk_bounds(X, _MOST_ENTRIES):
        touched = _new_touched(bias.size)
        rows = _sparse_rows(slice_rows(X, start, stop))
        softplus_in_lists(rows, lists, biases, numbers_of, touched, sums[start:stop])
    return sums


def _as_lists(weights: Weights) -> Sparse:
    W: Any = weights.W
    return Sparse(*as_rows(W.T.tocsr()))


def _sparse_rows(X: Any) -> Sparse:
    return Sparse(*as_rows(sp.csr_matrix(X, dtype=np.float64)))


def _scan_sparse(weights: Weights, X: Any, k: int, n_jobs: int) -> Scan:
    """Return the result of `scan` for sparse weights."""
    n_classes = weights.n_classes
    bias = weights.bias.astype(np.float64)
    few = min(n_classes, max(_FEWEST_BIASES, 2 * k))
    high = np.flatnonzero(bias >= np.partition(bias, n_classes - few)[n_classes - few])
    order = high[np.argsort(-bias[high], kind="stable")]
    exponential = np.exp(bias - bias[order[0]])
    biases = _Biases(bias, order, exponential, float(exponential.sum()))
    lists = _as_lists(weights)

    def work(start: int, stop: int) -> _Found:
        found = _nothing(stop - start, k, n_classes)
        touched = _new_touched(n_classes)
        scan_lists(_sparse_rows(slice_rows(X, start, stop)), lists, biases, touched, found)
        return found

    entries = X.nnz if sp.issparse(X) else X.size
    parts = zip(*chunk_bounds(X, min(_MOST_ENTRIES, -(-entries // n_jobs))), strict=True)
    results = _run(work, *parts, n_jobs=n_jobs)
    codes, scores, mass = (np.concatenate(each) for each in zip(*results, strict=True))
    return Scan(codes, scores, scores[:, 0] + np.log(mass))


# ------------------------------------------------------------------------------------------ a pass


def scan(weights: Weights, X: Any, k: int = 1, n_jobs: int = 1) -> Scan:
    """Find the k best classes of each row and its normaliser.

    Memory is O(rows·k); the result does not depend on the number of threads.
    """
    n, n_slots = X.shape[0], weights.scale.size
    k = min(k, weights.n_classes)
    if sp.issparse(weights.W):
        return _scan_sparse(weights, X, k, n_jobs)
    class_of = np.full(n_slots, n_slots)  # slots without a class lose against all others
    class_of[weights.slots] = np.arange(weights.n_classes)
    many = max(_BATCH_ROWS, _BATCH_SCORES // n_slots)
    batches = [(a, min(a + many, n)) for a in range(0, n, many)]
    fewest = max(_BATCH_SCORES // min(n, many), n_slots // _MOST_RANGES, 1)
    wide = -(-fewest // CHUNK_CLASSES) * CHUNK_CLASSES
    ranges = [(a, min(a + wide, n_slots)) for a in range(0, n_slots, wide)]

    def work(batch: tuple[int, int], part: tuple[int, int]) -> _Found:
        found = _nothing(batch[1] - batch[0], k, n_slots)
        _scan_part(weights, slice_rows(X, *batch), class_of, part, found)
        return found

    parts = _run(work, *zip(*product(batches, ranges), strict=True), n_jobs=n_jobs)
    merged = [_merged([next(parts) for _ in ranges], k) for _ in batches]
    return Scan(*(np.concatenate(each) for each in zip(*merged, strict=True)))


def _nothing(n_rows: int, k: int, no_class: int) -> _Found:
    shape = n_rows, k
    return _Found(np.full(shape, no_class), np.full(shape, -np.inf), np.zeros(n_rows))


def _run(work: Callable[..., _Found], *tasks: Sequence[Any], n_jobs: int) -> Iterator[_Found]:
    """Yield the results of all tasks, given by their arguments, in order."""
    if n_jobs == 1 or len(tasks[0]) == 1:
        yield from map(work, *tasks)
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(work, *tasks)


def label_scores(weights: Weights, X: Any, row_of: Array, codes: Array) -> Array:
    """Return ``x_i · w_k + b_k`` of pairs of a row i and a class k, sorted by row."""
    W, bias, scale = weights.W, weights.bias, weights.scale
    slots, own = weights.slots[codes].astype(np.int64), np.empty(codes.size)
    by_blocks, by_lists = _by_blocks(weights, X), sp.issparse(W)
    lists: Any = _as_lists(weights) if by_lists else None
    for start, stop in chunk_bounds(X, _MOST_ENTRIES):
        pairs = slice(*np.searchsorted(row_of, [start, stop]))
        rows, of = slice_rows(X, start, stop).astype(np.float64), row_of[pairs] - start
        if by_blocks:
            z, rows = np.empty(LANES), Sparse(*as_rows(rows))
            scores_of_pairs(rows, W, scale, bias, of, slots[pairs], z, own[pairs])
        elif by_lists:
            scores_in_lists(_sparse_rows(rows), lists, bias, of, slots[pairs], own[pairs])
        else:
            own[pairs] = _products(rows, of, W, slots[pairs])
            own[pairs] = own[pairs] * scale[slots[pairs]] + bias[slots[pairs]]
    return own


def _by_blocks(weights: Weights, X: Any) -> bool:
    """Return whether rows and weights have the layout of `scan_blocks`."""
    return not sp.issparse(weights.W) and weights.W.ndim == 3 and sp.issparse(X)


def _products(rows: Any, of: Array, W: Array, slots: Array) -> Array:
    """Return the inner products of pairs of a row and the weights of a slot."""
    found, size = np.empty(slots.size), max(1, _MOST_ENTRIES // rows.shape[1])
    for start in range(0, slots.size, size):
        part = slice(start, start + size)
        A, s = rows[of[part]], slots[part]
        B = W[s // LANES, :, s % LANES] if W.ndim == 3 else W[s]
        found[part] = A.multiply(B).sum(axis=1).ravel() if sp.issparse(A) else (A * B).sum(axis=1)
    return found


def _scan_part(
    weights: Weights, X: Any, class_of: Array, part: tuple[int, int], found: _Found
) -> None:
    """Take a range of slots into account."""
    X = X.astype(np.float64, copy=False)
    if _by_blocks(weights, X):
        W, bias, scale = weights.W, weights.bias, weights.scale
        blocks = part[0] // LANES, part[1] // LANES
        scan_blocks(Sparse(*as_rows(X)), W, scale, bias, class_of, blocks, np.empty(LANES), found)
        return
    for start in range(*part, CHUNK_CLASSES):
        stop = min(start + CHUNK_CLASSES, part[1])
        scan_scores(slot_scores(weights, X, start, stop), start, class_of, found)


def _merged(parts: list[_Found], k: int) -> tuple[Array, Array, Array]:
    """Return the fields of a `Scan` of rows whose classes were scanned in parts."""
    codes, scores = (np.concatenate(each, axis=1) for each in list(zip(*parts, strict=True))[:2])
    best = np.lexsort((codes, -scores), axis=1)[:, :k]
    codes, scores = (np.take_along_axis(each, best, axis=1) for each in (codes, scores))
    mass = sum(found.mass * np.exp(found.scores[:, 0] - scores[:, 0]) for found in parts)
    return codes, scores, scores[:, 0] + np.log(mass)
