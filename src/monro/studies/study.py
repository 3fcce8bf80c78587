"""A study: trials as plain data, a function that runs one, and functions that present results."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from monro.report.content import Chapter, Section
from monro.studies.finding import Finding, count, table

SEEDS = (0, 1, 2)  # of every figure that is compared
Tick = Callable[[float], None]  # called with the share of a trial that is done


class Trial(NamedTuple):
    """One run: its table or figure, its data set and its settings."""

    part: str  # the table or figure
    data: str  # the name of a data set, or "" for synthetic data
    settings: dict[str, Any]

    @property
    def key(self) -> str:
        """A text that identifies this trial among all trials of a study."""
        return json.dumps(self, sort_keys=True)

    def __str__(self) -> str:
        rate = self.settings.get("rate")
        words = [self.part, self.data]
        words += [value for value in self.settings.values() if isinstance(value, str)]
        words += [f"η0 = {rate:g}"] if isinstance(rate, float) else []
        return ", ".join(word for word in words if word)


class Outcome(NamedTuple):
    """The result of a trial, and its provenance."""

    trial: Trial
    result: dict[str, Any]
    provenance: dict[str, Any]


def _never(trial: Trial) -> bool:
    return False


class Study(NamedTuple):
    """The reproduction of a paper.

    Parameters
    ----------
    name : str
        The name on the command line and of the file of results.
    title : str
    paper : str
        The citation of the paper.
    lead : str
        What the paper is about and how it is reproduced, for a newcomer.
    sets : tuple of str
        The data sets it runs on.
    trials : function of quick
        Returns the trials to run.
    run : function of a trial and a tick
        Returns the result as JSON types, where NaN and infinities become null.
    sections : function of outcomes
        Returns tables and plots of the trials run so far.
    findings : function of outcomes
        Returns the paper's claims, compared with the outcomes.
    setup : tuple of str
        How data and settings differ from the paper's. Nothing about outcomes.
    timed : function of a trial
        Whether its seconds are compared, so that it must run alone.
    """

    name: str
    title: str
    paper: str
    lead: str
    sets: tuple[str, ...]
    trials: Callable[[bool], list[Trial]]
    run: Callable[[Trial, Tick], dict[str, Any]]
    sections: Callable[[Sequence[Outcome]], list[Section]]
    findings: Callable[[Sequence[Outcome]], list[Finding]]
    setup: tuple[str, ...] = ()
    timed: Callable[[Trial], bool] = _never


def seeds(quick: bool) -> tuple[int, ...]:
    """Return the seeds of trials that are compared; a quick run has one."""
    return SEEDS[:1] if quick else SEEDS


def where(outcomes: Iterable[Outcome], part: str, **wanted: Any) -> Iterator[Outcome]:
    """Yield the outcomes of a part whose data set and settings are as in `wanted`."""
    for outcome in outcomes:
        trial = outcome.trial
        have: Mapping[str, Any] = {"data": trial.data} | trial.settings
        if trial.part == part and all(have.get(name) == value for name, value in wanted.items()):
            yield outcome


def results(outcomes: Iterable[Outcome], part: str, **wanted: Any) -> list[dict[str, Any]]:
    """Return the results of the outcomes that `where` yields: of all seeds, if none is wanted."""
    return [outcome.result for outcome in where(outcomes, part, **wanted)]


def seconds_alone(outcome: Outcome, name: str = "seconds") -> Any:
    """Return a measurement of time, or None if other trials ran beside it."""
    return outcome.result.get(name) if outcome.provenance.get("alone") else None


def only(outcomes: Iterable[Outcome], part: str, **wanted: Any) -> dict[str, Any] | None:
    """Return the result of the first outcome that `where` yields, or None."""
    found = next(where(outcomes, part, **wanted), None)
    return None if found is None else found.result


def chapter(study: Study, outcomes: Sequence[Outcome], *, quick: bool) -> Chapter:
    """Return a study's results as a chapter of the report."""
    lead = f"{study.paper}.\n\n{study.lead}"
    if quick:
        lead += (
            "\n\nThis was a quick run with less data and fewer epochs. It shows that everything "
            "works; do not compare its figures with the paper's."
        )
    lead += "".join(f"\n\n{sentence}" for sentence in what_is_missing(study, outcomes, quick=quick))
    sections = [findings_section(study, outcomes), *study.sections(outcomes)]
    return Chapter(study.name, study.title, lead, sections, combine_provenance(outcomes))


def what_is_missing(study: Study, outcomes: Sequence[Outcome], *, quick: bool) -> list[str]:
    """Return sentences that count the trials without a result, and those without seconds."""
    trials = study.trials(quick)
    done = {outcome.trial.key: outcome for outcome in outcomes}
    missing = sum(trial.key not in done for trial in trials)
    beside = sum(
        study.timed(trial) and trial.key in done and not done[trial.key].provenance.get("alone")
        for trial in trials
    )
    found = []
    if missing:
        found.append(f"{missing} of {len(trials)} trials have not been run yet.")
    if beside:
        found.append(f"{beside} trials did not run alone: their seconds are not shown.")
    return found


def findings_section(study: Study, outcomes: Sequence[Outcome]) -> Section:
    """Return the claims of the paper with their verdicts, and how the set-up differs."""
    found = study.findings(outcomes)
    text = "\n\n".join([count(found), *study.setup])
    return Section("What the paper says, and what came out", text, [table("Findings", found)])


def combine_provenance(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the provenance of all outcomes together: distinct values, and the total seconds.

    Examples
    --------
    >>> trial = Trial("table 1", "", {})
    >>> made = [{"numpy": "2.4", "seconds": 1.0}, {"numpy": "2.5", "seconds": 2.0}]
    >>> combine_provenance([Outcome(trial, {}, each) for each in made])
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
    combined = {name: ", ".join(values) for name, values in found.items()}
    times = sorted(o.provenance["time"] for o in outcomes if "time" in o.provenance)
    if times:
        combined["time"] = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    combined["seconds"] = f"{sum(o.provenance.get('seconds', 0.0) for o in outcomes):.1f}"
    return combined
