"""Plots as HTML: a figure with its controls, legend and values, and its data for `page.js`.

Colours are numbers here; `page.css` defines them, for the light and the dark theme.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from monro.report.content import Curve, Plot
from monro.report.text import escape, inline, paragraphs

COLOURS = 8  # --curve-0 to --curve-7 of page.css
MAX_MARKED_POINTS = 30  # curves with more points are lines without markers
LISTED_POINTS = 12  # points of a curve in the table of values

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
# Plotly's names, and the same shapes as SVG paths around (0, 0) for the legend.
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


class Style(NamedTuple):
    """The style in which a curve is drawn."""

    colour: int
    dash: str
    symbol: str


class StyleChooser:
    """Chooses one colour per group for the whole page, and different lines for curves of a plot.

    If there are more groups than colours, groups that are in no plot together share a colour where
    possible.
    """

    def __init__(self, plots: Sequence[Plot]) -> None:
        self._members: dict[str, list[str]] = {}
        neighbours: dict[str, set[str]] = {}
        for plot in plots:
            for curve in plot.curves:
                members = self._members.setdefault(_group(curve), [])
                if curve.name not in members:
                    members.append(curve.name)
                neighbours.setdefault(_group(curve), set()).update(map(_group, plot.curves))
        self._colours: dict[str, int] = {}
        for group, others in neighbours.items():
            neighbour_colours = [self._colours.get(other) for other in others]
            used = list(self._colours.values())
            self._colours[group] = min(
                range(COLOURS), key=lambda c: (neighbour_colours.count(c), used.count(c))
            )

    def of(self, plot: Plot) -> list[Style]:
        """Return the styles of the curves of a plot."""
        order = list(self._members)
        styles: list[Style] = []
        for curve in plot.curves:
            group = _group(curve)
            wanted = order.index(group) + self._members[group].index(curve.name)
            colour = self._colours[group]
            same_colour = [style for style in styles if style.colour == colour]
            dash = _least_used(
                DASHES, wanted, [u.dash for u in same_colour], [u.dash for u in styles]
            )
            symbol = _least_used(
                SHAPES, wanted, [u.symbol for u in same_colour], [u.symbol for u in styles]
            )
            styles.append(Style(colour, dash, symbol))
        return styles


def _group(curve: Curve) -> str:
    """Return the group of a curve, which determines its colour."""
    return curve.group or curve.name


def _least_used(
    choices: Sequence[str], wanted: int, same_colour: Sequence[str], all_: Sequence[str]
) -> str:
    """Return the least used choice, by curves of the same colour first; `wanted` breaks ties."""
    order = [choices[(wanted + i) % len(choices)] for i in range(len(choices))]
    return min(order, key=lambda choice: (same_colour.count(choice), all_.count(choice)))


# -------------------------------------------------------------------------------------------- data


def plot_data(plot: Plot, styles: Sequence[Style]) -> dict[str, Any]:
    """Return the data that `page.js` draws; numbers that are not finite are None."""
    axes = _axes(plot)
    curves = []
    for curve, style in zip(plot.curves, styles, strict=True):
        for axis, values in curve.x.items():
            if len(values) != len(curve.y):
                raise ValueError(
                    f"curve {curve.name!r}: {len(values)} values of {axis!r}, "
                    f"but {len(curve.y)} of y"
                )
        x = [_numbers(curve.x[axis]) if axis in curve.x else None for axis in axes]
        y = _numbers(curve.y)
        drawn = {"name": curve.name, "x": x, "y": y, "mode": _mode(y)}
        curves.append(drawn | style._asdict())
    return {"axes": axes, "y_title": plot.y_title, "log_x": bool(plot.log_x), "curves": curves}


def _axes(plot: Plot) -> list[str]:
    """Return the x axes of all curves, in order of appearance."""
    return list(dict.fromkeys(axis for curve in plot.curves for axis in curve.x))


def _numbers(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers that JSON can hold; None for the others."""
    return [float(v) if v is not None and math.isfinite(v) else None for v in values]


def _mode(y: Sequence[float | None]) -> str:
    """Return the mode of Plotly: an isolated point is visible by its marker only."""
    present = [value is not None for value in y]
    if sum(present) <= 1:
        return "markers"
    isolated = any(
        now and not before and not after
        for before, now, after in zip(
            [False, *present], present, [*present[1:], False], strict=False
        )
    )
    return "lines+markers" if isolated or len(y) <= MAX_MARKED_POINTS else "lines"


def to_json(data: Any) -> str:
    """Return JSON for a script element: nothing in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII, hence no U+2028
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# -------------------------------------------------------------------------------------------- HTML


def plot_html(plot: Plot, styles: Sequence[Style], name: str) -> str:
    """Return the figure as HTML; `name` is that of its link."""
    data = plot_data(plot, styles)
    curves = ", ".join(curve.name for curve in plot.curves)
    label = f"{plot.title}: {plot.y_title} over {' or '.join(data['axes'])}. Curves: {curves}."
    legend = "".join(
        f'<li><button type="button" aria-pressed="true">{_swatch(style, curve["mode"])}'
        f"<span>{inline(curve['name'])}</span></button></li>"
        for style, curve in zip(styles, data["curves"], strict=True)
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
    """Return radio buttons to choose the x axis, if there are several."""
    if len(axes) < 2:
        return ""
    choices = "".join(
        f'<label><input type="radio" name="{name}-axis" value="{i}" autocomplete="off"'
        f"{' checked' if i == 0 else ''}><span>{inline(axis)}</span></label>"
        for i, axis in enumerate(axes)
    )
    return f'<fieldset class="axis"><legend>Over</legend>{choices}</fieldset>'


def _scale_choice(plot: Plot, data: dict[str, Any]) -> str:
    """Return the switch to a logarithmic y axis; it is hidden if that axis would hide values."""
    y = [value for curve in data["curves"] for value in curve["y"] if value is not None]
    log = plot.log_y and any(value > 0 for value in y)
    hidden = not log and (not y or min(y) <= 0)
    return (
        f'<label class="scale"{" hidden" if hidden else ""}><input type="checkbox" '
        f'autocomplete="off"{" checked" if log else ""}><span>log scale</span></label>'
    )


def _swatch(style: Style, mode: str) -> str:
    """Return a small picture of a curve's style for the legend."""
    dash = "" if style.dash == "solid" else f' stroke-dasharray="{style.dash.replace("px", "")}"'
    line = f'<path d="M-17,0H17"{dash}/>' if "lines" in mode else ""
    marker = f'<path class="mark" d="{SYMBOLS[style.symbol]}"/>' if "markers" in mode else ""
    return (
        f'<svg viewBox="-17 -6 34 12" width="34" height="12" aria-hidden="true" '
        f'class="curve-{style.colour}">{line}{marker}</svg>'
    )


# ------------------------------------------------------------------------------------------ values


def _values(plot: Plot, data: dict[str, Any]) -> str:
    """Return some points of each curve as a table, for accessibility."""
    columns = ["curve", *data["axes"], plot.y_title]
    head = "".join(f'<th scope="col">{inline(column)}</th>' for column in columns)
    body = "".join(map(_curve_values, plot.curves, data["curves"]))
    return (
        "<details><summary>Values</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Values: {escape(plot.title)}">'
        f"<table><thead><tr>{head}</tr></thead>{body}</table></div></details>"
    )


def _curve_values(curve: Curve, data: dict[str, Any]) -> str:
    """Return the rows of one curve: all points, or some evenly spaced ones."""
    count = len(curve.y)
    picked = (
        sorted({round(i * (count - 1) / (LISTED_POINTS - 1)) for i in range(LISTED_POINTS)})
        if count
        else []
    )
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
    """Return a number with five significant digits, or a dash for None."""
    return "–" if value is None else f"{value:.5g}"
