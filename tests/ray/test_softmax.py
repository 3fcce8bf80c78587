"""The softmax on a cluster of two nodes, against the same fit on one machine."""

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")


from monro import SoftmaxClassifier  # noqa: E402
from monro.ray import RaySoftmaxClassifier  # noqa: E402
from monro.ray.shards import dataset_of  # noqa: E402
from tests.ray.data import many_classes  # noqa: E402

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]


def test_workers_are_on_both_nodes_and_the_loss_is_that_of_one_machine():
    X, y = many_classes()
    model = RaySoftmaxClassifier(workers=2, max_epochs=20, random_state=0)
    model.fit(dataset_of(X, y, 4), "label", n_features=X.shape[1])
    local = model.to_local()
    alone = SoftmaxClassifier(max_epochs=20, random_state=0).fit(X, y)
    assert local.log_loss(X, y) <= 1.02 * alone.log_loss(X, y)
    assert model.n_iter_ == len(model.history_) == 20
    assert np.array_equal(local.classes_, alone.classes_)
