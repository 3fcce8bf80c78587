"""What a fit of a tagger is: from a corpus to weights."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from monro import checks, persist
from monro.crf.corpus import FeatureMap, encode_all, make_map
from monro.crf.decode import SCHEMES
from monro.crf.fitted import FittedTagger
from monro.crf.problem import Problem, objective, ridge_strength
from monro.crf.reading import Corpus, Known
from monro.crf.solvers import SOLVERS, Solver, choose_rate, resize, solution_of
from monro.crf.storage import STATES, from_contents, same_shape, to_contents
from monro.crf.train import Trainer
from monro.errors import DivergenceError
from monro.estimator import of_mean_one
from monro.fitting import Record, run_epochs
from monro.rows import Array

_RUNAWAY = 10.0  # times the loss of weights that are all 0


class Tagger(FittedTagger):
    """Base of CRFTagger, which adds its parameters, and where sentences come from."""

    def _known(self) -> Known | None:
        """Return what to go on from, if there is anything."""
        if not hasattr(self, "_weights"):
            return None
        bits = getattr(self._map.single, "bits", None)
        for name, now, then in (
            ("solver", self.solver, self.solver_),
            ("hash_bits", self.hash_bits, bits),
        ):
            if now != then:
                raise ValueError(
                    f"{name}={now!r}: the model was fitted with {then!r}; use that, or fit anew"
                )
        return Known(self._map, self.classes_)

    def _check_parameters(self) -> None:
        if self.template is not None and not isinstance(self.template, (str, Path)):
            raise ValueError(f"template={self.template!r}: give a template, or the name of a file")
        checks.choice("solver", self.solver, SOLVERS)
        checks.number("c", self.c, 0.0, open_at_low=True)
        checks.whole("cutoff", self.cutoff, 1)
        checks.rate("learning_rate", self.learning_rate)
        checks.whole("max_epochs", self.max_epochs, 1)
        checks.epochs(self)
        for name in ("shuffle", "warm_start"):
            checks.flag(name, getattr(self, name))
        if self.constraints is not None:
            checks.choice("constraints", self.constraints, SCHEMES)
        if self.hash_bits is not None:
            checks.whole("hash_bits", self.hash_bits, 4)
            if self.hash_bits > 30:
                raise ValueError(f"hash_bits={self.hash_bits!r}: give at most 30")
            if self.cutoff > 1:
                raise ValueError("cutoff: features that are hashed are not counted; use cutoff=1")

    def _prepare(
        self, corpus: Corpus, weight: Array, known: Known | None, seen: float, folder: Path | None
    ) -> tuple[FeatureMap, Problem]:
        """Give features their numbers; return them, and what is to be minimised."""
        features = make_map(
            corpus.blocks,
            corpus.templates,
            corpus.n_columns,
            cutoff=self.cutoff,
            hash_bits=self.hash_bits,
            known=None if known is None else known.features,
        )
        sizes = features.single.size, features.pairs.size, corpus.classes.size
        _check_size(*sizes)
        if features.single.size == 0 and self.cutoff > 1 and features.extractor.has_single:
            raise ValueError(
                f"cutoff={self.cutoff}: no feature occurs that often; use a smaller one"
            )
        data = encode_all(corpus.blocks(), features, folder)
        return features, Problem(data, corpus.tags, weight, *sizes, ridge_strength(self.c, seen))

    def _trainer(
        self,
        corpus: Corpus,
        known: Known | None,
        features: FeatureMap,
        problem: Problem,
        rng: np.random.Generator,
        epochs: int,
    ) -> Trainer:
        """Return who takes the epochs, from where the model is."""
        if self.learning_rate != "auto":
            rate = float(self.learning_rate)
        elif known is None:
            rate = choose_rate(problem, self.solver, rng)
        else:
            rate = self.learning_rate_
        solver = Solver(problem, self.solver, rate, self._threads())
        state = solver.start()
        if known is not None:
            kept = np.asarray(np.searchsorted(corpus.classes, known.classes))
            sizes = problem.n_features, problem.n_pairs, problem.n_tags
            state = resize(self._state, known.classes.size, kept, *sizes, solver.first_gain)
        learnt = {
            "_map": features,
            "classes_": corpus.classes,
            "solver_": self.solver,
            "learning_rate_": rate,
        }
        return Trainer(solver, state, shuffle=self.shuffle, rng=rng, epochs=epochs, known=learnt)

    def _fit(
        self,
        read: Callable[[Any], Corpus],
        known: Known | None,
        checkpoint: str | Path | None,
        folder: str | Path | None = None,
        *,
        in_files: bool = False,
    ) -> Self:
        """Fit to what `read` returns, given a folder for its files if it may have any."""
        with ExitStack() as stack:
            room = None
            if in_files:
                # Files that are mapped go on without their names: whatever ends the process, no
                # more than what it was making ready is left behind.
                room = Path(
                    stack.enter_context(
                        TemporaryDirectory(prefix="monro-", dir=folder, ignore_cleanup_errors=True)
                    )
                )
            corpus = read(room)
            seen = float(corpus.weight.sum())
            weight = of_mean_one(corpus.weight)
            features, problem = self._prepare(corpus, weight, known, seen, room)
        X, seed = _matrix(problem), self._seed()
        data = problem.data  # all that tells data sets apart
        told = problem.y, data.starts, data.pair_indptr, data.pairs
        saved = self._checkpoint(checkpoint, X, told, problem.weight, STATES, same_shape)
        if saved is not None and saved.found:
            seed = saved.about("seed")
        rng = np.random.default_rng(seed)
        epochs = 0 if known is None else self.n_iter_
        watching = self.tol is not None or self.verbose > 0 or self._watched
        chosen = self.learning_rate == "auto" and known is None
        with self._trainer(corpus, known, features, problem, rng, epochs) as trainer:
            run_epochs(
                self,
                trainer,
                X=X,
                y=problem.y,
                title=f"CRF, {self.solver}",
                visits=problem.size,
                check=lambda record: self._check_finite(record, trainer.solver),
                finish=lambda: self._finish(trainer, seen),
                seed=seed,
                evaluate=(lambda: {"objective": objective(problem, trainer.weights())})
                if watching
                else None,
                monitor="objective" if self.tol is not None else None,
                checkpoint=saved,
                chosen=f"learning_rate={trainer.solver.eta0:g}" if chosen else "",
            )
        return self

    def _partial_fit(self, corpus: Corpus, known: Known | None) -> Self:
        """Take one epoch, from where the model is."""
        seen = float(corpus.weight.sum()) + (0.0 if known is None else self._seen)
        features, problem = self._prepare(corpus, corpus.weight, known, seen, None)
        rng = np.random.default_rng(self._seed())
        epochs = 0 if known is None else self.n_iter_
        with self._trainer(corpus, known, features, problem, rng, epochs) as trainer:
            record = trainer.epoch()
            self._check_finite(record, trainer.solver)
            self._finish(trainer, seen)
        before = [] if known is None else self.history_
        self.n_iter_ = epochs + 1
        self.history_ = [*before, record | {"epoch": self.n_iter_}]
        return self

    def _check_finite(self, record: Record, solver: Solver) -> None:
        problem = solver.problem
        lengths = np.diff(problem.data.starts)
        at_zero = float(problem.weight @ lengths) / problem.size * np.log(problem.n_tags)
        if not record["loss"] <= _RUNAWAY * max(at_zero, 1.0):
            raise self._divergence(f" in epoch {record['epoch']}", solver.eta0)

    def _divergence(self, when: str, rate: float) -> DivergenceError:
        cure = "" if self.learning_rate == "auto" else "use a smaller learning_rate or 'auto', or "
        return DivergenceError(
            f"solver={self.solver!r} diverged{when} with learning_rate={rate:g}: {cure}scale the "
            "values of the features"
        )

    def _finish(self, trainer: Trainer, seen: float) -> None:
        solution = trainer.solution()
        if not all(np.isfinite(part).all() for part in solution["_weights"]):
            raise self._divergence("", trainer.solver.eta0)
        self.__dict__.update(solution)
        self._seen = seen

    # ---------------------------------------------------------------------------------------- files

    def _to_contents(self) -> persist.Contents:
        return to_contents(self)

    def _from_contents(self, contents: persist.Contents) -> None:
        from_contents(self, contents)
        self._weights = solution_of(self._state)


def _check_size(n_features: int, n_pairs: int, n_tags: int) -> None:
    parameters = n_features * n_tags + n_pairs * n_tags**2
    if parameters > 1 << 33:
        raise ValueError(
            f"the model would have {parameters:,} weights; use a larger cutoff, hash_bits, or "
            "fewer tags"
        )


def _matrix(problem: Problem) -> sp.csr_matrix:
    data = problem.data
    shape = (data.indptr.size - 1, problem.n_features)
    matrix = sp.csr_matrix(shape, dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = data.values, data.features, data.indptr
    return matrix
