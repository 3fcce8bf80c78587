"""Training on a Ray cluster: data and models larger than one machine (extra ``ray``).

from monro.ray import RayLinearClassifier, RaySoftmaxClassifier
"""

from monro.errors import MissingExtraError

try:
    import ray as _ray  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "monro.ray needs Ray: install it with `pip install 'monro[ray]'`"
    ) from None

from monro.ray.linear import RayLinearClassifier
from monro.ray.ray_train import train_loop
from monro.ray.softmax import RaySoftmaxClassifier

__all__ = ["RayLinearClassifier", "RaySoftmaxClassifier", "train_loop"]
