"""monro's model of the benchmark."""

from typing import Any

from monro import SoftmaxClassifier

THREADS = 2


def make(**parameters: Any) -> SoftmaxClassifier:
    """Return an estimator with weights of observed pairs."""
    return SoftmaxClassifier(**{"weights": "observed", "random_state": 0} | parameters)
