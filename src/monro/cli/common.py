"""Shared parts of the commands: settings, output and fitting."""

import difflib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from monro._jit import announce_compilation
from monro.progress import pipe_safe_console
from monro.saving.atomic import atomic_path
from monro.saving.container import kind_of

COMPILING = "compiling, once: the result is cached on disk …"
_LITERALS = {"true": True, "false": False, "none": None, "null": None}


# --------------------------------------------------------------------------------------- --set a=b


def parse_value(text: str) -> Any:
    """Return the value of a text on the command line: a number, True, False, None, or the text.

    Examples
    --------
    >>> [parse_value(text) for text in ("1e-4", "20", "true", "none", "log")]
    [0.0001, 20, True, None, 'log']
    """
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def parse_settings(settings: list[str], names: list[str]) -> dict[str, Any]:
    """Return the parameters of ``--set name=value``; raise for a name that is not in `names`."""
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
    """Print text without markup, highlighting and wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_table(title: str, cells: dict[str, Any]) -> None:
    """Print a title and a table of names and values."""
    console = pipe_safe_console()
    say(console, title)
    table = Table(show_header=False)
    table.add_column("", style="bold")
    table.add_column("", justify="right")
    for name, value in cells.items():
        table.add_row(name.replace("_", " "), format_value(value))
    console.print(table)


def format_value(value: Any) -> str:
    """Return a value as text for a table."""
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
    """Yield the file to write to, which is created atomically; stdout if `out` is None."""
    if sys.stdout is None and out is None:
        raise OSError("standard output: it is closed; use --out")
    if out is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # the reader is gone; redirect, so that Python does not flush again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        with atomic_path(out) as temporary, temporary.open("w") as file:
            yield file


# ---------------------------------------------------------------------------------------- fitting


def make_estimator(kind: Any, parameters: dict[str, Any], settings: list[str], quiet: bool) -> Any:
    """Return an estimator with these parameters and those of --set, verbose unless quiet."""
    parameters = parameters | parse_settings(settings, sorted(kind().get_params()))
    return kind(**{"verbose": 0 if quiet else 1} | parameters)


def check_output(out: Path, *inputs: str | Path) -> None:
    """Raise if the output would overwrite an input, or cannot be written."""
    for name in inputs:
        if Path(name).exists() and out.exists() and out.samefile(name):
            raise ValueError(f"{out}: this is what is to be read; give another name to write to")
    if out.is_dir():
        raise ValueError(f"{out}: this is a folder; give the name of a file")
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}; make it first")


def check_model(model: Path, data_name: str, checkpoint: Path | None) -> None:
    """Raise if the model file would overwrite an input, or a file that is not a model."""
    check_output(model, data_name, *([checkpoint] if checkpoint else []))
    if model.is_file() and model.stat().st_size and kind_of(model) != "model":
        raise ValueError(
            f"{model}: this file exists, and is not a model; give another name, or remove it"
        )


def run_fit(
    console: Console, estimator: Any, checkpoint: Path | None, fit: Callable[[], Any]
) -> None:
    """Fit, with warnings as one line each; if that is interrupted, say how to resume."""
    try:
        with warning_lines(), announce_compilation(lambda: say(console, COMPILING)):
            fit()
    except KeyboardInterrupt:
        kept = checkpoint is not None and checkpoint.exists()
        after = ": run the same command to resume" if kept else ", nothing is saved"
        epochs = len(getattr(estimator, "history_", []))
        say(pipe_safe_console(stderr=True), f"monro: interrupted after {epochs} epochs{after}")
        raise


@contextmanager
def warning_lines() -> Iterator[None]:
    """Print each warning as one line on standard error, without a line of the sources."""
    console = pipe_safe_console(stderr=True)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(console, f"monro: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def save_model(estimator: Any, model: Path, checkpoint: Path | None) -> None:
    """Save the model, then remove the checkpoint."""
    estimator.save(model)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
