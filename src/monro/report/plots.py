"""Plots as HTML: a figure with its controls, legend and values, and its data for `page.js`.

Colours are in `page.css`, for light and for dark. Here they have numbers.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from monro.report.content import Curve, Plot
from monro.report.text import escape, inline, paragraphs

COLOURS = 8  # --curve-0 to --curve-7 of page.css
MARKED = 30  # curves of more points are lines without markers
LISTED = 12  # points of a curve in the list of values

DASHES = (
    "solid",
    "8px,3px",
    "2px,2px",
    "9px,3px,2px,3px",
    "15px,4px",
    "4px,3px",
    "15px,3px,2px,3px",
    "9px,3px,2px,3px,2px,3px",
)
# Plotly's names, and the same shapes for the legend, drawn around 0, 0.
SYMBOLS = {
    "circle": "M4,0A4,4 0 1 1 0,-4A4,4 0 0 1 4,0Z",
    "square": "M3.5,3.5H-3.5V-3.5H3.5Z",
    "diamond": "M5,0L0,5L-5,0L0,-5Z",
    "triangle-up": "M-4.6,3H4.6L0,-4.8Z",
    "cross": "M4.8,1.6H1.6V4.8H-1.6V1.6H-4.8V-1.6H-1.6V-4.8H1.6V-1.6H4.8Z",
    "triangle-down": "M-4.6,-3H4.6L0,4.8Z",
    "bowtie": "M5,4V-4L-5,4V-4Z",
    "x": "M0,-2.2L2.3,-4.5L4.5,-2.3L2.2,0L4.5,2.3L2.3,4.5L0,2.2L-2.3,4.5L-4.5,2.3L-2.2,0"
    "L-4.5,-2.3L-2.3,-4.5Z",
}
SHAPES = tuple(SYMBOLS)


class Look(NamedTuple):
    """How a curve is drawn."""

    colour: int
    dash: str
    symbol: str


class Looks:
    """Gives each group one colour on the whole page, and the curves of a plot different lines.

    There may be more groups than colours: then those share one that are in no plot together, if
    that can be.
    """

    def __init__(self, plots: Sequence[Plot]) -> None:
        self._members: dict[str, list[str]] = {}
        beside: dict[str, set[str]] = {}
        for plot in plots:
            for curve in plot.curves:
                members = self._members.setdefault(_group(curve), [])
                if curve.name not in members:
                    members.append(curve.name)
                beside.setdefault(_group(curve), set()).update(map(_group, plot.curves))
        self._colours: dict[str, int] = {}
        for group, others in beside.items():
            near = [self._colours.get(other) for other in others]
            used = list(self._colours.values())
            self._colours[group] = min(range(COLOURS), key=lambda c: (near.count(c), used.count(c)))

    def of(self, plot: Plot) -> list[Look]:
        """Return the looks of a plot's curves."""
        order = list(self._members)
        looks: list[Look] = []
        for curve in plot.curves:
            group = _group(curve)
            wanted = order.index(group) + self._members[group].index(curve.name)
            colour = self._colours[group]
            alike = [look for look in looks if look.colour == colour]
            dash = _free(DASHES, wanted, [u.dash for u in alike], [u.dash for u in looks])
            symbol = _free(SHAPES, wanted, [u.symbol for u in alike], [u.symbol for u in looks])
            looks.append(Look(colour, dash, symbol))
        return looks


def _group(curve: Curve) -> str:
    """Return what a curve shares its colour with."""
    return curve.group or curve.name


def _free(choices: Sequence[str], wanted: int, alike: Sequence[str], all_: Sequence[str]) -> str:
    """Return the wanted choice, or the next one taken least, first by curves of like colour."""
    order = [choices[(wanted + i) % len(choices)] for i in range(len(choices))]
    return min(order, key=lambda choice: (alike.count(choice), all_.count(choice)))


# -------------------------------------------------------------------------------------------- data


def plot_data(plot: Plot, looks: Sequence[Look]) -> dict[str, Any]:
    """Return what `page.js` draws; numbers that are not finite are None."""
    axes = _axes(plot)
    curves = []
    for curve, look in zip(plot.curves, looks, strict=True):
        for axis, values in curve.x.items():
            if len(values) != len(curve.y):
                raise ValueError(
                    f"curve {curve.name!r}: {len(values)} values of {axis!r}, "
                    f"but {len(curve.y)} of y"
                )
        x = [_numbers(curve.x[axis]) if axis in curve.x else None for axis in axes]
        y = _numbers(curve.y)
        drawn = {"name": curve.name, "x": x, "y": y, "mode": _mode(y)}
        curves.append(drawn | look._asdict())
    return {"axes": axes, "y_title": plot.y_title, "log_x": bool(plot.log_x), "curves": curves}


def _axes(plot: Plot) -> list[str]:
    """Return the x axes of all curves, in their order."""
    return list(dict.fromkeys(axis for curve in plot.curves for axis in curve.x))


def _numbers(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers JSON can hold."""
    return [float(v) if v is not None and math.isfinite(v) else None for v in values]


def _mode(y: Sequence[float | None]) -> str:
    """Return lines or markers: a point on its own is seen only by its marker."""
    there = [value is not None for value in y]
    if sum(there) <= 1:
        return "markers"
    lone = any(
        now and not before and not after
        for before, now, after in zip([False, *there], there, [*there[1:], False], strict=False)
    )
    return "lines+markers" if lone or len(y) <= MARKED else "lines"


def to_json(data: Any) -> str:
    """Return JSON that may stand within a script: nothing in it can end that."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII, hence no U+2028
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# -------------------------------------------------------------------------------------------- HTML


def plot_html(plot: Plot, looks: Sequence[Look], name: str) -> str:
    """Return the figure; its name is that of its link."""
    data = plot_data(plot, looks)
    curves = ", ".join(curve.name for curve in plot.curves)
    label = f"{plot.title}: {plot.y_title} over {' or '.join(data['axes'])}. Curves: {curves}."
    legend = "".join(
        f'<li><button type="button" aria-pressed="true">{_swatch(look, curve["mode"])}'
        f"<span>{inline(curve['name'])}</span></button></li>"
        for look, curve in zip(looks, data["curves"], strict=True)
    )
    return (
        f'<figure class="card" id="{name}">'
        f"<figcaption><strong>{inline(plot.title)}</strong>{paragraphs(plot.note)}</figcaption>"
        f'<div class="controls"><span class="y-title">↑ {inline(plot.y_title)}</span>'
        f'<span class="switches">{_axis_choice(data["axes"], name)}{_scale_choice(plot, data)}'
        "</span></div>"
        f'<div class="plot" role="img" aria-label="{escape(label)}"></div>'
        f'<ul class="legend" aria-label="Curves, to show or to hide">{legend}</ul>'
        f"{_values(plot, data)}"
        f'<script type="application/json">{to_json(data)}</script></figure>'
    )


def _axis_choice(axes: Sequence[str], name: str) -> str:
    """Return radio buttons to choose the x axis, where there is a choice."""
    if len(axes) < 2:
        return ""
    choices = "".join(
        f'<label><input type="radio" name="{name}-axis" value="{i}" autocomplete="off"'
        f"{' checked' if i == 0 else ''}><span>{inline(axis)}</span></label>"
        for i, axis in enumerate(axes)
    )
    return f'<fieldset class="axis"><legend>Over</legend>{choices}</fieldset>'


def _scale_choice(plot: Plot, data: dict[str, Any]) -> str:
    """Return the switch to a logarithmic y axis; it is hidden where that would hide values."""
    y = [value for curve in data["curves"] for value in curve["y"] if value is not None]
    log = plot.log_y and any(value > 0 for value in y)
    hidden = not log and (not y or min(y) <= 0)
    return (
        f'<label class="scale"{" hidden" if hidden else ""}><input type="checkbox" '
        f'autocomplete="off"{" checked" if log else ""}><span>log scale</span></label>'
    )


def _swatch(look: Look, mode: str) -> str:
    """Return a small picture of a curve for the legend."""
    dash = "" if look.dash == "solid" else f' stroke-dasharray="{look.dash.replace("px", "")}"'
    line = f'<path d="M-17,0H17"{dash}/>' if "lines" in mode else ""
    marker = f'<path class="mark" d="{SYMBOLS[look.symbol]}"/>' if "markers" in mode else ""
    return (
        f'<svg viewBox="-17 -6 34 12" width="34" height="12" aria-hidden="true" '
        f'class="curve-{look.colour}">{line}{marker}</svg>'
    )


# ------------------------------------------------------------------------------------------ values


def _values(plot: Plot, data: dict[str, Any]) -> str:
    """Return some points of each curve as a table, for who cannot see or point."""
    columns = ["curve", *data["axes"], plot.y_title]
    head = "".join(f'<th scope="col">{inline(column)}</th>' for column in columns)
    body = "".join(map(_curve_values, plot.curves, data["curves"]))
    return (
        "<details><summary>Values</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Values: {escape(plot.title)}">'
        f"<table><thead><tr>{head}</tr></thead>{body}</table></div></details>"
    )


def _curve_values(curve: Curve, data: dict[str, Any]) -> str:
    """Return the rows of one curve: all its points, or some evenly spaced."""
    count = len(curve.y)
    picked = sorted({round(i * (count - 1) / (LISTED - 1)) for i in range(LISTED)}) if count else []
    rows = [
        [*("–" if x is None else _short(x[i]) for x in data["x"]), _short(data["y"][i])]
        for i in picked
    ]
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    if not lines:
        return ""
    head = f'<th scope="rowgroup" rowspan="{len(lines)}">{inline(curve.name)}</th>'
    return "<tbody><tr>" + head + "</tr><tr>".join(lines) + "</tr></tbody>"


def _short(value: float | None) -> str:
    """Return a number of five digits, or a dash for none."""
    return "–" if value is None else f"{value:.5g}"
