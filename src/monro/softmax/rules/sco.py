"""Stochastic composition optimisation (Wang et al., 2016; paper 000, appendix B).

The normaliser of each example is estimated by a moving average,

    ``1 + v ← (1 - β)(1 + v) + β (1 + c Σ e^{z_k})``,

and the gradient step uses this estimate: ``w_k -= η c e^{z_k}/(1 + v) x``. In our state
``u = log(1 + v)``, and β is ``t^{-1/2}`` in the t-th epoch. As for vanilla SGD the gradients are
unbounded. (This is the basic form, without extrapolation between iterates.)
"""

from typing import NamedTuple

from monro._math import fast_exp, fast_log
from monro.softmax.rules.sums import log_sum_exp, weighted_exponentials


class Composition(NamedTuple):
    """A gradient step with the example's updated average."""

    log_keep: float  # log(1 - β); MASKED_SCORE in the first epoch, where β = 1
    log_take: float  # log β

    def input_score(self, p, rho, bias):  # type: ignore[no-untyped-def]
        return p + bias

    def step(self, eta, z, s, q_y, y, u, scratch):  # type: ignore[no-untyped-def]
        for lane in range(z.size):
            z[lane] += scratch.log_weight[lane] - s
        now = log_sum_exp(z, z.dtype.type(0.0))
        kept, taken = self.log_keep + u, self.log_take + now
        top = max(kept, taken)
        u = top + fast_log(fast_exp(kept - top) + fast_exp(taken - top))
        for lane in range(z.size):
            z[lane] += s - scratch.log_weight[lane]
        total = weighted_exponentials(z, scratch.log_weight, s + u, eta)
        return u, eta * total, now
