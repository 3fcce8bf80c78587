"""The base of the estimators on Ray."""

from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state

from monro.checks.labels import apply_class_weight, class_codes, label_arrays
from monro.checks.parameters import check_integer, check_number
from monro.ray.datasets import BlockedRows, feature_columns_of, read_blocks
from monro.ray.worker_pool import RayWorkerPool, available_cpus
from monro.rows import Array

T = TypeVar("T")
_CLUSTER_PARAMETERS = ("workers", "cpus_per_worker", "max_failures", "patience")
_SHARED_ATTRIBUTES = (
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "history_",
    "n_iter_",
    "learning_rate_",
)


class RayEstimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators on Ray."""

    workers: int | None
    cpus_per_worker: float
    max_failures: int
    patience: float

    def _local_parameters(self) -> dict[str, Any]:
        """Return the parameters that the estimator for one machine also has."""
        given: dict[str, Any] = self.get_params()
        return {name: value for name, value in given.items() if name not in _CLUSTER_PARAMETERS}

    def _check_cluster_parameters(self) -> None:
        if isinstance(self.alpha, str):
            raise ValueError(f"alpha={self.alpha!r} is not for Ray: give a number")
        if self.workers is not None:
            check_integer("workers", self.workers, 1)
        check_integer("max_failures", self.max_failures, 0)
        for name in ("cpus_per_worker", "patience"):
            check_number(name, getattr(self, name), 0.0, open_at_low=True)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _labels(self, y: Array) -> Array:
        """Return the labels that callbacks see: those that occur, since the rows are not here."""
        return y

    def _count_workers(self, most: int) -> int:
        """Return `workers`, or as many as the cluster has CPUs for, but not more than `most`."""
        return min(self.workers or max(1, int(available_cpus() / self.cpus_per_worker)), most)

    def _worker_pool(self, size: int) -> RayWorkerPool:
        return RayWorkerPool(
            size,
            cpus=self.cpus_per_worker,
            patience=self.patience,
            max_failures=self.max_failures,
        )

    def _read(
        self,
        dataset: Any,
        label_column: str,
        feature_columns: list[str] | None,
        n_features: int | None,
        *,
        dtype: str | None = None,
        classes: Any = None,
    ) -> tuple[BlockedRows, Array, Array]:
        """Read a data set, and set ``classes_`` and the number and names of the features.

        Returns
        -------
        rows : BlockedRows
        counts : array
            The number of examples of each class.
        class_weight : array
            The weight of a row of each class.
        """
        rows = read_blocks(dataset, label_column, feature_columns, n_features, dtype)
        counts = self._set_classes(rows, classes)
        self._set_features(rows, feature_columns or feature_columns_of(dataset, label_column))
        return rows, counts, weights_of_classes(self.class_weight, self.classes_, counts)

    def _set_classes(self, rows: BlockedRows, declared: Any) -> Array:
        """Set ``classes_``, declared or found; return the number of examples of each."""
        classes = rows.classes
        if declared is not None:
            named, _ = label_arrays({"classes": declared, "the data set": rows.classes})
            classes = np.unique(named)
        if classes.size < 2:
            raise ValueError(
                f"the data set holds one class only ({classes.tolist()[0]!r}): a classifier needs "
                "at least 2 classes"
            )
        counts = np.zeros(classes.size, np.int64)
        counts[class_codes(rows.classes, classes, "is not among classes")] = rows.counts
        self.classes_ = classes
        return counts

    def _set_features(self, rows: BlockedRows, columns: list[str]) -> None:
        """Set the number of features, and their names if each is a column."""
        self.n_features_in_ = rows.width
        self.__dict__.pop("feature_names_in_", None)
        if len(columns) == rows.width and not rows.sparse:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _copy_attributes(self, local: T) -> T:
        """Copy the common attributes to the estimator for one machine; return it."""
        for name in _SHARED_ATTRIBUTES:
            if hasattr(self, name):
                setattr(local, name, getattr(self, name))
        return local


def weights_of_classes(class_weight: Any, classes: Array, counts: Array) -> Array:
    """Return the weight of a row of each class, of mean 1 over all rows."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        per_class = 1.0 / np.maximum(counts, 1)
    else:
        one, codes = np.ones(classes.size), np.arange(classes.size)
        per_class = apply_class_weight(one, class_weight, classes, codes)
    if (per_class[counts > 0] == 0.0).any():
        raise ValueError("class_weight: a class has the weight 0; leave out its rows instead")
    return np.asarray(per_class * (counts.sum() / (counts @ per_class)))
