"""A cluster of two real nodes on this host: two ``ray start``, each with a store of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

STORE = 150_000_000  # bytes of each node's object store


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    """A ``ray start`` that ends with its process group."""

    def __init__(self, *options, cpus):
        command = [Path(sys.executable).with_name("ray"), "start", "--block", *options]
        command += [f"--num-cpus={cpus}", f"--object-store-memory={STORE}"]
        command += ["--disable-usage-stats"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self):
        """Stop the node, all at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """A head, and nodes that join it."""

    def __init__(self):
        # Sockets lie in it: the path must be short.
        self.folder = tempfile.TemporaryDirectory(
            prefix="r", dir="/tmp", ignore_cleanup_errors=True
        )
        self.address = f"127.0.0.1:{free_port()}"
        port = self.address.rpartition(":")[2]
        head = ("--head", f"--port={port}", f"--temp-dir={self.folder.name}")
        self.nodes = [Node(*head, "--include-dashboard=false", cpus=1)]

    def join(self, cpus=1):
        """Start one more node."""
        node = Node(f"--address={self.address}", cpus=cpus)
        self.nodes.append(node)
        return node

    def alive(self):
        return [node for node in ray.nodes() if node["Alive"]]

    def wait_for(self, n, seconds=60.0):
        end = time.monotonic() + seconds
        while len(self.alive()) != n:
            assert time.monotonic() < end, f"{len(self.alive())} nodes, not {n}"
            time.sleep(0.2)

    def connect(self, seconds=60.0):
        end = time.monotonic() + seconds
        while True:
            try:
                return ray.init(address=self.address, logging_level="ERROR", log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def close(self):
        ray.shutdown()
        for node in reversed(self.nodes):
            node.stop()
        self.folder.cleanup()


@pytest.fixture(scope="session")
def cluster():
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    cluster = Cluster()
    try:
        cluster.connect()
        cluster.join()
        cluster.wait_for(2)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield cluster
    finally:
        cluster.close()
