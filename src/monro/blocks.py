"""Blocks of sixteen classes or tags, whose weights are adjacent, and loops over a block.

Each of the sixteen positions in a block is a *lane*. The last block may have unused lanes.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from monro._jit import INLINED

Array = np.ndarray[Any, np.dtype[Any]]

LANES = 16
# The score of a masked class: its exponential is 0, and no sum with it overflows.
MASKED_SCORE = -1e30
_FUSED = ("contract", "nsz", "reassoc")


def n_blocks(n_classes: int) -> int:
    """Return the number of blocks for this number of classes.

    Examples
    --------
    >>> n_blocks(16), n_blocks(17)
    (1, 2)
    """
    return -(-n_classes // LANES)


def n_lanes(n_classes: int) -> int:
    """Return how many lanes the blocks of that many classes have.

    Examples
    --------
    >>> n_lanes(16), n_lanes(17)
    (16, 32)
    """
    return n_blocks(n_classes) * LANES


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros aligned to a cache line, so that the lanes of a feature never straddle two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    zeros: Array = buffer[start : start + size].view(dtype).reshape(shape)
    return zeros


# -------------------------------------------------------------------------------- loops over lanes


class _LaneLoop:
    """Builds a loop over a sparse row: for each non-zero, its value and its sixteen weights.

    LLVM's own vectoriser cannot assume that the arrays are disjoint: it checks at every feature.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any):
        data, indices, self.start, self.stop, W, first, lanes = (
            context.make_array(kind)(context, builder, arg).data
            if isinstance(kind, types.Array)
            else arg
            for kind, arg in zip(signature.args, args, strict=True)
        )
        self.builder, self.data, self.indices, self.W, self.first = builder, data, indices, W, first
        self.vector = ir.VectorType(data.type.pointee, LANES)
        self.lanes = builder.bitcast(lanes, self.vector.as_pointer())
        self.stored = ir.VectorType(W.type.pointee, LANES)

    def load(self, place: Any) -> Any:
        kind = place.type.pointee
        lanes = self.builder.load(place, align=4 if isinstance(kind.element, ir.FloatType) else 8)
        return lanes if kind == self.vector else self.builder.fpext(lanes, self.vector)

    def store(self, lanes: Any, place: Any) -> None:
        self.builder.store(lanes, place, align=4)

    def weights(self, p: Any) -> tuple[Any, Any]:
        """Return the value of non-zero p, broadcast to 16 lanes, and the address of its weights."""
        builder, long = self.builder, ir.IntType(64)
        feature = builder.zext(builder.load(builder.gep(self.indices, [p])), long)
        offset = builder.add(self.first, builder.mul(feature, long(LANES)))
        place = builder.bitcast(builder.gep(self.W, [offset]), self.stored.as_pointer())
        value = builder.load(builder.gep(self.data, [p]))
        empty = ir.Constant(self.vector, ir.Undefined)
        first = builder.insert_element(empty, value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
        return builder.shuffle_vector(first, empty, zeros), place


@intrinsic  # type: ignore[untyped-decorator]
def _lanes_dot(
    typing_context: Any,
    data: Any,
    indices: Any,
    start: Any,
    stop: Any,
    W: Any,
    first: Any,
    out: Any,
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _LaneLoop(context, builder, signature, args)
        long = ir.IntType(64)
        # Four partial sums: a single one would wait four cycles for each addition.
        sums = [cgutils.alloca_once_value(builder, loop.vector(None)) for _ in range(4)]

        def accumulate(p: Any, total: Any) -> None:
            value, place = loop.weights(p)
            product = builder.fmul(value, loop.load(place), flags=_FUSED)
            builder.store(builder.fadd(builder.load(total), product, flags=_FUSED), total)

        length = builder.sub(loop.stop, loop.start)
        whole = builder.and_(length, long(-4))
        with cgutils.for_range_slice(builder, long(0), whole, long(4), long) as (p, _):
            for k, total in enumerate(sums):
                accumulate(builder.add(loop.start, builder.add(p, long(k))), total)
        with cgutils.for_range_slice(builder, whole, length, long(1), long) as (p, _):
            accumulate(builder.add(loop.start, p), sums[0])
        a, b, c, d = (builder.load(total) for total in sums)
        a, b = builder.fadd(a, b, flags=_FUSED), builder.fadd(c, d, flags=_FUSED)
        loop.store(builder.fadd(a, b, flags=_FUSED), loop.lanes)
        return context.get_dummy_value()

    return types.void(data, indices, types.int64, types.int64, W, types.int64, out), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _lanes_subtract(
    typing_context: Any, data: Any, indices: Any, start: Any, stop: Any, W: Any, first: Any, by: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _LaneLoop(context, builder, signature, args)
        long = ir.IntType(64)
        by = loop.load(loop.lanes)
        with cgutils.for_range_slice(builder, loop.start, loop.stop, long(1), long) as (p, _):
            value, place = loop.weights(p)
            product = builder.fmul(value, by, flags=_FUSED)
            loop.store(builder.fsub(loop.load(place), product, flags=_FUSED), place)
        return context.get_dummy_value()

    return types.void(data, indices, types.int64, types.int64, W, types.int64, by), codegen


def lanes_dot(data: Any, indices: Any, start: int, stop: int, W: Any, block: int, out: Any) -> None:
    """``out = Σ_p data[p] W[block, indices[p]]``, 16 lanes at once, in the data's precision."""
    part = slice(int(start), int(stop))
    out[:] = data[part] @ W[block][indices[part]]


def lanes_subtract(
    data: Any, indices: Any, start: int, stop: int, W: Any, block: int, by: Any
) -> None:
    """``W[block, indices[p]] -= data[p] by``, 16 lanes at once."""
    part = slice(int(start), int(stop))
    np.subtract.at(W[block], indices[part], data[part, None] * by)  # an index may occur twice


@overload(lanes_dot, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _lanes_dot_call(
    data: Any, indices: Any, start: int, stop: int, W: Any, block: int, out: Any
) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, W: Any, block: int, out: Any) -> None:
        _lanes_dot(data, indices, start, stop, W, block * W.shape[1] * LANES, out)

    return call


@overload(lanes_subtract, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _lanes_subtract_call(
    data: Any, indices: Any, start: int, stop: int, W: Any, block: int, by: Any
) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, W: Any, block: int, by: Any) -> None:
        _lanes_subtract(data, indices, start, stop, W, block * W.shape[1] * LANES, by)

    return call
