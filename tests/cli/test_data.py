"""monro data and compile."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import monro
from monro import LinearClassifier, LinearRegressor, cli
from monro.cli import warm
from monro.data import parquet
from tests.cli.helpers import FIXED, SOFTMAX, failure, output, runner
from tests.marks import thorough


def test_data_list_and_info():
    assert "rcv1" in output("data", "list", env={"COLUMNS": "200"})
    assert json.loads(output("data", "list", "--json"))["w8a"]["about"]
    text = output("data", "info", "a9a")
    assert "32,561 rows" in text
    assert "Apache" in text
    assert json.loads(output("data", "info", "a9a", "--json"))["features"] == 123
    assert "did you mean a9a?" in failure("data", "info", "a9b")


def test_data_fetch_verifies_files_that_are_present():
    from tests.data.helpers import data_folder

    data_folder()
    assert output("data", "fetch", "a9a").count("checked") == 2


@thorough
def test_compile_counts_the_combinations(monkeypatch):
    few = {form: warm._matrices()[form] for form in ("dense, float64", "wide, float64")}
    monkeypatch.setattr(warm, "_matrices", lambda: few)
    monkeypatch.setattr(warm, "_DEFAULT_SOLVERS", ("dual",))
    monkeypatch.setattr(LinearClassifier, "_losses", {"hinge": LinearClassifier._losses["hinge"]})
    monkeypatch.setattr(LinearRegressor, "_losses", {})
    # The hinge loss on dense and on wide rows, two samplers of softmax, and a tagger.
    assert "5 combinations of kernels are ready" in output("compile")


@thorough
def test_compile_fills_the_cache(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    script = """
from monro.cli import warm
from monro.linear.classifier import LinearClassifier
from monro.linear.regressor import LinearRegressor
LinearClassifier._losses = {"log": LinearClassifier._losses["log"]}
LinearRegressor._losses = {}
warm._DEFAULT_SOLVERS = ("dual",)
few = {form: warm._matrices()[form] for form in ("sparse, float32", "wide, float64")}
warm._matrices = lambda: few
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


def test_parquet_folders_are_fitted_converted_and_predicted(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    table = pa.table(
        {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": np.where(X[:, 0] > 0, "p", "n")}
    )
    folder = tmp_path / "rows"
    folder.mkdir()
    pq.write_table(table.slice(0, 120), folder / "1.parquet")
    pq.write_table(table.slice(120), folder / "2.parquet")
    single = tmp_path / "rows.parquet"
    pq.write_table(table, single)
    options = (*FIXED, "--set", "random_state=0", "--quiet")
    output("fit", folder, tmp_path / "folder.monro", "--target", "kind", *options)
    monkeypatch.setattr(parquet, "_LARGE_FILE", 0)
    output("fit", single, tmp_path / "single.monro", "--target", "kind", *options)
    output("data", "convert", folder, tmp_path / "store", "--target", "kind")
    output("fit", tmp_path / "store", tmp_path / "store.monro", *options)
    expected = table["kind"].to_pylist()
    for name in ("folder", "single", "store"):
        predicted = output("predict", tmp_path / f"{name}.monro", folder).split()
        assert np.mean(np.array(predicted) == expected) > 0.97
    assert monro.load(tmp_path / "folder.monro")._layout["target"] == "kind"
    assert "there is no column 'none'" in failure(
        "fit", folder, tmp_path / "other.monro", "--target", "none"
    )


def test_sparse_parquet_is_fitted_and_predicted(tmp_path):
    columns = [[0, 2], [1], [0], [1, 2]] * 20
    table = pa.table(
        {
            "columns": columns,
            "values": [[1.0] * len(row) for row in columns],
            "y": ["a" if 0 in row else "b" for row in columns],
        }
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    output("fit", path, tmp_path / "model", *SOFTMAX, "--set", "max_epochs=5", "--quiet")
    predicted = output("predict", tmp_path / "model", path).split()
    assert predicted == table["y"].to_pylist()
