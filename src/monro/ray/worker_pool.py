"""A worker pool of Ray actors, which are replaced when one is lost."""

import logging
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import ray
import ray.data
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    OwnerDiedError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)

from monro.errors import ClusterError
from monro.fitting.worker_pool import Future, LostWorkerError, WorkerPool

log = logging.getLogger("monro.ray")

_START_SECONDS = 60.0  # the longest start of a process, once there are CPUs for it
_LOSSES = (RayActorError, WorkerCrashedError, NodeDiedError, ObjectLostError, OwnerDiedError)


def fetch(references: Sequence[Any]) -> list[Any]:
    """Return the values of references; raise the exceptions of tasks as they are.

    Raises
    ------
    LostWorkerError
        If a value is lost with its process or node.
    """
    try:
        return list(ray.get(list(references)))
    except _LOSSES as error:
        raise LostWorkerError(_first_line(error)) from error
    except RayTaskError as error:
        if isinstance(error.cause, _LOSSES):
            raise LostWorkerError(_first_line(error.cause)) from error
        raise error.cause from None


class PoolWorker:
    """The actor of a worker: holds an object, and calls its methods."""

    held: Any

    def assign(self, make: Callable[..., Any], *args: Any) -> None:
        """Hold the object ``make(*args)``."""
        self.held = make(*args)

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the object."""
        return getattr(self.held, method)(*args)

    def can_access(self, file: Path) -> bool:
        """Return whether a file exists on this machine."""
        return file.exists()


_Actor: Any = ray.remote(max_restarts=0, max_task_retries=0)(PoolWorker)


class RayWorkerPool(WorkerPool):
    """Actors, spread over the cluster.

    Use it in a ``with`` block, which ends them.

    Parameters
    ----------
    size : int
        The number of workers.
    cpus : float
        The CPUs of each worker.
    patience : float
        Seconds to wait for free CPUs.
    max_failures : int
        The number of losses, without progress in between, that are tolerated.

    Attributes
    ----------
    losses : int
        The number of times that workers were lost so far.
    """

    def __init__(self, size: int, *, cpus: float, patience: float, max_failures: int):
        self.size = size
        self.cpus = cpus
        self.patience = patience
        self.max_failures = max_failures
        self.failures = 0  # in a row
        self.losses = 0
        self.actors: list[Any] = []
        available = available_cpus()
        if available < size * cpus:
            raise ClusterError(
                f"{size} workers need {size * cpus:g} CPUs, the cluster has {available:g}: add "
                "nodes, or give fewer workers or a smaller cpus_per_worker"
            )
        try:
            started = self._start_actors(cpus)
        except LostWorkerError as error:
            self.replace_workers(error, [])
        else:
            if not started:
                self.replace_workers(LostWorkerError("a node is gone"), [])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._kill_actors()

    def _kill_actors(self) -> None:
        for actor in self.actors:
            ray.kill(actor)
        self.actors = []

    def _start_actors(self, cpus: float) -> bool:
        """Start actors and wait for them; return False if the cluster shrinks meanwhile."""
        options = {"num_cpus": cpus, "scheduling_strategy": "SPREAD"}
        self.actors = [_Actor.options(**options).remote() for _ in range(self.size)]
        ready = [actor.__ray_ready__.remote() for actor in self.actors]
        wait = self.patience + _START_SECONDS
        end = time.monotonic() + wait
        while True:
            try:
                ray.get(ready, timeout=1.0)
            except GetTimeoutError:
                free, available = ray.available_resources().get("CPU", 0.0), available_cpus()
                if available < math.floor(1000 * self.size * cpus) / 1000:
                    self._kill_actors()
                    return False
                if time.monotonic() > end:
                    self._kill_actors()
                    raise ClusterError(
                        f"{self.size} workers of {cpus:g} CPUs did not start within {wait:g} s: "
                        f"{free:g} of {available:g} CPUs are free; wait for other jobs, or give "
                        "fewer workers"
                    ) from None
            except _LOSSES as error:
                raise LostWorkerError(_first_line(error)) from error
            else:
                return True

    # -------------------------------------------------------------------------------------- calls

    def assign(self, worker: int, make: Callable[..., Any], *args: Any) -> Future:
        """Make ``make(*args)`` the object that a worker holds."""
        return self.actors[worker].assign.remote(make, *args)

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Call a method of the object that a worker holds."""
        actor = self.actors[worker]
        return actor.call.options(num_returns=returns).remote(method, *args)

    def share(self, value: Any) -> Future:
        """Put a value into the object store."""
        return ray.put(value)

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for futures; return their values."""
        return fetch(futures)

    def all_can_access(self, folder: Path) -> bool:
        """Return whether all workers can access a folder of the driver."""
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".seen-") as file:
            path = Path(file.name)
            return all(self.results([actor.can_access.remote(path) for actor in self.actors]))

    # ------------------------------------------------------------------------------------- losses

    def reset_failures(self) -> None:
        """Count failures from 0 again, after progress."""
        self.failures = 0

    def replace_workers(self, error: LostWorkerError, inputs: Sequence[Future]) -> None:
        """Start new workers, with fewer CPUs each if the cluster does not recover in time.

        Parameters
        ----------
        error : LostWorkerError
            What happened.
        inputs : sequence of futures
            The inputs of the workers. If some of them are lost, they are computed again before the
            new workers take the CPUs.

        Raises
        ------
        ClusterError
            If there were too many failures, or the inputs or all CPUs are lost.
        """
        while True:
            self.failures += 1
            self.losses += 1
            if self.failures > self.max_failures:
                raise ClusterError(
                    f"workers were lost {self.failures} times in a row ({error}): see Ray's logs "
                    "for why (often memory), then run again with the same checkpoint"
                ) from error
            log.warning("a worker was lost (%s); going back to the last checkpoint", error)
            self._kill_actors()
            _recompute_lost(inputs)
            try:
                while not self._start_actors(self._wait_for_cpus()):
                    log.warning("the cluster has shrunk while workers were started")
                return
            except LostWorkerError as another:
                error = another

    def _wait_for_cpus(self) -> float:
        """Wait until the cluster has recovered or time is up; return the CPUs for each worker."""
        end = time.monotonic() + self.patience
        while available_cpus() < self.size * self.cpus and time.monotonic() < end:
            time.sleep(0.2)
        available = available_cpus()
        if available == 0.0:
            raise ClusterError("the cluster has no CPU left: start its nodes, and run again")
        if available >= self.size * self.cpus:
            return self.cpus
        log.warning("the cluster has shrunk: %d workers share %g CPUs", self.size, available)
        return math.floor(1000 * available / self.size) / 1000  # Ray's resolution is a thousandth


def _recompute_lost(inputs: Sequence[Future]) -> None:
    """Let Ray recompute inputs that were lost with a node."""
    try:
        fetch([_wait_for.remote(each) for each in inputs])
    except LostWorkerError as lost:
        raise ClusterError(
            f"rows were lost with their node ({lost}), and Ray cannot make them again: read the "
            "data set from files (ray.data.read_parquet), not from memory"
        ) from lost


@ray.remote(num_cpus=0)
def _wait_for(value: Any) -> None:
    """Do nothing: a task that ends when its argument is available."""


def connect(address: str | None) -> int:
    """Connect to a cluster, or start one on this machine; return the number of its nodes."""
    ray.init(address=address, logging_level="WARNING", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return sum(node["Alive"] for node in ray.nodes())


def available_cpus() -> float:
    """Return the CPUs of the nodes that are alive."""
    return float(sum(n["Resources"].get("CPU", 0.0) for n in ray.nodes() if n["Alive"]))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
