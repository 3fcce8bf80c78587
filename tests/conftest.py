import gc

import pytest
from threadpoolctl import threadpool_limits

# Compilation makes objects by the million and keeps them: by default a tenth of all the time would
# go into looking through them for garbage.
gc.set_threshold(100_000, 20, 100)


@pytest.fixture(autouse=True, scope="session")
def _one_thread_for_small_matrices():
    """Limit BLAS to one thread: on small matrices several would mostly wait for each other."""
    with threadpool_limits(1, "blas"):
        yield
