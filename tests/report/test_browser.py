"""The page in a browser: plots, themes, keyboard and phone."""

import re
import shutil

import pytest

from monro.report.page import write
from tests.marks import thorough
from tests.report.example import HOSTILE, PAGE, PLOTS

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

DRAW_ALL = """async () => {
    for (const figure of document.querySelectorAll("figure")) {
        figure.scrollIntoView({ behavior: "instant" });
        while (!("drawn" in figure.dataset)) await new Promise(requestAnimationFrame);
    }
}"""
THEME_OF_PLOTS = """() => [...document.querySelectorAll(".plot")].map((plot) => ({
    paper: plot._fullLayout.paper_bgcolor,
    font: plot._fullLayout.font.color,
    curves: plot._fullData.map((curve) => (curve.line ?? curve.marker).color),
    shown: [...plot.querySelectorAll(".js-line")].map((line) => getComputedStyle(line).stroke),
}))"""


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium to look at the page with")
    with playwright.sync_playwright() as program:
        browser = program.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    write(PAGE, path)
    return path.as_uri()


@pytest.fixture(scope="module")
def visit(browser, address):
    """Open the page in a new context; record errors and requests for other files."""

    def open_page(width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        page = context.new_page()
        page.wrong = []
        page.on("console", lambda message: page.wrong.append(message.text))
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("request", lambda r: None if r.url == address else page.wrong.append(r.url))
        page.goto(address)
        return page

    return open_page


@pytest.fixture(scope="module")
def drawn(visit):
    """Open the page once for all tests: Plotly takes seconds to load."""
    page = visit()
    page.evaluate(DRAW_ALL)
    return page


@pytest.fixture
def page(drawn):
    """Return the page scrolled to the top, with its first axes, wide and in the light theme."""
    drawn.eval_on_selector_all(".axis input[value='0']", "all => all.forEach((i) => i.click())")
    drawn.set_viewport_size({"width": 1280, "height": 900})
    drawn.emulate_media(color_scheme="light")
    drawn.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    drawn.evaluate("document.body.tabIndex = -1; document.body.focus()")
    drawn.evaluate("document.body.removeAttribute('tabindex')")
    yield drawn
    assert drawn.wrong == []


def channels(colour):
    return [float(number) for number in re.findall(r"[\d.]+", colour)][:3]


def contrast(one, other):
    """Return WCAG 2's contrast ratio of two colours, as ``rgb(r, g, b)``."""

    def light(colour):
        parts = [c / 255 for c in channels(colour)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    darker, lighter = sorted([light(one), light(other)])
    return (lighter + 0.05) / (darker + 0.05)


def style(page, selector, name):
    return page.eval_on_selector(selector, f"element => getComputedStyle(element).{name}")


def background(page):
    return style(page, "body", "backgroundColor")


def until(page, expression):
    """Wait until an expression is true; the page does not allow `wait_for_function`."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(expression)


def x_title(page, figure):
    return page.text_content(f"#{figure} .xtitle")


def test_contrast_is_as_defined_by_wcag():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)


def test_all_is_drawn(page):
    for i, plot in enumerate(PLOTS):
        traces = page.locator("figure").nth(i).locator(".scatterlayer .trace")
        assert traces.count() == len(plot.curves)
        for k in range(len(plot.curves)):
            assert traces.nth(k).locator("path").count() >= 1
    assert page.locator("caption").all_inner_texts() == ["Results"] * 3


def test_hostile_texts_are_shown_as_they_are(page):
    assert page.locator("main b").count() == 0
    page.evaluate(
        "Plotly.Fx.hover(document.querySelectorAll('.plot')[2], [{curveNumber: 0, pointNumber: 0}])"
    )
    words = HOSTILE.replace("\u2028", "").strip()
    hover = page.locator("figure").nth(2).locator(".hoverlayer").text_content()
    assert hover.replace("\xa0", " ").count(words) == 2  # the curve's name and the title of y


@thorough
def test_a_phone_shows_it_all(visit):
    page = visit(390, 844, has_touch=True, is_mobile=True)
    page.evaluate(DRAW_ALL)
    page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) <= page.evaluate("document.documentElement.clientWidth") == 390
    for plot in page.locator(".plot").all():
        assert plot.bounding_box()["width"] <= 390
    plot, legend = (page.locator(f"#first-same-title-plot .{part}") for part in ("plot", "legend"))
    ends = plot.bounding_box()["y"] + plot.bounding_box()["height"]
    assert legend.bounding_box()["y"] >= ends
    assert page.wrong == []


def test_contents_fold_on_a_phone_only(page):
    page.set_viewport_size({"width": 390, "height": 844})
    link = page.locator("nav a[href='#first']")
    playwright.expect(link).to_be_hidden()
    page.locator("nav summary").press("Enter")
    link.click()
    playwright.expect(link).to_be_hidden()
    playwright.expect(page.locator("#first h2")).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 900})
    playwright.expect(link).to_be_visible()


def test_contents_mark_the_section_in_view(page):
    for name in ("first-same-title", "summary"):
        page.evaluate(f"document.getElementById('{name}').scrollIntoView({{behavior: 'instant'}})")
        current = page.locator("nav a[aria-current]")
        playwright.expect(current).to_have_count(1)
        playwright.expect(current).to_have_attribute("href", f"#{name}")


@thorough
def test_themes(page):
    light, light_plots = background(page), page.evaluate(THEME_OF_PLOTS)
    assert min(channels(light)) > 200
    page.emulate_media(color_scheme="dark")  # the system switches to dark
    until(page, "document.querySelector('#theme').ariaPressed === 'true'")
    dark, dark_plots = background(page), page.evaluate(THEME_OF_PLOTS)
    assert max(channels(dark)) < 60
    for before, after in zip(light_plots, dark_plots, strict=True):
        assert before["paper"] != after["paper"]
        assert before["font"] != after["font"]
        assert before["shown"] != after["shown"]
        assert set(after["shown"]) <= set(after["curves"])

    page.locator("#theme").press("Enter")
    assert background(page) == light
    assert page.evaluate(THEME_OF_PLOTS) == light_plots
    page.reload()
    assert background(page) == light  # remembered, though the system is dark
    page.evaluate("localStorage.clear()")
    page.reload()
    assert background(page) == dark
    page.evaluate(DRAW_ALL)  # for other tests


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=thorough), "dark"])
def test_contrast(page, scheme):
    page.emulate_media(color_scheme=scheme)
    card = style(page, ".card", "backgroundColor")
    for ground in (background(page), card):
        for selector in ("body", ".lead", ".hint", "nav li li a", "figcaption p", "thead th"):
            assert contrast(style(page, selector, "color"), ground) >= 4.5, selector
    plots = page.evaluate(THEME_OF_PLOTS)
    colours = {colour for plot in plots for colour in plot["curves"]}
    assert len(colours) == 8
    assert {plot["paper"] for plot in plots} == {card}
    assert all(contrast(colour, card) >= 3 for colour in colours)
    assert all(contrast(plot["font"], card) >= 4.5 for plot in plots)
    chosen = ".axis input:checked + span"
    assert contrast(style(page, chosen, "color"), style(page, chosen, "backgroundColor")) >= 4.5


@thorough
def test_keyboard(page):
    def focus():
        return page.evaluate("document.activeElement.textContent")

    page.keyboard.press("Tab")
    assert focus() == "Skip to the results"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    order = []
    for _ in range(3):
        page.keyboard.press("Tab")
        order.append(focus())
    assert order == ["In short", "The first chapter", "Same title"]
    page.locator(".skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "scroll"  # the first table
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "radio"
    assert style(page, ".axis input:focus + span", "outlineStyle") == "solid"

    assert x_title(page, "summary-plot") == "epochs"
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('#summary-plot .xtitle').textContent !== 'epochs'")
    assert x_title(page, "summary-plot") == "seconds"
    assert x_title(page, "first-same-title-plot") == "epochs"  # no other plot changed

    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    kind = "document.querySelector('#summary-plot .plot')._fullLayout.yaxis.type"
    until(page, f"{kind} === 'log'")

    page.keyboard.press("Tab")
    assert focus() == "method 0"
    page.keyboard.press("Enter")
    traces = page.locator("#summary-plot .scatterlayer .trace")
    playwright.expect(traces).to_have_count(9)
    page.keyboard.press("Enter")
    playwright.expect(traces).to_have_count(10)


def test_a_curve_without_the_chosen_axis_is_not_drawn(page):
    figure = page.locator("#first-same-title-plot-2")
    playwright.expect(figure.locator(".scatterlayer .trace")).to_have_count(3)
    figure.get_by_text("seconds", exact=True).first.click()
    playwright.expect(figure.locator(".scatterlayer .trace")).to_have_count(2)
    playwright.expect(figure.get_by_role("button", name="one point")).to_be_disabled()


@thorough
def test_printing_draws_all_plots_in_the_light_theme(visit):
    page = visit(color_scheme="dark")
    assert page.locator("figure[data-drawn]").count() < len(PLOTS)  # only those scrolled into view
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    playwright.expect(page.locator("figure[data-drawn]")).to_have_count(len(PLOTS))
    assert all(min(channels(p["paper"])) == 255 for p in page.evaluate(THEME_OF_PLOTS))
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert max(channels(background(page))) < 60
    until(page, "!document.querySelector('.plot')._fullLayout.paper_bgcolor.includes('255')")
    assert page.wrong == []
