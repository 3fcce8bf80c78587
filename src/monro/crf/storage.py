"""Taggers as arrays and JSON, for `monro.persist` to write."""

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from monro import persist
from monro.crf.corpus import FeatureMap
from monro.crf.encoding import Hashed, Table
from monro.crf.features import Extractor
from monro.crf.sgdqn import GainState
from monro.crf.solvers import SgdState
from monro.crf.template import parse
from monro.crf.weights import Weights, as_tables
from monro.persist import Contents
from monro.storage import get_parameters, put_labels, set_parameters, take_labels

STATES = {kind.__name__: kind for kind in (SgdState, GainState, Weights)}
_PLAIN = ("history_", "n_iter_", "learning_rate_", "solver_", "_seen")


def _put_texts(name: str, texts: list[str], contents: Contents) -> None:
    """Add many texts, as bytes and their ends."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    contents.arrays[f"{name}.ends"] = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    contents.arrays[f"{name}.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)


def _take_texts(name: str, contents: Contents) -> list[str]:
    text = contents.arrays[f"{name}.bytes"].tobytes()
    ends = contents.arrays[f"{name}.ends"].tolist()
    return [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise([0, *ends])]


def to_contents(tagger: Any) -> Contents:
    """Return a fitted tagger's arrays and JSON."""
    check_is_fitted(tagger, "_weights")
    contents = Contents({}, {"parameters": get_parameters(tagger)})
    if tagger.template is not None:  # the text, not the file it came from
        contents.about["parameters"]["template"] = tagger._map.template
    put_labels("classes_", tagger.classes_, contents)
    features: FeatureMap = tagger._map
    contents.about["fitted"] = {
        name: getattr(tagger, name) for name in _PLAIN if hasattr(tagger, name)
    }
    contents.about["features"] = {
        "template": features.template,
        "n_columns": features.n_columns,
        "hash_bits": features.single.bits if isinstance(features.single, Hashed) else None,
    }
    if isinstance(features.single, Table):
        contents.arrays["keys"] = features.single.keys
    contents.arrays["pair_keys"] = features.pairs.keys
    _put_texts("names", features.names, contents)
    _put_texts("pair_names", features.pair_names, contents)
    contents.about["state"] = persist.flatten("state", tagger._state, contents.arrays)
    return contents


def from_contents(tagger: Any, contents: Contents) -> None:
    """Make a tagger what it was."""
    set_parameters(tagger, contents.about["parameters"])
    for name, value in contents.about["fitted"].items():
        if name not in _PLAIN:
            raise ValueError(name)
        setattr(tagger, name, value)
    classes = take_labels("classes_", contents)
    if classes is None:
        raise ValueError("classes_")
    tagger.classes_ = classes
    about = contents.about["features"]
    templates = None if about["template"] is None else parse(about["template"])
    bits = about["hash_bits"]
    single = Hashed(bits) if bits is not None else Table(contents.arrays["keys"])
    pairs = Table(contents.arrays["pair_keys"])
    names, pair_names = (_take_texts(name, contents) for name in ("names", "pair_names"))
    numbers = (single, pairs, names, pair_names)
    tagger._map = FeatureMap(templates, about["n_columns"], *numbers, Extractor(templates))
    tagger._state = persist.unflatten("state", contents.about["state"], contents.arrays, STATES)
    state, pair = as_tables(tagger._state.w, classes.size)
    n = classes.size
    if state.shape != (single.size, n) or pair.shape != (pairs.size, n, n):
        raise ValueError("state")
    if len(pair_names) != pairs.size or (bits is None and len(names) != single.size):
        raise ValueError("names")
    if not _consistent(tagger._state):
        raise ValueError("state")
    if not (np.isfinite(state).all() and np.isfinite(pair).all()):
        raise ValueError("state")


def same_shape(state: Any, other: Any) -> bool:
    """Tell whether two states have weights of the same features and tags."""
    alike = all(a.shape == b.shape for a, b in zip(state.w, other.w, strict=True))
    return alike and _consistent(state)


def _consistent(state: Any) -> bool:
    """Tell whether what a state keeps besides the weights is as large as they are."""
    shapes = [part.shape for part in state.w]
    if isinstance(state, GainState):
        sizes = (state.last.size, state.pair_last.size)
        same = [part.shape for part in state.gains] == shapes
        return same and sizes == (shapes[0][1], shapes[1][1])
    kept = [part.shape for part in state.total]
    return kept == shapes or kept[0][0] == 0
