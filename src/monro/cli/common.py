"""What the commands share: settings, what is printed, and where to."""

import difflib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from monro._jit import announce_compilation
from monro.persist import kind_of, replacing
from monro.progress import patient_console

COMPILING = "compiling: once, then it is cached on disk …"
_WORDS = {"true": True, "false": False, "none": None, "null": None}


# --------------------------------------------------------------------------------------- --set a=b


def parse_value(text: str) -> Any:
    """Return what a value on the command line means: a number, True, False, None, or a word.

    Examples
    --------
    >>> [parse_value(text) for text in ("1e-4", "20", "true", "none", "log")]
    [0.0001, 20, True, None, 'log']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def parse_settings(settings: list[str], names: list[str]) -> dict[str, Any]:
    """Return the parameters of ``--set name=value``, their names checked."""
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting}: write name=value")
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(names)}"
            raise ValueError(f"--set {setting}: there is no parameter {name!r}; {hint}")
        values[name] = parse_value(value)
    return values


# ------------------------------------------------------------------------------------------ output


def say(console: Console, text: str) -> None:
    """Print text as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_table(title: str, cells: dict[str, Any]) -> None:
    """Print names and values."""
    console = patient_console()
    say(console, title)
    table = Table(show_header=False)
    table.add_column("", style="bold")
    table.add_column("", justify="right")
    for name, value in cells.items():
        table.add_row(name.replace("_", " "), text_of(value))
    console.print(table)


def text_of(value: Any) -> str:
    """Return a value as a table shows it."""
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        words = [str(part) for part in value[:5]]
        return ", ".join(words) + (f", … ({len(value):,})" if len(value) > 5 else "")
    return str(value)


def print_result(title: str, result: dict[str, Any], as_json: bool) -> None:
    """Print a result as a table, or as JSON."""
    if as_json:
        print(json.dumps(result))
    else:
        print_table(title, result)


@contextmanager
def output(out: Path | None) -> Iterator[IO[str]]:
    """Open the file to write to, which appears only when it is whole; or stdout."""
    if sys.stdout is None and out is None:
        raise OSError("standard output: it is closed; use --out")
    if out is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # whoever reads has seen enough, and Python is not to flush again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        with replacing(out) as temporary, temporary.open("w") as file:
            yield file


# ---------------------------------------------------------------------------------------- fitting


def make_estimator(kind: Any, parameters: dict[str, Any], settings: list[str], quiet: bool) -> Any:
    """Return an estimator with these parameters and those of --set; it tells how far it is."""
    parameters = parameters | parse_settings(settings, sorted(kind().get_params()))
    return kind(**{"verbose": 0 if quiet else 1} | parameters)


def check_output(out: Path, *inputs: str | Path) -> None:
    """Raise if what is to be written would destroy what is to be read."""
    for name in inputs:
        if Path(name).exists() and out.exists() and out.samefile(name):
            raise ValueError(f"{out}: this is what is to be read; give another name to write to")
    if out.is_dir():
        raise ValueError(f"{out}: this is a folder; give the name of a file")
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}; make it first")


def check_model(model: Path, data_name: str, checkpoint: Path | None) -> None:
    """Raise if a model is to be written over what is to be read, or over a file that is none."""
    check_output(model, data_name, *([checkpoint] if checkpoint else []))
    if model.is_file() and model.stat().st_size and kind_of(model) != "model":
        raise ValueError(
            f"{model}: this file exists, and is no model; give another name, or remove it"
        )


def run_fit(
    console: Console, estimator: Any, checkpoint: Path | None, fit: Callable[[], Any]
) -> None:
    """Fit; where that is interrupted, say what is left of it."""
    try:
        with announce_compilation(lambda: say(console, COMPILING)):
            fit()
    except KeyboardInterrupt:
        kept = checkpoint is not None and checkpoint.exists()
        after = ": run the same command to go on" if kept else ", nothing is saved"
        epochs = len(getattr(estimator, "history_", []))
        say(patient_console(stderr=True), f"monro: interrupted after {epochs} epochs{after}")
        raise


def save_model(estimator: Any, model: Path, checkpoint: Path | None) -> None:
    """Save; then the model is safe, and the checkpoint's work is done."""
    estimator.save(model)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
