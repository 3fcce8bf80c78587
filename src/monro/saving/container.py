"""The file format of models and checkpoints: arrays (safetensors) and a JSON description."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.errors import ModelFileError
from monro.saving.atomic import atomic_path

VERSION = 1
_LONGEST_HEADER = 1 << 30
Array = np.ndarray[Any, np.dtype[Any]]


class Contents(NamedTuple):
    """The contents of a file: arrays by name, and everything else as JSON."""

    arrays: dict[str, Array]
    about: dict[str, Any]


def _digest(arrays: Mapping[str, Array], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _native(array: Array) -> Array:
    """Return an array in native byte order and contiguous, as safetensors returns it."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def write_container(path: str | Path, kind: str, contents: Contents) -> None:
    """Write a file of a kind ("model" or "checkpoint") atomically."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(contents.about, allow_nan=True)
    arrays = {name: _native(array) for name, array in contents.arrays.items()}
    header = {
        "monro": kind,
        "version": str(VERSION),
        "about": text,
        "digest": _digest(arrays, text),
    }
    with atomic_path(path) as temporary:
        try:
            save_file(arrays, temporary, header)
        except SafetensorError as error:
            reason = str(error).partition(" at path")[0]
            raise OSError(f"{path}: cannot be written ({reason}); is the disk full?") from None


def kind_of(path: str | Path) -> str | None:
    """Return the kind of a file from its header; None if it is no file of monro."""
    with suppress(ModelFileError):
        return _read_header(Path(path)).get("monro")
    return None


def read_container(path: str | Path, kind: str) -> Contents:
    """Read a file of a kind; raise ModelFileError, saying what is wrong, if it is not valid."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    header = _read_header(Path(path))
    if header.get("monro") != kind:
        found = header.get("monro")
        what = f"it is a monro {found}" if found else "its arrays are not those of monro"
        raise ModelFileError(f"{path}: this is not a monro {kind}: {what}")
    version = header.get("version", "")
    if not version.isdigit() or int(version) > VERSION:
        raise ModelFileError(
            f"{path}: the file is of version {version or '?'}, this monro reads up to {VERSION}; "
            "install a newer monro"
        )
    try:
        arrays = load_file(path)
        text = header["about"]
        about = json.loads(text)
        intact = _digest(arrays, text) == header["digest"] and isinstance(about, dict)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise ModelFileError(f"{path}: the file is damaged; copy it again, or fit again")
    return Contents(arrays, about)


def _read_header(path: Path) -> dict[str, str]:
    """Return the header of a file, after checking the file's length."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(min(length, size))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path}: this is a folder, not a model file") from None
    foreign = ModelFileError(f"{path}: this is not a monro model; give a file that `save` wrote")
    if not text.startswith(b"{") or length > _LONGEST_HEADER:
        raise foreign
    if len(text) < length:
        raise ModelFileError(f"{path}: the file is cut short; copy it again, or fit again")
    try:
        entries = json.loads(text)
        header = entries.pop("__metadata__", {})
        ends = [entry["data_offsets"][1] for entry in entries.values()]
        needed = 8 + length + max(ends, default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise foreign from None
    if not isinstance(header, dict) or not all(isinstance(v, str) for v in header.values()):
        raise foreign
    if size < needed:
        raise ModelFileError(
            f"{path}: the file is cut short ({size:,} of {needed:,} bytes); copy it again, or fit "
            "again"
        )
    return header
