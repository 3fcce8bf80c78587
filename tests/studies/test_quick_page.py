"""The page of all quick runs in a browser."""

import os

import pytest

from monro import studies
from monro.cli.studies import make_page
from monro.report.content import Table
from monro.report.page import write
from tests.report.test_browser import DRAW_ALL, browser  # noqa: F401

pytestmark = [
    pytest.mark.studies,
    pytest.mark.skipif("MONRO_DATA" not in os.environ, reason="needs the data sets of $MONRO_DATA"),
]
DRAWN = """() => [...document.querySelectorAll("figure")].map((figure) => ({
    title: figure.querySelector("strong").textContent,
    traces: figure.querySelectorAll(".scatterlayer .trace").length,
    wide: figure.querySelector(".plot").getBoundingClientRect().width,
}))"""


@pytest.mark.parametrize("width", [1280, 390])
def test_all_is_drawn_and_fits(quick_results, browser, tmp_path, width):  # noqa: F811
    for name in studies.NAMES:
        folder, _ = quick_results(name)
    page = make_page(folder)
    write(page, tmp_path / "report.html")
    items = [item for part in page.chapters for section in part.sections for item in section.items]
    tables = [item.title for item in items if isinstance(item, Table)]
    plots = [item for item in items if not isinstance(item, Table)]
    assert len(page.chapters) == len(studies.NAMES)

    view = browser.new_context(viewport={"width": width, "height": 844}).new_page()
    wrong = []
    view.on("console", lambda message: wrong.append(message.text))
    view.on("pageerror", lambda error: wrong.append(str(error)))
    view.goto((tmp_path / "report.html").as_uri())
    view.evaluate(DRAW_ALL)
    shown = view.evaluate(DRAWN)
    assert [one["title"] for one in shown] == [plot.title for plot in plots]
    for one, plot in zip(shown, plots, strict=True):
        some = [curve for curve in plot.curves if any(y is not None for y in curve.y)]
        assert one["traces"] >= len(some) > 0, plot.title
        assert 0 < one["wide"] <= width
    captions = view.locator("caption").all_inner_texts()
    assert captions == [*(table.title for table in page.summary.items), *tables]
    view.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
