"""Progress of a fit: a bar on a terminal, plain lines elsewhere; only if enabled."""

from types import TracebackType
from typing import Any, Self


def pipe_safe_console(**options: Any) -> Any:
    """Return a Rich console that goes quiet on a broken pipe, where Rich would exit."""
    from rich.console import Console

    class PipeSafeConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True

    return PipeSafeConsole(**options)


def _short(number: float) -> str:
    """Return a number with three significant digits and a unit prefix.

    Examples
    --------
    >>> [_short(number) for number in (5.0, 1234.0, 45_678_000.0)]
    ['5', '1.23k', '45.7M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


class Progress:
    """Shows each epoch of a fit when it ends, or each step of something else.

    Parameters
    ----------
    enabled : bool
        Whether to show anything.
    title : str
        What is being fitted, or the name of a step.
    epochs : int
        The maximal number of epochs or steps.
    rows : int
        The number of rows visited in an epoch, for rows/s.
    """

    def __init__(self, enabled: bool, title: str, epochs: int, rows: int):
        self.enabled = enabled
        self.title = title
        self.epochs = epochs
        self.rows = rows
        self._bar: Any = None
        self._seconds = 0.0
        self._steps = 0

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._console = pipe_safe_console(stderr=True)
        if self._console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=12),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.epochs, note="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            if error is None:  # it may have ended before the last epoch
                self._bar.update(self._task, total=self._bar.tasks[self._task].completed)
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line, preceded by the title."""
        if self.enabled:
            self._print(f"{self.title}: {text}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, text: str) -> None:
        """Show what came of a step: beside the bar, which it advances, or as a line."""
        self._steps += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._steps, note=text)
        elif self.enabled:
            self._print(f"{self.title} {self._steps} of at most {self.epochs}: {text}")

    def part(self, rows: int) -> None:
        """Advance the bar by some rows of the current epoch."""
        if self._bar is not None:
            self._bar.advance(self._task, rows / self.rows)

    def epoch(self, record: dict[str, float]) -> None:
        """Show the record of an epoch that ended."""
        if not self.enabled:
            return
        speed = self.rows / max(record["seconds"] - self._seconds, 1e-9)
        self._seconds = record["seconds"]
        labels = {"log_loss": "log-loss", "objective": "objective", "validation_loss": "validation"}
        if "log_loss" not in record:
            labels = {"loss": "loss"} | labels
        note = "  ".join(
            f"{label} {record[name]:.5g}" for name, label in labels.items() if name in record
        )
        note += f"  {_short(speed)} rows/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=record["epoch"], note=note)
        else:
            self.say(f"epoch {record['epoch']}/{self.epochs}  {note}")
