"""CRFTagger: linear-chain conditional random fields for sequences of tags."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.callback import with_callbacks

from monro import checks, persist
from monro.crf.corpus import FeatureMap, encode_all, make_map
from monro.crf.decode import SCHEMES
from monro.crf.fitted import FittedTagger
from monro.crf.reading import (
    Corpus,
    Known,
    from_chunks,
    from_file,
    from_sentences,
    sentence_chunks,
)
from monro.crf.storage import STATES, from_contents, same_shape, to_contents
from monro.crf.train import (
    SOLVERS,
    Problem,
    Solver,
    Trainer,
    choose_rate,
    objective,
    resize,
    ridge_strength,
    solution_of,
)
from monro.errors import DivergenceError
from monro.estimator import of_mean_one
from monro.fitting import Record, run_epochs
from monro.rows import Array

_RUNAWAY = 10.0  # times the loss of weights that are all 0


class CRFTagger(FittedTagger):
    r"""A linear-chain conditional random field: tags for the tokens of a sentence.

    ``p(tags | sentence)`` is proportional to ``exp(Σ_t w·f(sentence, t, tag_t, tag_{t-1}))``. What
    f is, a CRF++ template says, or each token brings its features, as for CRFsuite.
    Minimises ``‖w‖²/(2·c·N) + mean(-log p)`` over N sentences.

    Parameters
    ----------
    template : str or Path, optional
        A CRF++ template: the text itself if it holds a newline or ``%x``, else a file's name. By
        default each column of a token, of its neighbours up to two away, and pairs of neighbours.
        Not for tokens that bring their features.
    solver : {"asgd", "sgd", "sgdqn", "sgdqn-flawed"}
        Averaged stochastic gradient descent, without average, and with a gain for each weight.
        "sgdqn-flawed" is the 2009 version, for studies.
    c : float
        As CRF++'s: the larger, the closer to the training data.
    cutoff : int
        Leave out features that occur less often.
    hash_bits : int, optional
        Number features by that many bits of a hash: memory is bounded, names are not kept.
    constraints : {"BIO", "BIOES"}, optional
        Predict only valid sequences of chunks.
    learning_rate : "auto" or float
        η0; "auto" tries rates on a sample of the sentences.
    max_epochs : int
    tol : float, optional
        Stop where the objective no longer falls by this much.
    shuffle : bool
        Whether each epoch visits the sentences in an order of its own.
    warm_start : bool
        Whether `fit` goes on from the weights it has.
    n_jobs : int, optional
        Threads that share the weights, without locks: with more than one, results are reproducible
        in objective only. SGD-QN takes one.
    random_state : int, RandomState or None
    verbose : int

    Attributes
    ----------
    classes_ : array of str
        The tags, sorted.
    n_features_ : int
        Features, those of pairs of tags included.
    n_parameters_ : int
        Weights: a feature has one for each tag, a feature of pairs for each pair.
    state_features_ : dict of (feature, tag) to weight
    transition_features_ : dict of (tag before, tag) to weight
    learning_rate_ : float
    solver_ : str
    history_ : list of dict
        An entry for each epoch.
    n_iter_ : int

    Examples
    --------
    >>> from monro import CRFTagger
    >>> sentences = [[("the",), ("dog",), ("barks",)], [("a",), ("dog",)], [("he",), ("barks",)]]
    >>> tags = [["D", "N", "V"], ["D", "N"], ["P", "V"]]
    >>> tagger = CRFTagger(template="U:%x[0,0]\nB", random_state=0).fit(sentences, tags)
    >>> tagger.predict([[("a",), ("dog",), ("barks",)]])
    [['D', 'N', 'V']]
    >>> tagger.score(sentences, tags)
    1.0
    >>> tagger.template_, tagger.n_features_, tagger.n_parameters_  # 5 words and B; 4 tags
    ('U:%x[0,0]\nB', 6, 36)
    >>> tagger.state_features_["U:dog", "N"] > 0
    True
    >>> tagger.transition_features_["D", "N"] > tagger.transition_features_["D", "V"]
    True
    """

    def __init__(
        self,
        *,
        template: str | Path | None = None,
        solver: str = "asgd",
        c: float = 1.0,
        cutoff: int = 1,
        hash_bits: int | None = None,
        constraints: str | None = None,
        learning_rate: str | float = "auto",
        max_epochs: int = 10,
        tol: float | None = None,
        shuffle: bool = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.template = template
        self.solver = solver
        self.c = c
        self.cutoff = cutoff
        self.hash_bits = hash_bits
        self.constraints = constraints
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.tol = tol
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------ fitting

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        sentences: Any,
        tags: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fit to sentences.

        Parameters
        ----------
        sentences : list of sentences; or larger than memory
            A sentence is a list of tokens. A token is a tuple of columns (texts; a text alone is
            one column) for templates, or a list or dict of features: a text's value becomes part
            of the name, as for CRFsuite.
            Larger than memory: an iterable of chunks ``(sentences, tags)``, which is gone through
            once; or an Arrow data set, table or reader, a Parquet file or a folder of them, with a
            sentence a row, of which each column is a list of texts. They are made ready for
            training in temporary files (docs/data.md).
        tags : list of lists of str
            The tag of each token. With Arrow and Parquet the name of their column, "tags" by
            default; with chunks, which have them, None.
        sample_weight : array of shape (n_sentences,), optional
            A sentence of weight 2 counts as two; one of weight 0 does not count. Only with a list.
        checkpoint : str or Path, optional
            A file to keep the progress in. Should the process be killed, the same call goes on from
            there, and ends with the same bits (on one thread) as if nothing had happened.

        Returns
        -------
        self

        Examples
        --------
        >>> from monro import CRFTagger
        >>> chunk = [[("the",), ("dog",)], [("he",), ("barks",)]], [["D", "N"], ["P", "V"]]
        >>> CRFTagger(random_state=0).fit(chunk for _ in range(3)).predict([[("the",), ("dog",)]])
        [['D', 'N']]
        """
        self._check_parameters()
        known = self._known() if self.warm_start else None
        chunks = sentence_chunks(sentences, tags)
        if chunks is None:
            corpus = from_sentences(sentences, tags, sample_weight, self.template, known)
            return self._fit(lambda _: corpus, known, checkpoint)
        if sample_weight is not None:
            raise ValueError("sample_weight: give it with a list of sentences, not with chunks")
        return self._fit(
            lambda room: from_chunks(chunks, self.template, known, room),
            known,
            checkpoint,
            in_files=True,
        )

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit_file(
        self,
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        folder: str | Path | None = None,
    ) -> Self:
        r"""Fit to a file of columns, the last one the tag, with a blank line after each sentence.

        Parameters
        ----------
        path : str or Path
            The file, plain or packed by gzip or Zstandard.
        checkpoint : str or Path, optional
            As of `fit`.
        folder : str or Path, optional
            Where to keep the sentences made ready for training, in temporary files of about ten
            times the text, for texts larger than memory. By default they are kept in memory.

        Returns
        -------
        self

        Examples
        --------
        >>> import tempfile
        >>> from monro import CRFTagger
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     print("the B-NP", "dog I-NP", "barks B-VP", "", sep="\n", file=file, flush=True)
        ...     tagger = CRFTagger(random_state=0).fit_file(file.name)
        >>> tagger.predict([["the", "dog"]])
        [['B-NP', 'I-NP']]
        """
        self._check_parameters()
        if folder is not None and not Path(folder).is_dir():
            raise ValueError(f"folder={str(folder)!r}: there is no such folder; make it first")
        known = self._known() if self.warm_start else None
        return self._fit(
            lambda room: from_file(path, self.template, known, room),
            known,
            checkpoint,
            folder,
            in_files=folder is not None,
        )

    def partial_fit(
        self,
        sentences: Sequence[Any],
        tags: Sequence[Sequence[str]],
        sample_weight: Any = None,
    ) -> Self:
        """Take one epoch on some sentences, from where the model is.

        New features and new tags are taken in, with weights of 0 to begin with. The ridge is that
        of as many sentences as were seen so far.

        Parameters
        ----------
        sentences, tags, sample_weight
            As of `fit`.

        Returns
        -------
        self

        Examples
        --------
        >>> from monro import CRFTagger
        >>> tagger = CRFTagger(random_state=0)
        >>> for _ in range(20):
        ...     tagger = tagger.partial_fit([["the", "dog"]], [["DT", "NN"]])
        >>> for _ in range(20):  # new words, and a new tag
        ...     tagger = tagger.partial_fit([["dogs", "bark"]], [["NNS", "VB"]])
        >>> tagger.predict([["the", "dog"], ["dogs", "bark"]])
        [['DT', 'NN'], ['NNS', 'VB']]
        """
        self._check_parameters()
        known = self._known()
        corpus = from_sentences(sentences, tags, sample_weight, self.template, known)
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
