"""monro data and compile."""

import json
import os
import subprocess
import sys

from monro import cli
from tests.cli.helpers import failure, output, runner


def test_data_list_and_info():
    assert "rcv1" in output("data", "list", env={"COLUMNS": "200"})
    assert json.loads(output("data", "list", "--json"))["w8a"]["about"]
    text = output("data", "info", "a9a")
    assert "32,561 rows" in text
    assert "Apache" in text
    assert json.loads(output("data", "info", "a9a", "--json"))["features"] == 123
    assert "did you mean a9a?" in failure("data", "info", "a9b")


def test_data_fetch_checks_what_is_here(tmp_path):
    from tests.data.helpers import data_folder

    data_folder()
    assert output("data", "fetch", "a9a").count("checked") == 2


def test_compile_fills_the_cache(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    script = """
from monro.cli import warm
from monro.linear.classifier import LinearClassifier
from monro.linear.regressor import LinearRegressor
LinearClassifier._losses = {"log": LinearClassifier._losses["log"]}
LinearRegressor._losses = {}
warm._AUTO = ("dual",)
rows = {form: X for form, X in warm._rows().items() if form in ("sparse, float32", "wide, float64")}
warm._rows = lambda: rows
warm.run(every=False)
"""
    first = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert "combinations of kernels are ready" in first.stdout, first.stderr
    again = script.replace(
        "warm.run",
        """
from numba.core import event
class Compiles(event.Listener):
    def on_start(self, event): raise SystemExit("compiled again")
    def on_end(self, event): pass
event.register("numba:compile", Compiles())
warm.run""",
    )
    second = subprocess.run(
        [sys.executable, "-c", again], env=environment, capture_output=True, text=True
    )
    assert second.returncode == 0, second.stderr


def test_completion_is_offered():
    result = runner.invoke(cli.app, ["--help"], env={"COLUMNS": "200"})
    assert "--install-completion" in result.output
