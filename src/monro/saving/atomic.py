"""Atomic writing: a file is replaced completely or not at all."""

import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PARTIAL = ".partial"


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces `path` if the block succeeds."""
    target = Path(path).resolve()  # a symbolic link is kept
    if target.is_dir():
        raise OSError(f"{path}: this is a folder; give the name of a file")
    if target.exists() and not target.is_file():  # pipes and devices are written directly
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
        sync_to_disk(temporary)
        os.replace(temporary, target)
        with suppress(OSError):  # not supported by every system
            sync_to_disk(target.parent)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files more than an hour old, left by killed processes."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*{_PARTIAL}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                path.unlink()


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
