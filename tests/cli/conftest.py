"""Files and models to test the commands with."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from tests.cli.helpers import FIXED, output


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Train and test files of three tasks, and a model for each."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X = sp.random_array((600, 30), density=0.3, rng=rng, format="csr")
    scores = X @ rng.normal(size=(30, 3))
    targets = {
        "binary": np.where(scores[:, 0] > 0, 1, -1),
        "three": scores.argmax(axis=1) + 5,
        "numbers": scores[:, 0].round(6),
    }
    for name, y in targets.items():
        dump_svmlight_file(X[:400], y[:400], str(folder / f"{name}.train"), zero_based=False)
        dump_svmlight_file(X[400:], y[400:], str(folder / f"{name}.test"), zero_based=False)
        task = "regression" if name == "numbers" else "binary"
        loss = "squared" if name == "numbers" else "log"
        output(
            "fit",
            folder / f"{name}.train",
            folder / f"{name}.monro",
            "--task",
            task,
            "--loss",
            loss,
            *FIXED,
        )
    return folder
