"""A cluster of two real nodes on this host, for all tests here."""

from importlib.util import find_spec

import pytest

# Without the extra `ray` there is nothing to test.
collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]


@pytest.fixture(scope="session")
def cluster():
    from benchmarks.nodes import Cluster

    with Cluster() as cluster:
        yield cluster
