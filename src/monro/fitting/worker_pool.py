"""Worker pools: objects held by workers, in this process or on other machines."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

Future = Any  # a value that may not be computed yet; calls take it like the value itself


class LostWorkerError(Exception):
    """A worker is gone, and the object that it held with it."""


class WorkerPool(ABC):
    """Workers that hold one object each, and call its methods.

    Calls return futures at once. A worker makes its calls one at a time, in the order in which they
    were asked for; different workers may run at the same time.
    """

    size: int  # workers

    @abstractmethod
    def assign(self, worker: int, make: Callable[..., Any], *args: Any) -> Future:
        """Let a worker hold ``make(*args)`` from now on."""

    @abstractmethod
    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Call a method of the object that a worker holds.

        Returns a future; of a method that returns several values, a future for each.
        """

    def call_all(self, method: str, *args: Any) -> list[Future]:
        """Call a method of every worker's object, with the same arguments."""
        return [self.call(worker, method, *args) for worker in range(self.size)]

    @abstractmethod
    def share(self, value: Any) -> Future:
        """Send a value to where all workers can read it; return what to pass to calls."""

    @abstractmethod
    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for futures; return their values.

        Raises
        ------
        LostWorkerError
            If a value is lost with its worker.
        """


class LocalWorkerPool(WorkerPool):
    """Holds the objects in this process: a call is made at once, and a future is its value."""

    def __init__(self, size: int):
        self.size = size
        self.objects: list[Any] = [None] * size

    def assign(self, worker: int, make: Callable[..., Any], *args: Any) -> Future:
        """Let a worker hold ``make(*args)`` from now on."""
        self.objects[worker] = make(*args)

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Call a method of the object that a worker holds."""
        return getattr(self.objects[worker], method)(*args)

    def share(self, value: Any) -> Future:
        """Return the value: it is here already."""
        return value

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Return the values."""
        return list(futures)
