"""Rows in kernels against dense NumPy: every wrapper, both precisions, every row length."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from monro._jit import kernel
from monro.linear.centring import centred
from monro.rows import (
    Biased,
    Dense,
    Sparse,
    WideSparse,
    add,
    add_scaled,
    add_two,
    as_rows,
    dot,
    locate,
    prefetch,
    prefetch_weights,
    sqnorm,
    update_each,
)
from tests.marks import thorough, thorough_unless

PROPERTY = settings(deadline=None, derandomize=True, max_examples=150)
WIDTH = 12


@kernel
def sums_and_products(rows, c, d, w, u, v, dots, norms):
    """``w = u = Σ c_i x_i`` and ``v = Σ d_i x_i``; then all ``x_i·w``, ``x_i·v``, ``‖x_i‖²``."""
    for i in range(c.size):
        # Prefetching must change nothing, also at the last row and at an empty one.
        locate(rows, i)
        prefetch(rows, i)
        prefetch_weights(rows, i, w)
        add(rows, i, c[i], w)
        add_two(rows, i, c[i], u, d[i], v)
    for i in range(c.size):
        dots[0, i] = dot(rows, i, w)
        dots[1, i] = dot(rows, i, v)
        norms[i] = sqnorm(rows, i)


@kernel
def products(rows, w, dots):
    for i in range(dots.size):
        dots[i] = dot(rows, i, w)


@kernel
def scaled_sum(rows, c, gains, w):
    for i in range(c.size):
        add_scaled(rows, i, c[i], gains, w)


def plain(function):
    """Return the Python function behind a kernel."""
    return getattr(function, "py_func", function)


def ragged(dtype):
    """Return rows with 0, 1, … 9 non-zeros, then an empty row."""
    rng = np.random.default_rng(0)
    X = np.zeros((11, WIDTH), dtype)
    for i in range(10):
        X[i, rng.choice(WIDTH, i, replace=False)] = rng.normal(size=i)
    return X


class View(NamedTuple):
    """Rows, the dense matrix they represent, and the number of weights they append."""

    rows: object
    matrix: np.ndarray
    extra: int


def view(kind, X):
    """Return dense X as rows of a kind, and a float64 matrix transformed as the wrappers claim."""
    matrix = X.astype(np.float64)
    mean = matrix.mean(axis=0)
    rows = as_rows(X) if "dense" in kind else as_rows(sp.csr_array(X))
    if "wide" in kind:
        rows = WideSparse(*rows)
    extra = 0
    if "centred" in kind:
        rows = centred(rows, mean)
        matrix = matrix - mean
        extra += 2
    if "biased" in kind:
        rows = Biased(rows)
        matrix = np.column_stack([matrix, np.ones(len(X))])
        extra += 1
    return View(rows, matrix, extra)


def as_dense_weights(kind, w, X):
    """Return the weights of the matrix's columns from the array that holds a sum of rows."""
    coef = w[:WIDTH].copy()
    if "centred" in kind:
        coef -= w[WIDTH] * X.astype(np.float64).mean(axis=0)
    return np.append(coef, w[-1]) if "biased" in kind else coef


BASES = ["sparse", "wide sparse", "dense"]
WRAPPED = ["biased dense", "centred dense", "centred sparse", "biased centred sparse"]
# Not all pairs, since each is compiled: the wrappers do not depend on the precision.
PAIRS = [(kind, np.float64) for kind in BASES + WRAPPED]
PAIRS += [(kind, np.float32) for kind in ["sparse", "dense", "centred sparse"]]


def is_everyday(kind, dtype=np.float64):
    """Return whether no other test compiles these rows as part of another kind."""
    repeated = [("biased dense", np.float64), ("centred dense", np.float64)]
    repeated += [("centred sparse", np.float64), ("sparse", np.float32)]
    return (kind, dtype) not in repeated


def over(pairs):
    cases = [
        pytest.param(
            kind,
            dtype,
            id=f"{kind}, {dtype.__name__}",
            marks=() if is_everyday(kind, dtype) else thorough,
        )
        for kind, dtype in pairs
    ]
    return pytest.mark.parametrize(("kind", "dtype"), cases)


compiled_and_not = pytest.mark.parametrize("run", [lambda f: f, plain], ids=["compiled", "plain"])


def tolerance(dtype):
    # Squares of float32 values are rounded to float32; sums are in float64.
    return {"rtol": 2e-6, "atol": 2e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}


@over(PAIRS)
@compiled_and_not
def test_sums_and_products_are_those_of_the_dense_matrix(kind, dtype, run):
    X = ragged(dtype)
    rows, matrix, extra = view(kind, X)
    rng = np.random.default_rng(1)
    n = len(X)
    c, d = rng.normal(size=(2, n))
    w, u, v = np.zeros((3, WIDTH + extra))
    dots, norms = np.empty((2, n)), np.empty(n)
    run(sums_and_products)(rows, c, d, w, u, v, dots, norms)
    close = tolerance(dtype)
    np.testing.assert_allclose(as_dense_weights(kind, w, X), c @ matrix, **close)
    np.testing.assert_allclose(as_dense_weights(kind, v, X), d @ matrix, **close)
    np.testing.assert_allclose(u, w, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(dots, np.stack([c, d]) @ matrix @ matrix.T, **close)
    np.testing.assert_allclose(norms, (matrix**2).sum(axis=1), **close)
    np.testing.assert_array_equal(X, ragged(dtype))


@over([pair for pair in PAIRS if "centred" not in pair[0]])
@compiled_and_not
def test_add_scaled_multiplies_each_feature_by_its_gain(kind, dtype, run):
    X = ragged(dtype)
    rows, matrix, extra = view(kind, X)
    rng = np.random.default_rng(2)
    c = rng.normal(size=len(X))
    gains, w = rng.normal(size=(2, WIDTH + extra))
    expected = w + gains * (c @ matrix)
    run(scaled_sum)(rows, c, gains, w)
    np.testing.assert_allclose(w, expected, **tolerance(dtype))


class CountDown(NamedTuple):
    """Subtracts from each coordinate its number of calls and its index."""

    visits: np.ndarray

    def updated(self, k, value):
        self.visits[k] += 1.0
        return value - self.visits[k] - 100.0 * k


@kernel
def update_all(rows, operator, n, w):
    for i in range(n):
        update_each(rows, i, operator, w)


@over([pair for pair in PAIRS if "centred" not in pair[0]])
@compiled_and_not
def test_update_each_visits_the_coordinates_of_a_row(kind, dtype, run):
    X = ragged(dtype)
    rows, matrix, extra = view(kind, X)
    w = np.arange(WIDTH + extra, dtype=np.float64)
    visits = np.zeros(WIDTH + extra)
    run(update_all)(rows, CountDown(visits), len(X), w)
    expected = (np.ones_like(matrix) if "dense" in kind else matrix != 0).sum(axis=0)
    np.testing.assert_array_equal(visits, expected)
    k = np.arange(WIDTH + extra)
    np.testing.assert_array_equal(w, k - expected * (expected + 1) / 2 - 100.0 * k * expected)


@over([pair for pair in PAIRS if pair[1] == np.float32])
def test_products_do_not_lose_float32_data_to_rounding(kind, dtype):
    # Only the data is rounded: weights and sums are float64.
    X = ragged(dtype)
    rows, matrix, extra = view(kind, X)
    w = np.zeros(WIDTH + extra)
    c, dots = np.linspace(-1.0, 1.0, len(X)), np.empty((2, len(X)))
    sums_and_products(rows, c, c, w, w.copy(), w.copy(), dots, np.empty(len(X)))
    np.testing.assert_allclose(dots[0], matrix @ (c @ matrix), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", BASES)
def test_weights_may_be_longer_than_a_row(kind):
    X = ragged(np.float64)
    rows, matrix, _ = view(kind, X)
    rng = np.random.default_rng(3)
    w = rng.normal(size=WIDTH + 3)
    dots = np.empty(len(X))
    products(rows, w, dots)
    np.testing.assert_allclose(dots, matrix @ w[:WIDTH], rtol=1e-12, atol=1e-12)
    longer = w.copy()
    scaled_sum(rows, np.ones(len(X)), np.ones_like(w), longer)
    np.testing.assert_allclose(longer[:WIDTH], w[:WIDTH] + matrix.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(longer[WIDTH:], w[WIDTH:])


@PROPERTY
@given(
    lines=st.lists(
        st.dictionaries(st.integers(0, 15), st.floats(-1e3, 1e3), max_size=16), max_size=5
    ),
    w=hnp.arrays(np.float64, 16, elements=st.floats(-1e3, 1e3)),
)
def test_any_sparse_rows_multiply_as_scipy_does(lines, w):
    indptr = np.cumsum([0, *map(len, lines)])
    columns = np.array([j for line in lines for j in line], np.int32)  # in no order
    values = np.array([x for line in lines for x in line.values()], np.float64)
    X = sp.csr_array((values, columns, indptr), shape=(len(lines), 16))
    dots = np.empty(len(lines))
    products(as_rows(X), w, dots)
    # Rounding errors grow with the terms, not with their sum.
    assert (abs(dots - X @ w) <= 1e-14 * (abs(X) @ abs(w))).all()


@pytest.mark.parametrize("kind", thorough_unless(is_everyday, BASES + WRAPPED))
def test_a_matrix_of_empty_rows_is_all_zero(kind):
    X = np.zeros((3, WIDTH))
    rows, _, extra = view(kind, X)
    w = np.zeros(WIDTH + extra)
    dots, norms = np.empty((2, 3)), np.empty(3)
    c = np.ones(3)
    sums_and_products(rows, c, c, w, w.copy(), np.zeros_like(w), dots, norms)
    bias = "biased" in kind
    np.testing.assert_array_equal(dots, np.full((2, 3), 3.0 * bias))
    np.testing.assert_array_equal(norms, np.full(3, 1.0 * bias))


# ----------------------------------------------------------------------------------------- centred


def centred_sparse(X):
    return centred(as_rows(sp.csr_array(X)), X.mean(axis=0))


def kept_sum(rows, c):
    """Sum the rows with coefficients c in a kernel; return the array that holds the sum."""
    w = np.zeros(rows.mean.size + 2)
    unused = np.empty((2, c.size)), np.empty(c.size)
    sums_and_products(rows, c, c, w, w.copy(), w.copy(), *unused)
    return w


matrices = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.one_of(st.just(0.0), st.floats(-100.0, 100.0)),
)


@PROPERTY
@given(X=matrices, data=st.data())
def test_centred_rows_are_the_rows_of_the_centred_matrix(X, data):
    n = len(X)
    coefficients = hnp.arrays(np.float64, n, elements=st.floats(-10.0, 10.0))
    c, d = data.draw(coefficients), data.draw(coefficients)
    scale = data.draw(st.floats(-3.0, 3.0))
    rows, matrix = centred_sparse(X), X - X.mean(axis=0)
    # Solvers scale such arrays and add them: the result is again that of a sum.
    w = scale * kept_sum(rows, c) + kept_sum(rows, d)
    dots = np.empty(n)
    products(rows, w, dots)
    largest = abs(X).max() ** 2 * (abs(scale * c) + abs(d)).sum() * X.shape[1]
    expected = matrix @ ((scale * c + d) @ matrix)
    np.testing.assert_allclose(dots, expected, rtol=0, atol=1e-13 * largest + 1e-300)


@PROPERTY
@given(X=matrices, data=st.data())
def test_centred_products_are_invariant_to_translations(X, data):
    n, width = X.shape
    shift = data.draw(hnp.arrays(np.float64, width, elements=st.floats(-100.0, 100.0)))
    c = data.draw(hnp.arrays(np.float64, n, elements=st.floats(-10.0, 10.0)))
    here, moved = np.empty((2, n))
    products(centred_sparse(X), kept_sum(centred_sparse(X), c), here)
    products(centred_sparse(X + shift), kept_sum(centred_sparse(X + shift), c), moved)
    largest = (abs(X).max() + abs(shift).max()) ** 2 * abs(c).sum() * width
    np.testing.assert_allclose(moved, here, rtol=0, atol=1e-13 * largest)


def test_the_intercept_follows_the_weights_of_centring():
    X = ragged(np.float64)
    rows = Biased(centred_sparse(X))
    w = np.zeros(WIDTH + 3)
    add(rows, 4, 2.0, w)
    np.testing.assert_allclose(w[:WIDTH], 2.0 * X[4])
    np.testing.assert_allclose(w[WIDTH:], [2.0, 2.0 * X[4] @ X.mean(axis=0), 2.0])


# ----------------------------------------------------------------------------------------- as_rows


def made_from(X):
    """Return the arrays of which rows of X should be views."""
    return (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_rows_copies_no_values(dtype):
    X = ragged(dtype)
    csr = sp.csr_array(X)
    assert np.shares_memory(as_rows(X).data, X)
    assert np.shares_memory(as_rows(csr).data, csr.data)
    assert np.shares_memory(as_rows(csr).indices, csr.indices)
    assert as_rows(X).data.dtype == as_rows(csr).data.dtype == dtype


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_are_read_only_and_their_source_is_unchanged(form):
    X = form(ragged(np.float64))
    for array in as_rows(X):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert all(array.flags.writeable for array in made_from(X))


def test_rows_of_any_index_type_and_of_read_only_data_have_one_numba_type():
    X = sp.csr_array(ragged(np.float64))
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    locked = X.copy()
    for array in made_from(locked):
        array.flags.writeable = False
    forms = [X, wide, locked, sp.csr_matrix(X)]
    assert len({numba.typeof(as_rows(form)) for form in forms}) == 1
    w, expected = np.arange(float(WIDTH)), X @ np.arange(float(WIDTH))
    for form in forms:
        dots = np.empty(X.shape[0])
        products(as_rows(form), w, dots)
        np.testing.assert_allclose(dots, expected, rtol=1e-12, atol=1e-12)


def test_rows_of_read_only_and_of_fortran_arrays_have_one_numba_type():
    X = ragged(np.float64)
    locked = X.copy()
    locked.flags.writeable = False
    forms = [X, locked, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]]
    assert len({numba.typeof(as_rows(form)) for form in forms}) == 1
    for form in forms:
        np.testing.assert_array_equal(as_rows(form).data, X)


def test_as_rows_prefetches_weights_only_if_there_are_many():
    assert type(as_rows(sp.csr_array((2, 1000)))) is Sparse
    assert type(as_rows(sp.csr_array((2, 1_000_000)))) is WideSparse
    assert type(as_rows(np.zeros((2, 3)))) is Dense
