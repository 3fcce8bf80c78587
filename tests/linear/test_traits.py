"""Registries, traits, docstrings and the documents' tables agree."""

import re
from pathlib import Path

import pytest

from monro import LinearClassifier, LinearRegressor
from monro.linear.solvers import SOLVERS, make_solver, solvers_that
from monro.losses import CLASSIFICATION, REGRESSION
from tests.linear.helpers import SMOOTH_ONLY, STREAMING
from tests.linear.helpers import SOLVERS as TESTED
from tests.linear.test_exactness import LOSSES, make_problem

DOCS = Path(__file__).parents[2] / "docs"


def table(page, header):
    """Return the cells of the table whose header begins like that."""
    lines = (DOCS / page).read_text().splitlines()
    (start,) = (k for k, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def choices(kind, name):
    """Return the values that a docstring lists for a parameter, in its type or its description."""
    (text,) = re.findall(rf"^    {name} : (.*(?:\n        .*)*)", kind.__doc__, re.MULTILINE)
    return set(re.findall(r'"([^"]+)"', text))


def test_the_table_of_solvers_is_that_of_the_traits():
    rows = table("linear.md", "| solver | schedules |")
    said = {name.strip("`"): cells for name, *cells, _ in rows}
    assert said.keys() == SOLVERS.keys()
    for name, traits in SOLVERS.items():
        assert said[name] == [
            ", ".join(traits.schedules) or "–",
            "no" if traits.needs_alpha else "bottou",
            f"{'yes' if traits.takes_rate else '–'}, {'yes' if traits.takes_decay else '–'}",
            "yes" if traits.has_partial_fit else "no",
            "always" if traits.centred else "yes" if traits.takes_center else "no",
            "yes" if traits.proximal or traits.takes_l1 else "no",
        ]


def test_the_table_of_papers_has_every_solver():
    rows = table("notation.md", "| solver | paper | file |")
    assert {name for cells in rows for name in re.findall("`(.*?)`", cells[0])} == SOLVERS.keys()


def test_the_table_of_losses_is_that_of_the_registries():
    rows = table("linear.md", "| classifier | loss | regressor | loss |")
    for column, registry in ((0, CLASSIFICATION), (2, REGRESSION)):
        assert [cells[column].strip('`"') for cells in rows if cells[column]] == [*registry]


def test_docstrings_list_the_registries():
    assert choices(LinearClassifier, "solver") == {"auto", *SOLVERS}
    assert choices(LinearClassifier, "loss") == CLASSIFICATION.keys()
    assert choices(LinearRegressor, "loss") == REGRESSION.keys()


def test_all_solvers_and_losses_are_tested():
    assert {*TESTED, *SMOOTH_ONLY} == SOLVERS.keys()
    assert list(SMOOTH_ONLY) == solvers_that(lambda t: t.needs_smooth_loss)
    assert set(STREAMING) == set(solvers_that(lambda t: t.has_partial_fit))
    tested = {loss.traits.name for loss in LOSSES}
    assert tested == CLASSIFICATION.keys() | REGRESSION.keys()


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
def test_fields_of_losses_are_parameters(kind):
    for name, loss in kind._losses.items():
        given = {field: 0.25 + k for k, field in enumerate(loss._fields)}
        assert kind(loss=name, **given)._loss() == loss(**given)


@pytest.mark.parametrize("name", SOLVERS)
def test_traits_are_what_solvers_do(name):
    traits = SOLVERS[name]
    problem, _, order = make_problem(LOSSES[2], 0, 0.1, sparse=True, weighted=False)
    solver = make_solver(problem, name)
    state = solver.begin_epoch(solver.start())
    solver.sweep(order, state)
    state = solver.begin_epoch(state)
    assert isinstance(solver, traits.make)
    assert hasattr(state, "memory") == traits.remembers_examples
    assert hasattr(state, "gains") == traits.learns_gains
    assert (type(getattr(state, "average", None)).__name__ == "Mean") == traits.averaged
    assert bool(getattr(state, "centre", order[:0]).size) == traits.centred
