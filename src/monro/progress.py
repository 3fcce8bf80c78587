"""Progress of a fit: a bar on a terminal, plain lines elsewhere, nothing unless asked for."""

from types import TracebackType
from typing import Any, Self


class Progress:
    """Shows epochs as they end.

    Parameters
    ----------
    enabled : bool
        Whether to show anything.
    title : str
        What is being fitted.
    epochs : int
        How many epochs at most.
    rows : int
        Rows visited in an epoch, for the speed.
    """

    def __init__(self, enabled: bool, title: str, epochs: int, rows: int):
        self.enabled = enabled
        self.title = title
        self.epochs = epochs
        self.rows = rows
        self._bar: Any = None

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._console = Console(stderr=True)
        if self._console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
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
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        if self.enabled:
            self._console.print(
                f"{self.title}: {text}", markup=False, highlight=False, soft_wrap=True
            )

    def part(self, rows: int) -> None:
        """Note that some rows of the epoch are done."""
        if self._bar is not None:
            self._bar.advance(self._task, rows / self.rows)

    def epoch(self, record: dict[str, float]) -> None:
        """Show the end of an epoch."""
        if not self.enabled:
            return
        speed = record["epoch"] * self.rows / max(record["seconds"], 1e-9)
        note = f"loss {record['loss']:.5g}"
        for name in ("objective", "validation_loss"):
            if name in record:
                note += f"  {name.replace('_', ' ')} {record[name]:.5g}"
        note += f"  {speed:,.0f} rows/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=record["epoch"], note=note)
        else:
            self.say(f"epoch {record['epoch']}/{self.epochs}  {note}")
