"""Worker pools: objects held by workers, in this process or on other machines."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

Future = Any  # a value that may not be computed yet; calls accept it in place of the value


class LostWorkerError(Exception):
    """A worker was lost, and with it the object that it held."""


class WorkerPool(ABC):
    """Workers that hold one object each, and call its methods.

    Calls return futures immediately. A worker runs its calls one at a time, in the order in which
    they were submitted; different workers may run at the same time.
    """

    size: int  # workers

    @abstractmethod
    def assign(self, worker: int, make: Callable[..., Any], *args: Any) -> Future:
        """Make ``make(*args)`` the object that a worker holds."""

    @abstractmethod
    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Call a method of the object that a worker holds.

        Returns a future, or a list of `returns` futures if the method returns several values.
        """

    def call_all(self, method: str, *args: Any) -> list[Future]:
        """Call a method of every worker's object, with the same arguments."""
        return [self.call(worker, method, *args) for worker in range(self.size)]

    @abstractmethod
    def share(self, value: Any) -> Future:
        """Make a value available to all workers; return a future to pass to calls."""

    @abstractmethod
    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for futures; return their values.

        Raises
        ------
        LostWorkerError
            If a value is lost with its worker.
        """


class LocalWorkerPool(WorkerPool):
    """Holds the objects in this process: calls run immediately, and futures are plain values."""

    def __init__(self, size: int):
        self.size = size
        self.objects: list[Any] = [None] * size

    def assign(self, worker: int, make: Callable[..., Any], *args: Any) -> Future:
        """Make ``make(*args)`` the object that a worker holds."""
        self.objects[worker] = make(*args)

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Call a method of the object that a worker holds."""
        return getattr(self.objects[worker], method)(*args)

    def share(self, value: Any) -> Future:
        """Return the value itself."""
        return value

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Return the values."""
        return list(futures)
