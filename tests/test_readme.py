"""The tables in the documents are those made from the committed results."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import harness
from benchmarks.__main__ import NAMES

from tests.marks import thorough


@pytest.mark.parametrize("document", harness.DOCUMENTS, ids=lambda path: path.name)
def test_tables_equal_the_results(document):
    assert document.read_text() == harness.rendered(document)


def test_every_benchmark_has_a_result():
    assert {path.stem for path in harness.RESULTS.glob("*.json")} == set(NAMES)


@thorough
def test_the_commands_of_the_readme_work(tmp_path):
    """From a file to predictions, unchanged."""
    (block,) = re.findall(r"```sh\n(.*?)```", harness.README.read_text(), re.DOTALL)
    folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert result.returncode == 0, result.stderr
    error = re.search(r"error\D+([\d.]+)", result.stdout.split("words.monro on")[1])
    assert float(error[1]) < 0.05
    assert len(re.findall(r"^[01]\t0:[\d.e-]+\t1:[\d.e-]+$", result.stdout, re.MULTILINE)) == 3
