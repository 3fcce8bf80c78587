"""Every code block in docstrings and documents runs unchanged."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import monro
from monro.errors import MissingExtraError

MODULES = [
    info.name
    for info in pkgutil.walk_packages(monro.__path__, "monro.")
    if not info.name.endswith("__main__") and not info.name.startswith("monro.ray")  # see tests/ray
]
ROOT = Path(__file__).parent.parent
# Without files that were generated next to the documents.
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    if "gallery" not in path.parts and path.name != "commands.md"
)
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def blocks(path):
    """Return the language and text of each block of a document."""
    return _BLOCK.findall(path.read_text())


@pytest.mark.documents
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents(path, tmp_path, monkeypatch):
    """Run doctests, Python scripts and shell blocks; later blocks see the files of earlier ones."""
    needed = re.match(r"---\nrequires: (\w+)\n---\n", path.read_text())
    if needed and find_spec(needed[1]) is None:
        pytest.skip(f"{needed[1]} is not installed: pip install '.[docs]'")
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for kind, text in blocks(path):
        if kind == "sh":
            command = ["bash", "-euo", "pipefail", "-c", text]
        elif is_script(kind, text):
            command = [sys.executable, "-c", text]
        else:
            continue
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def is_script(kind, text):
    """Return whether a block is a Python script; those that need a cluster run in tests/ray."""
    return kind == "python" and ">>> " not in text and "monro.ray" not in text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_is_run_or_is_not_code(path):
    """Blocks without a language are output, which is not run."""
    for kind, _ in blocks(path):
        assert kind in ("", "sh", "python") or kind.startswith("{"), kind
