"""The file format of models and checkpoints: arrays (safetensors) and a JSON description."""

import hashlib
import json
import mmap
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.errors import ModelFileError
from monro.memory import free_memory, require_memory
from monro.saving.atomic import atomic_path

VERSION = 1
# Of files that earlier versions cannot read: with rounded weights; with sparse ones by feature.
_WITH_ROUNDED_WEIGHTS, _WITH_LISTS = 2, 3
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


def _version_of(contents: Contents) -> int:
    """Return the lowest version of monro's files that has what the contents need."""
    if "lists" in contents.about:
        return _WITH_LISTS
    return _WITH_ROUNDED_WEIGHTS if "rounded" in contents.about else VERSION


def write_container(path: str | Path, kind: str, contents: Contents) -> None:
    """Write a file of a kind ("model" or "checkpoint") atomically."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(contents.about, allow_nan=True)
    arrays = {name: _native(array) for name, array in contents.arrays.items()}
    header = {
        "monro": kind,
        "version": str(_version_of(contents)),
        "about": text,
        "digest": _digest(arrays, text),
    }
    with atomic_path(path) as temporary:
        try:
            save_file(arrays, temporary, header)
        except SafetensorError as error:
            reason = str(error).partition(" at path")[0]
            raise OSError(f"{path}: cannot be written ({reason}); is the disk full?") from None


class _Layout(NamedTuple):
    """What the first part of a file tells: its description, and where its arrays are."""

    header: dict[str, str]
    entries: dict[str, dict[str, Any]]  # of arrays: dtype, shape, data_offsets
    start: int  # of the first array

    @property
    def size(self) -> int:
        """The bytes of all arrays."""
        return max((entry["data_offsets"][1] for entry in self.entries.values()), default=0)


def kind_of(path: str | Path) -> str | None:
    """Return the kind of a file from its header; None if it is no file of monro."""
    with suppress(ModelFileError):
        return _read_layout(Path(path)).header.get("monro")
    return None


def read_container(path: str | Path, kind: str, mapped: bool | None = False) -> Contents:
    """Read a file of a kind; raise ModelFileError, saying what is wrong, if it is not valid.

    If `mapped`, arrays stay in the file until they are used, and are not checked; with None if
    memory has no room for them.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    layout = _read_layout(Path(path))
    header = layout.header
    if header.get("monro") != kind:
        found = header.get("monro")
        what = f"it is a monro {found}" if found else "its arrays are not those of monro"
        raise ModelFileError(f"{path}: this is not a monro {kind}: {what}")
    version = header.get("version", "")
    if not version.isdigit() or int(version) > _WITH_LISTS:
        raise ModelFileError(
            f"{path}: the file is of version {version or '?'}, this monro reads up to "
            f"{_WITH_LISTS}; install a newer monro"
        )
    if mapped is None:
        free = free_memory()
        mapped = free is not None and layout.size > free
    if not mapped:
        cure = ", or leave them in the file (mapped=True)" if kind == "model" else ""
        require_memory(layout.size, f"{path}: its arrays", f"free memory{cure}")
    try:
        arrays = _mapped_arrays(Path(path), layout) if mapped else load_file(path)
        text = header["about"]
        about = json.loads(text)
        intact = isinstance(about, dict) and (mapped or _digest(arrays, text) == header["digest"])
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise ModelFileError(f"{path}: the file is damaged; copy it again, or fit again")
    return Contents(arrays, about)


_DTYPES = {"BOOL": "?", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_DTYPES |= {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # mmap has no name for it before 3.13


def _mapped_arrays(path: Path, layout: _Layout) -> dict[str, Array]:
    """Return arrays that are read from the file as they are used.

    They can be changed, as kernels are compiled for arrays that can: a changed page becomes the
    process's own, the file stays as it is. Memory for that is not reserved.
    """
    with path.open("rb") as file:
        if hasattr(mmap, "MAP_PRIVATE"):
            own = mmap.MAP_PRIVATE | _NO_RESERVE
            pages = mmap.mmap(file.fileno(), 0, own, mmap.PROT_READ | mmap.PROT_WRITE)
        else:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays: dict[str, Array] = {}
    for name, entry in layout.entries.items():
        place = layout.start + entry["data_offsets"][0]
        arrays[name] = np.ndarray(entry["shape"], _DTYPES[entry["dtype"]], pages, place)
        if arrays[name].nbytes != entry["data_offsets"][1] - entry["data_offsets"][0]:
            raise ValueError(name)
    return arrays


def is_in_file(array: Array) -> bool:
    """Return whether an array is one of a file that is mapped."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def _read_layout(path: Path) -> _Layout:
    """Return the description of a file, after checking the file's length."""
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
        layout = _Layout(header, entries, 8 + length)
        needed = layout.start + layout.size
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise foreign from None
    if not isinstance(header, dict) or not all(isinstance(v, str) for v in header.values()):
        raise foreign
    if size < needed:
        raise ModelFileError(
            f"{path}: the file is cut short ({size:,} of {needed:,} bytes); copy it again, or fit "
            "again"
        )
    return layout
