"""The CRF solvers by name, their traits, and the initial learning rate."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from monro.crf.problem import ChainProblem, reading_sentences
from monro.crf.sgd import Descent
from monro.crf.sgdqn import QuasiNewton
from monro.crf.sgdqn_flawed import FlawedQuasiNewton
from monro.crf.weights import ChainWeights
from monro.fitting.rate_search import search_rate
from monro.rows import Array

_SAMPLE = 1000  # steps of a trial
_PASSES = 10  # over the sample, at most


class Solver(Protocol):
    """Minimises one problem, one sweep over its sentences at a time."""

    problem: ChainProblem
    name: str
    eta0: float
    n_jobs: int

    def start(self) -> Any:
        """Return the state of zero weights."""

    def resume(self, state: Any, tags: Array) -> Any:
        """Return a copy of an earlier state with weights for all features and tags.

        The earlier features come first; earlier tag k is now ``tags[k]``.
        """

    def sweep(
        self, order: Array, state: Any, averages: bool, pool: ThreadPoolExecutor | None
    ) -> float:
        """Take a step on each sentence of `order`; return the loss summed before each step.

        `averages` says whether these iterates belong to the average, if the solver keeps one.
        """

    def solution(self, state: Any) -> ChainWeights:
        """Return the weights."""


class Traits(NamedTuple):
    """What distinguishes a solver from the others."""

    averaged: bool = False  # the solution is the mean of the iterates
    decay_power: float = 0.0  # of the learning rate; gains have their own decay
    learns_gains: bool = False
    flawed: bool = False  # SGD-QN before its erratum
    threads: bool = False  # it can use several


SOLVERS = {
    "asgd": Traits(averaged=True, decay_power=0.75, threads=True),
    "sgd": Traits(decay_power=1.0, threads=True),
    "sgdqn": Traits(learns_gains=True),
    "sgdqn-flawed": Traits(learns_gains=True, flawed=True),
}


def make_solver(
    problem: ChainProblem, name: str, eta0: float, n_jobs: int = 1, skip: int | None = None
) -> Solver:
    """Return the solver of that name, on that many threads if it can use them.

    `skip` is that of the solvers that learn gains.
    """
    traits = SOLVERS[name]
    if traits.learns_gains:
        kind = FlawedQuasiNewton if traits.flawed else QuasiNewton
        return kind(problem, name, eta0, skip)
    return Descent(
        problem,
        name,
        eta0,
        power=traits.decay_power,
        averaged=traits.averaged,
        n_jobs=n_jobs if traits.threads else 1,
    )


def choose_rate(
    problem: ChainProblem,
    name: str,
    rng: np.random.Generator,
    skip: int | None = None,
    visited: Array | None = None,
) -> float:
    """Find η0 by doubling or halving on a sample of the sentences.

    A rate is evaluated by the loss of each sentence *before* the step on it: the sample serves for
    training and testing at once, so overfitting is not rewarded. A small sample is visited several
    times, as in the fit. By default all sentences may be visited.
    """
    sentences = np.arange(problem.size) if visited is None else visited
    passes = min(_PASSES, -(-_SAMPLE // sentences.size))
    order = np.concatenate([rng.permutation(sentences) for _ in range(passes)])[:_SAMPLE]

    def trial(eta0: float) -> float:
        solver = make_solver(problem, name, eta0, skip=skip)
        with reading_sentences(problem, order):
            return solver.sweep(order, solver.start(), False, None)

    largest = 1.0 / problem.penalty.strength  # beyond, the ridge alone would overshoot
    return search_rate(trial, min(0.1, largest), largest=largest, most_steps=60)
