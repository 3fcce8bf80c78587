"""Files that hold models and checkpoints: safetensors with a JSON description; no pickle.

A file is written beside its target and renamed over it once it is whole and on the disk: whoever is
killed, or runs out of disk, leaves the old file as it was.
"""

import glob
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monro.errors import ModelFileError

VERSION = 1
_LONGEST_HEADER = 1 << 30
_PARTIAL = ".partial"

Array = np.ndarray[Any, np.dtype[Any]]

# The classes a file may name, and where they live.
ESTIMATORS = {
    "CRFTagger": "monro.crf.tagger",
    "ChoiceModel": "monro.choice.model",
    "LinearClassifier": "monro.linear.classifier",
    "LinearRegressor": "monro.linear.regressor",
    "SoftmaxClassifier": "monro.softmax.classifier",
}


class Contents(NamedTuple):
    """What a file holds: arrays by name, and everything else as JSON."""

    arrays: dict[str, Array]
    about: dict[str, Any]


# ------------------------------------------------------------------------------------ whole files


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give the path of a temporary file, which replaces `path` if the block ends well."""
    target = Path(path).resolve()  # a link stays one
    if target.is_dir():
        raise OSError(f"{path}: this is a folder; give the name of a file")
    if target.exists() and not target.is_file():  # a pipe or a device is written to
        yield target
        return
    _remove_leftovers(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_PARTIAL}")
    try:
        temporary.touch()
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise OSError(
            f"{path}: cannot be written ({reason}); choose a folder that exists and is yours"
        ) from None
    mode = (target if target.exists() else temporary).stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, target)
        with suppress(OSError):  # not every system can
            sync(target.parent)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of processes killed an hour ago or earlier."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*{_PARTIAL}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                path.unlink()


def sync(path: Path) -> None:
    """Bring a file, or a folder's list of files, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(arrays: Mapping[str, Array], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _native(array: Array) -> Array:
    """Return an array as safetensors gives it back."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def write(path: str | Path, kind: str, contents: Contents) -> None:
    """Write a file of that kind ("model" or "checkpoint"), wholly or not at all."""
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
    with replacing(path) as temporary:
        try:
            save_file(arrays, temporary, header)
        except SafetensorError as error:
            reason = str(error).partition(" at path")[0]
            raise OSError(f"{path}: cannot be written ({reason}); is the disk full?") from None


def kind_of(path: str | Path) -> str | None:
    """Return what a file of monro's is, without reading it all; None for any other file."""
    with suppress(ModelFileError):
        return _read_header(Path(path)).get("monro")
    return None


def read(path: str | Path, kind: str) -> Contents:
    """Read a file of that kind, or say what is wrong with it."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    header = _read_header(Path(path))
    if header.get("monro") != kind:
        found = header.get("monro")
        what = f"it is a monro {found}" if found else "its arrays are not those of monro"
        raise ModelFileError(f"{path}: this is no monro {kind}: {what}")
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
        whole = _digest(arrays, text) == header["digest"] and isinstance(about, dict)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise ModelFileError(f"{path}: the file is damaged; copy it again, or fit again")
    return Contents(arrays, about)


def _read_header(path: Path) -> dict[str, str]:
    """Return the file's own description, checked against the file's length."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(min(length, size))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path}: this is a folder, not a model file") from None
    foreign = ModelFileError(f"{path}: this is no monro model; give a file that `save` wrote")
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


# ------------------------------------------------------------------------- NamedTuples of arrays


def flatten(name: str, state: Any, arrays: dict[str, Array]) -> list[Any]:
    """Put the arrays of a nested NamedTuple into `arrays`; return its shape as JSON."""
    parts: list[Any] = []
    for field, part in zip(state._fields, state, strict=True):
        if isinstance(part, np.ndarray):
            arrays[f"{name}.{field}"] = part
            parts.append(field)
        else:
            parts.append([field, flatten(f"{name}.{field}", part, arrays)])
    return [type(state).__name__, parts]


def unflatten(
    name: str, shape: list[Any], arrays: Mapping[str, Array], classes: Mapping[str, Any]
) -> Any:
    """Build the NamedTuple again."""
    kind, parts = shape
    fields = {}
    for part in parts:
        if isinstance(part, str):
            fields[part] = arrays[f"{name}.{part}"].copy()
        else:
            field, inner = part
            fields[field] = unflatten(f"{name}.{field}", inner, arrays, classes)
    return classes[kind](**fields)


# ------------------------------------------------------------------------------------------ models


def save(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator."""
    contents = estimator._to_contents()
    contents.about["class"] = type(estimator).__name__
    write(path, "model", contents)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    CRFTagger, ChoiceModel, LinearClassifier, LinearRegressor or SoftmaxClassifier
        The estimator as it was: it predicts the same, and goes on training from where it was.

    Raises
    ------
    monro.errors.ModelFileError
        If the file is no model, is damaged or cut short, or was written by a newer monro.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> import monro
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = monro.LinearClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/cancer.monro")
    ...     same = monro.load(f"{folder}/cancer.monro")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    contents = read(path, "model")
    name = contents.about.get("class")
    if name not in ESTIMATORS:
        raise ModelFileError(f"{path}: this monro has no {name!r}; install a newer monro")
    estimator = getattr(import_module(ESTIMATORS[name]), name)()
    try:
        estimator._from_contents(contents)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ModelFileError(f"{path}: the file is damaged; copy it again, or fit again") from None
    return estimator
