"""RaySoftmaxClassifier: a softmax whose classes and examples are shared out over a cluster."""

import shutil
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import ray
import scipy.sparse as sp
from sklearn.callback import with_callbacks
from sklearn.exceptions import NotFittedError

from monro.errors import CheckpointError, DivergenceError
from monro.fitting import Record, Report, run_epochs
from monro.persist import Contents
from monro.ray.base import Enduring, RayEstimator, weights_of_classes
from monro.ray.shards import Note, Table, deal, other_columns, read
from monro.ray.team import Team, fetch
from monro.rows import Array
from monro.softmax.classifier import SoftmaxClassifier
from monro.softmax.layout import n_blocks
from monro.softmax.neighbours import LEARNT_FROM, features_are_cells, find_clusters
from monro.softmax.parts import Deal, Shard
from monro.softmax.placing import place_classes, sums_by_class
from monro.softmax.plans import check_parameters, explain, make_plan
from monro.softmax.rates import choose_rate
from monro.softmax.rounds import Examples, Rounds, gathered
from monro.softmax.solvers import Plan, rate_at
from monro.softmax.start import first_intercepts
from monro.softmax.stream import new_stream
from monro.softmax.stretch import Judged, rows_to_judge
from monro.storage import Checkpoint

_SHARDS = 4  # for each worker: while one is under way, others are there
_MANIFEST = "manifest.monro"


class Training(Enduring, Rounds):
    """Rounds that go back to the last checkpoint when someone is lost, and come again.

    All that is random in them depends on where they are, not on how they came there: the result is
    that of rounds in which nobody is lost.
    """

    crew: Team
    kept: tuple[int, float, Path] | None = None  # epochs and seconds then, and the folder
    states: tuple[()] = ()  # nothing of the driver's own: parts write their files themselves

    @property
    def generators(self) -> list[np.random.Generator]:
        """What a checkpoint keeps of random numbers: none is drawn from it."""
        return [np.random.default_rng(self.seed)]

    def take_epoch(self) -> Record:
        """Take an epoch; raise LostError if someone is lost."""
        return Rounds.epoch(self)

    def needed(self) -> list[Any]:
        """Return the shards."""
        return self.examples.shards

    def epoch(self, report: Report = lambda rows: None) -> Record:
        """Take an epoch."""
        record = self.enduring(lambda: Rounds.epoch(self, report))
        self.crew.progress()
        return record

    def solution(self) -> dict[str, Any]:
        """Return what the estimator would have if it ended here."""
        return {"_deal": self.deal, "_parts": self.enduring(self.parts_weights)}

    def keep(self, folder: Path) -> None:
        """Write a checkpoint, from now on the one to go back to."""
        self.enduring(lambda: self.save(folder))
        self.kept = self.epochs, self.seconds, folder

    def go_on(self, epochs: int, seconds: float, folder: Path) -> None:
        """Begin at a checkpoint that an earlier run has kept."""
        self.kept = epochs, seconds, folder
        self.epochs, self.seconds = epochs, seconds
        self.enduring(self.recall)

    def recall(self) -> None:
        """Make the parts what they were at the last checkpoint, or at the beginning."""
        self.epochs, seconds, folder = self.kept or (0, 0.0, None)
        self.seconds = max(self.seconds, seconds)
        self.set_up()
        if folder is None:
            self.begin()
        else:
            self.load(folder)


class Folder(Checkpoint):
    """A checkpoint whose parts are written by whoever holds them, in a folder all of them see."""

    def __init__(self, folder: Path, estimator: Any, data: str):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / _MANIFEST, estimator, data, {})

    def _of(self, epochs: int) -> Path:
        return self.folder / f"epoch-{epochs}"

    def restore(self, trainer: Any) -> None:
        """Put parts and counters where they were."""
        super().restore(trainer)
        trainer.go_on(trainer.epochs, trainer.seconds, self._of(trainer.epochs))

    def _write(self, contents: Contents, trainer: Any) -> None:
        """Write the parts, then what tells that they are there; then the last one may go."""
        folder = self._of(trainer.epochs)
        trainer.keep(folder)
        super()._write(contents, trainer)
        for other in self.folder.glob("epoch-*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)


def forget(folder: Path) -> None:
    """Remove a checkpoint, and its folder if nothing else is in it."""
    (folder / _MANIFEST).unlink(missing_ok=True)
    for kept in folder.glob("epoch-*"):
        shutil.rmtree(kept)
    with suppress(OSError):
        folder.rmdir()


class RaySoftmaxClassifier(RayEstimator):
    """Softmax regression on a Ray cluster: neither rows nor weights need fit into one machine.

    Classes are dealt out to workers, examples to shards that go from worker to worker; steps are
    those of ``SoftmaxClassifier(solver="implicit")``, and its default settings hold here, too.
    Workers may be lost at any time: the fit goes on from the last checkpoint.

    Parameters
    ----------
    workers : int, optional
        Parts of the classes, each with an actor; by default as many as the cluster has CPUs.
    cpus_per_worker : float
        What each reserves; it computes on one thread.
    max_failures : int
        Times in a row, without an epoch in between, that workers may be lost.
    patience : float
        Seconds to wait for room in the cluster, at the start and after a loss. Workers that are
        left then share what CPUs there are.
    sampling : {"auto", "block", "frequency", "neighbour"}
        As of SoftmaxClassifier.
    classes_per_step : int, optional
        A multiple of 16; shared out among the workers, at least 32 for each.
    alpha, learning_rate, epoch_decay, max_epochs, tol, classes, class_weight
        As of SoftmaxClassifier.
    fit_intercept, dtype, random_state, verbose
        As of SoftmaxClassifier.

    Attributes
    ----------
    classes_ : array
    n_features_in_ : int
    history_ : list of dict
        As of SoftmaxClassifier.
    n_iter_ : int
    learning_rate_ : float
    losses_ : int
        How often workers were lost.

    Examples
    --------
    >>> import ray
    >>> from monro.ray import RaySoftmaxClassifier
    >>> rows = [{"x": k % 3 == 0, "z": k % 3 == 1, "label": k % 3} for k in range(300)]
    >>> dataset = ray.data.from_items(rows)  # or ray.data.read_parquet("train/")
    >>> model = RaySoftmaxClassifier(workers=2, random_state=0)
    >>> model.fit(dataset, label_column="label").to_local().predict([[1.0, 0.0]])
    array([0])
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        cpus_per_worker: float = 1.0,
        max_failures: int = 3,
        patience: float = 60.0,
        sampling: str = "auto",
        classes_per_step: int | None = None,
        alpha: float = 0.0,
        learning_rate: float | str = "auto",
        epoch_decay: float | None = None,
        max_epochs: int = 50,
        tol: float | None = None,
        classes: Any = None,
        class_weight: Any = None,
        fit_intercept: bool = True,
        dtype: str = "float32",
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.workers = workers
        self.cpus_per_worker = cpus_per_worker
        self.max_failures = max_failures
        self.patience = patience
        self.sampling = sampling
        self.classes_per_step = classes_per_step
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.epoch_decay = epoch_decay
        self.max_epochs = max_epochs
        self.tol = tol
        self.classes = classes
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------ fitting

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
        n_features : int, optional
            Both as of `RayLinearClassifier.fit`.
        checkpoint : str or Path, optional
            A folder that all nodes see. Should the driver be lost, the same call goes on from
            there. By default a temporary folder, where all nodes see the driver's: otherwise the
            loss of a worker takes the fit back to its beginning.

        Returns
        -------
        self
        """
        local = self._local()
        check_parameters(local)
        self._check_cluster()
        seed = self._seed()
        table = read(dataset, label_column, feature_columns, n_features, self.dtype)
        counts = self._learn_classes(table, self.classes)
        self._learn_features(table, feature_columns or other_columns(dataset, label_column))
        per_class = weights_of_classes(self.class_weight, self.classes_, counts)
        parts = self._count_workers(min(table.n, n_blocks(counts.size)))
        n_shards = min(_SHARDS * parts, table.n)
        shards, notes = deal(table, self.classes_, per_class, n_shards, self.dtype, seed)
        training = self._training(local, table, counts, per_class, shards, notes, parts, seed)
        with (
            self._team(parts) as team,
            tempfile.TemporaryDirectory(prefix="monro-", ignore_cleanup_errors=True) as room,
        ):
            training.crew = team
            data = f"{zlib.crc32(repr(notes).encode()):08x}, {parts} parts"
            saved = None
            if training.enduring(lambda: team.all_see(Path(checkpoint or room))):
                saved = Folder(Path(checkpoint or room), self, data)
            elif checkpoint is not None:
                raise CheckpointError(
                    f"{checkpoint}: not all workers see this folder; give one that all nodes share"
                )
            self._run(local, training, saved, seed, dataset)
            self.losses_ = team.losses
        return self

    def _local(self) -> SoftmaxClassifier:
        """Return the same model for one machine."""
        return SoftmaxClassifier(formulation="raman", **self._shared_parameters())

    def _training(
        self,
        local: SoftmaxClassifier,
        table: Table,
        counts: Array,
        per_class: Array,
        shards: list[Any],
        notes: list[Note],
        parts: int,
        seed: int,
    ) -> Training:
        """Return the training, for a crew to come."""
        rng = np.random.default_rng([seed, 5])
        mean_sqnorm = sum(note.sqnorm for note in notes) / table.n
        plan = make_plan(local, counts.size, mean_sqnorm)

        def sums() -> Array:
            told = [_sums.remote(shard, counts.size, [seed, 7]) for shard in shards]
            return np.asarray(sum(fetch(told)))

        slots = place_classes(plan, counts, rng, sums)
        clusters = None
        if plan.sampling == "neighbour" and not (
            table.sparse and features_are_cells(table.n, table.width, table.nonzeros)
        ):
            X, _, _ = _some(shards, notes, min(table.n, LEARNT_FROM))
            clusters = ray.put(find_clusters(X, rng))
        sizes = [note.n for note in notes]
        size = rows_to_judge(table.n, counts.size)
        X, codes, weight = _some(shards, notes, size)
        judged = Judged(X.astype(np.float64), codes, weight / weight.sum(), size / table.n)
        examples = Examples(
            shards, sizes, table.width, table.sparse, table.nonzeros, mean_sqnorm, clusters
        )
        bias, _ = first_intercepts(counts * per_class, plan.damping > 0.0)
        how = Deal(slots, counts, parts)
        return Training(None, examples, plan, how, bias, judged, seed)  # type: ignore[arg-type]

    def _run(
        self,
        local: SoftmaxClassifier,
        training: Training,
        saved: Folder | None,
        seed: int,
        dataset: Any,
    ) -> None:
        """Find a rate, and take the epochs."""
        plan, trials = training.plan, 0
        if saved is not None and saved.found:
            begun = saved.about("history")[0]["rate"]
            plan = plan._replace(eta0=begun / rate_at(plan._replace(eta0=1.0), 0))
        else:
            training.enduring(training.set_up)
            if np.isnan(plan.eta0):
                rate, trials = training.enduring(
                    lambda: choose_rate(training.at_rate, np.random.default_rng([seed, 6]))
                )
                plan = plan._replace(eta0=rate)
        training.plan = training.now = plan
        if saved is None or not saved.found:
            training.enduring(training.begin)
        self.learning_rate_ = plan.eta0
        self.plan_ = plan._asdict()
        watching = self.tol is not None or self.verbose > 0

        def evaluate() -> Record:
            return {"log_loss": training.enduring(training.judged_loss)}

        def check(record: Record) -> None:
            if not np.isfinite(record["loss"]):
                raise DivergenceError("the loss is no number: scale the features")

        run_epochs(
            self,
            training,  # type: ignore[arg-type]
            X=dataset,
            y=self.classes_,
            title=f"softmax, {training.crew.size} × Ray",
            visits=training.size * training.crew.size,
            check=check,
            finish=lambda: self.__dict__.update(training.solution()),
            seed=seed,
            evaluate=evaluate if watching else None,
            monitor="log_loss" if self.tol is not None else None,
            checkpoint=saved,
            chosen=explain(local, plan, self.classes_.size, trials),
        )

    def to_local(self) -> SoftmaxClassifier:
        """Return the fitted model as an ordinary estimator, its weights all in this process."""
        if not hasattr(self, "_parts"):
            raise NotFittedError("call fit before to_local")
        local = self._as_local(self._local())
        local.plan_ = self.plan_
        local._weights = gathered(self._deal, (fetch([part])[0] for part in self._parts))
        local._epochs = self.n_iter_
        counts = np.empty_like(self._deal.counts)
        counts[self._deal.slots] = self._deal.counts
        local._stream = new_stream(counts, int(counts.sum()), Plan(**self.plan_))
        return local


# ---------------------------------------------------------------------------------- looking at rows


@ray.remote
def _sums(shard: Shard, n_classes: int, seed: Any) -> Array:
    return sums_by_class(shard.X, shard.y, n_classes, np.random.default_rng(seed))


@ray.remote
def _take(shard: Shard, n: int) -> tuple[Any, Array, Array]:
    rows = np.linspace(0, shard.y.size - 1, n).astype(np.int64)
    return shard.X[rows], shard.y[rows], shard.weight[rows].astype(np.float64)


def _some(shards: list[Any], notes: list[Note], n: int) -> tuple[Any, Array, Array]:
    """Return rows from all shards, about n of them."""
    total = sum(note.n for note in notes)
    wanted = [-(-n * note.n // total) for note in notes]
    told = [_take.remote(s, k) for s, k in zip(shards, wanted, strict=True)]
    X, y, weight = zip(*fetch(told), strict=True)
    rows = sp.csr_matrix(sp.vstack(X)) if sp.issparse(X[0]) else np.concatenate(X)
    return rows, np.concatenate(y), np.concatenate(weight)
