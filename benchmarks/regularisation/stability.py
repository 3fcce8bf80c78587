"""How much the strength and the test log-loss depend on the seed."""

from functools import partial
from typing import Any

from benchmarks import datasets
from benchmarks.harness import markdown
from benchmarks.manyclasses import SETS as MANY
from benchmarks.regularisation import judging, linear, sentences
from benchmarks.regularisation.children import Result
from monro import LinearClassifier, SoftmaxClassifier

SEEDS = 20
STRENGTH_BAR, LOSS_BAR = 3.0, 1.01
SMALL = {name: partial(datasets.small, name) for name in linear.SMALL}
# All but those that take minutes a fit.
SETS = {
    "softmax": SMALL | {name: load for name, load in MANY.items() if name != "Omniglot"},
    "linear": {name: load for name, load in linear.SETS.items() if name != "covtype"},
}


def cells(quick: bool) -> list[str]:
    if quick:
        return ["softmax on iris"]
    return [f"{kind} on {name}" for kind, sets in SETS.items() for name in sets]


def measure(name: str, *, quick: bool, limit: float) -> Result:
    kind, _, data_name = name.partition(" on ")
    data = SETS[kind][data_name]()
    strengths, losses = [], []
    for seed in range(2 if quick else SEEDS):
        model: Any = SoftmaxClassifier(alpha="auto", random_state=seed)
        if kind == "linear":
            model = LinearClassifier(loss="log", alpha="auto", random_state=seed)
        model.fit(data.X, data.y)
        strengths.append(float(model.alpha_))
        losses.append(judging.judged(model, data)["log_loss"])
    print(name, strengths, losses, flush=True)
    return {"rows": data.y.size, "strengths": strengths, "losses": losses}


def table(rows: list[Result]) -> str:
    lines = []
    spreads: dict[str, dict[str, float | None]] = {"strengths": {}, "losses": {}}
    for row in rows:
        line = [row["set"], f"{row['rows']:,}", str(len(row["losses"]))]
        for what, form in (("strengths", ".3g"), ("losses", ".4f")):
            least, most = min(row[what]), max(row[what])
            spreads[what][row["set"]] = most / least
            line += [f"{least:{form}}", f"{most:{form}}", f"{most / least:.3f}"]
        lines.append(line)
    header = ["over seeds", "rows", "seeds", "least alpha_", "greatest", "ratio"]
    header += ["least test log-loss", "greatest", "ratio"]
    of_strengths = f"Greatest strength at most {STRENGTH_BAR:g} times the least"
    of_losses = f"Greatest test log-loss at most {LOSS_BAR:g} times the least"
    return "\n\n".join(
        [
            markdown(header, lines),
            sentences.at_most(of_strengths, spreads["strengths"], STRENGTH_BAR, ".1f"),
            sentences.at_most(of_losses, spreads["losses"], LOSS_BAR),
        ]
    )
