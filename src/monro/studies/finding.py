"""Findings: claims of a paper, each compared with our results by code that states a verdict.

Nothing is said about an outcome except by these comparisons, so no sentence can contradict the
results it was made from.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from monro.report.content import Table
from monro.studies.cells import spread

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
UNCLEAR = "seeds disagree"
MEASURED = "–"  # a figure of ours without a claim of the paper
VERDICTS = (REPRODUCED, NOT_REPRODUCED, UNCLEAR)

Values = Sequence[float | None]  # one for each seed; None if a fit diverged or never got there


class Finding(NamedTuple):
    """What a paper says, what came out, and whether they agree."""

    claim: str
    paper: str
    here: str
    verdict: str
    because: str = ""  # a known reason for a difference

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The cells of a row; the reason is given only if there is a difference."""
        differs = self.because and self.verdict in (NOT_REPRODUCED, UNCLEAR)
        reason = f"; differs because {self.because}" if differs else ""
        return self.claim, self.paper, self.here, self.verdict + reason


def near(
    claim: str,
    paper: float,
    values: Values,
    *,
    within: float,
    form: str = ".4f",
    because: str = "",
) -> Finding:
    """Compare the mean over seeds with a published figure.

    Examples
    --------
    >>> near("log-loss", 0.5, [0.50, 0.52], within=0.05, form=".2f")[2:4]
    ('0.51 ± 0.01', 'reproduced')
    >>> near("log-loss", 0.5, [0.60, None], within=0.05, form=".2f", because="…").cells[2:]
    ('0.60, 1 of 2 diverged', 'not reproduced; differs because …')
    """
    agrees = abs(mean(values) - paper) <= within * abs(paper)
    claim = f"{claim} (within {100.0 * within:g} %)"
    return Finding(claim, f"{paper:{form}}", spread(values, form), _verdict(agrees), because)


def below(
    claim: str,
    paper: str,
    lower: Values,
    higher: Values,
    *,
    margin: float = 0.0,
    form: str = ".4f",
    because: str = "",
) -> Finding:
    """Compare two sets of seeds: the paper claims that one is below the other.

    It is reproduced if each seed of `lower` is below each of `higher` by the relative `margin`, not
    reproduced if none is; otherwise seeds disagree. None counts as infinite.

    Examples
    --------
    >>> below("A ends below B", "1 < 2", [1.0, 1.1], [1.9, 2.0], form=".1f")[2:4]
    ('1.1 ± 0.1 and 1.9 ± 0.1', 'reproduced')
    >>> below("A ends below B", "1 < 2", [1.0, 1.9], [1.8], form=".1f").verdict
    'seeds disagree'
    >>> below("A ends below B", "1 < 2", [3.0, None], [1.8], form=".1f").verdict
    'not reproduced'
    """
    first, second = map(_finite_or_infinite, (lower, higher))
    wanted = [(1.0 - math.copysign(margin, value)) * value for value in second]
    if max(first) < min(wanted):
        verdict = REPRODUCED
    elif min(first) >= max(wanted):
        verdict = NOT_REPRODUCED
    else:
        verdict = UNCLEAR
    return Finding(
        claim, paper, f"{spread(lower, form)} and {spread(higher, form)}", verdict, because
    )


def alike(
    claim: str,
    paper: str,
    first: Values,
    second: Values,
    *,
    within: float,
    form: str = ".4f",
    because: str = "",
) -> Finding:
    """Compare two sets of seeds: the paper claims no difference.

    Examples
    --------
    >>> alike("A and B end alike", "alike", [1.0, 1.02], [1.0], within=0.02, form=".2f")[2:4]
    ('1.01 ± 0.01 and 1.00', 'reproduced')
    """
    a, b = mean(first), mean(second)
    same = math.isfinite(a) and math.isfinite(b) and abs(a - b) <= within * max(abs(a), abs(b))
    here = f"{spread(first, form)} and {spread(second, form)}"
    claim = f"{claim} (within {100.0 * within:g} %)"
    return Finding(claim, paper, here, _verdict(same), because)


def holds(claim: str, paper: str, here: str, true: bool, because: str = "") -> Finding:
    """Return the finding of a comparison that was made elsewhere."""
    return Finding(claim, paper, here, _verdict(bool(true)), because)


def measured(what: str, paper: str, here: str) -> Finding:
    """Return a figure of ours that no claim of the paper is about."""
    return Finding(what, paper, here, MEASURED)


def table(title: str, findings: Iterable[Finding]) -> Table:
    """Return findings as a table."""
    return Table(title, ["", "paper", "here", "verdict"], [one.cells for one in findings])


def count(findings: Iterable[Finding]) -> str:
    """Return a sentence that counts the verdicts.

    Examples
    --------
    >>> count([holds("a", "", "", True), holds("b", "", "", False), measured("c", "", "")])
    'Of 2 claims 1 is reproduced and 1 is not.'
    >>> count([near("a", 1.0, [1.0], within=0.1)])
    'The one claim is reproduced.'
    >>> count([below("a", "", [1.0, 3.0], [2.0])] * 3)
    'Of 3 claims 0 are reproduced and 0 are not; in 3 the seeds disagree.'
    """
    found = Counter(one.verdict for one in findings)
    total = sum(found[verdict] for verdict in VERDICTS)
    if total == 0:
        return "No claim could be compared."
    if total == found[REPRODUCED]:
        return (
            "The one claim is reproduced." if total == 1 else f"All {total} claims are reproduced."
        )
    yes, no, unclear = (found[verdict] for verdict in VERDICTS)
    sentence = f"Of {total} claims {yes} {_are(yes)} reproduced and {no} {_are(no)} not"
    return sentence + (f"; in {unclear} the seeds disagree." if unclear else ".")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _verdict(agrees: bool) -> str:
    return REPRODUCED if agrees else NOT_REPRODUCED


def _finite_or_infinite(values: Values) -> list[float]:
    return [math.inf if value is None else value for value in values]


def mean(values: Values) -> float:
    """Return the mean over seeds; infinite if one of them is None.

    Examples
    --------
    >>> mean([1.0, 2.0]), mean([1.0, None])
    (1.5, inf)
    """
    found = _finite_or_infinite(values)
    return sum(found) / len(found)
