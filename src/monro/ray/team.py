"""Actors that hold something each, and what to do when one is lost."""

import logging
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from monro.softmax.rounds import LostError

log = logging.getLogger("monro.ray")

_START = 60.0  # seconds that a process takes to start, at most, once there is room for it
_GONE = (RayActorError, WorkerCrashedError, NodeDiedError, ObjectLostError, OwnerDiedError)


def fetch(references: Sequence[Any]) -> list[Any]:
    """Return the values; raise LostError where they are gone, and what a task raised as it is."""
    try:
        return list(ray.get(list(references)))
    except _GONE as error:
        raise LostError(_first_line(error)) from error
    except RayTaskError as error:
        if isinstance(error.cause, _GONE):
            raise LostError(_first_line(error.cause)) from error
        raise error.cause from None


class Holder:
    """Has one thing, and does what it is asked."""

    held: Any

    def hold(self, make: Callable[..., Any], *args: Any) -> None:
        """Make the thing."""
        self.held = make(*args)

    def call(self, method: str, *args: Any) -> Any:
        """Ask it."""
        return getattr(self.held, method)(*args)

    def sees(self, file: Path) -> bool:
        """Tell whether this file is here, too."""
        return file.exists()


_Actor: Any = ray.remote(max_restarts=0, max_task_retries=0)(Holder)


class Team:
    """As many actors as there are parts, spread over the cluster: a `Crew`.

    Use it in a ``with`` block, which lets them go.

    Parameters
    ----------
    size : int
    cpus : float
        Of each actor.
    patience : float
        Seconds to wait for room in the cluster.
    max_failures : int
        Times in a row that someone may be lost before a step forward is made.
    """

    def __init__(self, size: int, *, cpus: float, patience: float, max_failures: int):
        self.size = size
        self.cpus = cpus
        self.patience = patience
        self.max_failures = max_failures
        self.failures = 0
        self.losses = 0  # in all
        self.actors: list[Any] = []
        there = available_cpus()
        if there < size * cpus:
            raise ClusterError(
                f"{size} workers need {size * cpus:g} CPUs, the cluster has {there:g}: add nodes, "
                "or give fewer workers or a smaller cpus_per_worker"
            )
        try:
            hired = self._hire(cpus)
        except LostError as error:
            self.revive(error, [])
        else:
            if not hired:
                self.revive(LostError("a node is gone"), [])

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *error: object) -> None:
        self._dismiss()

    def _dismiss(self) -> None:
        for actor in self.actors:
            ray.kill(actor)
        self.actors = []

    def _hire(self, cpus: float) -> bool:
        """Start actors and wait for them; return False if the cluster shrinks meanwhile."""
        options = {"num_cpus": cpus, "scheduling_strategy": "SPREAD"}
        self.actors = [_Actor.options(**options).remote() for _ in range(self.size)]
        ready = [actor.__ray_ready__.remote() for actor in self.actors]
        wait = self.patience + _START
        end = time.monotonic() + wait
        while True:
            try:
                ray.get(ready, timeout=1.0)
            except GetTimeoutError:
                free, there = ray.available_resources().get("CPU", 0.0), available_cpus()
                if there < math.floor(1000 * self.size * cpus) / 1000:
                    self._dismiss()
                    return False
                if time.monotonic() > end:
                    self._dismiss()
                    raise ClusterError(
                        f"{self.size} workers of {cpus:g} CPUs found no room within {wait:g} s: "
                        f"{free:g} of {there:g} CPUs are free; wait for other jobs, or give fewer "
                        "workers"
                    ) from None
            except _GONE as error:
                raise LostError(_first_line(error)) from error
            else:
                return True

    # ------------------------------------------------------------------------------------ the crew

    def assign(self, number: int, make: Callable[..., Any], *args: Any) -> Any:
        """Let one have a new thing."""
        return self.actors[number].hold.remote(make, *args)

    def call(self, number: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Ask one; return references to what it will return."""
        actor = self.actors[number]
        return actor.call.options(num_returns=returns).remote(method, *args)

    def values(self, handles: Sequence[Any]) -> list[Any]:
        """Return the values, once they are there."""
        return fetch(handles)

    def all_see(self, folder: Path) -> bool:
        """Tell whether a folder of the driver is everyone's."""
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".seen-") as file:
            return all(self.values([each.sees.remote(Path(file.name)) for each in self.actors]))

    # -------------------------------------------------------------------------------------- losses

    def progress(self) -> None:
        """Note that a step forward was made: what was lost before is overcome."""
        self.failures = 0

    def revive(self, error: LostError, needed: Sequence[Any]) -> None:
        """Hire a new team; on what is left of the cluster, if it does not recover in time.

        What it needs may have been lost, too: it is made again before, while there is room.
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
            self._dismiss()
            _bring_back(needed)
            try:
                while not self._hire(self._wait_for_room()):
                    log.warning("the cluster has shrunk while workers were hired")
                return
            except LostError as again:
                error = again

    def _wait_for_room(self) -> float:
        """Return how many CPUs a worker may have, once the cluster has recovered, or in time."""
        end = time.monotonic() + self.patience
        while available_cpus() < self.size * self.cpus and time.monotonic() < end:
            time.sleep(0.2)
        there = available_cpus()
        if there == 0.0:
            raise ClusterError("the cluster has no CPU left: start its nodes, and run again")
        if there >= self.size * self.cpus:
            return self.cpus
        log.warning("the cluster has shrunk: %d workers share %g CPUs", self.size, there)
        return math.floor(1000 * there / self.size) / 1000  # Ray counts thousandths


def _bring_back(needed: Sequence[Any]) -> None:
    """Let Ray make again what was lost with a node."""
    try:
        fetch([_is_there.remote(each) for each in needed])
    except LostError as lost:
        raise ClusterError(
            f"rows were lost with their node ({lost}), and Ray cannot make them again: read the "
            "data set from files (ray.data.read_parquet), not from memory"
        ) from lost


@ray.remote(num_cpus=0)
def _is_there(what: Any) -> None:
    pass


def connect(address: str | None) -> int:
    """Join a cluster, or start one here; return how many nodes it has."""
    ray.init(address=address, logging_level="WARNING", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return sum(node["Alive"] for node in ray.nodes())


def available_cpus() -> float:
    """Return the CPUs of the nodes that are alive."""
    return float(sum(n["Resources"].get("CPU", 0.0) for n in ray.nodes() if n["Alive"]))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
