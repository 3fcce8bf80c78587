"""What the estimators on Ray share: workers, classes and their weights, and coming back."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state

from monro import checks
from monro.ray.shards import Table
from monro.ray.team import Team, available_cpus
from monro.rows import Array
from monro.softmax.rounds import LostError

T = TypeVar("T")
_OWN = ("workers", "cpus_per_worker", "max_failures", "patience")


class RayEstimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators on Ray."""

    workers: int | None
    cpus_per_worker: float
    max_failures: int
    patience: float

    def _shared_parameters(self) -> dict[str, Any]:
        """Return the parameters that the same model on one machine has, too."""
        return {name: value for name, value in self.get_params().items() if name not in _OWN}

    def _check_cluster(self) -> None:
        """Check the parameters that only a cluster has."""
        if self.workers is not None:
            checks.whole("workers", self.workers, 1)
        checks.whole("max_failures", self.max_failures, 0)
        for name in ("cpus_per_worker", "patience"):
            checks.number(name, getattr(self, name), 0.0, open_at_low=True)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _count_workers(self, most: int) -> int:
        """Return how many workers there will be: as many as were asked for, or fit, or help."""
        return min(self.workers or max(1, int(available_cpus() / self.cpus_per_worker)), most)

    def _team(self, size: int) -> Team:
        return Team(
            size,
            cpus=self.cpus_per_worker,
            patience=self.patience,
            max_failures=self.max_failures,
        )

    def _learn_classes(self, table: Table, declared: Any = None) -> Array:
        """Set ``classes_``; return how many examples each has."""
        classes = table.classes
        if declared is not None:
            named, _ = checks.labels({"classes": declared, "the data set": table.classes})
            classes = np.unique(named)
        if classes.size < 2:
            raise ValueError(
                f"the data set holds one class only ({classes.tolist()[0]!r}): a classifier needs "
                "at least 2 classes"
            )
        counts = np.zeros(classes.size, np.int64)
        counts[checks.codes(table.classes, classes, "is not among classes")] = table.counts
        self.classes_ = classes
        return counts

    def _learn_features(self, table: Table, columns: list[str]) -> None:
        """Set what is known of the features: how many, and their names if they are columns."""
        self.n_features_in_ = table.width
        self.__dict__.pop("feature_names_in_", None)
        if len(columns) == table.width and not table.sparse:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _as_local(self, local: T) -> T:
        """Give the model of one machine what this one knows."""
        for name in (
            "classes_",
            "n_features_in_",
            "feature_names_in_",
            "history_",
            "n_iter_",
            "learning_rate_",
        ):
            if hasattr(self, name):
                setattr(local, name, getattr(self, name))
        return local


def weights_of_classes(class_weight: Any, classes: Array, counts: Array) -> Array:
    """Return the weight of a row of each class, of mean 1 over all rows."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        per_class = 1.0 / np.maximum(counts, 1)
    else:
        one, codes = np.ones(classes.size), np.arange(classes.size)
        per_class = checks.class_weighted(one, class_weight, classes, codes)
    if (per_class[counts > 0] == 0.0).any():
        raise ValueError("class_weight: a class has the weight 0; leave out its rows instead")
    return np.asarray(per_class * (counts.sum() / (counts @ per_class)))


class Enduring(ABC):
    """A trainer that goes back when someone of its team is lost, and comes again.

    What is random in it must depend on where it is, not on how it came there: then the result is
    that of a training in which nobody is lost.
    """

    crew: Team
    epochs: int

    @abstractmethod
    def take_epoch(self) -> Any:
        """Take an epoch; raise LostError if someone is lost."""

    @abstractmethod
    def recall(self) -> None:
        """Be where the last checkpoint was; set `epochs`. Raise LostError if someone is lost."""

    @abstractmethod
    def needed(self) -> list[Any]:
        """Return references that must be there to go on."""

    def enduring(self, work: Callable[[], T]) -> T:
        """Do some work with the team, coming back to it as often as someone is lost."""
        epochs = self.epochs
        while True:
            try:
                while self.epochs < epochs:
                    self.take_epoch()
                return work()
            except LostError as error:
                self._go_back(error)

    def _go_back(self, error: LostError) -> None:
        while True:
            try:
                self.crew.revive(error, self.needed())
                self.recall()
            except LostError as again:
                error = again
            else:
                return
