"""What a study is: trials as plain data, a function that runs one, and one that shows them all."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from monro.report.content import Chapter, Section

Tick = Callable[[float], None]  # told which share of a trial is done


class Trial(NamedTuple):
    """One thing to run: of which table or figure, on which data, with which settings."""

    part: str
    data: str  # a data set's name, or "" where the data is made
    settings: dict[str, Any]

    @property
    def key(self) -> str:
        """What tells this trial from all others."""
        return json.dumps(self, sort_keys=True)

    def __str__(self) -> str:
        rate = self.settings.get("rate")
        words = [self.part, self.data]
        words += [value for value in self.settings.values() if isinstance(value, str)]
        words += [f"η0 = {rate:g}"] if isinstance(rate, float) else []
        return ", ".join(word for word in words if word)


class Outcome(NamedTuple):
    """What came out of a trial, and with what it was made."""

    trial: Trial
    result: dict[str, Any]
    provenance: dict[str, Any]


class Study(NamedTuple):
    """A paper redone.

    Parameters
    ----------
    name : str
        On the command line, and of the file of results.
    title : str
    paper : str
        The paper, to be cited.
    lead : str
        What the paper is about and how it is redone, for a newcomer.
    sets : tuple of str
        The data sets it runs on.
    trials : function of quick
        Returns what is to be run.
    run : function of a trial and a tick
        Returns the result: JSON, where NaN and infinities become null.
    sections : function of outcomes
        Returns what is to be seen of the trials run so far.
    findings : function of outcomes
        Returns rows of the summary: what is compared, the paper's figure, ours.
    """

    name: str
    title: str
    paper: str
    lead: str
    sets: tuple[str, ...]
    trials: Callable[[bool], list[Trial]]
    run: Callable[[Trial, Tick], dict[str, Any]]
    sections: Callable[[Sequence[Outcome]], list[Section]]
    findings: Callable[[Sequence[Outcome]], list[tuple[str, str, str]]]


def where(outcomes: Iterable[Outcome], part: str, **wanted: Any) -> Iterator[Outcome]:
    """Yield the outcomes of a part; `data` and settings may be asked for."""
    for outcome in outcomes:
        trial = outcome.trial
        have: Mapping[str, Any] = {"data": trial.data} | trial.settings
        if trial.part == part and all(have.get(name) == value for name, value in wanted.items()):
            yield outcome


def only(outcomes: Iterable[Outcome], part: str, **wanted: Any) -> dict[str, Any] | None:
    """Return the first result of a part, if there is one."""
    found = next(where(outcomes, part, **wanted), None)
    return None if found is None else found.result


def chapter(study: Study, outcomes: Sequence[Outcome], *, quick: bool) -> Chapter:
    """Return a study's results as a chapter of the report."""
    lead = f"{study.paper}.\n\n{study.lead}"
    if quick:
        lead += (
            "\n\nThis was a quick run: less data, fewer epochs. It shows that everything works; "
            "its figures are not to be compared with the paper's."
        )
    done = {outcome.trial.key for outcome in outcomes}
    missing = sum(trial.key not in done for trial in study.trials(quick))
    if missing:
        lead += f"\n\n{missing} of {missing + len(done)} trials have not been run yet."
    return Chapter(study.name, study.title, lead, study.sections(outcomes), origins(outcomes))


def origins(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return what the outcomes were made with, each thing once.

    Examples
    --------
    >>> trial = Trial("table 1", "", {})
    >>> made = [{"numpy": "2.4", "seconds": 1.0}, {"numpy": "2.5", "seconds": 2.0}]
    >>> origins([Outcome(trial, {}, each) for each in made])
    {'numpy': '2.4, 2.5', 'seconds': '3.0'}
    """
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name, value in outcome.provenance.items():
            if name == "data":
                for path, digest in value.items():
                    found[path] = [f"sha256 {digest}"]
            elif name not in ("seconds", "time"):
                values = found.setdefault(name, [])
                if str(value) not in values:
                    values.append(str(value))
    told = {name: ", ".join(values) for name, values in found.items()}
    times = sorted(o.provenance["time"] for o in outcomes if "time" in o.provenance)
    if times:
        told["time"] = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    told["seconds"] = f"{sum(o.provenance.get('seconds', 0.0) for o in outcomes):.1f}"
    return told
