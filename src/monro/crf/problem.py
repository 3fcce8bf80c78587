"""What is minimised: sentences with their tags, the loss of weights on them, and the ridge."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from monro.crf.chain import Room, everything, most_runs, new_room
from monro.crf.encoding import Encoded
from monro.crf.sgd import total_loss
from monro.crf.weights import Weights
from monro.mapped import ask_for, no_read_ahead, runs_of
from monro.rows import Array

_PART_TOKENS = 1 << 16  # evaluated together


class Problem(NamedTuple):
    """Sentences, their tags and weights (of mean 1), and λ."""

    data: Encoded
    y: Array  # of each token
    weight: Array  # of each sentence
    n_features: int
    n_pairs: int
    n_tags: int
    lam: float

    @property
    def size(self) -> int:
        return int(self.weight.size)


def ridge_strength(c: float, sentences: float) -> float:
    """Return λ, which is never 0."""
    return max(1.0 / (float(c) * float(sentences)), 1e-30)


def is_mapped(data: Encoded) -> bool:
    """Tell whether sentences lie in files."""
    return isinstance(data.features, np.memmap)


@contextmanager
def visiting(problem: Problem, sentences: Array) -> Iterator[None]:
    """Read these sentences, and no others meanwhile, where they lie in files."""
    data, y = problem.data, problem.y
    if not is_mapped(data):
        yield
        return
    with no_read_ahead(*data, y):
        starts, stops = runs_of(sentences)
        ask_for(data.starts, starts, stops + 1)
        starts, stops = data.starts[starts], data.starts[stops]
        ask_for(y, starts, stops)
        for pointers, parts in (
            (data.indptr, (data.values, data.features)),
            (data.pair_indptr, (data.pairs,)),
        ):
            ask_for(pointers, starts, stops + 1)
            for part in parts:
                ask_for(part, pointers[starts], pointers[stops])
        yield


# --------------------------------------------------------------------------------------- evaluation


def make_room(data: Encoded, n_tags: int, dtype: Any) -> Room:
    """Return room for the sentences."""
    longest = int(np.diff(data.starts).max(initial=1))
    return new_room(longest, most_runs(data), n_tags, dtype)


def sentence_parts(data: Encoded) -> Iterator[tuple[slice, slice, Encoded]]:
    """Yield some sentences at a time, in double precision: which, their tokens, and they."""
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


def mean_loss(problem: Problem, weights: Weights) -> float:
    """Return the weighted mean of ``-log p(tags)`` over the sentences, in double precision."""
    allowed = everything(problem.n_tags, np.float64)
    total = 0.0
    for sentences, tokens, part in sentence_parts(problem.data):
        room = make_room(part, problem.n_tags, np.float64)
        weight = problem.weight[sentences]
        total += total_loss(
            part, problem.y[tokens], weight, np.arange(weight.size), weights, allowed, room
        )
    return float(total / problem.weight.sum())


def ridge_of(problem: Problem, weights: Weights) -> float:
    """Return ``λ/2 ‖w‖²``."""
    return 0.5 * problem.lam * sum(float(np.vdot(part, part)) for part in weights)


def objective(problem: Problem, weights: Weights) -> float:
    """Return ``λ/2 ‖w‖²`` and the mean loss."""
    return ridge_of(problem, weights) + mean_loss(problem, weights)
