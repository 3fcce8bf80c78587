"""Memory and time of a default fit: 33,278 classes, 66,556 features, two million rows.

The next word of WikiText-2, with one-hot features for each of the two words before it. Each fit has
a process of its own; its memory is the greatest resident one, less that before rows were loaded.
One set has dense weights, the other what the default takes: weights of observed pairs. The bar for
both is twice the dense weights; how many times its own weights a fit takes is shown beside.
"""

from typing import Any

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.regularisation import judging, sentences, softmax
from benchmarks.regularisation.children import Result, in_child, peak_bytes

FIT_BAR = 4.0
COPIES = 2  # of the weights
DENSE, DEFAULT = "WikiText-2 two words", "WikiText-2 two words by default"
# The settings of a fit that chooses its strength, and of one that is given what was chosen.
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    DENSE: ({"weights": "dense"}, {"weights": "dense"}),
    DEFAULT: ({}, {"weights": "observed", "scale": True}),
}


def cells(quick: bool) -> list[str]:
    return list(SETTINGS)[:1] if quick else list(SETTINGS)


def measure(name: str, *, quick: bool, limit: float) -> Result:
    """Measure a fit that chooses its strength, and one of the strength chosen."""
    choosing, given = SETTINGS[name]
    in_child(_fit, "auto", given, True, limit=limit)  # compiles
    ours = in_child(_fit, "auto", choosing, quick, limit=limit)
    print(ours, flush=True)
    fixed = in_child(_fit, ours.get("strength", 1e-6), given, quick, limit=limit)
    print(fixed, flush=True)
    return {"auto": ours, "fixed": fixed}


def _fit(alpha: Any, settings: dict[str, Any], quick: bool) -> Result:
    before = peak_bytes()
    X, y = datasets.two_words(2_000 if quick else None)
    model = softmax.make(alpha=alpha, **settings)
    seconds = judging.seconds_of(lambda: model.fit(X, y))
    peak = peak_bytes()
    every, pairs = model.classes_.size * X.shape[1], model.plan_.get("pairs")
    return {
        "strength": float(model.alpha_) if alpha == "auto" else alpha,
        "seconds": seconds,
        "bytes": peak - before,
        "data_bytes": X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes,
        "weight_bytes": 4 * every,
        "stored": every if pairs is None else pairs,
        "stored_bytes": 4 * every if pairs is None else 8 * pairs,  # each has the code of its class
    }


def table(rows: list[Result]) -> str:
    parts = []
    for row in rows:
        lines, memory = [], {}
        for kind in ("auto", "fixed"):
            found = row[kind]
            if "limit" in found:
                lines.append([f"alpha {kind}", sentences.seconds(found), *["–"] * 5])
                continue
            allowed = COPIES * found["weight_bytes"] + found["data_bytes"]
            memory[f"alpha {kind}"] = found["bytes"] / allowed
            # Older results are of dense weights only.
            stored_bytes = found.get("stored_bytes", found["weight_bytes"])
            sizes = [found["bytes"], stored_bytes, found["data_bytes"]]
            gigabytes = [f"{size / 1e9:.2f}" for size in sizes]
            over = (found["bytes"] - found["data_bytes"]) / stored_bytes
            number = found.get("stored", found["weight_bytes"] // 4)
            line = [f"alpha {kind}", sentences.seconds(found), *gigabytes]
            lines.append([*line, f"{number:,}", f"{over:.1f}×"])
        header = [row["set"], "s", "memory, GB", "weights, GB", "rows, GB"]
        header += ["weights", "memory less rows over weights"]
        claim = f"Memory at most {COPIES} times the dense weights, and the rows"
        parts += [markdown(header, lines), sentences.at_most(claim, memory, 1.0)]
        if "seconds" in row["auto"] and "seconds" in row["fixed"]:
            times = {row["set"]: row["auto"]["seconds"] / row["fixed"]["seconds"]}
            about = f"Time at most {FIT_BAR:g} times that of a fit of the strength chosen"
            parts.append(sentences.at_most(about, times, FIT_BAR, ".1f"))
    return "\n\n".join(parts)
