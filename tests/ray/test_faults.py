"""Workers killed, a node stopped, the driver killed: the model is that of a fit without losses."""

import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks.nodes import Killer

from monro import load
from monro.errors import ClusterError
from monro.ray.datasets import dataset_of
from monro.ray.linear import RayLinearClassifier
from monro.ray.softmax import RaySoftmaxClassifier
from tests.callbacks import Callback
from tests.ray.data import many_classes

pytestmark = pytest.mark.ray


def softmax(**parameters):
    settings = {"workers": 2, "max_epochs": 25, "random_state": 0, "learning_rate": 3.0}
    return RaySoftmaxClassifier(**settings | parameters)


def fitted(model, data, **options):
    X, y = data
    return model.fit(dataset_of(X, y, 4), "label", n_features=X.shape[1], **options).to_local()


def same(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


@pytest.fixture(scope="module")
def data():
    return many_classes(n=6000, K=200)


@pytest.fixture(scope="module")
def undisturbed(cluster, data):
    return fitted(softmax(), data)


def test_killed_workers_change_no_bit(cluster, data, undisturbed):
    model = softmax(max_failures=10)
    with Killer(0, kills=2, longest=1.5) as killer:
        local = fitted(model, data)
    assert killer.killed >= 1
    assert 1 <= model.losses_ <= killer.killed
    assert same(local, undisturbed)
    assert [r["loss"] for r in local.history_] == [r["loss"] for r in undisturbed.history_]


@pytest.mark.parametrize("solver", ["aisgd", "dual"])
def test_killed_workers_change_no_bit_of_a_linear_model(cluster, data, solver):
    X, y = data
    y = y % 2
    settings = {"solver": solver, "loss": "log", "alpha": 1e-4, "max_epochs": 40}
    make = lambda: RayLinearClassifier(workers=2, random_state=0, max_failures=10, **settings)  # noqa: E731
    expected = fitted(make(), (X, y))
    model = make()
    with Killer(1, kills=1, longest=0.5) as killer:
        local = fitted(model, (X, y))
    assert killer.killed == 1
    assert same(local, expected)


class StopNode(Callback):
    """Stops a node after the third epoch."""

    def __init__(self, node):
        self.node, self.epochs = node, 0

    def on_fit_task_end(self, estimator, context, **seen):
        self.epochs += context.task_name == "epoch"
        if self.epochs == 3 and self.node.process.poll() is None:
            self.node.stop()


def test_a_node_that_stops_changes_no_bit(cluster, data, undisturbed):
    (node,) = cluster.nodes[1:]
    model = softmax(patience=3.0).set_callbacks(StopNode(node))
    try:
        local = fitted(model, data)
        assert model.losses_ >= 1
        assert same(local, undisturbed)
        cluster.wait_for(1)
    finally:
        node.stop()
        cluster.nodes.remove(node)
        cluster.join()
        cluster.wait_for(2)


def test_too_small_a_cluster_is_refused_at_once(cluster, data):
    with pytest.raises(ClusterError, match=r"3 workers need 3 CPUs, the cluster has 2: add nodes"):
        fitted(softmax(workers=3), data)


def test_too_many_losses_end_the_fit(cluster, data):
    model = softmax(max_failures=1, max_epochs=2000)
    killer = Killer(0, kills=1000, longest=0.1, pause=0.0)
    with killer, pytest.raises(ClusterError, match="2 times in a row"):
        fitted(model, data)


DRIVER = """
import sys
import ray
from tests.ray.data import many_classes
from tests.ray.test_faults import fitted, softmax
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
fitted(softmax(), many_classes(n=6000, K=200), checkpoint=sys.argv[2]).save(sys.argv[3])
"""


def test_a_killed_driver_resumes_from_its_checkpoint(cluster, undisturbed, tmp_path):
    folder, model = tmp_path / "checkpoint", tmp_path / "model.monro"
    command = [sys.executable, "-c", DRIVER, cluster.address, str(folder), str(model)]
    first = subprocess.Popen(command)
    end = time.monotonic() + 120.0
    while not (folder / "manifest.monro").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert not model.exists()
    subprocess.run(command, check=True, timeout=180)
    assert same(load(model), undisturbed)
    assert len(list(folder.glob("epoch-*"))) == 1
