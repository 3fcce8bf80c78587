"""The HTML of the page: well-formed, escaped, and self-contained."""

import json
import math
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monro.report.content import Curve, Plot, Table
from monro.report.page import render, write
from monro.report.plots import StyleChooser, plot_data, plot_html
from monro.report.tables import markdown, table_html
from monro.report.text import UniqueSlugs, inline, paragraphs
from tests.report.example import GAPS, GROUPS, HOSTILE, LOSS, PAGE, PLOTS, RESULTS

VOID = {"meta", "link", "input"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
PROPERTY = settings(deadline=None, derandomize=True, max_examples=100)
NUMBERS = st.one_of(st.none(), st.floats())


class Tree(HTMLParser):
    """Parses HTML and asserts that elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text, self.scripts = [], [], "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag == "path"  # of SVG
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not (self.open and self.open[-1] == "style"):
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def html():
    return render(PAGE)


@pytest.fixture(scope="module")
def tree(html):
    return Tree(html)


def test_structure(tree):
    for tag in ("html", "title", "nav", "main", "h1", "header", "style"):
        assert len(tree.all(tag)) == 1, tag
    assert tree.all("html")[0]["lang"] == "en"
    assert len(tree.scripts) == 2 + len(PLOTS)  # page.js, Plotly, and the data
    ids = Counter(a["id"] for _, a in tree.tags if "id" in a)
    assert set(ids.values()) == {1}
    links = [a["href"] for a in tree.all("a")]
    assert {link[1:] for link in links} <= set(ids)
    assert {"#main", "#summary", "#first", "#first-same-title", "#first-same-title-2"} <= {*links}
    assert "#zweites-kapitel-größe" in links
    levels = [int(tag[1]) for tag, _ in tree.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_all_tables_and_plots_are_present(tree):
    assert len(tree.all("figure")) == len(tree.all("figcaption")) == len(PLOTS)
    assert len(tree.all("caption")) == 3
    regions = [a for a in tree.all("div") if a.get("role") == "region"]
    assert len(regions) == len(PLOTS) + 3
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in regions)
    assert all(a.get("scope") for a in tree.all("th"))
    labels = [a["aria-label"] for a in tree.all("div") if a.get("role") == "img"]
    assert "Loss of many methods: held-out loss over epochs or seconds" in labels[0]
    assert "method 3" in labels[0]
    assert "Made with" in tree.text


def test_nothing_is_loaded(tree, html):
    for tag, attributes in tree.tags:
        assert not {"src", "srcset", "style", "onclick", "onload"} & set(attributes), tag
        assert attributes.get("href", "#").startswith(("#", "data:,"))
    css = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in css
    assert "@import" not in css
    assert "default-src 'none'" in html


def test_hostile_texts_are_escaped(tree):
    assert tree.all("b") == []
    assert HOSTILE in tree.text
    assert [json.loads(s) for s in tree.scripts if '"y_title":"\\u003c/script' in s]


def test_write(tmp_path, html):
    write(PAGE, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


# ------------------------------------------------------------------------------------------- texts


@PROPERTY
@given(TEXTS)
def test_texts_are_shown_unchanged(text):
    assert Tree(inline(text)).text.replace("`", "") == text.replace("`", "")
    assert "".join(Tree(paragraphs(text)).text.replace("`", "").split()) == "".join(
        text.replace("`", "").split()
    )


def test_paragraphs_and_code():
    assert paragraphs(" a\nb \n \n `x<y`") == "<p>a\nb</p><p><code>x&lt;y</code></p>"
    assert paragraphs("") == ""
    assert inline("a ` b") == "a ` b"


def test_no_name_is_given_twice():
    names = UniqueSlugs()
    assert [names.give(t) for t in ("A b", "a-b", "a b 2", "!", "?")] == [
        *("a-b", "a-b-2", "a-b-2-2"),
        *("part", "part-2"),
    ]


# ------------------------------------------------------------------------------------------- plots


@PROPERTY
@given(st.lists(st.tuples(TEXTS, st.lists(st.tuples(st.floats(), NUMBERS))), max_size=4), TEXTS)
def test_numbers_and_texts_survive(curves, axis):
    plot = Plot(
        axis,
        axis,
        [Curve(name, {axis: [x for x, _ in p]}, [y for _, y in p]) for name, p in curves],
    )
    tree = Tree(plot_html(plot, StyleChooser([plot]).of(plot), "plot"))
    data = json.loads(tree.scripts[0])
    assert data["y_title"] == axis
    for (name, points), curve in zip(curves, data["curves"], strict=True):
        assert curve["name"] == name
        for i, (x, y) in enumerate(points):
            assert curve["x"][0][i] == (x if math.isfinite(x) else None)
            assert curve["y"][i] == (y if y is not None and math.isfinite(y) else None)


def test_a_group_has_one_colour_and_curves_differ():
    styles = StyleChooser([LOSS, GROUPS])
    first, groups, again = styles.of(LOSS), styles.of(GROUPS), styles.of(LOSS)
    assert first == again
    assert len(set(first)) == 10
    assert len({style.dash for style in first}) == len({style.symbol for style in first}) == 8
    a1, a2, b1, b2 = groups
    assert a1.colour == a2.colour != b1.colour == b2.colour
    assert len({style.dash for style in groups}) == 4


def test_groups_in_one_plot_have_different_colours_if_there_are_enough():
    def plot(*groups):
        return Plot("", "", [Curve(str(group), {"x": [1]}, [1]) for group in groups])

    plots = [plot(*range(5)), plot(*range(5, 10)), plot(0, 5, 9), plot(2, 7, 4, 8)]
    styles = StyleChooser(plots)
    for one in plots:
        assert len({style.colour for style in styles.of(one)}) == len(one.curves)


@pytest.mark.parametrize("count", [9, 20, 60])
def test_curves_of_one_group_differ_as_long_as_they_can(count):
    plot = Plot("", "", [Curve(str(i), {"x": [1]}, [1], "same") for i in range(count)])
    styles = StyleChooser([plot]).of(plot)
    assert {style.colour for style in styles} == {0}
    assert Counter(style.dash for style in styles).most_common(1)[0][1] == math.ceil(count / 8)


def test_lines_and_markers():
    def mode(*y):
        plot = Plot("", "", [Curve("", {"x": range(len(y))}, y)])
        return plot_data(plot, StyleChooser([plot]).of(plot))["curves"][0]["mode"]

    assert mode(1.0) == mode(None, 1.0, math.nan) == mode() == "markers"
    assert mode(*range(30)) == "lines+markers"
    assert mode(*range(31)) == mode(*range(31), None) == "lines"
    assert mode(*range(31), None, 1.0) == "lines+markers"  # an isolated point


@pytest.mark.parametrize(
    ("y", "log_y", "hidden", "checked"),
    [
        ([1.0, 2.0], False, False, False),
        ([1.0, None], True, False, True),
        ([0.0, 1.0], False, True, False),
        ([0.0, 1.0], True, False, True),
        ([-1.0, 0.0], True, True, False),
        ([], False, True, False),
    ],
)
def test_log_scale_is_offered_if_it_shows_something(y, log_y, hidden, checked):
    plot = Plot("", "", [Curve("", {"x": range(len(y))}, y)], log_y=log_y)
    tree = Tree(plot_html(plot, StyleChooser([plot]).of(plot), "plot"))
    (label,) = [a for a in tree.all("label") if a.get("class") == "scale"]
    (box,) = tree.all("input")
    assert ("hidden" in label, "checked" in box) == (hidden, checked)


def test_values_are_some_points_evenly_spaced():
    text = plot_html(GROUPS, StyleChooser([GROUPS]).of(GROUPS), "plot")
    assert text.count('scope="rowgroup" rowspan="12"') == 4
    assert "<td>200</td><td>60</td>" in text  # the last point is among them
    text = plot_html(GAPS, StyleChooser([GAPS]).of(GAPS), "plot")
    assert "<td>2</td><td>–</td><td>1.5</td>" in text  # no seconds
    assert "<td>2</td><td>2</td><td>–</td>" in text  # no value


def test_a_curve_has_as_many_x_as_y():
    plot = Plot("", "", [Curve("odd", {"epochs": [1, 2]}, [1.0])])
    with pytest.raises(ValueError, match="'odd': 2 values of 'epochs', but 1 of y"):
        plot_html(plot, StyleChooser([plot]).of(plot), "plot")


# ------------------------------------------------------------------------------------------ tables


def test_markdown():
    lines = markdown(RESULTS).split("\n")
    assert lines[1] == "| --- |" + " ---: |" * 14
    assert len(lines) == 4
    assert markdown(Table("", ["a|b", "c\nd"], [])) == "| a\\|b | c d |\n| --- | ---: |"


@PROPERTY
@given(st.lists(st.lists(TEXTS, min_size=3, max_size=3), max_size=3))
def test_markdown_has_one_line_per_row(rows):
    lines = markdown(Table("", ["a", "b", "c"], rows)).splitlines()
    assert len(lines) == 2 + len(rows)
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in lines)


def test_words_are_left_aligned_and_numbers_right_aligned():
    text = table_html(Table("", ["a", "b", "c"], [["x", "−1.5", "word"], ["y", "—", "≈"]]))
    assert "<td>−1.5</td>" in text
    assert "<td>—</td>" in text
    assert '<td class="words">word</td>' in text


@pytest.mark.parametrize("show", [markdown, table_html])
def test_rows_are_as_long_as_the_head(show):
    with pytest.raises(ValueError, match="table 'Odd': 2 columns, but a row of 1 cells"):
        show(Table("Odd", ["a", "b"], [["x"]]))
