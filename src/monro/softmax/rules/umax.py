"""U-max (paper 000, section 3.1, Algorithm 1), in both formulations.

Before the step of vanilla SGD, u is increased where the draw shows that it is too small: if
``u < log(1 + Σ_{k∈C} e^{z_k}) - δ`` it becomes ``log(1 + Σ_{k∈C} e^{z_k})``, without the sampling
weight c. This bounds every gradient by ``c e^δ ‖x‖``. Then u is projected onto [0, B_u], and the
weights of each class onto a ball (`monro.softmax.kernel.sweep.Ball`).
"""

from typing import NamedTuple

from monro._math import fast_exp, fast_log
from monro.softmax.rules.sums import log_sum_exp, weighted_exponentials


class UMax(NamedTuple):
    """Algorithm 1 on the paper's double sum."""

    delta: float
    largest_u: float  # B_u

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        zero = z.dtype.type(0.0)
        one = z.dtype.type(1.0)
        threshold = log_sum_exp(z, s) - s
        if u < threshold - self.delta:
            u = threshold
        total = weighted_exponentials(z, scratch.log_weight, s + u, eta)
        e = fast_exp(-u)
        loss = fast_log(one + fast_exp(u) * total)
        u -= eta * (one - e - total)
        return min(max(zero, u), self.largest_u), eta * total, loss


class RamanUMax(NamedTuple):
    """U-max on Raman et al.'s double sum: the threshold is ``log(e^{s_y} + Σ_{k∈C} e^{s_k})``."""

    delta: float
    largest_u: float

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        threshold = log_sum_exp(z, s)
        if u < threshold - self.delta:
            u = threshold
        total = weighted_exponentials(z, scratch.log_weight, u, eta)
        p_y = fast_exp(s - u)
        loss = fast_log(one + fast_exp(u - s) * total)
        u -= eta * (one - p_y - total)
        return min(max(-self.largest_u, u), self.largest_u), eta * (one - p_y), loss
