"""Data sets by name: descriptions, locations and checksums of their files.

A file is searched in ``$MONRO_DATA``, then in the cache (``$XDG_CACHE_HOME/monro``, usually
``~/.cache/monro``). If it is in neither, it is downloaded, provided its origin has the same file.
"""

import difflib
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from monro.data.files import byte_chunks, is_stdin
from monro.errors import DataError, MissingExtraError
from monro.saving.atomic import atomic_path


class File(NamedTuple):
    """A file of a data set, compressed by gzip."""

    path: str
    bytes: int | None = None  # None: any file will do, because we have not seen it
    sha256: str | None = None
    url: str | None = None  # of the decompressed file
    unpacked_sha256: str | None = None


class DataSet(NamedTuple):
    """The description of a data set, and its files."""

    name: str
    about: str
    format: str
    rows: dict[str, int]
    features: int | None
    classes: int | None
    licence: str
    origin: str
    parts: dict[str, File]
    extra: list[File]
    target: str | None = None


@cache
def data_sets() -> dict[str, DataSet]:
    """Return all data sets known by name.

    Examples
    --------
    >>> data_sets()["a9a"].rows
    {'train': 32561, 'test': 16281}
    """
    text = resources.files("monro.data").joinpath("registry.json").read_text("utf-8")
    sets = {}
    for name, entry in json.loads(text).items():
        parts = {part: File(**file) for part, file in entry.pop("parts").items()}
        extra = [File(**file) for file in entry.pop("extra")]
        sets[name] = DataSet(name=name, parts=parts, extra=extra, **entry)
    return sets


def find(name: str) -> DataSet:
    """Return the data set with the given name.

    Examples
    --------
    >>> find("a9a").features
    123
    """
    sets = data_sets()
    if name in sets:
        return sets[name]
    close = difflib.get_close_matches(name, sets, 1)
    hint = f"did you mean {close[0]}?" if close else "`monro data list` shows all names"
    raise DataError("there is no data set of that name", name, cure=hint)


def cache_folder() -> Path:
    """Return the folder that downloaded files are kept in."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "monro"


def _search_folders() -> Iterator[Path]:
    if os.environ.get("MONRO_DATA"):
        yield Path(os.environ["MONRO_DATA"])
    yield cache_folder()


def locate(file: File) -> Path | None:
    """Return the local path of a file, or None if it is not there."""
    for folder in _search_folders():
        path = folder / file.path
        if path.is_file():
            return path
    return None


def verify(file: File, path: Path) -> None:
    """Raise unless the checksum of a file is right, if it is known."""
    digest, wanted = hashlib.sha256(), file.sha256
    if path.parent.parent == cache_folder() and file.unpacked_sha256:
        # Compressed here: the compressed bytes may differ, the contents may not.
        wanted = file.unpacked_sha256
        for text in byte_chunks(path):
            digest.update(text)
    else:
        digest.update(path.read_bytes())
    if wanted is not None and digest.hexdigest() != wanted:
        raise DataError("the file is damaged (its checksum differs)", path, cure="delete it")


def is_here(name: str, part: str = "train") -> bool:
    """Return whether a part of a data set is on this machine.

    Examples
    --------
    >>> is_here("eurlex", "nothing")
    False
    """
    parts = find(name).parts
    return part in parts and locate(parts[part]) is not None


def how_to_get(name: str) -> str:
    """Return a line that says where the files of a data set come from, and where they belong.

    Examples
    --------
    >>> print(how_to_get("wiki10"))  # doctest: +ELLIPSIS
    wiki10: from the Extreme ...; put them into $MONRO_DATA as wiki10/train.xc.txt.gz, wiki10/t...
    """
    found = find(name)
    paths = ", ".join(file.path for file in found.parts.values())
    return f"{name}: from {found.origin}; put them into $MONRO_DATA as {paths}"


def fetch(file: File) -> Path:
    """Return the local path of a file, downloaded if necessary, after verifying its checksum."""
    path = locate(file)
    if path is None:
        path = _download(file)
    verify(file, path)
    return path


def _download(file: File) -> Path:
    target = cache_folder() / file.path
    if file.url is None:
        raise DataError(
            "the file is not on this machine, and there is no place to download it from",
            file.path,
            cure=f"put it into $MONRO_DATA or {target.parent}",
        )
    try:
        import pooch
    except ImportError:
        raise MissingExtraError("downloading data needs pooch: pip install 'monro[data]'") from None
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        unpacked = Path(
            pooch.retrieve(
                file.url,
                known_hash=f"sha256:{file.unpacked_sha256}",
                fname=target.name.removesuffix(".gz"),
                path=target.parent,
                progressbar=False,
            )
        )
    except (OSError, ValueError) as error:
        reason = "its contents changed" if isinstance(error, ValueError) else "no connection?"
        raise DataError(
            f"cannot be downloaded ({reason})", file.url, cure=f"get {file.path} into $MONRO_DATA"
        ) from None
    with atomic_path(target) as temporary:
        temporary.write_bytes(gzip.compress(unpacked.read_bytes(), mtime=0))
    unpacked.unlink()
    return target


def resolve(name: str) -> str:
    """Return the path of the file that a name on the command line refers to.

    The name is a path, or a data set: ``a9a`` is its training part, ``a9a/test`` its test part.
    """
    if is_stdin(name) or Path(name).exists():
        return name
    base, _, part = name.partition("/")
    part = part or "train"
    sets = data_sets()
    if base not in sets:
        close = difflib.get_close_matches(base, sets, 1, cutoff=0.75)
        hint = f"did you mean the data set {close[0]}?" if close else "check its name"
        raise DataError("there is no such file, and no data set of that name", name, cure=hint)
    if part not in sets[base].parts:
        parts = ", ".join(f"{base}/{known}" for known in sets[base].parts)
        raise DataError("the data set has no such part", name, cure=f"it has {parts}")
    return str(fetch(sets[base].parts[part]))


def target_of(name: str) -> str | None:
    """Return the column of labels if a name is that of a data set that is a table, else None."""
    found = data_sets().get(name.partition("/")[0])
    return found.target if found is not None and not Path(name).exists() else None


def as_json(data_set: DataSet) -> dict[str, Any]:
    """Return what `monro data info --json` prints."""
    entry = data_set._asdict()
    entry["parts"] = {part: _file_json(file) for part, file in data_set.parts.items()}
    entry["extra"] = [_file_json(file) for file in data_set.extra]
    return entry


def _file_json(file: File) -> dict[str, Any]:
    found = locate(file)
    return file._asdict() | {"found": str(found) if found else None}
