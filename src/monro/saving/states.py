"""States: NamedTuples of arrays, which declare the axes of each array.

A field of a state is an array or another such NamedTuple. Its annotation declares the axes of the
array: `PerFeature`, `PerClass`, `PerExample`, `PerClassAndFeature`, or a plain `Array` for a few
numbers. Code that widens a model, shares a state among threads or reads it from a file uses this
declaration instead of comparing sizes. An array that a solver does not use is empty.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, get_type_hints

import numpy as np

from monro.rows import Array


class Axis(Enum):
    """What an axis of an array is indexed by."""

    FEATURES = "features"
    CLASSES = "classes"
    EXAMPLES = "examples"
    PAIR_FEATURES = "pair features"  # of a tag and the one before it


PerFeature = Annotated[Array, Axis.FEATURES]
PerClass = Annotated[Array, Axis.CLASSES]
PerExample = Annotated[Array, Axis.EXAMPLES]
PerClassAndFeature = Annotated[Array, Axis.CLASSES, Axis.FEATURES]


@cache
def axes(kind: Any) -> dict[str, tuple[Axis, ...]]:
    """Return the declared axes of each field of a state.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Momentum(NamedTuple):
    ...     w: PerFeature
    ...     steps: Array
    >>> axes(Momentum)["w"] == (Axis.FEATURES,), axes(Momentum)["steps"]
    (True, ())
    """
    hints = get_type_hints(kind, include_extras=True)
    return {name: getattr(hints.get(name), "__metadata__", ()) for name in kind._fields}


def arrays_of(state: Any) -> Iterator[tuple[tuple[Axis, ...], Array]]:
    """Yield all arrays of a state, in order, each with its axes."""
    kind: Any = type(state)
    declared = axes(kind)
    for name, part in zip(state._fields, state, strict=True):
        if isinstance(part, np.ndarray):
            yield declared[name], part
        else:
            yield from arrays_of(part)


def map_arrays(change: Callable[[tuple[Axis, ...], Array], Array], state: Any) -> Any:
    """Return the state with every array replaced by ``change(axes, array)``."""
    kind: Any = type(state)
    declared = axes(kind)
    parts = (
        change(declared[name], part) if isinstance(part, np.ndarray) else map_arrays(change, part)
        for name, part in zip(state._fields, state, strict=True)
    )
    return type(state)(*parts)


def copy_of(state: Any, earlier: Any = None) -> Any:
    """Return a copy of a state, in the memory of an earlier copy where that has its shape.

    New memory would be a second copy while the first still exists, and is slow: the system clears
    it, page by page.
    """
    if isinstance(state, np.ndarray):
        kind = getattr(earlier, "shape", None), getattr(earlier, "dtype", None)
        if kind != (state.shape, state.dtype):
            return state.copy()
        earlier[...] = state
        return earlier
    parts = earlier if type(earlier) is type(state) else [None] * len(state)
    return type(state)(*map(copy_of, state, parts))


def same_shapes(state: Any, other: Any) -> bool:
    """Return whether the arrays that are not empty in either of two states have the same shapes."""
    if type(state) is not type(other):
        return False
    for a, b in zip(state, other, strict=True):
        if isinstance(a, np.ndarray):
            if a.size and b.size and a.shape != b.shape:
                return False
        elif type(a) is type(b) and not same_shapes(a, b):
            return False
    return True


# --------------------------------------------------------------------------------------- in files


def flatten(name: str, state: Any, arrays: dict[str, Array], kinds: Mapping[str, Any]) -> list[Any]:
    """Add the arrays of a state to `arrays`; return its structure as JSON.

    `kinds` are the classes of states, by their names in files.
    """
    parts: list[Any] = []
    for field, part in zip(state._fields, state, strict=True):
        if isinstance(part, np.ndarray):
            arrays[f"{name}.{field}"] = part
            parts.append(field)
        else:
            parts.append([field, flatten(f"{name}.{field}", part, arrays, kinds)])
    (kind,) = (name for name, cls in kinds.items() if cls is type(state))
    return [kind, parts]


def unflatten(
    name: str, structure: list[Any], arrays: Mapping[str, Array], kinds: Mapping[str, Any]
) -> Any:
    """Return the state whose structure `flatten` returned."""
    kind, parts = structure
    fields = {}
    for part in parts:
        if isinstance(part, str):
            fields[part] = arrays[f"{name}.{part}"].copy()
        else:
            field, inner = part
            fields[field] = unflatten(f"{name}.{field}", inner, arrays, kinds)
    return kinds[kind](**fields)
