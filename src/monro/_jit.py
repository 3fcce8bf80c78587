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

from llvmlite import ir
from numba import config, njit, types
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable[..., Any])

# Kernels borrow their arrays and allocate nothing, so they need no reference counting (`_nrt`). The
# atomic counts around every call of a leaf cost a third of an epoch on short rows.
_COMMON = {"error_model": "numpy", "_nrt": False}
# `contract` allows fused multiply-add. `reassoc` is left out on purpose: with it LLVM turns the dot
# product with a sparse row into gather instructions, which are half as fast as scalar loads.
_EXACT = _COMMON | {"fastmath": {"contract", "nsz", "arcp"}}
# Inlined by LLVM: Numba's own `inline="always"` compiles slower and warns about itself.
_INLINED = _EXACT | {"forceinline": True}


def _source_stamp() -> str:
    """Hash all sources of the package.

    Numba's own stamp is the time of the kernel's file: it misses an edit to a loss or a leaf in
    another file, and would go on running the old code.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


STAMP = _source_stamp()


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
        self._save_data(self._name(key), data)
        function, _, line_and_python = self._base.rpartition("-")
        python = line_and_python.partition(".")[2]
        for path in Path(self._cache_path).glob(f"{function}-*.{python}.*nb[ic]"):
            if f".{self._stamp}." not in path.name:
                path.unlink(missing_ok=True)  # of sources that are no more

    def load(self, key: Any) -> Any:
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
