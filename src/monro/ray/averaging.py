"""Linear models by many workers, who step on their shards side by side and share what they found.

Every worker has a shard. In a round each begins at the common weights and steps on a piece of its
shard; the common weights are then the mean over the workers, weighted by their examples. What is
returned is the mean of all iterates from the second epoch on (paper 002), of all workers.

With the dual solver a worker also remembers a number for each of its examples, and its steps
reckon with those of the others: the weights are then the sum over all examples that they are on one
machine (`linear/dual.py`), and go to the same optimum.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import ray

from monro.fitting import Record, Report, visiting_order
from monro.linear.classifier import LinearClassifier
from monro.linear.columns import Columns
from monro.linear.dual import DualState, bias_pull
from monro.linear.solvers import Dual
from monro.linear.state import PerExample
from monro.linear.train import Task, total_loss
from monro.ray.base import Enduring
from monro.ray.shards import Note
from monro.rows import Array
from monro.softmax.parts import Shard
from monro.softmax.rounds import LostError


class Model(NamedTuple):
    """Weights, (models, features), and intercepts."""

    coef: Array
    intercept: Array


class Progress(NamedTuple):
    """All that is learnt."""

    now: Model  # where the next round begins
    mean: Model  # of the iterates, where they are averaged
    rounds: Array  # that the mean is of
    crowd: Array  # of the dual solver
    pull: Array  # (models,): Σ g_i of the same
    g: Array  # what it remembers of each example, by worker, then by model
    idle: Array


_SAFELY = 1.2  # times what was right in the round before
STATES = {"Progress": Progress, "Model": Model}


class Told(NamedTuple):
    """What a worker has to tell after a round."""

    now: Model
    mean: Model
    loss: float  # the sum, each example's taken before its step
    steps: int
    pull: Array
    memory: PerExample | None  # (models, examples), after the last piece of the dual solver


class Start(NamedTuple):
    """Where a round begins."""

    now: Model | None
    epochs: float  # so far
    averages: bool
    crowd: float  # how many times as far as itself a worker of the dual solver expects all to move


def _models(solutions: Iterable[tuple[Array, float]]) -> Model:
    coef, intercept = zip(*solutions, strict=True)
    return Model(np.array(coef), np.array(intercept))


def _last(state: Any) -> tuple[Array, float]:
    """Return the last iterate."""
    if isinstance(state, DualState):
        return state.w, float(state.bias[0])
    return state.scale[0] * state.r, float(state.bias[0])


class Learner:
    """A shard, and a local estimator that learns from it.

    Parameters
    ----------
    estimator : LinearClassifier
    shard : Shard
    n_examples : int
        Those of all shards.
    """

    def __init__(self, estimator: LinearClassifier, shard: Shard, n_examples: int):
        self.estimator = estimator
        columns = Columns(shard.X.shape[1])
        weight = shard.weight.astype(np.float64)
        self.problems = estimator._problems(shard.X, shard.y, weight, columns=columns)
        self.tasks = estimator._tasks(self.problems, np.random.default_rng(0), streaming=False)
        for task in self.tasks:
            if isinstance(task.solver, Dual):
                task.solver.share(shard.y.size / n_examples)

    @property
    def size(self) -> int:
        """Examples."""
        return int(self.problems[0].examples.y.size)

    def rate(self) -> float | None:
        """Return the rate that suits this shard."""
        return self.estimator.learning_rate_

    def recall(self, g: Array, idle: Array) -> None:
        """Remember what another had learnt of these examples, (models, examples)."""
        for k, task in enumerate(self.tasks):
            task.state.memory.g[:], task.state.memory.idle[:] = g[k], idle[k]

    def round(self, start: Start, piece: int, pieces: int, seed: Any) -> Told:
        """Step on a piece of the shard."""
        rng = np.random.default_rng(seed)
        order = np.array_split(visiting_order(self.size, rng), pieces)[piece]
        loss, steps = 0.0, 0
        for k, task in enumerate(self.tasks):
            self._begin(start, k, task)
            visited = task.solver.thin(order, task.state, rng)
            loss += task.solver.sweep(visited, task.state, start.crowd)
            steps += visited.size
        now = _models(_last(task.state) for task in self.tasks)
        mean = _models(task.solution() for task in self.tasks)
        told = Told(now, mean, loss, steps, np.zeros(0), None)
        dual = [(t.solver, t.state) for t in self.tasks if isinstance(t.solver, Dual)]
        if not dual or piece < pieces - 1:
            return told
        pull = np.array([solver.pull(state) for solver, state in dual])
        g, idle = (np.array([state.memory[k] for _, state in dual]) for k in (0, 1))
        return told._replace(pull=pull, memory=PerExample(g, idle))

    def _begin(self, start: Start, k: int, task: Task) -> None:
        if start.now is None:
            return
        w, b = start.now.coef[k], float(start.now.intercept[k])
        if isinstance(task.solver, Dual):
            task.state.w[:], task.state.bias[0] = w, b
            return
        task.state = task.solver.resume(w, b, start.epochs * self.size)
        if start.averages:
            task.state = task.solver.begin_epoch(task.state)

    def loss(self, model: Model) -> float:
        """Return the sum of the examples' losses, the mean over the models."""
        pairs = zip(self.problems, *model, strict=True)
        each = [total_loss(p.loss, p.examples, w, float(b)) for p, w, b in pairs]
        return float(np.mean(each))


class Averaging(Enduring):
    """Takes rounds. All that is learnt is here: whoever is lost is replaced, no more is lost."""

    def __init__(
        self,
        local: LinearClassifier,
        shards: list[Any],
        notes: list[Note],
        rounds_per_epoch: int,
        seed: int,
    ):
        self.local, self.shards, self.seed = local, shards, seed
        self.rounds_per_epoch = rounds_per_epoch
        self.sizes = [note.n for note in notes]
        self.n = sum(self.sizes)
        self.epochs = 0
        self.seconds = 0.0
        self.now: Model | None = None
        self.mean: Model | None = None
        self.rounds = 0
        self.crowd = float(len(notes))
        self.pull = np.zeros(0)
        self.remembers = local.solver == "dual"
        self.memory: list[PerExample] = []  # one for each worker, of the last epoch

    def set_up(self) -> None:
        """Give each worker its shard, and what was learnt of it."""
        told = [
            self.crew.assign(number, Learner, self.local, shard, self.n)
            for number, shard in enumerate(self.shards)
        ]
        told += [self.crew.call(k, "recall", *memory) for k, memory in enumerate(self.memory)]
        self.crew.values(told)

    def _ask_all(self, method: str, *args: Any) -> list[Any]:
        return [self.crew.call(k, method, *args) for k in range(self.crew.size)]

    def choose_rate(self) -> None:
        """Let all have the rate that suits the middle one."""
        rates = self.crew.values(self._ask_all("rate"))
        if rates[0] is not None:
            self.local.learning_rate_ = self.local.learning_rate = float(np.median(rates))
            self.set_up()

    def needed(self) -> list[Any]:
        """Return the shards."""
        return self.shards

    def recall(self) -> None:
        """Let new workers begin where the last round has ended."""
        self.set_up()

    def take_epoch(self) -> Record:
        """Take an epoch; raise LostError if someone is lost."""
        begin = time.perf_counter()
        before = self.states
        loss, steps = 0.0, 0
        try:
            for piece in range(self.rounds_per_epoch):
                told = self._round(piece)
                loss += sum(each.loss for each in told)
                steps += sum(each.steps for each in told)
        except LostError:
            self._restore(before)
            raise
        self.epochs += 1
        self.seconds += time.perf_counter() - begin
        return {"epoch": self.epochs, "seconds": self.seconds, "loss": loss / max(1, steps)}

    def _round(self, piece: int) -> list[Told]:
        pieces = self.rounds_per_epoch
        start = Start(self.now, self.epochs + piece / pieces, self.epochs > 0, self.crowd)
        if self.remembers and self.pull.size and piece == 0:
            start = start._replace(now=self._anchored())
        shared = ray.put(start)
        told: list[Told] = self.crew.values(
            [
                self.crew.call(k, "round", shared, piece, pieces, [self.seed, self.epochs, k])
                for k in range(self.crew.size)
            ]
        )
        if self.remembers:
            self.memory = [each.memory for each in told if each.memory is not None]
            self.pull = np.sum([each.pull for each in told], axis=0)
            self.now = self.mean = self._add_up(start, [each.now for each in told])
            return told
        self.now = mean_model([each.now for each in told], self.sizes)
        mean = mean_model([each.mean for each in told], self.sizes)
        self.mean = mean_model([self.mean or mean, mean], [self.rounds, 1])
        self.rounds += start.averages
        return told

    def _anchored(self) -> Model:
        """Return the model as the dual solver begins an epoch: see `Dual.begin_epoch`."""
        assert self.now is not None
        loss, intercepts = self.local._loss(), bool(self.local.fit_intercept)
        h_bias = 1.0 / (bias_pull(loss) * self.n) if intercepts else 0.0
        return self.now._replace(intercept=self.now.intercept - h_bias * self.pull)

    def _add_up(self, start: Start, found: list[Model]) -> Model:
        """Add up the workers' moves, each of which was taken as many times as long.

        How many times is safe for all to expect, the moves themselves tell (CoCoA+, Ma et al.,
        2015): the squared length of their sum, over the sum of their squared lengths. For rows that
        share few features that is nearer to 1 than to the number of workers.
        """
        before = start.now or Model(*(np.zeros_like(part) for part in found[0]))
        moves = [[part - was for part, was in zip(m, before, strict=True)] for m in found]
        weight = (self.local.alpha, bias_pull(self.local._loss()))
        total = [np.sum(each, axis=0) for each in zip(*moves, strict=True)]
        alone = sum(c * float(np.sum(p * p)) for m in moves for c, p in zip(weight, m, strict=True))
        together = sum(c * float(np.sum(p * p)) for c, p in zip(weight, total, strict=True))
        if alone > 0.0:
            most = float(len(found))
            self.crowd = min(most, max(1.0, _SAFELY * together / alone))
        return Model(*(was + t / start.crowd for was, t in zip(before, total, strict=True)))

    def epoch(self, report: Report = lambda rows: None) -> Record:
        """Take an epoch."""
        record = self.enduring(self.take_epoch)
        self.crew.progress()
        report(self.n)
        return record

    def objective(self) -> float:
        """Return F of the solution, the mean over the models."""
        loss = sum(self.crew.values(self._ask_all("loss", self.mean))) / self.n
        coef = self.solution()["coef_"]
        return float(loss + self.local.alpha / 2 * np.einsum("kf,kf->k", coef, coef).mean())

    @property
    def states(self) -> list[Progress]:
        """What a checkpoint keeps."""
        nothing = Model(np.zeros((0, 0)), np.zeros(0))
        g, idle = (
            np.concatenate([np.zeros(0, kind), *(memory[k].ravel() for memory in self.memory)])
            for k, kind in enumerate((np.float64, np.int8))
        )
        how = np.array([self.rounds]), np.array([self.crowd]), self.pull
        return [Progress(self.now or nothing, self.mean or nothing, *how, g, idle)]

    @states.setter
    def states(self, states: list[Progress]) -> None:
        self._restore(states)
        self.enduring(self.set_up)

    def _restore(self, states: list[Progress]) -> None:
        (progress,) = states
        models = len(progress.now.coef)
        self.now, self.mean = (progress.now, progress.mean) if models else (None, None)
        self.rounds, self.pull = int(progress.rounds[0]), progress.pull
        self.crowd = float(progress.crowd[0])
        self.memory = []
        if progress.g.size:
            ends = models * np.cumsum(self.sizes)[:-1]
            parts = zip(np.split(progress.g, ends), np.split(progress.idle, ends), strict=True)
            self.memory = [PerExample(*(p.reshape(models, -1) for p in part)) for part in parts]

    @property
    def generators(self) -> list[np.random.Generator]:
        """What a checkpoint keeps of random numbers: none is drawn from it."""
        return [np.random.default_rng(self.seed)]

    def solution(self) -> dict[str, Any]:
        """Return what the estimator would have if it ended here."""
        assert self.mean is not None
        return {"coef_": self.mean.coef, "intercept_": self.mean.intercept}


def mean_model(models: list[Model], weights: list[int]) -> Model:
    """Return the weighted mean."""
    coef, intercept = (np.stack(each) for each in zip(*models, strict=True))
    share = np.array(weights) / sum(weights)
    return Model(np.tensordot(share, coef, 1), np.tensordot(share, intercept, 1))
