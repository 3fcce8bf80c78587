"""Compilation: once for each type, never again from the cache, never stale, and not needed at all.

What happens in a new process is tested in one, with a cache directory of its own.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import monro
from monro import LinearClassifier
from monro._cache import dependency_hash
from monro._jit import announce_compilation, kernel
from monro.linear.algorithms.sgd import sgd_sweep
from monro.linear.solvers import SOLVERS
from monro.rows import as_rows, dot
from tests import processes
from tests.marks import needs_compiler, thorough, thorough_unless


def problem():
    """Return 30 rows of 5 features in two classes that overlap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    return X, X @ np.arange(-2.0, 3.0) + rng.normal(size=30) > 0.5


def settings(solver):
    rate = 0.5 if SOLVERS[solver].takes_rate else "auto"
    return {
        "solver": solver,
        "loss": "log" if SOLVERS[solver].needs_smooth_loss else "hinge",
        "alpha": 1e-2,
        "learning_rate": rate,
        "max_epochs": 3,
        "random_state": 0,
    }


def in_new_process(code, *arguments, **environment):
    """Run code in a new interpreter; return the JSON it prints last."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "COVERAGE_"))}
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


# --------------------------------------------------------------------------------------- signatures


@kernel
def first_product(rows, w):
    return dot(rows, 0, w)


@needs_compiler
def test_rows_of_one_kind_share_one_signature():
    X = sp.csr_array(problem()[0])
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    locked = X.copy()
    locked.data.flags.writeable = False
    for matrix in (X, wide, locked):
        first_product(as_rows(matrix), np.ones(5))
    assert len(first_product.signatures) == 1
    first_product(as_rows(X.astype(np.float32)), np.ones(5))
    assert len(first_product.signatures) == 2


@needs_compiler
def test_the_form_of_the_arguments_adds_no_signature_to_a_fit():
    X, y = problem()
    LinearClassifier(**settings("sgd")).fit(X, y)
    before = list(sgd_sweep.signatures)
    assert before
    locked = X.copy()
    locked.flags.writeable = False
    for data in (X, locked, X.tolist(), np.asfortranarray(X), X[::-1]):
        LinearClassifier(**settings("sgd")).fit(data, y)
    LinearClassifier(**settings("sgd")).fit(X, y, sample_weight=np.arange(30))
    LinearClassifier(**settings("sgd") | {"alpha": 1, "learning_rate": 1}).fit(X, y.astype(str))
    LinearClassifier(**settings("sgd") | {"decay": 2.5, "fit_intercept": False}).fit(X, y)
    LinearClassifier(**settings("sgd") | {"shuffle": False}).fit(X, y)
    assert sgd_sweep.signatures == before


# -------------------------------------------------------------------------------------------- cache


@needs_compiler
def test_compilation_is_announced_once():
    @numba.njit
    def one(x):
        return x + 1

    said = []
    with announce_compilation(lambda: said.append("compiling")):
        one(1)
        one(1.0)
    assert said == ["compiling"]
    with announce_compilation(lambda: said.append("again")):
        one(2)
    assert said == ["compiling"]


FIT = """
import json
import numpy as np
import monro
from monro._jit import announce_compilation

X = np.random.default_rng(0).normal(size=(30, 5))
model = monro.LinearClassifier(
    loss="hinge", solver="sgd", alpha=0.01, learning_rate=0.1, max_epochs=1, random_state=0
)
compiling = []
with announce_compilation(lambda: compiling.append(True)):
    model.fit(X, X[:, 0] > 0)
print(json.dumps([monro.__file__, bool(compiling), model.coef_.tolist()]))
"""


@thorough
def test_the_cache_serves_new_processes_until_any_source_is_edited(tmp_path):
    package = tmp_path / "copy" / "monro"
    source = Path(monro.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))

    def fit(**options):
        places = {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        file, compiled, coef = in_new_process(FIT, **places, **options)
        assert Path(file).parent == package
        return compiled, np.array(coef)

    compiled, first = fit()
    assert compiled
    compiled, second = fit()
    assert not compiled
    np.testing.assert_array_equal(second, first)

    # The kernel is in sgd.py, the derivative it calls in losses.py.
    losses = package / "losses.py"
    text = losses.read_text()
    edited = text.replace("return -y if y * p < 1.0", "return -2.0 * y if y * p < 1.0")
    assert edited != text
    losses.write_text(edited)
    compiled, third = fit()
    assert abs(third - first).max() > 0.01
    assert compiled
    np.testing.assert_allclose(third, fit(NUMBA_DISABLE_JIT="1")[1], rtol=1e-12)


KERNEL_AND_OTHERS = '''
SLOPE = 2.0

def line(x):
    """Return a point of a line."""
    return SLOPE * x

def kernel(x):
    return line(x)

def unrelated(x):
    return x
'''


@pytest.mark.parametrize(
    ("old", "new", "recompiled"),
    [
        ("a point of a line", "a line's point", False),
        ("return x", "return -x", False),
        ("SLOPE * x", "SLOPE + x", True),
        ("2.0", "3.0", True),
    ],
    ids=["docstring", "unrelated", "function", "constant"],
)
def test_only_code_that_a_kernel_depends_on_is_part_of_its_hash(old, new, recompiled):
    def hash_of(text):
        names = {"__name__": "outside"}
        exec(text, names)
        return dependency_hash(names["kernel"])

    assert KERNEL_AND_OTHERS.count(old) == 1
    edited = KERNEL_AND_OTHERS.replace(old, new)
    assert (hash_of(edited) != hash_of(KERNEL_AND_OTHERS)) == recompiled


OWN_LOSS = """
from typing import NamedTuple
import json
from monro import LinearRegressor
from monro.losses import LossTraits

@LossTraits("tilted", has_kink=True)
class Tilted(NamedTuple):
    def value(self, p, y):
        return SLOPE * abs(p - y)

    def derivative(self, p, y):
        return SLOPE if p > y else -SLOPE

    def implicit_derivative(self, p, y, step):
        return min(max((p - y) / step, -SLOPE), SLOPE)

class Regressor(LinearRegressor):
    _losses = {"tilted": Tilted}

model = Regressor(loss="tilted", solver="sgd", alpha=1e-5, learning_rate=1.0,
                  fit_intercept=False, max_epochs=1)
print(json.dumps(model.fit([[1.0]], [100.0]).coef_.tolist()))
"""


@thorough
def test_a_loss_written_elsewhere_is_never_answered_from_the_cache(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    for slope in ("2.0", "3.0"):
        (weight,) = in_new_process(OWN_LOSS.replace("SLOPE", slope), **cache)
        assert weight == pytest.approx(float(slope), rel=1e-3)


CALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import outside
from monro._jit import announce_compilation

compiling = []
with announce_compilation(lambda: compiling.append(True)):
    value = outside.f(0)
print(json.dumps([value, bool(compiling)]))
"""


def test_a_kernel_outside_the_package_is_compiled_once_and_after_an_edit(tmp_path):
    text = "from monro._jit import kernel\n@kernel\ndef f(x):\n    return x + 1\n"
    module = tmp_path / "outside.py"
    results = []
    for source in (text, text, text.replace("x + 1", "x + 20")):
        module.write_text(source)
        results.append(in_new_process(CALL, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    assert results == [[1, True], [1, False], [20, True]]


def halve(folder, name):
    numba.config.CACHE_DIR = str(folder / "cache")
    sys.path.insert(0, str(folder))
    import shared

    assert shared.half(np.array(100, name)[()]) == 50


@needs_compiler
def test_processes_that_compile_at_the_same_time_do_not_mix_up_their_code(tmp_path):
    """Each calls a kernel with a type of its own; later ones must find the right code."""
    (tmp_path / "shared.py").write_text(
        "from monro._jit import kernel\n@kernel\ndef half(x):\n    return x / 2\n"
    )
    types = ("float64", "float32", "int8", "int64")
    for _ in range(2):
        started = [processes.start(halve, tmp_path, name) for name in types]
        assert [processes.status(process) for process in started] == [0] * len(types)
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == len(types)


# ------------------------------------------------------------------------------------- plain Python


FIT_WITH_EVERY_SOLVER = """
import json
import os
import re
from monro import LinearClassifier
from monro.linear.algorithms.sgd import sgd_sweep

assert not hasattr(sgd_sweep, "signatures")
X, y, settings = json.loads(os.environ["PROBLEM"])
fitted = [LinearClassifier(**arguments).fit(X, y) for arguments in settings]
print(json.dumps({m.solver: [m.coef_.tolist(), m.intercept_.tolist()] for m in fitted}))
"""


@pytest.fixture(scope="module")
def fitted_in_plain_python():
    X, y = problem()
    data = json.dumps([X.tolist(), y.tolist(), [settings(solver) for solver in SOLVERS]])
    return in_new_process(FIT_WITH_EVERY_SOLVER, NUMBA_DISABLE_JIT="1", PROBLEM=data)


@pytest.mark.parametrize(
    "solver", thorough_unless(lambda solver: solver in ("implicit", "dual"), SOLVERS)
)
def test_plain_python_gives_the_compiled_solution(solver, fitted_in_plain_python):
    model = LinearClassifier(**settings(solver)).fit(*problem())
    coef, intercept = fitted_in_plain_python[solver]
    assert abs(model.coef_).max() > 0.1
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------ imports


LOADED = "print(json.dumps([m for m in ('numba', 'sklearn', 'scipy') if m in sys.modules]))"


def test_importing_monro_loads_neither_numba_nor_scikit_learn():
    assert in_new_process(f"import json, sys, monro\n{LOADED}") == []


def test_help_loads_neither_numba_nor_scikit_learn():
    code = f"""
import json, sys
from monro.cli import main
sys.argv = ["monro", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
{LOADED}
"""
    assert in_new_process(code) == []
