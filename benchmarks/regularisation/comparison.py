"""Tables and verdicts of a default classifier beside LogisticRegressionCV."""

from benchmarks.regularisation import judging, sentences
from benchmarks.regularisation.children import Result

LOSS_BAR, CALIBRATION_BAR = 1.005, 0.03
MANY_ROWS = 10_000  # from which on the calibration error has a bar
DEFAULT = "LogisticRegression()"
HEADER = [
    "default",
    "calibration error",
    "s",
    "over one fit's s",
    judging.CROSS_VALIDATED,
    "default's loss over its",
    "its s",
    "over default's s",
    DEFAULT,
]


def lines(rows: list[Result]) -> list[list[str]]:
    """Return the lines of a table with HEADER; a peer that was stopped has its limit."""
    found = []
    for row in rows:
        ours = row["ours"]
        line = [row["set"], f"{ours['log_loss']:.4f}", f"{ours['calibration']:.3f}"]
        line += [f"{ours['seconds']:.3g}", f"{ours['seconds'] / ours['fixed_seconds']:.1f}×"]
        chosen = judging.cross_validated(row)
        if chosen is None:
            stopped = next(found for found in row["peers"].values() if "limit" in found)
            line += [sentences.seconds(stopped), "–", "–", "–"]
        else:
            variant, peer = chosen[0].partition(", ")[2], chosen[1]
            line.append(f"{peer['log_loss']:.4f}" + (f" ({variant})" if variant else ""))
            line += [f"{ours['log_loss'] / peer['log_loss']:.3f}", f"{peer['seconds']:.3g}"]
            line.append(f"{peer['seconds'] / ours['seconds']:.1f}×")
        default = row["peers"][DEFAULT]
        line.append(
            sentences.seconds(default) if "limit" in default else f"{default['log_loss']:.4f}"
        )
        found.append(line)
    return found


def stopped_peers(rows: list[Result]) -> str:
    """Return a sentence about the peers that were stopped at their time limit."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for peer, result in row["peers"].items():
            if "limit" in result:
                found.setdefault(f"{peer} in {result['limit']:,.0f} s", []).append(row["set"])
    places = [f"{peer} on {', '.join(sets)}" for peer, sets in found.items()]
    return f"Not finished: {'; '.join(places) or 'none'}."


def loss_ratios(rows: list[Result]) -> dict[str, float | None]:
    """Return for each set the default's test log-loss over LogisticRegressionCV's."""
    chosen = {row["set"]: judging.cross_validated(row) for row in rows}
    return {
        row["set"]: row["ours"]["log_loss"] / peer[1]["log_loss"]
        if (peer := chosen[row["set"]])
        else None
        for row in rows
    }


def time_ratios(rows: list[Result]) -> dict[str, float | None]:
    """Return for each set the default's time over LogisticRegressionCV's, or over its limit."""
    found: dict[str, float | None] = {}
    for row in rows:
        chosen = judging.cross_validated(row)
        limits = [peer["limit"] for peer in row["peers"].values() if "limit" in peer]
        theirs = chosen[1]["seconds"] if chosen else min(limits)
        found[row["set"]] = row["ours"]["seconds"] / theirs
    return found


def fit_ratios(rows: list[Result]) -> dict[str, float | None]:
    """Return for each set the time of a fit that chooses over that of a fit with what it chose."""
    return {row["set"]: row["ours"]["seconds"] / row["ours"]["fixed_seconds"] for row in rows}


def loss_and_calibration(rows: list[Result]) -> list[str]:
    """Return the sentences about losses and calibration errors."""
    ratios = loss_ratios(rows)
    claim = f"Test log-loss at most {LOSS_BAR} times that of {judging.CROSS_VALIDATED}"
    compared = [ratio for ratio in ratios.values() if ratio is not None]
    below = f"Below it: {sum(ratio < 1.0 for ratio in compared)} of {len(compared)}."
    many: dict[str, float | None] = {
        row["set"]: row["ours"]["calibration"] for row in rows if row["rows"] >= MANY_ROWS
    }
    claims = [f"{sentences.at_most(claim, ratios, LOSS_BAR)} {below}"]
    if many:
        about = f"Calibration error at most {CALIBRATION_BAR} with {MANY_ROWS:,} rows and more"
        claims.append(sentences.at_most(about, many, CALIBRATION_BAR))
    return claims
