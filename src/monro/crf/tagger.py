"""CRFTagger: linear-chain conditional random fields for sequences of tags."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from sklearn.callback import with_callbacks

from monro.crf.base import Tagger
from monro.crf.reading import from_chunks, from_file, from_sentences, sentence_chunks


class CRFTagger(Tagger):
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
        return self._partial_fit(corpus, known)
