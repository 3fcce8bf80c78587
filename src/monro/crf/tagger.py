"""CRFTagger: linear-chain conditional random fields for sequences of tags."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from sklearn.callback import with_callbacks

from monro.crf.base import Tagger
from monro.crf.corpus import from_chunks, from_file, from_sentences, sentence_chunks


class CRFTagger(Tagger):
    r"""A linear-chain conditional random field: tags for the tokens of a sentence.

    ``p(tags | sentence)`` is proportional to ``exp(Σ_t w·f(sentence, t, tag_t, tag_{t-1}))``. The
    features f are defined by a CRF++ template, or given with each token, as for CRFsuite.
    Minimises ``‖w‖²/(2·c·N) + mean(-log p)`` over N sentences.

    Parameters
    ----------
    template : str or Path, optional
        A CRF++ template: the text itself if it holds a newline or ``%x``, else the name of a file.
        By default each column of a token and of its neighbours up to two away, and pairs of them.
        Not for tokens that are lists or dicts of features.
    solver : {"asgd", "sgd", "sgdqn", "sgdqn-flawed"}
        Averaged stochastic gradient descent; without averaging; with a learnt gain for each weight.
        "sgdqn-flawed" is the version of 2009, for studies.
    c : "auto" or float
        As in CRF++: the larger, the weaker the regularisation. "auto" finds the one that predicts
        held-out sentences best, in about the time of one more fit, and then fits to all sentences
        (docs/tagging.md). `partial_fit` takes the c of an earlier fit, or 1.
    cutoff : int
        Leave out features that occur fewer times.
    hash_bits : int, optional
        Hash features to that many bits: memory is bounded, names are not kept.
    constraints : {"BIO", "BIOES"}, optional
        Predict only valid sequences of chunks.
    learning_rate : "auto" or float
        The initial learning rate; "auto" tries several on a sample of the sentences.
    skip : int, optional
        Of "sgdqn" and "sgdqn-flawed": the sentences between two steps of the ridge, each followed
        by a measurement of curvature. By default 16 for "sgdqn"; for "sgdqn-flawed", which then
        changes all weights and gains, a twentieth of the sentences.
    max_epochs : int
    tol : float, optional
        Stop when the objective no longer falls by this much.
    shuffle : bool
        Whether each epoch visits the sentences in a new order.
    warm_start : bool
        Whether `fit` continues from the weights of an earlier fit.
    n_jobs : int, optional
        Threads that share the weights, without locks: with more than one, only the objective is
        reproducible, not the weights. SGD-QN uses one.
    random_state : int, RandomState or None
    verbose : int

    Attributes
    ----------
    classes_ : array of str
        The tags, sorted.
    n_features_ : int
        Features, including those of pairs of tags.
    n_parameters_ : int
        Weights: a feature has one for each tag, a pair feature one for each pair of tags.
    state_features_ : dict of (feature, tag) to weight
    transition_features_ : dict of (previous tag, tag) to weight
    c_ : float
        With ``c="auto"``, what was chosen.
    alpha_ : float
        With ``c="auto"``, the same as the weight of the ridge, ``1/(c·N)``.
    alpha_path_ : list of dict
        With ``c="auto"``, what each strength was judged by, from strong to weak: c, alpha, the mean
        and standard error of ``-log p`` per token held out, and the number of weights that are not
        zero.
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
    >>> learnt = CRFTagger(solver="sgdqn", skip=2, random_state=0).fit(sentences, tags)
    >>> learnt.score(sentences, tags)
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
        c: float | str = "auto",
        cutoff: int = 1,
        hash_bits: int | None = None,
        constraints: str | None = None,
        learning_rate: str | float = "auto",
        skip: int | None = None,
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
        self.skip = skip
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
            A sentence is a list of tokens. A token is a tuple of columns (texts; a single text is
            one column) for templates, or a list or dict of features: a value that is a text becomes
            part of the name, as for CRFsuite.
            Larger than memory: an iterable of chunks ``(sentences, tags)``, which is iterated once;
            or an Arrow data set, table or reader, a Parquet file or a folder of them, with a
            sentence in each row and a list of texts in each column. They are converted for training
            in temporary files (docs/data.md).
        tags : list of lists of str
            The tag of each token. For Arrow and Parquet the name of their column, "tags" by
            default; for chunks, which contain them, None.
        sample_weight : array of shape (n_sentences,), optional
            A sentence of weight 2 counts twice, one of weight 0 not at all. Only for lists.
        checkpoint : str or Path, optional
            A file for the progress of the fit. If the process is killed, the same call resumes the
            fit, with (on one thread) bit for bit the same result as without the interruption.

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
        earlier = self._earlier_vocabulary() if self.warm_start else None
        chunks = sentence_chunks(sentences, tags)
        if chunks is None:
            corpus = from_sentences(sentences, tags, sample_weight, self.template, earlier)
            return self._fit(lambda _: corpus, earlier, checkpoint)
        if sample_weight is not None:
            raise ValueError("sample_weight: give it with a list of sentences, not with chunks")
        return self._fit(
            lambda folder: from_chunks(chunks, self.template, earlier, folder),
            earlier,
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
        r"""Fit to a file of columns, the last of them the tag, with blank lines between sentences.

        Parameters
        ----------
        path : str or Path
            The file, plain or compressed by gzip or Zstandard.
        checkpoint : str or Path, optional
            As in `fit`.
        folder : str or Path, optional
            For texts larger than memory: where to put temporary files with the sentences converted
            for training, about ten times as large as the text. By default they stay in memory.

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
        earlier = self._earlier_vocabulary() if self.warm_start else None
        return self._fit(
            lambda folder: from_file(path, self.template, earlier, folder),
            earlier,
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
        """Take one epoch on some sentences, continuing from the current model.

        New features and new tags are added, with weights that begin at 0. The ridge is that of all
        sentences seen so far.

        Parameters
        ----------
        sentences, tags, sample_weight
            As in `fit`.

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
        earlier = self._earlier_vocabulary()
        corpus = from_sentences(sentences, tags, sample_weight, self.template, earlier)
        return self._partial_fit(corpus, earlier)
