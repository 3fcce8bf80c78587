"""The optimisation problem: sentences with their tags, the loss of weights on them, the ridge."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from monro._jit import kernel
from monro.crf.chain import (
    Allowed,
    ChainScratch,
    all_allowed,
    forward,
    most_runs,
    new_chain_scratch,
)
from monro.crf.encoding import Encoded
from monro.crf.weights import ChainWeights
from monro.mapped.chunked_arrays import chunks
from monro.mapped.page_requests import contiguous_runs, no_read_ahead, request_pages
from monro.penalties import Ridge
from monro.rows import Array

FIXED_C = 1.0  # the strength where c="auto" has no sentences to hold out
_PART_TOKENS = 1 << 16  # evaluated at a time


class ChainProblem(NamedTuple):
    """Sentences, their tags and weights (of mean 1), and the penalty."""

    data: Encoded
    y: Array  # of each token
    weight: Array  # of each sentence
    n_features: int
    n_pairs: int
    n_tags: int
    penalty: Ridge

    @property
    def size(self) -> int:
        """How many sentences there are."""
        return int(self.weight.size)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many features, pair features and tags there are weights for."""
        return self.n_features, self.n_pairs, self.n_tags


def make_ridge(c: float, sentences: float) -> Ridge:
    """Return the ridge for CRF++'s parameter c; its strength is never 0."""
    return Ridge(max(1.0 / (float(c) * float(sentences)), 1e-30))


def is_mapped(data: Encoded) -> bool:
    """Return whether sentences are in memory-mapped files."""
    return isinstance(data.features, np.memmap)


@contextmanager
def reading_sentences(problem: ChainProblem, sentences: Array) -> Iterator[None]:
    """Read ahead these sentences of mapped files, and only these, inside the block."""
    data, y = problem.data, problem.y
    if not is_mapped(data):
        yield
        return
    with no_read_ahead(*data, y):
        starts, stops = contiguous_runs(sentences)
        request_pages(data.starts, starts, stops + 1)
        starts, stops = data.starts[starts], data.starts[stops]
        request_pages(y, starts, stops)
        for pointers, parts in (
            (data.indptr, (data.values, data.features)),
            (data.pair_indptr, (data.pairs,)),
        ):
            request_pages(pointers, starts, stops + 1)
            for part in parts:
                request_pages(part, pointers[starts], pointers[stops])
        yield


# --------------------------------------------------------------------------------------- evaluation


def make_scratch(data: Encoded, n_tags: int, dtype: Any) -> ChainScratch:
    """Return scratch buffers for any of the sentences."""
    longest = int(np.diff(data.starts).max(initial=1))
    return new_chain_scratch(longest, most_runs(data), n_tags, dtype)


def sentence_parts(data: Encoded) -> Iterator[tuple[slice, slice, Encoded]]:
    """Yield parts of a corpus in double precision: which sentences and tokens, and the part."""
    begin = 0
    n = data.starts.size - 1
    while begin < n:
        stop = int(np.searchsorted(data.starts, data.starts[begin] + _PART_TOKENS, "right")) - 1
        stop = min(n, max(stop, begin + 1))
        first, last = int(data.starts[begin]), int(data.starts[stop])
        indptr = data.indptr[first : last + 1]
        pair_indptr = data.pair_indptr[first : last + 1]
        part = Encoded(
            data.values[indptr[0] : indptr[-1]].astype(np.float64),
            np.ascontiguousarray(data.features[indptr[0] : indptr[-1]]),
            indptr - indptr[0],
            np.ascontiguousarray(data.pairs[pair_indptr[0] : pair_indptr[-1]]),
            pair_indptr - pair_indptr[0],
            data.starts[begin : stop + 1] - first,
        )
        yield slice(begin, stop), slice(first, last), part
        begin = stop


def mean_square(values: Array) -> float:
    """Return the mean of the squares of the features' values, 1 if there are none."""
    total = sum(float(np.vdot(part, part)) for part in chunks(values))
    return total / values.size if values.size else 1.0


def _ranges(starts: Array, stops: Array) -> Array:
    """Return the numbers from each start to its stop, one range after the other."""
    lengths = stops - starts
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _pointers(indptr: Array, rows: Array) -> Array:
    return np.concatenate([[0], np.cumsum(indptr[rows + 1] - indptr[rows])])


def take_sentences(data: Encoded, y: Array, sentences: Array) -> tuple[Encoded, Array]:
    """Return a copy of some sentences, in memory, and of their tags."""
    tokens = _ranges(data.starts[sentences], data.starts[sentences + 1])
    cells = _ranges(data.indptr[tokens], data.indptr[tokens + 1])
    pairs = _ranges(data.pair_indptr[tokens], data.pair_indptr[tokens + 1])
    taken = Encoded(
        np.array(data.values[cells]),
        np.array(data.features[cells]),
        _pointers(data.indptr, tokens),
        np.array(data.pairs[pairs]),
        _pointers(data.pair_indptr, tokens),
        _pointers(data.starts, sentences),
    )
    return taken, np.array(y[tokens])


@kernel
def sentence_losses(
    data: Encoded,
    y: Array,
    weights: ChainWeights,
    allowed: Allowed,
    scratch: ChainScratch,
    out: Array,
) -> None:
    """``out[s] = -log p(y)`` of each sentence."""
    for s in range(out.size):
        out[s] = 0.0
        if data.starts[s] < data.starts[s + 1]:
            log_z, score, _ = forward(data, s, y, weights, 1.0, allowed, scratch)
            out[s] = log_z - score


@kernel
def total_loss(
    data: Encoded,
    y: Array,
    weight: Array,
    order: Array,
    weights: ChainWeights,
    allowed: Allowed,
    scratch: ChainScratch,
) -> float:
    """Return ``Σ weight_i·(-log p(y_i))`` over `order`."""
    total = 0.0
    for s in order:
        if data.starts[s] < data.starts[s + 1]:
            log_z, score, _ = forward(data, s, y, weights, 1.0, allowed, scratch)
            total += weight[s] * (log_z - score)
    return total


def mean_loss(problem: ChainProblem, weights: ChainWeights) -> float:
    """Return the weighted mean of ``-log p(tags)`` over the sentences, in double precision."""
    allowed = all_allowed(problem.n_tags, np.float64)
    total = 0.0
    for sentences, tokens, part in sentence_parts(problem.data):
        scratch = make_scratch(part, problem.n_tags, np.float64)
        weight = problem.weight[sentences]
        total += total_loss(
            part, problem.y[tokens], weight, np.arange(weight.size), weights, allowed, scratch
        )
    return float(total / problem.weight.sum())


def ridge_of(problem: ChainProblem, weights: ChainWeights) -> float:
    """Return ``λ/2 ‖w‖²``."""
    return 0.5 * problem.penalty.strength * sum(float(np.vdot(part, part)) for part in weights)


def objective(problem: ChainProblem, weights: ChainWeights) -> float:
    """Return ``λ/2 ‖w‖²`` plus the mean loss."""
    return ridge_of(problem, weights) + mean_loss(problem, weights)
