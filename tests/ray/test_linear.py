"""Linear models on a cluster of two nodes, against the same fit on one machine."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray.data
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from typer.testing import CliRunner

from monro import LinearClassifier, load
from monro.cli import app
from monro.ray.datasets import dataset_of
from monro.ray.linear import RayLinearClassifier
from monro.ray.ray_train import train_loop
from tests.ray.data import many_classes

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]


def objective(model, X, y, alpha):
    """Return the mean over the models: one for two classes, else one for each class."""
    S = np.atleast_2d(model.decision_function(X).T)
    targets = [y == k for k in model.classes_] if len(S) > 1 else [y == model.classes_[1]]
    losses = [
        np.logaddexp(0.0, -np.where(t, s, -s)).mean() for s, t in zip(S, targets, strict=True)
    ]
    return np.mean(losses) + alpha / 2 * (model.coef_**2).sum(axis=1).mean()


@pytest.mark.parametrize(
    ("solver", "classes"), [("dual", 2), ("dual", 4), ("aisgd", 4), ("asgd", 2)]
)
def test_the_objective_is_that_of_one_machine(solver, classes):
    X, y = many_classes(n=4000)
    y = y % classes
    alpha = 1e-3
    settings = {"loss": "log", "alpha": alpha, "random_state": 0, "solver": solver}
    model = RayLinearClassifier(workers=2, **settings)
    local = model.fit(dataset_of(X, y, 4), "label", n_features=X.shape[1]).to_local()
    alone = LinearClassifier(**settings).fit(X, y)
    assert objective(local, X, y, alpha) <= 1.01 * objective(alone, X, y, alpha)
    assert local.coef_.shape == alone.coef_.shape


def test_a_checkpoint_resumes_with_the_same_bits(tmp_path):
    X, y = many_classes(n=2000)
    dataset = dataset_of(X, y % 2, 4)
    settings = {"loss": "log", "random_state": 0, "solver": "dual", "workers": 2}
    whole = RayLinearClassifier(max_epochs=6, **settings).fit(dataset, "label")
    path = tmp_path / "checkpoint"
    RayLinearClassifier(max_epochs=3, **settings).fit(dataset, "label", checkpoint=path)
    model = RayLinearClassifier(max_epochs=6, **settings)
    model.fit(dataset, "label", checkpoint=path)
    assert np.array_equal(model.coef_, whole.coef_)
    assert model.history_[2]["loss"] == whole.history_[2]["loss"]


def test_the_command_line_fits_parquet_on_the_cluster(cluster, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X[:, 0] > X[:, 1]).astype(int)
    pq.write_table(
        pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": y}), tmp_path / "t.parquet"
    )
    ray.shutdown()
    try:
        options = ["--engine", "ray", "--address", cluster.address, "--loss", "log", "--json"]
        paths = [str(tmp_path / "t.parquet"), str(tmp_path / "m.monro")]
        done = CliRunner().invoke(app, ["fit", *paths, *options, "--set", "workers=2"])
        assert done.exit_code == 0, done.output
        result = json.loads(done.stdout.splitlines()[-1])
        assert result["classes"] == [0, 1]
        model = load(tmp_path / "m.monro")
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert (model.decision_function(X) > 0).mean() == pytest.approx(y.mean(), abs=0.05)
    finally:
        ray.shutdown()
        cluster._connect()


def test_a_loop_of_ray_train_learns_the_same(tmp_path):
    X, y = many_classes(n=2000)
    y = y % 2
    settings = {"loss": "log", "alpha": 1e-3, "max_epochs": 5}
    config = settings | {"label_column": "label", "n_features": X.shape[1]}
    trainer = DataParallelTrainer(
        train_loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        datasets={"train": dataset_of(X, y, 4)},
        run_config=RunConfig(storage_path=str(tmp_path)),
    )
    result = trainer.fit()
    assert result.metrics["epoch"] == 5
    with result.checkpoint.as_directory() as folder:
        model = load(f"{folder}/model.monro")
    alone = LinearClassifier(solver="aisgd", random_state=0, **settings).fit(X, y)
    assert objective(model, X, y, 1e-3) <= 1.02 * objective(alone, X, y, 1e-3)


@pytest.mark.parametrize(
    ("name", "value"), [("center", True), ("max_steps", 10), ("shuffle", "replacement")]
)
def test_a_loop_of_ray_train_refuses_what_it_does_not_use(name, value):
    with pytest.raises(ValueError, match=f"train_loop does not use {name}; leave it out"):
        train_loop({"label_column": "label", name: value})
