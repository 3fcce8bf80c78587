"""How monro compiles: `kernel`, `leaf`, `generic`, and the few machine instructions kernels need.

A *kernel* is a loop over data: compiled once, cached on disk, free of the GIL. A *leaf* is a small
function kernels call. A *generic* function picks the method of its first argument's class, at
compile time: kernels call ``derivative(loss, p, y)`` and each loss brings its own derivative.
Everything also runs as plain Python under ``NUMBA_DISABLE_JIT=1``.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils, event
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable[..., Any])

# Kernels borrow their arrays and allocate nothing, so they need no reference counting (`_nrt`). The
# atomic counts around every call of a leaf cost a third of an epoch on short rows. Nor do they need
# an entry for C (`no_cfunc_wrapper`): making one for each leaf is a tenth of the compilation.
_COMMON = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# `contract` allows fused multiply-add. `reassoc` is left out on purpose: with it LLVM turns the dot
# product with a sparse row into gather instructions, which are half as fast as scalar loads.
_EXACT = _COMMON | {"fastmath": {"contract", "nsz", "arcp"}}
# What loops over classes may do besides: sum in another order, so that they vectorise.
# Infinities and NaN are never assumed away: they are how divergence is seen.
_VECTOR = _COMMON | {"fastmath": {"contract", "nsz", "arcp", "reassoc"}}
# Inlined by LLVM: Numba's own `inline="always"` compiles slower and warns about itself.
_INLINED = _EXACT | {"forceinline": True}


# Folders that hold no kernel, and nothing that a kernel is made of.
WITHOUT_KERNELS = ("cli", "ray", "report")


def _source_stamp() -> str:
    """Hash all sources that a kernel may be made of.

    Numba's own stamp is the time of the kernel's file: it misses an edit to a loss or a leaf in
    another file, and would go on running the old code.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in WITHOUT_KERNELS:
            digest.update(path.read_bytes())
    return digest.hexdigest()


STAMP = _source_stamp()


def _is_our_own(signature: Any) -> bool:
    """Tell whether every class among these types is monro's, so that the stamp tells of its edits.

    A loss that somebody writes elsewhere is compiled anew in each process.
    """
    for kind in signature:
        module = getattr(getattr(kind, "instance_class", None), "__module__", __name__)
        if not f"{module}.".startswith(f"{__package__}."):
            return False
        if not _is_our_own(getattr(kind, "types", ())):
            return False
    return True


class _CacheFiles(IndexDataCacheFile):  # type: ignore[misc]
    """A file for each signature, named by all that distinguishes it.

    Numba numbers its files, and lists them in an index. Two processes that compile at the same time
    may take the same number for different signatures, and from then on the code of one answers
    calls of the other.
    """

    def __init__(self, cache: Any):
        numbas = cache._cache_file
        self.__dict__.update(numbas.__dict__)
        self._base = numbas._index_name.removesuffix(".nbi")
        version = repr((STAMP, numbas._source_stamp, numbas._version))
        self._stamp = hashlib.sha256(version.encode()).hexdigest()[:12]

    def _name(self, key: Any) -> str:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        return f"{self._base}.{self._stamp}.{digest}.nbc"

    def save(self, key: Any, data: Any) -> None:
        if not _is_our_own(key[0]):
            return
        self._save_data(self._name(key), data)
        function, _, line_and_python = self._base.rpartition("-")
        python = line_and_python.partition(".")[2]
        for path in Path(self._cache_path).glob(f"{function}-*.{python}.*nb[ic]"):
            if f".{self._stamp}." not in path.name:
                path.unlink(missing_ok=True)  # of sources that are no more

    def load(self, key: Any) -> Any:
        if not _is_our_own(key[0]):
            return None
        with suppress(OSError):
            return self._load_data(self._name(key))
        return None


def _stamped(dispatcher: Any) -> Any:
    if not config.DISABLE_JIT:
        dispatcher._cache._cache_file = _CacheFiles(dispatcher._cache)
    return dispatcher


def kernel(function: F) -> F:
    """Compile a loop over data; the result is cached on disk and releases the GIL."""
    compiled: F = _stamped(njit(cache=True, nogil=True, **_EXACT)(function))
    return compiled


def leaf(function: F) -> F:
    """Inline a small function into the kernels that call it."""
    inlined: F = njit(**_INLINED)(function)
    return inlined


def literal_kernel(function: F) -> F:
    """Compile a kernel without any fast-math: to the last bit what IEEE 754 says."""
    compiled: F = _stamped(njit(cache=True, nogil=True, **_COMMON)(function))
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
    compiled: F = _stamped(njit(cache=True, nogil=True, **_VECTOR)(function))
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
        return stub

    return decorate


def generic(stub: F) -> F:
    """Make ``stub(obj, …)`` in kernels call the method of that name of obj's NamedTuple class."""

    def resolve(obj: Any, *args: Any) -> Any:
        return getattr(getattr(obj, "instance_class", None), stub.__name__, None)

    overload(stub, strict=False, jit_options=_INLINED)(resolve)
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
    """Ask the cache for the line of ``array.flat[index]`` (C order); it need not exist."""


@overload(prefetch_element, jit_options=_INLINED)  # type: ignore[untyped-decorator]
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


@overload(bits_of, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _bits_of(number: Any) -> Any:
    def call(number: Any) -> Any:
        return _bits(number)

    return call


@overload(number_of, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _number_of(bits: Any) -> Any:
    def call(bits: Any) -> Any:
        return _number(bits)

    return call


# ------------------------------------------------------------------------ sixteen classes at a time

LANES = 16
_FUSED = ("contract", "nsz", "reassoc")


class _LaneLoop:
    """Builds a loop over a sparse row: for each non-zero, its value and its sixteen weights.

    LLVM's own vectoriser does not trust the arrays to be disjoint, and tests them at every feature.
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
        """Return the value of non-zero p, sixteen times, and where its weights lie."""
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
        # Several sums: one alone would wait four cycles for each addition.
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
    """``out = Σ_p data[p] W[block, indices[p]]``, sixteen at once, in the data's precision."""
    part = slice(int(start), int(stop))
    out[:] = data[part] @ W[block][indices[part]]


def lanes_subtract(
    data: Any, indices: Any, start: int, stop: int, W: Any, block: int, by: Any
) -> None:
    """``W[block, indices[p]] -= data[p] by``, sixteen at once."""
    part = slice(int(start), int(stop))
    np.subtract.at(W[block], indices[part], data[part, None] * by)  # an index may occur twice


@overload(lanes_dot, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _lanes_dot_call(
    data: Any, indices: Any, start: int, stop: int, W: Any, block: int, out: Any
) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, W: Any, block: int, out: Any) -> None:
        _lanes_dot(data, indices, start, stop, W, block * W.shape[1] * LANES, out)

    return call


@overload(lanes_subtract, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _lanes_subtract_call(
    data: Any, indices: Any, start: int, stop: int, W: Any, block: int, by: Any
) -> Any:
    def call(data: Any, indices: Any, start: int, stop: int, W: Any, block: int, by: Any) -> None:
        _lanes_subtract(data, indices, start, stop, W, block * W.shape[1] * LANES, by)

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
