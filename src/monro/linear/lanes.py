"""Loops over a sparse row for eight problems at a time, in single precision.

Each of eight problems has a *lane*: numbers of all lanes for the same index are adjacent, so that
one instruction reads or changes eight. Numbers that come in pairs, such as the curvature and the
change of a prediction, are in one array of sixteen: one cache line for each index.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from monro._jit import INLINED
from monro.rows import Array

LANES = 8
PAIR = 2 * LANES
_FUSED = ("contract", "nsz", "reassoc")
_LONG = ir.IntType(64)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


class _Row:
    """Builds a loop over the non-zeros of a sparse row."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any):
        self.builder = builder
        self.data, self.indices, self.start, self.stop, *self.others = (
            context.make_array(kind)(context, builder, arg).data
            if isinstance(kind, types.Array)
            else arg
            for kind, arg in zip(signature.args, args, strict=True)
        )

    def vector(self, array: Any, offset: Any) -> Any:
        """Return the address of the eight numbers from an offset on."""
        return self.builder.bitcast(self.builder.gep(array, [offset]), _VECTOR.as_pointer())

    def load(self, place: Any) -> Any:
        return self.builder.load(place, align=4)

    def store(self, lanes: Any, place: Any) -> None:
        self.builder.store(lanes, place, align=4)

    def index(self, p: Any) -> Any:
        return self.builder.zext(self.builder.load(self.builder.gep(self.indices, [p])), _LONG)

    def value(self, p: Any) -> Any:
        """Return non-zero p in eight lanes."""
        value = self.builder.load(self.builder.gep(self.data, [p]))
        empty = ir.Constant(_VECTOR, ir.Undefined)
        first = self.builder.insert_element(empty, value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
        return self.builder.shuffle_vector(first, empty, zeros)

    def pair(self, array: Any, p: Any) -> tuple[Any, Any]:
        """Return the addresses of both parts of the pair that belongs to non-zero p."""
        offset = self.builder.mul(self.index(p), _LONG(PAIR))
        second = self.builder.add(offset, _LONG(LANES))
        return self.vector(array, offset), self.vector(array, second)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FUSED)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FUSED)

    def zeros(self) -> Any:
        return cgutils.alloca_once_value(self.builder, _VECTOR(None))

    def accumulate(self, a: Any, b: Any, total: Any) -> None:
        """``total += a b``."""
        self.builder.store(self.plus(self.times(a, b), self.builder.load(total)), total)


@intrinsic  # type: ignore[untyped-decorator]
def _lanes_moments(
    typing_context: Any, data: Any, indices: Any, start: Any, stop: Any, G: Any, HQ: Any, out: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = _Row(context, builder, signature, args)
        G, HQ, out = row.others
        sums = [row.zeros() for _ in range(4)]
        with cgutils.for_range_slice(builder, row.start, row.stop, _LONG(1), _LONG) as (p, _):
            x = row.value(p)
            h, q = map(row.load, row.pair(HQ, p))
            g = row.load(row.vector(G, builder.mul(row.index(p), _LONG(LANES))))
            hx = row.times(h, x)
            for a, b, total in zip((x, h, hx, hx), (g, x, x, q), sums, strict=True):
                row.accumulate(a, b, total)
        for k, total in enumerate(sums):
            row.store(builder.load(total), row.vector(out, _LONG(k * LANES)))
        return context.get_dummy_value()

    return types.void(data, indices, types.int64, types.int64, G, HQ, out), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _lanes_slopes(
    typing_context: Any, data: Any, indices: Any, start: Any, stop: Any, HQ: Any, out: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = _Row(context, builder, signature, args)
        HQ, out = row.others
        # Four partial sums: a single one would wait four cycles for each addition.
        sums = [row.zeros() for _ in range(4)]

        def take(p: Any, total: Any) -> None:
            h, q = map(row.load, row.pair(HQ, p))
            row.accumulate(row.times(row.value(p), h), q, total)

        whole = builder.add(row.start, builder.and_(builder.sub(row.stop, row.start), _LONG(-4)))
        with cgutils.for_range_slice(builder, row.start, whole, _LONG(4), _LONG) as (p, _):
            for k, total in enumerate(sums):
                take(builder.add(p, _LONG(k)), total)
        with cgutils.for_range_slice(builder, whole, row.stop, _LONG(1), _LONG) as (p, _):
            take(p, sums[0])
        a, b, c, d = map(builder.load, sums)
        row.store(row.plus(row.plus(a, b), row.plus(c, d)), row.vector(out, _LONG(0)))
        return context.get_dummy_value()

    return types.void(data, indices, types.int64, types.int64, HQ, out), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _lanes_move(
    typing_context: Any, data: Any, indices: Any, start: Any, stop: Any, by: Any, HQ: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = _Row(context, builder, signature, args)
        by, HQ = row.others
        distance = row.load(row.vector(by, _LONG(0)))
        with cgutils.for_range_slice(builder, row.start, row.stop, _LONG(1), _LONG) as (p, _):
            _, place = row.pair(HQ, p)
            row.store(row.plus(row.times(row.value(p), distance), row.load(place)), place)
        return context.get_dummy_value()

    return types.void(data, indices, types.int64, types.int64, by, HQ), codegen


def lanes_moments(
    data: Any, indices: Any, start: int, stop: int, G: Any, HQ: Any, out: Array
) -> None:
    """Write ``Σ x g``, ``Σ x h``, ``Σ x² h`` and ``Σ x h q`` of a row x; HQ has pairs h and q."""
    part = slice(int(start), int(stop))
    x, i = data[part], indices[part]
    h, q = HQ[i, :LANES], HQ[i, LANES:]
    out[:] = x @ G[i], x @ h, x**2 @ h, x @ (h * q)


def lanes_slopes(data: Any, indices: Any, start: int, stop: int, HQ: Any, out: Array) -> None:
    """Write ``Σ x h q`` of a row x."""
    part = slice(int(start), int(stop))
    i = indices[part]
    out[:] = data[part] @ (HQ[i, :LANES] * HQ[i, LANES:])


def lanes_move(data: Any, indices: Any, start: int, stop: int, by: Array, HQ: Any) -> None:
    """``q += x by`` for a row x."""
    part = slice(int(start), int(stop))
    np.add.at(HQ[:, LANES:], indices[part], data[part, None] * by)


@overload(lanes_moments, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _lanes_moments_call(
    data: Any, indices: Any, start: int, stop: int, G: Any, HQ: Any, out: Array
) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, G: Any, HQ: Any, out: Array) -> None:
        _lanes_moments(data, indices, start, stop, G, HQ, out)

    return call


@overload(lanes_slopes, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _lanes_slopes_call(data: Any, indices: Any, start: int, stop: int, HQ: Any, out: Array) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, HQ: Any, out: Array) -> None:
        _lanes_slopes(data, indices, start, stop, HQ, out)

    return call


@overload(lanes_move, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _lanes_move_call(data: Any, indices: Any, start: int, stop: int, by: Array, HQ: Any) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, by: Array, HQ: Any) -> None:
        _lanes_move(data, indices, start, stop, by, HQ)

    return call
