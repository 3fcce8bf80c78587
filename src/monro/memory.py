"""How much memory is free, so that what cannot fit is refused before it is tried."""

import os
from collections.abc import Iterable
from pathlib import Path

from monro.errors import NotEnoughMemoryError

_GB = 1e9
_CGROUPS = Path("/sys/fs/cgroup")
# Files of the limit and of the use, and the entries of memory.stat for what the system can take
# back: versions 2 and 1 of control groups.
_LIMITS = [
    ("memory.max", "memory.current", ("inactive_file", "active_file", "slab_reclaimable")),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
]


def free_memory() -> int | None:
    """Return the bytes that a process may still take; None where the system does not tell.

    On Linux, what the machine has available, or less if the control group at the root of
    /sys/fs/cgroup has a limit, as in a container; elsewhere all memory of the machine.
    """
    amounts = [_of_machine(), *(_of_group(_CGROUPS, *names) for names in _LIMITS)]
    return min((amount for amount in amounts if amount is not None), default=None)


def _of_machine(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    try:
        entries = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        amounts = (entries[name] for name in ("MemAvailable", "SwapFree"))
        return 1024 * sum(int(amount.split()[0]) for amount in amounts)
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group(root: Path, limit: str, use: str, cached: Iterable[str]) -> int | None:
    try:
        most, taken = int((root / limit).read_text()), int((root / use).read_text())
        stat = (root / limit).with_name("memory.stat").read_text()
        entries = dict(line.split() for line in stat.splitlines())
        return max(0, most - taken + sum(int(entries.get(name, 0)) for name in cached))
    except (OSError, ValueError):  # no such group, or no limit ("max")
        return None


def has_room(needed: int) -> bool:
    """Return whether that many bytes are free, as far as the system tells.

    Examples
    --------
    >>> has_room(1000), has_room(10**18)
    (True, False)
    """
    free = free_memory()
    return free is None or needed <= free


def require_memory(needed: int, what: str, cure: str) -> None:
    """Raise NotEnoughMemoryError if that many bytes are not free.

    Examples
    --------
    >>> require_memory(1000, "the weights", "select features")
    >>> require_memory(10**18, "the weights", "select features")
    Traceback (most recent call last):
    ...
    monro.errors.NotEnoughMemoryError: the weights take 1,000,000,000.0 GB, but only ... are free...
    """
    if not has_room(needed):
        free = free_memory() or 0
        raise NotEnoughMemoryError(
            f"{what} take {needed / _GB:,.1f} GB, but only {free / _GB:,.1f} GB of memory are "
            f"free; {cure}"
        )
