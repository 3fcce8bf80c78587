"""monro fit, predict and evaluate for taggers, on CoNLL files."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from monro.cli.common import (
    check_model,
    make_estimator,
    output,
    run_fit,
    save_model,
    say,
)
from monro.cli.strength import chosen_strength, print_fit
from monro.crf.conlleval import evaluate as count_chunks
from monro.crf.tagger import CRFTagger
from monro.data.conll import Sentences, Token, conll_blocks
from monro.data.registry import resolve
from monro.errors import DataError
from monro.progress import pipe_safe_console


def fit(
    data_name: str,
    model: Path,
    parameters: dict[str, Any],
    settings: list[str],
    *,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit to a CoNLL file, save the model, and print the result."""
    console = pipe_safe_console(stderr=True, quiet=quiet)
    tagger: CRFTagger = make_estimator(CRFTagger, parameters, settings, quiet)
    tagger._check_parameters()
    check_model(model, data_name, checkpoint)
    path = resolve(data_name)
    say(console, f"{data_name}: columns, the last one the tag")
    begin = time.perf_counter()
    run_fit(console, tagger, checkpoint, lambda: tagger.fit_file(path, checkpoint=checkpoint))
    seconds = time.perf_counter() - begin
    save_model(tagger, model, checkpoint)
    last = tagger.history_[-1]
    result = {
        "model": str(model),
        "sentences": int(tagger._fitted.sentences),
        "tags": tagger.classes_.tolist(),
        "features": tagger.n_features_,
        "parameters": tagger.n_parameters_,
        "solver": tagger.solver,
        "c": tagger._resolved_c,
        "learning_rate": tagger.learning_rate_,
        **chosen_strength(tagger),
        "epochs": tagger.n_iter_,
        "seconds": seconds,
        "mean_loss": last["loss"],
        **({"objective": last["objective"]} if "objective" in last else {}),
    }
    print_fit(tagger, result, as_json)


def _blocks(tagger: CRFTagger, data_name: str) -> Iterator[tuple[Sentences, bool]]:
    """Yield blocks of the sentences of a file, and whether their last column is the tag."""
    features = tagger._fitted.features
    expected = features.n_columns
    if features.templates is None:
        raise ValueError("the model was fitted on lists or dicts of features: use it in Python")
    for block in conll_blocks(resolve(data_name), tagged=False):
        found = len(block.tokens[0][0])
        if found not in (expected, expected + 1):
            raise DataError(
                f"its tokens have {found} columns, the model takes {expected}, and a tag after "
                "them if there is one",
                data_name,
            )
        yield block, found > expected


def _without_tags(tokens: list[list[Token]], tagged: bool) -> list[list[Token]]:
    """Return tokens without their tags, if they have tags."""
    return [[token[:-1] for token in sentence] for sentence in tokens] if tagged else tokens


def predict(
    tagger: CRFTagger,
    data_name: str,
    *,
    proba: bool,
    top_k: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the columns of the input, followed by the predicted tag."""
    with output(out) as file:
        for block, tagged in _blocks(tagger, data_name):
            sentences = _without_tags(block.tokens, tagged)
            if top_k is not None:
                texts = _n_best(tagger, block.tokens, sentences, top_k, as_json)
            elif proba:
                texts = _probabilities(tagger, block.tokens, sentences, as_json)
            else:
                texts = _tags(block.tokens, tagger.predict(sentences), as_json)
            file.writelines(f"{text}\n" for text in texts)


def _columns(sentence: list[Token], *more: list[str]) -> str:
    rows = zip(sentence, *more, strict=True)
    return "".join(" ".join([*token, *rest]) + "\n" for token, *rest in rows)


def _tags(tokens: list[list[Token]], tags: list[list[str]], as_json: bool) -> Iterator[str]:
    for sentence, found in zip(tokens, tags, strict=True):
        yield json.dumps({"tags": found}) if as_json else _columns(sentence, found)


def _probabilities(
    tagger: CRFTagger, tokens: list[list[Token]], sentences: list[list[Token]], as_json: bool
) -> Iterator[str]:
    pairs = zip(tagger.predict(sentences), tagger.predict_marginals(sentences), strict=True)
    for sentence, (found, chances) in zip(tokens, pairs, strict=True):
        if as_json:
            yield json.dumps({"tags": found, "proba": chances})
        else:
            rows = [" ".join(f"{tag}:{p:.6g}" for tag, p in row.items()) for row in chances]
            yield _columns(sentence, found, rows)


def _n_best(
    tagger: CRFTagger,
    tokens: list[list[Token]],
    sentences: list[list[Token]],
    n: int,
    as_json: bool,
) -> Iterator[str]:
    for sentence, candidates in zip(tokens, tagger.predict_n_best(sentences, n), strict=True):
        if as_json:
            best = [{"tags": tags, "log_proba": chance} for tags, chance in candidates]
            yield json.dumps({"best": best})
        else:
            for rank, (tags, chance) in enumerate(candidates):
                yield f"# {rank} {np.exp(chance):.6g}\n" + _columns(sentence, tags)


def evaluate(tagger: CRFTagger, model: Path, data_name: str, *, as_json: bool) -> None:
    """Print the table of conlleval."""
    true: list[list[str]] = []
    predicted: list[list[str]] = []
    for block, tagged in _blocks(tagger, data_name):
        if not tagged:
            raise DataError(
                "its tokens have no tags", data_name, cure="give the tag as the last column"
            )
        true += [[token[-1] for token in sentence] for sentence in block.tokens]
        predicted += tagger.predict(_without_tags(block.tokens, True))
    result = count_chunks(true, predicted)
    if not as_json:
        say(pipe_safe_console(), f"{model} on {data_name}\n{result.table()}")
        return
    kinds = {"overall": result.overall} | result.by_type
    counts = {
        kind: each._asdict() | {"precision": each.precision, "recall": each.recall, "f1": each.f1}
        for kind, each in kinds.items()
    }
    overall = counts.pop("overall")
    print(
        json.dumps(
            {"tokens": result.tokens, "accuracy": result.accuracy} | overall | {"types": counts}
        )
    )
