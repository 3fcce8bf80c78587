"""Results of quick runs, computed once for all tests that use them."""

import fcntl
import os

import pytest

from monro import studies
from monro.studies import runner


@pytest.fixture(scope="session")
def quick_results(tmp_path_factory):
    """Return a function that runs a study; parallel test processes share its results."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "quick"
    folder.mkdir(exist_ok=True)

    def results(name):
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return folder, runner.run(studies.get(name), folder, quick=True, show=False)

    return results
