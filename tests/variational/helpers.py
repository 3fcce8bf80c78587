"""What the tests of augment and reduce share: marks, one batch and its gradient."""

import numpy as np
import pytest

from monro.links import LINKS
from monro.variational.augment_reduce import add_gradient, local_steps
from tests.marks import thorough, thorough_unless

by_link = pytest.mark.parametrize("link", thorough_unless(lambda link: link != "logistic", LINKS))
by_link_but_softmax = pytest.mark.parametrize(
    "link", ["probit", pytest.param("logistic", marks=thorough)]
)


def take_batch(
    model, rows, y, weight, batch, drawn, noise, visits, W, bias, memory, gradient, posterior, z
):
    """Take the E steps of a batch and add its gradient to `gradient`; return its bound."""
    g = np.empty((batch.size, z.size + 1), z.dtype)
    bound = local_steps(
        model, rows, y, weight, batch, 0, batch.size, drawn, noise, visits, W, bias, memory,
        posterior, g,
    )  # fmt: skip
    add_gradient(rows, y, batch, drawn.chosen, g, gradient)
    return bound
