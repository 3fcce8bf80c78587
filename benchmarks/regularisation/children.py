"""A measurement in a process of its own: it can be stopped, and its memory is its own."""

import multiprocessing
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def in_child(measure: Callable[..., Result], *arguments: Any, limit: float) -> Result:
    """Return what `measure` returns, or ``{"limit": limit}`` if it takes longer, in seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, measure, arguments))
    child.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            return {"limit": limit}
        found: Result = receiver.recv()
        return found
    except EOFError:
        child.join()
        text = f"{measure.__name__}{arguments} ended with exit code {child.exitcode}"
        raise SystemExit(text) from None
    finally:
        child.kill()
        child.join()


def _send(sender: Connection, measure: Callable[..., Result], arguments: tuple[Any, ...]) -> None:
    # Peers warn when they stop before they reach their tolerance: here that is on purpose.
    warnings.filterwarnings("ignore", module="sklearn")
    sender.send(measure(*arguments))


def peak_bytes() -> int:
    """Return the peak resident memory of this process.

    The kernel's figure for the memory of the running program: that of `resource.getrusage` would
    count the process from which this one was started too.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])
