"""RayLinearClassifier: a linear classifier whose rows are distributed over a cluster."""

from pathlib import Path
from typing import Any, Self

from sklearn.callback import with_callbacks
from sklearn.exceptions import NotFittedError

from monro.checks.parameters import check_choice, check_integer
from monro.fitting.epochs import train
from monro.fitting.run import LabelledRows, Run
from monro.linear.base import suited_solver
from monro.linear.classifier import LinearClassifier
from monro.linear.parameters import check_combination, check_linear_parameters
from monro.linear.solvers import SOLVERS
from monro.linear.trainer import LinearFit
from monro.ray.datasets import BlockedRows, make_shards
from monro.ray.estimator import RayEstimator
from monro.ray.linear_trainer import STATES, AveragingTrainer
from monro.saving.checkpoint import Checkpoint


class RayLinearClassifier(RayEstimator):
    """A linear classifier on a Ray cluster: rows need not fit into one machine, weights must.

    More than two classes are trained one-vs-rest, as in LinearClassifier. Workers may be lost at
    any time: their epoch is repeated.

    Parameters
    ----------
    workers : int, optional
        Actors, each of which holds a shard of the rows; by default as many as the cluster has CPUs.
    cpus_per_worker : float
        CPUs that each worker reserves; it computes on one thread.
    max_failures : int
        The number of losses of workers, without a completed epoch in between, that are tolerated.
    patience : float
        Seconds to wait for free CPUs, at the start and after a loss. After that, new workers share
        the CPUs that are left.
    rounds_per_epoch : int
        How often workers combine their weights per epoch: more rounds converge faster, but send
        more bytes.
    solver : {"auto", "aisgd", "asgd", "dual"}
        Averaged implicit or explicit stochastic gradient descent, where the mean over workers is
        taken; or dual coordinate ascent, where the workers' changes are added up (CoCoA+). "auto"
        chooses as in LinearClassifier.
    loss, alpha, learning_rate, decay, max_epochs, tol, fit_intercept, class_weight
        As in LinearClassifier.
    random_state, verbose
        As in LinearClassifier.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, history_, n_iter_, learning_rate_
        As in LinearClassifier.
    losses_ : int
        The number of times that workers were lost.

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
            Columns of numbers; or one column of vectors of equal length; or, for sparse rows, the
            column of feature indices (from 0) and the column of their values. By default all
            columns but the labels.
        n_features : int, optional
            The width of sparse rows; by default one more than the highest feature index.
        checkpoint : str or Path, optional
            A file on the driver's machine. If the driver is killed, the same call resumes from it.

        Returns
        -------
        self
        """
        local = self._local()
        check_linear_parameters(local, local._losses)
        check_choice("solver", self.solver, ["auto", "aisgd", "asgd", "dual"])
        check_integer("rounds_per_epoch", self.rounds_per_epoch, 1)
        self._check_cluster_parameters()
        seed = self._seed()
        blocks, _, class_weight = self._read(dataset, label_column, feature_columns, n_features)
        self._copy_attributes(local)
        size = self._count_workers(blocks.n)
        rows = make_shards(blocks, self.classes_, class_weight, size, blocks.dtype, seed)
        self.solver_ = local.solver = self._choose_solver(rows.mean_sqnorm, blocks)
        check_combination(local, self.solver_)
        run = Run(self, LabelledRows(dataset, self.classes_, class_weight), seed)
        if checkpoint is not None:
            data = f"{rows.fingerprint}, {size} shards"
            run.checkpoint = Checkpoint(checkpoint, self, data, STATES)
        with self._worker_pool(size) as workers:
            trainer = AveragingTrainer(workers, local, rows, self.rounds_per_epoch, seed)
            trainer.with_retries(trainer.set_up)
            if self.learning_rate == "auto":
                trainer.with_retries(trainer.choose_rate)
            takes_rate = SOLVERS[self.solver_].takes_rate
            self.learning_rate_ = local.learning_rate if takes_rate else None
            train(run, trainer)
            self.losses_ = workers.losses
        return self

    def _choose_solver(self, mean_sqnorm: float, rows: BlockedRows) -> str:
        """Resolve solver="auto", as LinearClassifier does."""
        if self.solver != "auto":
            return self.solver
        if self.learning_rate != "auto" or self.decay != 1 or self.alpha == 0:
            return "aisgd"
        return suited_solver(mean_sqnorm / (self.alpha * rows.n), rows.n, rows.width)

    def _local(self) -> LinearClassifier:
        """Return the same model for one machine."""
        given = self._local_parameters()
        given.pop("rounds_per_epoch")
        return LinearClassifier(**given)

    def to_local(self) -> LinearClassifier:
        """Return the fitted model as an ordinary estimator."""
        if not hasattr(self, "coef_"):
            raise NotFittedError("call fit before to_local")
        local = self._copy_attributes(self._local())
        local.coef_, local.intercept_ = self.coef_, self.intercept_
        local.solver_ = self.solver_
        local._fitted = LinearFit(self.solver_, local.schedule, bool(self.fit_intercept))
        return local
