"""The page: one self-contained HTML file, which loads nothing from elsewhere."""

from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template

from monro.report.content import Chapter, Page, Plot, Section, Table
from monro.report.plots import StyleChooser, plot_html
from monro.report.tables import table_html
from monro.report.text import UniqueSlugs, escape, inline, paragraphs
from monro.saving.atomic import atomic_path


def render(page: Page) -> str:
    """Return the page as HTML."""
    from plotly.offline import get_plotlyjs  # slow to import

    sections = [page.summary, *(part for chapter in page.chapters for part in chapter.sections)]
    plots = [item for part in sections for item in part.items if isinstance(item, Plot)]
    writer = _Writer(StyleChooser(plots))
    summary = writer.section(page.summary, "summary", "h2")
    chapters = "".join(map(writer.chapter, page.chapters))
    return Template(_read("page.html")).substitute(
        title=escape(page.title),
        heading=inline(page.title),
        lead=paragraphs(page.lead, "lead"),
        contents="".join(writer.contents),
        summary=summary,
        chapters=chapters,
        css=_read("page.css"),
        js=_read("page.js"),
        plotly=get_plotlyjs(),
    )


def write(page: Page, path: str | Path) -> None:
    """Write the page to a file atomically."""
    text = render(page)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _read(name: str) -> str:
    """Return the text of a file of this package."""
    return files("monro.report").joinpath(name).read_text(encoding="utf-8")


class _Writer:
    """Renders chapters in order, and collects the table of contents."""

    def __init__(self, styles: StyleChooser) -> None:
        self.contents: list[str] = []
        self._looks = styles
        self._names = UniqueSlugs()
        self._names.give("main")  # taken by the page itself

    def chapter(self, chapter: Chapter) -> str:
        """Return a chapter as HTML."""
        name = self._names.give(chapter.name)
        self.contents.append(f'<li><a href="#{name}">{inline(chapter.title)}</a><ol>')
        sections = [self.section(section, name, "h3") for section in chapter.sections]
        self.contents.append("</ol></li>")
        return (
            f'<section class="chapter" id="{name}" aria-labelledby="{name}-title">'
            f'<h2 id="{name}-title">{inline(chapter.title)}</h2>{paragraphs(chapter.lead, "lead")}'
            f"{''.join(sections)}{_provenance(chapter)}</section>"
        )

    def section(self, section: Section, within: str, level: str) -> str:
        """Return a section as HTML, with consecutive plots side by side."""
        name = self._names.give(within if level == "h2" else f"{within} {section.title}")
        if section.title:
            self.contents.append(f'<li><a href="#{name}">{inline(section.title)}</a></li>')
        heading = f"<{level}>{inline(section.title)}</{level}>" if section.title else ""
        kind = "summary" if level == "h2" else "section"
        items = [(isinstance(item, Plot), self._item(item, name)) for item in section.items]
        parts = []
        for of_plots, group in groupby(items, lambda pair: pair[0]):
            part = "".join(text for _, text in group)
            parts.append(f'<div class="plots">{part}</div>' if of_plots else part)
        return (
            f'<section class="{kind}" id="{name}">{heading}{paragraphs(section.text)}'
            f"{''.join(parts)}</section>"
        )

    def _item(self, item: Table | Plot, within: str) -> str:
        """Return a table or a plot as HTML."""
        if isinstance(item, Table):
            return table_html(item)
        return plot_html(item, self._looks.of(item), self._names.give(f"{within} plot"))


def _provenance(chapter: Chapter) -> str:
    """Return the provenance of a chapter as HTML."""
    if not chapter.provenance:
        return ""
    pairs = "".join(
        f"<div><dt>{inline(name)}</dt><dd>{inline(value)}</dd></div>"
        for name, value in chapter.provenance.items()
    )
    return f'<details class="provenance"><summary>Made with</summary><dl>{pairs}</dl></details>'
