"""Marks that several test files use."""

from itertools import product

import numba
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# With NUMBA_DISABLE_JIT=1, for debuggers and coverage, there is one precision and no cache.
needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="compilation is off")

# What takes long, or repeats a check with another loss, solver, precision or kind of rows: most of
# that is the compilation of another kernel. CONTRIBUTING.md says how to run it.
thorough = pytest.mark.thorough


def thorough_unless(everyday, *values):
    """Return all combinations of values as cases of a test, thorough unless `everyday(*case)`."""
    return [
        pytest.param(*case, marks=() if everyday(*case) else thorough) for case in product(*values)
    ]


def scikit_learn_checks(estimators, everyday, expected_failures):
    """Parametrise a test by scikit-learn's checks, thorough unless `everyday(estimator)`."""
    checks = parametrize_with_checks(estimators, expected_failed_checks=expected_failures)
    names, cases = checks.args
    marked = []
    for case in cases:
        values, marks = (case.values, case.marks) if hasattr(case, "marks") else (case, ())
        more = () if everyday(values[0]) else (thorough,)
        marked.append(pytest.param(*values, marks=(*marks, *more)))
    return pytest.mark.parametrize(names, marked, **checks.kwargs)
