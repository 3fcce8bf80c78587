"""Layers import downwards only; the contract is in pyproject.toml."""

from pathlib import Path

from importlinter.cli import lint_imports


def test_import_layers(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert lint_imports(cache_dir=None, no_cache=True) == 0
