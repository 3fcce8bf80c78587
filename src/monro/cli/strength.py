"""With alpha="auto": the strengths of the penalty that a fit has compared, as a table and plots."""

import json
from math import floor, log, log10
from typing import Any

from rich.table import Table

from monro.cli.common import print_table, say
from monro.progress import pipe_safe_console
from monro.report.content import Curve, Plot

_MOST_DECIMALS = 12


def chosen_strength(estimator: Any) -> dict[str, float]:
    """Return alpha, and c of a tagger, if it was chosen by the fit."""
    names = [name for name in ("alpha", "c") if hasattr(estimator, f"{name}_")]
    return {name: getattr(estimator, f"{name}_") for name in names}


def print_fit(estimator: Any, result: dict[str, Any], as_json: bool) -> None:
    """Print the result of a fit as a table, or as JSON."""
    path: list[dict[str, Any]] = getattr(estimator, "alpha_path_", [])
    if as_json:
        print(json.dumps(result | ({"alpha_path": path} if path else {})))
        return
    if path:
        # A tagger's parameter is c, to which alpha is inversely proportional.
        parameter = "c" if "c" in path[0] else "alpha"
        console = pipe_safe_console()
        say(console, "Strengths of the penalty, judged on rows held out")
        console.print(path_table(path, parameter, getattr(estimator, f"{parameter}_")))
    print_table(type(estimator).__name__, result)


def path_table(path: list[dict[str, Any]], parameter: str, chosen: float) -> Table:
    """Return the path as a table, in which the strength nearest to the chosen one is marked."""
    table = Table()
    for heading in (parameter, "loss held out ± std. error", "non-zeros"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    decimals = _decimals([record["standard_error"] for record in path])
    nearest = min(path, key=lambda record: abs(log(record[parameter] / chosen)))
    for record in path:
        mark = ""
        if record is nearest:
            mark = f"← {chosen:.3g} chosen" if record[parameter] != chosen else "← chosen"
        table.add_row(
            f"{record[parameter]:.3g}",
            f"{record['mean']:,.{decimals}f} ± {record['standard_error']:,.{decimals}f}",
            f"{record['nonzeros']:,}",
            mark,
            style="bold" if mark else None,
        )
    return table


def _decimals(errors: list[float]) -> int:
    """Return the decimals with which the least standard error has two significant digits.

    Examples
    --------
    >>> _decimals([0.0123, 0.0046]), _decimals([154.0]), _decimals([0.0])
    (4, 0, 12)
    """
    least = max(min(errors), 10.0**-_MOST_DECIMALS)
    return min(max(1 - floor(log10(least)), 0), _MOST_DECIMALS)


def path_plots(estimator: Any) -> list[Plot]:
    """Return plots of the path for a page; none if the strength was not chosen by the fit."""
    path: list[dict[str, Any]] = getattr(estimator, "alpha_path_", [])
    if not path:
        return []
    alpha, mean, error, nonzeros = (
        [record[name] for record in path]
        for name in ("alpha", "mean", "standard_error", "nonzeros")
    )
    above = [m + e for m, e in zip(mean, error, strict=True)]
    below = [m - e for m, e in zip(mean, error, strict=True)]
    group, x = "rows held out", {"alpha, from weak to strong": alpha}
    chosen = {"alpha, from weak to strong": [estimator.alpha_] * 2}
    curves = [
        Curve("loss", x, mean, group),
        Curve("plus a standard error", x, above, group),
        Curve("minus a standard error", x, below, group),
        Curve(f"chosen: {estimator.alpha_:.3g}", chosen, [min(below), max(above)]),
    ]
    note = "Short fits with weaker and weaker penalties, then one of all rows with that chosen."
    plots = [
        Plot("How strong a penalty?", "loss of rows held out", curves, True, min(below) > 0, note)
    ]
    if len(set(nonzeros)) > 1:
        weights = Curve("weights that are not 0", x, nonzeros, group)
        plots.append(Plot("How many weights?", "weights that are not 0", [weights], True, True))
    return plots
