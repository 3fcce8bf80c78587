"""The disk cache of compiled kernels: a file for each kernel, signature and hash of its sources.

Numba's own cache compares the modification time of the kernel's file. It misses an edit to a loss
or to an inlined function in another file, and recompiles after an edit to a comment. Here a file's
name holds a hash of the bytecode of everything the kernel depends on: the functions, classes and
constants that it refers to, directly or through others, and the methods of its arguments' classes,
which `monro._jit.generic` functions call. Docstrings and comments are not part of it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

_PACKAGE = Path(__file__).parent
# Modules that define how kernels are compiled: an edit to their code affects all kernels.
_COMPILER = ("_cache.py", "_jit.py", "blocks.py")
# The implementations of each stub that is resolved at compile time by its argument's type.
IMPLEMENTATIONS: dict[Callable[..., Any], tuple[Callable[..., Any], ...]] = {}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


@cache
def _code_of_file(path: Path) -> str:
    """Return the bytecode of a file as text, without docstrings and line numbers."""
    code = compile(path.read_bytes(), path.name, "exec", dont_inherit=True, optimize=2)
    return "\n".join(_texts(code))


def _texts(code: CodeType) -> Iterator[str]:
    """Yield the bytecode, names and constants of a code object and of those nested in it."""
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _texts(constant)
        else:
            yield _stable(constant)


def _stable(constant: Any) -> str:
    """Return a constant as text that is the same in every process, unlike the order of a set."""
    if isinstance(constant, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_stable, constant)))}}}"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_stable, constant))})"
    return repr(constant)


def source_hash() -> str:
    """Return the hash of all code of the package, for the record of an experiment."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(_code_of_file(path).encode())
    return digest.hexdigest()


class _Dependencies:
    """Collects the text of all code that a kernel depends on, by following the names it uses."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._visited: set[int] = set()

    def add(self, thing: Any) -> None:
        """Add a function, a class, a constant, or any other object that a name refers to."""
        if isinstance(thing, Dispatcher):
            self.parts += [f"{name}={_stable(v)}" for name, v in thing.targetoptions.items()]
            thing = thing.py_func
        if isinstance(thing, _PLAIN):
            self.parts.append(f"{type(thing).__name__} {thing!r}")
        elif isinstance(thing, np.ndarray):
            self.parts.append(f"{thing.dtype} {thing.shape} {thing.tobytes().hex()}")
        elif isinstance(thing, tuple) and not hasattr(thing, "_fields"):
            for each in thing:
                self.add(each)
        elif id(thing) in self._visited:
            self.parts.append(getattr(thing, "__qualname__", type(thing).__name__))
        else:
            self._visited.add(id(thing))
            self._add_object(thing)

    def _add_object(self, thing: Any) -> None:
        module = getattr(thing, "__module__", None) or type(thing).__module__
        self.parts.append(f"{module}.{getattr(thing, '__qualname__', type(thing).__qualname__)}")
        if isinstance(thing, ModuleType):
            if thing.__name__.startswith(f"{__package__}.") and thing.__file__:
                self.parts.append(_code_of_file(Path(thing.__file__)))
        elif isinstance(thing, FunctionType) and not _is_from_elsewhere(thing):
            self._add_function(thing)
        elif isinstance(thing, type) and issubclass(thing, tuple):
            self._add_class(thing)
        elif isinstance(thing, tuple):
            self._add_object(type(thing))
            for each in thing:
                self.add(each)

    def _add_function(self, function: FunctionType) -> None:
        self._add_code(function.__code__, function.__globals__)
        for cell in function.__closure__ or ():
            self.add(cell.cell_contents)
        for default in function.__defaults__ or ():
            self.add(default)
        for each in IMPLEMENTATIONS.get(function, ()):
            self.add(each)

    def _add_code(self, code: CodeType, names: dict[str, Any]) -> None:
        constants = code.co_consts
        if constants and isinstance(constants[0], str):  # the docstring
            constants = constants[1:]
        self.parts.append(f"{code.co_code.hex()} {code.co_names} {code.co_varnames}")
        for constant in constants:
            if isinstance(constant, CodeType):
                self._add_code(constant, names)
            else:
                self.parts.append(_stable(constant))
        for name in code.co_names:
            if name in names:
                self.add(names[name])

    def _add_class(self, kind: type) -> None:
        self.parts.append(repr(getattr(kind, "_fields", ())))
        for name, member in sorted(vars(kind).items()):
            if isinstance(member, FunctionType):
                if member.__code__.co_filename.startswith("<"):
                    continue  # generated by NamedTuple
                self.add(member)
            elif not name.startswith("_"):
                self.add(member)

    def add_types(self, kinds: Iterable[Any]) -> None:
        """Add the classes among the types of a signature, nested ones included."""
        for kind in kinds:
            if hasattr(kind, "instance_class"):
                self.add(kind.instance_class)
            if hasattr(kind, "dispatcher"):
                self.add(kind.dispatcher)
            self.add_types(getattr(kind, "types", ()))


def _is_from_elsewhere(function: FunctionType) -> bool:
    """Return whether a function belongs to an installed library, identified by its version."""
    return function.__module__.partition(".")[0] in ("numba", "numpy", "math", "builtins")


def dependency_hash(function: Callable[..., Any], signature: Iterable[Any] = ()) -> str:
    """Return a hash of all code that a kernel depends on when called with these types."""
    found = _Dependencies()
    found.add(function)
    found.add_types(signature)
    found.parts += [_code_of_file(_PACKAGE / name) for name in _COMPILER]
    return hashlib.sha256("\n".join(found.parts).encode()).hexdigest()[:20]


def _classes_of(signature: Any) -> Iterator[type]:
    for kind in signature:
        if hasattr(kind, "instance_class"):
            yield kind.instance_class
        yield from _classes_of(getattr(kind, "types", ()))


def _is_ours(signature: Any) -> bool:
    """Return whether all classes among these types are monro's.

    A loss defined outside the package may depend on anything: it is compiled in each process.
    """
    return all(f"{c.__module__}.".startswith(f"{__package__}.") for c in _classes_of(signature))


class KernelCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """A file for each signature, named by a hash of everything that distinguishes it.

    Numba numbers its files and lists them in an index. Two processes that compile at the same time
    may use the same number for different signatures, and then load the wrong code.
    """

    def __init__(self, function: Callable[..., Any], numbas: Any):
        self.__dict__.update(numbas.__dict__)
        self._function = function
        # "module.function-12.py311.nbi": the line number is left out.
        name, _, line_and_python = numbas._index_name.removesuffix(".nbi").rpartition("-")
        self._base = f"{name}.{line_and_python.partition('.')[2]}"

    def _names(self, key: Any) -> tuple[str, str]:
        """Return the file of a signature, and a pattern that matches it for any sources."""
        signature = hashlib.sha256(repr((key, self._version)).encode()).hexdigest()[:20]
        sources = dependency_hash(self._function, key[0])
        return f"{self._base}.{signature}.{sources}.nbc", f"{self._base}.{signature}.*.nbc"

    def save(self, key: Any, data: Any) -> None:
        if not _is_ours(key[0]):
            return
        name, any_sources = self._names(key)
        self._save_data(name, data)
        for path in Path(self._cache_path).glob(any_sources):
            if path.name != name:
                path.unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        if not _is_ours(key[0]):
            return None
        with suppress(OSError):
            return self._load_data(self._names(key)[0])
        return None
