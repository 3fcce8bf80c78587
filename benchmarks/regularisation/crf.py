"""`CRFTagger(c="auto")` on CoNLL-2000, beside a grid of seven values of c.

The test sentences judge each fit; the grid's best FB1 on them is a yardstick that no user has.
"""

from functools import partial

from benchmarks.harness import markdown
from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result
from monro import CRFTagger
from monro.data.conll import Sentences
from monro.studies import data
from monro.studies.sgd_qn_runs import TEMPLATE

GRID = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
FB1_BAR, FIT_BAR = 0.1, 4.0


def cells(quick: bool) -> list[str]:
    return ["CoNLL-2000"]


def measure(name: str, *, quick: bool, limit: float) -> Result:
    train, test = data.conll2000()
    if quick:
        train, test = (Sentences(*(part[:300] for part in each)) for each in (train, test))
    make = partial(CRFTagger, template=TEMPLATE, cutoff=3, random_state=0)
    repeats = 1 if quick else judging.REPEATS
    model, ours = judging.fitted(make, train.tokens, train.tags, "c", repeats)
    ours["fb1"] = 100.0 * model.score(test.tokens, test.tags)
    grid = []
    for c in GRID[:2] if quick else GRID:
        fixed = make(c=c)
        seconds = judging.seconds_of(lambda: fixed.fit(train.tokens, train.tags))  # noqa: B023
        fb1 = 100.0 * fixed.score(test.tokens, test.tags)
        grid.append({"c": c, "fb1": fb1, "seconds": seconds})
        print(grid[-1], flush=True)
    return {"ours": ours, "grid": grid}


def table(rows: list[Result]) -> str:
    parts = []
    for row in rows:
        ours, grid = row["ours"], row["grid"]
        lines = [[f"{one['c']:g}", f"{one['fb1']:.2f}", f"{one['seconds']:.2f}"] for one in grid]
        own = [f"auto: {ours['strength']:.3g}", f"{ours['fb1']:.2f}", f"{ours['seconds']:.2f}"]
        header = [f"{row['set']}, c", "test FB1", "s"]
        behind = max(one["fb1"] for one in grid) - ours["fb1"]
        times = {row["set"]: ours["seconds"] / ours["fixed_seconds"]}
        claims = [
            sentences.at_most(
                f"FB1 at most {FB1_BAR} below the best of {len(grid)} values",
                {row["set"]: behind},
                FB1_BAR,
                ".2f",
            ),
            sentences.at_most(
                f"Time at most {FIT_BAR:g} times that of a fit of the strength chosen",
                times,
                FIT_BAR,
                ".1f",
            ),
        ]
        parts += [markdown(header, [*lines, own]), *claims]
    return "\n\n".join(parts)
