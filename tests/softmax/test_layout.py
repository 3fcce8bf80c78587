"""Block-major or class-major weights, sparse or dense rows, classes or blocks: one result."""

import numpy as np
import pytest
import scipy.sparse as sp

from monro.blocks import LANES, MASKED_SCORE, aligned_zeros, n_blocks
from monro.rows import Dense, Sparse
from monro.softmax.kernel.layout import (
    DenseView,
    SparseView,
    add,
    block_scores,
    block_subtract,
    class_major,
    new_weights,
    rescale,
    score,
    view_of,
)
from monro.softmax.kernel.state import new_state
from monro.softmax.kernel.sweep import DrawnBlocks, DrawnClasses, KernelRows, label_scores
from monro.softmax.rules.implicit import Implicit
from tests.marks import needs_compiler, thorough
from tests.softmax.helpers import (
    assert_models_agree,
    draws,
    fill,
    random_model,
    read,
    take,
)


def an_epoch(rng, K, rows):
    X = rng.standard_normal((rows, 7)) * (rng.random((rows, 7)) < 0.5)
    X[3] = 0.0
    y = rng.integers(K, size=rows)
    options = {
        "eta": 2.0,
        "ridge": rng.random(K),
        "damping": 0.1,
        "weight": 0.5 + rng.random(rows),
        "order": rng.permutation(rows),
    }
    return random_model(rng, K, 7, rows), X, y, options


@thorough
def test_one_epoch_is_the_same_in_all_layouts():
    rng = np.random.default_rng(0)
    K, rows = 60, 300
    model, X, y, options = an_epoch(rng, K, rows)
    blocks = draws(DrawnBlocks, rng.integers(4, size=(rows, 1)), 4.0)
    # The same classes one by one; slots without a class are left out.
    classes = LANES * blocks.chosen + np.arange(LANES)
    singles = draws(DrawnClasses, np.where(classes < K, classes, -1), 4.0)
    results = [
        take(Implicit(1e-6), model, X, y, drawn, sparse=sparse, scale=scale, **options)
        for drawn in (blocks, singles)
        for sparse in (True, False)
        for scale in (1.0, 0.01)
    ]
    for result, loss in results[1:]:
        assert_models_agree(result, results[0][0], 1e-10)
        assert loss == pytest.approx(results[0][1], rel=1e-10)
    assert np.abs(results[0][0].W - model.W).max() > 0.1


@needs_compiler
def test_float32_differs_by_rounding_alone():
    rng = np.random.default_rng(1)
    K, rows = 60, 300
    model, X, y, options = an_epoch(rng, K, rows)
    chosen = rng.integers(4, size=(rows, 1))
    single, double = (
        take(Implicit(number(tol)), model, X, y, draws(DrawnBlocks, chosen, 4.0, dtype),
             dtype=dtype, **options)[0]
        for dtype, number, tol in (("float32", np.float32, 3e-3), ("float64", np.float64, 1e-6))
    )  # fmt: skip
    assert_models_agree(single, double, 1e-4)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_view_reads_and_moves_the_weights_of_its_row(sparse):
    rng = np.random.default_rng(2)
    K = 40
    X = rng.standard_normal((5, 7)) * (rng.random((5, 7)) < 0.5)
    state = new_state(sparse, K, 3, 7, 5, "float64")
    model = random_model(rng, K, 7, 5)
    fill(state, model)
    W = np.zeros((48, 7))
    W[:K] = model.W
    view = view_of(sp.csr_matrix(X) if sparse else X, state.W)
    assert isinstance(view, SparseView if sparse else DenseView)
    assert isinstance(view.rows, Sparse if sparse else Dense)

    assert score(view, 1, 20) == pytest.approx(X[1] @ W[20])
    out = np.zeros(LANES)
    block_scores(view, 2, 1, out)
    np.testing.assert_allclose(out, W[16:32] @ X[2], atol=1e-12)
    add(view, 3, 33, -0.7)
    W[33] -= 0.7 * X[3]
    steps = rng.standard_normal(LANES)
    block_subtract(view, 4, 0, steps)
    W[:16] -= steps[:, None] * X[4]
    rescale(view, 17, 0.25)
    W[17] *= 0.25
    np.testing.assert_allclose(class_major(state.W), W, atol=1e-12)
    np.testing.assert_allclose(read(state, K).W, W[:K], atol=1e-12)


@pytest.mark.parametrize("sparse", [True, False])
def test_label_scores_are_those_of_the_examples_classes(sparse):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((6, 3))
    model = random_model(rng, 20, 3, 6)
    y = rng.integers(20, size=6).astype(np.int32)
    state = new_state(sparse, 20, 2, 3, 6, "float64")
    fill(state, model, 0.5)
    out = np.zeros(6)
    rows = sp.csr_matrix(X) if sparse else X
    label_scores(KernelRows(view_of(rows, state.W), y, np.ones(6), (X**2).sum(axis=1)), state, out)
    np.testing.assert_allclose(out, (X * model.W[y]).sum(axis=1) + model.b[y], rtol=1e-12)


def test_a_new_state_masks_slots_without_a_class():
    state = new_state(True, 20, 2, 3, 5, "float32")
    assert state.W.shape == (2, 3, LANES)
    assert (state.bias[:20] == 0).all()
    assert (state.bias[20:] == np.float32(MASKED_SCORE)).all()
    assert (state.scale == 1).all()
    assert new_state(False, 20, 2, 3, 5, "float32").W.shape == (32, 3)


def test_slots_without_a_class_never_count():
    rng = np.random.default_rng(3)
    model, X, y, options = an_epoch(rng, 5, 50)
    few, loss = take(Implicit(1e-6), model, X, y, draws(DrawnBlocks, [[0]] * 50, 1.0), **options)
    listed = draws(DrawnClasses, [[0, 1, 2, 3, 4]] * 50, 1.0)
    alone, other_loss = take(Implicit(1e-6), model, X, y, listed, **options)
    assert_models_agree(few, alone, 1e-10)
    assert loss == pytest.approx(other_loss, rel=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_begin_at_a_cache_line(dtype):
    for size in (1, 3, 17, 100):
        zeros = aligned_zeros((size, 5, LANES), dtype)
        assert zeros.ctypes.data % 64 == 0
        assert zeros.shape == (size, 5, LANES)
        assert zeros.dtype == dtype
        assert not zeros.any()
        assert zeros.flags.writeable
        assert zeros.flags.c_contiguous


def test_blocks_of_sixteen():
    assert [n_blocks(k) for k in (1, 15, 16, 17, 32, 33)] == [1, 1, 1, 2, 2, 3]
    assert new_weights(True, 2, 5, "float64").shape == (2, 5, 16)
    assert new_weights(False, 2, 5, "float64").shape == (32, 5)
