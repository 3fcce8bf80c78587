"""The examples about Ray in the documents run unchanged, on a cluster."""

import doctest
import importlib
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monro
from tests.ray.data import many_classes
from tests.test_doctests import ROOT, blocks

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]


@pytest.mark.parametrize("name", ["softmax", "linear", "ray_train"])
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(f"monro.ray.{name}"))
    assert result.attempted > 5
    assert result.failed == 0


def test_the_readme(tmp_path, monkeypatch):
    (code,) = [text for kind, text in blocks(ROOT / "README.md") if "monro.ray" in text]
    X, y = many_classes(n=500)
    columns = {f"x{k}": column for k, column in enumerate(X.toarray().T)}
    (tmp_path / "train").mkdir()
    pq.write_table(pa.table(columns | {"label": y}), tmp_path / "train" / "rows.parquet")
    code = code.replace("/shared", str(tmp_path))
    code = re.sub(r"workers=\d+", "workers=2", code)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert monro.load("model.monro").score(X.toarray(), y) > 0.5
