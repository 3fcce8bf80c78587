"""Runs the trials of a study that have no result yet."""

import multiprocessing
import time
import warnings
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from monro.progress import pipe_safe_console
from monro.studies.journal import Journal, provenance
from monro.studies.study import Outcome, Study, Tick, Trial


def journal_path(folder: Path, study: Study, *, quick: bool) -> Path:
    """Return the path of the file of a study's results."""
    return folder / f"{study.name}{'-quick' if quick else ''}.jsonl"


def check_sets(sets: Collection[str], known: Collection[str], title: str) -> None:
    """Raise unless all data sets are among the known ones of a study, or of all studies."""
    for name in sets:
        if name not in known:
            raise ValueError(f"--dataset {name}: {title} has {', '.join(known) or 'no data sets'}")


def select_trials(study: Study, *, quick: bool, sets: Collection[str]) -> list[Trial]:
    """Return the trials of a study on some data sets; on all, if none are named."""
    check_sets(sets, study.sets, study.name)
    return [trial for trial in study.trials(quick) if not sets or trial.data in sets]


def run(
    study: Study,
    folder: Path,
    *,
    quick: bool = False,
    sets: Collection[str] = (),
    jobs: int = 1,
    show: bool = True,
) -> list[Outcome]:
    """Run the trials without a result; return all outcomes.

    With several jobs, trials whose seconds are compared run alone, after all others.

    Parameters
    ----------
    study : Study
    folder : Path
        The folder of results. A run that was killed resumes from them.
    quick : bool
        Whether to run the small version of the study.
    sets : collection of str
        The data sets to run on. By default all.
    jobs : int
        How many of the other trials to run at a time, each in a process.
    show : bool
        Whether to show progress.
    """
    journal = Journal(journal_path(folder, study, quick=quick))
    trials = select_trials(study, quick=quick, sets=sets)
    missing = [trial for trial in trials if not _has_result(study, trial, journal)]
    together = [trial for trial in missing if jobs > 1 and not study.timed(trial)]
    with _progress(study.name, trials, len(trials) - len(missing), show) as begin:
        for trial, result, seconds in _run_together(study, together, jobs):
            begin(trial)(1.0)
            journal.add(Outcome(trial, result, provenance(trial, seconds, alone=False)))
        for trial in missing:
            if trial in together:
                continue
            tick = begin(trial)
            result, seconds = _run_one(study.run, trial, tick)
            journal.add(Outcome(trial, result, provenance(trial, seconds)))
            tick(1.0)
    return journal.of(study.trials(quick))


def _has_result(study: Study, trial: Trial, journal: Journal) -> bool:
    """Return whether a trial was run; if its time is compared, whether it was run alone."""
    outcome = journal.outcomes.get(trial.key)
    return outcome is not None and (
        not study.timed(trial) or outcome.provenance.get("alone", False)
    )


def _run_one(run: Any, trial: Trial, tick: Tick) -> tuple[dict[str, Any], float]:
    """Return the result of a trial and its seconds."""
    with warnings.catch_warnings():
        # Studies compare solvers that do not converge with those that do.
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        result = run(trial, tick)
        return result, time.perf_counter() - start


def _run_together(
    study: Study, trials: list[Trial], jobs: int
) -> Iterator[tuple[Trial, dict[str, Any], float]]:
    """Yield trials with their results and seconds, in the order in which they end."""
    if not trials:
        return
    pool = ProcessPoolExecutor(
        jobs,
        multiprocessing.get_context("spawn"),  # threads of this process cannot be forked
        initializer=threadpool_limits,
        initargs=(1,),
    )
    try:
        futures = {pool.submit(_run_one, study.run, trial, _ignore): trial for trial in trials}
        for future in as_completed(futures):
            yield futures[future], *future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore(share: float) -> None:
    """Take no note of the share of a trial that is done."""


@contextmanager
def _progress(name: str, trials: list[Trial], done: int, show: bool) -> Iterator[Any]:
    """Yield a function that starts a trial and returns its tick.

    Progress is a bar on a terminal, and lines elsewhere.
    """
    if not show:
        yield lambda trial: _ignore
        return
    console = pipe_safe_console(stderr=True)
    if done:
        console.print(f"{name}: {done} of {len(trials)} trials were run before", highlight=False)
    if not console.is_terminal:
        count = iter(range(done + 1, len(trials) + 1))

        def begin_line(trial: Trial) -> Tick:
            text = f"{name} {next(count)}/{len(trials)}: {trial}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
            return _ignore

        yield begin_line
        return

    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    # The bar also advances within a trial; the count of trials is next to it.
    with Bar(
        TextColumn(name),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
    ) as bar:
        task = bar.add_task("", total=len(trials), completed=done, count=f"{done}/{len(trials)}")
        at = iter(range(done, len(trials)))

        def begin_bar(trial: Trial) -> Tick:
            number = next(at)
            bar.update(task, description=str(trial), count=f"{number + 1}/{len(trials)}")
            return lambda share: bar.update(task, completed=number + share)

        yield begin_bar
        bar.update(task, description="done")
