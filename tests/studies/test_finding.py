"""Verdicts follow from the figures: other figures, another verdict."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monro.studies import finding
from monro.studies.finding import NOT_REPRODUCED, REPRODUCED, UNCLEAR, alike, below, holds, near

figures = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=4)


def as_numbers(values):
    return [math.inf if value is None else value for value in values]


@given(figures, figures)
def test_below_compares_every_pair_of_seeds(lower, higher):
    pairs = [a < b for a in as_numbers(lower) for b in as_numbers(higher)]
    expected = REPRODUCED if all(pairs) else UNCLEAR if any(pairs) else NOT_REPRODUCED
    assert below("", "", lower, higher).verdict == expected


@pytest.mark.parametrize(
    ("lower", "higher", "verdict"),
    [(0.89, 1.0, REPRODUCED), (0.91, 1.0, NOT_REPRODUCED), (-1.11, -1.0, REPRODUCED),
     (-1.09, -1.0, NOT_REPRODUCED), (1.0, None, REPRODUCED)],
)  # fmt: skip
def test_below_by_a_margin(lower, higher, verdict):
    assert below("", "", [lower], [higher], margin=0.1).verdict == verdict


@given(figures, st.floats(0.1, 1e6), st.floats(0.0, 0.5))
def test_near_compares_the_mean(values, paper, within):
    mean = sum(as_numbers(values)) / len(values)
    expected = REPRODUCED if abs(mean - paper) <= within * paper else NOT_REPRODUCED
    assert near("", paper, values, within=within).verdict == expected


def test_fits_that_diverged_are_never_alike():
    assert alike("", "", [None], [None], within=0.5).verdict == NOT_REPRODUCED
    assert alike("", "", [1.0, None], [1.0], within=0.5).verdict == NOT_REPRODUCED
    assert alike("", "", [1.0], [1.4], within=0.5).verdict == REPRODUCED


@pytest.mark.parametrize("true", [True, False])
def test_a_reason_is_given_only_for_a_difference(true):
    cells = holds("claim", "1", "2", true, "the data differ").cells
    assert cells[:3] == ("claim", "1", "2")
    expected = REPRODUCED if true else f"{NOT_REPRODUCED}; differs because the data differ"
    assert cells[3] == expected
    assert finding.measured("what", "1", "2").cells[3] == finding.MEASURED


def test_verdicts_are_counted():
    made = [holds("", "", "", True)] * 5 + [holds("", "", "", False), below("", "", [1, 3], [2])]
    expected = "Of 7 claims 5 are reproduced and 1 is not; in 1 the seeds disagree."
    assert finding.count(made) == expected
    assert finding.count(made[:5]) == "All 5 claims are reproduced."
    assert finding.count([]) == "No claim could be compared."
