import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread_for_small_matrices():
    """L-BFGS on a handful of numbers: the threads of BLAS would only wait for each other."""
    with threadpool_limits(1, "blas"):
        yield
