"""Compilation with Numba: `kernel`, `leaf`, `generic`, and intrinsics that kernels need.

A *kernel* is a loop over data: compiled once, cached on disk, and run without the GIL. A *leaf* is
a small function that kernels call. A *generic* function calls the method of its first argument's
class, resolved at compile time: kernels call ``derivative(loss, p, y)`` and each loss defines its
own derivative. Everything also runs as plain Python under ``NUMBA_DISABLE_JIT=1``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import event
from numba.extending import intrinsic, overload

from monro._cache import IMPLEMENTATIONS, KernelCacheFile

F = TypeVar("F", bound=Callable[..., Any])

# Kernels borrow their arrays and allocate nothing, so they need no reference counting (`_nrt`): the
# atomic counts around every call of a leaf would cost a third of an epoch on short rows. They need
# no entry point for C (`no_cfunc_wrapper`) either: it would take a tenth of the compilation.
_COMMON = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# `contract` allows fused multiply-add. `reassoc` is left out on purpose: with it LLVM turns the dot
# product with a sparse row into gather instructions, which are half as fast as scalar loads.
_EXACT = _COMMON | {"fastmath": {"contract", "nsz", "arcp"}}
# Inlined by LLVM: Numba's own `inline="always"` compiles more slowly and emits warnings.
INLINED = _EXACT | {"forceinline": True}
# Loops over classes may also reorder sums (`reassoc`), so that they vectorise. Infinities and NaN
# are never assumed away: divergence is detected by them.
_VECTOR = _COMMON | {"fastmath": {"contract", "nsz", "arcp", "reassoc"}}


def _cached(dispatcher: Any) -> Any:
    if not config.DISABLE_JIT:
        numbas = dispatcher._cache._cache_file
        dispatcher._cache._cache_file = KernelCacheFile(dispatcher.py_func, numbas)
    return dispatcher


def kernel(function: F) -> F:
    """Compile a loop over data; the result is cached on disk and releases the GIL."""
    compiled: F = _cached(njit(cache=True, nogil=True, **_EXACT)(function))
    return compiled


def leaf(function: F) -> F:
    """Inline a small function into the kernels that call it."""
    inlined: F = njit(**INLINED)(function)
    return inlined


def literal_kernel(function: F) -> F:
    """Compile a kernel without fast-math: exactly the operations of IEEE 754, in order."""
    compiled: F = _cached(njit(cache=True, nogil=True, **_COMMON)(function))
    return compiled


def literal_leaf(function: F) -> F:
    """Inline a small function into the literal kernels that call it."""
    inlined: F = njit(forceinline=True, **_COMMON)(function)
    return inlined


def vector_leaf(function: F) -> F:
    """Compile a loop over contiguous memory, allowed to vectorise its sums."""
    vectorised: F = njit(fastmath=True, **_COMMON)(function)
    return vectorised


def vector_kernel(function: F) -> F:
    """Compile a kernel whose sums may be vectorised."""
    compiled: F = _cached(njit(cache=True, nogil=True, **_VECTOR)(function))
    return compiled


def lanes_leaf(function: F) -> F:
    """Inline a loop over classes, allowed to vectorise its sums."""
    inlined: F = njit(forceinline=True, **_VECTOR)(function)
    return inlined


def by_precision(single: Callable[..., Any], double: Callable[..., Any]) -> Callable[[F], F]:
    """Make ``stub(x)`` in kernels call `single` for float32, `double` for float64."""

    def decorate(stub: F) -> F:
        def resolve(x: Any) -> Any:
            return single if x == types.float32 else double

        overload(stub, strict=False, jit_options=_VECTOR | {"forceinline": True})(resolve)
        IMPLEMENTATIONS[stub] = single, double
        return stub

    return decorate


def generic(stub: F) -> F:
    """Make ``stub(obj, …)`` in kernels call the method of that name of obj's NamedTuple class."""
    return _generic(stub, stub.__name__, INLINED)


def lanes_generic(method: str) -> Callable[[F], F]:
    """Like `generic`, but call `method`, and allow loops that use it to vectorise their sums."""
    return lambda stub: _generic(stub, method, _VECTOR | {"forceinline": True})


def _generic(stub: F, method: str, options: dict[str, Any]) -> F:
    def resolve(obj: Any, *args: Any) -> Any:
        return getattr(getattr(obj, "instance_class", None), method, None)

    overload(stub, strict=False, jit_options=options)(resolve)
    return stub


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte_pointer = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        prototype = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte_pointer,), prototype)
        address = builder.bitcast(builder.gep(data, [args[1]]), byte_pointer)
        read, keep_in_all_levels, data_cache = (ir.Constant(flag, v) for v in (0, 3, 1))
        builder.call(function, [address, read, keep_in_all_levels, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


def prefetch_element(array: Any, index: int) -> None:
    """Prefetch the cache line of ``array.flat[index]`` (C order), which may be out of bounds."""


@overload(prefetch_element, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _prefetch_element(array: Any, index: int) -> Any:
    def call(array: Any, index: int) -> None:
        _prefetch(array, index)

    return call


@intrinsic  # type: ignore[untyped-decorator]
def _bits(typing_context: Any, number: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _number(typing_context: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


def bits_of(number: np.float32) -> np.int32:
    """Return the 32 bits of a float32."""
    return np.float32(number).view(np.int32)


def number_of(bits: np.int32) -> np.float32:
    """Return the float32 of these 32 bits."""
    return np.int32(bits).view(np.float32)


@overload(bits_of, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _bits_of(number: Any) -> Any:
    def call(number: Any) -> Any:
        return _bits(number)

    return call


@overload(number_of, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _number_of(bits: Any) -> Any:
    def call(bits: Any) -> Any:
        return _number(bits)

    return call


class _Announce(event.Listener):  # type: ignore[misc]
    def __init__(self, say: Callable[[], None]) -> None:
        self.say: Callable[[], None] | None = say

    def on_start(self, event: Any) -> None:
        if self.say is not None:
            self.say()
            self.say = None

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def announce_compilation(say: Callable[[], None]) -> Iterator[None]:
    """Call `say` once if anything has to be compiled inside the block."""
    with event.install_listener("numba:compile", _Announce(say)):
        yield
