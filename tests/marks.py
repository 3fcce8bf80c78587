"""Marks that several files of tests need."""

import numba
import pytest

# With NUMBA_DISABLE_JIT=1, for debuggers and coverage, there is one precision and nothing cached.
needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="compilation is off")
