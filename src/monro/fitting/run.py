"""One fit of an estimator: the rows it learns from, the seed, the hold-out and the checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.model_selection import train_test_split

from monro.errors import CheckpointError
from monro.fitting.conditioning import AS_GIVEN, Conditioning
from monro.mapped.chunked_arrays import is_mapped
from monro.mapped.matrices import select_rows, slice_mapped_rows
from monro.rows import Array
from monro.saving.checkpoint import Checkpoint, fingerprint

# Attributes that alpha="auto" sets before the whole fit begins.
CHOSEN = ("alpha_", "alpha_path_", "calibration_", "c_")


class LabelledRows(NamedTuple):
    """Rows, their labels or targets, and their weights."""

    X: Any
    y: Array
    weight: Array

    def take(self, rows: Array) -> "LabelledRows":
        """Return some of the rows."""
        return LabelledRows(self.X[rows], self.y[rows], self.weight[rows])

    def split_mapped(self, cut: int) -> tuple["LabelledRows", "LabelledRows"]:
        """Return the rows before and after `cut`: stores are shuffled, and too large to copy."""
        parts = ((0, cut), (cut, self.y.size))
        before, after = (
            LabelledRows(slice_mapped_rows(self.X, a, b), self.y[a:b], self.weight[a:b])
            for a, b in parts
        )
        return before, after

    def without_zero_weights(self) -> "LabelledRows":
        """Leave out rows of weight 0: a solver must not even visit them."""
        if np.count_nonzero(self.weight) == self.weight.size:
            return self
        kept = np.flatnonzero(self.weight)
        return LabelledRows(select_rows(self.X, kept), self.y[kept], self.weight[kept])

    def with_mean_weight_one(self) -> "LabelledRows":
        """Scale the weights to a mean of 1."""
        return self._replace(weight=with_mean_one(self.weight))


def with_mean_one(weight: Array) -> Array:
    """Return weights scaled to a mean of 1."""
    total = weight.sum()
    return weight if total == weight.size else weight * (weight.size / total)


@dataclass
class Run:
    """A fit in progress; `monro.fitting.epochs.train` takes its epochs.

    Parameters
    ----------
    estimator : Estimator
        Has max_epochs (or max_steps), tol, verbose and the callbacks, and gets the results.
    rows : LabelledRows
        The training rows.
    seed : int
        The seed of all random numbers of the fit.
    checkpoint : Checkpoint, optional
        The file that progress is saved to, and resumed from if it exists.
    held_out : LabelledRows, optional
        Rows whose loss decides when to stop.
    conditioning : Conditioning
        Of the columns, measured on the training rows. All rows here are as they were given.
    most_epochs : int, optional
        So many are enough, even if the estimator allows for more.
    labels_of : callable, optional
        Makes of `rows.y` what the user gave, for callbacks; by default the estimator's `_labels`.
    """

    estimator: Any
    rows: LabelledRows
    seed: int
    checkpoint: Checkpoint | None = None
    held_out: LabelledRows | None = None
    conditioning: Conditioning = AS_GIVEN
    most_epochs: int | None = None
    labels_of: Callable[[Array], Any] | None = None

    @classmethod
    def start(
        cls,
        estimator: Any,
        rows: LabelledRows,
        path: str | Path | None,
        kinds: Mapping[str, Any],
        identity: tuple[Array, ...] | None = None,
    ) -> Self:
        """Begin a fit, or resume one from its checkpoint.

        Parameters
        ----------
        estimator, rows
            As in the class.
        path : str or Path, optional
            The checkpoint's file.
        kinds : mapping of str to type
            The states that a checkpoint may hold, by their names in files.
        identity : tuple of arrays, optional
            What identifies the labels in the fingerprint of the data; by default `rows.y`.
        """
        seed = estimator._seed()
        if path is None:
            return cls(estimator, rows, seed)
        if estimator.warm_start:
            raise ValueError(
                "checkpoint: it does not hold the fit that warm_start continues from; use "
                "warm_start=False"
            )
        labels = (rows.y,) if identity is None else identity
        checkpoint = Checkpoint(path, estimator, fingerprint(rows.X, labels, rows.weight), kinds)
        if not checkpoint.found:
            return cls(estimator, rows, seed, checkpoint)
        by_epochs = getattr(estimator, "max_steps", None) is None
        if by_epochs and checkpoint.about("epochs") > estimator.max_epochs:
            raise CheckpointError(
                f"{path}: this checkpoint has {checkpoint.about('epochs')} epochs already, "
                f"max_epochs is {estimator.max_epochs}; give another path, or delete it"
            )
        return cls(estimator, rows, checkpoint.about("seed"), checkpoint)

    @property
    def epochs(self) -> int:
        """The most epochs to take: max_epochs, or as many as max_steps begins."""
        steps: int | None = getattr(self.estimator, "max_steps", None)
        if steps is None:
            most = int(self.estimator.max_epochs)
            return most if self.most_epochs is None else min(most, self.most_epochs)
        return -(-steps // self.rows.y.size)

    @property
    def resumes(self) -> bool:
        """Whether the fit resumes from a checkpoint."""
        return self.checkpoint is not None and self.checkpoint.found

    @property
    def chosen(self) -> dict[str, Any]:
        """What alpha="auto" had chosen, if the fit resumes from a checkpoint."""
        if self.checkpoint is None or not self.checkpoint.found:
            return {}
        found: dict[str, Any] = self.checkpoint.about("chosen")
        return found

    def hold_out(self) -> None:
        """Hold rows out if the estimator uses early stopping; scale the weights to mean 1."""
        if self.estimator.early_stopping:
            fraction = self.estimator.validation_fraction
            strata = self.estimator._strata(self.rows.y)
            self.rows, self.held_out = _split(self.rows, fraction, strata, self.seed)
        self.rows = self.rows.with_mean_weight_one()


def _split(
    rows: LabelledRows, fraction: float, strata: Array | None, seed: int
) -> tuple[LabelledRows, LabelledRows]:
    """Return the training rows, and the rows held out."""
    y = rows.y
    if is_mapped(rows.X) and y.size > 1:
        return rows.split_mapped(min(y.size - 1, max(1, round(y.size * (1 - fraction)))))
    try:
        training, held_out = train_test_split(
            np.arange(y.size), test_size=fraction, stratify=strata, random_state=seed
        )
    except ValueError as error:
        raise ValueError(
            f"early_stopping: {y.size} rows cannot be split with validation_fraction="
            f"{fraction} ({error}); give more rows or early_stopping=False"
        ) from None
    return rows.take(training), rows.take(held_out)
