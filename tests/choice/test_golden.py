"""Model files of every version load with the same contents."""

import json
from pathlib import Path

import numpy as np
import pytest

import monro
from monro.saving.container import VERSION

GOLDEN = sorted((Path(__file__).parent.parent / "golden" / "choices").glob("*.monro"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_files_give_what_they_gave(path):
    """Made by tests/golden/make.py, with the version in their name; never updated."""
    expected = json.loads(path.with_suffix(".json").read_text())
    model = monro.load(path)
    assert model.get_params() == expected["parameters"]
    probabilities = model.predict_proba(expected["frame"])
    np.testing.assert_allclose(probabilities, expected["probabilities"], rtol=1e-9)
    np.testing.assert_allclose(model.summary().std_error, expected["errors"], rtol=1e-9)


def test_there_are_golden_files_of_this_version():
    assert {path.stem for path in GOLDEN} >= {f"v{VERSION}-softmax", f"v{VERSION}-probit"}
