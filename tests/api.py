"""The public names: those on the reference pages. One list for documents, examples and snapshot.

``python -m tests.api`` updates the snapshot after an intended change of the public API.
"""

import importlib
import inspect
import re
from pathlib import Path

PAGES = Path(__file__).parent.parent / "docs" / "api"
SNAPSHOT = Path(__file__).parent / "golden" / "api.txt"
_DIRECTIVE = re.compile(
    r"^\.\. auto(class|function|module):: (\S+)\n(?:   :members:(.*)\n)?", re.MULTILINE
)


def resolve(name):
    """Return the object with a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def _own_classes(module):
    return [
        name
        for name, kind in vars(importlib.import_module(module)).items()
        if inspect.isclass(kind) and kind.__module__ == module
    ]


def public_names():
    """Return the dotted names on the reference pages."""
    names = []
    for page in sorted(PAGES.glob("*.md")):
        for kind, name, members in _DIRECTIVE.findall(page.read_text()):
            if kind != "module":
                names.append(name)
            listed = re.findall(r"\w+", members)
            if kind == "module" and not listed and page.stem == "errors":
                listed = _own_classes(name)
            names += [f"{name}.{member}" for member in listed]
    return names


def described(name):
    """Return a line of the snapshot: a name with parameters and defaults; of errors, the bases."""
    found = resolve(name)
    if isinstance(found, property):
        return name
    if inspect.isclass(found) and issubclass(found, Exception):
        return f"{name}: {', '.join(base.__name__ for base in found.__bases__)}"
    signature = inspect.signature(found)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for key, parameter in signature.parameters.items()
        if key != "self"
    ]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return name + re.sub(r"<function .*? at \w+>", "…", text)


def snapshot():
    """Return the current public API as text."""
    return "".join(f"{described(name)}\n" for name in public_names())


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot())
