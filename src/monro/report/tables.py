"""Tables as Markdown and as HTML."""

import re
from collections.abc import Iterable, Sequence

from monro.report.content import Table
from monro.report.text import escape, inline, paragraphs

_LONGEST = 32  # characters of a number, with its spread; what is longer is wrapped like words
_NUMBER = re.compile(r"[-−+±<>≤≥~≈×(]*\s*[\d.]")


def markdown(table: Table) -> str:
    r"""Return the table in Markdown, without its title.

    Examples
    --------
    >>> print(markdown(Table("Speed", ["learner", "rows/s"], [["sgd|qn", "12"], ["dual", "34"]])))
    | learner | rows/s |
    | --- | ---: |
    | sgd\|qn | 12 |
    | dual | 34 |
    """
    _check(table)
    rule = ["---"] + ["---:"] * (len(table.columns) - 1)
    return "\n".join(map(_line, [table.columns, rule, *table.rows]))


def _line(cells: Iterable[str]) -> str:
    """Return one line; characters that would end a cell or the line are escaped."""
    return "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |"


def table_html(table: Table) -> str:
    """Return the table in HTML, in a box that scrolls horizontally."""
    _check(table)
    kinds = [_kind([row[i] for row in table.rows]) for i in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{inline(c)}</th>'
        for c, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "".join(_row(row, kinds) for row in table.rows)
    return (
        '<div class="card">'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><caption><span>{inline(table.title)}</span></caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"{paragraphs(table.note, 'note')}</div>"
    )


def _row(row: Sequence[str], kinds: Sequence[str]) -> str:
    """Return one row; its first cell is its header."""
    cells = zip(row[1:], kinds[1:], strict=True)
    return (
        f'<tr><th scope="row"{kinds[0]}>{inline(row[0])}</th>'
        + "".join(f"<td{kind}>{inline(cell)}</td>" for cell, kind in cells)
        + "</tr>"
    )


def _kind(cells: Iterable[str]) -> str:
    """Return the class of a column: numbers are right-aligned, words left-aligned and wrapped."""
    texts = list(cells)
    numbers = any(map(_NUMBER.match, texts)) and max(map(len, texts)) <= _LONGEST
    return "" if numbers else ' class="words"'


def _check(table: Table) -> None:
    """Raise unless every row has as many cells as there are columns."""
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(
                f"table {table.title!r}: {len(table.columns)} columns, but a row of {len(row)} "
                f"cells: {list(row)}"
            )
