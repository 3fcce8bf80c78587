"""Ray: softmax and linear models on two nodes of this host, against a single process.

Time and bytes for 1, 2 and 4 workers, workers killed at random, and a cost model that is fitted to
three data sets and predicts a fourth.
"""

from typing import Any

import numpy as np

from benchmarks.harness import markdown

EPOCHS = {"Bibtex": 50, "Delicious": 50, "WikiText-2": 5, "PTB": 5}
WORKERS = (1, 2, 4)
CORES = 2
KILLS, KILLS_A_RUN = 20, 2
PROBLEMS = (("log", 1e-4), ("log", 1e-5), ("hinge", 1e-4), ("hinge", 1e-5))  # loss, alpha


def run(*, quick: bool) -> dict[str, Any]:
    from benchmarks.onray import measure

    return measure(quick=quick)


# The problem and the nodes to plan for.
ROWS, NONZEROS, FEATURES = 10**10, 50, 10**4
NODE_CORES, NODE_BYTES, NODE_NETWORK = 16, 128e9, 1.25e9
SHARE = 0.7  # the part of a node's memory that weights may take


def _plan(cost: dict[str, Any], n_classes: int) -> dict[str, float]:
    """Return the cost of an epoch over all rows, with as many nodes as the weights need."""
    weights = 4.0 * n_classes * FEATURES
    nodes = max(1, int(np.ceil(weights / (SHARE * NODE_BYTES))))
    parts = nodes * NODE_CORES
    visit = cost["row"] + cost["block"] * 2 * NONZEROS
    return {
        "weights": weights,
        "nodes": nodes,
        "parts": parts,
        "seconds": ROWS * visit,
        "network": 8.0 * ROWS * parts * (1 - 1 / nodes) / nodes / NODE_NETWORK,
        "shares": 8.0 * ROWS * NODE_CORES,
    }


def table(result: dict[str, Any]) -> str:
    return "\n\n".join(
        [
            _softmax_table(result["sets"]),
            "Workers killed at random (SIGKILL), Delicious, 30 epochs, 2 workers:",
            _fault_table(result["faults"]),
            "Linear models on RCV1, 10 epochs: the objective over that of one process "
            "(its default solver):",
            _linear_table(result["linear"]),
            _cost_text(result["cost"], result["sets"][-1]),
            _cost_table(result["cost"]),
            f"{ROWS:,} rows of {NONZEROS} non-zeros, {FEATURES:,} features, nodes of {NODE_CORES} "
            f"cores, {NODE_BYTES / 1e9:.0f} GB and {NODE_NETWORK * 8 / 1e9:.0f} Gbit/s:",
            _plan_table(result["cost"]),
        ]
    )


def _softmax_table(sets: list[dict[str, Any]]) -> str:
    header = ["", "classes", "epochs", "", "log-loss", "over one process's"]
    header += ["s / epoch", "MB / epoch", "efficiency of a core"]
    rows = []
    for data in sets:
        alone = data["alone"]
        what = [data["name"], f"{data['classes']:,}", str(data["epochs"])]
        figures = [f"{alone['log_loss']:.4f}", "1", f"{alone['epoch']:.3f}", "–", "–"]
        rows.append([*what, "one process", *figures])
        first = data["workers"][0]["epoch"]
        for each in data["workers"]:
            workers = each["workers"]
            rows.append(
                [
                    *["", "", ""],
                    f"{workers} workers" if workers > 1 else "1 worker",
                    f"{each['log_loss']:.4f}",
                    f"{each['log_loss'] / alone['log_loss']:.4f}",
                    f"{each['epoch']:.3f}",
                    f"{each['bytes'] / 1e6:.1f}",
                    f"{first / (each['epoch'] * min(workers, CORES)):.2f}",
                ]
            )
    return markdown(header, rows)


def _fault_table(faults: dict[str, Any]) -> str:
    runs = faults["runs"]
    same = sum(run["same"] for run in runs)
    seconds = float(np.median([run["seconds"] for run in runs]))
    rows = [
        ["workers killed", str(faults["killed"])],
        ["runs", str(len(runs))],
        ["runs with the same bits as the undisturbed run", str(same)],
        ["seconds, undisturbed", f"{faults['undisturbed']:.0f}"],
        [f"seconds, median of runs with up to {KILLS_A_RUN} killed", f"{seconds:.0f}"],
        ["seconds, longest", f"{max(run['seconds'] for run in runs):.0f}"],
    ]
    return markdown(["", ""], rows)


def _linear_table(results: list[dict[str, Any]]) -> str:
    rows = [
        [f"{row['loss']}, alpha={row['alpha']:g}"]
        + [f"{value / row['alone']:.4f}" for value in row["workers"].values()]
        for row in results
    ]
    return markdown(["", *(f"{k} workers" for k in results[0]["workers"])], rows)


def _cost_text(cost: dict[str, Any], other: dict[str, Any]) -> str:
    worst = max(max(fit["ratio"], 1 / fit["ratio"]) for fit in cost["fitted"])
    return (
        f"Seconds of a core, fitted: {cost['row'] * 1e9:.0f} ns a visit of a row, "
        f"{cost['block'] * 1e9:.1f} ns a non-zero and block of 16 classes drawn, "
        f"{cost['call'] * 1e3:.1f} ms a call; off by a factor of {worst:.2f} at most on what it "
        f"was fitted to. Asked about {other['name']} ({other['rows']:,} rows, {other['classes']:,} "
        "classes), which it had not seen:"
    )


def _cost_table(cost: dict[str, Any]) -> str:
    rows = [
        [str(p["workers"]), f"{p['predicted']:.2f}", f"{p['measured']:.2f}"]
        for p in cost["predicted"]
    ]
    return markdown(["workers", "s / epoch, predicted", "s / epoch, measured"], rows)


def _plan_table(cost: dict[str, Any]) -> str:
    rows = []
    for n_classes in (10**7, 10**8, 10**9):
        plan = _plan(cost, n_classes)
        rows.append(
            [
                f"{n_classes:.0e}".replace("e+0", "e"),
                f"{plan['weights'] / 1e12:.1f} TB",
                f"{plan['nodes']:,}",
                f"{plan['parts']:,}",
                f"{plan['seconds'] / 3600:.0f}",
                f"{plan['network'] / 3600:.1f}",
                f"{plan['shares'] / 1e12:.2f} TB",
            ]
        )
    header = ["classes", "weights", "nodes", "parts", "h / epoch, steps", "h / epoch, network"]
    return markdown([*header, "ℓ on a node"], rows)
