"""Model files of taggers: features, tags, and the state that a later fit continues from."""

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from monro.blocks import LANES, n_blocks
from monro.crf.encoding import Hashed, KeyTable
from monro.crf.feature_map import FeatureMap
from monro.crf.features import Extractor
from monro.crf.sgd import SgdState
from monro.crf.sgdqn import GainState
from monro.crf.solvers import SOLVERS
from monro.crf.template import parse
from monro.crf.trainer import ChainFit
from monro.crf.weights import ChainWeights
from monro.fitting.run import CHOSEN
from monro.saving.container import Contents
from monro.saving.estimator import check_numbers, describe, restore, round_to_half
from monro.saving.states import arrays_of, axes, flatten, unflatten

# The states by their names in files.
STATES = {"SgdState": SgdState, "GainState": GainState, "Weights": ChainWeights}
_ATTRIBUTES = (
    "history_",
    "n_iter_",
    "learning_rate_",
    "solver_",
    *CHOSEN,
)


def to_contents(tagger: Any) -> Contents:
    """Return a fitted tagger's arrays and JSON."""
    check_is_fitted(tagger, "_fitted")
    fit: ChainFit = tagger._fitted
    features = fit.features
    contents = describe(tagger, _ATTRIBUTES)
    if tagger.template is not None:  # the text, not the file it came from
        contents.about["parameters"]["template"] = features.template
    contents.about["fitted"]["_seen"] = fit.sentences
    contents.about["features"] = {
        "template": features.template,
        "n_columns": features.n_columns,
        "hash_bits": features.single.bits if isinstance(features.single, Hashed) else None,
    }
    if isinstance(features.single, KeyTable):
        contents.arrays["keys"] = features.single.keys
    contents.arrays["pair_keys"] = features.pairs.keys
    _put_texts("names", features.names, contents)
    _put_texts("pair_names", features.pair_names, contents)
    contents.about["state"] = flatten(
        "state", fit.weights if fit.state is None else fit.state, contents.arrays, STATES
    )
    return contents


def keep_predictions(tagger: Any, contents: Contents) -> None:
    """Remove what only training needs, and round the weights."""
    for name in [name for name in contents.arrays if name.startswith("state.")]:
        del contents.arrays[name]
    contents.about["state"] = flatten("state", tagger._fitted.weights, contents.arrays, STATES)
    contents.about["fitted"]["history_"] = []
    round_to_half(contents, ["state.W", "state.V"])


def from_contents(tagger: Any, contents: Contents) -> None:
    """Set the attributes of a tagger from the contents of a file."""
    sentences = contents.about["fitted"].pop("_seen")
    restore(tagger, contents, _ATTRIBUTES)
    features = _features(contents)
    state = unflatten("state", contents.about["state"], contents.arrays, STATES)
    sizes = features.single.size, features.pairs.size, tagger.classes_.size
    _check_shapes(state, SOLVERS[tagger.solver_].averaged, *sizes)
    if isinstance(state, ChainWeights):  # for predictions only
        check_numbers(*state)
        tagger._fitted = ChainFit(features, state, None, sentences)
        return
    check_numbers(*state.w)
    tagger._fitted = ChainFit(features, state.solution(), state, sentences)


def _features(contents: Contents) -> FeatureMap:
    """Return the features of a file."""
    about = contents.about["features"]
    templates = None if about["template"] is None else parse(about["template"])
    bits = about["hash_bits"]
    single = Hashed(bits) if bits is not None else KeyTable(contents.arrays["keys"])
    pairs = KeyTable(contents.arrays["pair_keys"])
    names, pair_names = (_take_texts(name, contents) for name in ("names", "pair_names"))
    if len(pair_names) != pairs.size or (bits is None and len(names) != single.size):
        raise ValueError("names")
    numbers = (single, pairs, names, pair_names)
    return FeatureMap(templates, about["n_columns"], *numbers, Extractor(templates))


def _check_shapes(state: Any, averaged: bool, n_features: int, n_pairs: int, n_tags: int) -> None:
    """Raise unless a state's arrays have the sizes of the features and tags."""
    if isinstance(state, SgdState) and not averaged:
        state = state._replace(total=state.w)  # the total is empty without averaging
    declared = axes(ChainWeights) | axes(GainState)
    shapes = {
        declared["W"]: (n_blocks(n_tags), n_features, LANES),
        declared["V"]: (n_tags * n_blocks(n_tags), n_pairs, LANES),
        declared["last"]: (n_features,),
        declared["pair_last"]: (n_pairs,),
        declared["t"]: (1,),
    }
    for its, array in arrays_of(state):
        if array.shape != shapes[its]:
            raise ValueError("state")


# ------------------------------------------------------------------------------------ many texts


def _put_texts(name: str, texts: list[str], contents: Contents) -> None:
    """Add texts, as one array of bytes and one of their ends."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    contents.arrays[f"{name}.ends"] = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    contents.arrays[f"{name}.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)


def _take_texts(name: str, contents: Contents) -> list[str]:
    """Return the texts that `_put_texts` added."""
    text = contents.arrays[f"{name}.bytes"].tobytes()
    ends = contents.arrays[f"{name}.ends"].tolist()
    return [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise([0, *ends])]
