"""LinearClassifier on every form of data: precision, frames, sparse formats, memory layouts."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from monro import LinearClassifier
from tests.linear.test_classifier import (
    ALPHA,
    SOLVERS,
    converged,
    make_data,
    reference,
    signs,
)
from tests.marks import thorough_unless


def fit_both(X, other, y, **parameters):
    parameters = {"loss": "log", "alpha": 1e-5, "random_state": 0, "max_epochs": 3} | parameters
    return LinearClassifier(**parameters).fit(X, y), LinearClassifier(**parameters).fit(other, y)


@pytest.mark.parametrize(
    "solver", thorough_unless(lambda solver: solver == "dual", ["dual", "sgd", "aisgd", "sgdqn"])
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_single_precision_data_gives_nearly_the_same(solver, form):
    X, y = make_data()
    double, single = fit_both(form(X), form(X.astype(np.float32)), y, solver=solver, alpha=ALPHA)

    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(single.intercept_, double.intercept_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "frame",
    [
        lambda X: pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]),
        lambda X: pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])]),
    ],
    ids=["pandas", "polars"],
)
def test_frames_give_the_same_as_arrays(frame):
    X, y = make_data()
    array, framed = fit_both(X, frame(X), y)

    np.testing.assert_array_equal(framed.coef_, array.coef_)
    np.testing.assert_array_equal(framed.predict_proba(frame(X)), array.predict_proba(X))
    assert list(framed.feature_names_in_) == [f"x{j}" for j in range(X.shape[1])]


@pytest.mark.parametrize("series", [pd.Series, pl.Series, list])
def test_labels_may_be_a_series(series):
    X, y = make_data(3)
    labels = np.array(["a", "b", "c"])[y].tolist()
    plain = LinearClassifier(alpha=1e-5, random_state=0).fit(X, np.array(labels))
    other = LinearClassifier(alpha=1e-5, random_state=0).fit(X, series(labels))

    np.testing.assert_array_equal(other.coef_, plain.coef_)
    np.testing.assert_array_equal(other.predict(X), plain.predict(X))


@pytest.mark.parametrize("other", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix])
def test_sparse_formats_give_the_same_as_csr(other):
    X, y = make_data()
    csr, same = fit_both(sp.csr_matrix(X), other(X), y)

    np.testing.assert_array_equal(same.coef_, csr.coef_)
    np.testing.assert_array_equal(same.predict(other(X)), csr.predict(sp.csr_matrix(X)))


def test_sparse_with_64_bit_indices_gives_the_same_as_32():
    X, y = make_data()
    wide = sp.csr_array(X)
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    narrow, same = fit_both(sp.csr_array(X), wide, y)

    np.testing.assert_array_equal(same.coef_, narrow.coef_)


@pytest.mark.parametrize("solver", ["dual", "sgd", "casgd", "aisgd", "sgdqn"])
def test_unsorted_and_duplicate_entries_mean_their_sum(solver):
    X, y = make_data()
    canonical = sp.csr_matrix(X)
    # Each entry twice, as halves (exact in binary), in reverse order.
    reverse = np.arange(canonical.nnz)[::-1]
    rows = np.repeat(np.arange(y.size), np.diff(canonical.indptr))
    order = reverse[np.argsort(rows[reverse], kind="stable")]
    messy = sp.csr_matrix(
        (
            np.repeat(canonical.data[order] / 2, 2),
            np.repeat(canonical.indices[order], 2),
            canonical.indptr * 2,
        ),
        shape=X.shape,
    )
    assert not messy.has_canonical_format
    before = messy.indices.copy()
    clean, summed = fit_both(canonical, messy, y, solver=solver)

    np.testing.assert_array_equal(summed.coef_, clean.coef_)
    np.testing.assert_array_equal(summed.predict(messy), clean.predict(canonical))
    np.testing.assert_array_equal(messy.indices, before)


def test_explicit_zeros_change_nothing_and_empty_rows_are_allowed():
    X, y = make_data()
    X[::7] = 0.0
    pruned = sp.csr_matrix(X)
    full = sp.csr_matrix(np.ones_like(X))
    full.data[:] = X.ravel()
    clean, padded = fit_both(pruned, full, y, solver="aisgd", learning_rate=0.5)

    np.testing.assert_allclose(padded.coef_, clean.coef_, rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_read_only_data_is_read_and_not_written(form):
    X, y = make_data(3)
    data = form(X)
    weight = np.random.default_rng(0).random(y.size)
    for array in (
        (data, y, weight)
        if form is np.asarray
        else (
            data.data,
            data.indices,
            data.indptr,
            y,
            weight,
        )
    ):
        array.flags.writeable = False
    frozen = LinearClassifier(alpha=1e-5, random_state=0).fit(data, y, sample_weight=weight)
    free = LinearClassifier(alpha=1e-5, random_state=0).fit(
        form(X), y.copy(), sample_weight=weight.copy()
    )

    np.testing.assert_array_equal(frozen.coef_, free.coef_)


@pytest.mark.parametrize(
    "other",
    [np.asfortranarray, lambda X: np.repeat(X, 2, axis=0)[::2], lambda X: X.tolist()],
    ids=["fortran", "strided", "lists"],
)
def test_the_memory_layout_does_not_matter(other):
    X, y = make_data()
    plain, same = fit_both(X, other(X), y)

    np.testing.assert_array_equal(same.coef_, plain.coef_)


def test_very_wide_rows_reach_the_optimum_too():
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 140_000), density=2e-4, rng=rng, format="csr", dtype=np.float64)
    y = rng.integers(2, size=60)
    used = np.unique(X.indices)
    w, b = reference("log", X[:, used].toarray(), signs(y))

    model = converged(loss="log").fit(X, y)

    np.testing.assert_allclose(model.coef_[0, used], w, atol=1e-6)
    np.testing.assert_allclose(model.intercept_[0], b, atol=1e-6)
    assert np.count_nonzero(model.coef_) == used.size


def scattered(X, width, rng):
    """The same columns, far apart."""
    columns = np.sort(rng.choice(width, X.shape[1], replace=False)).astype(np.int32)
    return sp.csr_matrix((X.data, columns[X.indices], X.indptr), shape=(X.shape[0], width)), columns


@pytest.mark.parametrize(
    "solver",
    thorough_unless(
        lambda solver: solver in ("sgd", "dual"),
        [s for s in SOLVERS if "sgdqn" not in s],  # their skip depends on the width
    ),
)
def test_columns_that_never_occur_change_not_a_bit(solver):
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 60), density=0.2, rng=rng, format="csr", dtype=np.float64)
    y = rng.integers(3, size=400)
    wide, columns = scattered(X, 140_000, rng)
    parameters = {"solver": solver, "alpha": 1e-3, "random_state": 0, "early_stopping": True}
    narrow_model = LinearClassifier(**parameters).fit(X, y)
    wide_model = LinearClassifier(**parameters).fit(wide, y)

    check = np.testing.assert_array_equal
    if solver == "casgd":  # ‖x̄‖² is summed in the order of the columns
        check = partial(np.testing.assert_allclose, rtol=1e-9)
    check(wide_model.coef_[:, columns], narrow_model.coef_)
    check(wide_model.intercept_, narrow_model.intercept_)
    assert np.count_nonzero(wide_model.coef_) == np.count_nonzero(narrow_model.coef_)
    if solver != "dual":
        check(
            wide_model.partial_fit(wide, y).coef_[:, columns],
            narrow_model.partial_fit(X, y).coef_,
        )


def test_columns_that_never_occurred_may_occur_later():
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 60), density=0.2, rng=rng, format="csr", dtype=np.float64)
    y = rng.integers(2, size=400)
    wide, _ = scattered(X, 140_000, rng)
    other, columns = scattered(X, 140_000, rng)

    model = LinearClassifier(solver="asgd", alpha=1e-5, random_state=0).fit(wide, y)
    assert not model.coef_[0, columns].any()
    model.partial_fit(other, y)

    assert model.coef_[0, columns].all()
