"""How much memory is free, so that what cannot fit is refused before it is tried."""

import os
from pathlib import Path

from monro.errors import NotEnoughMemoryError

_GB = 1e9
_CGROUPS = Path("/sys/fs/cgroup")
# Files of the limit, of the use, and the entry for cached files in memory.stat: versions 2 and 1.
_LIMITS = [
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
]


def free_memory() -> int | None:
    """Return the bytes that a process may still take; None where the system does not tell.

    On Linux, what the machine has available, or less if the control group has a limit; elsewhere
    all memory of the machine.
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


def _of_group(root: Path, limit: str, use: str, cached: str) -> int | None:
    try:
        most, taken = int((root / limit).read_text()), int((root / use).read_text())
        stat = (root / limit).with_name("memory.stat").read_text()
        entries = dict(line.split() for line in stat.splitlines())
        return max(0, most - taken + int(entries.get(cached, 0)))
    except (OSError, ValueError):  # no such group, or no limit ("max")
        return None


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
    free = free_memory()
    if free is not None and needed > free:
        raise NotEnoughMemoryError(
            f"{what} take {needed / _GB:,.1f} GB, but only {free / _GB:,.1f} GB of memory are "
            f"free; {cure}"
        )
