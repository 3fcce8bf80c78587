"""The content of a page as plain data: chapters of sections of text, tables and plots.

Studies and the demo produce it; `page` turns it into HTML, `tables` into Markdown.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table of texts; the first cell of a row is its name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Curve(NamedTuple):
    """One line of a plot, with a gap where y is None.

    `x` may have several axes to choose from, as ``{"epochs": [...], "seconds": [...]}``. Curves of
    the same `group` (by default the name) have the same colour in all plots of a page.
    """

    name: str
    x: Mapping[str, Sequence[float]]
    y: Sequence[float | None]
    group: str = ""


class Plot(NamedTuple):
    """Curves over one x axis, or over one of several to choose from."""

    title: str
    y_title: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    note: str = ""


class Section(NamedTuple):
    """A heading, text, and tables and plots. Blank lines separate paragraphs."""

    title: str
    text: str
    items: Sequence[Table | Plot]


class Chapter(NamedTuple):
    """A study: its subject, its results, and their provenance."""

    name: str  # of its link
    title: str
    lead: str
    sections: Sequence[Section]
    provenance: Mapping[str, str]


class Page(NamedTuple):
    """The whole page. The summary is for readers who read nothing else."""

    title: str
    lead: str
    summary: Section
    chapters: Sequence[Chapter]
