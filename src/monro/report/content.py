"""What a page shows, as plain data: chapters of sections of text, tables and plots.

Studies and the demo say what there is to see; `page` makes HTML of it, `tables` Markdown.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table of texts; the first cell of a row names it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Curve(NamedTuple):
    """One line of a plot. Where y is None there is a gap.

    `x` may have several axes to choose from, as ``{"epochs": [...], "seconds": [...]}``. Curves of
    one `group` (by default the name) have one colour, on all plots of a page.
    """

    name: str
    x: Mapping[str, Sequence[float]]
    y: Sequence[float | None]
    group: str = ""


class Plot(NamedTuple):
    """Curves over a common axis, or over one of several."""

    title: str
    y_title: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    note: str = ""


class Section(NamedTuple):
    """A heading, some words, and what is to be seen. Blank lines part paragraphs."""

    title: str
    text: str
    items: Sequence[Table | Plot]


class Chapter(NamedTuple):
    """A study: what it is about, what came out, and with what it was made."""

    name: str  # of the link to it
    title: str
    lead: str
    sections: Sequence[Section]
    provenance: Mapping[str, str]


class Page(NamedTuple):
    """The whole page. The summary is for who reads nothing else."""

    title: str
    lead: str
    summary: Section
    chapters: Sequence[Chapter]
