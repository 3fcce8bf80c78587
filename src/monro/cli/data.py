"""monro data: named data sets and stores."""

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from monro.data import registry
from monro.data.registry import DataSet, File
from monro.errors import DataError


def _state(data_set: DataSet) -> str:
    files = [*data_set.parts.values(), *data_set.extra]
    missing = [file for file in files if registry.locate(file) is None]
    if not missing:
        return "here"
    if all(file.url for file in missing):
        return "to download"
    return "missing" if len(missing) == len(files) else "in part"


def _rows(data_set: DataSet) -> str:
    return " / ".join(f"{rows:,}" for rows in data_set.rows.values()) or "–"


def list_sets(*, as_json: bool) -> None:
    """Print a table of all data sets."""
    sets = registry.data_sets()
    if as_json:
        print(
            json.dumps({name: {"about": s.about, "state": _state(s)} for name, s in sets.items()})
        )
        return
    table = Table()
    for heading in ("name", "rows", "features", "classes", "format", "state"):
        table.add_column(
            heading,
            justify="right" if heading in ("rows", "features", "classes") else "left",
            no_wrap=heading == "name",
        )
    for name, data_set in sets.items():
        sizes = (data_set.features, data_set.classes)
        table.add_row(
            name,
            _rows(data_set),
            *(f"{size:,}" if size else "–" for size in sizes),
            data_set.format,
            _state(data_set),
        )
    Console().print(table)


def info(name: str, *, as_json: bool) -> None:
    """Print the description of a data set."""
    data_set = registry.find(name)
    if as_json:
        print(json.dumps(registry.as_json(data_set)))
        return
    console = Console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    say(f"{name}: {data_set.about}")
    for part, rows in data_set.rows.items():
        say(f"  {part}: {rows:,} rows")
    for what in ("features", "classes", "format", "target", "origin", "licence"):
        value = getattr(data_set, what)
        if value is not None:
            say(f"  {what}: {value:,}" if isinstance(value, int) else f"  {what}: {value}")
    for file in (*data_set.parts.values(), *data_set.extra):
        say(f"  {_describe(file)}")


def _describe(file: File) -> str:
    found = registry.locate(file)
    where = str(found) if found else file.url or "not on this machine"
    if file.bytes is None or file.sha256 is None:
        return f"{file.path}  checksum not known  {where}"
    return f"{file.path}  {file.bytes:,} bytes  sha256 {file.sha256[:12]}…  {where}"


def fetch(name: str) -> None:
    """Download the files of a data set, if necessary, and verify their checksums."""
    console = Console()
    data_set = registry.find(name)
    for file in (*data_set.parts.values(), *data_set.extra):
        path = registry.fetch(file)
        state = "checked" if file.sha256 else "found, its checksum is not known"
        console.print(f"{path}: {state}", markup=False, highlight=False, soft_wrap=True)


def convert(
    data: str,
    out: Path,
    *,
    dtype: str,
    seed: int,
    n_features: int | None,
    first_feature: int | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Convert a file to a store, showing the number of rows as progress."""
    from monro.data.convert import convert as run
    from monro.data.read import is_table

    source = registry.resolve(data)
    if Path(source).is_dir() and not is_table(source):
        raise DataError("it is a folder, perhaps a store already", source, cure="give a file")
    console = Console(stderr=True)
    columns: tuple[Any, ...] = (
        SpinnerColumn(),
        TextColumn("{task.completed:,} rows"),
        TimeElapsedColumn(),
    )
    begin = time.perf_counter()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        store = run(
            source,
            out,
            dtype=dtype,
            seed=seed,
            n_features=n_features,
            first_feature=first_feature,
            target=target or registry.target_of(data),
            report=lambda rows: progress.advance(task, rows),
        )
    for note in store.notes:
        console.print(f"{data}: {note}", markup=False, highlight=False, soft_wrap=True)
    rows, width = store.X.shape
    seconds = time.perf_counter() - begin
    if as_json:
        sizes = {"rows": rows, "features": width, "nonzeros": int(store.X.nnz)}
        print(json.dumps({"store": str(out), **sizes, "seconds": seconds}))
        return
    Console().print(
        f"{out}: {rows:,} rows × {width:,} features, {store.X.nnz:,} non-zeros, in {seconds:.2g} s",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
