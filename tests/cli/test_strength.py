"""The path of strengths as a table, as JSON and as plots."""

import json
from types import SimpleNamespace

import pytest

from monro.cli.strength import chosen_strength, path_plots, print_fit
from monro.report.content import Chapter, Page, Section
from monro.report.page import render


def fitted(nonzeros=(3, 30, 1_234), **more):
    """A model whose least loss is between the second and the third strength."""
    path = [
        {"alpha": a, "mean": m, "standard_error": e, "nonzeros": n}
        for a, m, e, n in zip((1.0, 0.1, 0.01), (2912.3, 1800.04, 1750.0), (120.0, 80.0, 70.0),
                              nonzeros, strict=True)
    ]  # fmt: skip
    return SimpleNamespace(alpha_path_=path, alpha_=0.02, **more)


def rows(text):
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]


def test_losses_have_the_digits_that_their_errors_allow(capsys):
    print_fit(fitted(), {"epochs": 2}, as_json=False)
    table = [row for row in rows(capsys.readouterr().out) if len(row) == 4]
    assert table == [
        ["1", "2,912 ± 120", "3", ""],
        ["0.1", "1,800 ± 80", "30", ""],
        ["0.01", "1,750 ± 70", "1,234", "← 0.02 chosen"],
    ]


def test_a_tagger_has_c(capsys):
    tagger = fitted(c_=0.05)
    for record in tagger.alpha_path_:
        record["c"] = 1e-3 / record["alpha"]
    print_fit(tagger, chosen_strength(tagger), as_json=False)
    text = capsys.readouterr().out
    assert [row[0] for row in rows(text) if len(row) == 4] == ["0.001", "0.01", "0.1"]
    assert "← 0.05 chosen" in next(line for line in text.splitlines() if "1,234" in line)

    print_fit(tagger, chosen_strength(tagger), as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert result == {"alpha": 0.02, "c": 0.05, "alpha_path": tagger.alpha_path_}


def test_a_number_is_not_a_choice(capsys):
    model = SimpleNamespace(alpha=0.1)
    assert chosen_strength(model) == {}
    assert path_plots(model) == []
    print_fit(model, {"epochs": 2}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"epochs": 2}


@pytest.mark.parametrize(("nonzeros", "plots"), [((640, 640, 640), 1), ((3, 30, 1_234), 2)])
def test_plots_for_a_page(nonzeros, plots):
    items = path_plots(fitted(nonzeros))
    assert len(items) == plots
    loss, above, below, chosen = items[0].curves
    assert [list(curve.y) for curve in (loss, above, below)] == [
        [2912.3, 1800.04, 1750.0],
        [3032.3, 1880.04, 1820.0],
        [2792.3, 1720.04, 1680.0],
    ]
    assert set(*chosen.x.values()) == {0.02}
    section = Section("Digits", "", items)
    page = render(Page("demo", "", Section("", "", []), [Chapter("a", "a", "", [section], {})]))
    assert "How strong a penalty?" in page
