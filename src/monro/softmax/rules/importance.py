"""Importance sampling (Bengio & Senécal, 2008), as a sampled softmax: biased.

The softmax is taken over y and the classes drawn. From each score the logarithm of the expected
number of draws of its class is subtracted.
"""

from typing import NamedTuple

from monro.rows import Array
from monro.softmax.rules.sums import log_sum_exp, softmax_steps


class SampledSoftmax(NamedTuple):
    """A gradient step on the softmax over y and the classes drawn."""

    log_count: Array  # (slots,): log(m q_k)

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        for lane in range(z.size):
            z[lane] += scratch.log_weight[lane]
        s_y = s - self.log_count[y]
        normaliser = log_sum_exp(z, s_y)
        return u, softmax_steps(z, normaliser, eta), normaliser - s_y
