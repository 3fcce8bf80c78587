"""The folder of real data sets."""

import os
from pathlib import Path

import pytest


def data_folder():
    """Return the folder of $MONRO_DATA, or skip the test."""
    folder = os.environ.get("MONRO_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the data sets of $MONRO_DATA")
    return Path(folder)
