"""RayLinearClassifier: a linear classifier whose examples are shared out over a cluster."""

import zlib
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import NotFittedError

from monro import checks
from monro.errors import DivergenceError
from monro.fitting import Record, run_epochs
from monro.linear import _checks
from monro.linear.base import suited_solver
from monro.linear.classifier import LinearClassifier
from monro.ray.averaging import STATES, Averaging
from monro.ray.base import RayEstimator, weights_of_classes
from monro.ray.shards import Table, deal, other_columns, read
from monro.storage import Checkpoint


class RayLinearClassifier(RayEstimator):
    """A linear classifier on a Ray cluster: rows need not fit into one machine, weights must.

    Two classes directly, more one-vs-rest, as LinearClassifier. Workers may be lost at any time:
    the round they were in is taken again.

    Parameters
    ----------
    workers : int, optional
        Shards of the rows, each with an actor; by default as many as the cluster has CPUs.
    cpus_per_worker : float
        What each reserves; it computes on one thread.
    max_failures : int
        Times in a row, without a round in between, that workers may be lost.
    patience : float
        Seconds to wait for room in the cluster, at the start and after a loss. Workers that are
        left then share what CPUs there are.
    rounds_per_epoch : int
        How often workers share what they found: more rounds lead further, and move more bytes.
    solver : {"auto", "aisgd", "asgd", "dual"}
        Averaged implicit or explicit stochastic gradient descent, whose means are averaged; or dual
        coordinate ascent, whose steps are added up (CoCoA+). "auto" chooses as LinearClassifier.
    loss, alpha, learning_rate, decay, max_epochs, tol, fit_intercept, class_weight
        As of LinearClassifier.
    random_state, verbose
        As of LinearClassifier.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, history_, n_iter_, learning_rate_
        As of LinearClassifier.
    losses_ : int
        How often workers were lost.

    Examples
    --------
    >>> import ray
    >>> from monro.ray import RayLinearClassifier
    >>> rows = [{"x": k % 2, "z": 1 - k % 2, "label": k % 2} for k in range(300)]
    >>> dataset = ray.data.from_items(rows)  # or ray.data.read_parquet("train/")
    >>> model = RayLinearClassifier(loss="log", workers=2, random_state=0)
    >>> model.fit(dataset, label_column="label").to_local().predict([[1.0, 0.0]])
    array([1])
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        cpus_per_worker: float = 1.0,
        max_failures: int = 3,
        patience: float = 60.0,
        rounds_per_epoch: int = 16,
        loss: str = "hinge",
        solver: str = "auto",
        alpha: float = 1e-5,
        learning_rate: float | str = "auto",
        decay: float = 1.0,
        max_epochs: int = 10,
        tol: float | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.workers = workers
        self.cpus_per_worker = cpus_per_worker
        self.max_failures = max_failures
        self.patience = patience
        self.rounds_per_epoch = rounds_per_epoch
        self.loss = loss
        self.solver = solver
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.decay = decay
        self.max_epochs = max_epochs
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        dataset: Any,
        label_column: str,
        feature_columns: list[str] | None = None,
        *,
        n_features: int | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        dataset : ray.data.Dataset
        label_column : str
        feature_columns : list of str, optional
            Numbers, or one column of vectors of a length, or two of lists: the features of sparse
            rows, counted from 0, and their values. By default all columns but the labels.
        n_features : int, optional
            The width of sparse rows; by default the highest feature and one.
        checkpoint : str or Path, optional
            A file of the driver's. Should it be lost, the same call goes on from there.

        Returns
        -------
        self
        """
        local = self._local()
        _checks.parameters(local, local._losses)
        checks.choice("solver", self.solver, ["auto", "aisgd", "asgd", "dual"])
        checks.whole("rounds_per_epoch", self.rounds_per_epoch, 1)
        self._check_cluster()
        seed = self._seed()
        table = read(dataset, label_column, feature_columns, n_features)
        counts = self._learn_classes(table)
        self._learn_features(table, feature_columns or other_columns(dataset, label_column))
        self._as_local(local)
        size = self._count_workers(table.n)
        per_class = weights_of_classes(self.class_weight, self.classes_, counts)
        shards, notes = deal(table, self.classes_, per_class, size, table.dtype, seed)
        self.solver_ = self._choose_solver(sum(note.sqnorm for note in notes) / table.n, table)
        local.solver = self.solver_
        _checks.combination(local, self.solver_)
        rounds = Averaging(local, shards, notes, self.rounds_per_epoch, seed)
        data = f"{zlib.crc32(repr(notes).encode()):08x}, {size} shards"
        saved = None if checkpoint is None else Checkpoint(checkpoint, self, data, STATES)
        with self._team(size) as rounds.crew:
            rounds.enduring(rounds.set_up)
            if self.learning_rate == "auto":
                rounds.enduring(rounds.choose_rate)
            self.learning_rate_ = None if local.solver == "dual" else local.learning_rate

            def check(record: Record) -> None:
                if not (
                    np.isfinite(record["loss"]) and np.isfinite(rounds.solution()["coef_"]).all()
                ):
                    raise DivergenceError(f"solver={self.solver_!r} diverged: use solver='aisgd'")

            watching = self.tol is not None or self.verbose > 0
            run_epochs(
                self,
                rounds,
                X=dataset,
                y=self.classes_,
                title=f"{self.solver_}, {size} × Ray",
                visits=table.n,
                check=check,
                finish=lambda: self.__dict__.update(rounds.solution()),
                seed=seed,
                evaluate=(lambda: {"objective": rounds.enduring(rounds.objective)})
                if watching
                else None,
                monitor="objective" if self.tol is not None else None,
                checkpoint=saved,
            )
            self.losses_ = rounds.crew.losses
        return self

    def _choose_solver(self, mean_sqnorm: float, table: Table) -> str:
        if self.solver != "auto":
            return self.solver
        if self.learning_rate != "auto" or self.decay != 1 or self.alpha == 0:
            return "aisgd"
        return suited_solver(mean_sqnorm / (self.alpha * table.n), table.n, table.width)

    def _local(self) -> LinearClassifier:
        given = self._shared_parameters()
        given.pop("rounds_per_epoch")
        return LinearClassifier(**given)

    def to_local(self) -> LinearClassifier:
        """Return the fitted model as an ordinary estimator."""
        if not hasattr(self, "coef_"):
            raise NotFittedError("call fit before to_local")
        local = self._as_local(self._local())
        local.coef_, local.intercept_ = self.coef_, self.intercept_
        local.solver_ = self.solver_
        local._form = (self.solver_, local.schedule, bool(self.fit_intercept))
        return local
