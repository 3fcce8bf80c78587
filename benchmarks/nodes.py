"""A cluster of real Ray nodes on this host: one ``ray start`` per node, each with its own store."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

import ray

_STORE = 400_000_000  # bytes of each node's object store


class Node:
    """A ``ray start`` in its own process group."""

    def __init__(self, *options: str, cpus: int):
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", *options]
        command += [f"--num-cpus={cpus}", f"--object-store-memory={_STORE}"]
        self.process = subprocess.Popen(
            [*command, "--disable-usage-stats"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """Kill all processes of the node."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """A head and nodes that join it; this process is connected to it."""

    def __init__(self, cpus: int = 1):
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        self.cpus = cpus
        # It holds sockets, whose paths must be short.
        self.folder = tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        head = ("--head", f"--port={port}", f"--temp-dir={self.folder.name}")
        self.nodes = [Node(*head, "--include-dashboard=false", cpus=cpus)]

    def __enter__(self) -> Self:
        try:
            self._connect()
            self.join()
            self.wait_for(2)
        except BaseException:
            self.__exit__()
            raise
        ray.data.DataContext.get_current().enable_progress_bars = False
        return self

    def __exit__(self, *error: object) -> None:
        ray.shutdown()
        for node in reversed(self.nodes):
            node.stop()
        self.folder.cleanup()

    def _connect(self, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not ray.is_initialized():
            try:
                ray.init(address=self.address, logging_level="ERROR", log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def join(self) -> Node:
        """Start one more node."""
        node = Node(f"--address={self.address}", cpus=self.cpus)
        self.nodes.append(node)
        return node

    def wait_for(self, n: int, seconds: float = 60.0) -> None:
        """Wait until `n` nodes are alive."""
        end = time.monotonic() + seconds
        while (alive := sum(node["Alive"] for node in ray.nodes())) != n:
            if time.monotonic() > end:
                raise TimeoutError(f"{alive} nodes are alive, not {n}")
            time.sleep(0.2)


def workers() -> list[int]:
    """Return the processes of workers on this host."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(b"ray::PoolWorker"):
                found.append(int(folder.name))
    return found


class Killer(threading.Thread):
    """Kills a worker from time to time, until it is stopped."""

    def __init__(self, seed: int, kills: int, longest: float, pause: float = 2.0):
        super().__init__(daemon=True)
        self.random, self.left, self.longest = random.Random(seed), kills, longest
        self.pause = pause  # seconds after a kill, for the loss to be noticed
        self.killed = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        while self.left and not self.stopped.is_set():
            self.stopped.wait(self.random.uniform(0.0, self.longest))
            victims = workers()
            if victims and not self.stopped.is_set():
                os.kill(self.random.choice(victims), signal.SIGKILL)
                self.killed += 1
                self.left -= 1
                self.stopped.wait(self.pause)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopped.set()
        self.join()


def bytes_moved() -> int:
    """Return the bytes sent over the loopback interface so far, which all nodes use."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    raise OSError("no loopback interface")
