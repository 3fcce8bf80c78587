"""The fitted tagger: predictions, probabilities, metrics, and its weights by name."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from monro.checks.parameters import check_choice, check_integer
from monro.crf.chain import Allowed, all_allowed
from monro.crf.conlleval import Evaluation, evaluate
from monro.crf.decode import (
    SCHEMES,
    additive_mask,
    best_sequences,
    chunk_rules,
    marginals,
    sentence_scores,
    viterbi,
)
from monro.crf.encoding import Hashed
from monro.crf.feature_map import as_list, as_sentences, tag_codes
from monro.crf.problem import (
    FIXED_C,
    ChainProblem,
    make_ridge,
    make_scratch,
    mean_loss,
    objective,
    sentence_parts,
)
from monro.crf.trainer import ChainFit
from monro.crf.weights import as_tables
from monro.estimator import Estimator
from monro.rows import Array

_PART = 10_000  # sentences to tag at a time


class FittedTagger(Estimator):
    """The methods of `CRFTagger` that need a fitted model."""

    classes_: Array
    _fitted: ChainFit
    n_iter_: int
    learning_rate_: float
    solver_: str
    history_: list[dict[str, Any]]

    @property
    def _resolved_c(self) -> float:
        """The parameter c, or what "auto" was resolved to."""
        return float(getattr(self, "c_", FIXED_C) if self.c == "auto" else self.c)

    # --------------------------------------------------------------------------------- predicting

    def predict(self, sentences: Sequence[Any]) -> list[list[str]]:
        """Return the best tags of each sentence.

        Parameters
        ----------
        sentences : list of sentences
            As in `fit`.

        Returns
        -------
        list of lists of str
        """
        found: list[list[str]] = []
        mask = additive_mask(self._allowed(np.float32))
        for start, part in self._parts(sentences):
            data = self._fitted.features.encode(part, start)
            y = np.empty(data.starts[-1], np.int32)
            scratch = make_scratch(data, self.classes_.size, np.float32)
            back = np.empty(scratch.E.shape, np.int32)
            self._check_valid(start, viterbi(data, self._fitted.weights, mask, scratch, back, y))
            found += self._by_sentence(y, data.starts)
        return found

    def predict_marginals(self, sentences: Sequence[Any]) -> list[list[dict[str, float]]]:
        """Return the probability of each tag at each token, given the whole sentence.

        Parameters
        ----------
        sentences : list of sentences
            As in `fit`.

        Returns
        -------
        list of lists of dicts from tag to probability

        Examples
        --------
        >>> from monro import CRFTagger
        >>> X, y = [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
        >>> tagger = CRFTagger(random_state=0).fit(X, y)
        >>> [max(p, key=p.get) for p in tagger.predict_marginals([["a", "b"]])[0]]
        ['A', 'B']
        """
        found: list[list[dict[str, float]]] = []
        allowed = self._allowed(np.float64)
        names = self.classes_.tolist()
        for start, part in self._parts(sentences):
            for which, _, data in sentence_parts(self._fitted.features.encode(part, start)):
                n = int(data.starts[-1])
                p = np.empty((n, len(names)))
                scratch = make_scratch(data, len(names), np.float64)
                marginals(data, np.zeros(n, np.int32), self._fitted.weights, allowed, scratch, p)
                p += 0.0  # -0 becomes 0
                invalid = np.flatnonzero(~np.isfinite(p).all(axis=1))
                if invalid.size:
                    invalid = np.searchsorted(data.starts, invalid[:1], "right") - 1 + which.start
                self._check_valid(start, int(invalid[0]) if invalid.size else -1)
                rows = [dict(zip(names, row, strict=True)) for row in p.tolist()]
                cuts = data.starts.tolist()
                found += [rows[a:b] for a, b in pairwise(cuts)]
        return found

    def predict_n_best(
        self, sentences: Sequence[Any], n: int
    ) -> list[list[tuple[list[str], float]]]:
        """Return the n best sequences of tags of each sentence, with their log-probabilities.

        Parameters
        ----------
        sentences : list of sentences
            As in `fit`.
        n : int
            How many; a short sentence may have fewer.

        Returns
        -------
        list of lists of (tags, log-probability), the best first

        Examples
        --------
        >>> from monro import CRFTagger
        >>> X, y = [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
        >>> tagger = CRFTagger(random_state=0).fit(X, y)
        >>> [tags for tags, _ in tagger.predict_n_best([["a", "b"]], 2)[0]]
        [['A', 'B'], ['B', 'B']]
        """
        check_integer("n", n, 1)
        found: list[list[tuple[list[str], float]]] = []
        mask = additive_mask(self._allowed(np.float64))
        for start, part in self._parts(sentences):
            k = self.classes_.size
            for which, _, data in sentence_parts(self._fitted.features.encode(part, start)):
                scratch = make_scratch(data, k, np.float64)
                for s in range(data.starts.size - 1):
                    length = int(data.starts[s + 1] - data.starts[s])
                    if length == 0:
                        found.append([([], 0.0)])
                        continue
                    state, pair = np.empty((length, k)), np.zeros((length, k, k))
                    sentence_scores(data, s, self._fitted.weights, scratch, state, pair)
                    state[0] += mask.first[:k]
                    state[-1] += mask.last[:k]
                    pair[1:] += mask.pair[0, :, :k]
                    log_z = _log_partition(state, pair)
                    best = best_sequences(state, pair, n)
                    self._check_valid(start, -1 if best else which.start + s)
                    found.append(
                        [
                            (self.classes_[tags].tolist(), float(score - log_z))
                            for score, tags in best
                        ]
                    )
        return found

    def _parts(self, sentences: Sequence[Any]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield parts of the sentences, each with the number of its first."""
        check_is_fitted(self, "_fitted")
        sentences = as_sentences(sentences)
        for k in range(0, len(sentences), _PART):
            yield k, sentences[k : k + _PART]

    def _check_valid(self, start: int, sentence: int) -> None:
        """Raise for a sentence without valid tags, numbered from `start`; -1: there is none."""
        if sentence < 0:
            return
        if self.constraints is None:
            what = "its scores overflow; scale the values of the features"
        else:
            what = f"no sequence of its length is valid for constraints={self.constraints!r}"
        raise ValueError(f"sentence {start + sentence}: {what}")

    def _allowed(self, dtype: Any) -> Allowed:
        check_is_fitted(self, "_fitted")
        names = self.classes_.tolist()
        if self.constraints is None:
            return all_allowed(len(names), dtype)
        check_choice("constraints", self.constraints, SCHEMES)
        return chunk_rules(names, self.constraints, dtype)

    def _by_sentence(self, y: Array, starts: Array) -> list[list[str]]:
        names = self.classes_[y].tolist()
        cuts = starts.tolist()
        return [names[a:b] for a, b in pairwise(cuts)]

    # ---------------------------------------------------------------------------------- measuring

    def _problem(self, sentences: Sequence[Any], tags: Sequence[Any]) -> ChainProblem:
        check_is_fitted(self, "_fitted")
        sentences, tags = as_sentences(sentences), as_list("tags", tags)
        if not sentences:
            raise ValueError("sentences: there are none to judge by")
        fit = self._fitted
        data = fit.features.encode(sentences)
        if [len(sentence) for sentence in tags] != np.diff(data.starts).tolist():
            raise ValueError("tags: give each sentence as many tags as it has tokens")
        codes = tag_codes(tags, {name: k for k, name in enumerate(self.classes_.tolist())})
        sizes = (
            self._fitted.features.single.size,
            self._fitted.features.pairs.size,
            self.classes_.size,
        )
        return ChainProblem(
            data,
            codes,
            np.ones(len(tags)),
            *sizes,
            make_ridge(self._resolved_c, self._fitted.sentences),
        )

    def log_loss(self, sentences: Sequence[Any], tags: Sequence[Sequence[str]]) -> float:
        """Return the mean of ``-log p(tags)`` over sentences, in nats, without the constraints.

        Examples
        --------
        >>> from monro import CRFTagger
        >>> X, y = [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
        >>> CRFTagger(c=1.0, random_state=0).fit(X, y).log_loss(X, y) < 1.0
        True
        """
        problem = self._problem(sentences, tags)
        return mean_loss(problem, self._fitted.weights)

    def objective(self, sentences: Sequence[Any], tags: Sequence[Sequence[str]]) -> float:
        """Return the objective of `fit`: the log-loss plus the ridge of the weights.

        Examples
        --------
        >>> from monro import CRFTagger
        >>> X, y = [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
        >>> tagger = CRFTagger(random_state=0).fit(X, y)
        >>> tagger.objective(X, y) > tagger.log_loss(X, y)
        True
        """
        problem = self._problem(sentences, tags)
        return objective(problem, self._fitted.weights)

    def evaluate(self, sentences: Sequence[Any], tags: Sequence[Sequence[str]]) -> Evaluation:
        """Count correct chunks as conlleval does; ``print(….table())`` shows its table.

        Where no tag looks like B-X or I-X, each token whose tag is not O is a chunk by itself.

        Examples
        --------
        >>> from monro import CRFTagger
        >>> X, y = [["a", "b"], ["b", "b"]], [["B-A", "O"], ["O", "O"]]
        >>> CRFTagger(random_state=0).fit(X, y).evaluate(X, y).overall.f1
        1.0
        """
        return evaluate(as_list("tags", tags), self.predict(sentences))

    def score(self, sentences: Sequence[Any], tags: Sequence[Sequence[str]]) -> float:
        """Return the F1 of chunks from 0 to 1, counted as conlleval does (see `evaluate`)."""
        return self.evaluate(sentences, tags).overall.f1

    # --------------------------------------------------------------------------------- inspecting

    @property
    def template_(self) -> str | None:
        """The template, given or default; None if tokens are lists or dicts of features."""
        check_is_fitted(self, "_fitted")
        return self._fitted.features.template

    @property
    def n_features_(self) -> int:
        """The number of features, including those of pairs of tags."""
        check_is_fitted(self, "_fitted")
        return self._fitted.features.single.size + self._fitted.features.pairs.size

    @property
    def n_parameters_(self) -> int:
        """The number of weights."""
        check_is_fitted(self, "_fitted")
        n = self.classes_.size
        return int(self._fitted.features.single.size * n + self._fitted.features.pairs.size * n * n)

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """The non-zero weights, by feature and tag."""
        state, _ = self._tables()
        names, tags = self._names(), self.classes_.tolist()
        return {
            (names[f], tags[k]): float(state[f, k]) for f, k in zip(*np.nonzero(state), strict=True)
        }

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The weights of pairs of neighbouring tags that do not depend on the tokens."""
        _, pair = self._tables()
        templates = self._fitted.features.pair_templates
        plain = {"".join(each.texts) for each in templates if not each.places}
        everywhere = [name in plain for name in self._fitted.features.pair_names]
        tags = self.classes_.tolist()
        total = pair[everywhere].sum(axis=0)
        return {(a, b): float(total[i, k]) for i, a in enumerate(tags) for k, b in enumerate(tags)}

    def top_features(self, tag: str, n: int = 10) -> list[tuple[str, float]]:
        r"""Return the n features of the largest weights for a tag, with these weights.

        Examples
        --------
        >>> from monro import CRFTagger
        >>> X, y = [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
        >>> tagger = CRFTagger(template="U:%x[0,0]\nB", random_state=0).fit(X, y)
        >>> [name for name, _ in tagger.top_features("A", 1)]
        ['U:a']
        """
        check_integer("n", n, 1)
        state, _ = self._tables()
        names, tags = self._names(), self.classes_.tolist()
        if tag not in tags:
            raise ValueError(f"there is no tag {tag!r}; choose from {', '.join(tags)}")
        weights = state[:, tags.index(tag)]
        best = np.argsort(-weights, kind="stable")[:n]
        return [(names[f], float(weights[f])) for f in best]

    def _tables(self) -> tuple[Array, Array]:
        check_is_fitted(self, "_fitted")
        return as_tables(self._fitted.weights, self.classes_.size)

    def _names(self) -> list[str] | Mapping[int, str]:
        return (
            _HashNames()
            if isinstance(self._fitted.features.single, Hashed)
            else self._fitted.features.names
        )


class _HashNames(dict[int, str]):
    """Names of hashed features, made from their numbers."""

    def __missing__(self, number: int) -> str:
        return f"#{number}"


def _log_partition(state: Array, pair: Array) -> float:
    alpha = state[0]
    for t in range(1, len(state)):
        alpha = np.logaddexp.reduce(alpha[:, None] + pair[t], axis=0) + state[t]
    return float(np.logaddexp.reduce(alpha))
