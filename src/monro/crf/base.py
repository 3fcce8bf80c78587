"""The fit of a tagger: from a corpus to a trainer."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from monro.checks.parameters import (
    check_choice,
    check_epochs,
    check_flag,
    check_integer,
    check_number,
    check_rate,
)
from monro.crf.corpus import Corpus
from monro.crf.decode import SCHEMES
from monro.crf.feature_map import Vocabulary, encode_all, make_map
from monro.crf.path_model import c_of, choose_c
from monro.crf.predicting import FittedTagger
from monro.crf.problem import ChainProblem, make_ridge
from monro.crf.solvers import SOLVERS, choose_rate, make_solver
from monro.crf.storage import STATES, from_contents, keep_predictions, to_contents
from monro.crf.trainer import ChainTrainer
from monro.fitting.epochs import train, train_batch
from monro.fitting.path import needs_path
from monro.fitting.run import LabelledRows, Run, with_mean_one
from monro.rows import Array
from monro.saving.container import Contents
from monro.saving.estimator import check_can_continue

_MOST_WEIGHTS = 1 << 33


class Tagger(FittedTagger):
    """Base of CRFTagger, which adds its parameters and the sources of sentences."""

    def _check_parameters(self) -> None:
        if self.template is not None and not isinstance(self.template, (str, Path)):
            raise ValueError(f"template={self.template!r}: give a template, or the name of a file")
        check_choice("solver", self.solver, SOLVERS)
        if self.c != "auto":
            check_number("c", self.c, 0.0, open_at_low=True)
        check_integer("cutoff", self.cutoff, 1)
        check_rate("learning_rate", self.learning_rate)
        if self.skip is not None:
            check_integer("skip", self.skip, 1)
            if not SOLVERS[self.solver].learns_gains:
                able = ", ".join(repr(name) for name, its in SOLVERS.items() if its.learns_gains)
                raise ValueError(
                    f"solver={self.solver!r} does not use skip: leave it None, or use {able}"
                )
        check_integer("max_epochs", self.max_epochs, 1)
        check_epochs(self)
        for name in ("shuffle", "warm_start"):
            check_flag(name, getattr(self, name))
        if self.constraints is not None:
            check_choice("constraints", self.constraints, SCHEMES)
        if self.hash_bits is not None:
            check_integer("hash_bits", self.hash_bits, 4)
            if self.hash_bits > 30:
                raise ValueError(f"hash_bits={self.hash_bits!r}: give at most 30")
            if self.cutoff > 1:
                raise ValueError("cutoff: features that are hashed are not counted; use cutoff=1")

    def _earlier_vocabulary(self) -> Vocabulary | None:
        """Return the features and tags of an earlier fit to continue from, if there was one."""
        if not hasattr(self, "_fitted"):
            return None
        check_can_continue(self)
        features = self._fitted.features
        for name, now, then in (
            ("solver", self.solver, self.solver_),
            ("hash_bits", self.hash_bits, getattr(features.single, "bits", None)),
        ):
            if now != then:
                raise ValueError(
                    f"{name}={now!r}: the model was fitted with {then!r}; use that, or fit anew"
                )
        return Vocabulary(features, self.classes_)

    # ------------------------------------------------------------------------------ one fit

    def _fit(
        self,
        read: Callable[[Any], Corpus],
        earlier: Vocabulary | None,
        checkpoint: str | Path | None,
        folder: str | Path | None = None,
        *,
        in_files: bool = False,
    ) -> Self:
        """Train for up to max_epochs on the corpus that `read` returns.

        With `in_files`, `read` is given a temporary folder, made in `folder`, for the corpus.
        """
        if earlier is None:
            self.__dict__.pop("_predictions_only", None)
        with ExitStack() as stack:
            temporary = None
            if in_files:
                # Mapped files remain readable after their names are removed: however the process
                # ends, only an unfinished preparation leaves files behind.
                temporary = Path(
                    stack.enter_context(
                        TemporaryDirectory(prefix="monro-", dir=folder, ignore_cleanup_errors=True)
                    )
                )
            corpus = read(temporary)
            sentences = float(corpus.weight.sum())
            corpus = corpus._replace(weight=with_mean_one(corpus.weight))
            vocabulary, problem = self._prepare(corpus, earlier, sentences, temporary)
        # X and y have an entry per token, the weights one per sentence.
        rows = LabelledRows(_matrix(problem), problem.y, problem.weight)
        data = problem.data
        identity = (problem.y, data.starts, data.pair_indptr, data.pairs)
        run = Run.start(self, rows, checkpoint, STATES, identity)
        if needs_path(self, continues=earlier is not None, parameter="c"):
            found = run.chosen or self._choose_c(problem, vocabulary, sentences, run.seed)
            self.__dict__.update(found)
            problem = problem._replace(penalty=make_ridge(self.c_, sentences))
        with self._trainer(problem, vocabulary, earlier, sentences, run.seed) as trainer:
            train(run, trainer)
        return self

    def _choose_c(
        self, problem: ChainProblem, vocabulary: Vocabulary, sentences: float, seed: int
    ) -> dict[str, Any]:
        """Resolve c="auto"; return the attributes to set."""
        path = choose_c(self, problem, vocabulary, sentences, seed)
        return path._asdict() | {"c_": c_of(path.alpha_, sentences)}

    def _partial_fit(self, corpus: Corpus, earlier: Vocabulary | None) -> Self:
        """Take one epoch on a corpus, from the state of the earlier fit."""
        before = 0.0 if earlier is None else self._fitted.sentences
        sentences = float(corpus.weight.sum()) + before
        vocabulary, problem = self._prepare(corpus, earlier, sentences, None)
        if earlier is None:
            self.__dict__.pop("history_", None)  # of a fit that failed
        with self._trainer(problem, vocabulary, earlier, sentences, self._seed()) as trainer:
            train_batch(self, trainer)
        return self

    def _prepare(
        self, corpus: Corpus, earlier: Vocabulary | None, sentences: float, folder: Path | None
    ) -> tuple[Vocabulary, ChainProblem]:
        """Assign numbers to the features of a corpus; return its vocabulary and the problem."""
        features = make_map(
            corpus.blocks,
            corpus.templates,
            corpus.n_columns,
            cutoff=self.cutoff,
            hash_bits=self.hash_bits,
            known=None if earlier is None else earlier.features,
        )
        sizes = features.single.size, features.pairs.size, corpus.classes.size
        _check_size(*sizes)
        if features.single.size == 0 and self.cutoff > 1 and features.extractor.has_single:
            raise ValueError(
                f"cutoff={self.cutoff}: no feature occurs that often; use a smaller one"
            )
        data = encode_all(corpus.blocks(), features, folder)
        problem = ChainProblem(
            data, corpus.tags, corpus.weight, *sizes, make_ridge(self._resolved_c, sentences)
        )
        return Vocabulary(features, corpus.classes), problem

    def _trainer(
        self,
        problem: ChainProblem,
        vocabulary: Vocabulary,
        earlier: Vocabulary | None,
        sentences: float,
        seed: int,
    ) -> ChainTrainer:
        """Return the trainer of a fit, which continues from the earlier one if there is one."""
        rng = np.random.default_rng(seed)
        auto = self.learning_rate == "auto"
        if not auto:
            rate = float(self.learning_rate)
        elif earlier is None:
            rate = choose_rate(problem, self.solver, rng, self.skip)
        else:
            rate = self.learning_rate_
        solver = make_solver(problem, self.solver, rate, self._threads(), self.skip)
        if earlier is None:
            state, epochs = solver.start(), 0
        else:
            tags: Array = np.asarray(np.searchsorted(vocabulary.classes, earlier.classes))
            state, epochs = solver.resume(self._fitted.state, tags), self.n_iter_
        trainer = ChainTrainer(
            solver,
            state,
            vocabulary,
            sentences,
            shuffle=self.shuffle,
            rng=rng,
            earlier_epochs=epochs,
            auto_rate=auto,
        )
        if auto and earlier is None:
            trainer.choices = f"learning_rate={rate:g}"
        return trainer

    # ------------------------------------------------------------------------------ files

    def _to_contents(self) -> Contents:
        return to_contents(self)

    def _keep_predictions(self, contents: Contents) -> None:
        keep_predictions(self, contents)

    def _from_contents(self, contents: Contents) -> None:
        from_contents(self, contents)


def _check_size(n_features: int, n_pairs: int, n_tags: int) -> None:
    parameters = n_features * n_tags + n_pairs * n_tags**2
    if parameters > _MOST_WEIGHTS:
        raise ValueError(
            f"the model would have {parameters:,} weights; use a larger cutoff, hash_bits, or "
            "fewer tags"
        )


def _matrix(problem: ChainProblem) -> sp.csr_matrix:
    """Return the features of all tokens as a matrix, without a copy."""
    data = problem.data
    shape = (data.indptr.size - 1, problem.n_features)
    matrix = sp.csr_matrix(shape, dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = data.values, data.features, data.indptr
    return matrix
