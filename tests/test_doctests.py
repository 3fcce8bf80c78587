"""The examples in docstrings and documents run as they stand."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import monro
from monro.errors import MissingExtraError

MODULES = [
    info.name
    for info in pkgutil.walk_packages(monro.__path__, "monro.")
    if not info.name.endswith("__main__")
]
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("path", [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"], ids=str)
def test_documents(path):
    result = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
