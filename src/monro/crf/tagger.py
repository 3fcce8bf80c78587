"""CRFTagger: linear-chain conditional random fields for sequences of tags."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.callback import with_callbacks

from monro import checks, persist
from monro.crf.corpus import (
    as_list,
    brings_features,
    encode_all,
    in_blocks,
    make_map,
    read_tokens,
    tag_codes,
)
from monro.crf.decode import (
    SCHEMES,
)
from monro.crf.features import Tokens, columns_of, given_features
from monro.crf.fitted import FittedTagger
from monro.crf.storage import STATES, from_contents, same_shape, to_contents
from monro.crf.template import Template, default_template, parse, read_template
from monro.crf.train import (
    SOLVERS,
    Problem,
    Solver,
    Trainer,
    choose_rate,
    objective,
    resize,
    solution_of,
)
from monro.data.conll import conll_blocks
from monro.errors import DataError, DivergenceError
from monro.fitting import Record, run_epochs
from monro.rows import Array

_RUNAWAY = 10.0  # times the loss of weights that are all 0


class _Corpus(NamedTuple):
    """Sentences to train on, read as often as asked, and what was made of them."""

    blocks: Callable[[], Iterable[Tokens]]
    tags: Array  # the numbers of all tokens' tags
    classes: Array
    templates: list[Template] | None
    n_columns: int


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
        in objective only.
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
        sentences: Sequence[Any],
        tags: Sequence[Sequence[str]],
        sample_weight: Any = None,
        *,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Fit to sentences.

        Parameters
        ----------
        sentences : list of sentences
            A sentence is a list of tokens. A token is a tuple of columns (texts; a text alone is
            one column) for templates, or a list or dict of features: a text's value becomes part
            of the name, as for CRFsuite.
        tags : list of lists of str
            The tag of each token.
        sample_weight : array of shape (n_sentences,), optional
            A sentence of weight 2 counts as two; one of weight 0 does not count.
        checkpoint : str or Path, optional
            A file to keep the progress in. Should the process be killed, the same call goes on from
            there, and ends with the same bits (on one thread) as if nothing had happened.

        Returns
        -------
        self
        """
        self._check_parameters()
        goes_on = self.warm_start and hasattr(self, "_map")
        corpus, weight = self._given(sentences, tags, sample_weight, goes_on)
        return self._fit(corpus, weight, goes_on, checkpoint)

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit_file(
        self,
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        folder: str | Path | None = None,
    ) -> Self:
        """Fit to a file of columns, the last one the tag, with a blank line after each sentence.

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
        """
        self._check_parameters()
        goes_on = self.warm_start and hasattr(self, "_map")
        corpus = self._from_file(path, goes_on)
        weight = np.ones(sum(tokens.starts.size - 1 for tokens in corpus.blocks()))
        if folder is None:
            return self._fit(corpus, weight, goes_on, checkpoint)
        with TemporaryDirectory(prefix="monro-", dir=folder) as room:
            return self._fit(corpus, weight, goes_on, checkpoint, Path(room))

    def partial_fit(
        self,
        sentences: Sequence[Any],
        tags: Sequence[Sequence[str]],
        sample_weight: Any = None,
    ) -> Self:
        """Take one epoch on some sentences, from where the model is.

        New features and new tags are taken in, with weights of 0 to begin with.

        Parameters
        ----------
        sentences, tags, sample_weight
            As of `fit`.

        Returns
        -------
        self
        """
        self._check_parameters()
        corpus, weight = self._given(sentences, tags, sample_weight, hasattr(self, "_map"))
        problem, state = self._prepare(corpus, weight, hasattr(self, "_map"), None, streaming=True)
        rng = np.random.default_rng(self._seed())
        solver = self._solver(problem, rng)
        state = solver.start() if state is None else state
        epochs = getattr(self, "n_iter_", 0)
        with Trainer(solver, state, shuffle=self.shuffle, rng=rng, epochs=epochs) as trainer:
            record = trainer.epoch()
            self._check_finite(record, problem)
            self._finish(trainer)
        self.n_iter_ = epochs + 1
        self.history_ = [*getattr(self, "history_", []), record | {"epoch": self.n_iter_}]
        return self

    def _check_parameters(self) -> None:
        checks.choice("solver", self.solver, SOLVERS)
        checks.number("c", self.c, 0.0, open_at_low=True)
        checks.whole("cutoff", self.cutoff, 1)
        checks.rate("learning_rate", self.learning_rate)
        checks.whole("max_epochs", self.max_epochs, 1)
        checks.run(self)
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

    def _given(
        self, sentences: Sequence[Any], tags: Sequence[Any], sample_weight: Any, goes_on: bool
    ) -> tuple[_Corpus, Array]:
        """Return sentences given in Python, those of weight 0 left out."""
        sentences, tags = as_list("sentences", sentences), as_list("tags", tags)
        if len(sentences) != len(tags):
            raise ValueError(f"there are {len(sentences)} sentences and {len(tags)} lists of tags")
        for s, (tokens, names) in enumerate(zip(sentences, tags, strict=True)):
            if isinstance(names, str) or len(tokens) != len(names):
                raise ValueError(f"sentence {s}: it has {len(tokens)} tokens and {len(names)} tags")
        weight = np.ones(len(sentences))
        if sample_weight is not None:
            weight = np.asarray(sample_weight, np.float64)
            if weight.shape != (len(sentences),):
                raise ValueError(
                    f"sample_weight has shape {weight.shape}, there are {len(sentences)} sentences"
                )
            if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
                raise ValueError("sample_weight: give finite numbers of at least 0")
        kept = [k for k in range(len(sentences)) if len(sentences[k]) and weight[k] > 0.0]
        if not kept:
            raise ValueError("there is no token to learn from; give sentences of a weight above 0")
        if len(kept) < len(sentences):
            sentences, tags = [sentences[k] for k in kept], [tags[k] for k in kept]
            weight = weight[kept]
        names = set(chain.from_iterable(tags))
        if not all(isinstance(name, str) for name in names):
            odd = next(name for name in names if not isinstance(name, str))
            raise ValueError(f"tags: a tag is a text, here is {odd!r}")
        classes = self._classes_with(names, goes_on)
        if goes_on:
            templates, n_columns = self._map.templates, self._map.n_columns
            blocks = in_blocks(sentences, lambda part: read_tokens(part, templates, n_columns))
        elif brings_features(sentences):
            if self.template is not None:
                raise ValueError("template: the tokens bring their features, so there is none")
            templates, n_columns = None, 0
            blocks = in_blocks(sentences, given_features)
        else:
            first = sentences[0][0]
            n_columns = 1 if isinstance(first, str) else len(first)
            templates = self._templates(n_columns)
            blocks = in_blocks(sentences, lambda part: columns_of(part, n_columns))
        codes = tag_codes(tags, {name: k for k, name in enumerate(classes.tolist())})
        return _Corpus(lambda: blocks, codes, classes, templates, n_columns), weight

    def _from_file(self, path: str | Path, goes_on: bool) -> _Corpus:
        """Return the sentences of a file, which is read anew whenever they are asked for."""
        if str(path) == "-":
            raise DataError("standard input cannot be read twice", path, cure="give a file")
        index: dict[str, int] = {}
        codes: list[Array] = []
        n_columns = 0
        for block in conll_blocks(path):
            n_columns = len(block.tokens[0][0])
            flat = list(chain.from_iterable(block.tags))
            for tag in flat:
                index.setdefault(tag, len(index))
            codes.append(np.fromiter(map(index.__getitem__, flat), np.int32, len(flat)))
        classes = self._classes_with(set(index), goes_on)
        place = np.searchsorted(classes, np.array(list(index), dtype=object)).astype(np.int32)
        templates = self._map.templates if goes_on else self._templates(n_columns)
        if templates is None or (goes_on and self._map.n_columns != n_columns):
            expected = self._map.n_columns if templates is not None else "no"
            raise DataError(
                f"its tokens have {n_columns} columns, the model was fitted on {expected}", path
            )

        def blocks() -> Iterator[Tokens]:
            for block in conll_blocks(path):
                yield columns_of(block.tokens, n_columns)

        return _Corpus(blocks, place[np.concatenate(codes)], classes, templates, n_columns)

    def _templates(self, n_columns: int) -> list[Template]:
        if self.template is None:
            text = default_template(n_columns)
            self.template_, templates = text, parse(text)
        else:
            self.template_, templates = read_template(self.template)
        return templates

    def _classes_with(self, names: set[str], goes_on: bool) -> Array:
        """Return the tags, with those the model has."""
        if goes_on:
            names = names | set(self.classes_.tolist())
        return np.array(sorted(names), dtype=object)

    def _prepare(
        self,
        corpus: _Corpus,
        weight: Array,
        goes_on: bool,
        folder: Path | None,
        *,
        streaming: bool = False,
    ) -> tuple[Problem, Any]:
        """Give features their numbers; return what is to be minimised, and where to go on from."""
        features = make_map(
            corpus.blocks,
            corpus.templates,
            corpus.n_columns,
            cutoff=self.cutoff,
            hash_bits=self.hash_bits,
            known=self._map if goes_on else None,
        )
        data = encode_all(corpus.blocks(), features, folder)
        sentences = weight.sum()
        if streaming:  # the ridge is that of all sentences seen
            self._seen = sentences = getattr(self, "_seen", 0.0) * goes_on + sentences
        else:
            self._seen = float(sentences)
        sizes = features.single.size, features.pairs.size, corpus.classes.size
        _check_size(*sizes)
        problem = Problem(
            data, corpus.tags, weight / weight.mean(), *sizes, 1.0 / (self.c * sentences)
        )
        state = None
        if goes_on:
            fill = 1.0 / (self.learning_rate_ if self.solver == "sgdqn" else problem.lam)
            before: Array = self.classes_
            old = np.asarray(np.searchsorted(corpus.classes, before))
            state = resize(self._state, before.size, old, *sizes, fill)
            if not _fits(state, self.solver):
                raise ValueError(
                    f"solver={self.solver!r}: the model was fitted by another kind of solver; use "
                    "that, or fit anew"
                )
        self._map, self.classes_ = features, corpus.classes
        return problem, state

    def _solver(self, problem: Problem, rng: np.random.Generator) -> Solver:
        known = getattr(self, "learning_rate_", None) if hasattr(self, "_state") else None
        if self.learning_rate != "auto":
            self.learning_rate_ = float(self.learning_rate)
        elif known is None:
            self.learning_rate_ = choose_rate(problem, self.solver, rng)
        return Solver(problem, self.solver, self.learning_rate_, self._threads())

    def _fit(
        self,
        corpus: _Corpus,
        weight: Array,
        goes_on: bool,
        checkpoint: str | Path | None,
        folder: Path | None = None,
    ) -> Self:
        if not goes_on:
            for name in ("_state", "_weights", "n_iter_"):
                self.__dict__.pop(name, None)
        problem, state = self._prepare(corpus, weight, goes_on, folder)
        before = getattr(self, "n_iter_", 0) if goes_on else 0
        seed = self._seed()
        saved = self._checkpoint(
            checkpoint, _matrix(problem), problem.y, problem.weight, STATES, same_shape
        )
        if saved is not None and saved.found:
            seed = saved.about("seed")
        rng = np.random.default_rng(seed)
        solver = self._solver(problem, rng)
        state = solver.start() if state is None else state
        with Trainer(solver, state, shuffle=self.shuffle, rng=rng, epochs=before) as trainer:
            watching = self.tol is not None or self.verbose > 0 or hasattr(self, "_skl_callbacks")
            run_epochs(
                self,
                trainer,
                X=_matrix(problem),
                y=problem.y,
                title=f"CRF, {self.solver}",
                visits=problem.size,
                check=lambda record: self._check_finite(record, problem),
                finish=lambda: self._finish(trainer),
                seed=seed,
                evaluate=(lambda: {"objective": objective(problem, trainer.weights())})
                if watching
                else None,
                monitor="objective" if self.tol is not None else None,
                checkpoint=saved,
                chosen=f"learning_rate={self.learning_rate_:g}"
                if self.learning_rate == "auto"
                else "",
            )
        return self

    def _check_finite(self, record: Record, problem: Problem) -> None:
        at_zero = problem.data.starts[-1] / problem.size * np.log(problem.n_tags)
        if not record["loss"] <= _RUNAWAY * max(at_zero, 1.0):
            raise DivergenceError(
                f"solver={self.solver!r} diverged in epoch {record['epoch']} with learning_rate="
                f"{self.learning_rate_:g}: use a smaller learning_rate or 'auto', or scale the "
                "values of the features"
            )

    def _finish(self, trainer: Trainer) -> None:
        weights = trainer.weights()
        if not all(np.isfinite(part).all() for part in weights):
            raise DivergenceError(
                f"solver={self.solver!r} diverged: use a smaller learning_rate or 'auto'"
            )
        self._weights, self._state = weights, trainer.state

    # ---------------------------------------------------------------------------------------- files

    def _to_contents(self) -> persist.Contents:
        return to_contents(self)

    def _from_contents(self, contents: persist.Contents) -> None:
        from_contents(self, contents)
        self._weights = solution_of(self._state)


def _fits(state: Any, solver: str) -> bool:
    gains = hasattr(state, "gains")
    if gains != solver.startswith("sgdqn"):
        return False
    return gains or solver != "asgd" or state.total.W.shape == state.w.W.shape


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
