"""Memory and time of a default fit: 33,278 classes, 66,556 features, two million rows.

The next word of WikiText-2, with one-hot features for each of the two words before it. Each fit has
a process of its own; its memory is the greatest resident one, less that before rows were loaded.
"""

from typing import Any

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.regularisation import judging, sentences, softmax
from benchmarks.regularisation.children import Result, in_child, peak_bytes

FIT_BAR = 4.0
COPIES = 2  # of the weights


def cells(quick: bool) -> list[str]:
    return ["WikiText-2 two words"]


def measure(name: str, *, quick: bool, limit: float) -> Result:
    """Measure a fit that chooses its strength, and one of the strength chosen."""
    ours = in_child(_fit, "auto", quick, limit=limit)
    print(ours, flush=True)
    fixed = in_child(_fit, ours.get("strength", 1e-6), quick, limit=limit)
    print(fixed, flush=True)
    return {"auto": ours, "fixed": fixed}


def _fit(alpha: Any, quick: bool) -> Result:
    before = peak_bytes()
    X, y = datasets.two_words(2_000 if quick else None)
    model = softmax.make(alpha=alpha, weights="dense")
    seconds = judging.seconds_of(lambda: model.fit(X, y))
    peak = peak_bytes()
    return {
        "strength": float(model.alpha_) if alpha == "auto" else alpha,
        "seconds": seconds,
        "bytes": peak - before,
        "data_bytes": X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes,
        "weight_bytes": 4 * model.classes_.size * X.shape[1],
    }


def table(rows: list[Result]) -> str:
    parts = []
    for row in rows:
        lines, memory = [], {}
        for kind in ("auto", "fixed"):
            found = row[kind]
            if "limit" in found:
                lines.append([f"alpha {kind}", sentences.seconds(found), "–", "–", "–"])
                continue
            allowed = COPIES * found["weight_bytes"] + found["data_bytes"]
            memory[f"alpha {kind}"] = found["bytes"] / allowed
            sizes = [found["bytes"], found["weight_bytes"], found["data_bytes"]]
            gigabytes = [f"{size / 1e9:.2f}" for size in sizes]
            lines.append([f"alpha {kind}", sentences.seconds(found), *gigabytes])
        header = [row["set"], "s", "memory, GB", "weights, GB", "rows, GB"]
        claim = f"Memory at most {COPIES} times the weights, and the rows"
        parts += [markdown(header, lines), sentences.at_most(claim, memory, 1.0)]
        if "seconds" in row["auto"] and "seconds" in row["fixed"]:
            times = {row["set"]: row["auto"]["seconds"] / row["fixed"]["seconds"]}
            about = f"Time at most {FIT_BAR:g} times that of a fit of the strength chosen"
            parts.append(sentences.at_most(about, times, FIT_BAR, ".1f"))
    return "\n\n".join(parts)
