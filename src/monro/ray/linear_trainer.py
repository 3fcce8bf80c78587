"""Linear models trained by workers in parallel on row shards, with weights combined each round.

With averaged stochastic gradient descent the common weights after a round are the mean over the
workers, weighted by their examples. The solution is the mean of all iterates, of all workers, from
the second epoch on (paper 002).

With the dual solver (`linear/algorithms/dual.py`) the weights are a sum over examples, so the
workers' changes are added up (CoCoA+, Ma et al., 2015). Each worker keeps g_i of its examples, and
multiplies its step lengths by σ′, to allow for the changes of the others. It converges to the
optimum of one machine.
"""

from typing import Any, NamedTuple

import numpy as np

from monro.errors import DivergenceError
from monro.fitting.trainer import Record, Report
from monro.fitting.worker_pool import Future, LostWorkerError
from monro.linear.algorithms.dual import bias_prox_strength
from monro.linear.classifier import LinearClassifier
from monro.linear.descent_state import ExampleMemory
from monro.linear.solvers import SOLVERS
from monro.ray.datasets import DistributedRows
from monro.ray.linear_worker import Iterates, LinearModel, LinearWorker, RoundResult, RoundStart
from monro.ray.retrying_trainer import RetryingTrainer
from monro.ray.worker_pool import RayWorkerPool
from monro.rows import Array

_SIGMA_MARGIN = 1.2  # times the σ′ that the last round would have needed


class AveragingState(NamedTuple):
    """The state of training. Checkpoints contain these names of the fields."""

    now: LinearModel  # where the next round begins
    mean: LinearModel  # of the iterates; of the dual solver the same as `now`
    rounds: Array  # (1,): number of rounds in the mean
    crowd: Array  # (1,): σ′ of the dual solver
    pull: Array  # (models,): Σ_i g_i
    g: Array  # of each example, by worker, then by model
    idle: Array  # consecutive visits that did not change g


STATES = {"Progress": AveragingState, "Model": LinearModel}  # by their names in checkpoints
_NO_MODEL = LinearModel(np.zeros((0, 0)), np.zeros(0))


class AveragingTrainer(RetryingTrainer):
    """Takes epochs of rounds.

    The whole state is in this process: if a worker is lost, the epoch is repeated.

    Parameters
    ----------
    workers : RayWorkerPool
        One for each row shard.
    estimator : LinearClassifier
        The same model on one machine, with the solver's name and the classes.
    rows : DistributedRows
    rounds_per_epoch : int
    seed : int
    """

    def __init__(
        self,
        workers: RayWorkerPool,
        estimator: LinearClassifier,
        rows: DistributedRows,
        rounds_per_epoch: int,
        seed: int,
    ):
        super().__init__(np.random.default_rng(seed))  # for checkpoints: nothing is drawn from it
        self.workers = workers
        self.estimator = estimator
        self.shards = rows.shards
        self.sizes = rows.sizes
        self.rounds_per_epoch = rounds_per_epoch
        self.seed = seed
        self.size = self.rows_per_epoch = sum(rows.sizes)
        self.title = f"{estimator.solver}, {workers.size} × Ray"
        self.iterates = Iterates()
        self.is_dual = SOLVERS[estimator.solver].remembers_examples
        self.sigma = float(workers.size)
        self.derivative_sum = np.zeros(0)  # (models,): Σ_i g_i
        self.memory: list[ExampleMemory] = []  # of each worker, at the end of the last epoch

    @property
    def inputs(self) -> list[Future]:
        """The inputs of new workers: the row shards."""
        return self.shards

    def set_up(self) -> None:
        """Assign each worker its shard, and the memory of the examples in it."""
        workers = self.workers
        futures = [
            workers.assign(k, LinearWorker, self.estimator, shard, self.size)
            for k, shard in enumerate(self.shards)
        ]
        futures += [workers.call(k, "set_memory", *memory) for k, memory in enumerate(self.memory)]
        workers.results(futures)

    def restore_workers(self) -> None:
        """Set up new workers from the state in this process."""
        self.set_up()

    def choose_rate(self) -> None:
        """Set the learning rate of all workers to the median of the rates they find."""
        rates = self.workers.results(self.workers.call_all("rate"))
        if rates[0] is not None:
            self.estimator.learning_rate_ = self.estimator.learning_rate = float(np.median(rates))
            self.set_up()

    # ----------------------------------------------------------------------------------- an epoch

    def visit_all(self, report: Report) -> Record:
        """Take the rounds of an epoch."""
        before = self.states
        loss, steps = 0.0, 0
        try:
            for piece in range(self.rounds_per_epoch):
                results = self._round(piece)
                loss += sum(result.loss for result in results)
                steps += sum(result.steps for result in results)
        except LostWorkerError:
            self._set_states(before)
            raise
        report(self.size)
        return {"loss": loss / max(1, steps)}

    def _round(self, piece: int) -> list[RoundResult]:
        """Take a round, in which the workers step on one of the pieces of their shards."""
        workers, pieces = self.workers, self.rounds_per_epoch
        epochs = self.epochs + piece / pieces
        start = RoundStart(self.iterates.now, epochs, self.epochs > 0, self.sigma)
        if self.is_dual and self.derivative_sum.size and piece == 0:
            start = start._replace(now=self._anchored())
        shared = workers.share(start)
        results: list[RoundResult] = workers.results(
            [
                workers.call(k, "round", shared, piece, pieces, [self.seed, self.epochs, k])
                for k in range(workers.size)
            ]
        )
        if self.is_dual:
            self.memory = [result.memory for result in results if result.memory is not None]
            self.derivative_sum = np.sum([result.derivative_sum for result in results], axis=0)
            total = self._add_moves(start, [result.now for result in results])
            self.iterates = Iterates(total, total)
        else:
            self.iterates = self.iterates.average(results, self.sizes, counts=start.averages)
        return results

    def _anchored(self) -> LinearModel:
        """Return the model as the dual solver begins an epoch: see `Dual.begin_epoch`."""
        now = self.iterates.now
        assert now is not None
        loss, intercepts = self.estimator._loss(), bool(self.estimator.fit_intercept)
        h_bias = 1.0 / (bias_prox_strength(loss) * self.size) if intercepts else 0.0
        return now._replace(intercept=now.intercept - h_bias * self.derivative_sum)

    def _add_moves(self, start: RoundStart, ends: list[LinearModel]) -> LinearModel:
        """Return the model after adding the workers' changes; choose σ′ for the next round.

        Changes are σ′ times as long as those of one machine, so their sum is divided by σ′. The
        smallest safe σ′ can be measured: the squared length of the sum of the changes, divided by
        the sum of their squared lengths (Ma et al., 2015). It is between 1, if the workers' rows
        have no feature in common, and the number of workers.
        """
        before = start.now or LinearModel(*(np.zeros_like(part) for part in ends[0]))
        moves = [[part - was for part, was in zip(end, before, strict=True)] for end in ends]
        weight = (float(self.estimator.alpha), bias_prox_strength(self.estimator._loss()))
        total = [np.sum(each, axis=0) for each in zip(*moves, strict=True)]
        sum_of_squares = sum(
            c * float(np.sum(p * p)) for m in moves for c, p in zip(weight, m, strict=True)
        )
        square_of_sum = sum(c * float(np.sum(p * p)) for c, p in zip(weight, total, strict=True))
        if sum_of_squares > 0.0:
            self.sigma = min(
                float(len(ends)), max(1.0, _SIGMA_MARGIN * square_of_sum / sum_of_squares)
            )
        return LinearModel(*(was + t / start.sigma for was, t in zip(before, total, strict=True)))

    # -------------------------------------------------------------------------------- measurements

    def check(self, record: Record) -> None:
        """Raise DivergenceError if the loss or a weight is not finite."""
        if not (np.isfinite(record["loss"]) and np.isfinite(self.solution()["coef_"]).all()):
            raise DivergenceError(f"solver={self.estimator.solver!r} diverged: use solver='aisgd'")

    def objective(self) -> float:
        """Return the mean objective of the models."""
        return self.with_retries(self._objective)

    def _objective(self) -> float:
        losses = self.workers.results(self.workers.call_all("loss", self.iterates.mean))
        coef = self.solution()["coef_"]
        ridge = float(self.estimator.alpha) / 2 * np.einsum("kf,kf->k", coef, coef).mean()
        return float(sum(losses) / self.size + ridge)

    # ------------------------------------------------------------------------------------- results

    def solution(self) -> dict[str, Any]:
        """Return `coef_` and `intercept_`."""
        mean = self.iterates.mean
        assert mean is not None
        return {"coef_": mean.coef, "intercept_": mean.intercept}

    @property
    def states(self) -> list[AveragingState]:
        """The iterates, and the memory of the dual solver."""
        g, idle = (
            np.concatenate([np.zeros(0, dtype), *(memory[k].ravel() for memory in self.memory)])
            for k, dtype in enumerate((np.float64, np.int8))
        )
        now, mean, rounds = self.iterates
        return [
            AveragingState(
                now or _NO_MODEL,
                mean or _NO_MODEL,
                np.array([rounds]),
                np.array([self.sigma]),
                self.derivative_sum,
                g,
                idle,
            )
        ]

    @states.setter
    def states(self, states: list[AveragingState]) -> None:
        self._set_states(states)
        self.with_retries(self.set_up)

    def _set_states(self, states: list[AveragingState]) -> None:
        (state,) = states
        models = len(state.now.coef)
        self.iterates = Iterates()
        if models:
            self.iterates = Iterates(state.now, state.mean, int(state.rounds[0]))
        self.sigma, self.derivative_sum = float(state.crowd[0]), state.pull
        self.memory = []
        if state.g.size:
            ends = models * np.cumsum(self.sizes)[:-1]
            parts = zip(np.split(state.g, ends), np.split(state.idle, ends), strict=True)
            self.memory = [ExampleMemory(*(p.reshape(models, -1) for p in part)) for part in parts]
